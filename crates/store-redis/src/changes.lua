-- Returns the entries of the change feed after the one with id ARGV[1], and the id of the last one.
-- With an empty id, returns only the latter. The entries are nil if the entry ARGV[1] does not
-- exist: it was trimmed, or the server was restored to an earlier state, and other entries may have
-- taken its place. They are also nil if they have more bytes than ARGV[2].
local PAGE = 256
local since, bytes_left = A[1], tonumber(A[2])
local last = call('XREVRANGE', P .. 'f', '+', '-', 'COUNT', 1)[1]
last = last and last[1] or '0-0'
if since == '' or since == last then return { {}, last } end
local entries, from = {}, since
while true do
  local page = call('XRANGE', P .. 'f', from, '+', 'COUNT', PAGE)
  for _, entry in ipairs(page) do
    if entry[1] == since then
      since = nil
    elseif since then
      return { false, last }
    else
      entries[#entries + 1] = entry[2][2]
      bytes_left = bytes_left - #entry[2][2]
    end
  end
  if since or bytes_left < 0 then return { false, last } end
  if #page < PAGE then return { entries, last } end
  from = '(' .. page[#page][1]
end
