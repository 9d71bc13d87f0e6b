"""The server under test, for suites that others wrote."""

import os
import sys
import time
from pathlib import Path

import botocore.config
import botocore.exceptions
import botocore.session
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "clients"))

from server import Server, fresh_bucket_name  # noqa: E402

# How long at most a case retains what it wrote, in a mode that cannot be bypassed.
RETENTION_SECONDS = 60


@pytest.fixture(scope="session")
def server():
    """The server under test."""
    return Server()


@pytest.fixture(scope="session", autouse=True)
def clean_environment():
    """No settings of the machine's user reach a suite."""
    saved = dict(os.environ)
    for name in list(os.environ):
        if name.startswith("AWS_") or name.upper().endswith("_PROXY"):
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(saved)


@pytest.fixture(scope="session")
def control(server):
    """A plain client, for what a test arranges or checks beside the client that it is about."""
    config = botocore.config.Config(s3={"addressing_style": "path"})
    session = botocore.session.get_session()
    return session.create_client("s3", config=config, **server.aws_settings())


def locks(control, bucket):
    try:
        control.get_object_lock_configuration(Bucket=bucket)
    except botocore.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "ObjectLockConfigurationNotFoundError"
        return False
    return True


def remove(control, **version):
    """Removes a version, as soon as a retention that no request can shorten has ended."""
    deadline = time.monotonic() + RETENTION_SECONDS
    while True:
        try:
            return control.delete_object(**version)
        except botocore.exceptions.ClientError as error:
            locked = error.response["Error"]["Code"] == "AccessDenied"
            if not locked or time.monotonic() > deadline:
                raise
            time.sleep(1)


@pytest.fixture(scope="session")
def sweep(control):
    """Removes all buckets with their content, so that a failed case leaves nothing for the next one."""

    def run():
        for bucket in control.list_buckets()["Buckets"]:
            name = bucket["Name"]
            # A policy that a case left may keep its own owner out.
            control.delete_bucket_policy(Bucket=name)
            for upload in control.list_multipart_uploads(Bucket=name).get("Uploads", []):
                control.abort_multipart_upload(
                    Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"]
                )
            bypass = {"BypassGovernanceRetention": True} if locks(control, name) else {}
            for page in control.get_paginator("list_object_versions").paginate(Bucket=name):
                for entry in page.get("Versions", []) + page.get("DeleteMarkers", []):
                    version = {"Key": entry["Key"], "VersionId": entry["VersionId"]}
                    if bypass and "Size" in entry:
                        off = {"Status": "OFF"}
                        control.put_object_legal_hold(Bucket=name, **version, LegalHold=off)
                    remove(control, Bucket=name, **version, **bypass)
            control.delete_bucket(Bucket=name)

    return run


@pytest.fixture
def bucket(control):
    """A bucket of a test's own; the server goes away with what is left in it."""
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name)
    return name
