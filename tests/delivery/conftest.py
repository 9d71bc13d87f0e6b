"""Fixtures of the suites of the image and of packages."""

import os
import subprocess
import time
import urllib.error
import urllib.request

import boto3
import pytest

from podman import Podman, enter_namespace, remove_cgroups

ACCESS_KEY = "admin"
SECRET_KEY = "rootsecret-1234"
START_SECONDS = 60


@pytest.fixture(scope="session", autouse=True)
def namespace():
    """The mounts and the network of this process, in namespaces that end with it."""
    # The descriptor leads to the machine's device, also after the namespace has its own.
    null = os.open("/dev/null", os.O_PATH)
    before = os.fstat(null)
    enter_namespace()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    yield
    after = os.fstat(null)
    assert (before.st_uid, before.st_mode) == (after.st_uid, after.st_mode), "the machine's /dev/null"


@pytest.fixture(scope="session")
def podman(namespace):
    """podman, without containers of an earlier run."""
    podman = Podman()
    podman.remove_containers()
    yield podman
    podman.remove_containers()
    remove_cgroups()


class Gateway:
    """A gateway in a container, on port 9700 of this namespace."""

    endpoint = "http://127.0.0.1:9700"

    def __init__(self, podman, container):
        self.podman, self.container = podman, container

    def wait_ready(self):
        limit = time.monotonic() + START_SECONDS
        while not self.is_ready():
            state = self.podman.inspect(self.container, "{{.State.Status}}")
            late = time.monotonic() > limit or state == "exited"
            if late:
                log = self.podman.logs(self.container).splitlines()[-30:]
                pytest.fail(f"{state}, not ready:\n" + "\n".join(log))
            time.sleep(0.2)
        return self

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"{self.endpoint}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def client(self):
        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
        )
