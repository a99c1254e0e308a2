-- queue/recipient.lua, twin of queue/recipient.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua and queue/owners.lua name
-- ARGV    <BI8 1: sticky, floor> <BBc0I2c0 1: it is pinned, worker ('': to none), recipient>
-- REPLY   'r' <I8I8B now, deliveries, 1: there is a first>, <I8I8I8I8I2 number at token until attempts>
--         <B 0: no worker, 1 live, 2 draining>, <I8I8 incarnation until> <I2I2I2 lost moved woken>, each <I8Bc0 time owner>, binding
local function pin_to(to, pin)
  local stored = get('b' .. to)
  local epoch, count, changes = 0, 0, ''
  if stored then
    local _, at
    epoch, _, count, at = read_binding(stored)
    changes = sub(stored, at)
  end
  if pin ~= '' or count > 0 then
    set('b' .. to, pack_ints('<I8Bc0B', epoch, #pin, pin, count) .. changes)
  else
    set('b' .. to, false)
  end
  local line = get('l' .. to)
  set_idle(to, not line)
  if line and sub(line, 9) ~= '\1' then
    local head = sub(line, 1, 8)
    move_head(head, call('ZSCORE', due, head), to, owner_of(to))
  end
end

define('queue_recipient', function(first_key, at, _, keep)
  open(first_key)
  local is_pinned, pin, to = unpack_ints('<BBc0I2c0', given, agree(at))
  expire()
  if sticky and is_pinned == 1 then pin_to(to, pin) end
  local line, length, first_of = get('l' .. to), 0, ''
  if line then
    local head = sub(line, 1, 8)
    length = 1 + call('ZCARD', base .. 'wait:' .. to)
    local attempts, token, till, time = 0, 0, 0, nil
    local stored = get('t' .. head)
    if stored then attempts, token, till, time = unpack_ints(TRIED, stored) end
    if till == 0 then time = tonumber(call('ZSCORE', due, head)) end
    first_of = pack_ints('<I8I8I8I8I2', number_of(head), time, token, till, attempts)
  end
  local stored = get('b' .. to)
  local incarnation, till, gone, flags = worker_of(owner_of(to))
  local worker = '\0'
  if incarnation and gone == 0 then
    local standing = LIVE
    if has_flag(flags, DRAINS) then standing = DRAINING end
    worker = pack_ints('<BI8I8', standing, incarnation, till)
  end
  close()
  local reply = 'r' .. pack_ints('<I8I8B', now, length, line and 1 or 0) .. first_of .. worker .. woken() .. (stored or '')
  if keep and is_pinned == 1 then keep(reply) end
  return reply
end)
