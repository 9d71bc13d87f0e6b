-- Decides the plans of a batch one by one, in order. ARGV: the program, the groups of keys to
-- fetch, then the arguments to which both refer by index. The program has instructions of five
-- bytes: an opcode and two indices. A plan is an instruction with the numbers of its guards and
-- writes, followed by those. Returns for each refused plan its number, the guard, and the record
-- that was found. The guard is -1 if a guard cannot be decided because the record is damaged.
--
-- A long record is two adjacent arguments, of which the first has the index.
--
-- Plans are decided on the fetched records, and change them in memory only. The commands that
-- change the volume come after that, and none of them can fail, because a script that fails is not
-- undone.
local EQUALS, ABSENT, PRESENT = 17, 18, 19
local PUT, DELETE, FEED, ADD, MAX = 21, 22, 23, 24, 25
local AT_MOST = 27
local program = A[1]
-- By the index of a key: its record after the plans so far (nil if it was not fetched, true if only
-- its presence was fetched), its container, and, in an ordered space, its present member.
local now, containers, members = {}, {}, {}
fetch(A[2], now, containers, members)
-- Pending writes: the record before them, a flag, and the indices in order. The same for counters.
local before, changed, list = {}, {}, {}
local counters, counter_before, counter_list = {}, {}, {}
local snapshots

local function save(kind, index, was)
  local key = containers[index] .. A[index]
  for _, id in ipairs(snapshots) do
    call('HSETNX', P .. 'c' .. id .. kind .. sub(key, 1, 1), sub(key, 2), was)
  end
end

-- Reads the record of a key that was not fetched.
local function read_now(index)
  local container, name, was = containers[index], A[index], nil
  if #container == PARTITION then was = members[index] and sub(members[index], #name + 1)
  else was = call('HGET', P .. 'r' .. container, name)
  end
  if was and #was == HEAD then was = { was, call('GET', overflow_key(container, name)) } end
  return was
end

-- Saves the records and counters that are about to change for open snapshots. This must not fail,
-- because earlier writes of the batch may be in the volume already.
local function save_all()
  for _, index in ipairs(list) do
    local was = before[index]
    if was == nil or was == true then was = read_now(index) end
    if type(was) == 'table' then was = was[2] and ('+' .. was[1] .. was[2]) or LOST
    else was = was and ('+' .. was) or '-'
    end
    save('r', index, was)
  end
  for _, index in ipairs(counter_list) do
    local was = counter_before[index]
    save('n', index, was ~= 0 and ('+' .. decimal(was)) or '-')
  end
end

-- Adds arguments to those of one key.
local function add(arguments_of, key, ...)
  local arguments = arguments_of[key]
  if not arguments then
    arguments = {}
    arguments_of[key] = arguments
  end
  for _, argument in ipairs({ ... }) do arguments[#arguments + 1] = argument end
end

-- Runs a command for each key with its arguments. Returns the sum of the answers.
local function run_by_key(command, arguments_of)
  local sum = 0
  for key, arguments in pairs(arguments_of) do
    for from = 1, #arguments, ARGUMENTS_MAX do
      local to = math.min(from + ARGUMENTS_MAX - 1, #arguments)
      sum = sum + call(command, key, unpack(arguments, from, to))
    end
  end
  return sum
end

local function run(command, arguments)
  for from = 1, #arguments, ARGUMENTS_MAX do
    call(command, unpack(arguments, from, math.min(from + ARGUMENTS_MAX - 1, #arguments)))
  end
end

-- Adds new containers, which are about to get records, to the indexes of their spaces.
local function index_new(puts)
  local new = {}
  for key in pairs(puts) do
    if call('EXISTS', key) == 0 then
      local container = sub(key, #P + 2)
      add(new, P .. 'y' .. sub(container, 1, 1), '0', sub(container, 2))
    end
  end
  run_by_key('ZADD', new)
end

-- Removes containers whose last records were deleted from the indexes.
local function index_ended(removals)
  local ended = {}
  for key in pairs(removals) do
    if call('EXISTS', key) == 0 then
      local container = sub(key, #P + 2)
      add(ended, P .. 'y' .. sub(container, 1, 1), sub(container, 2))
    end
  end
  run_by_key('ZREM', ended)
end

local function write_counters()
  local sets, clears = {}, {}
  for _, index in ipairs(counter_list) do
    local number, key = counters[index], P .. 'n' .. containers[index]
    if number ~= 0 then add(sets, key, A[index], decimal(number))
    elseif counter_before[index] ~= 0 then add(clears, key, A[index])
    end
  end
  run_by_key('HSET', sets)
  run_by_key('HDEL', clears)
end

-- Runs all pending writes.
local function write()
  if #list == 0 and #counter_list == 0 then return end
  snapshots = snapshots or open_snapshots()
  if #snapshots > 0 then save_all() end
  local puts, deletes, members_put, members_removed = {}, {}, {}, {}
  -- Overflow values to write, those to delete, and those to delete if a short record may have
  -- replaced a long one that was not fetched. HSET returns the number of new fields: if it is as
  -- large as possible, no field was replaced.
  local overflow, stale, maybe_stale, new_max = {}, {}, {}, 0
  for _, index in ipairs(list) do
    local head, was, container, name = now[index], before[index], containers[index], A[index]
    local overflow_at = overflow_key(container, name)
    local is_long = type(head) == 'table'
    if is_long then
      overflow[#overflow + 1], overflow[#overflow + 2] = overflow_at, head[2]
      head = head[1]
    end
    if #container == PARTITION then
      local key, met, member = P .. 'z' .. container, members[index], head and name .. head
      if met ~= member then
        if member then add(members_put, key, '0', member) end
        if met then add(members_removed, key, met) end
        members[index] = member
      end
      if met and #met == #name + HEAD and not is_long then stale[#stale + 1] = overflow_at end
    elseif head then
      if not was then new_max = new_max + 1 end
      add(puts, P .. 'r' .. container, name, head)
      if not is_long then
        if was == nil then maybe_stale[#maybe_stale + 1] = overflow_at
        elseif was == true or type(was) == 'table' then stale[#stale + 1] = overflow_at
        end
      end
    elseif was ~= false then
      add(deletes, P .. 'r' .. container, name)
      if type(was) ~= 'string' then stale[#stale + 1] = overflow_at end
    end
  end
  index_new(puts)
  index_new(members_put)
  local new = run_by_key('HSET', puts)
  run('MSET', overflow)
  run('UNLINK', stale)
  if new < new_max then run('UNLINK', maybe_stale) end
  run_by_key('HDEL', deletes)
  -- Add new members before removing old ones. Otherwise a partition might be empty in between.
  run_by_key('ZADD', members_put)
  run_by_key('ZREM', members_removed)
  index_ended(deletes)
  index_ended(members_removed)
  write_counters()
  before, changed, list = {}, {}, {}
  counter_before, counter_list = {}, {}
end

-- A range is read from the volume, so the writes of earlier plans must be in the volume first.
local function is_empty(index)
  write()
  local key = P .. 'z' .. A[index]
  return #call('ZRANGE', key, A[index + 1], A[index + 2], 'BYLEX', 'LIMIT', '0', '1') == 0
end

-- Beyond this the value of a counter is undefined. It must only remain a number that can be parsed.
local FAR = 2 ^ 60

-- Returns a counter after the plans so far.
local function counter_now(index)
  return counters[index] or tonumber(now[index] or 0)
end

local function change_counter(opcode, index, by)
  local was = counter_now(index)
  if counter_before[index] == nil then
    counter_before[index] = was
    counter_list[#counter_list + 1] = index
  end
  if opcode == ADD then was = was + by
  elseif opcode == MAX then was = math.max(was, by)
  else was = by
  end
  counters[index] = math.max(-FAR, math.min(FAR, was))
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
    local opcode, a1, a2, b1, b2 = byte(program, at, at + 4)
    local index = a1 * 256 + a2
    local met = now[index]
    if opcode <= ABSENT and type(met) == 'table' and not met[2] then
      local to = #refusals
      refusals[to + 1], refusals[to + 2], refusals[to + 3] = plan, -1, false
      refused = true
      break
    end
    if opcode == EQUALS then
      local other = b1 * 256 + b2
      refused = met ~= A[other]
      if refused and type(met) == 'table' then
        refused = met[1] ~= A[other] or met[2] ~= A[other + 1]
      end
    elseif opcode == ABSENT then refused = met ~= false
    elseif opcode == PRESENT then refused, met = not met, false
    elseif opcode == AT_MOST then
      refused, met = counter_now(index) > tonumber(A[b1 * 256 + b2]), false
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
    for instruction = writes_at, next_at - 1, 5 do
      local opcode, a1, a2, b1, b2 = byte(program, instruction, instruction + 4)
      local index, other = a1 * 256 + a2, b1 * 256 + b2
      if opcode <= DELETE then
        if not changed[index] then
          changed[index] = true
          before[index] = now[index]
          list[#list + 1] = index
        end
        if opcode == DELETE then now[index] = false
        elseif #A[other] == HEAD then now[index] = { A[other], A[other + 1] }
        else now[index] = A[other]
        end
      elseif opcode == FEED then pieces[#pieces + 1] = A[index]
      else change_counter(opcode, index, tonumber(A[other]))
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
