"""versitygw's integration suite, case by case.

Each case is a process of its own. Cases share the names of buckets, so they run one at a time, and
what a failed one has left is swept away before the next.

Where cases lock and clean up, the suite asks for what S3 refuses: those lines are changed before
it is built.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from expected import Expected

CASE_SECONDS = 60
SOURCE = os.environ.get("ASHLAR_TEST_VERSITYGW_SOURCE", "")
EXPECTED = Expected("versitygw")
# What S3 refuses, and what asks for the same without that.
CHANGES = {
    # A bypass where there are no locks.
    "BypassGovernanceRetention: aws.Bool(true),":
        "BypassGovernanceRetention: map[bool]*bool{true: aws.Bool(true)}[attempts > 0],",
    # A version whose id is empty.
    "getPtr(obj.versionId)": 'map[bool]*string{true: &obj.versionId}[obj.versionId != ""]',
    "getPtr(versionId)": 'map[bool]*string{true: &versionId}[versionId != ""]',
}
# They leave what nobody can remove for hours or days, in a bucket whose name the next case needs.
STAYS = {
    "PutObjectRetention_overwrite_governance_without_bypass_specified",
    "WORMProtection_bucket_object_lock_configuration_compliance_mode",
}
COLOUR = re.compile(r"\x1b\[\d*m")


def cases():
    """The cases of the full flow, in its order, each once: also those that the suite takes only for
    gateways that have versions, or only for those that have none."""
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
                read(nested[1])

    read("TestFullFlow")
    return [case for case in found if case not in STAYS]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The suite as a program, with those changes."""
    place = tmp_path_factory.mktemp("versitygw")
    folder, built = place / "source", place / "versitygw"
    shutil.copytree(SOURCE, folder, copy_function=shutil.copyfile)
    source = folder / "tests/integration/utils.go"
    text = source.read_text()
    for said, instead in CHANGES.items():
        assert said in text
        text = text.replace(said, instead)
    source.write_text(text)
    words = ["go", "build", "-buildvcs=false", "-o", built, "./cmd/versitygw"]
    environment = {name: value for name, value in os.environ.items() if name != "GOFLAGS"}
    subprocess.run(words, cwd=folder, env=environment, check=True)
    return built


@pytest.mark.parametrize("case", cases())
def test_versitygw(case, program, server, sweep, tmp_path):
    words = [program, "test", "--access", server.access_key, "--secret", server.secret_key]
    # Said of a case, it makes the suite remove all versions of what the case wrote.
    words += ["--endpoint", server.endpoint, "--allow-insecure", case, "--versioning-enabled"]
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
    assert len(cases()) == 784
