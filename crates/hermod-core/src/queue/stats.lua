-- queue/stats.lua, twin of queue/stats.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <I8I2 step, steps of the forecast>
-- REPLY   'n' <I8I8I8I8 now, next + 1, next end of a lease + 1, oldest that is ready + 1 (0: none)>
--         <I8I8I8I8 ready scheduled leased dead>, per step <I8>
local function both(min, max)
  return call('ZCOUNT', due, min, max) + call('ZCOUNT', base .. 'rest', min, max)
end

define('queue_stats', function(first_key, at)
  open(first_key)
  local step, steps = unpack_ints('<I8I2', given, at)
  local soonest, oldest = first(due), first(base .. 'rest')
  if not oldest or (soonest and soonest < oldest) then oldest = soonest end
  if oldest and oldest > now then oldest = nil end
  local ready = both('-inf', now)
  local scheduled = call('ZCARD', due) + call('ZCARD', base .. 'rest') - ready
  local reply = 'n' .. pack_ints('<I8I8I8I8I8I8I8I8', now, next_number(soonest), next_number(first(held)), next_number(oldest),
    ready, scheduled, call('ZCARD', held), call('ZCARD', base .. 'dead'))
  local from = now
  for _ = 1, steps do
    local through = after(from, step)
    reply = reply .. pack_ints('<I8', both('(' .. format('%d', from), through))
    from = through
  end
  return reply
end, { frees = true })
