-- limit/check.lua, twin of limit/check.rs
-- KEYS    hm:{space/pp}:limit:<rule>:<subject>  STRING  debt ts period until   <I8 each, one per rule
-- ARGV    cost (limit period burst tick_us)...   one string, <I8 each (limit/meter.rs says what they mean)
-- REPLY   'allowed' now_us (left reset_us 0)...
--       | 'denied'  now_us (left reset_us retry_us)...    retry_us is 0 for the rules that admitted
--       | 'never'   now_us (left reset_us retry_us|'never')...
local unpack_ints, format = struct.unpack, string.format

return drive(function(first_key, count, given, keep)
  local verdict = 'allowed'
  -- Of one rule all is kept in these; of several, `seen` keeps what the second pass needs.
  local cost, limit, period, burst, tick, debt, time, retry
  local seen = count > 1 and {}

  for i = 1, count do
    if i == 1 then
      cost, limit, period, burst, tick = unpack_ints('<I8I8I8I8I8', given)
    else
      limit, period, burst, tick = unpack_ints('<I8I8I8I8', given, i * 32 - 23)
    end
    local full = burst * period
    debt, time, retry = 0, (now - now % tick) / tick, '0'
    local stored = call('GET', KEYS[i + first_key - 1])
    if stored then
      local old_debt, old_ts, old_period, old_until = unpack_ints('<I8I8I8I8', stored)
      if old_until > now then
        if old_period == period then
          debt = old_debt
          if debt > full then debt = full end
        else
          local tokens = math.floor(old_debt / old_period)
          if tokens >= burst then
            debt = full
          else
            -- ceil(rest * period / old_period), bit by bit: the product itself would not be exact.
            local a, b, quotient, rest, bit = old_debt - tokens * old_period, period, 0, 0, 4503599627370496
            while bit >= 1 do
              quotient, rest = quotient * 2, rest * 2
              if b >= bit then b, rest = b - bit, rest + a end
              while rest >= old_period do quotient, rest = quotient + 1, rest - old_period end
              bit = bit / 2
            end
            if rest > 0 then quotient = quotient + 1 end
            debt = tokens * period + quotient
          end
        end
        local old_time = math.ceil(old_ts / tick)
        if time > old_time then
          -- No more than what is owed, so that the product stays small.
          local ticks, enough = time - old_time, math.ceil(debt / limit)
          if ticks < enough then debt = debt - ticks * limit else debt = 0 end
        elseif old_time - time <= math.ceil(full / limit) then
          time = old_time
        else
          debt = 0
        end
      end
    end

    local short = debt + cost * period - full
    if cost > burst then
      retry, verdict = 'never', 'never'
    elseif short > 0 then
      retry = format('%d', (time + math.ceil(short / limit)) * tick - now)
      if verdict == 'allowed' then verdict = 'denied' end
    end
    if seen then seen[i] = { limit, period, burst, tick, debt, time, retry } end
  end

  local reply
  for i = 1, count do
    if seen then limit, period, burst, tick, debt, time, retry = unpack(seen[i]) end
    if verdict == 'allowed' then debt = debt + cost * period end
    local reset = 0
    if debt > 0 then reset = (time + math.ceil(debt / limit)) * tick - now end
    if verdict == 'allowed' then
      call('PSETEX', KEYS[i + first_key - 1], format('%d', math.ceil(reset / 1000) + slack_ms),
        struct.pack('<I8I8I8I8', debt, time * tick, period, now + reset))
    end
    local room = burst * period - debt
    local left = (room - room % period) / period
    if i == 1 then
      reply = format('%s %d %d %d %s', verdict, now, left, reset, retry)
    else
      reply = format('%s %d %d %s', reply, left, reset, retry)
    end
  end

  reply = reply or format('%s %d', verdict, now)
  if keep and verdict == 'allowed' then keep(reply) end
  return reply
end)
