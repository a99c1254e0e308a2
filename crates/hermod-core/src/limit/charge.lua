-- limit/charge.lua, twin of limit/charge.rs: what scripts share that test every rule, and charge all or none
-- KEYS    none of its own: hm:{space/pp}:limit:<subject>  HASH  rule -> record (limit/meter.lua)
-- ARGV    shared: the rules, each <Bc0 id> <BB kind, 1: it only shadows> <I8I8I8I8I8 the meter>
-- REPLY   'a' <I8 now> and the head of every rule's record: charged, or done as was asked
--       | 'd' <I8 now> and the same: at least one refused; nothing was changed
local allowed, denied = 'a' .. pack_ints('<I8', now), 'd' .. pack_ints('<I8', now)
-- Rules as they are computed with, read once for all operations that share them.
local known = {}

local function rules_of(shared)
  local rules, bytes, at = { ids = {} }, shared_by(shared), 1
  while at <= #bytes do
    local id, kind, shadow, p1, p2, p3, p4, p5
    id, kind, shadow, p1, p2, p3, p4, p5, at = unpack_ints('<Bc0BBI8I8I8I8I8', bytes, at)
    rules[#rules + 1] = { kind, shadow, p1, p2, p3, p4, p5 }
    rules.ids[#rules] = id
  end
  known[shared] = rules
  return rules
end

-- What is to be written: rule, record, and so on. Used again by every operation of the call.
local writes, shown = {}, {}

-- Tests every rule: the reply; and if none refused, how many of `writes` are to be written, the end of the
-- record for which collecting the key must be put off (0: none), and its end before. Nothing is written yet.
local function test(key, act, cost, rules)
  local count, ids, stored = #rules, rules.ids, {}
  if count > 0 then stored = call('HMGET', key, unpack(ids)) end
  local refused, last, latest, before = false, 0, 0, 0
  for i = 1, count do
    local rule = rules[i]
    local value, over, till, ends
    if rule[1] == BUCKET then
      value, over, till, ends = bucket(act, cost, stored[i], rule[3], rule[4], rule[5], rule[6], rule[7])
    else
      value, over, till, ends = meter(act, cost, stored[i], rule)
      if not value then return 'T' .. pack_ints('<I8', now) end
    end
    if over == 0 and rule[1] ~= BLOCK then
      writes[last + 1], writes[last + 2] = ids[i], value
      last = last + 2
      if till > latest and till - till % slack_us > ends then latest, before = till, ends end
    elseif over > 0 and rule[2] == 0 then
      refused = true
      break
    end
    if #value > HEAD_SIZE then value = sub(value, 1, HEAD_SIZE) end
    shown[i] = value
  end
  if not refused then return allowed .. table.concat(shown, '', 1, count), last, latest, before end
  -- Those that admitted are shown as they are, uncharged.
  local reply = denied
  for i = 1, count do
    local value = meter(PEEK, cost, stored[i], rules[i])
    if not value then return 'T' .. pack_ints('<I8', now) end
    reply = reply .. sub(value, 1, HEAD_SIZE)
  end
  return reply
end

-- Writes what was tested.
local function write(key, last, latest, before)
  if last > 0 then
    call('HSET', key, unpack(writes, 1, last))
    if latest > 0 then put_off(key, latest, before) end
  end
end
