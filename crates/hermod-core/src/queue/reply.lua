-- queue/reply.lua, twin of queue/reply.rs
-- KEYS    hm:{space/pp}:queue:<queue>:n and what else queue/line.lua names
-- ARGV    <I8 number>
-- REPLY   'y' <I8 now>, if there is a reply <B kind (1 JSON, 2 bytes)> reply
define('queue_reply', function(first_key, at)
  open(first_key)
  local name = base .. 'reply:' .. format('%d', (unpack_ints('<I8', given, at)))
  local reply, stored = 'y' .. pack_ints('<I8', now), call('GET', name)
  if stored and unpack_ints('<I8', stored) > now then
    call('DEL', name)
    reply = reply .. sub(stored, 9)
  end
  return reply
end, { frees = true })
