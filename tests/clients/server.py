"""The server under test as a user sees it: an address, a certificate authority, two keys.

All settings come from the environment, so that a suite runs against any S3 server.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import pytest
from botocore.exceptions import ClientError

REGION = "us-east-1"
COMMAND_SECONDS = 300


def _required(name):
    value = os.environ.get(name)
    if not value:
        pytest.exit(f"set {name}: the suites need a server to talk to", returncode=2)
    return value


@dataclass(frozen=True)
class Server:
    """The address of the server and the credentials; `ca` is None over plain http."""

    endpoint: str = field(default_factory=lambda: _required("ASHLAR_TEST_ENDPOINT"))
    access_key: str = field(default_factory=lambda: _required("ASHLAR_TEST_ACCESS_KEY"))
    secret_key: str = field(default_factory=lambda: _required("ASHLAR_TEST_SECRET_KEY"))
    ca: Optional[str] = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_CA") or None)
    subject: str = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_SUBJECT", "ashlar"))

    program: Optional[str] = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_PROGRAM"))
    meta: Optional[str] = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_META"))
    data: Optional[str] = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_DATA_DIR"))

    blocks: Optional[str] = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_BLOCKS"))

    _console: Optional[str] = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_CONSOLE"))

    _kms_key: Optional[str] = field(default_factory=lambda: os.environ.get("ASHLAR_TEST_KMS_KEY"))

    @property
    def kms_key(self):
        """The name of the only key of the server's key management service."""
        if not self._kms_key:
            pytest.skip("set ASHLAR_TEST_KMS_KEY to the key of the server's KMS")
        return self._kms_key

    @property
    def console(self):
        """The URL of the console and of the administration API."""
        assert self._console, "set ASHLAR_TEST_CONSOLE to the URL of the gateway's console"
        return self._console

    def operate(self, *arguments):
        """Runs a command of the gateway's program on the volume that it serves."""
        return self.operator().run(*arguments)

    def operate_refused(self, *arguments):
        """Runs such a command, which must fail, and returns its output."""
        done = self.operator().attempt(*arguments)
        assert done.returncode, f"{arguments} did not fail: {done.stdout}"
        return done.stderr

    def operator(self):
        """Returns the gateway's program with the settings of the volume that it serves."""
        if not (self.program and self.meta):
            pytest.skip("set ASHLAR_TEST_PROGRAM and ASHLAR_TEST_META to change settings")
        settings = ["--meta", self.meta, *(["--data-dir", self.data] if self.data else [])]
        blocks = {
            "ASHLAR_BLOCKS": self.blocks,
            "ASHLAR_BLOCKS_ACCESS_KEY": self.access_key,
            "ASHLAR_BLOCKS_SECRET_KEY": self.secret_key,
        }
        return Command(self.program, settings, blocks if self.blocks else {})

    def is_ashlar(self):
        """False for the reference server, against which the suites themselves are tested."""
        return self.subject == "ashlar"

    def codes(self, s3, reference):
        """Returns the error code of S3, or that of the reference, if this is the reference."""
        return [s3] if self.is_ashlar() else [s3, reference]

    def aws_settings(self):
        """Returns the arguments of boto3.client, or s3fs's client_kwargs, and nothing more."""
        return {
            "endpoint_url": self.endpoint,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "region_name": REGION,
            **({"verify": self.ca} if self.ca else {}),
        }


def fresh_bucket_name(label="t"):
    """Returns a unique bucket name."""
    return f"{label}-{secrets.token_hex(6)}"


@contextlib.contextmanager
def refused(*codes, status=None):
    """The block must end in one of these S3 error codes, and in this HTTP status if given."""
    with pytest.raises(ClientError) as caught:
        yield caught
    error = caught.value.response["Error"]["Code"]
    assert error in codes, f"expected {' or '.join(codes)}, got {caught.value}"
    if status is not None:
        found = caught.value.response["ResponseMetadata"]["HTTPStatusCode"]
        assert found == status, f"expected {status}, got {found}: {caught.value}"


def random_file(path, size):
    """Fills `path` with `size` random bytes and returns their SHA-256 in hex."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        while size > 0:
            piece = os.urandom(min(size, 4 << 20))
            digest.update(piece)
            file.write(piece)
            size -= len(piece)
    return digest.hexdigest()


def sha256_of(path):
    """Returns the SHA-256 of a file in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(
            hashlib, "file_digest"
        ) else hashlib.sha256(file.read()).hexdigest()


def write_tree(root, files):
    """Writes a dict of relative path to bytes below `root`."""
    for name, content in files.items():
        path = Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def read_tree(root):
    """Returns the regular files below `root` as a dict of relative path to bytes."""
    root = Path(root)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


class Command:
    """A command-line client with its settings. `run` fails the test on an exit status other than
    0."""

    def __init__(self, program, arguments=(), environment=None):
        found = shutil.which(program)
        assert found, f"{program} is not installed"
        self.prefix = [found, *arguments]
        # The environment excludes proxies, credentials and certificates of the machine's user.
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().endswith("_PROXY") and not name.startswith("AWS_")
        }
        self.environment.update(environment or {})

    def attempt(self, *arguments, stdin=None, text=True):
        """Runs it and returns the finished process, with any exit status."""
        return subprocess.run(
            [*self.prefix, *map(str, arguments)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=text,
            env=self.environment,
            timeout=COMMAND_SECONDS,
        )

    def run(self, *arguments, stdin=None, text=True):
        """Runs it and returns its standard output."""
        done = self.attempt(*arguments, stdin=stdin, text=text)
        assert done.returncode == 0, (
            f"{' '.join(map(str, arguments))} exited with {done.returncode}\n"
            f"{done.stdout}\n{done.stderr}"
        )
        return done.stdout
