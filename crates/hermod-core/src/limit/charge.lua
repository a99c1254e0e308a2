-- limit/charge.lua, twin of limit/charge.rs: what scripts share that test every rule, and charge all or none
-- KEYS    none of its own: hm:{space/pp}:limit:<subject>  STRING  records (limit/records.lua)
-- ARGV    none of its own: the rules are limit/meter.lua's
-- REPLY   the head of every rule's record: charged, or done as was asked; if a rule that enforces refused, as
--         they are, and nothing was changed
-- What is there, what is to be written (tag, record, and so on), and what is shown. Used again by every operation.
local stored, writes, shown = {}, {}, {}

-- Stands behind every reply, where what is written has the end of its records: so that this is not copied for the reply.
local NOTHING = '\0\0\0\0\0\0\0\0'

-- What was given is about another time.
local function ask_again()
  return 'T' .. pack_ints('<I8', now)
end

-- Refused: those that admitted are shown as they are, uncharged.
local function as_they_are(cost, rules)
  local count = #rules
  for i = 1, count do
    local value = meter(PEEK, cost, stored[i], rules[i])
    if not value then return ask_again() end
    shown[i] = sub(value, 1, HEAD_SIZE)
  end
  return concat(shown, '', 1, count)
end

-- Tests every rule on what was read: the reply; and if none refused, how many of `writes` are to be written, and when the one that ends
-- last does. Nothing is written yet.
local function test(act, cost, rules, key, all, latest)
  local tags, count, last, till_max = rules.tags, #rules, 0, 0
  local is_any = latest > now
  for i = 1, count do
    local rule = rules[i]
    local record = is_any and record_of(key, all, tags[i])
    stored[i] = record
    local value, refused, till = meter(act, cost, record, rule)
    if not value then return ask_again() end
    if refused == 0 then
      if rule[1] ~= BLOCK then
        writes[last + 1], writes[last + 2] = tags[i], value
        last = last + 2
        if till > till_max then till_max = till end
      end
    elseif rule[2] == 0 then
      for j = i + 1, count do stored[j] = is_any and record_of(key, all, tags[j]) end
      return as_they_are(cost, rules)
    end
    if #value > HEAD_SIZE then value = sub(value, 1, HEAD_SIZE) end
    shown[i] = value
  end
  return concat(shown, '', 1, count), last, till_max
end
