"""MinIO's administration protocol, with requests that botocore signs and bodies that stay as they are."""

import json
import os
import shutil
import struct
from dataclasses import dataclass
from typing import Optional

import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from server import REGION

PREFIX = "/minio/admin/v3"


@dataclass(frozen=True)
class Response:
    """A response of the protocol."""

    status: int
    body: bytes

    @property
    def code(self):
        """The error code; None if the request succeeded."""
        return None if self.status < 400 else json.loads(self.body)["Code"]


@dataclass(frozen=True)
class Protocol:
    """The protocol as one sender."""

    server: object
    access_key: Optional[str] = None
    secret: Optional[str] = None
    session: Optional[str] = None

    def http(self):
        verified = {"ca_certs": self.server.ca} if self.server.ca else {}
        return urllib3.PoolManager(**verified)

    def signed(self, method, path, body=b"", region=REGION):
        """Returns the headers of a signed request."""
        url = f"{self.server.endpoint}{PREFIX}{path}"
        request = AWSRequest(method, url, data=body)
        keys = Credentials(self.access_key, self.secret, self.session)
        S3SigV4Auth(keys, "s3", region).add_auth(request)
        return dict(request.headers)

    def send(self, method, path, body=b"", headers=None):
        url = f"{self.server.endpoint}{PREFIX}{path}"
        answer = self.http().request(method, url, body=body, headers=headers or {}, retries=False)
        return Response(answer.status, answer.data)

    def __call__(self, method, path, body=b""):
        """Sends a signed request below `/minio/admin/v3`."""
        return self.send(method, path, body, self.signed(method, path, body))

    def sealed(self, method, path, document):
        """Sends a signed request with a document that is encrypted with the secret of the sender."""
        return self(method, path, seal(self.secret, json.dumps(document).encode()))


def seal(secret, content):
    """Returns a message of one chunk with this content, as clients with FIPS cryptography make it."""
    salt, nonce = os.urandom(32), os.urandom(8)
    cipher = AESGCM(PBKDF2HMAC(SHA256(), 32, salt, 8192).derive(secret.encode()))
    numbered = [nonce + struct.pack("<I", number) for number in (0, 1)]
    tag = cipher.encrypt(numbered[0], b"", b"")
    return salt + b"\x02" + nonce + cipher.encrypt(numbered[1], content, b"\x80" + tag)


def with_authority(server, configuration):
    """Makes a configuration folder of mc that trusts the server's certificate."""
    if server.ca:
        authorities = configuration / "certs" / "CAs"
        authorities.mkdir(parents=True)
        shutil.copy(server.ca, authorities / "ashlar.crt")
    return configuration
