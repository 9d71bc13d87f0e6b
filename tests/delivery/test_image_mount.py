"""A container that mounts the volume for its host, by the command of docs/OPERATING.md."""

import errno
import os
import re
import shlex
import time

import pytest

from conftest import ACCESS_KEY, SECRET_KEY, Gateway
from podman import CHECKOUT, fresh_folder

# The first block of the page with this option is the documented command.
OPTION = "bind-propagation=rshared"


def documented_commands():
    text = (CHECKOUT / "docs/OPERATING.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (block,) = [block for block in blocks if OPTION in block]
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def is_dead(folder):
    """True if a mount is there whose server has ended. The kernel does not remember answers of
    `statvfs`."""
    try:
        os.statvfs(folder)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


@pytest.fixture(scope="module")
def shared(podman):
    """The folder that the host and the container share, in place of the documented one."""
    return fresh_folder(podman.scratch / "shared")


@pytest.fixture(scope="module")
def gateway(podman, shared):
    make, run = documented_commands()
    place = [word.replace("/srv/ashlar", str(shared)) for word in make]
    podman.run(*place)
    assert run[:3] == ["docker", "run", "--detach"]
    run = [word.replace("source=/srv/ashlar", f"source={shared}") for word in run]
    secrets = [f"--env=ASHLAR_ROOT_USER={ACCESS_KEY}", f"--env=ASHLAR_ROOT_PASSWORD={SECRET_KEY}"]
    # podman starts a killed container again at once; this test starts it, to see the folder before.
    restart = run.index("--restart")
    run = run[:restart] + run[restart + 2 :]
    podman.run("podman", *run[1:3], *secrets, *run[3:])
    name = run[run.index("--name") + 1]
    yield Gateway(podman, name).wait_ready()
    podman.podman("rm", "--force", "--time", "20", name)
    assert not os.path.ismount(shared / "files")


def test_the_host_reads_and_writes_the_files_of_the_container(gateway, shared):
    client = gateway.client()
    client.create_bucket(Bucket="photos")
    client.put_object(Bucket="photos", Key="2026/cat", Body=b"meow")
    assert os.path.ismount(shared / "files")
    assert (shared / "files/photos/2026/cat").read_bytes() == b"meow"
    (shared / "files/photos/2026/dog").write_bytes(b"woof")
    assert client.get_object(Bucket="photos", Key="2026/dog")["Body"].read() == b"woof"


def test_a_killed_container_starts_again_and_replaces_its_dead_mount(podman, gateway, shared):
    podman.podman("kill", "--signal", "KILL", gateway.container)
    limit = time.monotonic() + 30
    while not is_dead(shared / "files"):
        assert time.monotonic() < limit, "the mount has a server"
        time.sleep(0.1)
    podman.podman("start", gateway.container)
    gateway.wait_ready()
    assert (shared / "files/photos/2026/cat").read_bytes() == b"meow"
    assert (shared / "files/photos/2026/dog").read_bytes() == b"woof"
    assert "removed a mount whose server has ended" in podman.logs(gateway.container)


def test_the_stop_of_the_container_removes_the_mount_on_the_host(podman, gateway, shared):
    podman.podman("stop", "--time", "60", gateway.container)
    assert podman.inspect(gateway.container, "{{.State.ExitCode}}") == "0"
    assert not os.path.ismount(shared / "files")
    assert list((shared / "files").iterdir()) == []
