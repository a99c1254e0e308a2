-- realm/due.lua, twin of realm/due.rs
-- KEYS    hm:{space/pp}:realm:<realm>:due  ZSET time: what is scheduled
-- ARGV    <I4 limit>
-- REPLY   'd' <I8 now>, each of the first <I8I2c0 time what>
define('realm_due', function(key, at)
  local limit = unpack_ints('<I4', given, at)
  local rows = call('ZRANGE', KEYS[key], 0, limit - 1, 'WITHSCORES')
  local reply = { 'd' .. pack_ints('<I8', now) }
  for i = 1, #rows, 2 do
    reply[#reply + 1] = pack_ints('<I8I2', tonumber(rows[i + 1]), #rows[i]) .. rows[i]
  end
  return concat(reply)
end)
