-- Answers questions from one instant. ARGV: the program, the groups of keys to fetch, then what both
-- refer to by index. A program is steps of 11 bytes: a code, the index of what is asked for, that of
-- the prefix to follow to (0: do not), where the rest of the target's key lies in the value, and how
-- many bytes of the target are enough (0: all).
-- Answers a record's value, followed by its target's if it was to be followed; of a range, the
-- suffixes, the values and the targets; a tally's number as text. What is not there is nil.
local RANGE = 3
local program = A[1]
local found = {}
fetch(A[2], found)

-- The records under some fields of a space, and whether one is in two parts; of long ones the first
-- `most` bytes, if that is told.
local function values_of(space, fields, most)
  local name, values, some_long = P .. 'r' .. space, {}, false
  for from = 1, #fields, CHUNK do
    local page = call('HMGET', name, unpack(fields, from, math.min(from + CHUNK - 1, #fields)))
    local _, is_some = complete(page, space, fields, from, most)
    if #fields <= CHUNK then return page, is_some end
    some_long = some_long or is_some
    for index, value in ipairs(page) do values[from + index - 1] = value end
  end
  return values, some_long
end

local function target(value, follow, offset, length, most)
  if type(value) == 'table' then value = value[1] .. value[2] end
  if not value or #value < offset + length then return false end
  local key = A[follow] .. sub(value, offset + 1, offset + length)
  local found = values_of(sub(key, 1, 1), { sub(key, 2) }, most)[1]
  -- Of what is in two parts no more has come than is enough.
  if found and most and type(found) == 'string' then return sub(found, 1, most) end
  return found
end

-- The targets of many values, which lie in one space unless the prefix leaves it open.
local function targets_of(values, one_by_one, follow, offset, length, most)
  local prefix, targets, fields, places = A[follow], {}, {}, {}
  local rest = sub(prefix, 2)
  one_by_one = one_by_one or prefix == ''
  for index, value in ipairs(values) do
    targets[index] = false
    if one_by_one then
      targets[index] = target(value, follow, offset, length, most)
    elseif value and #value >= offset + length then
      fields[#fields + 1] = rest .. sub(value, offset + 1, offset + length)
      places[#fields] = index
    end
  end
  local found, some_long = values_of(sub(prefix, 1, 1), fields, most)
  for at, value in ipairs(found) do
    if value and most and (not some_long or type(value) == 'string') then
      value = sub(value, 1, most)
    end
    targets[places[at]] = value
  end
  return targets
end

local answers = {}
for at = 1, #program, 11 do
  local code, a1, a2, f1, f2, offset, length, m1, m2, m3, m4 = byte(program, at, at + 10)
  local index, follow, to = a1 * 256 + a2, f1 * 256 + f2, #answers
  local most = ((m1 * 256 + m2) * 256 + m3) * 256 + m4
  if most == 0 then most = nil end
  if code == RANGE then
    local place = A[index]
    local suffixes = call('ZRANGE', P .. 'z' .. place, A[index + 1], A[index + 2], 'BYLEX', 'LIMIT',
      0, A[index + 3])
    local partition, fields = sub(place, 2), {}
    for n, suffix in ipairs(suffixes) do fields[n] = partition .. suffix end
    local values, some_long = values_of(sub(place, 1, 1), fields)
    answers[to + 1], answers[to + 2] = suffixes, values
    answers[to + 3] = {}
    if follow > 0 then
      answers[to + 3] = targets_of(values, some_long, follow, offset, length, most)
    end
  else
    answers[to + 1] = found[index]
    if follow > 0 then answers[to + 2] = target(found[index], follow, offset, length, most) end
  end
end
return answers
