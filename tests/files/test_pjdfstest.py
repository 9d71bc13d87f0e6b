"""pjdfstest: the POSIX rules for names, modes, owners, times and errors, in about 400 cases.

It runs as root. Two users that every Debian has take the role of other users.
"""

import os
import re
import tempfile

from mounted import attempt, run

CONFIGURATION = """
[features]
posix_fallocate = {{}}
rename_ctime = {{}}
utime_now = {{}}
utimensat = {{}}
[settings]
naptime = 0.01
allow_remount = {remount}
expected_failures = [{expected}]
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""

# Cases that fail, each with an accepted reason. If one passes, that is a failure too.
EXPECTED = {}

# Cases that do not run, each with its reason.
SKIPPED = {
    "link::link_count_max": "no file system on Linux that says it has no limit can be filled to it",
}

# mount(8) passes a remount of a FUSE file system to a helper, which would mount it again.
REMOUNT = "#!/bin/sh\nexec /bin/mount --internal-only \"$@\"\n"


# Cases that remount. Files that other cases leave open would keep the file system busy, as on
# tmpfs.
REMOUNTING = "::erofs_"


def test_every_case_without_a_remount(mount, place, tmp_path, report):
    cases = _run(mount, place, tmp_path, report, remount=False)
    skipped = {name for name, end in cases.items() if end == "skipped" and REMOUNTING not in name}
    assert skipped <= set(SKIPPED), f"skipped without a reason: {skipped - set(SKIPPED)}"
    assert len(cases) > 390


def test_every_case_that_remounts(mount, place, tmp_path, report):
    cases = _run(mount, place, tmp_path, report, REMOUNTING, remount=True)
    assert set(cases.values()) == {"ok"} and len(cases) > 10


def _run(mount, place, tmp_path, report, *patterns, remount):
    """Runs the cases whose names contain a pattern. Returns the result of each."""
    configuration = tmp_path / "pjdfstest.toml"
    expected = ", ".join(f'"{name}"' for name in EXPECTED)
    settings = {"expected": expected, "remount": str(remount).lower()}
    configuration.write_text(CONFIGURATION.format(**settings))
    wrapper = tmp_path / "mount"
    wrapper.write_text(REMOUNT)
    wrapper.chmod(0o755)
    # Other users than root must reach this folder, so it is not below pytest's own.
    with tempfile.TemporaryDirectory() as other:
        run("mount", "-t", "tmpfs", "-o", "size=16m,mode=755", "tmpfs", other)
        try:
            done = attempt(
                *(mount.tool("pjdfstest"), "-c", configuration, "-p", place, "-s", other),
                *patterns,
                environment={"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUST_BACKTRACE": "0"},
                cwd=tmp_path,
            )
        finally:
            run("umount", other)
    assert done.returncode == 0, _failures(done.stdout) or done.stderr
    summary = next(line for line in done.stdout.splitlines() if line.startswith("Summary: "))
    report(f"pjdfstest: {summary.removeprefix('Summary: ')}")
    return dict(re.findall(r"^(\S+::\S+) +(\S.*)$", done.stdout, re.MULTILINE))


def _failures(text):
    """Returns the failed cases, each with its output."""
    lines = text.splitlines()
    failed = [place for place, line in enumerate(lines) if re.search(r"(FAILED|UNEXPECTEDLY)$", line)]
    return "\n".join("\n".join(lines[place : place + 4]) for place in failed)
