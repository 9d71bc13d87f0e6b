"""PostgreSQL with its data on the mount: initdb, load of several clients, a crash, a check.

It runs as the user of Debian's package, so the mount must admit other users.
"""

import contextlib
import glob
import os
import re
import shutil
import signal
import tempfile
import time

import pytest

from mounted import attempt, run

USER = "postgres"


@pytest.fixture(scope="module")
def programs():
    """The folder of the newest server on this machine."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda it: int(it.split("/")[4]))
    assert found, "install Debian's postgresql"
    return os.path.dirname(found[-1])


@pytest.fixture
def cluster(place, programs):
    """Data on the mount, and a socket on a local disk."""
    data, sockets = place / "data", tempfile.mkdtemp(prefix="pg-")
    data.mkdir(mode=0o700)
    shutil.chown(data, USER, USER)
    shutil.chown(sockets, USER, USER)
    run(f"{programs}/initdb", "-D", data, "-A", "trust", "--data-checksums", user=USER, cwd="/")
    yield Cluster(data, sockets, programs)
    shutil.rmtree(sockets)


class Cluster:
    """One server, which its own tool starts and stops."""

    def __init__(self, data, sockets, programs):
        self.data, self.sockets, self.programs = data, sockets, programs

    def control(self, *words):
        return run(f"{self.programs}/pg_ctl", "-D", self.data, "-w", "-t", "300",
                   "-l", f"{self.sockets}/log", *words, user=USER, cwd="/")

    @contextlib.contextmanager
    def running(self):
        self.control("start", "-o", f"-c listen_addresses='' -k {self.sockets}")
        try:
            yield
        finally:
            attempt(f"{self.programs}/pg_ctl", "-D", self.data, "-w", "-m", "fast", "stop",
                    user=USER, cwd="/")

    def query(self, text):
        return run(f"{self.programs}/psql", "-h", self.sockets, "-At", "-c", text, "postgres",
                   user=USER, cwd="/").strip()

    def bench(self, *words):
        return run(f"{self.programs}/pgbench", "-h", self.sockets, *words, "postgres",
                   user=USER, cwd="/")


def test_every_checksum_is_correct_after_pgbench_and_a_crash(mount, cluster, report):
    seconds = mount.amount(5, 30)
    with cluster.running():
        cluster.bench("-i", "-q", "-s", str(mount.amount(1, 4)))
        said = cluster.bench("-c", "4", "-j", "2", "-T", str(seconds), "--no-vacuum")
        assert "number of failed transactions: 0 " in said, said
        rate = re.search(r"tps = ([\d.]+)", said).group(1)
        report(f"pgbench: {rate} transactions a second, 4 clients, {seconds} s")
        paid = cluster.query("SELECT sum(delta) FROM pgbench_history")
        assert cluster.query("SELECT sum(bbalance) FROM pgbench_branches") == paid
        cluster.query("CHECKPOINT")
        cluster.bench("-c", "2", "-t", "5", "--no-vacuum")
        paid = cluster.query("SELECT sum(delta) FROM pgbench_history")
        _kill(int((cluster.data / "postmaster.pid").read_text().splitlines()[0]))
    with cluster.running():
        assert cluster.query("SELECT sum(delta) FROM pgbench_history") == paid
        assert cluster.query("SELECT sum(abalance) FROM pgbench_accounts") == paid
        cluster.query("VACUUM FULL")
    run(f"{cluster.programs}/pg_checksums", "--check", "-D", cluster.data, user=USER, cwd="/")


def _kill(process):
    """Kills the server and waits until its processes have ended."""
    os.kill(process, signal.SIGKILL)
    end = time.monotonic() + 60
    while attempt("pgrep", "-g", process).returncode == 0 and time.monotonic() < end:
        time.sleep(0.1)
