-- The usual commit: what the plans of a batch come to if all are committed, as commands that the client
-- has laid out. This only goes through them, since Lua is what costs most of a small commit. Answers 1;
-- or nothing, if a guard does not hold or a snapshot is open. Then nothing has happened, and
-- `commit.lua`, which is asked next, decides the plans one by one. `prelude.lua` says what there is.
--
-- ARGV: the arguments of all commands, and then the steps, which have five bytes: a kind, the index of
-- the first argument, and how many there are. `laid.rs` has the same kinds.
--
--   RECORDS   name of a hash, fields; as many values that must be there follow
--   ABSENT    name of a hash, fields that must not be there
--   PRESENT   name of a hash, fields that must be there
--   MEMBERS   name of a sorted set, members that must be there
--   NONE      name of a sorted set, pairs of bounds in order, between which nothing may be
--   SOME      name of a sorted set, pairs of bounds, between which something must be
--   RESTS     names of the rests of long records; as many values that they must have follow
--   UNSAVED   key of the open snapshots: there may be none
--   TALLIES   name of a hash, fields, as many numbers, and what these are for: a byte ADD, MAX or SET each;
--             nothing is written yet
--   COUNTED   what becomes of tallies is written
--   BEGUN     names of places that records are about to be put into
--   COMMAND   a command
--   OVER      name of a sorted set, two bounds, the member that is to stand between them: what else does
--             goes; '' if nothing is to
--   FIELDS    HSET with its arguments, and how many fields are new if all are new that may be: if there
--             are fewer, short records may have been put over long ones
--   GONE      a command that may remove the last record of a place, whose name is its first argument
--
-- A guard that expects a long record is one of RECORDS or MEMBERS for its head and one of RESTS. The longer rests of those that
-- are put come behind this, as `staged.rs` says: the last command has their names free.
local call, P, A = redis.call, KEYS[1], ARGV
local byte, sub, unpack = string.byte, string.sub, unpack
local RECORDS, ABSENT, PRESENT, MEMBERS, NONE, SOME, UNSAVED, TALLIES = 1, 2, 3, 4, 5, 6, 7, 8
local COUNTED, BEGUN, COMMAND, OVER, FIELDS, GONE, RESTS = 9, 10, 11, 12, 13, 14, 15
local ADD, MAX = 24, 25
local HEAD = 252
-- Beyond this a tally is not defined; it must only stay readable.
local FAR = 2 ^ 60
local steps = A[#A]
-- Commands that write what becomes of tallies.
local tallied

-- Adds a place to those of its space, or takes it away.
local function tell(command, name)
  local place = sub(name, #P + 2)
  local space, rest = P .. 'y' .. sub(place, 1, 1), sub(place, 2)
  if command == 'ZADD' then call(command, space, '0', rest) else call(command, space, rest) end
end

local function rest_name(name, field)
  return P .. 'l' .. sub(name, #P + 2) .. field
end

local function count(from, to)
  local name, many, codes = A[from], (to - from - 1) / 2, A[to]
  local before = call('HMGET', unpack(A, from, from + many))
  local sets, set, clears = { 'HSET', name }, 2, nil
  for n = 1, many do
    local code, was, told = byte(codes, n), tonumber(before[n] or 0), A[from + many + n]
    local number = tonumber(told)
    if code == ADD then number, told = was + number, nil
    elseif code == MAX and number < was then number = was
    end
    if number > FAR then number, told = FAR, nil elseif number < -FAR then number, told = -FAR, nil end
    if number ~= was and number ~= 0 then
      sets[set + 1], sets[set + 2] = A[from + n], told or string.format('%.0f', number)
      set = set + 2
    elseif number ~= was then
      clears = clears or { 'HDEL', name }
      clears[#clears + 1] = A[from + n]
    end
  end
  tallied = tallied or {}
  if set > 2 then tallied[#tallied + 1] = sets end
  tallied[#tallied + 1] = clears
end

-- What was known of neither: short records that may have been put over long ones.
local function drop_rests(name, from, to)
  local stale = { 'UNLINK' }
  for n = from, to, 2 do
    if #A[n + 1] ~= HEAD then stale[#stale + 1] = rest_name(name, A[n]) end
  end
  if #stale > 1 then call(unpack(stale)) end
end

local function put_over(name, first, last, member)
  local met = call('ZRANGE', name, first, last, 'BYLEX')[1]
  if not met or met == member then return end
  call('ZREM', name, met)
  local long = #first - 1 + HEAD
  if #met == long and #member ~= long then call('UNLINK', rest_name(name, sub(first, 2))) end
  if member == '' and call('EXISTS', name) == 0 then tell('ZREM', name) end
end

for at = 1, #steps, 5 do
  local kind, first1, first2, many1, many2 = byte(steps, at, at + 4)
  local from = first1 * 256 + first2
  local to = from + many1 * 256 + many2 - 1
  if kind == COMMAND then call(unpack(A, from, to))
  elseif kind == NONE then
    -- One question is enough if there is nothing from the first of them to the last.
    local name = A[from]
    if call('ZLEXCOUNT', name, A[from + 1], A[to]) > 0 then
      if to == from + 2 then return false end
      for n = from + 1, to, 2 do
        if call('ZLEXCOUNT', name, A[n], A[n + 1]) > 0 then return false end
      end
    end
  elseif kind == MEMBERS then
    local scores = call('ZMSCORE', unpack(A, from, to))
    for n = 1, to - from do
      if not scores[n] then return false end
    end
  elseif kind == RECORDS then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if values[n] ~= A[to + n] then return false end
    end
  elseif kind == ABSENT or kind == PRESENT then
    local values = call('HMGET', unpack(A, from, to))
    for n = 1, to - from do
      if (values[n] ~= false) ~= (kind == PRESENT) then return false end
    end
  elseif kind == SOME then
    for n = from + 1, to, 2 do
      if call('ZLEXCOUNT', A[from], A[n], A[n + 1]) == 0 then return false end
    end
  elseif kind == RESTS then
    local rests = call('MGET', unpack(A, from, to))
    for n = 1, to - from + 1 do
      if rests[n] ~= A[to + n] then return false end
    end
  elseif kind == UNSAVED then
    if call('EXISTS', A[from]) == 1 then return false end
  elseif kind == TALLIES then count(from, to)
  elseif kind == COUNTED then
    for n = 1, tallied and #tallied or 0 do call(unpack(tallied[n])) end
  elseif kind == BEGUN then
    if call('EXISTS', unpack(A, from, to)) < to - from + 1 then
      for n = from, to do
        if call('EXISTS', A[n]) == 0 then tell('ZADD', A[n]) end
      end
    end
  elseif kind == FIELDS then
    if call(unpack(A, from, to - 1)) < tonumber(A[to]) then drop_rests(A[from + 1], from + 2, to - 1) end
  elseif kind == OVER then put_over(A[from], A[from + 1], A[from + 2], A[from + 3])
  elseif kind == GONE then
    call(unpack(A, from, to))
    if call('EXISTS', A[from + 1]) == 0 then tell('ZREM', A[from + 1]) end
  end
end
return 1
