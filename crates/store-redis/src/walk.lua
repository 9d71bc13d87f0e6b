-- A page of a walk over a space. ARGV: 'r' or 't' and the space, where to go on, and about how many
-- fields. Answers where to go on then, the fields and their values.
local page = call('HSCAN', P .. A[1], A[2], 'COUNT', A[3])
local fields, values = {}, {}
for at = 1, #page[2], 2 do
  fields[#fields + 1], values[#values + 1] = page[2][at], page[2][at + 1]
end
if byte(A[1]) == RECORDS then complete(values, sub(A[1], 2), fields, 1) end
return { page[1], fields, values }
