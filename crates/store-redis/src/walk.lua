-- A page of a walk over a space. ARGV: 'r' or 't' and the space, where to go on ('0' at first), and
-- about how many fields. Answers where to go on then ('0' at the end), the fields and their values.
local space, on, fields, values = sub(A[1], 2), nil, {}, {}
if byte(A[1]) == RECORDS and is_ordered(space) then
  fields, values, on = ordered_page(space, A[2] == '0' and '' or A[2], tonumber(A[3]))
else
  local page = call('HSCAN', P .. A[1], A[2], 'COUNT', A[3])
  on = page[1]
  for at = 1, #page[2], 2 do
    fields[#fields + 1], values[#values + 1] = page[2][at], page[2][at + 1]
  end
end
if byte(A[1]) == RECORDS then complete(values, space, fields, 1) end
return { on, fields, values }
