-- queue/edit.lua, twin of queue/edit.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8 1: sticky, floor> <BI8 act (0 cancel, 1 due at, 2 due in, 3 later by, 4 earlier by, 5 rewrite, 6 redrive), time>
--         <BI4c0 1: the payload is JSON, payload> <I2 deliveries>, each number8
-- REPLY   'e' <I8I8 now, next + 1 (0: none)> <I2 woken>, each <I8Bc0 time owner>, each <BI8 0 gone 1 done 2 leased 3 dead 4 alive, due or until>
local CANCEL, AT, IN, LATER, REWRITE, REDRIVE = 0, 1, 2, 3, 5, 6
local GONE, DONE, LEASED, DEAD, ALIVE = 0, 1, 2, 3, 4

local function edit(member, act, time, is_json, payload)
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
  if act == REWRITE then
    local flags = unpack_ints('<B', meta, 9)
    rewrite(member, meta, sub(meta, 1, 8) .. pack_ints('<B', flags - flags % 2 + is_json) .. sub(meta, 10), payload)
    return DONE, was_due
  end
  if act == REDRIVE then
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
  take_out(member, to, till)
  if is_dead then
    set('t' .. member, false)
  elseif attempts then
    local count, token = unpack_ints(TRIED, attempts)
    set('t' .. member, pack_ints(TRIED, count, token, 0, time, 0))
  end
  rewrite(member, meta, pack_ints('<I8', time) .. sub(meta, 9), sub(stored, 3 + #meta))
  enter(member, time, to)
  return DONE, time
end

define('queue_edit', function(first_key, at, _, keep)
  open(first_key)
  local act, time, is_json, payload, count
  act, time, is_json, payload, count, at = unpack_ints('<BI8BI4c0I2', given, agree(at))
  expire()
  local before, replies, any = not sticky and first_due(), {}, false
  for i = 1, count do
    local word, when = edit(sub(given, at, at + 7), act, time, is_json, payload)
    if word == DONE then any = true end
    replies[i] = pack_ints('<BI8', word, when)
    at = at + 8
  end
  close()
  local reply = 'e' .. pack_ints('<I8I8', now, next_number(wake(before))) .. woken() .. concat(replies)
  if keep and any then keep(reply) end
  return reply
end, { frees = true })
