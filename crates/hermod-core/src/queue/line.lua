-- queue/line.lua, twin of queue/line.rs: what scripts about queues share
-- KEYS    hm:{space/pp}:queue:<queue>:n  STRING  the last number; and, with another ending than the n:
--           due:* held rest dead  ZSET  time number8 (big endian, so that equal times are in order of insertion)
--           body  HASH  number8 -> <I2 length> meta payload; meta as queue/delivery.rs says
--           tried  HASH  number8 -> <I2I8I8I8B attempts token until at blocks> meta
--           line  HASH  recipient -> number8 of its first, <B 0: it waits, 1: it is held, 2: it blocks>
--           wait:<recipient>  ZSET  time number8
--           key  HASH  key NUL recipient -> number8      tag:<tag>  ZSET  0 number8
--           finished:<key NUL recipient>  STRING  <I8I8 until number>      reply:<number>  STRING  <I8B until kind> reply
--           own:<owner>  ZSET  time number8 recipient: of a sticky queue, what is in due by who has it
--           has:<owner>  ZSET  0 number8 recipient: what is held by whom
--           wake  a channel: when one can be claimed, and by whom if the queue is sticky
-- ARGV    none of its own
-- REPLY   none of its own
local TRIED, TRIED_SIZE = '<I2I8I8I8B', 27
local TIME_MAX = 9007199254740991
local base, due, held, rest, dead, body, tried, lines, keyed, last
-- Whether the queue is sticky, the greatest number that was seen of it, and to whom something was given in this step.
local sticky, floor_seen, given_to = false, 0, {}
-- Of queue/owners.lua: who has a recipient; who is to have it from here on; there is nothing for it any more, or again.
local owner_of, route, set_idle

-- Names the parts of the queue of this operation.
local function open(first_key)
  base = sub(KEYS[first_key], 1, -2)
  due, held, rest, dead = base .. 'due:*', base .. 'held', base .. 'rest', base .. 'dead'
  body, tried, lines, keyed, last = base .. 'body', base .. 'tried', base .. 'line', base .. 'key', nil
  sticky, floor_seen = false, 0
end

-- Begins a step of an operation that says <BI8 1: the queue is sticky, floor>.
local function agree(at)
  local is_sticky
  is_sticky, floor_seen, at = unpack_ints('<BI8', given, at)
  sticky, given_to = is_sticky == 1, {}
  return at
end

-- The next number: greater than all before, and than the time, so that it grows even if it was lost.
local function number()
  if not last then
    last = tonumber(call('GET', base .. 'n') or 0)
    if floor_seen > last then last = floor_seen end
  end
  last = last + 1
  if now > last then last = now end
  return last
end

-- Keeps the last number.
local function close()
  if last then call('SET', base .. 'n', format('%d', last)) end
end

local function number_of(member)
  return (unpack_ints('>I8', member))
end

local function after(time, span)
  if time + span > TIME_MAX then return TIME_MAX end
  return time + span
end

-- When a delivery can be claimed next, or a lease ends.
local function first(set)
  local found = call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return tonumber(found[2])
end

-- A time that may not be, as a reply has it.
local function next_number(time)
  if time then return time + 1 end
  return 0
end

-- Tells whoever waits that one can be claimed earlier than before.
local function wake(before)
  local time = first(due)
  if time and (not before or time < before) then call('SPUBLISH', base .. 'wake', format('%d', time)) end
  return time
end

-- For whom something may have become due earlier: told to whoever waits, and as a reply has it.
local function woken()
  if not sticky then return '\0\0' end
  local names, told = {}, {}
  for owner in pairs(given_to) do names[#names + 1] = owner end
  table.sort(names)
  for i = 1, #names do
    local time = first(base .. 'own:' .. names[i])
    if names[i] ~= '' and time and time >= given_to[names[i]] then
      call('SPUBLISH', base .. 'wake', format('%d ', time) .. names[i])
      told[#told + 1] = pack_ints('<I8Bc0', time, #names[i], names[i])
    end
  end
  return pack_ints('<I2', #told) .. table.concat(told)
end

-- The first of a recipient goes to whoever is to have it; who that is.
local function put_own(member, at, to)
  local owner, time = route(to), tonumber(at)
  if not given_to[owner] or time < given_to[owner] then given_to[owner] = time end
  call('ZADD', base .. 'own:' .. owner, at, member .. to)
  return owner
end

-- A delivery is the first of its recipient, and waits for its time.
local function put_due(member, at, to)
  call('ZADD', due, at, member)
  if sticky and to ~= '' then put_own(member, at, to) end
end

-- It does not any more; whether it did.
local function drop_due(member, to)
  local was = call('ZREM', due, member) == 1
  if was and sticky and to ~= '' then call('ZREM', base .. 'own:' .. owner_of(to), member .. to) end
  return was
end

-- It is not held any more.
local function drop_held(member, to)
  call('ZREM', held, member)
  if sticky and to ~= '' then call('ZREM', base .. 'has:' .. owner_of(to), member .. to) end
end

-- Puts a delivery where it can be claimed from `at` on, or behind its recipient's first.
local function enter(member, at, to)
  if to == '' then
    call('ZADD', due, at, member)
    return
  end
  local is_first = true
  local line = call('HGET', lines, to)
  if line then
    local head = sub(line, 1, 8)
    local head_at
    if sub(line, 9) == '\0' then head_at = tonumber(call('ZSCORE', due, head)) end
    if not head_at or at > head_at or (at == head_at and number_of(member) > number_of(head)) then
      call('ZADD', rest, at, member)
      call('ZADD', base .. 'wait:' .. to, at, member)
      return
    end
    drop_due(head, to)
    call('ZADD', rest, head_at, head)
    call('ZADD', base .. 'wait:' .. to, head_at, head)
    is_first = false
  end
  call('HSET', lines, to, member .. '\0')
  if is_first and sticky then set_idle(to, false) end
  put_due(member, at, to)
end

-- The first of a recipient is finished, or goes elsewhere: the next moves up.
local function leave(to)
  if to == '' then return end
  local wait = base .. 'wait:' .. to
  local moved = call('ZRANGE', wait, 0, 0, 'WITHSCORES')
  if not moved[1] then
    call('HDEL', lines, to)
    if sticky then set_idle(to, true) end
    return
  end
  call('ZREM', wait, moved[1])
  call('ZREM', rest, moved[1])
  call('HSET', lines, to, moved[1] .. '\0')
  put_due(moved[1], moved[2], to)
end

-- Takes a delivery out of its set and its line, whichever they are.
local function take_out(member, to, till)
  if call('ZREM', dead, member) == 1 then return end
  if till > 0 then
    drop_held(member, to)
  elseif not drop_due(member, to) then
    call('ZREM', rest, member)
    call('ZREM', base .. 'wait:' .. to, member)
    return
  end
  leave(to)
end

-- What is known of a delivery after its due time: when it expires, attempts at most (0: not said), its recipient, its
-- key, how many tags, where they begin, and how long a reply is kept (0: nobody waits for one).
local function rest_of(meta, at)
  local flags, expires, max, to, key, tags, reply = 0, 0, 0, '', '', 0, 0
  flags, at = unpack_ints('<B', meta, at)
  if flags < 2 then return 0, 0, '', '', 0, at, 0 end
  if flags % 4 >= 2 then expires, at = unpack_ints('<I8', meta, at) end
  if flags % 8 >= 4 then max, at = unpack_ints('<I2', meta, at) end
  if flags >= 64 then reply, at = unpack_ints('<I8', meta, at) end
  if flags % 16 >= 8 then to, at = unpack_ints('<I2c0', meta, at) end
  if flags % 32 >= 16 then key, at = unpack_ints('<Bc0', meta, at) end
  if flags % 64 >= 32 then tags, at = unpack_ints('<B', meta, at) end
  return expires, max, to, key, tags, at, reply
end

-- The same, after its due time.
local function read_meta(meta)
  return unpack_ints('<I8', meta), rest_of(meta, 9)
end

-- What a delivery is found by, besides its number.
local function find_by(member, meta)
  local _, _, _, to, key, tags, at = read_meta(meta)
  if key ~= '' then call('HSET', keyed, key .. '\0' .. to, member) end
  for _ = 1, tags do
    local tag
    tag, at = unpack_ints('<Bc0', meta, at)
    call('ZADD', base .. 'tag:' .. tag, 0, member)
  end
end

-- Takes away what a delivery is found by; its key.
local function unfind(member, meta)
  local _, _, _, to, key, tags, at = read_meta(meta)
  if key ~= '' then
    key = key .. '\0' .. to
    call('HDEL', keyed, key)
  end
  for _ = 1, tags do
    local tag
    tag, at = unpack_ints('<Bc0', meta, at)
    call('ZREM', base .. 'tag:' .. tag, member)
  end
  return key
end

local function meta_of(stored)
  return sub(stored, 3, 2 + unpack_ints('<I2', stored))
end

-- Forgets a delivery that is in no set any more.
local function forget(member, meta)
  call('HDEL', body, member)
  call('HDEL', tried, member)
  return unfind(member, meta)
end

-- Puts another body in the place of a delivery's, with what it is found by, and what was tried.
local function rewrite(member, meta, new_meta, payload)
  unfind(member, meta)
  call('HSET', body, member, pack_ints('<I2', #new_meta) .. new_meta .. payload)
  local attempts = call('HGET', tried, member)
  if attempts then call('HSET', tried, member, sub(attempts, 1, TRIED_SIZE) .. new_meta) end
  find_by(member, new_meta)
end

-- Ends a lease: the delivery can be claimed again from `at` on. If it blocks, its recipient waits for it.
local function give_back(member, to, at, blocks, attempts, token, meta)
  drop_held(member, to)
  if blocks and to ~= '' then
    put_due(member, at, to)
    call('HSET', lines, to, member .. '\2')
    call('HSET', tried, member, pack_ints(TRIED, attempts, token, 0, at, 1) .. meta)
    return
  end
  leave(to)
  enter(member, at, to)
  call('HSET', tried, member, pack_ints(TRIED, attempts, token, 0, at, 0) .. meta)
end

-- A delivery that is held has failed for the last time.
local function exhaust(member, to, at, drops, attempts, token, meta)
  drop_held(member, to)
  leave(to)
  if drops == 1 then
    forget(member, meta)
    return
  end
  call('HSET', tried, member, pack_ints(TRIED, attempts, token, 0, at, 0) .. meta)
  call('ZADD', dead, now, member)
end
