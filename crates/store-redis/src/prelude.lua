-- Before every script. KEYS[1] is what every key of the volume begins with: its hash tag and a colon.
--   m            hash: the volume's format and id
--   rSCCCCCC     hash: the records of point space S in a chunk of partitions, those whose first six
--                bytes are C; a field is what is left of the partition, and the suffix
--   zSPPPPPPPP   sorted set, all scores 0: the records of partition P of the ordered space S; a member
--                is a suffix, written as `member.rs` says, and then the record
--   yS           sorted set, all scores 0: the partitions of the ordered space S that have records, or
--                the chunks of the point space S
--   lPLACEFIELD  string: the rest of a long record
--   w            string: a sign while a commit that brings such rests is under way; nobody else sees it
--   tS           hash: the tallies of space S that are not 0
--   f            stream: the change feed
--   s            sorted set: the open snapshots by id; a score is when one ends, in ms
--   cIDrS, cIDtS hash: what records and tallies were in snapshot ID; '+' and the bytes, '-' if there
--                was nothing, LOST if a long record's rest was not to be found
-- A record's place and field are S, C and what its hash has for it, or S, P and its written suffix. In
-- snapshots, and where pages go on, a record is named by both but for S.
local call, P, A = redis.call, KEYS[1], ARGV
local byte, char, sub, find, unpack = string.byte, string.char, string.sub, string.find, unpack

local function milliseconds()
  local time = call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function decimal(number)
  return string.format('%.0f', number)
end

local function let_go(id)
  call('ZREM', P .. 's', id)
  local names = {}
  for space = 0, 255 do
    names[#names + 1] = P .. 'c' .. id .. 'r' .. char(space)
    names[#names + 1] = P .. 'c' .. id .. 't' .. char(space)
  end
  call('UNLINK', unpack(names))
end

-- The ids of open snapshots, after letting go of those whose readers stayed away.
local function open_snapshots()
  local ids = call('ZRANGE', P .. 's', 0, -1)
  if #ids > 0 then
    for _, id in ipairs(call('ZRANGEBYSCORE', P .. 's', '-inf', decimal(milliseconds()))) do
      let_go(id)
    end
    ids = call('ZRANGE', P .. 's', 0, -1)
  end
  return ids
end

-- Arguments of one command: Lua has a limit on how many it unpacks.
local CHUNK = 1000

-- A long record is in two parts, here and wherever it travels: its first HEAD bytes, which stand in
-- the hash or member, and the rest, which has a string of its own at the server. Who wants the
-- beginning alone needs no more than that, and no command copies what nobody asked for. A value of
-- just HEAD bytes is always such a beginning; in these scripts, `{ head, rest }` is a long record.
local HEAD = 252

local function rest_name(place, field)
  return P .. 'l' .. place .. field
end

-- The server has lost the rest of a long record, or somebody has deleted it.
local LOST, DAMAGED = '!', 'DAMAGED a long record has lost its rest'

-- Adds their rests to the beginnings of long records among `values`, which stand at a place under
-- the fields from `first` on. If `most` bytes of each are enough, no more need come. Answers the
-- values, and whether one is now in two parts. A record that has lost its rest is an error, or, for who
-- is `lenient`, a beginning with `false` behind it.
local function complete(values, place, fields, first, most, lenient)
  if most and most <= HEAD then return values, false end
  local names, places
  for at = 1, #values do
    local value = values[at]
    if value and #value == HEAD then
      names, places = names or {}, places or {}
      names[#names + 1] = rest_name(place, fields[first + at - 1])
      places[#names] = at
    end
  end
  if not names then return values, false end
  for from = 1, #names, CHUNK do
    local to, rests = math.min(from + CHUNK - 1, #names), {}
    if not most then rests = call('MGET', unpack(names, from, to)) end
    for n = from, to do
      local rest, at = rests[n - from + 1], places[n]
      if most then
        rest = call('GETRANGE', names[n], 0, most - HEAD - 1)
        if rest == '' then rest = call('GET', names[n]) end
      end
      if not rest and not lenient then error({ err = DAMAGED }) end
      values[at] = { values[at], rest }
    end
  end
  return values, true
end

local function is_ordered(place)
  local space = byte(place)
  return space >= 97 and space <= 122
end

-- Bytes of a place in an ordered space, where it is a partition.
local PARTITION = 9

-- The records of a point space with these names, of long ones the first `most` bytes, if that is told;
-- and whether one is in two parts. What lies in one chunk is asked for at once.
local function values_of(space, names, most)
  local chunks, values, some_long = {}, {}, false
  for at, name in ipairs(names) do
    local which = sub(name, 1, 6)
    local chunk = chunks[which]
    if not chunk then
      chunk = { {}, {} }
      chunks[which] = chunk
    end
    local fields, places = chunk[1], chunk[2]
    fields[#fields + 1], places[#places + 1] = sub(name, 7), at
  end
  for which, chunk in pairs(chunks) do
    local place, fields, places = space .. which, chunk[1], chunk[2]
    for from = 1, #fields, CHUNK do
      local to = math.min(from + CHUNK - 1, #fields)
      local page = call('HMGET', P .. 'r' .. place, unpack(fields, from, to))
      local _, is_some = complete(page, place, fields, from, most)
      some_long = some_long or is_some
      for index, value in ipairs(page) do values[places[from + index - 1]] = value end
    end
  end
  return values, some_long
end

-- Where a member's suffix ends, as a pattern: only there a zero precedes one of these.
local SUFFIX_END = '%z[%z\1-\127]'

-- The member of a partition that begins with a written suffix; false if there is none.
local function member_of(place, suffix)
  local met = call('ZRANGE', P .. 'z' .. place, '[' .. suffix, '+', 'BYLEX', 'LIMIT', '0', '1')[1]
  return met and sub(met, 1, #suffix) == suffix and met or false
end

local RECORDS, PRESENCE, TALLIES = byte('r'), byte('p'), byte('t')

-- Reads groups of fields that lie side by side in ARGV, of which `groups` has 7 bytes each: the kind
-- ('r' records, 'p' records whose presence is enough, 't' tallies, 'n' records that are not asked
-- for), and three indices: of the place, of the first field and of the last. What is found stands at
-- the fields' indices, and so do places and the members of ordered spaces, of whatever kind, for who
-- wants them. That is who is lenient with damaged records, too.
local function fetch(groups, found, places, members)
  for at = 1, #groups, 7 do
    local kind, place1, place2, from1, from2, to1, to2 = byte(groups, at, at + 6)
    local place, from, to = A[place1 * 256 + place2], from1 * 256 + from2, to1 * 256 + to2
    if places then for index = from, to do places[index] = place end end
    local values
    if kind == TALLIES then
      values = call('HMGET', P .. 't' .. place, unpack(A, from, to))
    elseif #place == PARTITION then
      values = {}
      for index = from, to do
        local suffix = A[index]
        local member = member_of(place, suffix)
        if members then members[index] = member end
        if kind == RECORDS then member = member and sub(member, #suffix + 1)
        elseif kind == PRESENCE then member = member ~= false
        else member = nil
        end
        values[index - from + 1] = member
      end
    elseif kind == RECORDS then
      values = call('HMGET', P .. 'r' .. place, unpack(A, from, to))
    elseif kind == PRESENCE then
      values = {}
      for index = from, to do
        values[index - from + 1] = call('HEXISTS', P .. 'r' .. place, A[index]) == 1
      end
    end
    if kind == RECORDS then complete(values, place, A, from, nil, places ~= nil) end
    for index = from, to do found[index] = values and values[index - from + 1] end
  end
end
