-- limit/reset.lua, twin of limit/reset.rs
-- KEYS    hm:{space/pp}:limit:<subject>  STRING  records (limit/records.lua)
-- ARGV    <I2 rules>, per rule <c8 tag>
-- REPLY   'a' <I8 how many records that meant something were forgotten>
define('limit_reset', function(first_key, at, _, keep)
  local key, count, forgotten, found, dropped = KEYS[first_key], nil, 0, 0, {}
  local all = call('GET', key)
  count, at = unpack_ints('<I2', given, at)
  for _ = 1, count do
    local tag
    tag, at = unpack_ints('<c8', given, at)
    if all and not dropped[tag] then
      local record = record_of(key, all, tag)
      if record then
        found, dropped[tag] = found + 1, true
        if not place_of(all, tag) then call('HDEL', more_of(key), tag) end
        if unpack_ints('<I8', record, ENDS) > now then forgotten = forgotten + 1 end
      end
    end
  end
  if found > 0 then
    local latest, _, has_more = end_of(all), extent(all)
    local list, last = others_in(all, dropped)
    if last == 0 and not has_more then
      call('DEL', key)
    else
      save(key, all, together_of(list, last, latest, has_more), latest, latest)
    end
  end
  local reply = 'a' .. pack_ints('<I8', forgotten)
  if keep then keep(reply) end
  return reply
end)
