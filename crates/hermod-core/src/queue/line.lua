-- queue/line.lua, twin of queue/line.rs: what scripts about queues share
-- KEYS    hm:{space/pp}:queue:<queue>:n  HASH  the book: all that is read and written by name, so that an operation does it in one call:
--           n -> <I8I8I8 the last number, when to look after the workers again, the last number when one was lost> turn (queue/owners.lua)
--           number8 -> <I2 length> meta payload; meta as queue/delivery.rs says
--           t number8 -> <I2I8I8I8B attempts token until at blocks> meta
--           l recipient -> number8 of its first, <B 0: it waits, 1: it is held, 2: it blocks>
--           f recipient -> 1: others may wait behind it
--           and what queue/owners.lua says; and, with another ending than the n:
--           due:* held rest dead  ZSET  time number8 (big endian, so that equal times are in order of insertion)
--           wait:<recipient>  ZSET  time number8
--           key  HASH  key NUL recipient -> number8      tag:<tag>  ZSET  0 number8
--           finished:<key NUL recipient>  STRING  <I8I8 until number>      reply:<number>  STRING  <I8B until kind> reply
--           own:<owner>  ZSET  time number8 recipient: of a sticky queue, what is in due by who has it; its time is inf while it is held
--           wake  a channel: when one can be claimed, and by whom if the queue is sticky
-- ARGV    none of its own
-- REPLY   none of its own
--
-- An operation changes the book in what it remembers of it, and writes that once, when it ends; sets are changed at once.
local TRIED, TRIED_SIZE = '<I2I8I8I8B', 27
local NUMBERS, NUMBERS_SIZE = '<I8I8I8', 24
local TIME_MAX, NEVER = 9007199254740991, 1 / 0
local book, base, due, held
-- What is known of the book (false: there is no such field); what is to be written, each field and its value, and to be taken away, and how
-- many of both.
local seen, written, writes, erased, erasures = {}, {}, 0, {}, 0
-- What `n` says, once it was read; whether it is to be written.
local last, look, lost, turn, renumbered
-- The first of due and of held, if that is known (false: there is none).
local due_first, held_first
-- Whether the queue is sticky, the greatest number that was seen of it, and to whom something was given in this step.
local sticky, floor_seen, given_to = false, 0, {}
-- How many workers were found to be gone in this step, and how many recipients have another owner than before, or none, or were parked.
local lost_now, moved_now = 0, 0
-- Of queue/owners.lua: who has a recipient; who is to have it from here on; there is nothing for it any more, or again; the next
-- points of the ring, and how many of them were used.
local owner_of, route, set_idle, points, points_used

-- Names the parts of the queue of this operation.
local function open(first_key)
  book = KEYS[first_key]
  base = sub(book, 1, -2)
  due, held = base .. 'due:*', base .. 'held'
  seen, written, writes, erased, erasures = {}, {}, 0, {}, 0
  last, renumbered, due_first, held_first, points = nil, false, nil, nil, nil
  sticky, floor_seen = false, 0
end

-- Begins a step of an operation that says <BI8 1: the queue is sticky, floor>.
local function agree(at)
  local is_sticky
  is_sticky, floor_seen, at = unpack_ints('<BI8', given, at)
  sticky = is_sticky == 1
  if next(given_to) then given_to = {} end
  lost_now, moved_now = 0, 0
  return at
end

-- Reads these fields of the book at once, none of which is known.
local function read(fields, many)
  local found = call('HMGET', book, unpack(fields, 1, many))
  for i = 1, many do seen[fields[i]] = found[i] end
end

-- A field of the book; false if there is none.
local function get(field)
  local value = seen[field]
  if value == nil then
    value = call('HGET', book, field)
    seen[field] = value
  end
  return value
end

-- It is this from now on, and nobody asks for it in this operation any more: so it need not be remembered.
local function write(field, value)
  written[writes + 1], written[writes + 2] = field, value
  writes = writes + 2
end

-- It is gone, as the above.
local function erase(field)
  erasures = erasures + 1
  erased[erasures] = field
end

-- It is this from now on; false: it is gone.
local function set(field, value)
  seen[field] = value
  if value then write(field, value) else erase(field) end
end

-- Reads the numbers, unless that was done.
local function count_on()
  if last then return end
  local stored = get('n')
  if stored then
    last, look, lost = unpack_ints(NUMBERS, stored)
    turn = sub(stored, NUMBERS_SIZE + 1)
  else
    last, look, lost, turn = 0, 0, 0, ''
  end
end

-- The next number: greater than all before, and than the time, so that it grows even if it was lost.
local function number()
  count_on()
  if floor_seen > last then last = floor_seen end
  last = last + 1
  if now > last then last = now end
  renumbered = true
  return last
end

-- The workers are looked after again then at the latest.
local function look_by(time)
  count_on()
  if time < look then look, renumbered = time, true end
end

-- Writes the book.
local function close()
  if renumbered then
    set('n', pack_ints(NUMBERS, last, look, lost) .. turn)
    renumbered = false
  end
  if writes > 0 then
    call('HSET', book, unpack(written, 1, writes))
    written, writes = {}, 0
  end
  if erasures == 0 then return end
  local many = 0
  for i = 1, erasures do
    local field = erased[i]
    -- It may be there again.
    if not seen[field] then
      many = many + 1
      erased[many] = field
    end
  end
  if many > 0 then call('HDEL', book, unpack(erased, 1, many)) end
  erasures = 0
end

local function number_of(member)
  return (unpack_ints('>I8', member))
end

local function after(time, span)
  if time + span > TIME_MAX then return TIME_MAX end
  return time + span
end

-- A time as sets have it. Redis prints a number of Lua's as a fraction, which costs it as much as all else about a member; and many
-- deliveries have the same time.
local score
do
  local known, text
  score = function(time)
    if time ~= known then known, text = time, format('%d', time) end
    return text
  end
end

-- When a delivery can be claimed next, or a lease ends.
local function first(of)
  local time = tonumber(call('ZRANGE', of, '0', '0', 'WITHSCORES')[2])
  if time == NEVER then return nil end
  return time
end

-- When the first of all can be claimed; false: there is none.
local function first_due()
  if due_first == nil then due_first = first(due) or false end
  return due_first
end

-- A time that may not be, as a reply has it.
local function next_number(time)
  if time then return time + 1 end
  return 0
end

-- Tells whoever waits that one can be claimed earlier than before; when the first can be. For those of a sticky queue woken() does it.
local function wake(before)
  if sticky then return nil end
  local time = first_due()
  if time and (not before or time < before) then call('SPUBLISH', base .. 'wake', format('%d', time)) end
  return time
end

-- Strings as one. Making a string costs as much as it is long, so one alone is not made again.
local function joined(strings, many)
  if many == 1 then return strings[1] end
  return concat(strings, '', 1, many)
end

-- What was done to who has whom, and for whom something may have become due earlier: that is told to whoever waits. As a reply has it.
local function woken()
  if not sticky or (lost_now == 0 and not next(given_to)) then return '\0\0\0\0\0\0' end
  local names, told = {}, {}
  for owner in pairs(given_to) do names[#names + 1] = owner end
  if names[2] then table.sort(names) end
  for i = 1, #names do
    local owner = names[i]
    local time = owner ~= '' and first(base .. 'own:' .. owner)
    if time and time >= given_to[owner] then
      call('SPUBLISH', base .. 'wake', format('%d ', time) .. owner)
      told[#told + 1] = pack_ints('<I8Bc0', time, #owner, owner)
    end
  end
  return pack_ints('<I2I2I2', lost_now, moved_now, #told) .. joined(told, #told)
end

-- The first of a recipient is for whoever is to have it; who that is.
local function give(at, to)
  local owner, time = route(to), tonumber(at)
  if not given_to[owner] or time < given_to[owner] then given_to[owner] = time end
  -- What is parked is looked after at once.
  if owner == '' then look_by(0) end
  return owner
end

-- It stands in due from here on.
local function add_due(member, at)
  call('ZADD', due, score(at), member)
  if due_first ~= nil then
    local time = tonumber(at)
    if not due_first or time < due_first then due_first = time end
  end
end

-- A delivery is the first of its recipient, and waits for its time.
local function put_due(member, at, to)
  add_due(member, at)
  if sticky and to ~= '' then call('ZADD', base .. 'own:' .. give(at, to), score(at), member .. to) end
end

-- It does not any more; whether it did.
local function drop_due(member, to)
  local was = call('ZREM', due, member) == 1
  due_first = nil
  if was and sticky and to ~= '' then call('ZREM', base .. 'own:' .. owner_of(to), member .. to) end
  return was
end

-- It is not held any more.
local function drop_held(member, to)
  call('ZREM', held, member)
  held_first = nil
  if sticky and to ~= '' then call('ZREM', base .. 'own:' .. owner_of(to), member .. to) end
end

-- It waits behind the first of its recipient.
local function put_behind(member, at, to)
  call('ZADD', base .. 'rest', score(at), member)
  call('ZADD', base .. 'wait:' .. to, score(at), member)
  if not seen['f' .. to] then set('f' .. to, '1') end
end

-- Puts a delivery where it can be claimed from `at` on, or behind its recipient's first.
local function enter(member, at, to)
  if to == '' then
    add_due(member, at)
    return
  end
  local line = get('l' .. to)
  if line then
    local head = sub(line, 1, 8)
    local head_at
    if sub(line, 9) == '\0' then head_at = tonumber(call('ZSCORE', due, head)) end
    if not head_at or at > head_at or (at == head_at and number_of(member) > number_of(head)) then
      put_behind(member, at, to)
      return
    end
    drop_due(head, to)
    put_behind(head, head_at, to)
  end
  set('l' .. to, member .. '\0')
  put_due(member, at, to)
end

-- The first of a recipient is finished, or goes elsewhere: the next moves up.
local function leave(to)
  if to == '' then return end
  local followed = get('f' .. to)
  local moved = followed and call('ZRANGE', base .. 'wait:' .. to, '0', '0', 'WITHSCORES')
  if not moved or not moved[1] then
    set('l' .. to, false)
    if followed then set('f' .. to, false) end
    if sticky then set_idle(to, true) end
    return
  end
  call('ZREM', base .. 'wait:' .. to, moved[1])
  call('ZREM', base .. 'rest', moved[1])
  set('l' .. to, moved[1] .. '\0')
  put_due(moved[1], moved[2], to)
end

-- Takes a delivery out of its set and its line, whichever they are.
local function take_out(member, to, till)
  if call('ZREM', base .. 'dead', member) == 1 then return end
  if till > 0 then
    drop_held(member, to)
  elseif not drop_due(member, to) then
    call('ZREM', base .. 'rest', member)
    call('ZREM', base .. 'wait:' .. to, member)
    return
  end
  leave(to)
end

-- What is known of a delivery after its due time: when it expires, attempts at most (0: not said), its recipient, its
-- key, how many tags, where they begin, and how long a reply is kept (0: nobody waits for one).
local function rest_of(meta, at)
  local flags, expires, max, to, key, tags, reply = 0, 0, 0, '', '', 0, 0
  flags, at = byte(meta, at), at + 1
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
  if key ~= '' then call('HSET', base .. 'key', key .. '\0' .. to, member) end
  for _ = 1, tags do
    local tag
    tag, at = unpack_ints('<Bc0', meta, at)
    call('ZADD', base .. 'tag:' .. tag, '0', member)
  end
end

-- Takes away what a delivery is found by; its key.
local function unfind(member, meta)
  local _, _, _, to, key, tags, at = read_meta(meta)
  if key ~= '' then
    key = key .. '\0' .. to
    call('HDEL', base .. 'key', key)
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
  set(member, false)
  set('t' .. member, false)
  return unfind(member, meta)
end

-- Puts another body in the place of a delivery's, with what it is found by, and what was tried.
local function rewrite(member, meta, new_meta, payload)
  unfind(member, meta)
  set(member, pack_ints('<I2', #new_meta) .. new_meta .. payload)
  local attempts = get('t' .. member)
  if attempts then set('t' .. member, sub(attempts, 1, TRIED_SIZE) .. new_meta) end
  find_by(member, new_meta)
end

-- Ends a lease: the delivery can be claimed again from `at` on. If it blocks, its recipient waits for it.
local function give_back(member, to, at, blocks, attempts, token, meta)
  drop_held(member, to)
  if blocks and to ~= '' then
    put_due(member, at, to)
    set('l' .. to, member .. '\2')
    set('t' .. member, pack_ints(TRIED, attempts, token, 0, at, 1) .. meta)
    return
  end
  leave(to)
  enter(member, at, to)
  set('t' .. member, pack_ints(TRIED, attempts, token, 0, at, 0) .. meta)
end

-- A delivery that is held has failed for the last time.
local function exhaust(member, to, at, drops, attempts, token, meta)
  drop_held(member, to)
  leave(to)
  if drops == 1 then
    forget(member, meta)
    return
  end
  set('t' .. member, pack_ints(TRIED, attempts, token, 0, at, 0) .. meta)
  call('ZADD', base .. 'dead', score(now), member)
end
