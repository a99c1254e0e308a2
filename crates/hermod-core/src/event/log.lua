-- event/log.lua, twin of event/log.rs: what scripts that leave events share
-- KEYS    none of its own: hm:{space/pp}:events  STREAM  0-<number>: e <BI8I8I4 kind at number ordinal> deck:epoch:subject
-- ARGV    none of its own
-- REPLY   none of its own
local PICKED = 1

-- Appends an event. The stream numbers it itself, one more than the last.
local function log_event(events, event)
  call('XADD', events, 'MAXLEN', '=', '10000', '0-*', 'e', event)
end
