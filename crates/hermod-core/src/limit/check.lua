-- limit/check.lua, twin of limit/check.rs
-- KEYS    hm:{space/pp}:limit:<subject>  HASH  rule -> record (limit/meter.lua)
-- ARGV    <BI8 act, cost>; shared: the rules (limit/meter.lua)
-- REPLY   the head of every rule's record: charged, or done as was asked; if a rule that enforces refused, as
--         they are, and nothing was changed. What is kept for an idempotency key is 'a' <I8 now> and the same
-- What was given last, for all operations that differ in their keys only.
local given_at, act, cost, rules, ids, count = 0, nil, nil, nil, nil, nil
-- Under any rules: all are tested before one is charged.
local function check_all(key, stored, keep)
  local reply, last, latest, before = test(act, cost, rules, stored)
  if last and act ~= PEEK then
    write(key, last, latest, before)
    if keep then keep('a' .. pack_ints('<I8', now) .. reply) end
  end
  return reply
end

-- Acts on the record of a bucket, as meter() does. Where nothing is owed any more, as most find it who come back after
-- a while, all operations that differ in their keys only come to the same, and it is made once for them.
local function act_on_bucket(stored, rule)
  local ends = 0
  if stored then
    ends = unpack_ints('<I8', stored, ENDS)
    if ends > now then return bucket(act, cost, stored, rule) end
  end
  if not rule[11] then rule[11], rule[12], rule[13] = bucket(act, cost, nil, rule) end
  return rule[11], rule[12], rule[13], ends
end

-- Under two or three buckets, as most that are not under one: no table is filled, which is a tenth of the time.
local function check_few(key, keep)
  local id1, id2, id3 = ids[1], ids[2], ids[3]
  local stored, value3
  local refused3, till3, ends3 = 0, 0, 0
  if id3 then stored = call('HMGET', key, id1, id2, id3) else stored = call('HMGET', key, id1, id2) end
  local value1, refused1, till, ends = act_on_bucket(stored[1], rules[1])
  local value2, refused2, till2, ends2 = act_on_bucket(stored[2], rules[2])
  if id3 then value3, refused3, till3, ends3 = act_on_bucket(stored[3], rules[3]) end
  -- Whether what refused only shadows is looked at there.
  if refused1 + refused2 + refused3 > 0 then return check_all(key, stored, keep) end
  -- Those for whom all is made once have one reply, too: a text that is put together costs as much as its length.
  local is_alike = value1 == rules[1][11] and value2 == rules[2][11] and (not id3 or value3 == rules[3][11])
  local reply = is_alike and rules.reply
  if not reply then
    if id3 then reply = value1 .. value2 .. value3 else reply = value1 .. value2 end
    if is_alike then rules.reply = reply end
  end
  if act ~= PEEK then
    if id3 then call('HSET', key, id1, value1, id2, value2, id3, value3) else call('HSET', key, id1, value1, id2, value2) end
    if till2 > till then till, ends = till2, ends2 end
    if till3 > till then till, ends = till3, ends3 end
    if till - till % slack_us > ends then put_off(key, till, ends) end
    if keep then keep('a' .. pack_ints('<I8', now) .. reply) end
  end
  return reply
end

return drive(function(first_key, at, shared, keep)
  if at ~= given_at then
    act, cost = unpack_ints('<BI8', given, at)
    given_at, rules = at, known[shared]
    ids, count = rules.ids, #rules
    if only_buckets then
      for i = 1, count do rules[i][11] = false end
      rules.reply = false
    end
  end
  local key = KEYS[first_key]
  if count ~= 1 then
    if only_buckets and (count == 2 or count == 3) then return check_few(key, keep) end
    if count == 0 then return check_all(key, writes, keep) end
    return check_all(key, call('HMGET', key, unpack(ids)), keep)
  end
  -- Under one rule, as most are: no table is filled.
  local rule, id = rules[1], ids[1]
  local value, refused, till, ends
  if only_buckets then
    value, refused, till, ends = act_on_bucket(call('HGET', key, id), rule)
  else
    value, refused, till, ends = meter(act, cost, call('HGET', key, id), rule)
    if not value then return ask_again() end
  end
  local head = value
  if #value > HEAD_SIZE then head = sub(value, 1, HEAD_SIZE) end
  if act ~= PEEK and (refused == 0 or rule[2] == 1) then
    if refused == 0 and rule[1] ~= BLOCK then
      call('HSET', key, id, value)
      if till - till % slack_us > ends then put_off(key, till, ends) end
    end
    if keep then keep('a' .. pack_ints('<I8', now) .. head) end
  end
  return head
end)
