"""pjdfstest: what POSIX says about names, modes, owners, times and errors, in some 400 cases.

As root. Two users of every Debian stand for strangers.
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
allow_remount = true
expected_failures = [{expected}]
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""

# Cases that fail for a reason that we stand by. One that passes after all is a failure too.
EXPECTED = {}

# Cases that do not run, and why.
SKIPPED = {
    "link::link_count_max": "no file system on Linux that says it has no limit can be filled to it",
}

# mount(8) hands a remount of a FUSE file system to a helper, which would mount it anew.
REMOUNT = "#!/bin/sh\nexec /bin/mount --internal-only \"$@\"\n"


def test_every_case_of_pjdfstest_passes(mount, place, tmp_path, tell):
    configuration = tmp_path / "pjdfstest.toml"
    expected = ", ".join(f'"{name}"' for name in EXPECTED)
    configuration.write_text(CONFIGURATION.format(expected=expected))
    wrapper = tmp_path / "mount"
    wrapper.write_text(REMOUNT)
    wrapper.chmod(0o755)
    # Users who are not root must reach it, so it is not below pytest's own folder.
    with tempfile.TemporaryDirectory() as other:
        run("mount", "-t", "tmpfs", "-o", "size=16m,mode=755", "tmpfs", other)
        try:
            done = attempt(
                *(mount.tool("pjdfstest"), "-c", configuration, "-p", place, "-s", other),
                environment={"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUST_BACKTRACE": "0"},
                cwd=tmp_path,
            )
        finally:
            run("umount", other)
    cases = dict(re.findall(r"^(\S+::\S+) +(\S.*)$", done.stdout, re.MULTILINE))
    summary = next(line for line in done.stdout.splitlines() if line.startswith("Summary: "))
    tell(f"pjdfstest: {summary.removeprefix('Summary: ')}")
    skipped = {name for name, end in cases.items() if end == "skipped"}
    assert done.returncode == 0, _failures(done.stdout)
    assert skipped <= set(SKIPPED), f"skipped without a reason: {skipped - set(SKIPPED)}"
    assert len(cases) > 390


def _failures(text):
    """The cases that failed, each with what it said."""
    lines = text.splitlines()
    failed = [place for place, line in enumerate(lines) if re.search(r"(FAILED|UNEXPECTEDLY)$", line)]
    return "\n".join("\n".join(lines[place : place + 4]) for place in failed)
