-- pick/subject.lua, twin of pick/subject.rs
-- KEYS    hm:{space/pp}:subject:<subject>  STRING <I8 version> profile
-- ARGV    <BI4 act (0 ask, 1 tell, 2 forget), length> profile
-- REPLY   'k' <BI8 1: something was known, version (0: nothing is)> profile
define('pick_subject', function(first_key, at, _, keep)
  local act, length
  act, length, at = unpack_ints('<BI4', given, at)
  local key = KEYS[first_key]
  local stored, known, version, profile = call('GET', key), 0, 0, ''
  if stored then
    known, version, profile = 1, unpack_ints('<I8', stored), sub(stored, 9)
  end
  if act == 1 then
    version, profile = version + 1, sub(given, at, at + length - 1)
    -- It never comes twice, also after it was forgotten.
    if now > version then version = now end
    call('SET', key, pack_ints('<I8', version) .. profile)
  elseif act == 2 then
    version, profile = 0, ''
    if stored then call('DEL', key) end
  end
  local reply = 'k' .. pack_ints('<BI8', known, version) .. profile
  if act ~= 0 and keep then keep(reply) end
  return reply
end)
