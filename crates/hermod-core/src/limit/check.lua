-- limit/check.lua, twin of limit/check.rs
-- KEYS    hm:{space/pp}:limit:<subject>  HASH  rule -> record (limit/meter.lua)
-- ARGV    <BI8 act, cost>; shared: the rules (limit/meter.lua)
-- REPLY   the head of every rule's record: charged, or done as was asked; if a rule that enforces refused, as
--         they are, and nothing was changed. What is kept for an idempotency key is 'a' <I8 now> and the same
-- What was given last, for all operations that differ in their keys only.
local given_at, act, cost, rules, ids, count
-- Under any rules: all are tested before one is charged.
local function check_all(key, stored, keep)
  local reply, last, latest, before = test(act, cost, rules, stored)
  if last and act ~= PEEK then
    write(key, writes, last, latest, before)
    if keep then keep('a' .. pack_ints('<I8', now) .. reply) end
  end
  return reply
end

-- Where nothing is owed any more, as most find it who come back after a while, all operations that differ in their keys only come to
-- the same, and it is made once for them: the reply, and what is written. `before` is when the last record ended.
local none, fresh, fresh_reply, fresh_last, fresh_till = {}, {}, nil, nil, nil
local function check_afresh(key, before, keep)
  if not fresh_reply then
    fresh_reply, fresh_last, fresh_till = test(act, cost, rules, none)
    for i = 1, fresh_last or 0 do fresh[i] = writes[i] end
  end
  if fresh_last and act ~= PEEK then
    if fresh_last == 2 then
      call('HSET', key, fresh[1], fresh[2])
      if fresh_till - fresh_till % slack_us > before then put_off(key, fresh_till, before) end
    else
      write(key, fresh, fresh_last, fresh_till, before)
    end
    if keep then keep('a' .. pack_ints('<I8', now) .. fresh_reply) end
  end
  return fresh_reply
end

local function begin()
  read_rules()
  given_at, fresh_reply = 0, nil
end

-- Under two or three buckets, as most that are not under one: no table is filled, which is a tenth of the time.
local function check_few(key, keep)
  local id1, id2, id3 = ids[1], ids[2], ids[3]
  local stored
  if id3 then stored = call('HMGET', key, id1, id2, id3) else stored = call('HMGET', key, id1, id2) end
  local stored1, stored2, stored3, before, ends = stored[1], stored[2], stored[3], 0, 0
  if stored1 then before = unpack_ints('<I8', stored1, ENDS) end
  if stored2 then
    ends = unpack_ints('<I8', stored2, ENDS)
    if ends > before then before = ends end
  end
  if stored3 then
    ends = unpack_ints('<I8', stored3, ENDS)
    if ends > before then before = ends end
  end
  if before <= now then return check_afresh(key, before, keep) end
  local value1, refused1, till = bucket(act, cost, stored1, rules[1])
  local value2, refused2, till2 = bucket(act, cost, stored2, rules[2])
  local value3, refused3, till3 = '', 0, 0
  if id3 then value3, refused3, till3 = bucket(act, cost, stored3, rules[3]) end
  -- Whether what refused only shadows is looked at there.
  if refused1 + refused2 + refused3 > 0 then return check_all(key, stored, keep) end
  local reply = value1 .. value2 .. value3
  if act ~= PEEK then
    if id3 then call('HSET', key, id1, value1, id2, value2, id3, value3) else call('HSET', key, id1, value1, id2, value2) end
    if till2 > till then till = till2 end
    if till3 > till then till = till3 end
    if till - till % slack_us > before then put_off(key, till, before) end
    if keep then keep('a' .. pack_ints('<I8', now) .. reply) end
  end
  return reply
end

define('limit_check', function(first_key, at, shared, keep)
  if at ~= given_at then
    act, cost = unpack_ints('<BI8', given, at)
    given_at, rules, fresh_reply = at, known[shared], nil
    ids, count = rules.ids, #rules
  end
  local key = KEYS[first_key]
  if count ~= 1 then
    if only_buckets and (count == 2 or count == 3) then return check_few(key, keep) end
    if count == 0 then return check_all(key, writes, keep) end
    return check_all(key, call('HMGET', key, unpack(ids)), keep)
  end
  -- Under one rule, as most are: no table is filled.
  local rule, id, stored = rules[1], ids[1], call('HGET', key, ids[1])
  if only_buckets then
    local before = 0
    if stored then before = unpack_ints('<I8', stored, ENDS) end
    if before <= now then return check_afresh(key, before, keep) end
  end
  local value, refused, till, ends = meter(act, cost, stored, rule)
  if not value then return ask_again() end
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
end, { begin = begin })
