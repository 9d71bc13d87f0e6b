"""fsx: random changes of one file, compared with memory at each read.

A failure prints the seed; `fsx -S SEED -N OPERATIONS -f CONFIGURATION FILE` repeats it.
"""

import random
import subprocess

import direct_io
from mounted import COMMAND_SECONDS

PLAIN = """
[weights]
close_open = 1
read = 10
write = 10
mapread = 0
mapwrite = 0
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 1
punch_hole = 3
sendfile = 1
posix_fadvise = 1
copy_file_range = 2
"""
MAPPED = PLAIN.replace("mapread = 0", "mapread = 10").replace(
    "mapwrite = 0", "mapwrite = 10\ninvalidate = 1"
)
LARGE = f"flen = {64 << 20}\n[opsize]\nmax = {4 << 20}\n{MAPPED}"


def _start(mount, tmp_path, file, settings, operations, seed):
    configuration = tmp_path / f"{file.name}.toml"
    configuration.write_text(settings)
    words = [mount.tool("fsx"), "-f", configuration, "-P", tmp_path]
    words += ["-N", str(operations), "-S", str(seed), file]
    return subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _exercise(mount, tmp_path, report, runs, operations):
    """Runs one fsx for each pair of a file and settings, all at the same time."""
    seeds = [random.randrange(1 << 32) for _ in runs]
    started = [
        _start(mount, tmp_path, file, settings, operations, seed)
        for (file, settings), seed in zip(runs, seeds)
    ]
    try:
        for seed, (file, _), process in zip(seeds, runs, started):
            said, _ = process.communicate(timeout=COMMAND_SECONDS)
            assert process.returncode == 0, f"{file.name}, seed {seed}:\n{said[-6000:]}"
            report(f"fsx {file.name}: seed {seed}, {operations} operations: {said.splitlines()[-1]}")
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_plain(mount, place, tmp_path, report):
    _exercise(mount, tmp_path, report, [(place / "plain", PLAIN)], mount.amount(3_000, 200_000))


def test_mapped(mount, place, tmp_path, report):
    _exercise(mount, tmp_path, report, [(place / "mapped", MAPPED)], mount.amount(3_000, 200_000))


def test_two_files_at_a_time(mount, place, tmp_path, report):
    runs = [(place / "first", PLAIN), (place / "second", MAPPED)]
    _exercise(mount, tmp_path, report, runs, mount.amount(1_000, 50_000))


def test_a_file_of_many_blocks(mount, place, tmp_path, report):
    _exercise(mount, tmp_path, report, [(place / "large", LARGE)], mount.amount(100, 3_000))


def test_direct_io(mount, place, report):
    seed, operations = random.randrange(1 << 32), mount.amount(1_000, 50_000)
    direct_io.exercise(place / "direct", seed, operations)
    report(f"direct: seed {seed}, {operations} operations")
