-- Makes the volume if there is none, and answers its format and id. ARGV: the format, and bytes that
-- differ from server to server and from start to start, which make the id unique.
local NAME = P .. 'm'
if call('EXISTS', NAME) == 0 then
  local time = call('TIME')
  call('HSET', NAME, 'format', A[1], 'id', redis.sha1hex(A[2] .. P .. time[1] .. '.' .. time[2]))
  -- A feed is never empty: a position is the name of an entry.
  call('XADD', P .. 'f', '*', 'k', '')
end
return call('HMGET', NAME, 'format', 'id')
