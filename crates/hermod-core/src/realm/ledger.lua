-- realm/ledger.lua, twin of realm/ledger.rs
-- KEYS    hm:{space/pp}:realm:<realm>:ledger  STREAM  0-<seq>: e entry
-- ARGV    <I8I4B after limit, 1: those before `after` (0: all), the newest first>
-- REPLY   'l' <I8 the last seq>, each <I8I4c0 seq entry>
define('realm_ledger', function(key, at)
  local after, limit, is_back = unpack_ints('<I8I4B', given, at)
  local name = KEYS[key]
  local last = call('XREVRANGE', name, '+', '-', 'COUNT', 1)
  local reply = { 'l' .. pack_ints('<I8', last[1] and tonumber(sub(last[1][1], 3)) or 0) }
  local rows
  if is_back == 1 then
    local to = '+'
    if after > 0 then to = '(0-' .. format('%.0f', after) end
    rows = call('XREVRANGE', name, to, '-', 'COUNT', limit)
  else
    rows = call('XRANGE', name, '(0-' .. format('%.0f', after), '+', 'COUNT', limit)
  end
  for i, row in ipairs(rows) do
    reply[i + 1] = pack_ints('<I8I4', tonumber(sub(row[1], 3)), #row[2][2]) .. row[2][2]
  end
  return concat(reply)
end)
