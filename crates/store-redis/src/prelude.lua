-- Before every script. KEYS[1] is what every key of the volume begins with: its hash tag and a colon.
--   m            hash: the volume's format and id
--   rS           hash: the records of space S; a field is partition and suffix
--   zSPPPPPPPP   sorted set, all scores 0: the suffixes of partition P of the ordered space S
--   tS           hash: the tallies of space S that are not 0
--   f            stream: the change feed
--   s            sorted set: the open snapshots by id; a score is when one ends, in ms
--   cIDrS, cIDtS hash: what records and tallies were in snapshot ID; '+' and the bytes, or '-'
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
      for index = from, to do found[index] = values[index - from + 1] end
    elseif kind == PRESENCE then
      for index = from, to do found[index] = call('HEXISTS', P .. 'r' .. name, A[index]) == 1 end
    end
  end
end
