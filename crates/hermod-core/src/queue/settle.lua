-- queue/settle.lua, twin of queue/settle.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <B act (0 ack, 1 nack, 2 extend, 3 give back, 4 return)> <I8I8I8I8I8I8> nack: delay + 1 (0: by the backoff), first ms,
--         factor, max ms, jitter, chance, the last three and the factor in thousandths; extend: the span
--         <BBI2 1: it blocks, 1: dropped after the last attempt, attempts at most> <BI4c0 kind of reply (0: none, 1 JSON,
--         2 bytes), reply> <I2 deliveries>, each number8 <I8 token>
-- REPLY   's' <I8I8 now, next + 1 (0: none)> <I2I2I2 lost moved woken>, each <I8Bc0 time owner>, each <BI8 0 stale 1 done 2 until 3 dead 4 dropped, that time>
local ACK, NACK, EXTEND, RETURN = 0, 1, 2, 4
local KEEP_US = 259200000000
-- The replies that have no time.
local STALE, DONE = ('\0'):rep(9), '\1' .. ('\0'):rep(8)

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
local function read_lines(tries, count)
  local wanted, many = {}, 0
  for i = 2, count + 1 do
    local stored = tries[i]
    -- With less it has none.
    if stored and byte(stored, TRIED_SIZE + 9) >= 8 then
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

-- Settles one that is not done: when it can be claimed again, or until when it is held now.
local function put_off(member, stored, act, how_at, blocks, drops, most)
  local attempts, token, _, was_at = unpack_ints(TRIED, stored)
  local meta = sub(stored, TRIED_SIZE + 1)
  local was_due, _, max, to = read_meta(meta)
  if max == 0 then max = most end
  local word, time = 2, was_due
  if act == EXTEND then
    time = after(now, (unpack_ints('<I8', given, how_at)))
    call('ZADD', held, score(time), member)
    write('t' .. member, pack_ints(TRIED, attempts, token, time, was_at, 0) .. meta)
  elseif act == RETURN then
    -- Claimed ahead, it still has its pause after the last attempt before it, and its recipient waits for it.
    if was_at > now then time = was_at end
    give_back(member, to, time, time > was_due, attempts - 1, token, meta)
  elseif attempts >= max then
    word, time = 3 + drops, 0
    exhaust(member, to, was_at, drops, attempts, token, meta)
  elseif act == NACK then
    local said, first_ms, factor, max_ms, jitter, chance = unpack_ints('<I8I8I8I8I8I8', given, how_at)
    local delay = said - 1
    if said == 0 then delay = pause(attempts, first_ms, factor, max_ms, jitter, chance) end
    time = after(now, delay)
    give_back(member, to, time, blocks == 1, attempts, token, meta)
  else
    give_back(member, to, time, false, attempts, token, meta)
  end
  return pack_ints('<BI8', word, time)
end

define('queue_settle', function(first_key, at, _, keep)
  open(first_key)
  at = agree(at)
  local act, how_at, blocks, drops, most, kind, answer, count = byte(given, at), at + 1, nil, nil, nil, nil, nil, nil
  blocks, drops, most, kind, answer, count, at = unpack_ints('<BBI2BI4c0I2', given, at + 49)
  -- Tokens grow, so that none is named twice where these do. One that is was settled the first time.
  local settled, before_it = nil, 0
  for i = 1, count do
    local member, token
    member, token, at = unpack_ints('<c8I8', given, at)
    members[i], tokens[i], fields[i + 1] = member, token, 't' .. member
    if token <= before_it then settled = settled or {} end
    before_it = token
  end
  local tries = call('HMGET', book, unpack(fields, 1, count + 1))
  seen.n = tries[1]
  if act ~= EXTEND then read_lines(tries, count) end
  expire()
  local before = not sticky and first_due()
  local replies, any, done, many = {}, false, {}, 0
  -- What is done is taken from its owner's together, as mostly all is one owner's.
  local owner, owned, owned_many = '', {}, 0
  for i = 1, count do
    local member, stored, reply = members[i], tries[i + 1], STALE
    if stored and not (settled and settled[member]) then
      local token, till = unpack_ints('<I8I8', stored, 3)
      if token == tokens[i] and till > now then
        any = true
        if settled and act ~= EXTEND then settled[member] = true end
        if act == ACK then
          local _, _, to, key, tags, _, keep_reply = rest_of(stored, TRIED_SIZE + 9)
          reply, many = DONE, many + 1
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
          erase(member)
          erase(fields[i + 1])
          if key ~= '' or tags > 0 then
            key = unfind(member, sub(stored, TRIED_SIZE + 1))
            if key ~= '' then
              call('SET', base .. 'finished:' .. key, pack_ints('<I8I8', after(now, KEEP_US), number_of(member)),
                'PX', format('%d', KEEP_US / 1000 + slack_ms))
            end
          end
        else
          reply = put_off(member, stored, act, how_at, blocks, drops, most)
        end
      end
    end
    replies[i] = reply
  end
  if many > 0 then call('ZREM', held, unpack(done)) end
  if owned_many > 0 then call('ZREM', base .. 'own:' .. owner, unpack(owned, 1, owned_many)) end
  close()
  local reply = 's' .. pack_ints('<I8I8', now, next_number(wake(before))) .. woken() .. joined(replies, count)
  if keep and any then keep(reply) end
  return reply
end, { frees = true })
