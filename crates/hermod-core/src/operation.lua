#!lua
-- operation.lua, the common opening of every script; twin of once.rs
-- KEYS[1] hm:{space/pp}:once:<key> <home>  STRING  "until fingerprint reply..."   only if ARGV[2] is not ''
-- ARGV    now_us (0: the server's own TIME), fingerprint ('': no idempotency key), keep_us
-- REPLY   one string of words and integers; 'replayed' + the kept reply | 'conflict'
local now = tonumber(ARGV[1])
-- A clock that is given may stand still, so collecting garbage waits an hour longer than it must.
local slack_ms = 3600000
if now == 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  slack_ms = 1000
end

local fingerprint = ARGV[2]
local first_key = 1
if fingerprint ~= '' then
  first_key = 2
  local kept = redis.call('GET', KEYS[1])
  if kept then
    local until_us, body, reply = string.match(kept, '^(%d+) (%x+) (.*)$')
    if tonumber(until_us) > now then
      if body ~= fingerprint then return 'conflict' end
      return 'replayed ' .. reply
    end
  end
end

-- Keeps the reply of an operation that changed something. Writes only: nothing is read after it.
local function keep(reply)
  if fingerprint ~= '' then
    local keep_us = tonumber(ARGV[3])
    redis.call('SET', KEYS[1], string.format('%.0f %s %s', now + keep_us, fingerprint, reply),
      'PX', string.format('%.0f', math.ceil(keep_us / 1000) + slack_ms))
  end
  return reply
end

