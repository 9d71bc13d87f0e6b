"""SQLite databases that several processes write. They use fcntl locks, and shared memory for the
WAL."""

import sqlite3
import subprocess
import sys

import pytest

WRITER = """
import sqlite3, sys
path, mode, writer, rows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
base = sqlite3.connect(path, timeout=300, isolation_level=None)
assert base.execute(f"PRAGMA journal_mode={mode}").fetchone()[0].upper() == mode
for row in range(rows):
    base.execute("BEGIN IMMEDIATE")
    total = base.execute("SELECT total FROM sums WHERE id = 1").fetchone()[0]
    base.execute("INSERT INTO rows VALUES (?, ?, ?)", (writer, row, "x" * (row * 37 % 3000)))
    base.execute("UPDATE sums SET total = ? WHERE id = 1", (total + 1,))
    if row % 10 == 9:
        base.execute("ROLLBACK")
    else:
        base.execute("COMMIT")
"""

WRITERS = 4


@pytest.mark.parametrize("mode", ["DELETE", "WAL", "TRUNCATE", "PERSIST"])
def test_four_processes_write_one_database(mount, place, mode):
    path, rows = place / "base.sqlite", mount.amount(20, 250)
    base = sqlite3.connect(path)
    assert base.execute(f"PRAGMA journal_mode={mode}").fetchone()[0].upper() == mode
    base.execute("CREATE TABLE rows (writer, row, text, PRIMARY KEY (writer, row))")
    base.execute("CREATE TABLE sums (id PRIMARY KEY, total)")
    base.execute("INSERT INTO sums VALUES (1, 0)")
    base.commit()
    base.close()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, mode, str(writer), str(rows)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for writer in range(WRITERS)
    ]
    try:
        for writer in writers:
            _, said = writer.communicate(timeout=600)
            assert writer.returncode == 0, said
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    base = sqlite3.connect(path)
    kept = WRITERS * (rows - rows // 10)
    assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert base.execute("SELECT count(*) FROM rows").fetchone() == (kept,)
    assert base.execute("SELECT total FROM sums").fetchone() == (kept,)
    base.close()
    if mode in ("DELETE", "WAL"):
        assert [path.name for path in place.iterdir()] == ["base.sqlite"]


def test_a_transaction_of_a_killed_writer_is_rolled_back(place):
    path = place / "base.sqlite"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE rows (row)")
    base.commit()
    script = (
        "import os, sqlite3, sys\n"
        "base = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "base.execute('PRAGMA cache_size=1')\n"
        "base.execute('BEGIN IMMEDIATE')\n"
        "for row in range(2000):\n"
        "    base.execute('INSERT INTO rows VALUES (?)', ('x' * 500,))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, path]).returncode == -9
    assert (place / "base.sqlite-journal").stat().st_size > 0
    assert base.execute("SELECT count(*) FROM rows").fetchone() == (0,)
    assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    base.execute("INSERT INTO rows VALUES (1)")
    base.commit()
    base.close()
