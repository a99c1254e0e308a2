-- limit/charge.lua, twin of limit/charge.rs: what scripts share that test every rule, and charge all or none
-- KEYS    none of its own: hm:{space/pp}:limit:<subject>  HASH  rule -> record (limit/meter.lua)
-- ARGV    none of its own: the rules are limit/meter.lua's
-- REPLY   the head of every rule's record: charged, or done as was asked; if a rule that enforces refused, as
--         they are, and nothing was changed
-- What is to be written: rule, record, and so on; and what is shown. Used again by every operation.
local writes, shown = {}, {}

-- What was given is about another time.
local function ask_again()
  return 'T' .. pack_ints('<I8', now)
end

-- Refused: those that admitted are shown as they are, uncharged.
local function as_they_are(cost, rules, stored)
  local count = #rules
  for i = 1, count do
    local value = meter(PEEK, cost, stored[i], rules[i])
    if not value then return ask_again() end
    shown[i] = sub(value, 1, HEAD_SIZE)
  end
  return concat(shown, '', 1, count)
end

-- Tests every rule: the reply; and if none refused, how many of `writes` are to be written, the end of the
-- record that ends last, and its end before. Nothing is written yet.
local function test(act, cost, rules, stored)
  local ids, count, last, latest, before = rules.ids, #rules, 0, 0, 0
  for i = 1, count do
    local rule = rules[i]
    local value, refused, till, ends = meter(act, cost, stored[i], rule)
    if not value then return ask_again() end
    if refused == 0 then
      if rule[1] ~= BLOCK then
        writes[last + 1], writes[last + 2] = ids[i], value
        last = last + 2
        if till > latest then latest, before = till, ends end
      end
    elseif rule[2] == 0 then
      return as_they_are(cost, rules, stored)
    end
    if #value > HEAD_SIZE then value = sub(value, 1, HEAD_SIZE) end
    shown[i] = value
  end
  return concat(shown, '', 1, count), last, latest, before
end

-- Writes what was tested, of which `list` holds so many.
local function write(key, list, last, latest, before)
  if last == 0 then return end
  call('HSET', key, unpack(list, 1, last))
  if latest - latest % slack_us > before then put_off(key, latest, before) end
end
