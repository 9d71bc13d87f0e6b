#!lua flags=allow-oom
-- Appends the entry that the scripts of a sequence have collected to the change feed.
local P = KEYS[1]
local entry = redis.call('GETDEL', P .. 'w')
if entry then redis.call('XADD', P .. 'f', 'MAXLEN', '~', '2049', '*', 'k', entry) end
