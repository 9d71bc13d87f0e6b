"""Maps of files: numpy readers, shared maps between processes, and changes by other programs."""

import errno
import mmap
import os
import subprocess
import sys

import numpy
import pytest

from mounted import run

ROWS = 1_000_000


def test_numpy_maps_what_it_wrote(place):
    path = place / "array.npy"
    numpy.save(path, numpy.arange(ROWS, dtype=numpy.int64))
    mapped = numpy.load(path, mmap_mode="r")
    assert int(mapped.sum()) == ROWS * (ROWS - 1) // 2
    assert mapped[::65_537].tolist() == list(range(0, ROWS, 65_537))


def test_several_processes_map_one_array(place):
    path = place / "array.npy"
    numpy.save(path, numpy.arange(ROWS, dtype=numpy.int64))
    script = (
        "import numpy, sys\n"
        "mapped = numpy.load(sys.argv[1], mmap_mode='r')\n"
        "chance = numpy.random.default_rng(int(sys.argv[2]))\n"
        "rows = chance.integers(0, len(mapped), 20_000)\n"
        "assert (mapped[rows] == rows).all()\n"
    )
    readers = [subprocess.Popen([sys.executable, "-c", script, path, str(n)]) for n in range(4)]
    try:
        assert [reader.wait(timeout=300) for reader in readers] == [0, 0, 0, 0]
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


def test_a_writable_map_is_flushed(place, control):
    path = place / "array"
    array = numpy.memmap(path, dtype=numpy.uint32, mode="w+", shape=(1 << 18,))
    array[:] = numpy.arange(1 << 18)
    array.flush()
    assert (numpy.fromfile(path, dtype=numpy.uint32) == numpy.arange(1 << 18)).all()
    array[7::4096] = 0
    array.flush()
    del array
    said = run(sys.executable, "-c", "import numpy, sys\n"
               "print(numpy.fromfile(sys.argv[1], dtype=numpy.uint32)[7::4096].sum())", path)
    assert said.strip() == "0"
    kept = control.get_object(Bucket=place.name, Key="array")["Body"].read()
    assert kept == path.read_bytes()


def test_a_shared_map_shows_the_write_of_another_process(place):
    path = place / "shared"
    path.write_bytes(bytes(1 << 20))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 1 << 20) as memory:
        run(sys.executable, "-c", "import os, sys\n"
            "file = os.open(sys.argv[1], os.O_RDWR)\n"
            "os.pwrite(file, b'other', 500_000)\n", path)
        assert memory[500_000:500_005] == b"other"
        memory[500_005:500_009] = b"mine"
        memory.flush()
        assert os.pread(file.fileno(), 9, 500_000) == b"othermine"
    assert path.read_bytes()[499_999:500_010] == b"\0othermine\0"


def test_a_private_map_changes_nothing(place):
    path = place / "private"
    path.write_bytes(b"x" * 8192)
    with open(path, "r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
            memory[:4] = b"mine"
    assert path.read_bytes() == b"x" * 8192


def test_a_mapped_file_may_be_unlinked(place):
    path = place / "gone"
    path.write_bytes(b"kept" * 300_000)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        path.unlink()
        assert memory[:] == b"kept" * 300_000


def test_a_program_runs_from_the_mount(place):
    program = place / "true"
    with open("/bin/true", "rb") as source:
        program.write_bytes(source.read())
    program.chmod(0o755)
    run(program)


def test_a_running_program_cannot_be_written(place):
    program = place / "sleep"
    with open("/bin/sleep", "rb") as source:
        program.write_bytes(source.read())
    program.chmod(0o755)
    size = program.stat().st_size
    running = subprocess.Popen([program, "60"])
    try:
        # The kernel refuses the first two itself. For the last one it first asks the file system.
        for flags in [os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC]:
            with pytest.raises(OSError) as caught:
                os.open(program, flags)
            assert caught.value.errno == errno.ETXTBSY, flags
            assert program.stat().st_size == size, "it was cut all the same"
        assert running.poll() is None
    finally:
        running.kill()
        running.wait()
    os.close(os.open(program, os.O_RDONLY | os.O_TRUNC))
    assert program.stat().st_size == 0
