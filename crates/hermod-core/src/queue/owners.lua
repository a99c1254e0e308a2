-- queue/owners.lua, twin of queue/owners.rs: who owns which recipient of a sticky queue
-- KEYS    hm:{space/pp}:queue:<queue>:n, with another ending than the n:
--           worker  HASH  worker -> <I8I8BBB incarnation until gone flags points>, each point8; gone 0: it is not, else why;
--                         flags 1 it drains, 2 its stream was closed, 4 it is in leaving
--           ends  ZSET  until worker      ring  ZSET  0 point8 worker      turn  STRING  point8 worker, the last used
--           leaving  ZSET  0 worker, whose recipients are to be moved
--           bound  HASH  recipient -> <I8Bc0B epoch pin changes>, each <I8BBc0 time why owner>, the newest first
--           idle  ZSET  since recipient, for whom there is nothing
-- ARGV    none of its own
-- REPLY   none of its own
local WORKER, WORKER_SIZE, CHANGES_MAX, EXPIRE_MAX = '<I8I8BBB', 19, 4, 50
local FIRST, ADOPTED, SILENT, CLOSED, LEFT, DRAINED, PINNED, UNKNOWN = 1, 2, 3, 4, 5, 6, 7, 8
local DRAINS, CLOSES, LEAVES = 1, 2, 4
local GONE, LIVE, DRAINING, FULL = 0, 1, 2, 3

local function has_flag(flags, flag)
  return flags % (2 * flag) >= flag
end

-- A worker: incarnation, until, why it is gone (0: it is not), flags, its record.
local function worker_of(name)
  local stored = name ~= '' and call('HGET', base .. 'worker', name)
  if not stored then return nil end
  local incarnation, till, gone, flags = unpack_ints(WORKER, stored)
  return incarnation, till, gone, flags, stored
end

-- Keeps a worker, and puts it where it is found.
local function keep_worker(name, old, incarnation, till, gone, flags, points)
  local was_in, is_in = false, gone == 0 and not has_flag(flags, DRAINS)
  if old then
    local _, _, old_gone, old_flags = unpack_ints(WORKER, old)
    was_in = old_gone == 0 and not has_flag(old_flags, DRAINS)
    local old_points = sub(old, WORKER_SIZE + 1)
    if was_in and (not is_in or old_points ~= points) then
      for i = 1, #old_points, 8 do call('ZREM', base .. 'ring', sub(old_points, i, i + 7) .. name) end
      was_in = false
    end
  end
  if is_in and not was_in then
    for i = 1, #points, 8 do call('ZADD', base .. 'ring', 0, sub(points, i, i + 7) .. name) end
  end
  if gone == 0 then call('ZADD', base .. 'ends', till, name) else call('ZREM', base .. 'ends', name) end
  if has_flag(flags, LEAVES) then call('ZADD', base .. 'leaving', 0, name) else call('ZREM', base .. 'leaving', name) end
  call('HSET', base .. 'worker', name, pack_ints(WORKER, incarnation, till, gone, flags, #points / 8) .. points)
end

-- Forgets a worker that is gone, and has nothing any more.
local function forget_worker(name)
  call('ZREM', base .. 'leaving', name)
  call('HDEL', base .. 'worker', name)
end

local function may_have_more(name)
  local incarnation, _, gone, flags = worker_of(name)
  return incarnation and gone == 0 and not has_flag(flags, DRAINS)
end

-- The next worker's turn.
local function next_worker()
  local ring, turn = base .. 'ring', call('GET', base .. 'turn')
  local found
  if turn then found = call('ZRANGEBYLEX', ring, '(' .. turn, '+', 'LIMIT', 0, 1)[1] end
  if not found then found = call('ZRANGE', ring, 0, 0)[1] end
  if not found then return '' end
  call('SET', base .. 'turn', found)
  return sub(found, 9)
end

-- A recipient's epoch, pin, how many changes, where they begin, its owner.
local function read_binding(stored)
  local epoch, pin, count, at = unpack_ints('<I8Bc0B', stored)
  local owner = ''
  if count > 0 then
    local _, _, newest = unpack_ints('<I8BBc0', stored, at)
    owner = newest
  end
  return epoch, pin, count, at, owner
end

owner_of = function(to)
  local stored = call('HGET', base .. 'bound', to)
  if not stored then return '' end
  local _, _, _, _, owner = read_binding(stored)
  return owner
end

local function bind(to, stored, owner, why)
  local epoch, pin, count, older = number(), '', 0, ''
  if stored then
    local _, at
    _, pin, count, at = read_binding(stored)
    if count > CHANGES_MAX - 1 then count = CHANGES_MAX - 1 end
    local from = at
    for _ = 1, count do
      local _, _, _, after_it = unpack_ints('<I8BBc0', stored, at)
      at = after_it
    end
    older = sub(stored, from, at - 1)
  end
  call('HSET', base .. 'bound', to, pack_ints('<I8Bc0B', epoch, #pin, pin, count + 1)
    .. pack_ints('<I8BBc0', now, why, #owner, owner) .. older)
end

-- Who is to have this recipient from here on, where one delivery ends and the next begins.
route = function(to)
  local stored = call('HGET', base .. 'bound', to)
  local pin, count, owner = '', 0, ''
  if stored then
    local _
    _, pin, count, _, owner = read_binding(stored)
  end
  if pin ~= '' and may_have_more(pin) then
    if owner ~= pin then bind(to, stored, pin, PINNED) end
    return pin
  end
  local incarnation, _, gone, flags = worker_of(owner)
  if incarnation and gone == 0 and not has_flag(flags, DRAINS) then return owner end
  local why = UNKNOWN
  if count == 0 then
    why = FIRST
  elseif owner == '' then
    why = ADOPTED
  elseif incarnation then
    why = gone
    if gone == 0 then why = DRAINED end
  end
  local chosen = next_worker()
  if chosen ~= owner then bind(to, stored, chosen, why) end
  return chosen
end

-- There is nothing for this recipient any more, or there is again.
set_idle = function(to, is_idle)
  if is_idle then
    local stored = call('HGET', base .. 'bound', to)
    if stored then
      local _, pin = read_binding(stored)
      if pin == '' then
        call('ZADD', base .. 'idle', now, to)
        return
      end
    end
  end
  call('ZREM', base .. 'idle', to)
end

-- A worker is gone.
local function dismiss(name, why)
  local incarnation, till, gone, flags, old = worker_of(name)
  if not incarnation or gone ~= 0 then return end
  if not has_flag(flags, LEAVES) then flags = flags + LEAVES end
  keep_worker(name, old, incarnation, till, why, flags, sub(old, WORKER_SIZE + 1))
end

-- Finds those whose lease is over.
local function expire()
  if not sticky then return end
  local ended = call('ZRANGEBYSCORE', base .. 'ends', '-inf', now, 'LIMIT', 0, EXPIRE_MAX)
  for i = 1, #ended do
    local _, _, _, flags = worker_of(ended[i])
    if has_flag(flags, CLOSES) then dismiss(ended[i], CLOSED) else dismiss(ended[i], SILENT) end
  end
end
