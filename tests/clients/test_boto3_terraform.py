"""boto3, low level: the requests of Terraform with encryption, in its order and with its arguments.

The first part is the backend `s3` with `encrypt = true` and `use_lockfile = true`, the second the
resource `aws_s3_bucket_server_side_encryption_configuration` of the AWS provider.
"""

import json

import boto3
import pytest

from conftest import watch_retries
from encryption import NONE, S3, applied, customer, kms
from server import refused

STATE, LOCK = "env/prod/terraform.tfstate", "env/prod/terraform.tfstate.tflock"
# The backend sends a checksum with each write.
WRITE = {"ContentType": "application/json", "ChecksumAlgorithm": "SHA256"}

pytestmark = pytest.mark.ashlar("the reference has no key management service")


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


class Backend:
    """The backend `s3`, which keeps a state and its lock in a bucket."""

    def __init__(self, s3, bucket, mode):
        self.s3, self.bucket, self.mode = s3, bucket, mode

    def lock(self, who):
        """Creates the lock. Fails with `PreconditionFailed` if there is one."""
        body = json.dumps({"ID": who, "Operation": "OperationTypeApply"}).encode()
        at = {"Bucket": self.bucket, "Key": LOCK}
        return self.s3.put_object(**at, **WRITE, Body=body, IfNoneMatch="*", **self.mode.new)

    def holder(self):
        found = self.s3.get_object(Bucket=self.bucket, Key=LOCK, **self.mode.own)
        return json.loads(found["Body"].read())["ID"]

    def unlock(self):
        self.s3.delete_object(Bucket=self.bucket, Key=LOCK)

    def read(self):
        """Returns the state, or None."""
        at = {"Bucket": self.bucket, "Key": STATE, **self.mode.own}
        try:
            head = self.s3.head_object(**at)
        except self.s3.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "404"
            return None
        found = self.s3.get_object(**at)
        assert applied(head) == applied(found) == self.mode.answer
        return json.loads(found["Body"].read())

    def write(self, state):
        body = json.dumps(state).encode()
        at = {"Bucket": self.bucket, "Key": STATE}
        answer = self.s3.put_object(**at, **WRITE, Body=body, **self.mode.new)
        assert applied(answer) == self.mode.answer


@pytest.mark.parametrize("name", ["encrypt", "kms_key_id", "sse_customer_key"])
def test_a_state_and_its_lock_are_encrypted(server, s3, bucket, name):
    modes = {
        "encrypt": lambda: S3,
        "kms_key_id": lambda: kms(server.kms_key),
        "sse_customer_key": lambda: customer("a"),
    }
    backend = Backend(s3, bucket, modes[name]())
    assert backend.read() is None
    for serial in (1, 2):
        assert applied(backend.lock("first")) == backend.mode.answer
        with refused("PreconditionFailed", status=412):
            backend.lock("second")
        assert backend.holder() == "first"
        backend.write({"serial": serial, "resources": ["x" * 10_000]})
        assert backend.read()["serial"] == serial
        backend.unlock()
    with refused("NoSuchKey", status=404):
        backend.holder()
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="env/")["Contents"]
    assert [each["Key"] for each in listed] == [STATE]


def configure(s3, bucket, default, **more):
    """Puts a rule of the provider, which always has `BucketKeyEnabled`, and reads it back."""
    rule = {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": False, **more}
    s3.put_bucket_encryption(
        Bucket=bucket,
        ServerSideEncryptionConfiguration={"Rules": [rule]},
        ChecksumAlgorithm="CRC32",
    )
    found = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]
    # A difference would be a change in each later plan.
    assert found == {"Rules": [rule]}


def test_a_configuration_is_read_back_as_it_was_written(server, s3, bucket):
    kms_key = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": server.kms_key}
    with refused("ServerSideEncryptionConfigurationNotFoundError", status=404):
        s3.get_bucket_encryption(Bucket=bucket)
    for default, mode in (({"SSEAlgorithm": "AES256"}, S3), (kms_key, kms(server.kms_key))):
        for bucket_key in (False, True):
            configure(s3, bucket, default, BucketKeyEnabled=bucket_key)
        assert applied(s3.put_object(Bucket=bucket, Key="k", Body=b"x")) == mode.answer
        # Since 2026 the provider reads and writes the blocked types, too.
        for kind in ("NONE", "SSE-C"):
            configure(s3, bucket, default, BlockedEncryptionTypes={"EncryptionType": [kind]})
    s3.delete_bucket_encryption(Bucket=bucket)
    with refused("ServerSideEncryptionConfigurationNotFoundError", status=404):
        s3.get_bucket_encryption(Bucket=bucket)
    assert applied(s3.put_object(Bucket=bucket, Key="k", Body=b"x")) == NONE.answer


def test_an_object_of_the_provider_keeps_its_encryption(server, s3, bucket):
    mode, at = kms(server.kms_key), {"Bucket": bucket, "Key": "object"}
    # aws_s3_object with kms_key_id and bucket_key_enabled.
    put = s3.put_object(
        **at, Body=b"x", **mode.new, BucketKeyEnabled=True, ChecksumAlgorithm="CRC32"
    )
    head = s3.head_object(**at, ChecksumMode="ENABLED")
    assert applied(put) == applied(head) == mode.answer
    assert head["BucketKeyEnabled"] and head["SSEKMSKeyId"] == server.kms_key
    # aws_s3_object_copy with server_side_encryption.
    copy = s3.copy_object(**{**at, "Key": "copy"}, CopySource=f"{bucket}/object", **S3.new)
    assert applied(copy) == S3.answer
