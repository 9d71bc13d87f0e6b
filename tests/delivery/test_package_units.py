"""The units for systemd: their syntax, their exposure, and their filter of system calls."""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from podman import CHECKOUT, fresh_folder, required, scratch

UNITS = CHECKOUT / "contrib/systemd"

# The rate of `systemd-analyze security`, of 10. The mount cannot have a namespace of its own.
EXPOSURE_MAX = {"ashlar.service": 1.5, "ashlar-mount@.service": 5.0}


def run(*words, **options):
    done = subprocess.run(
        [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=120, check=False, **options,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("unit", sorted(EXPOSURE_MAX))
def test_a_unit_is_accepted_without_a_remark(unit):
    folder = fresh_folder(scratch() / "units")
    # The program is not installed on this machine.
    text = (UNITS / unit).read_text().replace("/usr/bin/ashlar", required("ASHLAR_TEST_PROGRAM"))
    copy = folder / unit.replace("@.", "@srv-photos.")
    copy.write_text(text)
    # The status is 0 also for unknown keys, so the output counts.
    status, output = run("systemd-analyze", "verify", "--man=no", copy)
    remarks = [line for line in output.splitlines() if "ashlar" in line]
    assert (status, remarks) == (0, [])


@pytest.mark.parametrize("unit", sorted(EXPOSURE_MAX))
def test_a_unit_is_little_exposed(unit):
    status, output = run("systemd-analyze", "security", "--offline=true", UNITS / unit)
    rate = re.search(r"exposure level for \S+: ([0-9.]+)", output)
    assert status == 0, output
    assert float(rate.group(1)) <= EXPOSURE_MAX[unit], output


def allowed_calls(unit):
    """The system calls that the filters of a unit allow."""
    allowed = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", (UNITS / unit).read_text(), re.MULTILINE):
        calls = set()
        for name in line.lstrip("~").split():
            calls |= expand(name)
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    # systemd always allows these, to execute the program.
    return allowed | {"execve", "exit", "exit_group", "getrlimit", "rt_sigreturn", "sigreturn"}


def expand(name):
    if not name.startswith("@"):
        return {name}
    status, output = run("systemd-analyze", "syscall-filter", name)
    assert status == 0, output
    words = [line.strip() for line in output.splitlines()[1:]]
    calls = set()
    for word in words:
        if word and not word.startswith("#"):
            calls |= expand(word)
    return calls


def test_the_filter_of_the_gateway_allows_each_of_its_system_calls():
    folder = fresh_folder(scratch() / "calls")
    trace = folder / "trace"
    environment = {
        "ASHLAR_DATA_DIR": str(folder / "data"), "ASHLAR_LISTEN": "127.0.0.1:9710",
        "ASHLAR_ADMIN_LISTEN": "off", "PATH": os.environ["PATH"],
    }
    with (folder / "log").open("w") as log:
        strace = subprocess.Popen(
            ["strace", "--follow-forks", "--summary-only", f"--output={trace}",
             required("ASHLAR_TEST_PROGRAM"), "serve"],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )
    try:
        limit = time.monotonic() + 60
        while "serving" not in (folder / "log").read_text():
            assert strace.poll() is None and time.monotonic() < limit, (folder / "log").read_text()
            time.sleep(0.1)
        with urllib.request.urlopen("http://127.0.0.1:9710/-/ready", timeout=10) as answer:
            assert answer.status == 200
        (gateway,) = run("pgrep", "--parent", str(strace.pid))[1].split()
        os.kill(int(gateway), signal.SIGTERM)
        assert strace.wait(timeout=60) == 0
    finally:
        strace.kill()
    rows = [line.split() for line in trace.read_text().splitlines()]
    # SQLite gives its files to the owner of the database only if it runs as root, as this test does.
    as_root = {"total", "fchown"}
    used = {row[-1] for row in rows if len(row) >= 5 and row[0][0].isdigit()} - as_root
    assert {"openat", "accept4"} <= used, "the trace has the calls of the gateway"
    assert used <= allowed_calls("ashlar.service")


def test_the_gateway_notifies_the_service_manager(tmp_path):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(60)
    environment = {
        "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "900000",
        "ASHLAR_DATA_DIR": str(tmp_path / "data"), "ASHLAR_LISTEN": "127.0.0.1:9711",
        "ASHLAR_ADMIN_LISTEN": "off",
    }

    def next_notice():
        while True:
            notice = manager.recv(4096).decode().split("\n")
            if notice[0] != "WATCHDOG=1":
                return notice

    gateway = subprocess.Popen(
        [required("ASHLAR_TEST_PROGRAM"), "serve"], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        assert next_notice()[0] == "READY=1"
        with urllib.request.urlopen("http://127.0.0.1:9711/-/ready", timeout=10) as answer:
            assert answer.status == 200
        began, lives = time.monotonic(), 0
        while lives < 4:
            assert manager.recv(4096).decode().startswith("WATCHDOG=1")
            lives += 1
        # Three in each period, of which the first one may have waited.
        assert 0.5 < time.monotonic() - began < 5
        gateway.send_signal(signal.SIGHUP)
        reloading = next_notice()
        assert reloading[0] == "RELOADING=1"
        assert any(re.fullmatch(r"MONOTONIC_USEC=\d+", line) for line in reloading)
        assert next_notice()[0] == "READY=1"
        gateway.send_signal(signal.SIGTERM)
        assert next_notice()[0] == "STOPPING=1"
        assert gateway.wait(timeout=60) == 0
    finally:
        gateway.kill()
