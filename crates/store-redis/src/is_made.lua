-- Returns 1 if the volume exists, otherwise 0. Creates nothing.
return call('EXISTS', P .. 'm')
