-- Decides a batch of plans, in order. ARGV: the program, the groups of keys to fetch, then what both
-- refer to by index. A program is steps of 5 bytes: a code and two indices. A plan is a step with the
-- numbers of its guards and writes, then those. Answers plan, guard and record met of each refusal.
--
-- A long record is two arguments side by side, of which the first has the index.
--
-- Plans are decided over what was fetched, and change that. Commands that change the volume come
-- after, and none of them can fail: a script that fails is not undone.
local EQUALS, ABSENT, PRESENT = 17, 18, 19
local PUT, DELETE, TELL, ADD, MAX = 21, 22, 23, 24, 25
local program = A[1]
local now, spaces = {}, {}
fetch(A[2], now, spaces)
local before, changed, list = {}, {}, {}
local numbers, number_before, number_list = {}, {}, {}
local snapshots

local function save(kind, space, field, was)
  for _, id in ipairs(snapshots) do
    call('HSETNX', P .. 'c' .. id .. kind .. char(space), field, was)
  end
end

-- This may not fail: earlier changes may have been written.
local function save_all()
  for _, index in ipairs(list) do
    local was, space = before[index], char(spaces[index])
    if was == nil or was == true then
      was = call('HGET', P .. 'r' .. space, A[index])
      if was and #was == HEAD then was = { was, call('GET', rest_name(space, A[index])) } end
    end
    if type(was) == 'table' then was = was[2] and ('+' .. was[1] .. was[2]) or LOST
    else was = was and ('+' .. was) or '-'
    end
    save('r', spaces[index], A[index], was)
  end
  for _, index in ipairs(number_list) do
    local was = number_before[index]
    save('t', spaces[index], A[index], was ~= 0 and ('+' .. decimal(was)) or '-')
  end
end

local FIRST_ORDERED, LAST_ORDERED = byte('a'), byte('z')

local function is_ordered(space)
  return space >= FIRST_ORDERED and space <= LAST_ORDERED
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
  if not arguments then return end
  for from = 1, #arguments, CHUNK do
    call(command, unpack(arguments, from, math.min(from + CHUNK - 1, #arguments)))
  end
end

local function into(tables, name)
  local arguments = tables[name]
  if not arguments then
    arguments = {}
    tables[name] = arguments
  end
  return arguments
end

local function write()
  if #list == 0 and #number_list == 0 then return end
  snapshots = snapshots or open_snapshots()
  if #snapshots > 0 then save_all() end
  local puts, places, deletes, removals = {}, {}, {}, {}
  -- Rests to write, and rests that go. Of what was under a key, nothing may be known. Then a short
  -- record may be put over a long one, unless as many fields are new as there can be.
  local rests, stale, unsure, news_most = nil, nil, nil, 0
  local last, last_puts
  for _, index in ipairs(list) do
    local value, was, space, field = now[index], before[index], spaces[index], A[index]
    if value then
      if space ~= last then
        last, last_puts = space, into(puts, P .. 'r' .. char(space))
      end
      if not was then news_most = news_most + 1 end
      if type(value) == 'table' then
        rests = rests or {}
        rests[#rests + 1] = rest_name(char(space), field)
        rests[#rests + 1] = value[2]
        value = value[1]
      elseif was == nil then
        unsure = unsure or {}
        unsure[#unsure + 1] = index
      elseif was == true or was and type(was) == 'table' then
        stale = stale or {}
        stale[#stale + 1] = rest_name(char(space), field)
      end
      local at = #last_puts
      last_puts[at + 1] = field
      last_puts[at + 2] = value
      if not was and is_ordered(space) then
        local order = into(places, P .. 'z' .. char(space) .. sub(field, 1, 8))
        order[#order + 1] = '0'
        order[#order + 1] = sub(field, 9)
      end
    elseif was ~= false then
      local gone = into(deletes, P .. 'r' .. char(space))
      gone[#gone + 1] = field
      if type(was) ~= 'string' then
        stale = stale or {}
        stale[#stale + 1] = rest_name(char(space), field)
      end
      if is_ordered(space) then
        local order = into(removals, P .. 'z' .. char(space) .. sub(field, 1, 8))
        order[#order + 1] = sub(field, 9)
      end
    end
  end
  local sets, clears = {}, {}
  for _, index in ipairs(number_list) do
    local number, name = numbers[index], P .. 't' .. char(spaces[index])
    if number ~= 0 then
      local some = into(sets, name)
      some[#some + 1] = A[index]
      some[#some + 1] = decimal(number)
    elseif number_before[index] ~= 0 then
      local gone = into(clears, name)
      gone[#gone + 1] = A[index]
    end
  end
  if in_chunks('HSET', puts) < news_most and unsure then
    stale = stale or {}
    for _, index in ipairs(unsure) do
      stale[#stale + 1] = rest_name(char(spaces[index]), A[index])
    end
  end
  in_chunks_without_name('MSET', rests)
  in_chunks_without_name('UNLINK', stale)
  in_chunks('HSET', sets)
  in_chunks('ZADD', places)
  in_chunks('HDEL', deletes)
  in_chunks('ZREM', removals)
  in_chunks('HDEL', clears)
  before, changed, list = {}, {}, {}
  number_before, number_list = {}, {}
end

local function is_empty(index)
  write()
  local met = call('ZRANGE', P .. 'z' .. A[index], A[index + 1], A[index + 2], 'BYLEX', 'LIMIT', 0, 1)
  return #met == 0
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
  call('XADD', P .. 'f', 'MAXLEN', '~', '4096', '*', 'k', table.concat(pieces))
end
return refusals
