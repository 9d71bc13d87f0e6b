-- Before every script. KEYS[1] is what every key of the volume begins with: its hash tag and a colon.
--   m            hash: the volume's format and id
--   rS           hash: the records of space S; a field is partition and suffix
--   lKEY         string: the rest of the long record under KEY, which begins with its space
--   zSPPPPPPPP   sorted set, all scores 0: the suffixes of partition P of the ordered space S
--   tS           hash: the tallies of space S that are not 0
--   f            stream: the change feed
--   s            sorted set: the open snapshots by id; a score is when one ends, in ms
--   cIDrS, cIDtS hash: what records and tallies were in snapshot ID; '+' and the bytes, '-' if there
--                was nothing, LOST if a long record's rest was not to be found
local call, P, A = redis.call, KEYS[1], ARGV
local byte, char, sub, unpack = string.byte, string.char, string.sub, unpack

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
-- the hash, and the rest, which has a string of its own at the server. Who wants the beginning
-- alone needs no more than the hash, and no command copies what nobody asked for. A value of just
-- HEAD bytes is always such a beginning; in these scripts, `{ head, rest }` is a long record.
local HEAD = 252

local function rest_name(space, field)
  return P .. 'l' .. space .. field
end

-- The server has lost the rest of a long record, or somebody has deleted it.
local LOST, DAMAGED = '!', 'DAMAGED a long record has lost its rest'

-- Adds their rests to the beginnings of long records among `values`, which stand in a space's hash
-- under the fields from `first` on. If `most` bytes of each are enough, no more need come. Answers
-- the values, and whether one is now in two parts.
local function complete(values, space, fields, first, most)
  if most and most <= HEAD then return values, false end
  local names, places
  for place = 1, #values do
    local value = values[place]
    if value and #value == HEAD then
      names, places = names or {}, places or {}
      names[#names + 1] = rest_name(space, fields[first + place - 1])
      places[#names] = place
    end
  end
  if not names then return values, false end
  for from = 1, #names, CHUNK do
    local to, rests = math.min(from + CHUNK - 1, #names), {}
    if not most then rests = call('MGET', unpack(names, from, to)) end
    for n = from, to do
      local rest, place = rests[n - from + 1], places[n]
      if most then
        rest = call('GETRANGE', names[n], 0, most - HEAD - 1)
        if rest == '' then rest = call('GET', names[n]) end
      end
      if not rest then error({ err = DAMAGED }) end
      values[place] = { values[place], rest }
    end
  end
  return values, true
end

local RECORDS, PRESENCE, TALLIES = byte('r'), byte('p'), byte('t')

-- Reads groups of fields that lie side by side in ARGV, of which `groups` has 6 bytes each: the
-- kind ('r' records, 'p' records whose presence is enough, 't' tallies, 'n' records that are not
-- asked for), the space, the first and the last index. What is found stands at the fields' indices.
local function fetch(groups, found, spaces)
  for at = 1, #groups, 6 do
    local kind, space, from1, from2, to1, to2 = byte(groups, at, at + 5)
    local from, to, name = from1 * 256 + from2, to1 * 256 + to2, char(space)
    if spaces then for index = from, to do spaces[index] = space end end
    if kind == RECORDS or kind == TALLIES then
      local values = call('HMGET', P .. char(kind) .. name, unpack(A, from, to))
      if kind == RECORDS then complete(values, name, A, from) end
      for index = from, to do found[index] = values[index - from + 1] end
    elseif kind == PRESENCE then
      for index = from, to do found[index] = call('HEXISTS', P .. 'r' .. name, A[index]) == 1 end
    end
  end
end
