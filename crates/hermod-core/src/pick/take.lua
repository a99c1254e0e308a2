-- pick/take.lua, twin of pick/take.rs
-- KEYS    hm:{space/pp}:pick:<deck>:<epoch>:<subject>  HASH (pick/history.lua)
--         hm:{space/pp}:subject:<subject>  STRING <I8 version> profile
--         hm:{space/pp}:events  STREAM (event/log.lua)
-- ARGV    <B 0: no plan>, or 1 and a plan, or 2, what the plan comes to if nothing is in its way, and the plan.
--         What it comes to: <I8I8 seq generation> <I8I8 both afterwards> <I8I8I8 profile from until> <BI8I8I8I8I8 cap, its
--         meter> <I8I4 number ordinal> <I8 its seq> <B> where in its key the deck stands, <Bc0 field>.
--         A plan: <I8I8I8I8 seq generation expired profile> <I8I8I8I8 from until number lease>
--         <BI8I8I8I8I8 cap> <B> so many meters <BI8I8I8I8I8>, <B> so many candidates <I4I8B ordinal seq meter>,
--         <B> so many to forget <I4>, <B> so many to put among the old <I4>
-- REPLY   'f' (what the plan comes to was done) | 'p' <I8I8I8I8I8I8 now seq generation ordinal number expires>
--       | 'n' <I8 now> | 'b' <I8I8 now until>
--       | 'a' <I8I8 now profile's version> <I4> profile, then the fields of the history, <I4> field <I4> value
local OPEN_MAX, METER, CAP = 32, '<BI8I8I8I8I8', '<BI8I8I8I8I8B'
local PLAIN, PLAIN_SIZE, NO_SEQ = '<c16c8c8c8I8I8c41c41c12c8BBc0', 160, '\0\0\0\0\0\0\0\0'
local NO_METER = NO_SEQ .. NO_SEQ .. NO_SEQ .. NO_SEQ .. NO_SEQ .. '\0'
-- Meters by their bytes: most picks of a call have the same. And what all of a call write of its time.
local meters_known, picked_now, now_bytes, ends_bytes
local function begin()
  read_rules()
  meters_known = {}
  picked_now, now_bytes, ends_bytes = pack_ints('<BI8', PICKED, now), pack_ints('<I8', now), pack_ints('<I8', now + KEEP_US)
end

local function charge(bytes, stored)
  local rule = meters_known[bytes]
  if not rule then
    local kind, p1, p2, p3, p4, p5 = unpack_ints(METER, bytes)
    rule = ruled(kind, 0, p1, p2, p3, p4, p5)
    meters_known[bytes] = rule
  end
  return meter(CHECK, 1, stored, rule)
end

-- What most plans come to: the first candidate is sent, and nothing but the head and its entry is written. What can be is compared
-- and written as the bytes that were given, as to unpack and pack them costs more than to read and write them. Whether that was
-- done, and where the plan begins; where it was not, nothing was.
local function plain(first_key, at)
  local expected, seq_bytes, generation_bytes, profile, from, till, cap_meter, its_meter, what, planned, whose_at, field
  expected, seq_bytes, generation_bytes, profile, from, till, cap_meter, its_meter, what, planned, whose_at, field, at =
    unpack_ints(PLAIN, given, at)
  if now < from or now >= till then return false, at end
  local its_key = KEYS[first_key]
  local stored = call('HMGET', its_key, 'h', 'r', field)
  local head, entry, ended = stored[1], stored[3], 0
  if stored[2] then return false, at end
  if head then
    ended = unpack_ints('<I8', head, 17)
    if sub(head, 1, 16) ~= expected or ended <= now then return false, at end
  elseif expected ~= NO_SEQ .. NO_SEQ then
    return false, at
  end
  if (entry and sub(entry, 1, 8) or NO_SEQ) ~= planned then return false, at end
  local version = call('GETRANGE', KEYS[first_key + 1], '0', '7')
  if version == '' then version = NO_SEQ end
  if version ~= profile then return false, at end
  local capped, count, refused = '', '', 0
  if cap_meter ~= NO_METER then
    capped, refused = charge(cap_meter, head and #head > 24 and sub(head, 25))
    if refused > 0 then return false, at end
  end
  if its_meter ~= NO_METER then
    count, refused = charge(its_meter, entry and #entry > 16 and sub(entry, 17))
    if refused > 0 then return false, at end
  end
  call('HSET', its_key, 'h', seq_bytes .. generation_bytes .. ends_bytes .. capped, field, seq_bytes .. now_bytes .. count)
  log_event(KEYS[first_key + 2], picked_now .. what .. sub(its_key, whose_at))
  put_off_end(its_key, ended, now + KEEP_US)
  return true, at
end

local function again(subject_key)
  local profile, version = call('GET', subject_key), 0
  if profile then
    version = unpack_ints('<I8', profile)
    profile = sub(profile, 9)
  else
    profile = ''
  end
  local reply = { 'a', pack_ints('<I8I8I4', now, version, #profile), profile }
  if seq > 0 then
    local fields = call('HGETALL', key)
    for i = 1, #fields do
      reply[#reply + 1] = pack_ints('<I4', #fields[i])
      reply[#reply + 1] = fields[i]
    end
  end
  return concat(reply)
end

-- Takes so many ordinals off the argument: they are forgotten, or put among the old.
local function clean(at, is_old)
  local many
  many, at = unpack_ints('B', given, at)
  for i = 1, many do
    local ordinal
    ordinal, at = unpack_ints('<I4', given, at)
    set_part(name(ordinal), false)
    set_old(ordinal, is_old)
  end
  return at, many
end

define('pick_take', function(first_key, at, _, keep)
  local subject_key = KEYS[first_key + 1]
  local has_plan
  has_plan, at = unpack_ints('B', given, at)
  if has_plan == 0 then
    load(KEYS[first_key], KEYS[first_key + 2])
    return again(subject_key)
  end
  if has_plan == 2 then
    if keep then
      -- What is kept says all of it.
      local size = unpack_ints('B', given, at + PLAIN_SIZE - 1)
      at = at + PLAIN_SIZE + size
    else
      local is_done
      is_done, at = plain(first_key, at)
      if is_done then return 'f' end
    end
  end
  local plan_seq, plan_generation, plan_expired, profile, from, till, number, lease
  plan_seq, plan_generation, plan_expired, profile, from, till, number, lease, at = unpack_ints('<I8I8I8I8I8I8I8I8', given, at)
  local c_kind, c1, c2, c3, c4, c5, meters, candidates
  c_kind, c1, c2, c3, c4, c5, meters, at = unpack_ints(CAP, given, at)
  local meters_at = at
  at = at + meters * 41
  candidates, at = unpack_ints('B', given, at)
  local after = at + candidates * 13
  -- The first candidate is read with the head: most picks end there.
  local ordinal, planned, which, first_field = nil, nil, 0, 'r'
  if candidates > 0 then
    ordinal, planned, which = unpack_ints('<I4I8B', given, at)
    first_field = name(ordinal)
  end
  local stored = call('HMGET', KEYS[first_key], 'h', 'r', first_field)
  load(KEYS[first_key], KEYS[first_key + 2], stored)
  if candidates > 0 and not was_over then parts[first_field] = stored[3] end
  local version = call('GETRANGE', subject_key, '0', '7')
  if version == '' then version = 0 else version = unpack_ints('<I8', version) end
  if version ~= profile or plan_generation ~= generation or now < from or now >= till then return again(subject_key) end
  local due, open, first = count_reserved()
  if due ~= plan_expired then return again(subject_key) end
  local is_fresh = seq == plan_seq
  local function nothing()
    if is_fresh then return 'n' .. pack_ints('<I8', now) end
    return again(subject_key)
  end
  if lease > 0 and open >= OPEN_MAX then return 'b' .. pack_ints('<I8I8', now, first) end
  if due > 0 then expire() end

  local cap_ends = 0
  if c_kind == 0 then
    cap = ''
  else
    local refused
    cap, refused, cap_ends = meter(CHECK, 1, #cap > 0 and cap, ruled(c_kind, 0, c1, c2, c3, c4, c5))
    if refused > 0 then return nothing() end
  end

  for i = 1, candidates do
    ordinal, planned, which, at = unpack_ints('<I4I8B', given, at)
    local field = name(ordinal)
    local entry = part(field)
    local found, was_sent_at = 0, 0
    if entry then found, was_sent_at = unpack_ints('<I8I8', entry) end
    if found == planned or (planned == OLD and found == 0) then
      local kind, p1, p2, p3, p4, p5, count, refused, ends = 0, 0, 0, 0, 0, 0, '', 0, 0
      if which > 0 then
        kind, p1, p2, p3, p4, p5 = unpack_ints(METER, given, meters_at + (which - 1) * 41)
        local stored = entry and #entry > 16 and sub(entry, 17)
        count, refused, ends = meter(CHECK, 1, stored, ruled(kind, 0, p1, p2, p3, p4, p5))
      end
      if refused == 0 then
        seq, ends_at = seq + 1, now + KEEP_US
        if planned == OLD then set_old(ordinal, false) end
        set_part(field, pack_ints('<I8I8', seq, now) .. count)
        local expires = 0
        if lease > 0 then
          expires = now + lease
          reserved[#reserved + 1] = { OPEN, number, ordinal, expires, pack_ints(RESERVED, OPEN, number, ordinal, expires),
            pack_ints(BEFORE, seq, planned, was_sent_at, kind, p1, p2, p3, p4, p5, ends, c_kind, c1, c2, c3, c4, c5, cap_ends) }
        end
        happens(PICKED, number, ordinal)
        if is_fresh then
          local forgot, evicted
          after, forgot = clean(after, false)
          after, evicted = clean(after, true)
          if forgot + evicted > 0 then generation = generation + 1 end
        end
        if due == 0 and lease == 0 and planned ~= OLD and generation == plan_generation and not was_over then
          -- Nothing but the head and the entry was changed.
          call('HSET', key, 'h', pack_ints('<I8I8I8', seq, generation, ends_at) .. cap, field, parts[field])
          tell()
        else
          save(lease > 0 or due > 0)
        end
        local reply = 'p' .. pack_ints('<I8I8I8I8I8I8', now, seq, generation, ordinal, number, expires)
        if keep then keep(reply) end
        return reply
      end
    end
  end
  return nothing()
end, { begin = begin })
