-- queue/claim.lua, twin of queue/claim.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <I2I8I8I8I2BI8Bc0 count, lease, ahead, drop after (0: never), attempts at most, 1: dropped after
--         the last, incarnation, worker>
-- REPLY   'c' <I8I8I8 now, next + 1, next end of a lease + 1 (0: none)> <I2I2B dead expired standing>
--         <I2I2I2 lost moved woken>, each <I8Bc0 time owner>, each
--         number8 <I2I8I8I8B attempt token until at 0> <I4c0 body>
local CLAIM_MAX, BYTES_MAX, SPREAD = 200, 1048576, 1000

-- So many are looked at before it is known how many there are, and one more.
local PEEK = 8

-- Ends the leases whose time is over: they have their place again, or have failed for good.
local function reap(most, drops)
  held_first = first(held) or false
  if not held_first or held_first > now then return 0 end
  local ended, failed = call('ZRANGEBYSCORE', held, '-inf', score(now), 'LIMIT', '0', CLAIM_MAX), 0
  for i = 1, #ended do
    failed = failed + end_lease(ended[i], most, drops)
  end
  return failed
end

-- What can be claimed by then is handed out: now, unless the first of all comes only a little later.
local function reach_of(soonest, ahead)
  if ahead == 0 then return now end
  local reach = after(now, ahead)
  if not soonest or soonest <= now or soonest > reach then return now end
  if after(soonest, SPREAD) < reach then return after(soonest, SPREAD) end
  return reach
end

-- The first that can be claimed by `reach`, at most so many, and when the one after them can be (false: there is none, nil: that
-- is not known). `peeked` are the first of all, with their times.
local function heads_of(source, peeked, peek, reach, wanted)
  local heads, size = {}, #peeked
  for i = 1, size, 2 do
    local time = tonumber(peeked[i + 1])
    if time > reach or i > 2 * wanted then
      if time == NEVER then time = false end
      return heads, time
    end
    heads[(i + 1) / 2] = peeked[i]
  end
  if size <= 2 * peek then return heads, false end
  return call('ZRANGEBYSCORE', source, '-inf', score(reach), 'LIMIT', '0', wanted), nil
end

local opening, fields = { 'n' }, {}

define('queue_claim', function(first_key, at, _, keep)
  open(first_key)
  local count, lease, ahead, drop_after, most, drops, incarnation, worker = unpack_ints('<I2I8I8I8I2BI8Bc0', given, agree(at))
  opening[2] = 'w' .. worker
  read(opening, sticky and 2 or 1)
  expire()
  local failed, expired = reap(most, drops), 0
  failed = failed + (tend(most, drops, TENDED_SOME))
  -- The reply in pieces: its head, and what is handed out, of which many have the same length.
  local handed, pieces, n, steps, bytes, length, length_text = { '' }, 1, 0, CLAIM_MAX, 0, nil, nil
  local standing, is_given, source = LIVE, true, due
  if sticky then
    standing, is_given = stands(worker, incarnation)
    source = base .. 'own:' .. worker
  end
  if not is_given then steps = 0 end
  local peeked, peek, soonest = {}, PEEK, nil
  if count < peek then peek = count end
  if standing ~= GONE then peeked = call('ZRANGE', source, '0', peek, 'WITHSCORES') end
  local reach = reach_of(tonumber(peeked[2]), ahead)
  repeat
    -- What was cleared up is read again.
    close()
    local wanted, freed, heads = count - n, false, nil
    if steps < wanted then wanted = steps end
    heads, soonest = heads_of(source, peeked, peek, reach, wanted)
    local size = #heads
    steps = steps - size
    if size > 0 then
      for i = 1, size do
        local member = heads[i]
        if sticky then member = sub(member, 1, 8) end
        fields[i], fields[size + i] = member, 't' .. member
      end
      local stored_all = call('HMGET', book, unpack(fields, 1, 2 * size))
      local ends, holds, t = {}, {}, 0
      for i = 1, size do
        if bytes >= BYTES_MAX then
          soonest = nil
          break
        end
        local member, stored, tries = fields[i], stored_all[i], stored_all[size + i]
        local meta_size, was_due = unpack_ints('<I2I8', stored)
        local expires, _, to = rest_of(stored, 11)
        -- It stands where it was put last.
        local time, attempt = was_due, 1
        if tries then
          local _
          attempt, _, _, time = unpack_ints(TRIED, tries)
          attempt = attempt + 1
        end
        -- It is nobody's before its time, so all counts from there.
        local from = time
        if now > from then from = now end
        local till = after(from, lease)
        if (expires > 0 and expires <= from) or (drop_after > 0 and after(was_due, drop_after) <= from) then
          drop_due(member, to)
          leave(to)
          forget(member, meta_of(stored))
          expired, freed = expired + 1, true
        else
          t = t + 1
          ends[2 * t - 1], ends[2 * t] = score(till), member
          if sticky then holds[2 * t - 1], holds[2 * t] = 'inf', heads[i] end
          if held_first == false or (held_first and till < held_first) then held_first = till end
          local tried = pack_ints(TRIED, attempt, number(), till, time, 0)
          write(fields[size + i], tried .. sub(stored, 3, 2 + meta_size))
          if to ~= '' then set('l' .. to, member .. '\1') end
          if #stored ~= length then length, length_text = #stored, pack_ints('<I4', #stored) end
          handed[pieces + 1] = member
          handed[pieces + 2] = tried
          handed[pieces + 3] = length_text
          handed[pieces + 4] = stored
          n, pieces, bytes = n + 1, pieces + 4, bytes + length
        end
      end
      if t > 0 then
        if sticky or freed then
          for i = 1, t do fields[i] = ends[2 * i] end
          call('ZREM', due, unpack(fields, 1, t))
        else
          call('ZREMRANGEBYRANK', due, '0', t - 1)
        end
        call('ZADD', held, unpack(ends, 1, 2 * t))
        if sticky then call('ZADD', source, unpack(holds)) end
      end
      if freed then
        soonest = nil
        peeked = call('ZRANGE', source, '0', peek, 'WITHSCORES')
      end
    end
    -- Who stood behind one that was over may have come up.
  until not freed or bytes >= BYTES_MAX or steps == 0 or n == count
  close()
  if standing == GONE then
    soonest = nil
  elseif soonest == nil then
    soonest = first(source)
  end
  if held_first == nil then held_first = first(held) end
  handed[1] = pack_ints('<c1I8I8I8I2I2B', 'c', now, next_number(soonest), next_number(held_first), failed, expired, standing) .. woken()
  local reply = joined(handed, pieces)
  if keep and n > 0 then keep(reply) end
  return reply
end, { frees = true, begin = begin_tending })
