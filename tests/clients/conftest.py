"""Fixtures for all client suites."""

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
    """Keeps the settings of the machine's user away from the clients, so that they use their
    defaults."""
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
    """The session that creates all plain clients. It parses the description of S3 only once, which
    takes longer than most tests."""
    return botocore.session.get_session()


@pytest.fixture
def control(server, botocore_session):
    """A plain botocore client for preparation and checks.

    Retries stay enabled, as users have them, but a test during which a call was retried fails,
    because a retry hides a wrong response.
    """
    client = botocore_session.create_client("s3", **server.aws_settings())
    yield from watch_retries(client)


def watch_retries(client):
    """Yields the client, then fails if one of its calls was retried."""
    retried = []

    def after_call(parsed, model, **_):
        if parsed.get("ResponseMetadata", {}).get("RetryAttempts"):
            retried.append(model.name)

    client.meta.events.register("after-call.s3", after_call)
    yield client
    assert not retried, f"calls that needed a retry: {retried}"


@pytest.fixture
def bucket(control):
    """A new, empty bucket."""
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="session")
def api(server, clean_environment):
    """The administration API as the operator's own key."""
    # The environment of some suites has no boto3.
    from api import operator

    return operator(server)


@pytest.fixture(scope="session")
def driver(tmp_path_factory, clean_environment):
    """A browser with a new profile."""
    # The environment of some suites has no selenium.
    from browser import start

    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def console_driver(tmp_path_factory, clean_environment):
    """A browser that keeps its logs and downloads files."""
    from browser import start

    folder = tmp_path_factory.mktemp("console")
    driver = start(folder / "profile", folder / "downloads", logs=True)
    driver.downloads = folder / "downloads"
    yield driver
    driver.quit()


@pytest.fixture
def visitor(console_driver, server):
    """The console as a person who is not logged in. Fails if a page used another origin, or broke
    the policy of its content."""
    from console import Console, is_ours

    console = Console(console_driver, server.console)
    console.open("/login").forget()
    console.requested(), console.messages()
    yield console
    other = [url for url in console.requested() if not is_ours(url, server.console)]
    assert not other, "requests to other origins"
    broken = [text for text in console.messages() if "Content Security Policy" in text]
    assert not broken, "the pages break their own policy"


@pytest.fixture
def console(visitor, server):
    """The console as the operator."""
    visitor.log_in(server.access_key, server.secret_key)
    return visitor
