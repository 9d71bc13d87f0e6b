-- The commit of merged batches: runs the commands of a batch, which the client has encoded under the
-- assumption that all plans are committed. Returns 1 in that case. If a guard does not hold or a
-- snapshot is open, it returns nothing and has changed nothing; the client then calls
-- `commit_plans.lua`, which decides the plans one by one.
--
-- In a small commit Lua costs more than the commands. Hence this script creates as few strings and
-- tables as possible, and does not include `prelude.lua`, which describes the volume's keys.
--
-- ARGV: the arguments of all operations, and last the operations themselves. Each has five bytes:
-- an opcode, the index of its first argument, and their number. `encode.rs` has the same opcodes.
--
-- Guards:
--   FIELDS_EQUAL     a hash and fields; the values that they must have follow the arguments
--   FIELDS_ABSENT    a hash and fields that must not exist
--   FIELDS_PRESENT   a hash and fields that must exist
--   MEMBERS_PRESENT  a sorted set and members that must exist
--   RANGES_EMPTY     a sorted set and pairs of bounds in order: no member may be between a pair
--   RANGES_FILLED    a sorted set and pairs of bounds: a member must be between each pair
--   STRINGS_EQUAL    strings; the values that they must have follow the arguments
--   NO_SNAPSHOT      the key of the open snapshots, which must not exist
--   COUNTERS_AT_MOST a hash and fields; the numbers that they may not exceed follow the arguments
-- Counters:
--   COMPUTE_COUNTERS a hash, fields, as many numbers, and a string with the opcode of each: ADD, MAX
--                    or SET. Reads and computes, and writes nothing.
--   WRITE_COUNTERS   writes the computed counters
-- Records:
--   INDEX            containers that are about to get records: adds new ones to the indexes
--   RUN              a command
--   REPLACE_MEMBER   a sorted set, two bounds and a member: removes another member between the
--                    bounds. An empty member means none.
--   PUT_FIELDS       HSET with its arguments, and the largest possible number of new fields. If
--                    fewer are new, a short record may have replaced a long one.
--   REMOVE           a command that may delete the last record of the container that it names first
--
-- A guard on a long record is one on its head and one on its overflow value. Large overflow values
-- of new records are set after this script, as `overflow.rs` explains; the last command deletes
-- their old values.
local call, P, A = redis.call, KEYS[1], ARGV
local byte, sub, unpack = string.byte, string.sub, unpack
local FIELDS_EQUAL, FIELDS_ABSENT, FIELDS_PRESENT, MEMBERS_PRESENT = 1, 2, 3, 4
local RANGES_EMPTY, RANGES_FILLED, STRINGS_EQUAL, NO_SNAPSHOT = 5, 6, 7, 8
local COMPUTE_COUNTERS, WRITE_COUNTERS, INDEX, RUN = 9, 10, 11, 12
local REPLACE_MEMBER, PUT_FIELDS, REMOVE, COUNTERS_AT_MOST = 13, 14, 15, 16
local ADD, MAX = 24, 25
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
      if to == from + 2 then return false end
      for n = from + 1, to, 2 do
        if call('ZLEXCOUNT', key, A[n], A[n + 1]) > 0 then return false end
      end
    end
  elseif opcode == MEMBERS_PRESENT then
    local scores = call('ZMSCORE', unpack(A, from, to))
    for n = 1, to - from do
      if not scores[n] then return false end
    end
  elseif opcode == FIELDS_EQUAL then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if values[n] ~= A[to + n] then return false end
    end
  elseif opcode == FIELDS_ABSENT or opcode == FIELDS_PRESENT then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if (values[n] ~= false) ~= (opcode == FIELDS_PRESENT) then return false end
    end
  elseif opcode == RANGES_FILLED then
    for n = from + 1, to, 2 do
      if call('ZLEXCOUNT', A[from], A[n], A[n + 1]) == 0 then return false end
    end
  elseif opcode == STRINGS_EQUAL then
    local values = call('MGET', unpack(A, from, to))
    for n = 1, to - from + 1 do
      if values[n] ~= A[to + n] then return false end
    end
  elseif opcode == NO_SNAPSHOT then
    if call('EXISTS', A[from]) == 1 then return false end
  elseif opcode == COUNTERS_AT_MOST then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if tonumber(values[n] or 0) > tonumber(A[to + n]) then return false end
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
