"""The unchanged compose.yaml: Ashlar beside MinIO, its clients, its health check and its stop."""

import http.client
import json
import threading
import time

import pytest

from conftest import ACCESS_KEY, SECRET_KEY, Gateway
from podman import CHECKOUT, fresh_folder, required

SETTINGS = {
    "ASHLAR_IMAGE": "ashlar-oci",
    "ASHLAR_ROOT_USER": ACCESS_KEY,
    "ASHLAR_ROOT_PASSWORD": SECRET_KEY,
    "BLOCKS_USER": "blocks",
    "BLOCKS_PASSWORD": "blockssecret-1234",
}

# Larger than the bodies that stay in the metadata store.
BODY = bytes(range(256)) * 20_000


@pytest.fixture(scope="module")
def gateway(podman):
    folder = fresh_folder(podman.scratch / "compose")
    (folder / "compose.yaml").write_bytes((CHECKOUT / "compose.yaml").read_bytes())
    compose = ["podman-compose", "--no-ansi"]
    podman.run(*compose, "up", "--detach", "--no-build", cwd=folder, environment=SETTINGS)
    yield Gateway(podman, "compose_ashlar_1").wait_ready()
    podman.run(*compose, "down", "--volumes", "--timeout", "20", cwd=folder, environment=SETTINGS)
    assert not podman.podman("ps", "--all", "--quiet", "--filter", "name=compose_").strip()


@pytest.fixture(scope="module")
def bucket(gateway):
    gateway.client().create_bucket(Bucket="photos")
    return "photos"


def test_boto3_gets_the_object_that_it_put(gateway, bucket):
    client = gateway.client()
    client.put_object(Bucket=bucket, Key="boto3", Body=BODY)
    assert client.get_object(Bucket=bucket, Key="boto3")["Body"].read() == BODY


def test_mc_gets_the_object_that_it_put(podman, gateway, bucket):
    folder = fresh_folder(podman.scratch / "mc")
    mc = [required("ASHLAR_TEST_MC"), "--config-dir", folder / "config"]
    (folder / "sent").write_bytes(BODY)
    podman.run(*mc, "alias", "set", "a", gateway.endpoint, ACCESS_KEY, SECRET_KEY)
    podman.run(*mc, "cp", folder / "sent", f"a/{bucket}/mc")
    podman.run(*mc, "cp", f"a/{bucket}/mc", folder / "received")
    assert (folder / "received").read_bytes() == BODY


def test_the_program_is_not_root_and_cannot_write_its_root(podman, gateway):
    assert podman.podman("exec", gateway.container, "id", "-u").strip() == "65532"
    assert podman.inspect(gateway.container, "{{.HostConfig.ReadonlyRootfs}}") == "true"
    written = podman.podman("exec", gateway.container, "sh", "-c", "touch /x || echo refused", check=False)
    assert written.strip() == "refused"


def test_commands_in_the_container_reach_the_gateway(podman, gateway, bucket):
    status = podman.podman("exec", gateway.container, "ashlar", "status")
    assert f'"{bucket}"' in status


def test_the_health_check_passes_only_if_the_gateway_answers(podman, gateway):
    podman.podman("healthcheck", "run", gateway.container)
    # The command of the check, for a port without a gateway.
    command = json.loads(podman.inspect(gateway.container, "{{json .Config.Healthcheck.Test}}"))
    assert command[0] == "CMD"
    with pytest.raises(AssertionError, match="cannot check the gateway"):
        podman.podman("exec", gateway.container, *command[1:], "--listen", "127.0.0.1:1")


def test_a_slow_upload_is_finished_by_the_stop(podman, gateway, bucket):
    url = gateway.client().generate_presigned_url("put_object", {"Bucket": bucket, "Key": "slow"})
    path = url.removeprefix(gateway.endpoint)
    connection = http.client.HTTPConnection("127.0.0.1", 9700, timeout=60)
    connection.putrequest("PUT", path)
    connection.putheader("Content-Length", str(len(BODY)))
    connection.endheaders()
    half = len(BODY) // 2
    connection.send(BODY[:half])
    stopping = threading.Thread(
        target=podman.podman, args=("stop", "--time", "60", gateway.container)
    )
    stopping.start()
    limit = time.monotonic() + 30
    while gateway.is_ready():
        assert time.monotonic() < limit, "the stop has not begun"
        time.sleep(0.1)
    # The stop waits for this upload, so the rest arrives while the gateway ends.
    time.sleep(1)
    assert stopping.is_alive()
    connection.send(BODY[half:])
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    connection.close()
    stopping.join()
    assert podman.inspect(gateway.container, "{{.State.ExitCode}}") == "0"
    podman.podman("start", gateway.container)
    gateway.wait_ready()
    assert gateway.client().get_object(Bucket=bucket, Key="slow")["Body"].read() == BODY
