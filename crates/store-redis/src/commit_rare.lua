-- The parts of a commit that few batches need. They are in a function of their own, which includes
-- `prelude.lua`, so that other batches do not run the prelude.

-- Returns the record with a suffix in a partition; false if there is none.
local function record_of(container, suffix)
  local member = member_of(container, suffix)
  local values = { member and sub(member, #suffix + 1) }
  return complete(values, container, { suffix }, 1, nil, true)[1]
end

-- Returns the encoded suffix with which a member begins.
local function suffix_of(member)
  local _, last = find(member, SUFFIX_END)
  return sub(member, 1, last)
end

-- Returns the records that do not meet the conditions of a batch, and all counters with a bound:
-- for each the index of its argument, and its value, or false if it does not exist. A range that is
-- not empty has the index of its first bound.
local function found(operations)
  local answers, unequal = {}, {}
  local function add(n, value)
    local to = #answers
    answers[to + 1], answers[to + 2] = n, value
  end
  for at = 1, #operations, 5 do
    local opcode, first1, first2, many1, many2 = byte(operations, at, at + 4)
    local from = first1 * 256 + first2
    local to = from + many1 * 256 + many2 - 1
    local key = A[from]
    local container = sub(key, #P + 2)
    if opcode == STRINGS_EQUAL then
      local values = call('MGET', unpack(A, from, to))
      for n = 1, to - from + 1 do
        if values[n] ~= A[to + n] then unequal[A[from + n - 1]] = true end
      end
    elseif opcode == FIELDS_EQUAL or opcode == FIELDS_ABSENT or opcode == FIELDS_PRESENT then
      local values, differs = call('HMGET', unpack(A, from, to)), {}
      for n = 1, to - from do
        if opcode == FIELDS_EQUAL then
          differs[n] = values[n] ~= A[to + n] or unequal[overflow_key(container, A[from + n])]
        else differs[n] = (values[n] ~= false) ~= (opcode == FIELDS_PRESENT)
        end
        if not differs[n] then values[n] = false end
      end
      complete(values, container, A, from + 1, nil, true)
      for n = 1, to - from do
        if differs[n] then add(from + n, values[n]) end
      end
    elseif opcode == MEMBERS_PRESENT then
      local scores = call('ZMSCORE', unpack(A, from, to))
      for n = 1, to - from do
        local suffix = suffix_of(A[from + n])
        if not scores[n] or unequal[overflow_key(container, suffix)] then
          add(from + n, record_of(container, suffix))
        end
      end
    elseif opcode == RANGES_EMPTY then
      for n = from + 1, to, 2 do
        local met = call('ZRANGE', key, A[n], A[n + 1], 'BYLEX', 'LIMIT', '0', '1')[1]
        if met then add(n, record_of(container, suffix_of(met))) end
      end
    elseif opcode == RANGES_FILLED then
      for n = from + 1, to, 2 do
        if call('ZLEXCOUNT', key, A[n], A[n + 1]) == 0 then add(n, false) end
      end
    elseif opcode == COUNTERS_AT_MOST then
      local values = call('HMGET', unpack(A, from, to))
      for n = 1, to - from do add(from + n, values[n]) end
    end
  end
  return answers
end

-- Saves the records and counters that a batch is about to change for open snapshots.
local function save(operations)
  local ids = open_snapshots()
  if #ids == 0 then return end
  local function keep(kind, space, key, was)
    for _, id in ipairs(ids) do call('HSETNX', P .. 'c' .. id .. kind .. space, key, was) end
  end
  -- Saves the records of one container under these names, with their values before the batch.
  local function keep_records(container, names, values)
    complete(values, container, names, 1, nil, true)
    for n, name in ipairs(names) do
      local was = values[n]
      if type(was) == 'table' then was = was[2] and ('+' .. was[1] .. was[2]) or LOST
      else was = was and ('+' .. was) or '-'
      end
      keep('r', sub(container, 1, 1), sub(container, 2) .. name, was)
    end
  end
  local function keep_fields(key, first, last, step)
    local names = {}
    for n = first, last, step do names[#names + 1] = A[n] end
    keep_records(sub(key, #P + 2), names, call('HMGET', key, unpack(names)))
  end
  local function keep_members(key, first, last, step)
    local container, suffixes, values = sub(key, #P + 2), {}, {}
    for n = first, last, step do
      local suffix = suffix_of(A[n])
      local member = member_of(container, suffix)
      suffixes[#suffixes + 1] = suffix
      values[#suffixes] = member and sub(member, #suffix + 1)
    end
    keep_records(container, suffixes, values)
  end
  for at = 1, #operations, 5 do
    local opcode, first1, first2, many1, many2 = byte(operations, at, at + 4)
    local from = first1 * 256 + first2
    local to = from + many1 * 256 + many2 - 1
    local key = A[from + 1]
    if opcode == COMPUTE_COUNTERS then
      local many = (to - from - 1) / 2
      local before = call('HMGET', unpack(A, from, from + many))
      for n = 1, many do
        keep('n', sub(A[from], #P + 2), A[from + n], before[n] and ('+' .. before[n]) or '-')
      end
    elseif opcode == REPLACE_MEMBER then
      local container, suffix = sub(A[from], #P + 2), sub(A[from + 1], 2)
      local member = member_of(container, suffix)
      keep_records(container, { suffix }, { member and sub(member, #suffix + 1) })
    elseif opcode == RUN or opcode == PUT_FIELDS or opcode == REMOVE then
      -- The last argument of PUT_FIELDS is not a value; the step skips it.
      if A[from] == 'HSET' then keep_fields(key, from + 2, to - 1, 2)
      elseif A[from] == 'HDEL' then keep_fields(key, from + 2, to, 1)
      elseif A[from] == 'ZADD' then keep_members(key, from + 3, to, 2)
      elseif A[from] == 'ZREM' then keep_members(key, from + 2, to, 1)
      end
    end
  end
end

return found, save
