-- Answers 1 if there is a volume, 0 if there is none. Makes nothing.
return call('EXISTS', P .. 'm')
