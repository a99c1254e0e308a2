-- queue/list.lua, twin of queue/list.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <BI8I8 kind (0 waiting, 1 held, 2 dead, 3 tag, 4 number, 5 key), from, until> <BI8 1: after a page, its time>
--         number8 (of the page, or of the delivery) <I2I2c0 limit, tag or key NUL recipient>
-- REPLY   'l' <I8I8I8 now, where the next page begins: time number (0: there is none)>, each
--         <BI8I8I8I8I2 0 scheduled 1 ready 2 leased 3 dead, number at token until attempts> <I4c0 body>
local BYTES_MAX = 1048576
local WAITING, HELD, DEAD, TAG, NUMBER = 0, 1, 2, 3, 4

-- The first of a set after a time and a number; in a table of { time, number8 }.
local function of(set, found, from, till, is_after, time, member, limit)
  local start = 0
  if is_after == 0 then
    start = call('ZCOUNT', set, '-inf', '(' .. format('%d', from))
  else
    -- Among those of the same time, the first of a greater number.
    start = call('ZCOUNT', set, '-inf', '(' .. format('%d', time))
    local stop, wanted = call('ZCOUNT', set, '-inf', time), number_of(member)
    while start < stop do
      local middle = floor((start + stop) / 2)
      if number_of(call('ZRANGE', set, middle, middle)[1]) > wanted then stop = middle else start = middle + 1 end
    end
  end
  local range = call('ZRANGE', set, start, start + limit, 'WITHSCORES')
  for i = 1, #range, 2 do
    local at = tonumber(range[i + 1])
    if at >= till then break end
    found[#found + 1] = { at, range[i] }
  end
end

local function in_order(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return number_of(a[2]) < number_of(b[2])
end

local function find(kind, from, till, is_after, time, member, limit, text)
  local found = {}
  if kind == WAITING then
    of(due, found, from, till, is_after, time, member, limit)
    of(base .. 'rest', found, from, till, is_after, time, member, limit)
    table.sort(found, in_order)
  elseif kind == HELD then
    of(held, found, from, till, is_after, time, member, limit)
  elseif kind == DEAD then
    of(base .. 'dead', found, from, till, is_after, time, member, limit)
  elseif kind == TAG then
    local range = call('ZRANGEBYLEX', base .. 'tag:' .. text, '(' .. member, '+', 'LIMIT', '0', limit + 1)
    for i = 1, #range do found[i] = { 0, range[i] } end
  elseif kind == NUMBER then
    found[1] = { 0, member }
  else
    local keeper = call('HGET', base .. 'key', text)
    if keeper then found[1] = { 0, keeper } end
  end
  return found
end

define('queue_list', function(first_key, at)
  open(first_key)
  local kind, from, till, is_after, time, member, limit, text
  kind, from, till, is_after, time, at = unpack_ints('<BI8I8BI8', given, at)
  member, limit, text = unpack_ints('<c8I2I2c0', given, at)
  local found, shown, bytes, last_time, last_number = find(kind, from, till, is_after, time, member, limit, text), {}, 0, 0, 0
  local more_time, more_number = 0, 0
  for i = 1, #found do
    if #shown == limit or bytes >= BYTES_MAX then
      more_time, more_number = last_time, last_number
      break
    end
    local name = found[i][2]
    local both = call('HMGET', book, name, 't' .. name)
    local stored, tries = both[1], both[2]
    if stored then
      last_time, last_number, bytes = found[i][1], number_of(name), bytes + #stored
      local attempts, token, lease, can_at, status = 0, 0, 0, nil, 1
      if tries then attempts, token, lease, can_at = unpack_ints(TRIED, tries) end
      local was_due = unpack_ints('<I8', stored, 3)
      if not can_at then can_at = was_due end
      local died = call('ZSCORE', base .. 'dead', name)
      if died then
        status, lease = 3, tonumber(died)
      elseif lease > now then
        status = 2
      else
        lease = 0
        if can_at > now then status = 0 end
      end
      shown[#shown + 1] = pack_ints('<BI8I8I8I8I2I4', status, last_number, can_at, token, lease, attempts, #stored) .. stored
    end
  end
  return 'l' .. pack_ints('<I8I8I8', now, more_time, more_number) .. concat(shown)
end, { frees = true })
