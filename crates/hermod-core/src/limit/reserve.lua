-- limit/reserve.lua, twin of limit/reserve.rs
-- KEYS    hm:{space/pp}:limit:<subject>  STRING  records (limit/records.lua)
--         hm:{space/pp}:reserve:<subject>  STRING  reservations (limit/reservations.lua)
-- ARGV    <c16I8I8 number, cost, ttl> <Bc0 of every rule its flags> <I2c0 parts that were charged elsewhere>
--         <I8 until when an expiry gives those back>; shared: the rules (limit/meter.lua)
-- REPLY   that of limit/check.lua, and what is kept of it | 'f' <I8 now>: too many are open; nothing was changed
define('limit_reserve', function(first_key, at, shared, keep)
  local number, cost, ttl, flags, parts, refunds = unpack_ints('<c16I8I8Bc0I2c0I8', given, at)
  local key, reserve_key, rules = KEYS[first_key], KEYS[first_key + 1], known[shared]
  local list, open = reservations(reserve_key)
  if open >= OPEN_MAX then return 'f' .. pack_ints('<I8', now) end
  local all, before = nil, 0
  if #rules > 0 then all, before = records_of(key) end
  local reply, last, latest = test(CHECK, cost, rules, key, all, before)
  if not last then return reply .. NOTHING end

  local own, charged = {}, 1
  for i = 1, #rules do
    -- Which rules were charged: one that only reports, and was over its limit, was not.
    local tag, id = rules.tags[i], rules.ids[i]
    if charged < last and writes[charged] == tag then
      local kind, p1, p2, p3, p4, p5 = rules[i][1], rules[i][3], rules[i][4], rules[i][5], rules[i][6], rules[i][7]
      local flag, ends = byte(flags, i), charge_ends(kind, p2, p3, unpack_ints('<I8', writes[charged + 1], ENDS))
      own[#own + 1] = pack_ints('<Bc8B', flag, tag, #id) .. id .. pack_ints('<BI8I8I8I8I8I8', kind, p1, p2, p3, p4, p5, ends)
      if flag % 2 == PART_REFUND and ends > refunds then refunds = ends end
      charged = charged + 2
    end
  end
  parts = concat(own) .. parts
  local expires = now + ttl
  local till = expires + KEEP_US
  if refunds > till then till = refunds end
  list[#list + 1] = { OPEN, number, expires, cost, parts, till, pack_reservation(OPEN, number, expires, refunds, cost, 0, parts) }
  write(key, all, before, writes, last, latest)
  write_reservations(reserve_key, list)
  if keep then keep('a' .. pack_ints('<I8', now) .. reply) end
  return reply .. NOTHING
end, { begin = read_rules })
