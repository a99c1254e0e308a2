-- limit/check.lua, twin of limit/check.rs
-- KEYS    hm:{space/pp}:limit:<subject>  HASH  rule -> record (limit/meter.lua)
-- ARGV    <BI8 act, cost>; shared: the rules (limit/charge.lua)
-- REPLY   that of limit/charge.lua
-- Under one rule, as most are: no table is filled.
local function check_one(key, act, cost, id, rule, keep)
  local value, refused, till, ends
  local stored = call('HGET', key, id)
  if rule[1] == BUCKET then
    value, refused, till, ends = bucket(act, cost, stored, rule[3], rule[4], rule[5], rule[6], rule[7])
  else
    value, refused, till, ends = meter(act, cost, stored, rule)
    if not value then return 'T' .. pack_ints('<I8', now) end
  end
  local head = value
  if #value > HEAD_SIZE then head = sub(value, 1, HEAD_SIZE) end
  if refused > 0 and rule[2] == 0 then return denied .. head end
  local reply = allowed .. head
  if act ~= PEEK then
    if refused == 0 and rule[1] ~= BLOCK then
      call('HSET', key, id, value)
      if till - till % slack_us > ends then put_off(key, till, ends) end
    end
    if keep then keep(reply) end
  end
  return reply
end

return drive(function(first_key, at, shared, keep)
  local act, cost = unpack_ints('<BI8', given, at)
  local key, rules = KEYS[first_key], known[shared] or rules_of(shared)
  if #rules == 1 then return check_one(key, act, cost, rules.ids[1], rules[1], keep) end
  local reply, last, latest, before = test(key, act, cost, rules)
  if last and act ~= PEEK then
    write(key, last, latest, before)
    if keep then keep(reply) end
  end
  return reply
end)
