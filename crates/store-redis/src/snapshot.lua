-- All calls of a snapshot's reader. ARGV[1] is the verb.
local verb, id = A[1], A[2]
if verb == 'open' then
  -- ARGV[2] is the time in ms until it expires without a call of its reader; ARGV[3] is the limit
  -- of open snapshots.
  if #open_snapshots() >= tonumber(A[3]) then return false end
  local time = call('TIME')
  local new = time[1] .. '.' .. time[2] .. '.' .. decimal(call('HINCRBY', P .. 'm', 'snapshots', 1))
  call('ZADD', P .. 's', decimal(milliseconds() + tonumber(A[2])), new)
  local spaces = { '', '' }
  for number = 0, 255 do
    local space = char(number)
    if call('EXISTS', P .. 'y' .. space) == 1 then spaces[1] = spaces[1] .. space end
    if call('EXISTS', P .. 'n' .. space) == 1 then spaces[2] = spaces[2] .. space end
  end
  return { new, spaces[1], spaces[2] }
end
if verb == 'close' then
  drop_snapshot(id)
  return true
end
-- ARGV[2] is the snapshot, ARGV[3] the time in ms until it expires, from now, ARGV[4] 'r' or 'n'
-- and a space.
if not call('ZSCORE', P .. 's', id) then return false end
call('ZADD', P .. 's', 'XX', decimal(milliseconds() + tonumber(A[3])), id)
local space = sub(A[4], 2)
local of_records = byte(A[4]) == RECORDS
if verb == 'saved' or verb == 'keys' then
  -- Returns some keys after the position ARGV[5]: those that exist now, or those that were saved
  -- because a commit changed them.
  if verb == 'keys' and of_records then
    local names, _, position = page_of_records(space, A[5], 1000)
    return { position, names }
  end
  local key = P .. (verb == 'saved' and ('c' .. id) or '') .. A[4]
  local page = call('HSCAN', key, A[5], 'COUNT', 1000)
  local keys = {}
  for at = 1, #page[2], 2 do keys[#keys + 1] = page[2][at] end
  return { page[1], keys }
end
-- Returns the values of the keys from ARGV[6] on, as they were when the snapshot was opened.
-- Returns fewer if they have more bytes than ARGV[5].
local PAGE = 64
local answers, bytes_left = {}, tonumber(A[5])

local function values_now(from, to)
  if not of_records then return call('HMGET', P .. A[4], unpack(A, from, to)) end
  if not is_ordered(space) then return (values_of(space, { unpack(A, from, to) })) end
  local values = {}
  for index = from, to do
    local suffix = sub(A[index], 9)
    local member = member_of(space .. sub(A[index], 1, 8), suffix)
    values[#values + 1] = member and sub(member, #suffix + 1)
  end
  return (complete(values, space, A, from))
end

for from = 6, #A, PAGE do
  local to = math.min(from + PAGE - 1, #A)
  local values = values_now(from, to)
  local saved = call('HMGET', P .. 'c' .. id .. A[4], unpack(A, from, to))
  for index, value in ipairs(values) do
    local was = saved[index]
    if was then
      if was == LOST then error({ err = DAMAGED }) end
      value = sub(was, 1, 1) == '+' and sub(was, 2)
    end
    answers[#answers + 1] = value
    local bytes = type(value) == 'table' and HEAD + #value[2] or value and #value or 0
    bytes_left = bytes_left - bytes
  end
  if bytes_left < 0 then break end
end
return answers
