-- Before `walk.lua` and `snapshot.lua`: pages over all records of a space.

-- The records of an ordered space after one of them, or from the first on if that is '', in order
-- and `most` at most. Answers their fields, each after its partition, and their values, of long ones
-- the heads; and the last field if there may be more, else '0'.
local function ordered_page(space, after, most)
  local fields, values = {}, {}
  local begun, from, low = sub(after, 1, 8), '-', '-'
  if after ~= '' then
    from, low = '[' .. begun, '[' .. sub(after, 9, -2) .. char(byte(after, -1) + 1)
  end
  while true do
    local partitions = call('ZRANGE', P .. 'y' .. space, from, '+', 'BYLEX', 'LIMIT', '0', CHUNK)
    for _, partition in ipairs(partitions) do
      local name = P .. 'z' .. space .. partition
      local members = call('ZRANGE', name, partition == begun and low or '-', '+', 'BYLEX', 'LIMIT',
        '0', most - #fields)
      for _, member in ipairs(members) do
        local _, suffix = find(member, SUFFIX_END)
        fields[#fields + 1] = partition .. sub(member, 1, suffix)
        values[#values + 1] = sub(member, suffix + 1)
      end
      if #fields == most then return fields, values, fields[most] end
    end
    if #partitions < CHUNK then return fields, values, '0' end
    from = '(' .. partitions[CHUNK]
  end
end

-- Records of a point space: of one chunk after the other, in order, and in a chunk in the order of its
-- hash. `on` is where to go on, the chunk and the hash's cursor, '0' at first; `most` is about how many.
-- Answers their names, their values, of long ones the heads, and where to go on, '0' at the end.
local function chunked_page(space, on, most)
  local fields, values = {}, {}
  local chunk, cursor = sub(on, 1, 6), sub(on, 7)
  if on == '0' then chunk, cursor = false, '0' end
  while true do
    if cursor == '0' then
      local after = chunk and '(' .. chunk or '-'
      chunk = call('ZRANGE', P .. 'y' .. space, after, '+', 'BYLEX', 'LIMIT', '0', '1')[1]
      if not chunk then return fields, values, '0' end
    end
    local page = call('HSCAN', P .. 'r' .. space .. chunk, cursor, 'COUNT', most - #fields)
    cursor = page[1]
    for at = 1, #page[2], 2 do
      fields[#fields + 1], values[#values + 1] = chunk .. page[2][at], page[2][at + 1]
    end
    if #fields >= most then return fields, values, chunk .. cursor end
  end
end

local function page_of_records(space, on, most)
  if is_ordered(space) then return ordered_page(space, on == '0' and '' or on, most) end
  return chunked_page(space, on, most)
end
