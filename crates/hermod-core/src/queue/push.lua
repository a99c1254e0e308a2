-- queue/push.lua, twin of queue/push.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <I2BI8 attempts at most, 1: dropped after the last, drop after (0: never)> <I2 deliveries>, each <BBI8I2I4 if the key exists (0 keep, 1 replace, 2 debounce), 1: the time is a span, time,
--         length of meta, of payload> meta without the due time, payload
-- REPLY   'p' <I8I8I2I2 now, next + 1 (0: none), expired dead> <I2I2I2 lost moved woken>, each <I8Bc0 time owner>, each <BI8I8 0 added 1 kept 2 replaced 3 finished, number, due>
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

-- What becomes of a push under this key. Where it finds another it writes what is there: that is what is asked about, another connection may have
-- written it, and WAIT is about what a connection wrote last. Nil if it is a new delivery, and 1 if one that was over gave up its key for it.
local function under(key, mode, time, wanted, payload, drop_after)
  local member = call('HGET', base .. 'key', key)
  if not member then
    local kept = call('GET', base .. 'finished:' .. key)
    if kept then
      local till, finished = unpack_ints('<I8I8', kept)
      if till > now and mode == 0 then
        call('SET', base .. 'finished:' .. key, kept, 'KEEPTTL')
        return FINISHED, finished, 0
      end
      call('DEL', base .. 'finished:' .. key)
    end
    return nil
  end
  local stored, attempts = get(member), get('t' .. member)
  local meta = meta_of(stored)
  local was_due, expires, _, to = read_meta(meta)
  local is_over = (expires > 0 and expires <= now) or (drop_after > 0 and after(was_due, drop_after) <= now)
  local till = 0
  if attempts then till = unpack_ints('<I8', attempts, 11) end
  local is_free = (is_over or mode ~= 0) and till <= now and not call('ZSCORE', base .. 'dead', member)
  if is_over and is_free then
    take_out(member, to, till)
    forget(member, meta)
    return nil, 1
  end
  if mode == 0 then
    call('HSET', base .. 'key', key, member)
    return KEPT, number_of(member), was_due
  end
  if not is_free then
    -- Somebody holds it, or it is dead: it goes on without its key.
    unkey(member, stored, meta)
    return nil
  end
  if mode == 2 and was_due > time then time = was_due end
  take_out(member, to, till)
  set('t' .. member, false)
  rewrite(member, meta, pack_ints('<I8', time) .. wanted, payload)
  enter(member, time, to)
  return REPLACED, number_of(member), time
end

-- What the deliveries of an operation say, each the same place in all; where in what was given their meta begins.
local modes, times, begins, meta_sizes, sizes, tos, keys, tagged, fields = {}, {}, {}, {}, {}, {}, {}, {}, { 'n' }

define('queue_push', function(first_key, at, _, keep)
  open(first_key)
  local most, drops, drop_after, count
  most, drops, drop_after, count, at = unpack_ints('<I2BI8I2', given, agree(at))
  local many = 1
  for i = 1, count do
    local is_span, time, size, to
    modes[i], is_span, time, meta_sizes[i], size, at = unpack_ints('<BBI8I2I4', given, at)
    if is_span == 1 then time = after(now, time) end
    size = size + meta_sizes[i]
    times[i], begins[i], sizes[i] = time, at, size
    local _
    _, _, to, keys[i], tagged[i] = rest_of(given, at)
    tos[i], at = to, at + size
    if to ~= '' then
      fields[many + 1] = 'l' .. to
      many = many + 1
      if sticky then
        fields[many + 1] = 'b' .. to
        many = many + 1
      end
    end
  end
  read(fields, many)
  local died = clear_up(most, drops, TENDED_SOME)
  local before = not sticky and first_due()
  -- Those that have neither a recipient nor a key concern no other: they are written together.
  local replies, dues, plain, expired = {}, nil, 0, 0
  for i = 1, count do
    local time, from, to, key = times[i], begins[i], tos[i], keys[i]
    local outcome, found, found_due
    if key ~= '' then
      local wanted, payload = sub(given, from, from + meta_sizes[i] - 1), sub(given, from + meta_sizes[i], from + sizes[i] - 1)
      outcome, found, found_due = under(key .. '\0' .. to, modes[i], time, wanted, payload, drop_after)
    end
    if not outcome then
      if found then expired = expired + 1 end
      outcome, found, found_due = ADDED, number(), time
      local member, stored = pack_ints('>I8', found), pack_ints('<I2I8', meta_sizes[i] + 8, time) .. sub(given, from, from + sizes[i] - 1)
      -- Its key may be asked for again.
      if key == '' then write(member, stored) else set(member, stored) end
      if key ~= '' or tagged[i] > 0 then find_by(member, meta_of(stored)) end
      if to == '' and key == '' then
        dues = dues or {}
        plain = plain + 2
        dues[plain - 1], dues[plain] = score(time), member
        if due_first ~= nil and (not due_first or time < due_first) then due_first = time end
      else
        enter(member, time, to)
      end
    end
    replies[i] = pack_ints('<BI8I8', outcome, found, found_due)
  end
  if plain > 0 then call('ZADD', due, unpack(dues)) end
  close()
  local reply = 'p' .. pack_ints('<I8I8I2I2', now, next_number(wake(before)), expired, died) .. woken() .. joined(replies, count)
  if keep then keep(reply) end
  return reply
end, { begin = begin_tending })
