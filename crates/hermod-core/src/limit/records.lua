-- limit/records.lua, twin of limit/records.rs: what scripts share about the records of a subject
-- KEYS    none of its own: hm:{space/pp}:limit:<subject>  STRING  <I8 when the last of them ends, or later> <I2 how many>, per record
--         <c8I4 the tag of its rule, its length>; then the records (limit/meter.lua), in that order
-- ARGV    none of its own
-- REPLY   none of its own
--
-- All of a subject stand in one string, because it was measured: to read and write three fields of a hash takes Redis more than twice as long.
local COUNT_AT, CONTENTS_AT, ENTRY, ENTRY_SIZE = 9, 11, '<c8I4', 12
-- A string up to this length is written as a whole; a longer one where it changes, if it can be.
local SHORT = 512

-- The string, and when the last record in it ends (0: there is none): where that is not after now, none of them means anything.
local function records_of(key)
  local all = call('GET', key)
  if not all then return nil, 0 end
  return all, (unpack_ints('<I8', all))
end

-- Where a rule's record begins, and how long it is. Nothing, if there is none.
local function place_of(all, tag)
  local many, entry = unpack_ints('<I2', all, COUNT_AT), find(all, tag, CONTENTS_AT, true)
  local at = CONTENTS_AT + many * ENTRY_SIZE
  -- By chance it may stand where no entry begins.
  while entry and (entry - CONTENTS_AT) % ENTRY_SIZE > 0 do entry = find(all, tag, entry + 1, true) end
  if not entry or entry >= at then return nil end
  -- Mostly all are no longer than their heads.
  if #all == at - 1 + many * HEAD_SIZE then return at + (entry - CONTENTS_AT) / ENTRY_SIZE * HEAD_SIZE, HEAD_SIZE end
  for other = CONTENTS_AT, entry - 1, ENTRY_SIZE do at = at + unpack_ints('<I4', all, other + 8) end
  return at, (unpack_ints('<I4', all, entry + 8))
end

-- A rule's record; nothing, if there is none.
local function record_in(all, tag)
  local at, size = place_of(all, tag)
  return at and sub(all, at, at + size - 1)
end

-- The string of these records, of which `list` holds so many (tag, record, and so on).
local function together_of(list, last, latest)
  local contents, records = {}, {}
  for i = 1, last, 2 do
    contents[#contents + 1], records[#records + 1] = pack_ints(ENTRY, list[i], #list[i + 1]), list[i + 1]
  end
  return pack_ints('<I8I2', latest, #records) .. concat(contents) .. concat(records)
end

-- Those records of a string, as such a list, that have not ended long ago and of which `left_out` has no tag.
local function others_in(all, left_out)
  local list, last, many = {}, 0, unpack_ints('<I2', all, COUNT_AT)
  local place = CONTENTS_AT + many * ENTRY_SIZE
  for at = CONTENTS_AT, place - 1, ENTRY_SIZE do
    local tag, size = unpack_ints(ENTRY, all, at)
    -- A clock may go back, and then they count again.
    if not left_out[tag] and unpack_ints('<I8', all, place + ENDS - 1) > now - slack_us then
      list[last + 1], list[last + 2] = tag, sub(all, place, place + size - 1)
      last = last + 2
    end
    place = place + size
  end
  return list, last
end

-- How long a subject's records are kept, the last of which ends at `latest`. Callers put it off when that passes into another span of
-- `slack_us`, and then until well after that span: so it is done seldom.
local function keep_for(latest)
  return format('%d', ceil((latest - now) / 1000) + 2 * slack_ms)
end

-- Never brought forward.
local function put_off(key, latest)
  call('PEXPIRE', key, keep_for(latest), 'GT')
end

-- Stores the whole string; `was` is what was read.
local function save(key, was, all, latest, before)
  if not was then
    call('PSETEX', key, keep_for(latest), all)
    return
  end
  if #was == #all then call('SETRANGE', key, '0', all) else call('SET', key, all, 'KEEPTTL') end
  if latest - latest % slack_us > before then put_off(key, latest) end
end

-- Writes these records, of which the last ends at `latest`, to what was read.
local function write(key, was, before, list, last, latest)
  if last == 0 then return end
  if not was then return save(key, was, together_of(list, last, latest), latest, before) end
  if latest < before then latest = before end
  local all, is_short = was, #was <= SHORT
  for i = 1, last, 2 do
    local value = list[i + 1]
    local at, size = place_of(all, list[i])
    if size ~= #value then
      -- One more, or of another length.
      local written = {}
      for j = 1, last, 2 do written[list[j]] = true end
      local others, count = others_in(was, written)
      for j = 1, last do others[count + j] = list[j] end
      return save(key, was, together_of(others, count + last, latest), latest, before)
    end
    if is_short then
      all = sub(all, 1, at - 1) .. value .. sub(all, at + size)
    else
      call('SETRANGE', key, format('%d', at - 1), value)
    end
  end
  local header = pack_ints('<I8', latest)
  if is_short then
    call('SETRANGE', key, '0', header .. sub(all, COUNT_AT))
  elseif latest > before then
    call('SETRANGE', key, '0', header)
  end
  if latest - latest % slack_us > before then put_off(key, latest) end
end
