"""The drill of docs/BACKUP.md: a backup while a client writes, the loss of the volume, a restore."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import boto3
import pytest

from server import COMMAND_SECONDS, REGION

PAGE = Path(__file__).parents[2] / "docs/BACKUP.md"
GRACE = re.compile(r"--deletion-grace \w+")
START_SECONDS = 60
BUCKET = "photos"

# Bodies of these sizes are kept in records, in packs and in blocks of their own.
SIZES = [10, 3_000, 200_000, 3_000_000]


def block(name):
    """Returns the block of the page with this marker."""
    marker = rf"<!-- drill: {name} -->\n```sh\n(.*?)^```$"
    [text] = re.findall(marker, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return text


class Gateway:
    """A gateway on a data directory, with root credentials in its environment or in its files."""

    def __init__(self, program, data, *flags):
        self.log = data.parent / f"{data.name}.log"
        arguments = ["serve", "--data-dir", data, "--log-format", "json", *flags]
        environment = {
            "PATH": os.environ["PATH"],
            "ASHLAR_LISTEN": "127.0.0.1:0",
            "ASHLAR_ADMIN_LISTEN": "off",
            "ASHLAR_CONSOLE_LISTEN": "off",
        }
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([program, *arguments], stderr=log, env=environment)
        credentials = dict(
            line.split("=", 1) for line in self._kept(data / "root-credentials").splitlines()
        )
        self.client = boto3.client(
            "s3",
            endpoint_url=self._serving()["endpoint"],
            aws_access_key_id=credentials["ASHLAR_ROOT_USER"],
            aws_secret_access_key=credentials["ASHLAR_ROOT_PASSWORD"],
            region_name=REGION,
        )

    def _serving(self):
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit and self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if '"serving"' in line:
                    return json.loads(line)
            time.sleep(0.05)
        pytest.fail(f"the gateway does not serve:\n{self.log.read_text()}")

    def _kept(self, path):
        self._serving()
        return path.read_text()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(COMMAND_SECONDS)


class Writer(threading.Thread):
    """A client that writes, replaces and deletes objects until it is stopped."""

    def __init__(self, client):
        super().__init__()
        self.client, self.stopped, self.error = client, threading.Event(), None
        # The digests of all bodies of each key, also of those that are not acknowledged yet.
        self.written, self.rounds = {}, 0

    def put(self, key, body):
        self.written.setdefault(key, set()).add(hashlib.sha256(body).hexdigest())
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def run(self):
        try:
            while not self.stopped.is_set():
                at = self.rounds
                self.put(f"new/{at:05}", os.urandom(200_000))
                self.put(f"replaced/{at % 6}", os.urandom(SIZES[at % 4]))
                self.put(f"gone/{at:05}", os.urandom(300_000))
                if at >= 2:
                    self.client.delete_object(Bucket=BUCKET, Key=f"gone/{at - 2:05}")
                self.rounds += 1
        except Exception as error:  # The test reports it.
            self.error = error

    def wait_for(self, rounds):
        limit = time.monotonic() + COMMAND_SECONDS
        while self.rounds < rounds and not self.error and time.monotonic() < limit:
            time.sleep(0.02)
        assert self.rounds >= rounds, self.error


def objects(client):
    """Returns the digest of each object of the bucket."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    body = lambda key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return {key: hashlib.sha256(body(key)).hexdigest() for key in keys}


@pytest.fixture
def drill(server, tmp_path):
    """Runs a block of the page with the folders of the test. Returns its output."""
    if not server.program:
        pytest.skip("set ASHLAR_TEST_PROGRAM to the program of the gateway")
    (tmp_path / "bin").mkdir()
    (tmp_path / "srv").mkdir()
    (tmp_path / "bin/ashlar").symlink_to(Path(server.program).resolve())

    def run(name):
        text = block(name).replace("/srv/", f"{tmp_path}/srv/").replace("/backup", f"{tmp_path}/backup")
        done = subprocess.run(
            ["bash", "-euxc", text],
            env={"PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_a_volume_is_restored_from_a_backup_that_was_made_while_a_client_wrote(
    drill, server, tmp_path
):
    data = tmp_path / "srv/ashlar"
    [grace] = GRACE.findall(PAGE.read_text())
    gateway = Gateway(server.program, data, "--create", *grace.split())
    gateway.client.create_bucket(Bucket=BUCKET)
    for number in range(24):
        body = os.urandom(SIZES[number % 4])
        gateway.client.put_object(Bucket=BUCKET, Key=f"kept/{number:02}", Body=body)
    before = objects(gateway.client)
    writer = Writer(gateway.client)
    writer.start()
    writer.wait_for(10)
    acknowledged = writer.rounds
    drill("backup")
    writer.wait_for(writer.rounds + 5)
    writer.stopped.set()
    writer.join()
    assert writer.error is None
    gateway.end(signal.SIGKILL)
    shutil.rmtree(data)

    drill("restore")
    restored = Gateway(server.program, tmp_path / "srv/restored")
    found = objects(restored.client)
    assert {key: found.get(key) for key in before} == before
    for key, digest in found.items():
        assert key in before or digest in writer.written[key], f"{key} has other bytes"
    new = {f"new/{number:05}" for number in range(acknowledged)}
    assert new <= set(found), "acknowledged before the backup"
    deleted = {f"gone/{number:05}" for number in range(acknowledged - 2)}
    assert not deleted & set(found), "deleted before the backup"
    restored.client.put_object(Bucket=BUCKET, Key="after", Body=b"x")
    assert restored.end() == 0
