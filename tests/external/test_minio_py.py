"""minio-py's functional tests, case by case: the module as it is, of which all but one are skipped."""

import os
import re
import sys
from pathlib import Path

import pytest

import mint
from expected import Expected

SOURCE = os.environ.get("ASHLAR_TEST_MINIO_PY_SOURCE", "")
EXPECTED = Expected("minio_py")

# Its files, by what they are called where mint runs it.
FILES = {"datafile-1-MB": 1 << 20, "datafile-11-MB": 11 << 20}

ONE_CASE = """
import sys
import tests

call = tests._call_test

def only_one(case, *arguments, **settings):
    if case.__name__ == sys.argv[1]:
        call(case, *arguments, **settings)

tests._call_test = only_one
tests.main()
"""


def cases():
    """All cases of the full mode, each once."""
    if not SOURCE:
        return []
    text = (Path(SOURCE) / "tests/functional/tests.py").read_text()
    main = text.split("\ndef main():\n")[1]
    return list(dict.fromkeys(re.findall(r"^ +(test_\w+): ", main, re.M)))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The folder of its files."""
    folder = tmp_path_factory.mktemp("minio-py")
    for name, size in FILES.items():
        (folder / name).write_bytes(os.urandom(size))
    return folder


@pytest.mark.parametrize("case", cases())
def test_minio_py(case, server, data, sweep, tmp_path):
    environment = mint.environment(
        server, DATA_DIR=str(data), PYTHONPATH=str(Path(SOURCE) / "tests/functional")
    )
    passed, said = mint.run([sys.executable, "-c", ONE_CASE, case], tmp_path, environment)
    if not passed:
        sweep()
    EXPECTED.compare(case, passed, said)


def test_the_suite_has_as_many_cases_as_were_looked_at():
    assert len(cases()) == 50
    assert not EXPECTED.unused(cases())
