-- queue/tend.lua, twin of queue/tend.rs: moves what is to be moved, in bounded steps
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua and queue/owners.lua name
-- ARGV    none of its own
-- REPLY   none of its own
local TENDED_SOME, CALL_MOST = 10, 25
-- The operations that share a call share this too: however many there are, others are not held up for longer. What is left
-- is told as more to do.
local call_left
local function begin_tending() call_left = CALL_MOST end

-- A holder is gone: its delivery has its place again, or has failed for good. Whether it is dead.
local function end_lease(member, most, drops)
  local stored = get('t' .. member)
  local attempts, token, _, at = unpack_ints(TRIED, stored)
  local meta = sub(stored, TRIED_SIZE + 1)
  local was_due, _, max, to = read_meta(meta)
  if max == 0 then max = most end
  if attempts >= max then
    exhaust(member, to, at, drops, attempts, token, meta)
    return 1
  end
  -- Claimed ahead, it still has its pause after the last attempt before it, and its recipient waits for it.
  local place = was_due
  if at > now then place = at end
  give_back(member, to, place, place > was_due, attempts, token, meta)
  return 0
end

-- Gives the first of a recipient to whoever is to have it. It is due as before.
local function move_head(member, at, to, before)
  call('ZREM', base .. 'own:' .. before, member .. to)
  call('ZADD', base .. 'own:' .. give(at, to), score(at), member .. to)
end

-- The same for the first `most` of what a worker has that waits; how many there were.
local function move_some(owner, most)
  local own = base .. 'own:' .. owner
  local heads = call('ZRANGEBYSCORE', own, '-inf', '(inf', 'WITHSCORES', 'LIMIT', '0', most)
  local many = #heads / 2
  if many == 0 then return 0 end
  local members, fields, unknown = {}, {}, 0
  for i = 1, many do
    local field = 'b' .. sub(heads[2 * i - 1], 9)
    members[i] = heads[2 * i - 1]
    if seen[field] == nil then
      unknown = unknown + 1
      fields[unknown] = field
    end
  end
  if unknown > 0 then read(fields, unknown) end
  call('ZREM', own, unpack(members))
  local taken = {}
  for i = 1, many do
    local at = heads[2 * i]
    local new = give(at, sub(members[i], 9))
    local some = taken[new]
    if not some then
      some = {}
      taken[new] = some
    end
    some[#some + 1], some[#some + 2] = at, members[i]
  end
  for new, some in pairs(taken) do call('ZADD', base .. 'own:' .. new, unpack(some)) end
  return many
end

-- Reads what the end of these leases asks for.
local function read_holds(holds)
  local fields, unknown = {}, 0
  for i = 1, #holds do
    local to = sub(holds[i], 9)
    for _, field in ipairs({ 't' .. sub(holds[i], 1, 8), 'b' .. to, 'l' .. to, 'f' .. to }) do
      if seen[field] == nil then
        unknown = unknown + 1
        fields[unknown] = field
      end
    end
  end
  if unknown > 0 then read(fields, unknown) end
end

-- Moves what is to be moved, at most so many: what those have who are gone or drain, what was held before a worker began
-- anew, what is parked. How many deliveries died, whether there is more.
local function tend(most, drops, left)
  if not sticky then return 0, false end
  count_on()
  -- Nobody leaves, nothing is parked, and nobody's time is over.
  if now < look then return 0, false end
  if left > call_left then left = call_left end
  call_left = call_left - left
  local died, is_clear = 0, false
  while left > 0 do
    local name = call('ZRANGE', base .. 'leaving', '0', '0')[1]
    if not name then
      is_clear = true
      break
    end
    local incarnation, till, gone, flags, old = worker_of(name)
    local drains = has_flag(flags, DRAINS)
    if not drains or gone ~= 0 then
      local holds = call('ZRANGEBYSCORE', base .. 'own:' .. name, 'inf', 'inf', 'LIMIT', '0', left)
      read_holds(holds)
      for i = 1, #holds do
        left = left - 1
        died = died + end_lease(sub(holds[i], 1, 8), most, drops)
      end
    end
    if left > 0 and (drains or gone ~= 0) then
      left = left - move_some(name, left)
    end
    if left > 0 then
      if gone ~= 0 then
        forget_worker(name)
      else
        keep_worker(name, old, incarnation, till, gone, flags - LEAVES, sub(old, WORKER_SIZE + 1))
      end
    end
  end
  -- At rest there is neither: that is what is asked first.
  local more = call('EXISTS', base .. 'own:') == 1 and call('EXISTS', base .. 'ring') == 1
  if left > 0 and more then
    adopting = true
    left = left - move_some('', left)
    adopting = false
    more = call('EXISTS', base .. 'own:') == 1
  end
  call_left = call_left + left
  if is_clear and call('EXISTS', base .. 'own:') == 0 then
    -- A queue that was never written to is not by this.
    if get('n') or renumbered then look, renumbered = first(base .. 'ends') or TIME_MAX, true end
  end
  return died, more or (not is_clear and call('EXISTS', base .. 'leaving') == 1)
end

-- What every step on a sticky queue begins with.
local function clear_up(most, drops, left)
  expire()
  return tend(most, drops, left)
end

-- How a worker stands that asks, and whether something is handed to it.
local function stands(name, incarnation)
  local known, _, gone, flags = worker_of(name)
  if not known or gone ~= 0 or known ~= incarnation then return GONE, false end
  if has_flag(flags, DRAINS) then return DRAINING, true end
  -- What it held before it began anew comes first.
  return LIVE, not has_flag(flags, LEAVES)
end
