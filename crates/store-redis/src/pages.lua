-- Before `walk.lua` and `snapshot.lua`: pages over what all partitions of an ordered space hold.

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
