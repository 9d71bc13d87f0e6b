-- Included before each script except `commit.lua`, which runs it for rare cases only. KEYS[1] is the beginning of all keys of the
-- volume: its hash tag and a colon.
--
--   m            hash: the volume's format and id
--   rSCCCCCC     hash: the records of point space S in a chunk, which is all partitions whose first
--                six bytes are C. A field is the rest of the partition, and the suffix.
--   zSPPPPPPPP   sorted set, all scores 0: the records of partition P of ordered space S. A member is
--                a suffix, encoded as `member.rs` describes, and then the record.
--   yS           sorted set, all scores 0: the index of space S. It has the partitions of an ordered
--                space that have records, or the chunks of a point space.
--   lCN          string: the overflow value of the record with name N in container C
--   w            string: a marker within the transaction of `overflow.rs`, or the feed entry within
--                that of `sequence.rs`; never visible outside them
--   nS           hash: the counters of space S that are not 0
--   f            stream: the change feed
--   s            sorted set: the open snapshots by id; the score is the time of expiry, in ms
--   cIDrS, cIDnS hash: the records and counters in snapshot ID: '+' and the bytes, '-' if there was
--                none, LOST if the overflow value of a record was missing
--
-- A *container* is SCCCCCC or SPPPPPPPP, the name of a hash or a sorted set with records. A record's
-- *name* in it is its field, or its encoded suffix. Snapshots, and the positions of walks, identify a
-- record by its container without S, and its name.
local call, P, A = redis.call, KEYS[1], ARGV
local byte, char, sub, find, unpack = string.byte, string.char, string.sub, string.find, unpack

local function milliseconds()
  local time = call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function decimal(number)
  return string.format('%.0f', number)
end

local function drop_snapshot(id)
  call('ZREM', P .. 's', id)
  local keys = {}
  for space = 0, 255 do
    keys[#keys + 1] = P .. 'c' .. id .. 'r' .. char(space)
    keys[#keys + 1] = P .. 'c' .. id .. 'n' .. char(space)
  end
  call('UNLINK', unpack(keys))
end

-- Returns the ids of open snapshots. Drops expired ones first.
local function open_snapshots()
  local ids = call('ZRANGE', P .. 's', 0, -1)
  if #ids > 0 then
    for _, id in ipairs(call('ZRANGEBYSCORE', P .. 's', '-inf', decimal(milliseconds()))) do
      drop_snapshot(id)
    end
    ids = call('ZRANGE', P .. 's', 0, -1)
  end
  return ids
end

-- Limit of the arguments of one command: Lua limits how many it unpacks.
local ARGUMENTS_MAX = 1000

-- A long record is split, at the server and in messages: its first HEAD bytes, the head, are in the
-- container, and the rest, the overflow value, is a string of its own. So a reader of the first
-- bytes needs only the head, and no command copies bytes that were not requested. A value of HEAD
-- bytes in a container is always the head of a long record. In these scripts `{ head, overflow }`
-- is a long record.
local HEAD = 252

local function overflow_key(container, name)
  return P .. 'l' .. container .. name
end

-- The overflow value of a long record is missing: the server lost it, or another client deleted it.
local LOST, DAMAGED = '!', 'DAMAGED a long record has lost its overflow value'

-- Converts the heads among `values` into long records. The values are those of one container, under
-- `names` from the index `first` on. If the caller needs `most` bytes of each value, reads no more.
-- Returns the values, and true if there are long records among them. A missing overflow value is an
-- error, or `false` if the caller is `lenient`.
local function complete(values, container, names, first, most, lenient)
  if most and most <= HEAD then return values, false end
  local keys, positions
  for at = 1, #values do
    local value = values[at]
    if value and #value == HEAD then
      keys, positions = keys or {}, positions or {}
      keys[#keys + 1] = overflow_key(container, names[first + at - 1])
      positions[#keys] = at
    end
  end
  if not keys then return values, false end
  for from = 1, #keys, ARGUMENTS_MAX do
    local to, page = math.min(from + ARGUMENTS_MAX - 1, #keys), {}
    if not most then page = call('MGET', unpack(keys, from, to)) end
    for n = from, to do
      local overflow, at = page[n - from + 1], positions[n]
      if most then
        overflow = call('GETRANGE', keys[n], 0, most - HEAD - 1)
        -- It is empty or missing.
        if overflow == '' then overflow = call('GET', keys[n]) end
      end
      if not overflow and not lenient then error({ err = DAMAGED }) end
      values[at] = { values[at], overflow }
    end
  end
  return values, true
end

local function is_ordered(container)
  local space = byte(container)
  return space >= 97 and space <= 122
end

-- Bytes of a container in an ordered space.
local PARTITION = 9

-- Returns the records of a point space under these keys, which lack the space. If the caller needs
-- `most` bytes of each record, reads no more of long ones. Also returns true if there are long
-- records among them. Records of one chunk are read with one command.
local function values_of(space, keys, most)
  local chunks, values, some_long = {}, {}, false
  for at, key in ipairs(keys) do
    local which = sub(key, 1, 6)
    local chunk = chunks[which]
    if not chunk then
      chunk = { {}, {} }
      chunks[which] = chunk
    end
    local fields, positions = chunk[1], chunk[2]
    fields[#fields + 1], positions[#positions + 1] = sub(key, 7), at
  end
  for which, chunk in pairs(chunks) do
    local container, fields, positions = space .. which, chunk[1], chunk[2]
    for from = 1, #fields, ARGUMENTS_MAX do
      local to = math.min(from + ARGUMENTS_MAX - 1, #fields)
      local page = call('HMGET', P .. 'r' .. container, unpack(fields, from, to))
      local _, is_some = complete(page, container, fields, from, most)
      some_long = some_long or is_some
      for index, value in ipairs(page) do values[positions[from + index - 1]] = value end
    end
  end
  return values, some_long
end

-- The end of a member's suffix, as a pattern: only there a zero precedes one of these bytes.
local SUFFIX_END = '%z[%z\1-\127]'

-- Returns the member of a partition that begins with an encoded suffix; false if there is none.
local function member_of(container, suffix)
  local met = call('ZRANGE', P .. 'z' .. container, '[' .. suffix, '+', 'BYLEX', 'LIMIT', '0', '1')[1]
  return met and sub(met, 1, #suffix) == suffix and met or false
end

local RECORDS, COUNTERS = byte('r'), byte('n')

-- Fetches groups of keys. `groups` has seven bytes for each group: what to fetch ('r' records, 'n'
-- counters), and three indices of ARGV: of the container, of its first name, and of the last one.
-- Stores the results in `found`, under the indices of the names.
local function fetch(groups, found)
  for at = 1, #groups, 7 do
    local kind, container1, container2, from1, from2, to1, to2 = byte(groups, at, at + 6)
    local container, from, to = A[container1 * 256 + container2], from1 * 256 + from2, to1 * 256 + to2
    local values
    if kind == COUNTERS then
      values = call('HMGET', P .. 'n' .. container, unpack(A, from, to))
    elseif #container == PARTITION then
      values = {}
      for index = from, to do
        local suffix = A[index]
        local member = member_of(container, suffix)
        values[index - from + 1] = member and sub(member, #suffix + 1)
      end
    else values = call('HMGET', P .. 'r' .. container, unpack(A, from, to))
    end
    if kind == RECORDS then complete(values, container, A, from) end
    for index = from, to do found[index] = values[index - from + 1] end
  end
end
