-- Before `commit.lua`, and before anything else, since most batches need no more: what the plans of a
-- batch come to if all are committed. The last of ARGV tells it; nothing if the batch has no such form.
-- If a guard does not hold, or a snapshot is open, nothing has happened, and the plans are decided one
-- by one. Numbers have two bytes, the greater first, but for kinds and codes; places, fields and bytes
-- are indices of arguments.
--
--   groups of guards:  how many; each its kind ('r', or 'p': presence is enough), place, first field,
--                      how many; of kind 'r' for each field the record's bytes, 0: there must be none
--   groups of tallies: how many; each its place, first field, how many; for each ADD, MAX or SET and
--                      a number
--   groups of writes:  how many; each its place, how many puts, how many deletes; for each the field,
--                      the bytes of a put, and those that were there, 0: none, UNKNOWN: maybe some
--   the feed:          what it is told, 0: nothing
--
-- No guard here expects a long record: none equals the beginning of one. The rest of one that is put
-- is an argument, or is at the server already under a name that the argument tells, as `prelude.lua`
-- says.
local joined = ARGV[#ARGV]

local function commit_joined()
  local call, P, A, unpack = redis.call, KEYS[1], ARGV, unpack
  local byte, char, sub = string.byte, string.char, string.sub
  local UNKNOWN, PRESENCE, ADD, MAX = 65535, 112, 24, 25
  local HEAD = 252
  local PARTITION = 9
  local b, at = { byte(joined, 1, -1) }, 3
  -- The partitions and chunks that are known to have records.
  local occupied = {}

  -- The bound behind everything that begins with a written suffix.
  local function behind(suffix)
    return '(' .. sub(suffix, 1, -2) .. char(byte(suffix, -1) + 1)
  end

  -- How many members of a partition begin with one of some written suffixes, which are in order, or
  -- stand between the first of them and the last.
  local function members_from(place, first, last)
    return call('ZLEXCOUNT', P .. 'z' .. place, '[' .. first, behind(last))
  end

  -- Whether no member of a partition begins with one of some written suffixes, which are in order.
  -- One command is enough if there is nothing from the first of them to the last.
  local function has_none(place, suffixes)
    local many = #suffixes
    if many == 0 or members_from(place, suffixes[1], suffixes[many]) == 0 then return true end
    if many == 1 then return false end
    for n = 1, many do
      if members_from(place, suffixes[n], suffixes[n]) > 0 then return false end
    end
    return true
  end

  -- Whether the records of a partition are as expected.
  local function members_hold(place, from, to)
    local members, absent = {}, {}
    for index = from, to do
      local expected = b[at] * 256 + b[at + 1]
      at = at + 2
      if expected > 0 then members[#members + 1] = A[index] .. A[expected]
      else absent[#absent + 1] = A[index]
      end
    end
    if #members > 0 then
      local scores = call('ZMSCORE', P .. 'z' .. place, unpack(members))
      for n = 1, #members do
        if not scores[n] then return false end
      end
      occupied[place] = true
    end
    return has_none(place, absent)
  end

  for _ = 1, b[1] * 256 + b[2] do
    local place, from = A[b[at + 1] * 256 + b[at + 2]], b[at + 3] * 256 + b[at + 4]
    local to, is_presence = from + b[at + 5] * 256 + b[at + 6] - 1, b[at] == PRESENCE
    at = at + 7
    if #place == PARTITION then
      if is_presence then
        for index = from, to do
          if members_from(place, A[index], A[index]) == 0 then return end
        end
      elseif not members_hold(place, from, to) then return
      end
    elseif is_presence then
      for index = from, to do
        if call('HEXISTS', P .. 'r' .. place, A[index]) == 0 then return end
      end
      occupied[place] = true
    else
      local values = call('HMGET', P .. 'r' .. place, unpack(A, from, to))
      for n = 1, to - from + 1 do
        local expected = b[at] * 256 + b[at + 1]
        if values[n] ~= (expected > 0 and A[expected]) then return end
        if expected > 0 then occupied[place] = true end
        at = at + 2
      end
    end
  end
  if call('EXISTS', P .. 's') == 1 then return end

  -- Commands that change the volume come after all that may fail.
  local commands = {}
  local tallies = b[at] * 256 + b[at + 1]
  at = at + 2
  for _ = 1, tallies do
    local name = P .. 't' .. A[b[at] * 256 + b[at + 1]]
    local from, count = b[at + 2] * 256 + b[at + 3], b[at + 4] * 256 + b[at + 5]
    at = at + 6
    local values = call('HMGET', name, unpack(A, from, from + count - 1))
    local sets, set = { 'HSET', name }, 2
    for n = 1, count do
      local code, was = b[at], tonumber(values[n] or 0)
      local number = tonumber(A[b[at + 1] * 256 + b[at + 2]])
      at = at + 3
      if code == ADD then number = was + number
      elseif code == MAX and was > number then number = was
      end
      -- Beyond this a tally is not defined; it must only stay readable.
      if number > 2 ^ 60 then number = 2 ^ 60 elseif number < -2 ^ 60 then number = -2 ^ 60 end
      if number ~= 0 then
        sets[set + 1], sets[set + 2] = A[from + n - 1], string.format('%.0f', number)
        set = set + 2
      elseif was ~= 0 then
        commands[#commands + 1] = { 'HDEL', name, A[from + n - 1] }
      end
    end
    if set > 2 then commands[#commands + 1] = sets end
  end

  local rests, stale
  -- Names of rests that are there already, each followed by its new one.
  local staged = {}

  local function write_rest(place, field, value)
    local name, rest = P .. 'l' .. place .. field, A[value + 1]
    if #rest > 0 and #rest < HEAD then
      local last = #staged
      staged[last + 1], staged[last + 2] = P .. 'w' .. rest, name
    else
      rests = rests or { 'MSET' }
      local last = #rests
      rests[last + 1], rests[last + 2] = name, rest
    end
  end

  local function drop_rest(place, field)
    stale = stale or { 'UNLINK' }
    stale[#stale + 1] = P .. 'l' .. place .. field
  end

  -- Reads what becomes of some records of a point space. Of a short one that is put over something
  -- unknown, which may have been long, more is known when the space has been written.
  local function point_writes(place, puts, deletes)
    local fields, to, news_most, unsure = { 'HSET', P .. 'r' .. place }, 2, 0, nil
    for _ = 1, puts do
      local field, value = A[b[at] * 256 + b[at + 1]], b[at + 2] * 256 + b[at + 3]
      local was, head = b[at + 4] * 256 + b[at + 5], A[value]
      at = at + 6
      fields[to + 1], fields[to + 2] = field, head
      to = to + 2
      if was == 0 or was == UNKNOWN then news_most = news_most + 1 end
      if #head == HEAD then write_rest(place, field, value)
      elseif was == UNKNOWN then
        unsure = unsure or {}
        unsure[#unsure + 1] = field
      end
    end
    local gone = { 'HDEL', P .. 'r' .. place }
    for n = 1, deletes do
      local field = A[b[at] * 256 + b[at + 1]]
      if b[at + 2] * 256 + b[at + 3] == UNKNOWN then drop_rest(place, field) end
      gone[n + 2], at = field, at + 4
    end
    return { place, puts > 0 and fields, deletes > 0 and gone, news_most, unsure }
  end

  -- Reads what becomes of some records of a partition: members that are put, and that go.
  local function member_writes(place, puts, deletes)
    local added, to, gone, unsure, long = { 'ZADD', P .. 'z' .. place }, 2, nil, nil, nil
    for n = 1, puts + deletes do
      local suffix, head, was = A[b[at] * 256 + b[at + 1]], nil, nil
      if n <= puts then
        local value = b[at + 2] * 256 + b[at + 3]
        head, at = A[value], at + 2
        if #head == HEAD then write_rest(place, suffix, value) end
      end
      was, at = b[at + 2] * 256 + b[at + 3], at + 4
      local member, met = head and suffix .. head, was > 0 and was ~= UNKNOWN and suffix .. A[was]
      if was == UNKNOWN then
        unsure = unsure or { {}, {} }
        local some = unsure[head and 1 or 2]
        some[#some + 1], unsure[suffix] = suffix, member
      elseif met and met ~= member then
        gone = gone or { 'ZREM', P .. 'z' .. place }
        gone[#gone + 1] = met
      end
      if member then
        added[to + 1], added[to + 2] = '0', member
        to = to + 2
      end
    end
    for _, suffixes in ipairs(unsure or {}) do
      if not has_none(place, suffixes) then
        occupied[place] = true
        for _, suffix in ipairs(suffixes) do
          local member, met = unsure[suffix], nil
          met = call('ZRANGE', P .. 'z' .. place, '[' .. suffix, behind(suffix), 'BYLEX')[1]
          if met and met ~= member then
            gone = gone or { 'ZREM', P .. 'z' .. place }
            gone[#gone + 1] = met
          end
          local is_long = member and #member == #suffix + HEAD
          if met and #met == #suffix + HEAD and not is_long then drop_rest(place, suffix) end
        end
      end
    end
    return { place, to > 2 and added, gone }
  end

  local points, partitions = {}, {}
  local groups = b[at] * 256 + b[at + 1]
  at = at + 2
  for _ = 1, groups do
    local place = A[b[at] * 256 + b[at + 1]]
    local puts, deletes = b[at + 2] * 256 + b[at + 3], b[at + 4] * 256 + b[at + 5]
    at = at + 6
    if #place == PARTITION then partitions[#partitions + 1] = member_writes(place, puts, deletes)
    else points[#points + 1] = point_writes(place, puts, deletes)
    end
  end

  -- First of all what a server may refuse that has not brought any rests.
  for n = 1, #staged, 2 do call('RENAME', staged[n], staged[n + 1]) end
  -- A space is told of partitions and chunks that come into being. Mostly none does.
  local perhaps = {}
  local function note_new(groups_of)
    for n = 1, #groups_of do
      local place, added = groups_of[n][1], groups_of[n][2]
      if added and not occupied[place] then perhaps[#perhaps + 1] = added[2] end
    end
  end
  note_new(points)
  note_new(partitions)
  if #perhaps > 0 and call('EXISTS', unpack(perhaps)) < #perhaps then
    for _, name in ipairs(perhaps) do
      if call('EXISTS', name) == 0 then
        local place = sub(name, #P + 2)
        call('ZADD', P .. 'y' .. sub(place, 1, 1), '0', sub(place, 2))
      end
    end
  end
  for n = 1, #points do
    local place, fields, _, news_most, unsure = unpack(points[n], 1, 5)
    if fields and call(unpack(fields)) < news_most and unsure then
      for _, field in ipairs(unsure) do drop_rest(place, field) end
    end
  end
  -- Records are put before others go, so that no place is empty in between; and a space is told of
  -- those that end.
  local function remove(gone, place, is_alone)
    call(unpack(gone))
    if is_alone and call('EXISTS', gone[2]) == 0 then
      call('ZREM', P .. 'y' .. sub(place, 1, 1), sub(place, 2))
    end
  end
  for n = 1, #partitions do
    local place, added, gone = unpack(partitions[n], 1, 3)
    if added then call(unpack(added)) end
    if gone then remove(gone, place, not added) end
  end
  for n = 1, #points do
    local place, added, gone = unpack(points[n], 1, 3)
    if gone then remove(gone, place, not added) end
  end
  if rests then call(unpack(rests)) end
  if stale then call(unpack(stale)) end
  for n = 1, #commands do call(unpack(commands[n])) end
  local told = b[at] * 256 + b[at + 1]
  if told > 0 then call('XADD', P .. 'f', 'MAXLEN', '~', '2049', '*', 'k', A[told]) end
  return true
end

if joined ~= '' and commit_joined() then return {} end
