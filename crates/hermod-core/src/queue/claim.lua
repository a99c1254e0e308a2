-- queue/claim.lua, twin of queue/claim.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <I2I8I8I8I2BI8Bc0 count, lease, ahead, drop after (0: never), attempts at most, 1: dropped after
--         the last, incarnation, worker>
-- REPLY   'c' <I8I8I8 now, next + 1, next end of a lease + 1 (0: none)> <I2I2B dead expired standing>
--         <I2 woken>, each <I8Bc0 time owner>, each
--         <I8I8I8I8I2 number token until at attempt> <I4c0 body>
local CLAIM_MAX, BYTES_MAX, SPREAD = 200, 1048576, 1000

-- Ends the leases whose time is over: they have their place again, or have failed for good.
local function reap(most, drops)
  local ended, failed = call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, CLAIM_MAX), 0
  for i = 1, #ended do
    local _, is_dead = end_lease(ended[i], most, drops)
    failed = failed + is_dead
  end
  return failed
end

-- What can be claimed by then is handed out: now, unless the first of all comes only a little later.
local function reach_of(source, ahead)
  if ahead == 0 then return now end
  local soonest, reach = first(source), after(now, ahead)
  if not soonest or soonest <= now or soonest > reach then return now end
  if after(soonest, SPREAD) < reach then return after(soonest, SPREAD) end
  return reach
end

return drive(function(first_key, at, _, keep)
  open(first_key)
  local count, lease, ahead, drop_after, most, drops, incarnation, worker = unpack_ints('<I2I8I8I8I2BI8Bc0', given, agree(at))
  expire()
  local failed, expired = reap(most, drops), 0
  local _, died = tend(most, drops, TENDED_SOME)
  failed = failed + died
  local handed, n, steps, bytes = {}, 0, CLAIM_MAX, 0
  local standing, is_given, source = LIVE, true, due
  if sticky then
    standing, is_given = stands(worker, incarnation)
    source = base .. 'own:' .. worker
  end
  if not is_given then steps = 0 end
  local reach = reach_of(source, ahead)
  repeat
    local wanted, freed = count - n, false
    if steps < wanted then wanted = steps end
    local heads = {}
    if wanted > 0 then heads = call('ZRANGEBYSCORE', source, '-inf', reach, 'WITHSCORES', 'LIMIT', 0, wanted) end
    local size = #heads / 2
    steps = steps - size
    if size > 0 then
      local members = {}
      for i = 1, size do members[i] = sub(heads[2 * i - 1], 1, 8) end
      local bodies, tries = call('HMGET', body, unpack(members)), call('HMGET', tried, unpack(members))
      local taken, ends, marks, firsts, mine, t, f = {}, {}, {}, {}, {}, 0, 0
      for i = 1, size do
        if bytes >= BYTES_MAX then break end
        local member, stored, time = members[i], bodies[i], tonumber(heads[2 * i])
        local meta = meta_of(stored)
        local was_due, expires, _, to = read_meta(meta)
        -- It is nobody's before its time, so all counts from there.
        local from = time
        if now > from then from = now end
        local till = after(from, lease)
        if (expires > 0 and expires <= from) or (drop_after > 0 and after(was_due, drop_after) <= from) then
          drop_due(member, to)
          leave(to)
          forget(member, meta)
          expired, freed = expired + 1, true
        else
          local token, attempt = number(), 1
          if tries[i] then attempt = unpack_ints('<I2', tries[i]) + 1 end
          t = t + 1
          mine[t] = heads[2 * i - 1]
          taken[t], ends[2 * t - 1], ends[2 * t], marks[2 * t - 1] = member, till, member, member
          marks[2 * t] = pack_ints(TRIED, attempt, token, till, time, 0) .. meta
          if to ~= '' then
            firsts[f + 1], firsts[f + 2] = to, member .. '\1'
            f = f + 2
          end
          n, bytes = n + 1, bytes + #stored
          handed[n] = pack_ints('<I8I8I8I8I2I4', number_of(member), token, till, time, attempt, #stored) .. stored
        end
      end
      if t > 0 then
        call('ZREM', due, unpack(taken))
        call('ZADD', held, unpack(ends))
        call('HSET', tried, unpack(marks))
        if f > 0 then call('HSET', lines, unpack(firsts)) end
        if sticky then
          call('ZREM', source, unpack(mine))
          local holds = {}
          for i = 1, t do holds[2 * i - 1], holds[2 * i] = 0, mine[i] end
          call('ZADD', base .. 'has:' .. worker, unpack(holds))
        end
      end
    end
    -- Who stood behind one that was over may have come up.
  until not freed or bytes >= BYTES_MAX or steps == 0 or n == count
  close()
  local soonest
  if not sticky or standing ~= GONE then soonest = first(source) end
  local reply = 'c' .. pack_ints('<I8I8I8I2I2B', now, next_number(soonest), next_number(first(held)), failed, expired, standing)
    .. woken() .. table.concat(handed)
  if keep and n > 0 then keep(reply) end
  return reply
end)
