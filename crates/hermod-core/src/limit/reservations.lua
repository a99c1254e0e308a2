-- limit/reservations.lua, twin of limit/reservations.rs: what scripts about reservations share
-- KEYS    none of its own: hm:{space/pp}:reserve:<subject>  STRING  per reservation
--         <Bc16I8I8I8I8I2c0 fate, number, expires, refunds until, estimate, charged, parts>,
--         per part <B flags> <c8 tag> <Bc0 rule> <BI8I8I8I8I8 kind, the meter> <I8 ends>
-- ARGV    none of its own
-- REPLY   none of its own
local OPEN, SETTLED, KEPT, REFUNDED = 0, 1, 2, 3
local PART_REFUND, PART_SHARED = 1, 2
local OPEN_MAX, SETTLED_MAX, KEEP_US = 1000, 200, 3600000000
local RESERVATION, PART, PART_METER = '<Bc16I8I8I8I8I2c0', '<Bc8Bc0BI8I8I8I8I8I8', '<BI8I8I8I8I8'

local function pack_reservation(fate, number, expires, refunds, estimate, charged, parts)
  return pack_ints('<B', fate) .. number .. pack_ints('<I8I8I8I8I2', expires, refunds, estimate, charged, #parts) .. parts
end

-- The end of a charge: of an estimate the period it was charged in.
local function charge_ends(kind, p2, p3, till)
  if kind == ESTIMATE then
    till = till - p2 * p3
    if till < 0 then till = 0 end
  end
  return till
end

-- The reservations that still mean something, in their order, each { fate, number, expires, estimate, parts,
-- until, packed }; and how many are open. What expired and has nothing to give back is settled by that.
local function reservations(key)
  local list, n, open, stored = {}, 0, 0, call('GET', key)
  if not stored then return list, open end
  local at, size = 1, #stored
  while at <= size do
    local start = at
    local fate, number, expires, refunds, estimate, charged, parts
    fate, number, expires, refunds, estimate, charged, parts, at = unpack_ints(RESERVATION, stored, at)
    local till = expires + KEEP_US
    if refunds > till then till = refunds end
    if till > now then
      local packed
      if fate == OPEN and expires <= now and refunds <= now then
        fate, till, parts = KEPT, expires + KEEP_US, ''
        packed = pack_reservation(KEPT, number, expires, 0, estimate, estimate, '')
      else
        packed = sub(stored, start, at - 1)
      end
      if fate == OPEN then open = open + 1 end
      n = n + 1
      list[n] = { fate, number, expires, estimate, parts, till, packed, charged }
    end
  end
  return list, open
end

-- Writes them, but for the first that were settled, if there are too many.
local function write_reservations(key, list)
  local settled, latest, packed = 0, now, {}
  for i = 1, #list do
    if list[i][1] ~= OPEN then settled = settled + 1 end
  end
  local excess = settled - SETTLED_MAX
  for i = 1, #list do
    local one = list[i]
    if one[1] ~= OPEN and excess > 0 then
      excess = excess - 1
    else
      packed[#packed + 1] = one[7]
      if one[6] > latest then latest = one[6] end
    end
  end
  call('SET', key, concat(packed), 'PX', format('%d', ceil((latest - now) / 1000) + slack_ms))
end
