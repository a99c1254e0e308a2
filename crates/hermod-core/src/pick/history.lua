-- pick/history.lua, twin of pick/history.rs and pick/reserved.rs: what scripts about picks share
-- KEYS    none of its own: hm:{space/pp}:pick:<deck>:<epoch>:<subject>  HASH
--           h            <I8I8I8 seq generation until> and the subject's cap, a record (limit/meter.lua) or nothing
--           r            reserved picks, each <BI8I4I8 fate number ordinal expires> and, while it is open, <I8I8I8 seq was
--                        was_sent_at> <BI8I8I8I8I8 meter> <I8 ends> <BI8I8I8I8I8 cap> <I8 cap_ends>
--           <ordinal>    <I8I8 seq sent_at> and the message's cap, a record or nothing
--           o<chunk>     a bit for each of 1024 ordinals
-- ARGV    none of its own
-- REPLY   none of its own
local OLD, KEEP_US, DAY_US, SETTLED_MAX = 9007199254740991, 34560000000000, 86400000000, 32
local OPEN, ACKED, NACKED, EXPIRED = 0, 1, 2, 3
local RESERVED, BEFORE = '<BI8I4I8', '<I8I8I8BI8I8I8I8I8I8BI8I8I8I8I8I8'
local RESERVED_SIZE, BEFORE_SIZE = 21, 122

-- One history, as it is read and changed; nothing is written before save(). It ended at ended_at when it was read.
local key, events, seq, generation, ends_at, ended_at, cap, reserved, was_over
-- Entries and chunks by field: what they are now, false if there is none; and the fields that were changed.
local parts, changed
-- What happened, in order: events but for whom they are about.
local happened

-- A number as the field of an ordinal or a chunk.
local function name(n) return format('%d', n) end

local function happens(kind, number, ordinal)
  happened[#happened + 1] = pack_ints('<BI8I8I4', kind, now, number, ordinal)
end

local function load(of_key, of_events, stored)
  key, events, parts, changed, happened = of_key, of_events, {}, {}, {}
  stored = stored or call('HMGET', key, 'h', 'r')
  seq, generation, ends_at, ended_at, cap, reserved, was_over = 0, 0, 0, 0, '', {}, false
  if not stored[1] then return end
  seq, generation, ends_at = unpack_ints('<I8I8I8', stored[1])
  if ends_at <= now then
    -- All of it means nothing any more.
    seq, generation, ends_at, was_over = 0, 0, 0, true
    return
  end
  ended_at = ends_at
  cap = sub(stored[1], 25)
  local list, at = stored[2] or '', 1
  while at <= #list do
    local fate, number, ordinal, expires = unpack_ints(RESERVED, list, at)
    local one = { fate, number, ordinal, expires, sub(list, at, at + RESERVED_SIZE - 1) }
    at = at + RESERVED_SIZE
    if fate == OPEN then
      one[6] = sub(list, at, at + BEFORE_SIZE - 1)
      at = at + BEFORE_SIZE
    end
    reserved[#reserved + 1] = one
  end
end

local function part(field)
  local value = parts[field]
  if value == nil then
    value = not was_over and call('HGET', key, field)
    parts[field] = value
  end
  return value
end

local function set_part(field, value)
  parts[field] = value
  changed[field] = true
end

-- Sets or clears the bit of an ordinal.
local function set_old(ordinal, is_old)
  local place = ordinal % 1024
  local field = 'o' .. name((ordinal - place) / 1024)
  local chunk = part(field)
  if not chunk then
    if not is_old then return end
    chunk = string.rep('\0', 128)
  end
  local at, mask = (place - place % 8) / 8 + 1, 2 ^ (place % 8)
  local bits = byte(chunk, at)
  local is_set = floor(bits / mask) % 2 == 1
  if is_set == is_old then return end
  if is_old then bits = bits + mask else bits = bits - mask end
  chunk = sub(chunk, 1, at - 1) .. string.char(bits) .. sub(chunk, at + 1)
  if not string.find(chunk, '[^%z]') then chunk = false end
  set_part(field, chunk)
end

-- What a record is after one token was given back.
local function returned(count, ends, is_last, kind, p1, p2, p3, p4, p5)
  if #count == 0 or kind == 0 then return count end
  if kind == CALENDAR and (now < p2 or now >= p3) then return count end
  if now >= ends then return count end
  if kind == BUCKET then
    -- What was charged last drains last: it is what drains from now until then.
    local own = (floor(ends / p4) - floor(now / p4)) * p1
    if own > p2 then own = p2 end
    local _, debt, _, ts = unpack_ints(HEAD, (bucket(PEEK, 0, count, ruled(kind, 0, p1, p2, p3, p4, p5))))
    if own < debt then debt = debt - own else debt = 0 end
    local till = ts + ceil(debt / p1) * p4
    if till <= now then return '' end
    return pack_ints(HEAD, BUCKET, debt, p2, ts, till)
  end
  -- Of marks the newest if it is this one; else the oldest, which counts no shorter than it would have.
  local act = REFUND
  if is_last then act = UNDO end
  local value, _, till = meter(act, 1, count, ruled(kind, 0, p1, p2, p3, p4, p5))
  if till <= now then return '' end
  return value
end

-- As if it had not been sent, as far as that can be.
local function give_back(ordinal, before)
  local its_seq, was, was_sent_at, kind, p1, p2, p3, p4, p5, ends, c_kind, c1, c2, c3, c4, c5, c_ends = unpack_ints(BEFORE, before)
  local field = name(ordinal)
  local entry = part(field)
  if entry then
    local entry_seq, sent_at = unpack_ints('<I8I8', entry)
    local is_last = entry_seq == its_seq
    local count = returned(sub(entry, 17), ends, is_last, kind, p1, p2, p3, p4, p5)
    if is_last and (was == 0 or was == OLD) then
      set_part(field, false)
      if was == OLD then set_old(ordinal, true) end
    else
      if is_last then
        entry_seq, sent_at = was, was_sent_at
      else
        -- Whoever has this one before it has from now on what was before this one.
        for i = 1, #reserved do
          local other = reserved[i]
          if other[6] and other[3] == ordinal then
            local its, its_was = unpack_ints('<I8I8', other[6])
            if its_was == its_seq then other[6] = pack_ints('<I8I8I8', its, was, was_sent_at) .. sub(other[6], 25) end
          end
        end
      end
      set_part(field, pack_ints('<I8I8', entry_seq, sent_at) .. count)
    end
  end
  cap = returned(cap, c_ends, seq == its_seq, c_kind, c1, c2, c3, c4, c5)
end

-- Settles one that is open.
local function settle(index, fate)
  local one = reserved[index]
  local before = one[6]
  reserved[index] = { fate, one[2], one[3], one[4], pack_ints(RESERVED, fate, one[2], one[3], one[4]) }
  -- The kinds of events follow the fates.
  happens(PICKED + fate, one[2], one[3])
  if fate ~= ACKED then
    give_back(one[3], before)
    generation = generation + 1
  end
  local settled, oldest = 0, nil
  for i = 1, #reserved do
    if reserved[i][1] ~= OPEN then
      settled = settled + 1
      oldest = oldest or i
    end
  end
  if settled > SETTLED_MAX then table.remove(reserved, oldest) end
end

-- How many are to be given back, how many are open otherwise, and the first end of those.
local function count_reserved()
  local due, open, first = 0, 0, nil
  for i = 1, #reserved do
    local one = reserved[i]
    if one[1] == OPEN then
      if one[4] <= now then
        due = due + 1
      else
        open = open + 1
        if not first or one[4] < first then first = one[4] end
      end
    end
  end
  return due, open, first or now
end

-- Gives back what has expired.
local function expire()
  local due = {}
  for i = 1, #reserved do
    if reserved[i][1] == OPEN and reserved[i][4] <= now then due[#due + 1] = reserved[i][2] end
  end
  for i = 1, #due do
    for at = 1, #reserved do
      if reserved[at][2] == due[i] and reserved[at][1] == OPEN then
        settle(at, EXPIRED)
        break
      end
    end
  end
end

-- Puts off when a history may be collected, if its end was moved to another day: so once a day at most, and by a day more.
local function put_off_end(name, was, ends)
  if was - was % DAY_US ~= ends - ends % DAY_US then
    call('PEXPIRE', name, format('%d', (KEEP_US + DAY_US) / 1000 + 2 * slack_ms))
  end
end

-- Writes what happened.
local function tell()
  local _, at = string.find(key, '}:pick:', 1, true)
  local whose = sub(key, at + 1)
  for i = 1, #happened do log_event(events, happened[i] .. whose) end
  put_off_end(key, ended_at, ends_at)
end

-- Writes all that was changed, and what happened.
local function save(with_reserved)
  if was_over then call('DEL', key) end
  local writes, removes = { 'h', pack_ints('<I8I8I8', seq, generation, ends_at) .. cap }, {}
  for field in pairs(changed) do
    local value = parts[field]
    if value then
      writes[#writes + 1], writes[#writes + 2] = field, value
    else
      removes[#removes + 1] = field
    end
  end
  if with_reserved then
    if #reserved == 0 then
      removes[#removes + 1] = 'r'
    else
      local list = {}
      for i = 1, #reserved do list[i] = reserved[i][5] .. (reserved[i][6] or '') end
      writes[#writes + 1], writes[#writes + 2] = 'r', concat(list)
    end
  end
  call('HSET', key, unpack(writes))
  if #removes > 0 then call('HDEL', key, unpack(removes)) end
  tell()
end
