-- operation.lua, the common opening of all scripts; twin of operation.rs and once.rs
-- KEYS    of every operation that has an idempotency key: hm:{space/pp}:once:<key> <home>  STRING  until fingerprint
--         reply note; then per operation its own
-- ARGV    now_us (0: the server's own TIME); all operations in one string: <I2B how many have an idempotency key, 1: two have the same>, each
--         <I2BI4I4I2 how many there are that differ in their keys only, keys of each, length of once, length of
--         its own, which of the following it shares (0: none)>,
--         once: fingerprint[16] <I8 keep_us, the same for all of a call> note, its own; then what operations share, each once
-- REPLY   <I8I4 now, length> and all replies, each of that length, as one string; or <I8I2 now, how many> and the reply that all of
--         them have; or
--         <I8 now>, then per operation one string: 'R' <I4 length> reply note: kept for its idempotency key
--       | 'C': the key was another request's | 'T' <I8 now>: what was given is about another time | its own
--       | 'X' why: it failed, and those after it have not begun; there are no more replies
--
-- One call may carry several operations: each is whole by itself, and what a call costs is shared.
-- What all scripts keep to, because it was measured: everything comes in one argument and goes out
-- packed, as an argument or a format costs as much as the arithmetic; integers are exact below 2^53;
-- (a - a % b) / b is the floor of a / b and (a + -a % b) / b its ceiling, exact too, and cost no call; no table
-- or closure is made for each operation where it is not needed; few strings, as Lua reads every byte of a new one, one by one; and commands
-- are given strings, as Redis prints every number with 17 digits.
--
-- All of it is one library of functions: what stands outside of them is made once, when the library is loaded, and stays from one call to
-- the next. So `begin` sets what belongs to a call, and an operation what is its own, before it is read: the call before may have ended anywhere.
-- A function can see 200 locals at most; those of queues see 195.

-- What there is while a function runs, and not yet while the library is loaded: begin_call() gets it.
local call, unpack_ints, pack_ints, sub, find, format, byte, concat, floor, ceil, unpack, tonumber, next, pairs, pcall
-- Of the call: its keys and arguments, the time, all operations. A clock that is given may stand still, so collecting garbage waits
-- for `slack_ms`, an hour longer than it must.
local KEYS, ARGV, now, given, slack_ms, slack_us

-- Keeps the reply of the operation whose idempotency key is at hand: its name, where it begins in what was given, how long it is.
-- Until when is the same for all of a call. Where two have the same key, what was kept in this call is known to those who come after it.
local once_name, once_at, once_size, keep_till, keep_px, kept_here
local function keep_reply(reply)
  if not keep_px then
    local span = unpack_ints('<I8', given, once_at + 16)
    keep_till, keep_px = pack_ints('<I8', now + span), format('%d', ceil(span / 1000) + slack_ms)
  end
  local kept = keep_till .. sub(given, once_at, once_at + 15) .. pack_ints('<I4', #reply) .. reply
  if once_size > 24 then kept = kept .. sub(given, once_at + 24, once_at + once_size - 1) end
  if kept_here then kept_here[once_name] = kept end
  call('PSETEX', once_name, keep_px, kept)
end

-- The answer of a call. Replies of one length, as those of checks under the same rules, go out as one string, and those that are the same but
-- once: every item of an answer costs Redis, and whoever reads it, more than its bytes do.
local function together(replies, n)
  if n < 3 then return replies end
  local first, is_same = replies[2], true
  local length = #first
  if length == 0 then return replies end
  for i = 3, n do
    local reply = replies[i]
    if reply ~= first then
      if #reply ~= length then return replies end
      is_same = false
    end
  end
  if is_same then return { pack_ints('<I8I2', now, n - 1), first } end
  return { pack_ints('<I8I4', now, length), concat(replies, '', 2, n) }
end

-- Runs operate(first_key, at, shared, keep) for every operation of the call; its own argument begins at
-- `at`, in the same place for those that differ in their keys only; `shared` says what it shares with
-- others, 0 if nothing; keep(reply) keeps the reply of one that changed something, if there is a key for it.
-- recall(first_key, reply) is the note of a reply that is replayed, where it is not kept beside it.
-- The replies follow those that are there, each when its operation is done; how many there are then.
local function run_all(operate, recall, replies)
  local once, at, n, size = 0, 4, 1, #given
  -- All that was kept is read at once: a call of a command costs more than what it does.
  local onces, is_repeated = unpack_ints('<I2B', given)
  if is_repeated == 1 then kept_here = {} end
  local key, stored = onces + 1, onces > 0 and call('MGET', unpack(KEYS, 1, onces))
  while at <= size do
    local many, keys, own_size, shared
    many, keys, once_size, own_size, shared, at = unpack_ints('<I2BI4I4I2', given, at)
    if once_size == 0 then
      for i = n + 1, n + many do
        replies[i] = operate(key, at, shared)
        key = key + keys
      end
      n = n + many
    else
      -- With an idempotency key it stands alone.
      n, once = n + 1, once + 1
      once_name, once_at = KEYS[once], at
      local kept = kept_here and kept_here[once_name] or stored[once]
      local till = kept and unpack_ints('<I8', kept) or 0
      if till <= now then
        replies[n] = operate(key, at + once_size, shared, keep_reply)
      elseif sub(kept, 9, 24) ~= sub(given, at, at + 15) then
        replies[n] = 'C'
      else
        local reply = 'R' .. sub(kept, 25)
        if recall then reply = reply .. recall(key, sub(kept, 29)) end
        replies[n] = reply
        -- Put off to where it is: WAIT is about what a connection wrote last, and from Redis 7.2 on a call that wrote nothing is not
        -- waited for. What is repeated here another connection may have written.
        call('PEXPIRE', once_name, format('%d', ceil((till - now) / 1000) + slack_ms))
      end
      key = key + keys
    end
    at = at + once_size + own_size
  end
  return n
end

-- Runs all operations of the call. One that fails fails alone: what those before it did is done and has to be told, and those after it can
-- be sent again. Caught once for all of them, as most calls fail nowhere.
local function drive(operate, recall)
  local replies = { pack_ints('<I8', now) }
  -- How many replies there are, or why there are no more: to the store's own pcall an error is a string, be it Lua's or a command's.
  local is_done, n = pcall(run_all, operate, recall, replies)
  if is_done then return together(replies, n) end
  replies[#replies + 1] = 'X' .. n
  return replies
end

local function get_globals()
  call, unpack_ints, pack_ints = redis.call, struct.unpack, struct.pack
  sub, find, format, byte = string.sub, string.find, string.format, string.byte
  concat, floor, ceil = table.concat, math.floor, math.ceil
  local all = _G
  unpack, tonumber, next, pairs, pcall = all.unpack, all.tonumber, all.next, all.pairs, all.pcall
end

-- Begins a call.
local function begin_call(keys, args)
  if not call then get_globals() end
  KEYS, ARGV, now, given, keep_px, kept_here = keys, args, args[1], args[2], nil, nil
  if now == '0' then
    local time = call('TIME')
    now, slack_ms = time[1] * 1000000 + time[2], 10000
  else
    now, slack_ms = tonumber(now), 3600000
  end
  slack_us = slack_ms * 1000
end

-- Makes the function of an operation, which drive() runs. `how` may say begin(), which sets what belongs to a call; recall, as drive() has it;
-- and that it frees more than it takes, or is the step before what does, so that it may run when the store is full.
local function define(name, operate, how)
  how = how or {}
  local begin, recall = how.begin, how.recall
  redis.register_function({
    function_name = PREFIX .. name,
    flags = how.frees and { 'allow-oom' } or {},
    callback = function(keys, args)
      begin_call(keys, args)
      if begin then begin() end
      return drive(operate, recall)
    end,
  })
end
