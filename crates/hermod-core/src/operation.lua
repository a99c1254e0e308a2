#!lua
-- operation.lua, the common opening of every script; twin of once.rs
-- KEYS[1] hm:{space/pp}:once:<key> <home>  STRING  "until fingerprint reply..."   only if ARGV[2] is not ''
-- ARGV    now_us (0: the server's own TIME), 'fingerprint keep_us note' ('': no idempotency key), the operation's own
-- REPLY   one string of words and integers; 'replayed' + the kept reply | 'conflict'
--
-- What all scripts keep to, because they were measured: integers are printed with %d, which is exact
-- below 2^53 and five times as fast as %.0f; (a - a % b) / b is the floor of a / b, exact too, and
-- costs no call; closures and tables are made only where they are needed.
local call = redis.call
local now = ARGV[1]
-- A clock that is given may stand still, so collecting garbage waits an hour longer than it must.
local slack_ms = 3600000
if now == '0' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  slack_ms = 1000
else
  now = tonumber(now)
end

-- Keeps the reply of an operation that changed something; nil without an idempotency key.
local keep
local first_key = 1
if ARGV[2] ~= '' then
  first_key = 2
  local fingerprint, keep_us, note = string.match(ARGV[2], '^(%x+) (%d+)(.*)$')
  local kept = call('GET', KEYS[1])
  if kept then
    local until_us, body, reply = string.match(kept, '^(%d+) (%x+) (.*)$')
    if tonumber(until_us) > now then
      if body ~= fingerprint then return 'conflict' end
      return 'replayed ' .. reply
    end
  end
  keep = function(reply)
    call('SET', KEYS[1], string.format('%d %s %s%s', now + keep_us, fingerprint, reply, note),
      'PX', string.format('%d', math.ceil(keep_us / 1000) + slack_ms))
  end
end

