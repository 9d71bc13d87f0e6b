"""Fixtures for all suites of programs on a mount."""

import shutil

import botocore.session
import pytest

from mounted import Mount, fresh_name
from server import Server

# Summary lines of the runners inside the tests, for the end of the report.
SUMMARIES = pytest.StashKey()


def pytest_configure(config):
    config.stash[SUMMARIES] = []


def pytest_collection_modifyitems(items):
    if Mount().whole:
        return
    for item in items:
        mark = item.get_closest_marker("whole")
        if mark:
            item.add_marker(pytest.mark.skip(reason=f"not in a short run: {mark.args[0]}"))


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash[SUMMARIES]:
        terminalreporter.write_line(f"told: {line}")


@pytest.fixture
def report(pytestconfig):
    """Returns a function that adds a runner's summary line to the end of the report."""
    return pytestconfig.stash[SUMMARIES].append


@pytest.fixture(scope="session")
def mount():
    """The mount under test."""
    return Mount()


@pytest.fixture
def place(mount):
    """A new bucket as a folder of the mount, open to all users. It is removed if the test passes.
    """
    folder = mount.root / fresh_name("files")
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
    assert not folder.exists()


@pytest.fixture(scope="session")
def server():
    """The same volume through S3."""
    return Server()


@pytest.fixture(scope="session")
def botocore_session():
    """The session that creates all plain clients. It parses the description of S3 only once."""
    return botocore.session.get_session()


@pytest.fixture
def control(server, botocore_session):
    """A plain S3 client with default settings."""
    return botocore_session.create_client("s3", **server.aws_settings())
