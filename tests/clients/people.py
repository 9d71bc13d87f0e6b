"""Accounts and access keys, which the gateway's own commands create while it runs."""

import secrets
import time
from dataclasses import dataclass

import boto3
from botocore.exceptions import ClientError

# Time limit in seconds until a gateway knows a new access key; it usually takes a fraction of a
# second.
KNOWN_SECONDS = 10


@dataclass(frozen=True)
class Account:
    """An account: its number, and its canonical id, which S3 shows as an owner."""

    number: str
    canonical_id: str


@dataclass(frozen=True)
class Person:
    """An access key with its client."""

    access_key: str
    secret: str
    s3: object

    def settings(self, server):
        """Returns the arguments of boto3.client for this person."""
        keys = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret}
        return {**server.aws_settings(), **keys}


def add_account(server):
    """Creates an account with a unique name."""
    said = server.operate("account", "add", f"account-{secrets.token_hex(4)}")
    told = dict(line.rsplit(None, 1) for line in said.splitlines())
    return Account(told["account"], told["canonical id"])


def add_person(server, policies=(), account=None):
    """Creates an access key, and waits until the gateway knows it."""
    name = f"person-{secrets.token_hex(4)}"
    words = [word for policy in policies for word in ("--policy", policy)]
    words += ["--account", account.number] if account else []
    said = server.operate("user", "add", name, *words)
    (secret,) = (line.split()[-1] for line in said.splitlines() if line.startswith("secret key"))
    person = Person(name, secret, None)
    s3 = boto3.client("s3", **person.settings(server))
    end = time.monotonic() + KNOWN_SECONDS
    while True:
        try:
            s3.list_buckets()
            break
        except ClientError as error:
            if error.response["Error"]["Code"] == "AccessDenied":
                break
            assert time.monotonic() < end, f"the gateway does not know {name}: {error}"
            time.sleep(0.05)
    return Person(name, secret, s3)
