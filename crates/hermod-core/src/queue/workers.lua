-- queue/workers.lua, twin of queue/workers.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua and queue/owners.lua name
-- ARGV    <BI4Bc0 1: count what is behind, recipients counted before, worker ('': what is parked)>
-- REPLY   'k' <I8I8I8 now, recipients that wait for a worker, deliveries behind>, each worker
--         <Bc0I8I8I8I8BBB name incarnation until waiting in_flight, 0 gone 1 live 2 draining, why it is gone, points>
local COUNTED_MAX = 200

-- How many deliveries wait behind the first ones of a worker's recipients, of so many recipients after others.
local function behind(name, counted)
  -- What is held stands behind what waits.
  local heads = call('ZRANGE', base .. 'own:' .. name, counted, counted + COUNTED_MAX - 1)
  local sum = 0
  for i = 1, #heads do sum = sum + call('ZCARD', base .. 'wait:' .. sub(heads[i], 9)) end
  return sum
end

define('queue_workers', function(first_key, at)
  open(first_key)
  local counts, counted, name = unpack_ints('<BI4Bc0', given, at)
  local parked = call('ZCARD', base .. 'own:')
  if counts == 1 then return 'k' .. pack_ints('<I8I8I8', now, parked, behind(name, counted)) end
  local names, records, replies = call('ZUNION', 2, base .. 'ends', base .. 'leaving'), {}, {}
  table.sort(names)
  for i = 1, #names do records[i] = 'w' .. names[i] end
  if names[1] then records = call('HMGET', book, unpack(records)) end
  for i = 1, #names do
    local stored, own = records[i], base .. 'own:' .. names[i]
    local incarnation, till, gone, flags = unpack_ints(WORKER, stored)
    local standing = LIVE
    if gone ~= 0 then
      standing = GONE
    elseif has_flag(flags, DRAINS) then
      standing = DRAINING
    end
    replies[i] = pack_ints('<Bc0I8I8I8I8BBB', #names[i], names[i], incarnation, till, call('ZCOUNT', own, '-inf', '(inf'),
      call('ZCOUNT', own, 'inf', 'inf'), standing, gone, (#stored - WORKER_SIZE) / 8)
  end
  return 'k' .. pack_ints('<I8I8I8', now, parked, call('ZCARD', base .. 'rest')) .. concat(replies)
end, { frees = true })
