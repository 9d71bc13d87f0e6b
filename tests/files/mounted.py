"""The mount under test, as a program knows it: a folder in which buckets are folders.

Everything comes from the environment, so that a suite runs on any mount, and those that do not speak
S3 on any file system.
"""

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

# How long one program may take, on a debug build and a busy machine.
COMMAND_SECONDS = 5_000 if os.environ.get("ASHLAR_TEST_FILES") == "whole" else 450


@dataclass(frozen=True)
class Mount:
    """Where it is, where the tools are, and how much is to be done."""

    root: Path = field(default_factory=lambda: _root())
    tools: Path = field(default_factory=lambda: Path(os.environ.get("ASHLAR_TEST_TOOLS", "/usr")))
    whole: bool = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_FILES") == "whole")

    def amount(self, short, whole):
        """How much to do of what may take short or long."""
        return whole if self.whole else short

    def tool(self, name):
        """A program that is installed for these suites, or is in the search path."""
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
    """A name that no other test uses, fit for a bucket."""
    return f"{label}-{secrets.token_hex(4)}"


def run(*words, cwd=None, user=None, stdin=None, environment=None, seconds=COMMAND_SECONDS):
    """Runs a program and returns what it prints; a failure shows all that it said."""
    done = attempt(
        *words, cwd=cwd, user=user, stdin=stdin, environment=environment, seconds=seconds
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, words))} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


def attempt(*words, cwd=None, user=None, stdin=None, environment=None, seconds=COMMAND_SECONDS):
    """Runs a program to its end, whatever that is."""
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
    """All that is below `root`: path to what tells it apart, without times and owners of links."""
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
