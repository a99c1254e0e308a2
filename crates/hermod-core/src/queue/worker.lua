-- queue/worker.lua, twin of queue/worker.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua and queue/owners.lua name
-- ARGV    <BI8 1: sticky, floor> <B act (0 join, 1 renew, 2 close, 3 drain, 4 leave)> <I8I8 ttl, idle after>
--         <I2B attempts at most, 1: dropped after the last> <I2 workers>, each <Bc0I8I8B name incarnation age points>, each point8
-- REPLY   'w' <I8I8I8 now, next end of a worker's lease + 1 (0: none), recipients that wait for a worker>
--         <I2B dead more> <I2 workers>, each <BI8 0 gone 1 live 2 draining 3 full, incarnation>
--         <I2I2I2 lost moved woken>, each <I8Bc0 time owner>
local JOIN, CLOSE, DRAIN, LEAVE = 0, 2, 3, 4
local WORKERS_MAX, MOVED_MAX, TRIM_MAX = 1000, 25, 50

local function renew(name, old, incarnation, till, flags)
  keep_worker(name, old, incarnation, till, 0, flags, sub(old, WORKER_SIZE + 1))
  if has_flag(flags, DRAINS) then return DRAINING, incarnation end
  return LIVE, incarnation
end

local function without(flags, flag)
  if has_flag(flags, flag) then return flags - flag end
  return flags
end

local function with(flags, flag)
  if has_flag(flags, flag) then return flags end
  return flags + flag
end

local function later(a, b)
  if a > b then return a end
  return b
end

local function tell(act, ttl, name, incarnation, age, points)
  local till = after(now, ttl) - age
  if till < 0 then till = 0 end
  local known, known_till, gone, flags, old = worker_of(name)
  if act == JOIN then
    if incarnation == 0 then incarnation = number() end
    if known then
      if known > incarnation then return GONE, known end
      if known == incarnation and gone == 0 then
        return renew(name, old, known, later(till, known_till), without(flags, CLOSES))
      end
    elseif #call('ZUNION', 2, base .. 'ends', base .. 'leaving') >= WORKERS_MAX then
      return FULL, 0
    end
    local begins = 0
    if call('ZCOUNT', base .. 'own:' .. name, 'inf', 'inf') > 0 then begins = LEAVES end
    keep_worker(name, old, incarnation, till, 0, begins, points)
    return LIVE, incarnation
  end
  if not known or gone ~= 0 or (known ~= incarnation and not (incarnation == 0 and (act == DRAIN or act == LEAVE))) then return GONE, 0 end
  if act == CLOSE then
    if known_till < till then till = known_till end
    return renew(name, old, known, till, with(flags, CLOSES))
  end
  if act == DRAIN then return renew(name, old, known, known_till, with(with(flags, DRAINS), LEAVES)) end
  if act == LEAVE then
    dismiss(name, LEFT)
    return GONE, known
  end
  return renew(name, old, known, later(till, known_till), without(flags, CLOSES))
end

-- Forgets the owners of recipients for whom there was nothing for so long. Those for whom there is something again are found here.
local function trim(idle_after)
  if now < idle_after then return end
  local over = call('ZRANGEBYSCORE', base .. 'idle', '-inf', now - idle_after, 'LIMIT', '0', TRIM_MAX)
  if not over[1] then return end
  -- What was moved is read again.
  close()
  local fields = {}
  for i = 1, #over do fields[i] = 'l' .. over[i] end
  local lines = call('HMGET', book, unpack(fields))
  call('ZREM', base .. 'idle', unpack(over))
  for i = 1, #over do
    if not lines[i] then set('b' .. over[i], false) end
  end
end

define('queue_worker', function(first_key, at)
  open(first_key)
  local act, ttl, idle_after, most, drops, count
  act, ttl, idle_after, most, drops, count, at = unpack_ints('<BI8I8I2BI2', given, agree(at))
  local members = {}
  for i = 1, count do
    local name, incarnation, age, points
    name, incarnation, age, points, at = unpack_ints('<Bc0I8I8B', given, at)
    members[i] = pack_ints('<BI8', tell(act, ttl, name, incarnation, age, sub(given, at, at + 8 * points - 1)))
    at = at + 8 * points
  end
  local died, more = clear_up(most, drops, MOVED_MAX)
  trim(idle_after)
  close()
  local more_number = 0
  if more then more_number = 1 end
  return 'w' .. pack_ints('<I8I8I8I2BI2', now, next_number(first(base .. 'ends')), call('ZCARD', base .. 'own:'),
    died, more_number, count) .. concat(members) .. woken()
end, { frees = true, begin = begin_tending })
