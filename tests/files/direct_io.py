"""Random changes of one file with O_DIRECT, compared with memory.

Usage: `direct_io.py FILE [SEED [STEPS]]`. Offsets and lengths are multiples of a page, except at
the end of the file, which truncate moves to any offset. Some reads use the page cache.
"""

import mmap
import os
import random
import sys

PAGE = 4096
FILE_BYTES_MAX = 256 * PAGE


def exercise(path, seed, steps):
    """Executes `steps` changes and reads. Raises an error with the step if a read returns wrong
    bytes."""
    chance, content = random.Random(seed), bytearray()
    direct = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o644)
    cached = os.open(path, os.O_RDWR)
    try:
        for step in range(steps):
            what = chance.choices(["write", "read", "cached", "truncate", "sync"], [8, 8, 3, 2, 1])
            content = _step(what[0], chance, direct, cached, content, f"seed {seed}, step {step}")
        assert os.pread(cached, FILE_BYTES_MAX + 1, 0) == content, f"seed {seed}, at the end"
    finally:
        os.close(cached)
        os.close(direct)


def _step(what, chance, direct, cached, content, where):
    offset = chance.randrange(FILE_BYTES_MAX // PAGE) * PAGE
    length = min(chance.randint(1, 16) * PAGE, FILE_BYTES_MAX - offset)
    if what == "truncate":
        size = chance.randrange(FILE_BYTES_MAX)
        os.ftruncate(direct, size)
        return content[:size].ljust(size, b"\0")
    if what == "sync":
        os.fsync(direct)
        return content
    # The memory of an anonymous map begins at a page boundary, as O_DIRECT requires.
    with mmap.mmap(-1, length) as memory:
        if what == "write":
            memory.write(chance.randbytes(length))
            assert os.pwritev(direct, [memory], offset) == length, where
            content = content.ljust(offset, b"\0")
            content[offset : offset + length] = memory[:]
            return content
        read = os.preadv(direct if what == "read" else cached, [memory], offset)
        assert memory[:read] == content[offset : offset + length], f"{where}: {what} at {offset}"
    return content


if __name__ == "__main__":
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"seed {seed}")
    exercise(sys.argv[1], seed, int(sys.argv[3]) if len(sys.argv) > 3 else 10_000)
