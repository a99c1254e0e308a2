-- realm/survey.lua, twin of realm/survey.rs
-- KEYS    hm:{space/pp}:realm:<realm>:cells  HASH (realm/apply.lua), and its ledger, board:<asset> and mark:h:<hold>
-- ARGV    <BI8I4 1: those of these names, 0: about so many from a cursor on> <I2 boards>, each <Bc0 asset>; <I2 names>, each <I2c0>;
--         <I2 holds>, each <I8>
-- REPLY   'k' <I8I8I8 now, the last seq, next cursor (0: no more)>, per board <I8 how many are on it>, per hold <I4c0 its mark>,
--         <I4 how many accounts>, each <I2c0I4c0 name record> <Bi8 1: has the row it must have, its score>;
--         then of each hold that has something of them <I8I4c0 hold mark>
local LARGEST = 9007199254740991

-- The mark of a hold; nothing if there is none, or it has ended.
local function mark_of(base, hold)
  local record = call('GET', base .. 'mark:h:' .. format('%.0f', hold))
  if record then
    local _, ends = unpack_ints('<i8I8', record)
    if ends > now then return record end
  end
  return ''
end

define('realm_survey', function(key, at)
  local cells = KEYS[key]
  local base = sub(cells, 1, -6)
  local by_name, cursor, limit, many
  by_name, cursor, limit, many, at = unpack_ints('<BI8I4I2', given, at)
  local boards, totals, asset = {}, {}
  for i = 1, many do
    asset, at = unpack_ints('<Bc0', given, at)
    boards[asset] = base .. 'board:' .. asset
    totals[i] = pack_ints('<I8', call('ZCARD', boards[asset]))
  end
  local names, records = {}, {}
  many, at = unpack_ints('<I2', given, at)
  for i = 1, many do
    names[i], at = unpack_ints('<I2c0', given, at)
  end
  local holds, hold = {}
  many, at = unpack_ints('<I2', given, at)
  for i = 1, many do
    hold, at = unpack_ints('<I8', given, at)
    local mark = mark_of(base, hold)
    holds[i] = pack_ints('<I4c0', #mark, mark)
  end
  if by_name == 1 then
    cursor = 0
    if #names > 0 then records = call('HMGET', cells, unpack(names)) end
  else
    local page = call('HSCAN', cells, format('%.0f', cursor), 'COUNT', format('%d', limit))
    cursor = tonumber(page[1])
    local found = page[2]
    for i = 1, #found, 2 do
      if found[i] ~= 'v' then
        names[#names + 1] = found[i]
        records[#names] = found[i + 1]
      end
    end
  end
  local accounts, marks, known = {}, {}, {}
  for i = 1, #names do
    local name, record, row = names[i], records[i] or '', false
    if #record >= 16 then
      local value, since = unpack_ints('<i8I8', record)
      local colon = find(name, ':', 1, true) or 1
      local board, owner = boards[sub(name, 1, colon - 1)], sub(name, colon + 1)
      if board and value > 0 and since <= LARGEST and sub(owner, 1, 1) ~= '@' then
        row = call('ZSCORE', board, pack_ints('>I8c0', LARGEST - since, owner))
      end
      for lien = 17, #record - 23, 24 do
        local by, _, till = unpack_ints('<I8i8I8', record, lien)
        if till > now and not known[by] then
          known[by] = true
          local mark = mark_of(base, by)
          marks[#marks + 1] = pack_ints('<I8I4c0', by, #mark, mark)
        end
      end
    end
    accounts[i] = pack_ints('<I2c0I4c0', #name, name, #record, record) .. pack_ints('<Bi8', row and 1 or 0, row and tonumber(row) or 0)
  end
  local last = call('XREVRANGE', base .. 'ledger', '+', '-', 'COUNT', 1)
  local seq = last[1] and tonumber(sub(last[1][1], 3)) or 0
  return 'k' .. pack_ints('<I8I8I8', now, seq, cursor) .. concat(totals) .. concat(holds)
    .. pack_ints('<I4', #names) .. concat(accounts) .. concat(marks)
end)
