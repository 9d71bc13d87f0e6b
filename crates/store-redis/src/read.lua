-- Answers reads from one instant. ARGV: the program, the groups of keys to fetch, then the
-- arguments to which both refer by index. The program has instructions of eleven bytes: an opcode,
-- the index of the question, the index of the prefix to follow (0: do not follow), the position of
-- the rest of the target's key in the value (offset and length), and the number of bytes of the
-- target that are needed (0: all). Returns for a record its value, and the target's if it was
-- followed; for a range the members and their targets; for a counter the number as text. Missing
-- records and counters are nil.
local RANGE = 3
local program = A[1]
local found = {}
fetch(A[2], found)

-- Encodes a suffix as `member.rs` does.
local function written(suffix)
  local body = find(suffix, '%z*$')
  local last = #suffix - body + 1
  local function run(zeros)
    local whole = math.floor((#zeros - 1) / 127)
    return string.rep('\0\128', whole) .. '\0' .. char(255 - #zeros + 127 * whole)
  end
  local whole = math.max(math.floor((last - 1) / 127), 0)
  body = string.gsub(sub(suffix, 1, body - 1), '%z+', run)
  return body .. string.rep('\0\128', whole) .. '\0' .. char(last - 127 * whole)
end

local function target(value, follow, offset, length, most)
  if type(value) == 'table' then value = value[1] .. value[2] end
  if not value or #value < offset + length then return false end
  local key, met = A[follow] .. sub(value, offset + 1, offset + length), nil
  if is_ordered(key) then
    local container, suffix = sub(key, 1, 9), written(sub(key, 10))
    local member = member_of(container, suffix)
    met = complete({ member and sub(member, #suffix + 1) }, container, { suffix }, 1, most)[1]
  else
    met = values_of(sub(key, 1, 1), { sub(key, 2) }, most)[1]
  end
  -- No more of a long record was read than is needed, so only short ones are cut here.
  if met and most and type(met) == 'string' then return sub(met, 1, most) end
  return met
end

-- Returns the targets of many members. They are in one point space, unless the prefix is empty or
-- of an ordered space.
local function targets_of(members, follow, offset, length, most)
  local prefix, targets, keys, positions = A[follow], {}, {}, {}
  local rest, one_by_one = sub(prefix, 2), prefix == '' or is_ordered(prefix)
  for index, member in ipairs(members) do
    if type(member) == 'table' then member = member[1] .. member[2] end
    local _, suffix = find(member, SUFFIX_END)
    local from, to = suffix + offset + 1, suffix + offset + length
    targets[index] = false
    if one_by_one then
      targets[index] = target(sub(member, suffix + 1), follow, offset, length, most)
    elseif #member >= to then
      keys[#keys + 1] = rest .. sub(member, from, to)
      positions[#keys] = index
    end
  end
  local values, some_long = values_of(sub(prefix, 1, 1), keys, most)
  for at, value in ipairs(values) do
    if value and most and (not some_long or type(value) == 'string') then
      value = sub(value, 1, most)
    end
    targets[positions[at]] = value
  end
  return targets
end

-- Converts the members of a partition that have a head into `{ member, overflow }`.
local function complete_members(members, container)
  local suffixes, heads, positions = {}, {}, {}
  for index, member in ipairs(members) do
    if #member > HEAD then
      local _, suffix = find(member, SUFFIX_END)
      if #member - suffix == HEAD then
        heads[#heads + 1], suffixes[#heads + 1] = sub(member, suffix + 1), sub(member, 1, suffix)
        positions[#heads] = index
      end
    end
  end
  complete(heads, container, suffixes, 1)
  for at, head in ipairs(heads) do
    members[positions[at]] = { members[positions[at]], head[2] }
  end
end

local answers = {}
for at = 1, #program, 11 do
  local opcode, a1, a2, f1, f2, offset, length, m1, m2, m3, m4 = byte(program, at, at + 10)
  local index, follow, to = a1 * 256 + a2, f1 * 256 + f2, #answers
  local most = ((m1 * 256 + m2) * 256 + m3) * 256 + m4
  if most == 0 then most = nil end
  if opcode == RANGE then
    local key = P .. 'z' .. A[index]
    local members = call('ZRANGE', key, A[index + 1], A[index + 2], 'BYLEX', 'LIMIT', '0',
      A[index + 3])
    complete_members(members, A[index])
    answers[to + 1], answers[to + 2] = members, {}
    if follow > 0 then
      answers[to + 2] = targets_of(members, follow, offset, length, most)
    end
  else
    answers[to + 1] = found[index]
    if follow > 0 then answers[to + 2] = target(found[index], follow, offset, length, most) end
  end
end
return answers
