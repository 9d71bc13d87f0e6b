-- A page of a walk over a space. ARGV: 'r' or 'n' and the space, the position ('0' at first), and
-- about the number of records or counters wanted. Returns the next position ('0' at the end), the
-- names and their values.
if byte(A[1]) == RECORDS then
  local space = sub(A[1], 2)
  local names, values, position = page_of_records(space, A[2], tonumber(A[3]))
  complete(values, space, names, 1)
  return { position, names, values }
end
local fields, values, page = {}, {}, call('HSCAN', P .. A[1], A[2], 'COUNT', A[3])
for at = 1, #page[2], 2 do
  fields[#fields + 1], values[#values + 1] = page[2][at], page[2][at + 1]
end
return { page[1], fields, values }
