-- Creates the volume if it does not exist, and returns its format and id. ARGV: the format, and
-- bytes that differ between servers and between starts, which make the id unique.
local NAME = P .. 'm'
if call('EXISTS', NAME) == 0 then
  local time = call('TIME')
  call('HSET', NAME, 'format', A[1], 'id', redis.sha1hex(A[2] .. P .. time[1] .. '.' .. time[2]))
  -- A feed is never empty, because a position is the id of an entry.
  call('XADD', P .. 'f', '*', 'k', '')
end
return call('HMGET', NAME, 'format', 'id')
