-- limit/meter.lua, twin of limit/meter.rs and limit/meter/*.rs: what scripts about limits share
-- KEYS    none of its own
-- ARGV    shared: the rules, each <c8 tag> <Bc0 id> <BB kind, 1: it only shadows> <I8I8I8I8I8 the meter (Meter::given)>
-- REPLY   none of its own: a record is <BI8I8I8I8 kind amount unit ts until> and, of kind SLIDING, marks
--         <I8I8 last count>; limit/tally.rs says what they mean
local BUCKET, WINDOW, CALENDAR, SLIDING, ESTIMATE, BLOCK = 1, 2, 3, 4, 5, 6
local CHECK, PEEK, FORCE, REFUND, UNDO = 0, 1, 2, 3, 4
local REFUSED = 128
local HEAD, HEAD_SIZE, MARK = '<BI8I8I8I8', 33, '<I8I8'
-- Where in a head its last number stands, when the record ends.
local ENDS = 26

-- A rule as it is computed with: { kind, 1: it only shadows, five integers }, and of a bucket what is the same for
-- all operations of the call: { 8: the tick that is now, 9: the most debt that is let in, 10: the largest debt }.
local function ruled(kind, shadow, p1, p2, p3, p4, p5)
  if kind ~= BUCKET then return { kind, shadow, p1, p2, p3, p4, p5 } end
  local most = p3 + p5
  return { kind, shadow, p1, p2, p3, p4, p5, (now - now % p4) / p4, most * p2, (most + p3) * p2 }
end

-- Whole tokens used, for a meter of another kind.
local function tokens(kind, amount, unit)
  if kind == BUCKET then return ceil(amount / unit) end
  if kind == ESTIMATE then return amount + unit end
  return amount
end

-- The stored debt in units of another period.
local function rescaled(kind, amount, unit, period, most)
  local whole, rest = tokens(kind, amount, unit), 0
  if kind == BUCKET then
    whole = floor(amount / unit)
    rest = amount - whole * unit
  end
  if whole >= most then return most * period end
  -- ceil(rest * period / unit), bit by bit: the product itself would not be exact.
  local b, quotient, remains, bit = period, 0, 0, 4503599627370496
  if rest > 0 then
    while bit >= 1 do
      quotient, remains = quotient * 2, remains * 2
      if b >= bit then b, remains = b - bit, remains + rest end
      while remains >= unit do quotient, remains = quotient + 1, remains - unit end
      bit = bit / 2
    end
    if remains > 0 then quotient = quotient + 1 end
  end
  return whole * period + quotient
end

-- `stored` holds the record from `at` on.
local function bucket(act, cost, stored, rule, at)
  local limit, period, tick, time, room = rule[3], rule[4], rule[6], rule[8], rule[9]
  local debt, ends = 0, 0
  if stored then
    local kind, amount, unit, ts
    kind, amount, unit, ts, ends = unpack_ints(HEAD, stored, at)
    if ends > now then
      local debt_max, old_time = rule[10], ts
      if kind == BUCKET and unit == period then
        debt = amount
        if debt > debt_max then debt = debt_max end
      else
        debt = rescaled(kind, amount, unit, period, rule[7] + 2 * rule[5])
      end
      if tick ~= 1 then old_time = (ts + -ts % tick) / tick end
      if time > old_time then
        -- Where the product is too large to be exact it is larger than any debt, as that of the cost below.
        local drained = (time - old_time) * limit
        if drained < debt then debt = debt - drained else debt = 0 end
      elseif old_time - time <= (debt_max + -debt_max % limit) / limit then
        time = old_time
      else
        debt = 0
      end
    end
  end
  local refused, charge = 0, cost * period
  if act <= PEEK then
    if debt + charge > room then
      refused = REFUSED
    elseif act == CHECK then
      debt = debt + charge
    end
  elseif act == FORCE then
    debt = debt + charge
    if debt > rule[10] then debt = rule[10] end
  elseif charge > debt then
    debt = 0
  else
    debt = debt - charge
  end
  local till = (time + (debt + -debt % limit) / limit) * tick
  if (refused > 0 or act == PEEK) and ends > now and ends < till then till = ends end
  return pack_ints(HEAD, BUCKET + refused, debt, period, time * tick, till), refused, till
end

-- What becomes of a plain count, and whether the cost did not fit.
local function act_on(act, count, cost, limit)
  if act <= PEEK then
    if cost > limit or count > limit - cost then return count, REFUSED end
    if act == CHECK then return count + cost, 0 end
    return count, 0
  end
  if act >= REFUND then
    if cost > count then return 0, 0 end
    return count - cost, 0
  end
  local more = 2 * limit - count
  if more < 0 then more = 0 end
  if cost < more then more = cost end
  return count + more, 0
end

local function window(act, cost, stored, limit, start, turn, next_turn)
  local count, ts, refused, ends = 0, now, 0, 0
  if stored then
    local kind, amount, unit, old_ts
    kind, amount, unit, old_ts, ends = unpack_ints(HEAD, stored)
    -- What was charged in a window after the next is from a future that was never real.
    if ends > now and old_ts < next_turn then
      if old_ts >= turn then start, turn = turn, next_turn end
      if old_ts >= start then
        count = tokens(kind, amount, unit)
        if old_ts > ts then ts = old_ts end
      end
    end
  end
  count, refused = act_on(act, count, cost, limit)
  local till = now
  if count > 0 then till = turn end
  if ends > now and ends < till and (refused > 0 or act == PEEK) then till = ends end
  return pack_ints(HEAD, WINDOW + refused, count, 1, ts, till), refused, till
end

local function sliding(act, cost, stored, limit, period, width)
  local used, marks, ends = 0, '', 0
  if stored then
    local kind, amount, unit, ts
    kind, amount, unit, ts, ends = unpack_ints(HEAD, stored)
    if ends > now and ts <= now + period + width then
      if kind == SLIDING then
        local at, size = HEAD_SIZE + 1, #stored
        used = amount
        while at <= size do
          local last, count = unpack_ints(MARK, stored, at)
          if last + period > now then break end
          used, at = used - count, at + 16
        end
        marks = sub(stored, at)
      else
        local count = tokens(kind, amount, unit)
        if count > 0 and ts + period > now then used, marks = count, pack_ints(MARK, ts, count) end
      end
    end
  end
  local refused, unit = 0, 1
  if act <= PEEK and (cost > limit or used > limit - cost) then
    refused = REFUSED
    if cost <= limit then
      -- The mark with which so many have left that it fits.
      local short, at = used + cost - limit, 1
      while true do
        local last, count = unpack_ints(MARK, marks, at)
        if count >= short then
          unit = last + period
          break
        end
        short, at = short - count, at + 16
      end
    end
  elseif act == REFUND then
    -- The oldest first: what remains counts no shorter than it would have.
    local rest, at, size = cost, 1, #marks
    while at <= size do
      local last, count = unpack_ints(MARK, marks, at)
      if count > rest then
        marks = pack_ints(MARK, last, count - rest) .. sub(marks, at + 16)
        used, rest, at = used - rest, 0, nil
        break
      end
      used, rest, at = used - count, rest - count, at + 16
    end
    if at then marks = sub(marks, at) end
  elseif act == UNDO then
    -- The newest first: those that were charged a moment ago.
    local rest, size = cost, #marks
    while size > 0 do
      local last, count = unpack_ints(MARK, marks, size - 15)
      size = size - 16
      if count > rest then
        marks = sub(marks, 1, size) .. pack_ints(MARK, last, count - rest)
        used, size = used - rest, nil
        break
      end
      used, rest = used - count, rest - count
      if rest == 0 then break end
    end
    if size then marks = sub(marks, 1, size) end
  elseif act ~= PEEK then
    local added = cost
    if act == FORCE then
      local more = 2 * limit - used
      if more < 0 then more = 0 end
      if more < added then added = more end
    end
    if added > 0 then
      local last, size = now - now % width + width - 1, #marks
      local newest, count = 0, 0
      if size > 0 then newest, count = unpack_ints(MARK, marks, size - 15) end
      if newest >= last then
        marks = sub(marks, 1, size - 16) .. pack_ints(MARK, newest, count + added)
      else
        marks = marks .. pack_ints(MARK, last, added)
      end
      used = used + added
    end
  end
  local till, ts, size = now, now, #marks
  if size > 0 then
    ts = unpack_ints('<I8', marks, size - 15)
    till = ts + period
  end
  if ends > now and ends < till and (refused > 0 or act == PEEK) then till = ends end
  return pack_ints(HEAD, SLIDING + refused, used, unit, ts, till) .. marks, refused, till
end

local function estimate(act, cost, stored, limit, period, tick)
  local this, last, time, ends = 0, 0, (now - now % tick) / tick, 0
  if stored then
    local kind, amount, unit, ts
    kind, amount, unit, ts, ends = unpack_ints(HEAD, stored)
    local old_time = ceil(ts / tick)
    -- From further ahead than a whole period: a future that was never real.
    if ends > now and old_time <= time + period then
      if old_time > time then time = old_time end
      local old_this, old_last = amount, unit
      if kind ~= ESTIMATE then old_this, old_last = tokens(kind, amount, unit), 0 end
      if old_this > 2 * limit then old_this = 2 * limit end
      if old_last > 2 * limit then old_last = 2 * limit end
      local turns = ((time - time % period) - (old_time - old_time % period)) / period
      if turns == 0 then
        this, last = old_this, old_last
      elseif turns == 1 then
        last = old_this
      end
    end
  end
  local used = this + ceil(last * (period - time % period) / period)
  local refused = 0
  if act <= PEEK then
    if cost > limit or used > limit - cost then
      refused = REFUSED
    elseif act == CHECK then
      this = this + cost
    end
  elseif act == FORCE then
    this = act_on(FORCE, this, cost, limit)
  else
    local rest = cost - this
    if rest > 0 then
      this = 0
      if rest > last then last = 0 else last = last - rest end
    else
      this = this - cost
    end
  end
  local turn, till = time - time % period, now
  if this > 0 then
    till = (turn + 2 * period) * tick
  elseif last > 0 then
    till = (turn + period) * tick
  end
  if ends > now and ends < till and (refused > 0 or act == PEEK) then till = ends end
  return pack_ints(HEAD, ESTIMATE + refused, this, last, time * tick, till), refused, till
end

-- Brings a record to now and acts on it: the record afterwards, whether it refused (0: not), and when the
-- record ends. Nothing, if what was given is about another time. A record that is not written anew ends when it says, also where it would last longer.
local function any_kind(act, cost, stored, rule)
  local kind, p1, p2, p3, p4 = rule[1], rule[3], rule[4], rule[5], rule[6]
  if kind == BUCKET then return bucket(act, cost, stored, rule) end
  if kind == SLIDING then return sliding(act, cost, stored, p1, p2, p3) end
  if kind == WINDOW then
    local start = now - now % p2
    return window(act, cost, stored, p1, start, start + p2, start + 2 * p2)
  end
  if kind == CALENDAR then
    if now < p2 or now >= p3 then return nil end
    return window(act, cost, stored, p1, p2, p3, p4)
  end
  if kind == ESTIMATE then return estimate(act, cost, stored, p1, p2, p3) end
  -- A ban: nothing is counted, and nothing is written.
  local refused = 0
  if act <= FORCE then refused = REFUSED end
  return pack_ints(HEAD, BLOCK + refused, 0, 1, now, now), refused, now
end

-- The same for the rules of the call: any_kind, or bucket where all are of that kind, as mostly.
local meter
-- Rules by what is shared, and whether all of them are buckets: they are read once for all operations of the call.
local known, only_buckets = { [0] = { tags = {}, ids = {}, are_buckets = true } }, false
-- Rules by what was given, as the next call mostly has the same: to read three takes as long as to check them. All are forgotten when there are
-- so many.
local READ_MAX = 64
local read_before, read_count = {}, 0

-- Rules as they are given.
local function read_given(bytes)
  local tags, ids, at, size = {}, {}, 1, #bytes
  local rules, n = { tags = tags, ids = ids, are_buckets = true }, 0
  while at <= size do
    local tag, id, kind, shadow, p1, p2, p3, p4, p5
    tag, id, kind, shadow, p1, p2, p3, p4, p5, at = unpack_ints('<c8Bc0BBI8I8I8I8I8', bytes, at)
    n = n + 1
    rules[n], tags[n], ids[n] = ruled(kind, shadow, p1, p2, p3, p4, p5), tag, id
    if kind ~= BUCKET then rules.are_buckets = false end
  end
  if read_count == READ_MAX then read_before, read_count = {}, 0 end
  read_before[bytes], read_count = rules, read_count + 1
  return rules
end

-- Reads the rules of the call. Where none are given they stand in records, and can be of any kind.
local function read_rules()
  local last = #ARGV - 2
  only_buckets = last > 0
  for shared = 1, last do
    local rules = read_before[ARGV[shared + 2]]
    if rules then
      for i = 1, #rules do
        local rule = rules[i]
        if rule[1] == BUCKET then rule[8] = (now - now % rule[6]) / rule[6] end
      end
    else
      rules = read_given(ARGV[shared + 2])
    end
    only_buckets = only_buckets and rules.are_buckets
    known[shared] = rules
  end
  meter = only_buckets and bucket or any_kind
end
