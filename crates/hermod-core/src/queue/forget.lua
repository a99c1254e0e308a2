-- queue/forget.lua, twin of queue/forget.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua and queue/owners.lua name
-- ARGV    <BI8 1: sticky, floor> <I8 where to go on, 0: at the beginning>
-- REPLY   'f' <I8I8 now, where to go on, 0: that was all>
local FORGET_MAX = 200

define('queue_forget', function(first_key, at)
  open(first_key)
  local cursor = unpack_ints('<I8', given, agree(at))
  -- Whoever has a recipient for whom there is something has been given it.
  if call('EXISTS', due, held, base .. 'rest', base .. 'dead') > 0 then return 'f' .. pack_ints('<I8I8', now, 0) end
  local scanned = call('HSCAN', book, format('%d', cursor), 'COUNT', FORGET_MAX)
  local found, fields, many = scanned[2], {}, 0
  for i = 1, #found, 2 do
    local kind = sub(found[i], 1, 1)
    if kind == 'w' or kind == 'b' then
      many = many + 1
      fields[many] = found[i]
    end
  end
  if many > 0 then call('HDEL', book, unpack(fields)) end
  call('UNLINK', base .. 'ends', base .. 'ring', base .. 'leaving', base .. 'idle')
  return 'f' .. pack_ints('<I8I8', now, tonumber(scanned[1]))
end, { frees = true })
