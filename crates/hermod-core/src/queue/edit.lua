-- queue/edit.lua, twin of queue/edit.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <BI8 act (0 cancel, 1 due at, 2 due in, 3 later by, 4 earlier by, 5 due as before, 6 redrive), time>
--         <BI4c0 0: it carries what it did, 1: other bytes, 2: other JSON; payload> <I2 deliveries>, each number8
-- REPLY   'e' <I8I8 now, next + 1 (0: none)> <I2I2I2 lost moved woken>, each <I8Bc0 time owner>, each <BI8 0 gone 1 done 2 leased 3 dead 4 alive, due or until>
local CANCEL, AT, IN, LATER, STAY, REDRIVE = 0, 1, 2, 3, 5, 6
local GONE, DONE, LEASED, DEAD, ALIVE = 0, 1, 2, 3, 4

local function edit(member, act, time, kind, payload)
  local stored = get(member)
  if not stored then return GONE, 0 end
  local attempts, till, meta = get('t' .. member), 0, meta_of(stored)
  if attempts then till = unpack_ints('<I8', attempts, 11) end
  if till > now then return LEASED, till end
  local is_dead = call('ZSCORE', base .. 'dead', member)
  local was_due, _, _, to = read_meta(meta)
  if act == CANCEL then
    take_out(member, to, till)
    forget(member, meta)
    return DONE, was_due
  end
  if act == STAY then
    time = was_due
  elseif act == REDRIVE then
    if not is_dead then return ALIVE, 0 end
    time = now
  elseif is_dead then
    return DEAD, 0
  elseif act == IN then
    time = after(now, time)
  elseif act == LATER then
    time = after(was_due, time)
  elseif act ~= AT then
    time = was_due - time
    if time < 0 then time = 0 end
  end
  local flags = unpack_ints('<B', meta, 9)
  if kind == 0 then
    payload = sub(stored, 3 + #meta)
  else
    flags = flags - flags % 2 + kind - 1
  end
  local new_meta = pack_ints('<I8B', time, flags) .. sub(meta, 10)
  if act == STAY then
    rewrite(member, meta, new_meta, payload)
    return DONE, time
  end
  take_out(member, to, till)
  if is_dead then
    set('t' .. member, false)
  elseif attempts then
    local count, token = unpack_ints(TRIED, attempts)
    set('t' .. member, pack_ints(TRIED, count, token, 0, time, 0))
  end
  rewrite(member, meta, new_meta, payload)
  enter(member, time, to)
  return DONE, time
end

define('queue_edit', function(first_key, at, _, keep)
  open(first_key)
  local act, time, kind, payload, count
  act, time, kind, payload, count, at = unpack_ints('<BI8BI4c0I2', given, agree(at))
  expire()
  local before, replies, any = not sticky and first_due(), {}, false
  for i = 1, count do
    local word, when = edit(sub(given, at, at + 7), act, time, kind, payload)
    if word == DONE then any = true end
    replies[i] = pack_ints('<BI8', word, when)
    at = at + 8
  end
  close()
  local reply = 'e' .. pack_ints('<I8I8', now, next_number(wake(before))) .. woken() .. concat(replies)
  if keep and any then keep(reply) end
  return reply
end, { frees = true })
