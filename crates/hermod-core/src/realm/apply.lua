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
--       | 'n' <I8 now> told: refused | 'c' <I8I8B now seq postings>, each <i8I2c0 value name>, <I4c0 entry> told
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

return drive(function(key, at, _, keep)
  local cells = KEYS[key]
  local base = sub(cells, 1, -6)
  local act, version, from, till, postings, markings, laters
  act, version, from, till, postings, markings, laters, at = unpack_ints('<BI8I8I8BBB', given, at)
  local fields, steps = { 'v' }, {}
  for i = 1, postings do
    local step, flags = {}
    flags, step.delta, step.asset, step.name, at = unpack_ints('<Bi8BI2c0', given, at)
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
    step.board = flags % 16 >= 8
    if flags % 64 < 32 then
      step.floor, step.max = 0, LARGEST
      if flags % 32 >= 16 then step.floor, step.max, at = unpack_ints('<i8i8', given, at) end
    end
    if flags >= 64 then step.short, step.full, at = unpack_ints('<Bc0Bc0', given, at) end
    fields[i + 1], steps[i] = step.name, step
  end
  local names, marks = {}, {}
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
    names[i], marks[i] = base .. 'mark:' .. mark.name, mark
  end

  local had = call('HMGET', cells, unpack(fields))
  local stored = {}
  if markings > 0 then stored = call('MGET', unpack(names)) end
  local known = 0
  if had[1] then known = tonumber(had[1]) end
  if act > 0 and version < known then return 'v' .. pack_ints('<I8', known) end
  local same = act > 0 and now >= from and now < till
  for i = 1, postings do
    local step, record = steps[i], had[i + 1]
    step.had, step.since, step.on_hold, step.next_end, step.liens = weigh(record)
    if step.expected and (step.had ~= step.value or step.on_hold ~= step.held) then same = false end
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
      local step = steps[i]
      reply[i + 1] = pack_ints('<i8i8I8', step.had, step.on_hold, step.next_end)
    end
    for i = 1, markings do
      local record = marks[i].record
      reply[postings + i + 1] = pack_ints('<I4', #record) .. record
    end
    return table.concat(reply)
  end

  local laters_at = at
  for _ = 1, laters do
    local _, _, what, after = unpack_ints('<BI8I2c0', given, at)
    at = after
  end
  local done, entry, told
  done, entry, told = unpack_ints('<I2c0I4c0I4c0', given, at)
  if done ~= '' and not call('ZSCORE', base .. 'due', done) then return 'g' end
  local refused
  if act == 1 then
    refused = 'n' .. pack_ints('<I8', now) .. told
  else
    for i = 1, postings do
      local step = steps[i]
      if step.drops then
        local _
        _, _, step.on_hold, _, step.liens = weigh(had[i + 1], step.drops)
      end
      local after, hold = step.had + step.delta, step.qty or 0
      local code
      if step.floor and (step.delta < 0 or hold > 0) and after - step.on_hold - hold < step.floor then
        code = 's' .. pack_ints('<I8i8i8i8', now, step.had, step.on_hold, step.delta - hold)
        code = code .. pack_ints('<Bc0', #(step.short or 'funds'), step.short or 'funds')
      elseif step.delta > 0 and after > (step.max or LARGEST) then
        code = 'f' .. pack_ints('<I8i8i8i8', now, step.had, step.max or LARGEST, step.delta)
        code = code .. pack_ints('<Bc0', #(step.full or 'stack'), step.full or 'stack')
      elseif after < -LARGEST or (hold > 0 and #step.liens >= 24 * 32) then
        code = 'f' .. pack_ints('<I8i8i8i8', now, step.had, LARGEST, step.delta) .. pack_ints('<Bc0', 4, 'busy')
      end
      if code then
        refused = code .. pack_ints('<I2c0', #step.name, step.name)
        break
      end
      step.after = after
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
  local seq = tonumber(sub(call('XADD', base .. 'ledger', '0-*', 'e', pack_ints('<I8', now) .. entry), 3))
  local sets, gone, reply = {}, {}, { 'c' .. pack_ints('<I8I8B', now, seq, postings) }
  if version > known then sets = { 'v', format('%.0f', version) } end
  for i = 1, postings do
    local step = steps[i]
    local since, liens = step.since, step.liens
    if step.qty then liens = liens .. pack_ints('<I8i8I8', step.hold, step.qty, step.till) end
    if step.delta ~= 0 then
      if step.board then
        local board, owner = base .. 'board:' .. sub(step.name, 1, step.asset), sub(step.name, step.asset + 2)
        if step.had > 0 then call('ZREM', board, pack_ints('>I8', LARGEST - since) .. owner) end
        if step.after > 0 then call('ZADD', board, step.after, pack_ints('>I8', LARGEST - seq) .. owner) end
      end
      since = seq
    end
    if step.delta ~= 0 or step.qty or step.drops then
      if step.after == 0 and liens == '' then
        gone[#gone + 1] = step.name
      else
        sets[#sets + 1] = step.name
        sets[#sets + 1] = pack_ints('<i8I8', step.after, since) .. liens
      end
    end
    reply[i + 1] = pack_ints('<i8I2c0', step.after, #step.name, step.name)
  end
  if #sets > 0 then call('HSET', cells, unpack(sets)) end
  if #gone > 0 then call('HDEL', cells, unpack(gone)) end
  for i = 1, markings do
    local mark = marks[i]
    if mark.value then
      local record = pack_ints('<i8I8I8', mark.value, mark.till, mark.at) .. mark.payload
      if mark.till == LARGEST then
        call('SET', names[i], record)
      else
        call('SET', names[i], record, 'PX', format('%d', ceil((mark.till - now) / 1000) + slack_ms))
      end
    elseif mark.gone then
      call('DEL', names[i])
    end
  end
  at = laters_at
  for _ = 1, laters do
    local is_span, time, what
    is_span, time, what, at = unpack_ints('<BI8I2c0', given, at)
    call('ZADD', base .. 'due', moment(is_span, time), pack_ints('>I8', seq) .. what)
  end
  if done ~= '' then call('ZREM', base .. 'due', done) end
  reply[#reply + 1] = pack_ints('<I4', #entry) .. entry .. told
  local whole = table.concat(reply)
  if keep then keep(whole) end
  return whole
end)
