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

return drive(function(first_key, at, _, keep)
  open(first_key)
  local act, p1, first_ms, factor, max_ms, jitter, chance, blocks, drops, most, kind, answer, count
  act, p1, first_ms, factor, max_ms, jitter, chance, blocks, drops, most, kind, answer, count, at =
    unpack_ints('<BI8I8I8I8I8I8BBI2BI4c0I2', given, agree(at))
  expire()
  local before, members, tokens, replies, any = first(due), {}, {}, {}, false
  for i = 1, count do
    members[i] = sub(given, at, at + 7)
    tokens[i] = unpack_ints('<I8', given, at + 8)
    at = at + 16
  end
  local stored_all, settled, done = {}, {}, {}
  if count > 0 then stored_all = call('HMGET', tried, unpack(members)) end
  for i = 1, count do
    local member, stored, word, time = members[i], stored_all[i], 0, 0
    -- One that is named twice was settled the first time.
    if settled[member] then stored = act ~= ACK and call('HGET', tried, member) end
    if stored then
      local attempts, token, till, was_at = unpack_ints(TRIED, stored)
      if token == tokens[i] and till > now then
        local meta = sub(stored, TRIED_SIZE + 1)
        local was_due, _, max, to, key, tags, _, keep_reply = read_meta(meta)
        if max == 0 then max = most end
        any, settled[member] = true, true
        if act == ACK then
          word, done[#done + 1] = 1, member
          if kind > 0 and keep_reply > 0 then
            local name = format('%d', number_of(member))
            call('SET', base .. 'reply:' .. name, pack_ints('<I8B', after(now, keep_reply), kind) .. answer,
              'PX', format('%d', ceil(keep_reply / 1000) + slack_ms))
            call('SPUBLISH', base .. 'wake', '=' .. name)
          end
          if sticky and to ~= '' then call('ZREM', base .. 'has:' .. owner_of(to), member .. to) end
          leave(to)
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
          call('HSET', tried, member, pack_ints(TRIED, attempts, token, time, was_at, 0) .. meta)
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
  if #done > 0 then
    call('ZREM', held, unpack(done))
    call('HDEL', body, unpack(done))
    call('HDEL', tried, unpack(done))
  end
  close()
  local reply = 's' .. pack_ints('<I8I8', now, next_number(wake(before))) .. woken() .. table.concat(replies)
  if keep and any then keep(reply) end
  return reply
end)
