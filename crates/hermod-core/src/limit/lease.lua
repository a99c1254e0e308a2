-- limit/lease.lua, twin of limit/lease.rs
-- KEYS    hm:{space/pp}:lease:<subject>  STRING  per lease <I8I8I8 until ttl ttl_max> <Bc0 rule> <I2c0 id>
-- ARGV    <BI8I8 act (0 acquire, 1 renew, 2 release), ttl (0: as before), the longest> <I2c0 id> <I2 rules>,
--         per rule <Bc0 id> <I8 limit>
-- REPLY   'a' ('o': it was held before, under all of the rules) <I8I8 now until> per rule <I8I8 taken 0>: it is held; or was, until it was released
--       | 'd' <I8I8 now 0> per rule <I8I8 taken retry_at (0: it would admit)>: it is not
local GRIP = '<I8I8I8Bc0I2c0'

local function pack_grip(till, ttl, ttl_max, rule, id)
  return pack_ints('<I8I8I8B', till, ttl, ttl_max, #rule) .. rule .. pack_ints('<I2', #id) .. id
end

define('limit_lease', function(first_key, at, _, keep)
  local key = KEYS[first_key]
  local act, ttl, ttl_max, id, count
  act, ttl, ttl_max, id, count, at = unpack_ints('<BI8I8I2c0I2', given, at)
  -- The leases that have not ended, in their order.
  local grips, n = {}, 0
  local stored = call('GET', key)
  if stored then
    local place, size = 1, #stored
    while place <= size do
      local till, span, span_max, rule, holder
      till, span, span_max, rule, holder, place = unpack_ints(GRIP, stored, place)
      if till > now then
        n = n + 1
        grips[n] = { till, span, span_max, rule, holder }
      end
    end
  end

  local earliest, taken, refused, mine, word = nil, '', false, {}, 'a'
  if act == 0 then
    local limits = {}
    if count > 0 then word = 'o' end
    for i = 1, count do
      local rule, limit
      rule, limit, at = unpack_ints('<Bc0I8', given, at)
      local own, ends = false, {}
      for j = 1, n do
        if grips[j][4] == rule then
          if grips[j][5] == id then own = true else ends[#ends + 1] = grips[j][1] end
        end
      end
      if not own then word = 'a' end
      local others, retry_at = #ends, 0
      if not own and others >= limit then
        table.sort(ends)
        retry_at, refused = ends[others - limit + 1], true
      end
      mine[rule] = true
      limits[i] = { rule, others, retry_at }
    end
    local kept = {}
    if not refused then
      for j = 1, n do
        if grips[j][5] ~= id or not mine[grips[j][4]] then kept[#kept + 1] = grips[j] end
      end
      grips = kept
    end
    for i = 1, count do
      local rule, others, retry_at = unpack(limits[i])
      if not refused then
        local span = ttl
        if ttl_max < span then span = ttl_max end
        grips[#grips + 1] = { now + span, span, ttl_max, rule, id }
        if not earliest or now + span < earliest then earliest = now + span end
        others = others + 1
      end
      taken = taken .. pack_ints('<I8I8', others, retry_at)
    end
  else
    local kept = {}
    for j = 1, n do
      local grip = grips[j]
      if grip[5] == id then
        if act == 1 then
          if ttl > 0 then
            grip[2] = ttl
            if grip[3] < ttl then grip[2] = grip[3] end
          end
          grip[1] = now + grip[2]
        end
        if not earliest or grip[1] < earliest then earliest = grip[1] end
      end
      if act ~= 2 or grip[5] ~= id then kept[#kept + 1] = grip end
    end
    grips = kept
  end

  if not earliest then return 'd' .. pack_ints('<I8I8', now, 0) .. taken end
  local latest, packed = now, {}
  for j = 1, #grips do
    if grips[j][1] > latest then latest = grips[j][1] end
    packed[j] = pack_grip(unpack(grips[j]))
  end
  if #packed == 0 then
    call('DEL', key)
  else
    call('SET', key, concat(packed), 'PX', format('%d', ceil((latest - now) / 1000) + slack_ms))
  end
  local reply = word .. pack_ints('<I8I8', now, earliest) .. taken
  if keep then keep(reply) end
  return reply
end)
