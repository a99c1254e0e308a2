-- limit/check.lua, twin of limit/check.rs
-- KEYS    hm:{space/pp}:limit:<subject>  HASH  rule -> record (limit/meter.lua), '' -> when it may be collected
-- ARGV    <BBI8 act, rules, cost>, per rule <Bc0 id> <BB kind, 1: it only shadows> <I8I8I8I8I8 the meter>
-- REPLY   'a' <I8 now> and the head of every rule's record: charged, or done as was asked
--       | 'd' <I8 now> and the same: at least one refused; nothing was changed
local ids, values, starts, writes = { 'HMGET' }, {}, {}, { 'HSET' }
local ids_count = 0
local allowed, denied = 'a' .. pack_ints('<I8', now), 'd' .. pack_ints('<I8', now)

return drive(function(first_key, at, keep)
  local act, count, cost
  act, count, cost, at = unpack_ints('<BBI8', given, at)
  local key = KEYS[first_key]
  -- The tables are used again: one of each serves all operations of the call.
  ids[2], ids[3], writes[2] = key, '', key
  for i = 1, count do
    ids[i + 3], at = unpack_ints('<Bc0', given, at)
    starts[i] = at
    at = at + 42
  end
  for i = count + 4, ids_count do ids[i] = nil end
  ids_count = count + 3
  local stored = call(unpack(ids, 1, ids_count))

  local refused, latest, last, reply = false, 0, 2, ''
  for i = 1, count do
    local kind, shadow, p1, p2, p3, p4, p5 = unpack_ints('<BBI8I8I8I8I8', given, starts[i])
    local value, over, till = meter(act, cost, stored[i + 1], kind, p1, p2, p3, p4, p5)
    if not value then return 'T' .. pack_ints('<I8', now) end
    if over == 0 then
      writes[last + 1], writes[last + 2] = ids[i + 3], value
      last = last + 2
      if till > latest then latest = till end
    elseif shadow == 0 then
      refused = true
      break
    end
    if #value > HEAD_SIZE then value = sub(value, 1, HEAD_SIZE) end
    reply = reply .. value
  end

  if refused then
    -- Those that admitted are shown as they are, uncharged.
    reply = denied
    for i = 1, count do
      local kind, _, p1, p2, p3, p4, p5 = unpack_ints('<BBI8I8I8I8I8', given, starts[i])
      local value = meter(PEEK, cost, stored[i + 1], kind, p1, p2, p3, p4, p5)
      if not value then return 'T' .. pack_ints('<I8', now) end
      reply = reply .. sub(value, 1, HEAD_SIZE)
    end
    return reply
  end
  reply = allowed .. reply
  if act ~= PEEK then
    if last > 2 then
      -- Put off further than it must be, so that it is seldom done.
      if not stored[1] or tonumber(stored[1]) < latest then
        last = last + 2
        writes[last - 1], writes[last] = '', format('%d', latest + slack_ms * 1000)
        call('HSET', unpack(writes, 2, last))
        call('PEXPIRE', key, format('%d', ceil((latest - now) / 1000) + 2 * slack_ms))
      else
        call('HSET', unpack(writes, 2, last))
      end
    end
    if keep then keep(reply) end
  end
  return reply
end)
