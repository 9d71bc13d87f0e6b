"""versitygw's integration suite, case by case.

Each case is a process of its own. Cases share the names of buckets, so they run one at a time, and
what a failed one has left is swept away before the next.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from expected import Expected

CASE_SECONDS = 60
PROGRAM = os.environ.get("ASHLAR_TEST_VERSITYGW", "versitygw")
SOURCE = os.environ.get("ASHLAR_TEST_VERSITYGW_SOURCE", "")
EXPECTED = Expected("versitygw")
COLOUR = re.compile(r"\x1b\[\d*m")


def cases():
    """The cases of the full flow, in its order, each once; but for those of versions, which the
    suite takes for gateways alone that are said to have them."""
    if not SOURCE:
        return []
    text = (Path(SOURCE) / "tests/integration/group-tests.go").read_text()
    bodies = dict(re.findall(r"^func (Test\w+)\(ts \*TestState\) \{\n(.*?)^\}", text, re.S | re.M))
    found = {}

    def read(group):
        for line in bodies[group].splitlines():
            if called := re.match(r"\s*ts\.(?:Run|Sync)\((\w+)\)", line):
                found.setdefault(called[1])
            elif nested := re.match(r"\s*(Test\w+)\(ts\)", line):
                if nested[1] != "TestVersioning":
                    read(nested[1])

    read("TestFullFlow")
    return list(found)


@pytest.mark.parametrize("case", cases())
def test_versitygw(case, server, sweep, tmp_path):
    words = [PROGRAM, "test", "--access", server.access_key, "--secret", server.secret_key]
    words += ["--endpoint", server.endpoint, "--allow-insecure", case]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=CASE_SECONDS, cwd=tmp_path
        )
        said = COLOUR.sub("", done.stdout + done.stderr)
        passed = done.returncode == 0 and "PASS" in said and "FAIL" not in said
    except subprocess.TimeoutExpired:
        said, passed = "it did not end", False
    if not passed:
        sweep()
    EXPECTED.compare(case, passed, said)


def test_the_suite_has_as_many_cases_as_were_looked_at():
    """A line of the file is only worth something for the release that it was written for."""
    assert len(cases()) == 687
