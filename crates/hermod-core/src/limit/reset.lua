-- limit/reset.lua, twin of limit/reset.rs
-- KEYS    hm:{space/pp}:limit:<subject>  HASH  rule -> record
-- ARGV    <I2 rules>, per rule <Bc0 id>
-- REPLY   'a' <I8 how many records that meant something were forgotten>
define('limit_reset', function(first_key, at, _, keep)
  local key, count, forgotten = KEYS[first_key], nil, 0
  count, at = unpack_ints('<I2', given, at)
  local ids = {}
  for i = 1, count do
    ids[i], at = unpack_ints('<Bc0', given, at)
    local stored = call('HGET', key, ids[i])
    if stored and unpack_ints('<I8', stored, 26) > now then forgotten = forgotten + 1 end
  end
  if count > 0 then call('HDEL', key, unpack(ids)) end
  local reply = 'a' .. pack_ints('<I8', forgotten)
  if keep then keep(reply) end
  return reply
end)
