"""minio-go's functional tests, case by case.

They are one program whose `main` calls all cases. It is built with a `main` that calls the one that
it is told, in the module that it belongs to.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

import mint
from expected import Expected

SOURCE = os.environ.get("ASHLAR_TEST_MINIO_GO_SOURCE", "")
TLS = os.environ.get("ASHLAR_TEST_ENDPOINT", "").startswith("https:")
EXPECTED = Expected("minio_go")

BUILD_SECONDS = 600
MAIN = "\nfunc main() {\n"
TAG = "//go:build mint\n"
CALL = re.compile(r"^(\t+)(test\w+)\(\)$", re.M)
OVER_TLS = re.compile(r"^\t\tif tls \{\n(.*?)^\t\t\}", re.M | re.S)

# They succeed without a word.
SILENT = {"testGetObjectWithRange"}


def parts():
    """The program before its `main`, and the body of that."""
    text = (Path(SOURCE) / "functional_tests.go").read_text()
    before, body = text.split(MAIN)
    return before.replace(TAG, ""), body


def cases(tls):
    """The cases of the full mode, in their order: some run over TLS only."""
    if not SOURCE:
        return []
    full = parts()[1].split("\n\t} else {\n")[0]
    if not tls:
        full = OVER_TLS.sub("", full)
    return [call[2] for call in CALL.finditer(full)]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The suite as a program that is told the name of a case."""
    folder = tmp_path_factory.mktemp("minio-go")
    before, body = parts()
    chosen = CALL.sub(r'\1if os.Args[1] == "\2" {\n\1\t\2()\n\1}', body)
    (folder / "main.go").write_text(before + MAIN + chosen)
    built = folder / "minio-go"
    done = subprocess.run(
        ["go", "build", "-o", built, folder / "main.go"],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        cwd=SOURCE,
        env={name: value for name, value in os.environ.items() if name != "GOFLAGS"},
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize("case", cases(TLS))
def test_minio_go(case, server, program, sweep, tmp_path):
    passed, said = mint.run(
        [program, case], tmp_path, mint.environment(server), silent=case in SILENT
    )
    if not passed:
        sweep()
    EXPECTED.compare(case, passed, said)


def test_the_suite_has_as_many_cases_as_were_looked_at():
    assert len(cases(tls=False)) == 101
    assert len(cases(tls=True)) == 122
    assert not EXPECTED.unused(cases(tls=True))
