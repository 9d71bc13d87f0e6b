-- Included before `walk.lua` and `snapshot.lua`: pages over all records of a space.

-- Returns at most `most` records of an ordered space after the record `after`, or from the first
-- one if `after` is '', in order: their names, each behind its partition; their values, of which
-- those of long records are heads; and the last name if there may be more, otherwise '0'.
local function ordered_page(space, after, most)
  local names, values = {}, {}
  local partition_of_after, from, low = sub(after, 1, 8), '-', '-'
  if after ~= '' then
    -- No encoded suffix is a prefix of another, so increasing the last byte skips only this record.
    from, low = '[' .. partition_of_after, '[' .. sub(after, 9, -2) .. char(byte(after, -1) + 1)
  end
  while true do
    local partitions = call('ZRANGE', P .. 'y' .. space, from, '+', 'BYLEX', 'LIMIT', '0', ARGUMENTS_MAX)
    for _, partition in ipairs(partitions) do
      local key = P .. 'z' .. space .. partition
      local members = call('ZRANGE', key, partition == partition_of_after and low or '-', '+', 'BYLEX',
        'LIMIT', '0', most - #names)
      for _, member in ipairs(members) do
        local _, suffix = find(member, SUFFIX_END)
        names[#names + 1] = partition .. sub(member, 1, suffix)
        values[#values + 1] = sub(member, suffix + 1)
      end
      if #names == most then return names, values, names[most] end
    end
    if #partitions < ARGUMENTS_MAX then return names, values, '0' end
    from = '(' .. partitions[ARGUMENTS_MAX]
  end
end

-- Returns records of a point space: chunk by chunk in order, and within a chunk in the order of its
-- hash. `position` is a chunk and the hash's cursor, '0' at first; `most` is about the number
-- wanted. Returns their names, their values, of which those of long records are heads, and the next
-- position, '0' at the end.
local function chunked_page(space, position, most)
  local names, values = {}, {}
  local chunk, cursor = sub(position, 1, 6), sub(position, 7)
  if position == '0' then chunk, cursor = false, '0' end
  while true do
    if cursor == '0' then
      local after = chunk and '(' .. chunk or '-'
      chunk = call('ZRANGE', P .. 'y' .. space, after, '+', 'BYLEX', 'LIMIT', '0', '1')[1]
      if not chunk then return names, values, '0' end
    end
    local page = call('HSCAN', P .. 'r' .. space .. chunk, cursor, 'COUNT', most - #names)
    cursor = page[1]
    for at = 1, #page[2], 2 do
      names[#names + 1], values[#values + 1] = chunk .. page[2][at], page[2][at + 1]
    end
    if #names >= most then return names, values, chunk .. cursor end
  end
end

local function page_of_records(space, position, most)
  if is_ordered(space) then return ordered_page(space, position == '0' and '' or position, most) end
  return chunked_page(space, position, most)
end
