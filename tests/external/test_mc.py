"""mc's functional tests, case by case.

They are one shell script, of which each case gets what comes before its last lines. The script
itself runs the cases of encryption over https only, and that of notifications outside of mint.
"""

import os
import re
import sys
from pathlib import Path

import pytest

import mint
from expected import Expected

PROGRAM = os.environ.get("ASHLAR_TEST_MC", "mc")
SOURCE = os.environ.get("ASHLAR_TEST_MC_SOURCE", "")
EXPECTED = Expected("mc")

LAST_LINES = '\n__init__ "$@"\nmain "$@"\n'

# A case that comes after `setup` in the script has a bucket, which `teardown` removes. The settings
# lie outside of the case's folder.
ONE_CASE = """
trap 'rm -rf "$MC_CONFIG_DIR"' EXIT
__init__
if [ "$2" = bucket ]; then (setup && "$1" && teardown); else ("$1"); fi
"""


def script():
    """The script without its last lines."""
    text = (Path(SOURCE) / "functional-tests.sh").read_text()
    before, end = text.rstrip("\n").split(LAST_LINES.rstrip("\n"))
    assert not end
    return before


def cases():
    """The cases that it always runs, each with what it needs."""
    if not SOURCE:
        return []
    body = re.search(r"^function run_test\(\) \{\n(.*?)^\}", script(), re.M | re.S)[1]
    before, after = body.split("\n\tsetup\n")
    called = re.compile(r"^\t(test_\w+)$", re.M)
    return [(case, "nothing") for case in called.findall(before)] + [
        (case, "bucket") for case in called.findall(after)
    ]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The folder of its files, which it makes itself."""
    return tmp_path_factory.mktemp("mc")


@pytest.mark.parametrize(("case", "needs"), cases())
def test_mc(case, needs, server, data, sweep, tmp_path):
    (tmp_path / "mc").symlink_to(PROGRAM)
    (tmp_path / "case.sh").write_text(script() + ONE_CASE)
    # It calls `python` where something fails.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = mint.environment(server, MINT_DATA_DIR=str(data), PATH=path)
    passed, said = mint.run(["bash", "case.sh", case, needs], tmp_path, environment)
    if not passed:
        sweep()
    EXPECTED.compare(case, passed, said)


def test_the_suite_has_as_many_cases_as_were_looked_at():
    assert len(cases()) == 29
    assert not EXPECTED.unused([case for case, _ in cases()])
