"""Fixtures of every suite of programs on a mount."""

import shutil

import botocore.session
import pytest

from mounted import Mount, fresh_name
from server import Server

# What runners inside of tests said of themselves, for the end of the report.
TOLD = pytest.StashKey()


def pytest_configure(config):
    config.stash[TOLD] = []


def pytest_collection_modifyitems(items):
    if Mount().whole:
        return
    for item in items:
        mark = item.get_closest_marker("whole")
        if mark:
            item.add_marker(pytest.mark.skip(reason=f"not in a short run: {mark.args[0]}"))


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash[TOLD]:
        terminalreporter.write_line(f"told: {line}")


@pytest.fixture
def tell(pytestconfig):
    """Takes the summary line of a runner, which the report ends with."""
    return pytestconfig.stash[TOLD].append


@pytest.fixture(scope="session")
def mount():
    """The mount under test."""
    return Mount()


@pytest.fixture
def place(mount):
    """A fresh bucket as the mount shows it, open to all users; gone afterwards if all went well."""
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
    """What all plain clients are made from. A session reads the description of S3 once."""
    return botocore.session.get_session()


@pytest.fixture
def control(server, botocore_session):
    """A plain client of S3 with default settings."""
    return botocore_session.create_client("s3", **server.aws_settings())
