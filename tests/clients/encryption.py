"""Modes of server-side encryption: the arguments of requests, and the headers of answers."""

import base64
import hashlib
from dataclasses import dataclass, field

PREFIX = "x-amz-server-side-encryption"


class CustomerKey:
    """The key of a client (SSE-C): 32 bytes that do not depend on the run.

    botocore encodes a key only in some operations, so each request here has the encoded key and its
    MD5.
    """

    def __init__(self, label):
        self.bytes = hashlib.sha256(label.encode()).digest()
        self.text = base64.b64encode(self.bytes).decode()
        self.md5 = base64.b64encode(hashlib.md5(self.bytes).digest()).decode()

    def arguments(self, prefix=""):
        """Returns the arguments of a request. The prefix of a copy's source is `CopySource`."""
        return {
            f"{prefix}SSECustomerAlgorithm": "AES256",
            f"{prefix}SSECustomerKey": self.text,
            f"{prefix}SSECustomerKeyMD5": self.md5,
        }

    def headers(self):
        """Returns the headers of a request without botocore, or the fields of a form."""
        return {
            f"{PREFIX}-customer-algorithm": "AES256",
            f"{PREFIX}-customer-key": self.text,
            f"{PREFIX}-customer-key-MD5": self.md5,
        }

    def applied(self):
        """Returns the headers of an answer about an object under this key."""
        return {
            f"{PREFIX}-customer-algorithm": "AES256",
            f"{PREFIX}-customer-key-md5": self.md5,
        }


@dataclass(frozen=True)
class Mode:
    """A mode of encryption."""

    # The arguments of a request that makes an object or begins an upload.
    new: dict = field(default_factory=dict)
    # The arguments of each request for a part or for the object.
    own: dict = field(default_factory=dict)
    # The arguments about the source of a copy.
    source: dict = field(default_factory=dict)
    # The headers of each answer.
    answer: dict = field(default_factory=dict)

    def named(self):
        """Returns the headers that name SSE-S3 or SSE-KMS in a request, or the fields of a form."""
        bucket_key = f"{PREFIX}-bucket-key-enabled"
        return {name: value for name, value in self.answer.items() if name != bucket_key}


NONE = Mode()
S3 = Mode({"ServerSideEncryption": "AES256"}, answer={PREFIX: "AES256"})


def kms(key):
    """Returns SSE-KMS with this key of the key management service."""
    new = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    answer = {
        PREFIX: "aws:kms",
        f"{PREFIX}-aws-kms-key-id": key,
        f"{PREFIX}-bucket-key-enabled": "true",
    }
    return Mode(new, answer=answer)


def customer(label):
    """Returns SSE-C with the key of this label."""
    key = CustomerKey(label)
    arguments = key.arguments()
    return Mode(arguments, arguments, key.arguments("CopySource"), key.applied())


def applied(answer):
    """Returns the headers of encryption of an answer of boto3."""
    return chosen(answer["ResponseMetadata"]["HTTPHeaders"])


def chosen(headers):
    """Returns those of these headers that are about encryption, with lower-case names."""
    return {
        name.lower(): value for name, value in headers.items() if name.lower().startswith(PREFIX)
    }


def send_headers(s3, headers):
    """Adds headers to each request of a client. Returns them, so that a test can change them."""
    headers = dict(headers)

    def add(request, **_):
        for name, value in headers.items():
            request.headers[name] = value

    s3.meta.events.register("before-sign.s3", add)
    return headers


def content(size):
    """Returns bytes that look random and do not depend on the run."""
    return hashlib.shake_128(b"content").digest(size)


def set_default(s3, bucket, algorithm, key=None, **rule):
    """Sets the default encryption of a bucket."""
    default = {"SSEAlgorithm": algorithm, **({"KMSMasterKeyID": key} if key else {})}
    rule = {"ApplyServerSideEncryptionByDefault": default, **rule}
    s3.put_bucket_encryption(
        Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]}
    )
