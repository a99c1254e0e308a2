-- limit/check.lua, twin of limit/check.rs
-- KEYS    hm:{space/pp}:limit:<rule>:<subject>  STRING  "debt ts period until"   one per rule
-- ARGV    ..., cost, then per rule: limit, period, burst, tick_us (limit/meter.rs says what they mean)
-- REPLY   'allowed' now_us (left reset_us 0)...
--       | 'denied'  now_us (left reset_us retry_us)...    retry_us is 0 for the rules that admitted
--       | 'never'   now_us (left reset_us retry_us|'never')...

-- ceil(a * b / d) for a < d, b < 2^52, d <= 2^51, bit by bit: the product itself would not be exact.
local function muldiv(a, b, d)
  local quotient, rest = 0, 0
  local bit = 4503599627370496
  while bit >= 1 do
    quotient, rest = quotient * 2, rest * 2
    if b >= bit then b, rest = b - bit, rest + a end
    while rest >= d do quotient, rest = quotient + 1, rest - d end
    bit = bit / 2
  end
  if rest > 0 then quotient = quotient + 1 end
  return quotient
end

local cost = tonumber(ARGV[4])
local rules = #KEYS - first_key + 1
local stored = redis.call('MGET', unpack(KEYS, first_key))
local verdict, words = 'allowed', {}
local debts, times = {}, {}

for i = 1, rules do
  local at = 5 + (i - 1) * 4
  local limit, period = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local burst, tick = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local debt, time = 0, math.floor(now / tick)
  local old_debt, old_time, old_period, old_until
  if stored[i] then
    old_debt, old_time, old_period, old_until = string.match(stored[i], '^(%d+) (%d+) (%d+) (%d+)$')
  end
  if old_until and tonumber(old_until) > now then
    debt, old_time, old_period = tonumber(old_debt), math.ceil(tonumber(old_time) / tick), tonumber(old_period)
    if old_period == period then
      debt = math.min(debt, burst * period)
    else
      local tokens = math.floor(debt / old_period)
      if tokens >= burst then debt = burst * period
      else debt = tokens * period + muldiv(debt - tokens * old_period, period, old_period) end
    end
    if time > old_time then
      debt = math.max(0, debt - math.min(time - old_time, math.ceil(debt / limit)) * limit)
    elseif old_time - time <= math.ceil(burst * period / limit) then
      time = old_time
    else
      debt = 0
    end
  end

  local room = burst * period - debt
  local retry = '0'
  if cost > burst then
    retry, verdict = 'never', 'never'
  elseif cost * period > room then
    retry = string.format('%.0f', (time + math.ceil((cost * period - room) / limit)) * tick - now)
    if verdict == 'allowed' then verdict = 'denied' end
  end
  debts[i], times[i] = debt, time
  words[i] = retry
end

for i = 1, rules do
  local at = 5 + (i - 1) * 4
  local limit, period = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local burst, tick = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local debt, time = debts[i], times[i]
  if verdict == 'allowed' then debt = debt + cost * period end
  local reset = 0
  if debt > 0 then reset = (time + math.ceil(debt / limit)) * tick - now end
  if verdict == 'allowed' then
    redis.call('SET', KEYS[first_key + i - 1], string.format('%.0f %.0f %.0f %.0f', debt, time * tick, period, now + reset),
      'PX', string.format('%.0f', math.ceil(reset / 1000) + slack_ms))
  end
  words[i] = string.format('%.0f %.0f %s', math.floor((burst * period - debt) / period), reset, words[i])
end

local reply = string.format('%s %.0f %s', verdict, now, table.concat(words, ' '))
if verdict == 'allowed' then return keep(reply) end
return reply
