-- realm/board.lua, twin of realm/board.rs
-- KEYS    hm:{space/pp}:realm:<realm>:cells  HASH (realm/apply.lua), and its board:<asset>
-- ARGV    <Bc0I2c0I8I4 asset, owner (nothing: from a rank on), rank or how many are shown above the owner, limit>
-- REPLY   'b' <I8 how many> <I8 rank of the owner + 1 (0: not on it)> <I8 rank of the first>, each <i8I2c0 value owner>
local LARGEST = 9007199254740991

define('realm_board', function(key, at)
  local asset, owner, from, limit = unpack_ints('<Bc0I2c0I8I4', given, at)
  local cells = KEYS[key]
  local board = sub(cells, 1, -6) .. 'board:' .. asset
  local rank = 0
  if owner ~= '' then
    local record = call('HGET', cells, asset .. ':' .. owner)
    if record then
      local _, since = unpack_ints('<i8I8', record)
      rank = (call('ZREVRANK', board, pack_ints('>I8', LARGEST - since) .. owner) or -1) + 1
    end
    if from > rank - 1 then from = 0 else from = rank - 1 - from end
  end
  local reply = { 'b' .. pack_ints('<I8I8I8', call('ZCARD', board), rank, from) }
  if owner == '' or rank > 0 then
    local rows = call('ZREVRANGE', board, format('%.0f', from), format('%.0f', from + limit - 1), 'WITHSCORES')
    for i = 1, #rows, 2 do
      local member = sub(rows[i], 9)
      reply[#reply + 1] = pack_ints('<i8I2', tonumber(rows[i + 1]), #member) .. member
    end
  end
  return concat(reply)
end)
