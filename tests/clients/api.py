"""The administration API over HTTP, with requests that botocore signs."""

import json
import secrets
from dataclasses import dataclass
from typing import Optional

import boto3
import urllib3
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from server import REGION

SERVICE = "ashlar"
PREFIX = "/api/v1"


@dataclass(frozen=True)
class Answer:
    """A response: its status, its headers and its body."""

    status: int
    headers: object
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The error code; None if the request succeeded."""
        return None if self.status < 400 else self.json["code"]

    @property
    def etag(self):
        return self.headers["etag"]


@dataclass(frozen=True)
class Api:
    """The API as one sender: an access key with its secret, or a token, or no credentials."""

    server: object
    http: object
    access_key: Optional[str] = None
    secret: Optional[str] = None
    session: Optional[str] = None
    token: Optional[str] = None

    def having(self, **credentials):
        """Returns the API as another sender."""
        return Api(self.server, self.http, **credentials)

    def signed(self, method, path, data, headers, signer=SigV4Auth, service=SERVICE):
        """Returns a signed request."""
        url = f"{self.server.console}{path}"
        request = AWSRequest(method, url, data=data, headers=headers)
        if self.access_key:
            keys = Credentials(self.access_key, self.secret, self.session)
            signer(keys, service, REGION).add_auth(request)
        return request

    def send(self, method, url, data, headers):
        answer = self.http.request(method, url, body=data, headers=headers, retries=False)
        return Answer(answer.status, answer.headers, answer.data)

    def __call__(self, method, path, body=None, if_match=None, expect=None):
        """Sends a request below `/api/v1`. `expect` is the status that the response must have."""
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        if if_match:
            headers["if-match"] = if_match
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        request = self.signed(method, PREFIX + path, data, headers)
        answer = self.send(method, request.url, data, dict(request.headers))
        if expect is not None:
            assert answer.status == expect, f"{method} {path}: {answer.status} {answer.body}"
        return answer

    def presigned(self, method, path):
        """Sends a request whose signature is in its URL."""
        request = self.signed(method, PREFIX + path, b"", {}, SigV4QueryAuth)
        return self.send(method, request.url, b"", {})

    def with_service(self, method, path, service):
        """Sends a request that is signed for another service."""
        request = self.signed(method, PREFIX + path, b"", {}, service=service)
        return self.send(method, request.url, b"", dict(request.headers))

    def with_other_body(self, method, path, signed, sent):
        """Sends another body than the signature covers."""
        signed, sent = json.dumps(signed).encode(), json.dumps(sent).encode()
        headers = {"content-type": "application/json"}
        request = self.signed(method, PREFIX + path, signed, headers)
        return self.send(method, request.url, sent, dict(request.headers))

    def s3(self):
        """Returns an S3 client with the same key."""
        keys = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret}
        session = {"aws_session_token": self.session} if self.session else {}
        return boto3.client("s3", **{**self.server.aws_settings(), **keys, **session})


def operator(server):
    """Returns the API as the operator's own key."""
    verified = {"cert_reqs": "CERT_REQUIRED", "ca_certs": server.ca} if server.ca else {}
    http = urllib3.PoolManager(**verified)
    return Api(server, http, server.access_key, server.secret_key)


def fresh(label):
    """Returns a unique name."""
    return f"{label}-{secrets.token_hex(4)}"


def allow(*actions, resource="*", effect="Allow"):
    """Returns a policy document that allows actions."""
    statement = {"Effect": effect, "Action": list(actions), "Resource": resource}
    if all(action.startswith("admin:") for action in actions):
        del statement["Resource"]
    return {"Version": "2012-10-17", "Statement": [statement]}


def add_policy(api, document):
    """Creates a policy with this document, and returns its name."""
    name = fresh("policy")
    api("PUT", f"/policies/{name}", {"document": document}, expect=200)
    return name


def add_user(api, *actions, policies=(), resource="*"):
    """Creates a user with policies, and with one more that allows actions. Returns the API as this
    user."""
    policies = list(policies)
    if actions:
        policies.append(add_policy(api, allow(*actions, resource=resource)))
    issued = api("PUT", f"/users/{fresh('user')}", {"policies": policies}, expect=200).json
    return api.having(access_key=issued["access_key"], secret=issued["secret"])


def denied(answer):
    """Fails unless the response is a refusal for a missing permission."""
    assert (answer.status, answer.code) == (403, "AccessDenied"), answer


def works(sender):
    """True if the gateway accepts the key for S3."""
    try:
        sender.s3().list_buckets()
        return True
    except ClientError as error:
        code = error.response["Error"]["Code"]
        # A user without policies is known, and may not list.
        if code == "AccessDenied" and sender("GET", "/me").status == 200:
            return True
        assert code in ("InvalidAccessKeyId", "AccessDenied", "SignatureDoesNotMatch"), error
        return False


def key_of(sender, issued):
    """Returns the API as a key of this response."""
    return sender.having(access_key=issued["access_key"], secret=issued["secret"])
