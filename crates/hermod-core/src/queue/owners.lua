-- queue/owners.lua, twin of queue/owners.rs: who owns which recipient of a sticky queue
-- KEYS    hm:{space/pp}:queue:<queue>:n, the book of queue/line.lua:
--           w worker -> <I8I8BBB incarnation until gone flags points>, each point8; gone 0: it is not, else why;
--                       flags 1 it drains, 2 its stream was closed, 4 it is in leaving
--           b recipient -> <I8Bc0B epoch pin changes>, each <I8BBc0 time why owner>, the newest first
--           n ends with the turn: point8 worker, the last used; and, with another ending than the n:
--           ends  ZSET  until worker, of all that are not gone      ring  ZSET  0 point8 worker
--           leaving  ZSET  0 worker, whose recipients are to be moved; of all that are gone
--           idle  ZSET  since recipient, for whom there was nothing then
-- ARGV    none of its own
-- REPLY   none of its own
local WORKER, WORKER_SIZE, CHANGES_MAX, EXPIRE_MAX, SOME_POINTS = '<I8I8BBB', 19, 4, 50, 32
local FIRST, ADOPTED, SILENT, CLOSED, LEFT, DRAINED, PINNED, UNKNOWN = 1, 2, 3, 4, 5, 6, 7, 8
local DRAINS, CLOSES, LEAVES = 1, 2, 4
local GONE, LIVE, DRAINING, FULL = 0, 1, 2, 3
-- What is parked is given out.
local adopting = false

local function has_flag(flags, flag)
  return flags % (2 * flag) >= flag
end

-- A worker: incarnation, until, why it is gone (0: it is not), flags, its record.
local function worker_of(name)
  local stored = name ~= '' and get('w' .. name)
  if not stored then return nil end
  local incarnation, till, gone, flags = unpack_ints(WORKER, stored)
  return incarnation, till, gone, flags, stored
end

-- Keeps a worker, and puts it where it is found.
local function keep_worker(name, old, incarnation, till, gone, flags, stands_at)
  local was_in, is_in = false, gone == 0 and not has_flag(flags, DRAINS)
  if old then
    local _, _, old_gone, old_flags = unpack_ints(WORKER, old)
    was_in = old_gone == 0 and not has_flag(old_flags, DRAINS)
    -- Whoever was bound until now may have lost his worker.
    if was_in and not is_in then
      count_on()
      lost, renumbered = last, true
    end
    local old_points = sub(old, WORKER_SIZE + 1)
    if was_in and (not is_in or old_points ~= stands_at) then
      for i = 1, #old_points, 8 do call('ZREM', base .. 'ring', sub(old_points, i, i + 7) .. name) end
      was_in, points = false, nil
    end
  end
  if is_in and not was_in then
    points = nil
    for i = 1, #stands_at, 8 do call('ZADD', base .. 'ring', '0', sub(stands_at, i, i + 7) .. name) end
  end
  if gone == 0 then
    call('ZADD', base .. 'ends', score(till), name)
    look_by(till)
  else
    call('ZREM', base .. 'ends', name)
  end
  if has_flag(flags, LEAVES) then
    call('ZADD', base .. 'leaving', '0', name)
    look_by(0)
  else
    call('ZREM', base .. 'leaving', name)
  end
  set('w' .. name, pack_ints(WORKER, incarnation, till, gone, flags, #stands_at / 8) .. stands_at)
end

-- Forgets a worker that is gone, and has nothing any more.
local function forget_worker(name)
  call('ZREM', base .. 'leaving', name)
  set('w' .. name, false)
end

local function may_have_more(name)
  local incarnation, _, gone, flags = worker_of(name)
  return incarnation and gone == 0 and not has_flag(flags, DRAINS)
end

-- The next worker's turn. Whoever asks again gets more points at once.
local function next_worker()
  count_on()
  if not points or points_used == #points then
    local ring, most = base .. 'ring', points and SOME_POINTS or 1
    points, points_used = {}, 0
    if turn ~= '' then points = call('ZRANGEBYLEX', ring, '(' .. turn, '+', 'LIMIT', '0', most) end
    if not points[1] then points = call('ZRANGE', ring, '0', most - 1) end
  end
  local found = points[points_used + 1]
  if not found then return '' end
  points_used, turn, renumbered = points_used + 1, found, true
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
  local stored = get('b' .. to)
  if not stored then return '' end
  local _, _, _, _, owner = read_binding(stored)
  return owner
end

local function bind(to, stored, owner, why)
  if why ~= FIRST or adopting then moved_now = moved_now + 1 end
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
  set('b' .. to, pack_ints('<I8Bc0B', epoch, #pin, pin, count + 1)
    .. pack_ints('<I8BBc0', now, why, #owner, owner) .. older)
end

-- Who is to have this recipient from here on, where one delivery ends and the next begins.
route = function(to)
  local stored = get('b' .. to)
  local epoch, pin, count, owner = 0, '', 0, ''
  if stored then
    local _
    epoch, pin, count, _, owner = read_binding(stored)
  end
  count_on()
  -- No worker was lost since it was bound, so it need not be looked at.
  if epoch > lost and owner ~= '' and (pin == '' or pin == owner) then return owner end
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
    local stored = get('b' .. to)
    if stored then
      local _, pin = read_binding(stored)
      if pin == '' then
        call('ZADD', base .. 'idle', score(now), to)
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
  count_on()
  if now < look then return end
  local ended = call('ZRANGEBYSCORE', base .. 'ends', '-inf', score(now), 'LIMIT', '0', EXPIRE_MAX)
  for i = 1, #ended do
    local _, _, _, flags = worker_of(ended[i])
    if has_flag(flags, CLOSES) then dismiss(ended[i], CLOSED) else dismiss(ended[i], SILENT) end
    lost_now = lost_now + 1
  end
end
