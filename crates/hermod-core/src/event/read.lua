-- event/read.lua, twin of event/read.rs
-- KEYS    hm:{space/pp}:events  STREAM (event/log.lua)
-- ARGV    <I8I2 after, limit>
-- REPLY   'e' <I8I8I8 now first last (0: there is none)>, per event <I8 number> <I4> event
local function number_of(entry)
  return tonumber(sub(entry[1], 3))
end

define('event_read', function(first_key, at)
  local after, limit = unpack_ints('<I8I2', given, at)
  local events = KEYS[first_key]
  local newest = call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
  if not newest then return 'e' .. pack_ints('<I8I8I8', now, 0, 0) end
  local first, last = number_of(call('XRANGE', events, '-', '+', 'COUNT', 1)[1]), number_of(newest)
  local reply = { 'e', pack_ints('<I8I8I8', now, first, last) }
  if after < last and limit > 0 then
    local found = call('XRANGE', events, '(0-' .. format('%d', after), '+', 'COUNT', limit)
    for i = 1, #found do
      local event = found[i][2][2]
      reply[#reply + 1] = pack_ints('<I8I4', number_of(found[i]), #event)
      reply[#reply + 1] = event
    end
  end
  return concat(reply)
end, { frees = true })
