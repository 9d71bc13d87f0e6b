-- Before `commit.lua`, and before anything else, since most batches need no more: what the plans of a
-- batch come to if all are committed. The last of ARGV tells it; nothing if the batch has no such form.
-- If a guard does not hold, or a snapshot is open, nothing has happened, and the plans are decided one
-- by one. Numbers have two bytes, the greater first, but for those of groups, kinds and flags.
--
--   groups of guards:  how many; each its kind ('r', or 'p': presence is enough), space, first index,
--                      how many fields; of kind 'r' an index for each field, of the record's bytes,
--                      0: there must be none
--   groups of tallies: how many; each its space, first index, how many; for each ADD, MAX or SET and
--                      the index of a number
--   groups of writes:  how many; each its space, whether it is ordered, how many puts and deletes; for
--                      each the index of the field, that of the value of a put, and its flags
--   the feed:          the first and the last index of its pieces
--
-- No guard here expects a long record: none equals the beginning of one.
local joined = ARGV[#ARGV]

local function commit_joined()
  local call, P, A, unpack, char, sub = redis.call, KEYS[1], ARGV, unpack, string.char, string.sub
  -- What is known of a record that is written: nothing, so that there may be a long one; that it is
  -- there, and short. Without either it is not there.
  local UNKNOWN, THERE = 1, 2
  local PRESENCE, ADD, MAX = 112, 24, 25
  local HEAD = 252
  local b, at = { string.byte(joined, 1, -1) }, 2
  for _ = 1, b[1] do
    local name = P .. 'r' .. char(b[at + 1])
    local from, count = b[at + 2] * 256 + b[at + 3], b[at + 4] * 256 + b[at + 5]
    local to = from + count - 1
    at = at + 6
    if b[at - 6] == PRESENCE then
      for index = from, to do
        if call('HEXISTS', name, A[index]) == 0 then return end
      end
    else
      local values = call('HMGET', name, unpack(A, from, to))
      for n = 1, count do
        local expected = b[at] * 256 + b[at + 1]
        if values[n] ~= (expected > 0 and A[expected]) then return end
        at = at + 2
      end
    end
  end
  if call('EXISTS', P .. 's') == 1 then return end

  -- Commands that change the volume come after all that may fail.
  local sets_of, clears_of = {}, nil
  local tallies = b[at]
  at = at + 1
  for _ = 1, tallies do
    local name = P .. 't' .. char(b[at])
    local from, count = b[at + 1] * 256 + b[at + 2], b[at + 3] * 256 + b[at + 4]
    at = at + 5
    local values = call('HMGET', name, unpack(A, from, from + count - 1))
    local sets, set = { name }, 1
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
        clears_of = clears_of or {}
        clears_of[#clears_of + 1] = { name, A[from + n - 1] }
      end
    end
    if set > 1 then sets_of[#sets_of + 1] = sets end
  end

  local rests, stale
  local spaces = b[at]
  at = at + 1
  for _ = 1, spaces do
    local space, ordered = char(b[at]), b[at + 1] == 1
    local puts, deletes = b[at + 2] * 256 + b[at + 3], b[at + 4] * 256 + b[at + 5]
    at = at + 6
    local name = P .. 'r' .. space
    local fields, to, news_most, unsure = {}, 0, 0, nil
    local partition, order, placed
    for _ = 1, puts do
      local field, value = A[b[at] * 256 + b[at + 1]], b[at + 2] * 256 + b[at + 3]
      local flags = b[at + 4]
      at = at + 5
      local first = A[value]
      fields[to + 1], fields[to + 2] = field, first
      to = to + 2
      if flags ~= THERE then news_most = news_most + 1 end
      if #first == HEAD then
        rests = rests or {}
        local last = #rests
        rests[last + 1], rests[last + 2] = P .. 'l' .. space .. field, A[value + 1]
      elseif flags == UNKNOWN then
        unsure = unsure or {}
        unsure[#unsure + 1] = P .. 'l' .. space .. field
      end
      if ordered and flags ~= THERE then
        local its = sub(field, 1, 8)
        if its ~= partition then
          if partition then call('ZADD', P .. 'z' .. space .. partition, unpack(order)) end
          partition, order, placed = its, {}, 0
        end
        order[placed + 1], order[placed + 2] = '0', sub(field, 9)
        placed = placed + 2
      end
    end
    if partition then call('ZADD', P .. 'z' .. space .. partition, unpack(order)) end
    -- Of a short record that is put over something unknown, which may have been long.
    if to > 0 and call('HSET', name, unpack(fields)) < news_most and unsure then
      stale = stale or {}
      for _, rest in ipairs(unsure) do stale[#stale + 1] = rest end
    end
    if deletes > 0 then
      local gone = {}
      for n = 1, deletes do
        local field = A[b[at] * 256 + b[at + 1]]
        gone[n] = field
        if b[at + 2] == UNKNOWN then
          stale = stale or {}
          stale[#stale + 1] = P .. 'l' .. space .. field
        end
        if ordered then call('ZREM', P .. 'z' .. space .. sub(field, 1, 8), sub(field, 9)) end
        at = at + 3
      end
      call('HDEL', name, unpack(gone))
    end
  end
  if rests then call('MSET', unpack(rests)) end
  if stale then call('UNLINK', unpack(stale)) end
  for n = 1, #sets_of do call('HSET', unpack(sets_of[n])) end
  if clears_of then
    for n = 1, #clears_of do call('HDEL', unpack(clears_of[n])) end
  end
  local from, to = b[at] * 256 + b[at + 1], b[at + 2] * 256 + b[at + 3]
  if from > 0 then
    call('XADD', P .. 'f', 'MAXLEN', '~', '4096', '*', 'k', table.concat(A, '', from, to))
  end
  return true
end

if joined ~= '' and commit_joined() then return {} end
