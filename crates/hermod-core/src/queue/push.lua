-- queue/push.lua, twin of queue/push.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <I2B attempts at most, 1: dropped after the last> <I2 deliveries>, each <BBI8 if the key exists (0 keep, 1 replace, 2 debounce), 1: the time is a span, time>
--         <I2c0 meta without the due time> <I4c0 payload>
-- REPLY   'p' <I8I8 now, next + 1 (0: none)> <I2 woken>, each <I8Bc0 time owner>, each <BI8I8 0 added 1 kept 2 replaced 3 finished, number, due>
local ADDED, KEPT, REPLACED, FINISHED = 0, 1, 2, 3

-- Another delivery takes over the key of this one.
local function unkey(member, stored, meta)
  local _, _, _, _, key, tags, at = read_meta(meta)
  -- The number of tags stands between it and them, if there are any.
  if tags > 0 then at = at - 1 end
  local flags = unpack_ints('<B', meta, 9)
  rewrite(member, meta, sub(meta, 1, 8) .. pack_ints('<B', flags - 16) .. sub(meta, 10, at - #key - 2) .. sub(meta, at),
    sub(stored, 3 + #meta))
end

-- What becomes of a push under this key, if it is not a new delivery.
local function under(key, mode, time, wanted, payload)
  local member = call('HGET', keyed, key)
  if not member then
    local kept = call('GET', base .. 'finished:' .. key)
    if kept then
      local till, finished = unpack_ints('<I8I8', kept)
      if till > now and mode == 0 then return FINISHED, finished, 0 end
      call('DEL', base .. 'finished:' .. key)
    end
    return nil
  end
  local stored, attempts = call('HGET', body, member), call('HGET', tried, member)
  local meta = meta_of(stored)
  local was_due, _, _, to = read_meta(meta)
  if mode == 0 then return KEPT, number_of(member), was_due end
  local till = 0
  if attempts then till = unpack_ints('<I8', attempts, 11) end
  if till > now or call('ZSCORE', dead, member) then
    -- Somebody holds it, or it is dead: it goes on without its key.
    unkey(member, stored, meta)
    return nil
  end
  if mode == 2 and was_due > time then time = was_due end
  take_out(member, to, till)
  call('HDEL', tried, member)
  rewrite(member, meta, pack_ints('<I8', time) .. wanted, payload)
  enter(member, time, to)
  return REPLACED, number_of(member), time
end

return drive(function(first_key, at, _, keep)
  open(first_key)
  local most, drops, count
  most, drops, count, at = unpack_ints('<I2BI2', given, agree(at))
  clear_up(most, drops, TENDED_SOME)
  local before = first(due)
  -- Those that have neither a recipient nor a key concern no other: they are written together.
  local replies, times, bodies, plain = {}, {}, {}, 0
  for i = 1, count do
    local mode, is_span, time, wanted, payload
    mode, is_span, time, wanted, payload, at = unpack_ints('<BBI8I2c0I4c0', given, at)
    if is_span == 1 then time = after(now, time) end
    local _, _, to, key, tags = rest_of(wanted, 1)
    local outcome, found, found_due
    if key ~= '' then outcome, found, found_due = under(key .. '\0' .. to, mode, time, wanted, payload) end
    if not outcome then
      outcome, found, found_due = ADDED, number(), time
      local member, meta = pack_ints('>I8', found), pack_ints('<I8', time) .. wanted
      local stored = pack_ints('<I2', #meta) .. meta .. payload
      if to == '' and key == '' then
        plain = plain + 2
        times[plain - 1], times[plain], bodies[plain - 1], bodies[plain] = time, member, member, stored
        if tags > 0 then find_by(member, meta) end
      else
        call('HSET', body, member, stored)
        find_by(member, meta)
        enter(member, time, to)
      end
    end
    replies[i] = pack_ints('<BI8I8', outcome, found, found_due)
  end
  if plain > 0 then
    call('ZADD', due, unpack(times))
    call('HSET', body, unpack(bodies))
  end
  close()
  local reply = 'p' .. pack_ints('<I8I8', now, next_number(wake(before))) .. woken() .. table.concat(replies)
  if keep then keep(reply) end
  return reply
end)
