-- limit/settle.lua, twin of limit/settle.rs
-- KEYS    hm:{space/pp}:limit:<subject>  STRING  records (limit/records.lua)
--         hm:{space/pp}:reserve:<subject>  STRING  reservations (limit/reservations.lua)
-- ARGV    <Bc16I8 act (0 as estimated, 1 to what was used, 2 what has expired), number, what was used>
-- REPLY   's' (this call settled it) | 'o' (it was, or there is none; nothing was changed)
--         <I8BI8I8I8 now, fate (0: there is none), estimate, charged, how many had expired>, and what is owed where
--         all subjects share the counters, each <BBI8 act, 1: it is durable, cost> <Bc0 rule> <BI8I8I8I8I8 kind, the meter>
local EXPIRED_MAX = 200
local REPLY = '<I8BI8I8I8'

-- How many of `cost` tokens have not come back by themselves.
local function left_of(cost, ends, kind, limit, period, tick)
  if now >= ends then return 0 end
  if kind ~= BUCKET then return cost end
  -- What was charged last drains last: so many ticks' worth of the debt of then is left.
  local ticks = floor(ends / tick) - floor(now / tick)
  if ticks >= ceil(cost * period / limit) then return cost end
  return floor(ticks * limit / period)
end

define('limit_settle', function(first_key, at, _, keep)
  local act, wanted, actual = unpack_ints('<Bc16I8', given, at)
  local key, reserve_key = KEYS[first_key], KEYS[first_key + 1]
  -- What expired is found again if it is lost: nobody waits for it.
  local list, durable = reservations(reserve_key), act ~= 2
  local all, before = records_of(key)
  -- The records that change, by the tags of their rules, in the order in which they are met.
  local values, changed, owed = {}, {}, {}

  local function close(one, is_expired, settled_to)
    local estimate, parts, place = one[4], one[5], 1
    while place <= #parts do
      local flags, tag, id, kind, p1, p2, p3, p4, p5, ends
      flags, tag, id, kind, p1, p2, p3, p4, p5, ends, place = unpack_ints(PART, parts, place)
      local charged, what, cost = settled_to, REFUND, nil
      if is_expired and flags % 2 ~= PART_REFUND then charged = estimate end
      if charged < estimate then
        cost = left_of(estimate - charged, ends, kind, p1, p2, p4)
      else
        what, cost = FORCE, charged - estimate
      end
      -- Of a window of the calendar the next one from its turn on; nothing is known of later ones.
      if kind == CALENDAR and now >= p3 and now < p4 then p2, p3 = p3, p4 end
      if cost > 0 and not (kind == CALENDAR and (now < p2 or now >= p3)) then
        if flags % 4 >= PART_SHARED then
          owed[#owed + 1] = pack_ints('<BBI8B', what, durable and floor(flags / 4) or 0, cost, #id) .. id .. pack_ints(PART_METER, kind, p1, p2, p3, p4, p5)
        else
          local stored = values[tag]
          if stored == nil then
            stored = before > now and record_of(key, all, tag)
            changed[#changed + 1] = tag
          end
          values[tag] = meter(what, cost, stored, ruled(kind, 0, p1, p2, p3, p4, p5))
        end
      end
    end
  end

  local fate, estimate, charged, expired, done, kept = 0, 0, 0, 0, {}, {}
  for i = 1, #list do
    local one = list[i]
    local is_expired = one[1] == OPEN and one[3] <= now
    if act == 2 then
      if is_expired and expired < EXPIRED_MAX then
        close(one, true, 0)
        expired = expired + 1
        done[#done + 1] = { one, REFUNDED, 0 }
      else
        kept[#kept + 1] = one
      end
    elseif one[2] ~= wanted or fate ~= 0 then
      kept[#kept + 1] = one
    elseif one[1] ~= OPEN then
      fate, estimate, charged = one[1], one[4], one[8]
      if fate == KEPT then charged = estimate end
    else
      estimate = one[4]
      if is_expired then
        -- What is left open after its expiry has something to give back.
        fate, charged, expired = REFUNDED, 0, 1
      else
        fate, charged = SETTLED, estimate
        if act == 1 then charged = actual end
      end
      close(one, is_expired, charged)
      done[1] = { one, fate, charged }
    end
  end
  if #done == 0 then return 'o' .. pack_ints(REPLY, now, fate, estimate, charged, 0) end

  for i = 1, #done do
    local one, became, to = unpack(done[i])
    local till = one[3] + KEEP_US
    kept[#kept + 1] = { became, one[2], one[3], one[4], '', till, pack_reservation(became, one[2], one[3], 0, one[4], to, '') }
  end
  local records, latest = {}, 0
  for i = 1, #changed do
    local value = values[changed[i]]
    local till = unpack_ints('<I8', value, ENDS)
    records[2 * i - 1], records[2 * i] = changed[i], value
    if till > latest then latest = till end
  end
  write(key, all, before, records, #records, latest)
  write_reservations(reserve_key, kept)
  local reply = 's' .. pack_ints(REPLY, now, fate, estimate, charged, expired) .. concat(owed)
  if keep then keep(reply) end
  return reply
end, { begin = read_rules })
