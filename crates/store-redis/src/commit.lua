-- Commits a batch that the client has decided on assumptions: checks them as conditions, and runs
-- the commands that the client has encoded. Returns 1. If a condition does not hold, it changes
-- nothing and returns the records that differ; the client then decides the batch again.
--
-- In a small commit Lua costs more than the commands. Hence this script creates as few strings and
-- tables as possible, and runs `prelude.lua` only for `commit_rare.lua`.
--
-- ARGV: the arguments of all operations, and last the operations themselves. Each has five bytes:
-- an opcode, the index of its first argument, and their number.
--
-- Conditions:
--   FIELDS_EQUAL     a hash and fields; the values that they must have follow the arguments
--   FIELDS_ABSENT    a hash and fields that must not exist
--   FIELDS_PRESENT   a hash and fields that must exist
--   MEMBERS_PRESENT  a sorted set and members that must exist
--   RANGES_EMPTY     a sorted set and pairs of bounds in order: no member may be between a pair
--   RANGES_FILLED    a sorted set and pairs of bounds: a member must be between each pair
--   STRINGS_EQUAL    strings; the values that they must have follow the arguments
--   COUNTERS_AT_MOST a hash and fields; the numbers that they may not exceed follow the arguments
-- Counters:
--   COMPUTE_COUNTERS a hash, fields, as many numbers, and a string with the opcode of each: ADD, MAX,
--                    SET, or ADD_THEN_MAX with two numbers. Reads and computes, and writes nothing.
--   WRITE_COUNTERS   writes the computed counters
-- Records:
--   SAVE             the key of the open snapshots: if it exists, saves everything that the batch
--                    changes for them
--   INDEX            containers that are about to get records: adds new ones to the indexes
--   RUN              a command
--   REPLACE_MEMBER   a sorted set, two bounds and a member: removes another member between the
--                    bounds. An empty member means none.
--   PUT_FIELDS       HSET with its arguments, and the largest possible number of new fields. If
--                    fewer are new, a short record may have replaced a long one.
--   REMOVE           a command that may delete the last record of the container that it names first
--
-- A condition on a long record is one on its head and one on its overflow value; that on the
-- overflow value comes first. Large overflow values of new records are set after this script, as
-- `overflow.rs` explains; the last command deletes their old values.
local call, P, A = redis.call, KEYS[1], ARGV
local byte, sub, unpack = string.byte, string.sub, unpack
local HEAD = 252
-- Beyond this the value of a counter is undefined. It must only remain a number that can be parsed.
local FAR = 2 ^ 60
local operations = A[#A]
-- Commands that write the computed counters.
local counter_writes

-- Adds a container to the index of its space (ZADD), or removes it from the index (ZREM).
local function index(command, key)
  local container = sub(key, #P + 2)
  local space, rest = P .. 'y' .. sub(container, 1, 1), sub(container, 2)
  if command == 'ZADD' then call(command, space, '0', rest) else call(command, space, rest) end
end

-- Returns the key of the overflow value of a record with this name in the container `key`.
local function overflow_key(key, name)
  return P .. 'l' .. sub(key, #P + 2) .. name
end

local function compute_counters(from, to)
  local key, many, opcodes = A[from], (to - from - 1) / 2, A[to]
  local before = call('HMGET', unpack(A, from, from + many))
  local sets, set, clears = { 'HSET', key }, 2, nil
  for n = 1, many do
    local opcode, was, text = byte(opcodes, n), tonumber(before[n] or 0), A[from + many + n]
    local number = tonumber(text)
    -- Keep the text if it is the new number, which saves formatting it again.
    if opcode == ADD then number, text = was + number, nil
    elseif opcode == ADD_THEN_MAX then
      local add, least = string.match(text, '(%S+) (%S+)')
      number, text = math.max(was + add, tonumber(least)), nil
    elseif opcode == MAX and number < was then number = was
    end
    if number > FAR then number, text = FAR, nil elseif number < -FAR then number, text = -FAR, nil end
    if number ~= was and number ~= 0 then
      sets[set + 1], sets[set + 2] = A[from + n], text or string.format('%.0f', number)
      set = set + 2
    elseif number ~= was then
      clears = clears or { 'HDEL', key }
      clears[#clears + 1] = A[from + n]
    end
  end
  counter_writes = counter_writes or {}
  if set > 2 then counter_writes[#counter_writes + 1] = sets end
  counter_writes[#counter_writes + 1] = clears
end

-- Deletes the overflow values of those fields that have short records now.
local function delete_overflow(key, from, to)
  local stale = { 'UNLINK' }
  for n = from, to, 2 do
    if #A[n + 1] ~= HEAD then stale[#stale + 1] = overflow_key(key, A[n]) end
  end
  if #stale > 1 then call(unpack(stale)) end
end

local function replace_member(key, first, last, member)
  local met = call('ZRANGE', key, first, last, 'BYLEX')[1]
  if not met or met == member then return end
  call('ZREM', key, met)
  -- `first` is a bracket and the suffix, so this is the length of a long record's member.
  local long = #first - 1 + HEAD
  if #met == long and #member ~= long then call('UNLINK', overflow_key(key, sub(first, 2))) end
  if member == '' and call('EXISTS', key) == 0 then index('ZREM', key) end
end

for at = 1, #operations, 5 do
  local opcode, first1, first2, many1, many2 = byte(operations, at, at + 4)
  local from = first1 * 256 + first2
  local to = from + many1 * 256 + many2 - 1
  if opcode == RUN then call(unpack(A, from, to))
  elseif opcode == RANGES_EMPTY then
    -- If nothing is between the first bound and the last one, one command is enough.
    local key = A[from]
    if call('ZLEXCOUNT', key, A[from + 1], A[to]) > 0 then
      if to == from + 2 then return rare()(operations) end
      for n = from + 1, to, 2 do
        if call('ZLEXCOUNT', key, A[n], A[n + 1]) > 0 then return rare()(operations) end
      end
    end
  elseif opcode == MEMBERS_PRESENT then
    local scores = call('ZMSCORE', unpack(A, from, to))
    for n = 1, to - from do
      if not scores[n] then return rare()(operations) end
    end
  elseif opcode == FIELDS_EQUAL then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if values[n] ~= A[to + n] then return rare()(operations) end
    end
  elseif opcode == FIELDS_ABSENT or opcode == FIELDS_PRESENT then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if (values[n] ~= false) ~= (opcode == FIELDS_PRESENT) then return rare()(operations) end
    end
  elseif opcode == RANGES_FILLED then
    for n = from + 1, to, 2 do
      if call('ZLEXCOUNT', A[from], A[n], A[n + 1]) == 0 then return rare()(operations) end
    end
  elseif opcode == STRINGS_EQUAL then
    local values = call('MGET', unpack(A, from, to))
    for n = 1, to - from + 1 do
      if values[n] ~= A[to + n] then return rare()(operations) end
    end
  elseif opcode == SAVE then
    if call('EXISTS', A[from]) == 1 then select(2, rare())(operations) end
  elseif opcode == COUNTERS_AT_MOST then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if tonumber(values[n] or 0) > tonumber(A[to + n]) then return rare()(operations) end
    end
  elseif opcode == COMPUTE_COUNTERS then compute_counters(from, to)
  elseif opcode == WRITE_COUNTERS then
    for n = 1, counter_writes and #counter_writes or 0 do call(unpack(counter_writes[n])) end
  elseif opcode == INDEX then
    if call('EXISTS', unpack(A, from, to)) < to - from + 1 then
      for n = from, to do
        if call('EXISTS', A[n]) == 0 then index('ZADD', A[n]) end
      end
    end
  elseif opcode == PUT_FIELDS then
    if call(unpack(A, from, to - 1)) < tonumber(A[to]) then
      delete_overflow(A[from + 1], from + 2, to - 1)
    end
  elseif opcode == REPLACE_MEMBER then replace_member(A[from], A[from + 1], A[from + 2], A[from + 3])
  elseif opcode == REMOVE then
    call(unpack(A, from, to))
    if call('EXISTS', A[from + 1]) == 0 then index('ZREM', A[from + 1]) end
  end
end
return 1
