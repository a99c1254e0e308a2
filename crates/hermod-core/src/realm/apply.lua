-- realm/apply.lua, twin of realm/apply.rs
-- KEYS    hm:{space/pp}:realm:<realm>:cells  HASH  <asset>:<owner> -> <i8I8 value, since> then per hold <I8i8I8 hold qty until>
--                                                  'v' -> the version of the realm that was applied last
--         and what begins as it does: ledger STREAM 0-<seq>: e <I8 now> entry; board:<asset> ZSET value: <inverted since> owner;
--         mark:<name> STRING <i8I8I8 value until at> payload; due ZSET time: what is scheduled
-- ARGV    <BI8I8I8 0 read 1 refuse 2 apply, version, from, until> <BBB postings markings later>
--         posting <Bi8BI2c0 flags delta, length of the asset, name>, 1: <i8i8 value and held expected>, 2: <I8i8BI8 hold qty until>,
--         4: <B> holds that end, <I8> each, 8: on a board, 16: <i8i8 floor max>, 32: without bounds, 64: <Bc0Bc0 codes of short and full>
--         marking <BI2c0 flags name>, 1: <I2c0 expected head, or nothing>, 2: must be ready <Bc0 code>,
--         4: <i8BI8BI8I4c0 value until at payload>, 8: is forgotten
--         later <BI8I2c0 due what>; <I2c0 the schedule it fulfils> <I4c0 entry> <I4c0 told>
-- REPLY   'v' <I8 version>: that of the plan is older | 'g': the schedule was fulfilled before
--       | 'a' <I8 now>, per posting <i8i8I8 value held next>, per marking <I4c0 mark>: another state than expected, or a look
--       | 's' short, 'f' full: <I8i8i8i8 now value held delta> <Bc0 code> <I2c0 name> | 't' <I8I8 now at> <Bc0 code> <I2c0 name>
--       | 'n' <I8 now> told: refused | 'c' <I8I8B now seq postings>, each <i8I2c0 value name>, told; when replayed,
--         what the ledger keeps of it follows as a note
local LARGEST = 9007199254740991

-- A time, or one so long from now.
local function moment(is_span, time)
  if is_span == 0 then return time end
  time = now + time
  if time > LARGEST then return LARGEST end
  return time
end

-- What an account says: value, since, held, when the first hold ends; and its holds that have not ended, but some.
local function weigh(record, but)
  if not record then return 0, 0, 0, 0, '' end
  local value, since = unpack_ints('<i8I8', record)
  if #record == 16 then return value, since, 0, 0, '' end
  local held, next_end, liens, at = 0, 0, '', 17
  while at < #record do
    local hold, qty, till = unpack_ints('<I8i8I8', record, at)
    if till > now then
      if not (but and but[hold]) then
        held = held + qty
        liens = liens .. sub(record, at, at + 23)
      end
      if next_end == 0 or till < next_end then next_end = till end
    end
    at = at + 24
  end
  return value, since, held, next_end, liens
end

-- What is said of accounts, by their place in the plan: lists that all operations share, as most need no more. What few
-- say (what is expected, holds, bounds and codes) stands in a table of its own.
local names, deltas, assets, flagged, more = {}, {}, {}, {}, {}
local had, since, on_hold, next_end, liens, after = {}, {}, {}, {}, {}, {}
local parts, none, sets, gone = {}, {}, {}, {}

-- What the operations of a call know of a realm: its keys, the version that was applied last and the number of the last entry, once
-- one of them has read it, as nothing but the call changes them meanwhile.
local books, now_bytes
local function begin()
  books, now_bytes = {}, pack_ints('<I8', now)
end

local function book_of(cells)
  local book = books[cells]
  if not book then
    local base = sub(cells, 1, -6)
    book = { cells = cells, base = base, ledger = base .. 'ledger', boards = {} }
    books[cells] = book
  end
  return book
end

-- The key of the board of an asset.
local function board_of(book, asset)
  local key = book.boards[asset]
  if not key then
    key = book.base .. 'board:' .. asset
    book.boards[asset] = key
  end
  return key
end

-- This version of the realm was applied last.
local function renew(book, version)
  book.known = version
  call('HSET', book.cells, 'v', format('%.0f', version))
end

-- What one commit takes off a board and puts on it; the lists begin anew with each.
local function show(shown, key, was, is, score)
  local board = shown[key]
  if not board then
    board = { off = {}, on = {} }
    shown[key] = board
  end
  local off, on = board.off, board.on
  if was then off[#off + 1] = was end
  if is then on[#on + 1], on[#on + 2] = format('%d', score), is end
end

-- Reads what few postings say; where it ends.
local function read_more(flags, at)
  local step = {}
  if flags % 2 == 1 then
    step.expected = true
    step.value, step.held, at = unpack_ints('<i8i8', given, at)
  end
  if flags % 4 >= 2 then
    local is_span
    step.hold, step.qty, is_span, step.till, at = unpack_ints('<I8i8BI8', given, at)
    step.till = moment(is_span, step.till)
  end
  if flags % 8 >= 4 then
    local many, hold
    step.drops = {}
    many, at = unpack_ints('<B', given, at)
    for _ = 1, many do
      hold, at = unpack_ints('<I8', given, at)
      step.drops[hold] = true
    end
  end
  if flags % 32 >= 16 then step.floor, step.max, at = unpack_ints('<i8i8', given, at) end
  if flags >= 64 then step.short, step.full, at = unpack_ints('<Bc0Bc0', given, at) end
  return step, at
end

-- What refuses a posting that comes to so much, if anything does. Holds that end with it count no more from here on.
local function overdrawn(i, sum, record)
  local step, delta = more[i], deltas[i]
  if step.drops then
    local _
    _, _, on_hold[i], _, liens[i] = weigh(record, step.drops)
  end
  local hold, floored, max = step.qty or 0, false, LARGEST
  if flagged[i] % 64 < 32 then floored, max = step.floor or 0, step.max or LARGEST end
  local code
  if floored and (delta < 0 or hold > 0) and sum - on_hold[i] - hold < floored then
    code = 's' .. pack_ints('<I8i8i8i8', now, had[i], on_hold[i], delta - hold)
    code = code .. pack_ints('<Bc0', #(step.short or 'funds'), step.short or 'funds')
  elseif delta > 0 and sum > max then
    code = 'f' .. pack_ints('<I8i8i8i8', now, had[i], max, delta)
    code = code .. pack_ints('<Bc0', #(step.full or 'stack'), step.full or 'stack')
  elseif sum < -LARGEST or (hold > 0 and #liens[i] >= 24 * 32) then
    code = 'f' .. pack_ints('<I8i8i8i8', now, had[i], LARGEST, delta) .. pack_ints('<Bc0', 4, 'busy')
  else
    return nil
  end
  return code .. pack_ints('<I2c0', #names[i], names[i])
end

-- Appends to the ledger; its number.
local function enter(book, entry)
  local id, seq = call('XADD', book.ledger, '0-*', 'e', now_bytes .. entry), book.seq
  if seq then seq = seq + 1 else seq = tonumber(sub(id, 3)) end
  book.seq = seq
  return seq
end

-- A commit that moves something between two accounts and says nothing else, as most: the same as below, with no list filled. Nothing
-- if it is not as plain as that, or comes to anything but being done.
local function transfer(book, at, version)
  local flags, low, high = byte(given, at), byte(given, at + 10, at + 11)
  if (flags ~= 0 and flags ~= 8) or high ~= 0 or byte(given, at + 12 + low) ~= flags then return nil end
  local _, delta1, asset1, name1, _, delta2, asset2, name2, done, entry, told =
    unpack_ints('<Bi8BI2c0Bi8BI2c0I2c0I4c0I4c0', given, at)
  local asset = sub(name1, 1, asset1)
  if done ~= '' or name1 == name2 or delta1 == 0 or delta2 == 0 or sub(name2, 1, asset2) ~= asset then return nil end
  local records, known = nil, book.known
  if known then
    records = call('HMGET', book.cells, name1, name2)
  else
    records = call('HMGET', book.cells, name1, name2, 'v')
    known = tonumber(records[3] or 0)
    book.known = known
  end
  if version < known then return nil end
  local record1, record2, had1, since1, had2, since2 = records[1], records[2], 0, 0, 0, 0
  if record1 then
    if #record1 ~= 16 then return nil end
    had1, since1 = unpack_ints('<i8I8', record1)
  end
  if record2 then
    if #record2 ~= 16 then return nil end
    had2, since2 = unpack_ints('<i8I8', record2)
  end
  local sum1, sum2 = had1 + delta1, had2 + delta2
  if sum1 > LARGEST or sum2 > LARGEST or sum1 <= 0 or sum2 <= 0 then return nil end
  local seq = enter(book, entry)
  if version > known then renew(book, version) end
  call('HSET', book.cells, name1, pack_ints('<i8I8', sum1, seq), name2, pack_ints('<i8I8', sum2, seq))
  if flags == 8 then
    local key, newest, owner1, owner2 = board_of(book, asset), pack_ints('>I8', LARGEST - seq), sub(name1, asset1 + 2), sub(name2, asset2 + 2)
    local was1 = had1 > 0 and pack_ints('>I8c0', LARGEST - since1, owner1)
    local was2 = had2 > 0 and pack_ints('>I8c0', LARGEST - since2, owner2)
    if was1 and was2 then
      call('ZREM', key, was1, was2)
    elseif was1 or was2 then
      call('ZREM', key, was1 or was2)
    end
    call('ZADD', key, format('%d', sum1), newest .. owner1, format('%d', sum2), newest .. owner2)
  end
  return pack_ints('<BI8I8Bi8I2c0i8I2c0c0', 99, now, seq, 2, sum1, #name1, name1, sum2, #name2, name2, told)
end

define('realm_apply', function(key, at, _, keep)
  local book = book_of(KEYS[key])
  local base = book.base
  local act, version, from, till, postings, markings, laters
  act, version, from, till, postings, markings, laters, at = unpack_ints('<BI8I8I8BBB', given, at)
  if act == 2 and postings == 2 and markings == 0 and laters == 0 and now >= from and now < till then
    local whole = transfer(book, at, version)
    if whole then
      if keep then keep(whole) end
      return whole
    end
  end
  for i = 1, postings do
    local flags
    flags, deltas[i], assets[i], names[i], at = unpack_ints('<Bi8BI2c0', given, at)
    flagged[i] = flags
    -- A board and the lack of bounds are said by the flags alone.
    if flags % 8 > 0 or flags % 32 >= 16 or flags >= 64 then
      more[i], at = read_more(flags, at)
    else
      more[i] = none
    end
  end
  local keys, marks
  if markings > 0 then keys, marks = {}, {} end
  for i = 1, markings do
    local mark, flags = {}
    flags, mark.name, at = unpack_ints('<BI2c0', given, at)
    if flags % 2 == 1 then mark.expected, at = unpack_ints('<I2c0', given, at) end
    if flags % 4 >= 2 then mark.ready, at = unpack_ints('<Bc0', given, at) end
    if flags % 8 >= 4 then
      local is_span, is_at_span
      mark.value, is_span, mark.till, is_at_span, mark.at, mark.payload, at = unpack_ints('<i8BI8BI8I4c0', given, at)
      mark.till, mark.at = moment(is_span, mark.till), moment(is_at_span, mark.at)
    end
    mark.gone = flags >= 8
    keys[i], marks[i] = base .. 'mark:' .. mark.name, mark
  end

  local records = call('HMGET', book.cells, 'v', unpack(names, 1, postings))
  local stored
  if markings > 0 then stored = call('MGET', unpack(keys)) end
  local known = 0
  if records[1] then known = tonumber(records[1]) end
  if act > 0 and version < known then return 'v' .. pack_ints('<I8', known) end
  local same = act > 0 and now >= from and now < till
  for i = 1, postings do
    local step = more[i]
    had[i], since[i], on_hold[i], next_end[i], liens[i] = weigh(records[i + 1])
    if step.expected and (had[i] ~= step.value or on_hold[i] ~= step.held) then same = false end
  end
  for i = 1, markings do
    local mark, record = marks[i], stored[i]
    if record then
      local _, ends = unpack_ints('<i8I8', record)
      if ends <= now then record = false end
    end
    mark.record = record or ''
    if mark.expected and sub(mark.record, 1, 24) ~= mark.expected then same = false end
  end
  if not same then
    local reply = { 'a' .. pack_ints('<I8', now) }
    for i = 1, postings do
      reply[i + 1] = pack_ints('<i8i8I8', had[i], on_hold[i], next_end[i])
    end
    for i = 1, markings do
      local record = marks[i].record
      reply[postings + i + 1] = pack_ints('<I4', #record) .. record
    end
    return concat(reply)
  end

  local laters_at = at
  for _ = 1, laters do
    local _, _, what, ends = unpack_ints('<BI8I2c0', given, at)
    at = ends
  end
  local done, entry, told
  done, entry, told = unpack_ints('<I2c0I4c0I4c0', given, at)
  if done ~= '' and not call('ZSCORE', base .. 'due', done) then return 'g' end
  local refused
  if act == 1 then
    refused = 'n' .. pack_ints('<I8', now) .. told
  else
    for i = 1, postings do
      local delta = deltas[i]
      local sum = had[i] + delta
      -- Most say no more than this, and stay well within what always holds.
      if more[i] ~= none or sum > LARGEST or (sum < on_hold[i] and (delta < 0 or sum < -LARGEST)) then
        refused = overdrawn(i, sum, records[i + 1])
        if refused then break end
      end
      after[i] = sum
    end
    for i = 1, markings do
      local mark = marks[i]
      if refused then break end
      if mark.ready and mark.record ~= '' then
        local _, _, free_at = unpack_ints('<i8I8I8', mark.record)
        if free_at > now then
          refused = 't' .. pack_ints('<I8I8', now, free_at) .. pack_ints('<Bc0', #mark.ready, mark.ready)
            .. pack_ints('<I2c0', #mark.name, mark.name)
        end
      end
    end
  end
  if refused then
    if done ~= '' then call('ZREM', base .. 'due', done) end
    if keep then keep(refused) end
    return refused
  end

  -- From here on it only writes.
  local seq = enter(book, entry)
  if version > known then renew(book, version) end
  local set, dropped, newest, shown = 0, 0, nil, nil
  for i = 1, postings do
    local step, name, delta, sum, changed, holds = more[i], names[i], deltas[i], after[i], since[i], liens[i]
    if step.qty then holds = holds .. pack_ints('<I8i8I8', step.hold, step.qty, step.till) end
    if delta ~= 0 then
      if flagged[i] % 16 >= 8 then
        local owner = sub(name, assets[i] + 2)
        newest, shown = newest or pack_ints('>I8', LARGEST - seq), shown or {}
        local was = had[i] > 0 and pack_ints('>I8c0', LARGEST - changed, owner)
        show(shown, board_of(book, sub(name, 1, assets[i])), was, sum > 0 and newest .. owner, sum)
      end
      changed = seq
    end
    if delta ~= 0 or step.qty or step.drops then
      if sum ~= 0 or holds ~= '' then
        sets[set + 1], sets[set + 2] = name, pack_ints('<i8I8c0', sum, changed, holds)
        set = set + 2
      else
        dropped = dropped + 1
        gone[dropped] = name
      end
    end
  end
  if set > 0 then call('HSET', book.cells, unpack(sets, 1, set)) end
  if dropped > 0 then call('HDEL', book.cells, unpack(gone, 1, dropped)) end
  for key, board in pairs(shown or none) do
    if board.off[1] then call('ZREM', key, unpack(board.off)) end
    if board.on[1] then call('ZADD', key, unpack(board.on)) end
  end
  for i = 1, markings do
    local mark = marks[i]
    if mark.value and mark.till > now then
      local record = pack_ints('<i8I8I8', mark.value, mark.till, mark.at) .. mark.payload
      if mark.till == LARGEST then
        call('SET', keys[i], record)
      else
        call('SET', keys[i], record, 'PX', format('%d', ceil((mark.till - now) / 1000) + slack_ms))
      end
    elseif mark.value or mark.gone then
      -- What has ended already is not written.
      call('DEL', keys[i])
    end
  end
  at = laters_at
  for _ = 1, laters do
    local is_span, time, what
    is_span, time, what, at = unpack_ints('<BI8I2c0', given, at)
    call('ZADD', base .. 'due', moment(is_span, time), pack_ints('>I8', seq) .. what)
  end
  if done ~= '' then call('ZREM', base .. 'due', done) end
  parts[1], parts[postings + 2] = pack_ints('<BI8I8B', 99, now, seq, postings), told
  for i = 1, postings do
    parts[i + 1] = pack_ints('<i8I2c0', after[i], #names[i], names[i])
  end
  local whole = concat(parts, '', 1, postings + 2)
  if keep then keep(whole) end
  return whole
end, { begin = begin, recall = function(key, kept)
  if sub(kept, 1, 1) ~= 'c' then return '' end
  local _, seq = unpack_ints('<I8I8', kept, 2)
  local id = format('0-%.0f', seq)
  local found = call('XRANGE', sub(KEYS[key], 1, -6) .. 'ledger', id, id)
  return found[1] and found[1][2][2] or ''
end })
