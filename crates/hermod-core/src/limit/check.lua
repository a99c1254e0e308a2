-- limit/check.lua, twin of limit/check.rs
-- KEYS    hm:{space/pp}:limit:<subject>  STRING  records (limit/records.lua)
-- ARGV    <BI8 act, cost>; shared: the rules (limit/meter.lua)
-- REPLY   the head of every rule's record: charged, or done as was asked; if a rule that enforces refused, as they are, and nothing was
--         changed; then 8 bytes that say nothing, as what is written is not copied for the reply. What is kept for an idempotency key is
--         'a' <I8 now> and the heads
-- What was given last, for all operations that differ in their keys only.
local given_at, act, cost, rules, count
-- What stands before the records in a string that holds those of these rules and no others, none longer than its head; where they
-- begin, also as SETRANGE counts, and how long that string is.
local contents, first_at, offset, own_size

-- Keeps a reply that ends with what says nothing.
local function keep_heads(keep, reply)
  keep('a' .. pack_ints('<I8', now) .. sub(reply, 1, -END_SIZE - 1))
end

-- Under any rules: all are tested before one is charged.
local function check_all(key, all, before, keep)
  local reply, last, latest = test(act, cost, rules, key, all, before)
  if last and act ~= PEEK then
    write(key, all, before, writes, last, latest)
    if keep then keep('a' .. pack_ints('<I8', now) .. reply) end
  end
  return reply .. NOTHING
end

-- Where nothing is owed any more, as most find it who come back after a while, all operations that differ in their keys only come to
-- the same, and it is made once for them: the reply, which is also what is written, where all of the rules are buckets and are
-- charged. `all` holds records of these rules and no others, the last of which ended at `before`; or there is none.
local fresh_reply, is_plain, fresh_till, fresh_span
local function check_afresh(key, all, before, keep)
  if not fresh_reply then
    local last
    fresh_reply, last, fresh_till = test(act, cost, rules, key, nil, 0)
    is_plain = only_buckets and count <= HERE_MAX and act ~= PEEK and last == 2 * count
    if is_plain then
      fresh_reply, fresh_span = fresh_reply .. pack_ints('<I8', fresh_till), fresh_till - fresh_till % slack_us
    end
  end
  if not is_plain then return check_all(key, all, before, keep) end
  if all then
    call('SETRANGE', key, offset, fresh_reply)
    if fresh_span > before then put_off(key, all, fresh_till) end
  else
    save(key, nil, contents .. fresh_reply, fresh_till, 0)
  end
  if keep then keep_heads(keep, fresh_reply) end
  return fresh_reply
end

-- Under one bucket, among the records of other rules.
local function check_one(key, all, before, keep)
  local at, next_at = place_of(all, rules.tags[1])
  if not at or next_at - at ~= HEAD_SIZE then return check_all(key, all, before, keep) end
  local value, refused, till = bucket(act, cost, all, rules[1], at)
  if refused > 0 then return check_all(key, all, before, keep) end
  if act == PEEK then return value .. NOTHING end
  if till < before then till = before end
  call('SETRANGE', key, format('%d', at - 1), value .. sub(all, next_at, -END_SIZE - 1) .. pack_ints('<I8', till))
  if till - till % slack_us > before then put_off(key, all, till) end
  if keep then keep('a' .. pack_ints('<I8', now) .. value) end
  return value .. NOTHING
end

-- Charges a bucket that counts in microseconds, given its record: what is owed then, and until when. Nothing where that is not plain: it refuses,
-- or the record is another meter's, or ahead of the clock. A function for each rule, as to look into a table takes as long as to compute.
local function charger(rule)
  local limit, period, room, debt_max = rule[3], rule[4], rule[9], rule[10]
  return rule[6] == 1 and function(kind, debt, unit, ts, ends)
    if kind ~= BUCKET or unit ~= period or ts > now or debt > debt_max then return nil end
    local drained, charge = (now - ts) * limit, cost * period
    if ends > now and drained < debt then charge = debt - drained + charge end
    if charge > room then return nil end
    return charge, now + (charge + -charge % limit) / limit
  end
end

-- What check_few needs, made once for these rules: the functions, and the formats of all heads and of what it writes.
local function few_of(rules)
  local few, heads, form = {}, '<', '<'
  for i = 1, count do
    few[i] = charger(rules[i])
    if not few[i] then return false end
    heads, form = heads .. sub(HEAD, 2), form .. 'BI8c16I8'
  end
  few.heads, few.form = heads, form .. 'I8'
  return few
end

-- What every record of a rule says then, whoever is charged: its unit and the time.
local function same_of(rule)
  return rule and pack_ints('<I8I8', rule[4], now)
end

-- Under up to three buckets, and no other rules: all are read by one call and written by one. What is not plain is left to check_all.
local charge1, charge2, charge3, same1, same2, same3, heads, form
local function check_few(key, all, before, keep)
  local kind1, owed1, unit1, ts1, ends1, kind2, owed2, unit2, ts2, ends2, kind3, owed3, unit3, ts3, ends3 = unpack_ints(heads, all, first_at)
  local debt1, till1 = charge1(kind1, owed1, unit1, ts1, ends1)
  if not debt1 then return check_all(key, all, before, keep) end
  local till, debt2, till2, debt3, till3 = till1, nil, nil, nil, nil
  if charge2 then
    debt2, till2 = charge2(kind2, owed2, unit2, ts2, ends2)
    if not debt2 then return check_all(key, all, before, keep) end
    if till < till2 then till = till2 end
  end
  if charge3 then
    debt3, till3 = charge3(kind3, owed3, unit3, ts3, ends3)
    if not debt3 then return check_all(key, all, before, keep) end
    if till < till3 then till = till3 end
  end
  if till < before then till = before end
  local reply
  if charge3 then
    reply = pack_ints(form, BUCKET, debt1, same1, till1, BUCKET, debt2, same2, till2, BUCKET, debt3, same3, till3, till)
  elseif charge2 then
    reply = pack_ints(form, BUCKET, debt1, same1, till1, BUCKET, debt2, same2, till2, till)
  else
    reply = pack_ints(form, BUCKET, debt1, same1, till1, till)
  end
  call('SETRANGE', key, offset, reply)
  if till - till % slack_us > before then put_off(key, all, till) end
  if keep then keep_heads(keep, reply) end
  return reply
end

define('limit_check', function(first_key, at, shared, keep)
  if at ~= given_at then
    act, cost = unpack_ints('<BI8', given, at)
    given_at, rules, fresh_reply = at, known[shared], nil
    count = #rules
    contents = rules.contents
    if not contents then
      contents = pack_ints('<I2', count)
      for i = 0, count - 1 do
        contents = contents .. pack_ints(ENTRY, rules.tags[i + 1], CONTENTS_AT + count * ENTRY_SIZE + i * HEAD_SIZE)
      end
      rules.contents = contents
    end
    first_at, offset = #contents + 1, format('%d', #contents)
    if rules.few == nil then rules.few = rules.are_buckets and count <= 3 and few_of(rules) end
    local few = act == CHECK and rules.few
    charge1 = few and few[1]
    if few then
      charge2, charge3, heads, form = few[2], few[3], few.heads, few.form
      same1, same2, same3 = same_of(rules[1]), same_of(rules[2]), same_of(rules[3])
    end
    own_size = #contents + count * HEAD_SIZE + END_SIZE
  end
  local key = KEYS[first_key]
  if count == 0 then return check_all(key, nil, 0, keep) end
  local all = call('GET', key)
  if not all then return check_afresh(key, nil, 0, keep) end
  local before = unpack_ints('<I8', all, #all - END_SIZE + 1)
  if #all == own_size and find(all, contents, 1, true) == 1 then
    if before <= now then return check_afresh(key, all, before, keep) end
    if charge1 then return check_few(key, all, before, keep) end
  elseif count == 1 and only_buckets then
    return check_one(key, all, before, keep)
  end
  return check_all(key, all, before, keep)
end, { begin = function()
  read_rules()
  given_at, fresh_reply = 0, nil
end })
