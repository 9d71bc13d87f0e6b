"""The mount under test as a folder in which buckets are folders.

All settings come from the environment, so that a suite runs on any mount. Suites that do not use
S3 run on any file system.
"""

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

# Time limit of one program in seconds, for a debug build on a busy machine.
COMMAND_SECONDS = 5_000 if os.environ.get("ASHLAR_TEST_FILES") == "whole" else 450


@dataclass(frozen=True)
class Mount:
    """The folder of the mount, the folder of the tools, and the amount of work."""

    root: Path = field(default_factory=lambda: _root())
    tools: Path = field(default_factory=lambda: Path(os.environ.get("ASHLAR_TEST_TOOLS", "/usr")))
    whole: bool = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_FILES") == "whole")

    def amount(self, short, whole):
        """Returns the amount of work: `short` in a plain run, `whole` in a whole run."""
        return whole if self.whole else short

    def tool(self, name):
        """Returns a program that was installed for these suites, or one of the search path."""
        ours = self.tools / "bin" / name
        found = str(ours) if ours.is_file() else shutil.which(name)
        assert found, f"{name} is not installed; set ASHLAR_TEST_TOOLS"
        return found


def _root():
    value = os.environ.get("ASHLAR_TEST_MOUNT")
    if not value:
        pytest.exit("set ASHLAR_TEST_MOUNT: the suites need a mount", returncode=2)
    return Path(value)


def fresh_name(label):
    """Returns a unique name that is valid for a bucket."""
    return f"{label}-{secrets.token_hex(4)}"


def run(*words, cwd=None, user=None, stdin=None, environment=None, seconds=COMMAND_SECONDS):
    """Runs a program and returns its output. A failure shows its whole output."""
    done = attempt(
        *words, cwd=cwd, user=user, stdin=stdin, environment=environment, seconds=seconds
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, words))} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


def attempt(*words, cwd=None, user=None, stdin=None, environment=None, seconds=COMMAND_SECONDS):
    """Runs a program and returns its result, also after a failure."""
    prefix = ["runuser", "-u", user, "--"] if user else []
    return subprocess.run(
        [*prefix, *map(str, words)],
        cwd=cwd,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, **(environment or {})},
        timeout=seconds,
    )


def tree(root):
    """Returns everything below `root`: each path with its properties, without times and owners of
    links."""
    found = {}
    for path in sorted(Path(root).rglob("*")):
        status = path.lstat()
        name, mode = str(path.relative_to(root)), status.st_mode & 0o7777
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("directory", mode)
        else:
            found[name] = ("file", mode, int(status.st_mtime), path.read_bytes())
    return found
