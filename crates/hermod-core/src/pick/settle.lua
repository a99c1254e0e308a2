-- pick/settle.lua, twin of pick/settle.rs
-- KEYS    hm:{space/pp}:pick:<deck>:<epoch>:<subject>  HASH (pick/history.lua)
--         hm:{space/pp}:events  STREAM (event/log.lua)
-- ARGV    <BI8 fate (1 acked, 2 nacked), number>
-- REPLY   's' (this call settled it) | 'o' (it was, or there is none; nothing was changed)
--         <I8BI4 now fate (255: there is none) ordinal>
define('pick_settle', function(first_key, at, _, keep)
  local wanted, number = unpack_ints('<BI8', given, at)
  load(KEYS[first_key], KEYS[first_key + 1])
  for i = 1, #reserved do
    local one = reserved[i]
    if one[2] == number then
      local fate, ordinal = one[1], one[3]
      if fate ~= OPEN then return 'o' .. pack_ints('<I8BI4', now, fate, ordinal) end
      fate = wanted
      if one[4] <= now then fate = EXPIRED end
      settle(i, fate)
      save(true)
      local reply = 's' .. pack_ints('<I8BI4', now, fate, ordinal)
      if keep then keep(reply) end
      return reply
    end
  end
  return 'o' .. pack_ints('<I8BI4', now, 255, 0)
end, { begin = read_rules })
