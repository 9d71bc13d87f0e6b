-- Decides a batch of plans, in order. ARGV: the program, the groups of keys to fetch, then what both
-- refer to by index. A program is steps of 5 bytes: a code and two indices. A plan is a step with the
-- numbers of its guards and writes, then those. Answers plan, guard and record met of each refusal; the
-- guard is -1 if one of its plan cannot be decided, because the record has lost its rest.
--
-- A long record is two arguments side by side, of which the first has the index.
--
-- Plans are decided over what was fetched, and change that. Commands that change the volume come
-- after, and none of them can fail: a script that fails is not undone.
local EQUALS, ABSENT, PRESENT = 17, 18, 19
local PUT, DELETE, TELL, ADD, MAX = 21, 22, 23, 24, 25
local program = A[1]
-- Of each key: what its record is now, as far as that is known; its place; and, if that is a
-- partition, the member that stands there.
local now, places, members = {}, {}, {}
fetch(A[2], now, places, members)
local before, changed, list = {}, {}, {}
local numbers, number_before, number_list = {}, {}, {}
local snapshots

local function save(kind, index, was)
  local key = places[index] .. A[index]
  for _, id in ipairs(snapshots) do
    call('HSETNX', P .. 'c' .. id .. kind .. sub(key, 1, 1), sub(key, 2), was)
  end
end

-- The record of a key that was not asked for.
local function standing(index)
  local place, field, was = places[index], A[index], nil
  if #place == PARTITION then was = members[index] and sub(members[index], #field + 1)
  else was = call('HGET', P .. 'r' .. place, field)
  end
  if was and #was == HEAD then was = { was, call('GET', rest_name(place, field)) } end
  return was
end

-- This may not fail: earlier changes may have been written.
local function save_all()
  for _, index in ipairs(list) do
    local was = before[index]
    if was == nil or was == true then was = standing(index) end
    if type(was) == 'table' then was = was[2] and ('+' .. was[1] .. was[2]) or LOST
    else was = was and ('+' .. was) or '-'
    end
    save('r', index, was)
  end
  for _, index in ipairs(number_list) do
    local was = number_before[index]
    save('t', index, was ~= 0 and ('+' .. decimal(was)) or '-')
  end
end

-- Adds some arguments to those that go with a name.
local function add(arguments_of, name, ...)
  local arguments = arguments_of[name]
  if not arguments then
    arguments = {}
    arguments_of[name] = arguments
  end
  for _, argument in ipairs({ ... }) do arguments[#arguments + 1] = argument end
end

-- Answers the sum of what the commands answered.
local function in_chunks(command, arguments_of)
  local sum = 0
  for name, arguments in pairs(arguments_of) do
    for from = 1, #arguments, CHUNK do
      local to = math.min(from + CHUNK - 1, #arguments)
      sum = sum + call(command, name, unpack(arguments, from, to))
    end
  end
  return sum
end

local function in_chunks_without_name(command, arguments)
  for from = 1, #arguments, CHUNK do
    call(command, unpack(arguments, from, math.min(from + CHUNK - 1, #arguments)))
  end
end

-- What knows the partitions or chunks of a space is told of those that records are about to be put
-- into, and that do not exist yet.
local function tell_begun(puts)
  local begun = {}
  for name in pairs(puts) do
    if call('EXISTS', name) == 0 then
      local place = sub(name, #P + 2)
      add(begun, P .. 'y' .. sub(place, 1, 1), '0', sub(place, 2))
    end
  end
  in_chunks('ZADD', begun)
end

-- The same of those that records were removed from, and that do not exist any more.
local function tell_ended(removals)
  local ended = {}
  for name in pairs(removals) do
    if call('EXISTS', name) == 0 then
      local place = sub(name, #P + 2)
      add(ended, P .. 'y' .. sub(place, 1, 1), sub(place, 2))
    end
  end
  in_chunks('ZREM', ended)
end

local function write_numbers()
  local sets, clears = {}, {}
  for _, index in ipairs(number_list) do
    local number, name = numbers[index], P .. 't' .. places[index]
    if number ~= 0 then add(sets, name, A[index], decimal(number))
    elseif number_before[index] ~= 0 then add(clears, name, A[index])
    end
  end
  in_chunks('HSET', sets)
  in_chunks('HDEL', clears)
end

local function write()
  if #list == 0 and #number_list == 0 then return end
  snapshots = snapshots or open_snapshots()
  if #snapshots > 0 then save_all() end
  local puts, deletes, members_put, members_gone = {}, {}, {}, {}
  -- Rests to write, and rests that go. Of what was under a field, nothing may be known. Then a short
  -- record may be put over a long one, unless as many fields are new as there can be.
  local rests, stale, unsure, news_most = {}, {}, {}, 0
  for _, index in ipairs(list) do
    local head, was, place, field = now[index], before[index], places[index], A[index]
    local rest = rest_name(place, field)
    local is_long = type(head) == 'table'
    if is_long then
      rests[#rests + 1], rests[#rests + 2] = rest, head[2]
      head = head[1]
    end
    if #place == PARTITION then
      local name, met, member = P .. 'z' .. place, members[index], head and field .. head
      if met ~= member then
        if member then add(members_put, name, '0', member) end
        if met then add(members_gone, name, met) end
        members[index] = member
      end
      if met and #met == #field + HEAD and not is_long then stale[#stale + 1] = rest end
    elseif head then
      if not was then news_most = news_most + 1 end
      add(puts, P .. 'r' .. place, field, head)
      if not is_long then
        if was == nil then unsure[#unsure + 1] = rest
        elseif was == true or type(was) == 'table' then stale[#stale + 1] = rest
        end
      end
    elseif was ~= false then
      add(deletes, P .. 'r' .. place, field)
      if type(was) ~= 'string' then stale[#stale + 1] = rest end
    end
  end
  tell_begun(puts)
  tell_begun(members_put)
  local news = in_chunks('HSET', puts)
  in_chunks_without_name('MSET', rests)
  in_chunks_without_name('UNLINK', stale)
  if news < news_most then in_chunks_without_name('UNLINK', unsure) end
  in_chunks('HDEL', deletes)
  -- Members are put before others go, so that no partition is empty in between.
  in_chunks('ZADD', members_put)
  in_chunks('ZREM', members_gone)
  tell_ended(deletes)
  tell_ended(members_gone)
  write_numbers()
  before, changed, list = {}, {}, {}
  number_before, number_list = {}, {}
end

local function is_empty(index)
  write()
  local name = P .. 'z' .. A[index]
  return #call('ZRANGE', name, A[index + 1], A[index + 2], 'BYLEX', 'LIMIT', '0', '1') == 0
end

-- Beyond this a tally is not defined; it must only stay readable.
local FAR = 2 ^ 60

local function count(code, index, by)
  local was = numbers[index]
  if not was then was = tonumber(now[index] or 0) end
  if number_before[index] == nil then
    number_before[index] = was
    number_list[#number_list + 1] = index
  end
  if code == ADD then was = was + by
  elseif code == MAX then was = math.max(was, by)
  else was = by
  end
  numbers[index] = math.max(-FAR, math.min(FAR, was))
end

local refusals, pieces = {}, {}
local plan, at, length = 0, 1, #program
while at <= length do
  local _, g1, g2, w1, w2 = byte(program, at, at + 4)
  local guards, writes = g1 * 256 + g2, w1 * 256 + w2
  local writes_at = at + 5 + 5 * guards
  local next_at = writes_at + 5 * writes
  local refused = false
  at = at + 5
  for guard = 1, guards do
    local code, a1, a2, b1, b2 = byte(program, at, at + 4)
    local index = a1 * 256 + a2
    local met = now[index]
    if code <= ABSENT and type(met) == 'table' and not met[2] then
      local to = #refusals
      refusals[to + 1], refusals[to + 2], refusals[to + 3] = plan, -1, false
      refused = true
      break
    end
    if code == EQUALS then
      local other = b1 * 256 + b2
      refused = met ~= A[other]
      if refused and type(met) == 'table' then
        refused = met[1] ~= A[other] or met[2] ~= A[other + 1]
      end
    elseif code == ABSENT then refused = met ~= false
    elseif code == PRESENT then refused, met = not met, false
    else refused, met = not is_empty(index), false
    end
    if refused then
      local to = #refusals
      refusals[to + 1], refusals[to + 2], refusals[to + 3] = plan, guard - 1, met
      break
    end
    at = at + 5
  end
  if not refused then
    for step = writes_at, next_at - 1, 5 do
      local code, a1, a2, b1, b2 = byte(program, step, step + 4)
      local index, other = a1 * 256 + a2, b1 * 256 + b2
      if code <= DELETE then
        if not changed[index] then
          changed[index] = true
          before[index] = now[index]
          list[#list + 1] = index
        end
        if code == DELETE then now[index] = false
        elseif #A[other] == HEAD then now[index] = { A[other], A[other + 1] }
        else now[index] = A[other]
        end
      elseif code == TELL then pieces[#pieces + 1] = A[index]
      else count(code, index, tonumber(A[other]))
      end
    end
  end
  plan, at = plan + 1, next_at
end
write()
if #pieces > 0 then
  call('XADD', P .. 'f', 'MAXLEN', '~', '2049', '*', 'k', table.concat(pieces))
end
return refusals
