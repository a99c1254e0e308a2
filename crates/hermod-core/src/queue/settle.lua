-- queue/settle.lua, twin of queue/settle.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <B act (0 ack, 1 nack, 2 extend, 3 give back, 4 return)> <I8I8I8I8I8I8> nack: delay + 1 (0: by the backoff), first ms,
--         factor, max ms, jitter, chance, the last three and the factor in thousandths; extend: the span
--         <BBI2 1: it blocks, 1: dropped after the last attempt, attempts at most> <BI4c0 kind of reply (0: none, 1 JSON,
--         2 bytes), reply> <I2 deliveries>, each number8 <I8 token>
-- REPLY   's' <I8I8 now, next + 1 (0: none)> <I2 woken>, each <I8Bc0 time owner>, each <BI8 0 stale 1 done 2 until 3 dead 4 dropped, that time>
local ACK, NACK, EXTEND, RETURN = 0, 1, 2, 4
local KEEP_US = 259200000000

-- The pause after an attempt, as queue/backoff.rs has it.
local function pause(attempt, first_ms, factor, max_ms, jitter, chance)
  local delay = first_ms
  if delay > max_ms then delay = max_ms end
  for _ = 2, attempt do
    local longer = floor(delay * factor / 1000)
    if longer > max_ms then longer = max_ms end
    if longer <= delay then break end
    delay = longer
  end
  return (delay - floor(delay * jitter * chance / 1000000)) * 1000
end

-- The deliveries of an operation, and what is read for them.
local members, tokens, fields = {}, {}, { 'n' }

-- Reads what the ends of these leases ask for, of all recipients at once.
local function read_lines(count)
  local wanted, many = {}, 0
  for i = 1, count do
    local stored = seen[fields[i + 1]]
    if stored then
      local _, _, to = rest_of(stored, TRIED_SIZE + 9)
      if to ~= '' and seen['f' .. to] == nil then
        wanted[many + 1], seen['f' .. to] = 'f' .. to, false
        many = many + 1
        if sticky then
          wanted[many + 1] = 'b' .. to
          many = many + 1
        end
      end
    end
  end
  if many > 0 then read(wanted, many) end
end

define('queue_settle', function(first_key, at, _, keep)
  open(first_key)
  local act, p1, first_ms, factor, max_ms, jitter, chance, blocks, drops, most, kind, answer, count
  act, p1, first_ms, factor, max_ms, jitter, chance, blocks, drops, most, kind, answer, count, at =
    unpack_ints('<BI8I8I8I8I8I8BBI2BI4c0I2', given, agree(at))
  for i = 1, count do
    members[i], tokens[i], at = unpack_ints('<c8I8', given, at)
    fields[i + 1] = 't' .. members[i]
  end
  read(fields, count + 1)
  if act ~= EXTEND then read_lines(count) end
  expire()
  local before = not sticky and first_due()
  local replies, any, done, many = {}, false, {}, 0
  -- What is done is taken from its owner's together, as mostly all is one owner's.
  local owner, owned, owned_many = '', {}, 0
  for i = 1, count do
    -- One that is named twice was settled the first time.
    local member, stored, word, time = members[i], seen[fields[i + 1]], 0, 0
    if stored then
      local attempts, token, till, was_at = unpack_ints(TRIED, stored)
      if token == tokens[i] and till > now then
        local _, max, to, key, tags, _, keep_reply = rest_of(stored, TRIED_SIZE + 9)
        local meta = (act ~= ACK or key ~= '' or tags > 0) and sub(stored, TRIED_SIZE + 1)
        local was_due = meta and unpack_ints('<I8', meta)
        if max == 0 then max = most end
        any = true
        if act == ACK then
          word, many = 1, many + 1
          done[many] = member
          if kind > 0 and keep_reply > 0 then
            local name = format('%d', number_of(member))
            call('SET', base .. 'reply:' .. name, pack_ints('<I8B', after(now, keep_reply), kind) .. answer,
              'PX', format('%d', ceil(keep_reply / 1000) + slack_ms))
            call('SPUBLISH', base .. 'wake', '=' .. name)
          end
          if sticky and to ~= '' then
            local its = owner_of(to)
            if its ~= owner and owned_many > 0 then
              call('ZREM', base .. 'own:' .. owner, unpack(owned, 1, owned_many))
              owned_many = 0
            end
            owner, owned_many = its, owned_many + 1
            owned[owned_many] = member .. to
          end
          leave(to)
          set(member, false)
          set(fields[i + 1], false)
          if key ~= '' or tags > 0 then
            key = unfind(member, meta)
            if key ~= '' then
              call('SET', base .. 'finished:' .. key, pack_ints('<I8I8', after(now, KEEP_US), number_of(member)),
                'PX', format('%d', KEEP_US / 1000 + slack_ms))
            end
          end
        elseif act == EXTEND then
          word, time = 2, after(now, p1)
          call('ZADD', held, time, member)
          set(fields[i + 1], pack_ints(TRIED, attempts, token, time, was_at, 0) .. meta)
        elseif act == RETURN then
          word, time = 2, was_due
          -- Claimed ahead, it still has its pause after the last attempt before it, and its recipient waits for it.
          if was_at > now then time = was_at end
          give_back(member, to, time, time > was_due, attempts - 1, token, meta)
        elseif attempts >= max then
          word = 3 + drops
          exhaust(member, to, was_at, drops, attempts, token, meta)
        elseif act == NACK then
          local delay = p1 - 1
          if p1 == 0 then delay = pause(attempts, first_ms, factor, max_ms, jitter, chance) end
          word, time = 2, after(now, delay)
          give_back(member, to, time, blocks == 1, attempts, token, meta)
        else
          word, time = 2, was_due
          give_back(member, to, was_due, false, attempts, token, meta)
        end
      end
    end
    replies[i] = pack_ints('<BI8', word, time)
  end
  if many > 0 then call('ZREM', held, unpack(done)) end
  if owned_many > 0 then call('ZREM', base .. 'own:' .. owner, unpack(owned, 1, owned_many)) end
  close()
  local reply = 's' .. pack_ints('<I8I8', now, next_number(wake(before))) .. woken() .. joined(replies, count)
  if keep and any then keep(reply) end
  return reply
end, { frees = true })
