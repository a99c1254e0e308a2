#!lua
-- operation.lua, the common opening of every script; twin of operation.rs and once.rs
-- KEYS    per operation: hm:{space/pp}:once:<key> <home>  STRING  "until fingerprint reply..."  if it has an
--         idempotency key, then its own
-- ARGV    now_us (0: the server's own TIME), then per operation: how many keys, 'fingerprint keep_us note'
--         ('': no idempotency key), its own argument
-- REPLY   per operation one string of words and integers; 'replayed' + the kept reply | 'conflict'
--
-- One call may carry several operations: each is whole by itself, and what a call costs is shared.
-- What all scripts keep to, because it was measured: integers are printed with %d, which is exact
-- below 2^53 and several times as fast as %.0f; (a - a % b) / b is the floor of a / b, exact too, and
-- costs no call; tables and closures are made only where they are needed.
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

-- What is kept for an idempotency key; or nothing, and how to keep a reply that changed something.
local function once(key, given)
  local fingerprint, keep_us, note = string.match(given, '^(%x+) (%d+)(.*)$')
  local kept = call('GET', key)
  if kept then
    local until_us, body, reply = string.match(kept, '^(%d+) (%x+) (.*)$')
    if tonumber(until_us) > now then
      if body ~= fingerprint then return 'conflict' end
      return 'replayed ' .. reply
    end
  end
  return nil, function(reply)
    call('SET', key, string.format('%d %s %s%s', now + keep_us, fingerprint, reply, note),
      'PX', string.format('%d', math.ceil(keep_us / 1000) + slack_ms))
  end
end

-- Runs operate(first_key, keys, given, keep) for every operation of the call.
local function drive(operate)
  local replies, key, n = {}, 1, 0
  for at = 2, #ARGV, 3 do
    local keys, own = tonumber(ARGV[at]), key
    local reply, keep
    if ARGV[at + 1] ~= '' then
      reply, keep = once(KEYS[key], ARGV[at + 1])
      own = key + 1
    end
    n = n + 1
    replies[n] = reply or operate(own, key + keys - own, ARGV[at + 2], keep)
    key = key + keys
  end
  return replies
end

