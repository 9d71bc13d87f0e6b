"""Fixtures of every client suite."""

import botocore.session
import pytest

from server import Server, fresh_bucket_name


def pytest_collection_modifyitems(items):
    if Server().is_ashlar():
        return
    for item in items:
        mark = item.get_closest_marker("ashlar")
        if mark:
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))


@pytest.fixture(scope="session")
def server():
    """The server under test."""
    return Server()


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory):
    """No settings of the machine's user reach a client: they would no longer be the defaults."""
    import os

    saved = dict(os.environ)
    for name in list(os.environ):
        if name.startswith("AWS_") or name.upper().endswith("_PROXY"):
            del os.environ[name]
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    os.environ.clear()
    os.environ.update(saved)


@pytest.fixture(scope="session")
def botocore_session(clean_environment):
    """What all plain clients are made from. A session reads the description of S3 once, which takes
    longer than most tests."""
    return botocore.session.get_session()


@pytest.fixture
def control(server, botocore_session):
    """A plain botocore client, for what a test arranges or checks beside the client it is about.

    Default retries stay on, as users have them, but a test during which one was needed fails:
    a retry hides an answer that was wrong.
    """
    client = botocore_session.create_client("s3", **server.aws_settings())
    yield from watch_retries(client)


def watch_retries(client):
    """Yields the client, then fails if any of its calls was answered only after a retry."""
    retried = []

    def after_call(parsed, model, **_):
        if parsed.get("ResponseMetadata", {}).get("RetryAttempts"):
            retried.append(model.name)

    client.meta.events.register("after-call.s3", after_call)
    yield client
    assert not retried, f"calls that needed a retry: {retried}"


@pytest.fixture
def bucket(control):
    """A fresh, empty bucket."""
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name)
    return name
