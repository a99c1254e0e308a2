-- limit/records.lua, twin of limit/records.rs: what scripts share about the records of a subject
-- KEYS    none of its own: hm:{space/pp}:limit:<subject>  STRING  <I2 how many are here, and MORE if others are in the hash>, per record
--         <c8I4 the tag of its rule, where it begins>; the records (limit/meter.lua), in that order; <I8 when the last of them ends, or later>
--         hm:{space/pp}:more:<subject>  HASH  tag -> record: those that are long, or too many for the string. Never on a Cluster: as few
--         need it, callers do not name it
-- ARGV    none of its own
-- REPLY   none of its own
--
-- They are one string, because it was measured: to read and write three fields of a hash takes Redis more than twice as long.
local CONTENTS_AT, ENTRY, ENTRY_SIZE, MORE, END_SIZE = 3, '<c8I4', 12, 32768, 8
-- So many records stand in a string, none of them longer than this: every check reads them all.
local HERE_MAX, LONG = 16, 161
if IS_CLUSTER then HERE_MAX, LONG = MORE - 1, 4294967295 end

-- When the last record of a string ends: where that is not after now, none of them means anything.
local function end_of(all)
  return (unpack_ints('<I8', all, #all - END_SIZE + 1))
end

-- The string, and when its last record ends (0: there is none).
local function records_of(key)
  local all = call('GET', key)
  if not all then return nil, 0 end
  return all, end_of(all)
end

-- Where the records begin in a string, and whether there are others in the hash.
local function extent(all)
  local many = unpack_ints('<I2', all)
  local has_more = many >= MORE
  if has_more then many = many - MORE end
  return CONTENTS_AT + many * ENTRY_SIZE, has_more
end

-- Where a rule's record begins, and where the next does: nothing, if it is not in the string. And whether there are others in the hash.
local function place_of(all, tag)
  local entry, records_at, has_more = find(all, tag, CONTENTS_AT, true), extent(all)
  -- By chance it may stand where no entry begins.
  while entry and (entry - CONTENTS_AT) % ENTRY_SIZE > 0 do entry = find(all, tag, entry + 1, true) end
  if not entry or entry >= records_at then return nil, nil, has_more end
  local next_at = #all - END_SIZE + 1
  if entry + ENTRY_SIZE < records_at then next_at = unpack_ints('<I4', all, entry + ENTRY_SIZE + 8) end
  return unpack_ints('<I4', all, entry + 8), next_at, has_more
end

-- The name of the hash. No space has a brace in its name.
local function more_of(key)
  local at = find(key, '}:limit:', 1, true)
  return sub(key, 1, at + 1) .. 'more:' .. sub(key, at + 8)
end

-- A rule's record; false, if there is none.
local function record_of(key, all, tag)
  local at, next_at, has_more = place_of(all, tag)
  if at then return sub(all, at, next_at - 1) end
  return has_more and call('HGET', more_of(key), tag)
end

-- How long records are kept of which the last ends at `latest`. Callers put it off when that passes into another span of `slack_us`, and
-- then until well after that span: so it is done seldom.
local function keep_for(latest)
  return format('%d', ceil((latest - now) / 1000) + 2 * slack_ms)
end

-- Never brought forward. The hash is kept as long as the string.
local function put_off(key, all, latest)
  local _, has_more = extent(all)
  call('PEXPIRE', key, keep_for(latest), 'GT')
  if has_more then call('PEXPIRE', more_of(key), keep_for(latest), 'GT') end
end

-- Stores the string; `was` is what was read.
local function save(key, was, all, latest, before)
  if not was then
    call('PSETEX', key, keep_for(latest), all)
    return
  end
  if #was == #all then call('SETRANGE', key, '0', all) else call('SET', key, all, 'KEEPTTL') end
  if latest - latest % slack_us > before then put_off(key, all, latest) end
end

-- Stores these in the hash: tag, record, and so on. `is_first`: there were none in it.
local function save_more(key, list, latest, is_first)
  if #list == 0 then return end
  local more, added = more_of(key), 0
  -- What a string that has ended left behind is not taken up again.
  if is_first then call('DEL', more) end
  for i = 1, #list, 1000 do
    local last = i + 999
    if last > #list then last = #list end
    added = added + call('HSET', more, unpack(list, i, last))
  end
  -- With its first records it has no end.
  if added > 0 then call('PEXPIRE', more, keep_for(latest), 'NX') end
end

-- The string of these records, of which `list` holds so many (tag, record, and so on).
local function together_of(list, last, latest, has_more)
  local contents, records, n, at = {}, {}, 0, CONTENTS_AT + last / 2 * ENTRY_SIZE
  for i = 1, last, 2 do
    n = n + 1
    contents[n], records[n] = pack_ints(ENTRY, list[i], at), list[i + 1]
    at = at + #list[i + 1]
  end
  if has_more then n = n + MORE end
  return pack_ints('<I2', n) .. concat(contents) .. concat(records) .. pack_ints('<I8', latest)
end

-- Those records of a string, as such a list, that have not ended long ago and of which `left_out` has no tag.
local function others_in(all, left_out)
  local list, last, next_at, records_at = {}, 0, #all - END_SIZE + 1, (extent(all))
  for entry = records_at - ENTRY_SIZE, CONTENTS_AT, -ENTRY_SIZE do
    local tag, at = unpack_ints(ENTRY, all, entry)
    -- A clock may go back, and then they count again.
    if not left_out[tag] and unpack_ints('<I8', all, at + ENDS - 1) > now - slack_us then
      list[last + 1], list[last + 2] = tag, sub(all, at, next_at - 1)
      last = last + 2
    end
    next_at = at
  end
  return list, last
end

-- Writes records of which one is new, or of another length than it was.
local function rewrite(key, was, before, list, last, latest)
  local written, here, count, more, has_more, room = {}, {}, 0, {}, false, 0
  for i = 1, last, 2 do
    written[list[i]] = true
    if was and place_of(was, list[i]) then room = room - 1 end
  end
  if was then
    here, count = others_in(was, written)
    local _, is_there = extent(was)
    has_more = is_there
  end
  room = room + HERE_MAX - count / 2
  for i = 1, last, 2 do
    local tag, value = list[i], list[i + 1]
    local is_here, is_long = was and place_of(was, tag), #value > LONG
    local is_more = not is_here and has_more and call('HEXISTS', more_of(key), tag) == 1
    if is_long or is_more or not (is_here or room > 0) then
      more[#more + 1] = tag
      more[#more + 1] = value
    else
      here[count + 1], here[count + 2] = tag, value
      count = count + 2
      if not is_here then room = room - 1 end
    end
  end
  save_more(key, more, latest, not has_more)
  save(key, was, together_of(here, count, latest, has_more or #more > 0), latest, before)
end

-- Writes these records, of which the last ends at `latest`, to what was read.
local function write(key, was, before, list, last, latest)
  if last == 0 then return end
  if latest < before then latest = before end
  if not was then return rewrite(key, was, before, list, last, latest) end
  local all, more = was, {}
  for i = 1, last, 2 do
    local tag, value = list[i], list[i + 1]
    local at, next_at, has_more = place_of(all, tag)
    if at and next_at - at == #value then
      all = sub(all, 1, at - 1) .. value .. sub(all, next_at)
    elseif not at and has_more and call('HEXISTS', more_of(key), tag) == 1 then
      more[#more + 1] = tag
      more[#more + 1] = value
    else
      return rewrite(key, was, before, list, last, latest)
    end
  end
  save_more(key, more, latest, false)
  save(key, was, sub(all, 1, -END_SIZE - 1) .. pack_ints('<I8', latest), latest, before)
end
