-- event/log.lua, twin of event/log.rs: what scripts that leave events share
-- KEYS    none of its own: hm:{space/pp}:events  STREAM  0-<number>: e <BI8I8I4 kind at number ordinal> deck:epoch:subject
-- ARGV    none of its own
-- REPLY   none of its own
local PICKED = 1

-- Appends an event. The stream numbers it itself, one more than the last. At times what is too many goes: to trim a stream
-- costs more than to write to it.
local function log_event(events, event)
  local number = tonumber(sub(call('XADD', events, '0-*', 'e', event), 3))
  if number % 128 == 0 then call('XTRIM', events, 'MAXLEN', '=', '10000') end
end
