"""boto3, low level: server-side encryption with keys of a key management service (SSE-KMS).

Where AWS and the reference differ, the tests follow AWS: its documentation and recorded responses.
"""

import base64
import hashlib
import json

import boto3
import pytest
from botocore.config import Config

import versions
from conftest import watch_retries
from encryption import (
    NONE,
    PREFIX,
    S3,
    applied,
    chosen,
    content,
    kms,
    send_headers,
    set_default,
)
from people import add_person
from server import refused
from test_boto3_forms import send, send_form

MIB = 1 << 20
# In a record, in a pack, and in a block.
SIZES = [1, 70_000, 5 * MIB]

pytestmark = pytest.mark.ashlar("the reference has no key management service")


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


@pytest.fixture
def mode(server):
    """SSE-KMS with the key that the server's key management service has."""
    return kms(server.kms_key)


def keys_of(s3, bucket):
    return [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


@pytest.mark.parametrize("size", SIZES)
def test_each_answer_names_the_key(s3, bucket, mode, size):
    at, body = {"Bucket": bucket, "Key": "k"}, content(size)
    put = s3.put_object(**at, Body=body, **mode.new)
    head, found = s3.head_object(**at), s3.get_object(**at)
    part = s3.get_object(**at, Range=f"bytes={size // 2}-{size // 2 + 9}")
    copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource=at, **mode.new)
    for answer in (put, head, found, part, copy):
        assert applied(answer) == mode.answer
    assert head["ContentLength"] == size and found["Body"].read() == body
    assert part["Body"].read() == body[size // 2 : size // 2 + 10]
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == body
    # Encryption changes no entity tag of this gateway.
    plain = s3.put_object(Bucket=bucket, Key="plain", Body=body)
    assert applied(plain) == NONE.answer and put["ETag"] == plain["ETag"]


def test_each_step_of_an_upload_names_the_key(s3, bucket, mode):
    at, first = {"Bucket": bucket, "Key": "k"}, content(5 * MIB)
    created = s3.create_multipart_upload(**at, **mode.new)
    upload = {**at, "UploadId": created["UploadId"]}
    one = s3.upload_part(**upload, PartNumber=1, Body=first)
    s3.put_object(Bucket=bucket, Key="source", Body=b"the end")
    two = s3.upload_part_copy(**upload, PartNumber=2, CopySource=f"{bucket}/source")
    parts = [
        {"PartNumber": 1, "ETag": one["ETag"]},
        {"PartNumber": 2, "ETag": two["CopyPartResult"]["ETag"]},
    ]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    second = s3.get_object(**at, PartNumber=2)
    for answer in (created, one, two, done, second, s3.head_object(**at)):
        assert applied(answer) == mode.answer
    assert second["Body"].read() == b"the end"
    assert s3.get_object(**at)["Body"].read() == first + b"the end"


def test_a_bucket_encrypts_by_default_with_its_key(s3, bucket, mode, server):
    set_default(s3, bucket, "aws:kms", server.kms_key, BucketKeyEnabled=True)
    [rule] = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": server.kms_key}
    assert rule == {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}
    source = {"Bucket": bucket, "Key": "a"}
    plain = s3.put_object(**source, Body=b"x")
    # A request without a key means the key of the bucket.
    named = s3.put_object(Bucket=bucket, Key="b", Body=b"x", ServerSideEncryption="aws:kms")
    copy = s3.copy_object(Bucket=bucket, Key="c", CopySource=source)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="d")
    for answer in (plain, named, copy, upload, s3.head_object(Bucket=bucket, Key="c")):
        assert applied(answer) == mode.answer
    s3.abort_multipart_upload(Bucket=bucket, Key="d", UploadId=upload["UploadId"])
    # The mode of a request has precedence.
    other = s3.put_object(Bucket=bucket, Key="e", Body=b"x", **S3.new)
    assert applied(other) == S3.answer
    set_default(s3, bucket, "AES256")
    assert applied(s3.head_object(**source)) == mode.answer
    assert s3.get_object(**source)["Body"].read() == b"x"
    assert applied(s3.put_object(**source, Body=b"y")) == S3.answer


def test_a_key_without_a_default_must_be_named(s3, bucket):
    put = {"Bucket": bucket, "Key": "k", "Body": b"x", "ServerSideEncryption": "aws:kms"}
    with refused("KMS.NotFoundException", status=400):
        s3.put_object(**put)
    set_default(s3, bucket, "AES256")
    with refused("KMS.NotFoundException", status=400):
        s3.put_object(**put)


def test_an_unknown_key_is_refused_and_leaves_nothing(s3, bucket, server):
    unknown, to = kms("no-such-key").new, {"Bucket": bucket, "Key": "k"}
    source = {"Bucket": bucket, "Key": "source"}
    s3.put_object(**source, Body=content(70_000))
    with refused("KMS.NotFoundException", status=400):
        s3.put_object(**to, Body=b"x", **unknown)
    with refused("KMS.NotFoundException", status=400):
        s3.copy_object(**to, CopySource=source, **unknown)
    with refused("KMS.NotFoundException", status=400):
        s3.create_multipart_upload(**to, **unknown)
    with refused("KMS.NotFoundException", status=400):
        set_default(s3, bucket, "aws:kms", "no-such-key")
    fields = kms("no-such-key").named()
    post = s3.generate_presigned_post(bucket, "k", fields, [{k: v} for k, v in fields.items()])
    status, _, text = send_form(server, post["url"], post["fields"], b"x")
    assert status == 400 and b"<Code>KMS.NotFoundException</Code>" in text
    assert keys_of(s3, bucket) == ["source"]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    with refused("ServerSideEncryptionConfigurationNotFoundError", status=404):
        s3.get_bucket_encryption(Bucket=bucket)


def test_the_key_may_be_named_as_an_arn(s3, bucket, server):
    # mc and clients that were written for MinIO send this form.
    arn = kms(f"arn:aws:kms:{server.kms_key}")
    at = {"Bucket": bucket, "Key": "k"}
    named = applied(s3.put_object(**at, Body=b"x", **arn.new))[f"{PREFIX}-aws-kms-key-id"]
    assert named.removeprefix("arn:aws:kms:") == server.kms_key
    assert s3.get_object(**at)["Body"].read() == b"x"
    # Both forms name one key.
    copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource=at, **kms(server.kms_key).new)
    assert applied(copy) == kms(server.kms_key).answer


def test_wrong_headers_are_refused(s3, bucket, mode, server):
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    with refused("InvalidArgument", status=400):
        s3.put_object(**put, SSEKMSKeyId=server.kms_key)
    with refused("InvalidArgument", status=400):
        s3.put_object(**put, SSEKMSKeyId=server.kms_key, ServerSideEncryption="AES256")
    with refused("InvalidArgument", status=400):
        s3.put_object(**put, **mode.new, SSEKMSEncryptionContext="not base64 of JSON")
    # A context would have to be checked with each object, and one data key serves many.
    context = base64.b64encode(json.dumps({"team": "stone"}).encode()).decode()
    with refused("NotImplemented", status=501):
        s3.put_object(**put, **mode.new, SSEKMSEncryptionContext=context)
    assert keys_of(s3, bucket) == []


def test_a_bucket_key_is_always_used(s3, bucket, mode):
    for asked in (True, False):
        put = s3.put_object(Bucket=bucket, Key="k", Body=b"x", **mode.new, BucketKeyEnabled=asked)
        assert applied(put) == mode.answer


def test_reads_must_not_name_a_mode(server, s3, bucket, mode):
    at = {"Bucket": bucket, "Key": "k"}
    s3.put_object(**at, Body=b"x", **mode.new)
    s3.put_object(Bucket=bucket, Key="plain", Body=b"x")
    other = boto3.client("s3", **server.aws_settings())
    send_headers(other, mode.named())
    for key in ("k", "plain"):
        with refused("InvalidArgument", status=400):
            other.get_object(Bucket=bucket, Key=key)
        with refused("400", status=400):
            other.head_object(Bucket=bucket, Key=key)


def test_a_step_of_an_upload_may_repeat_the_mode(s3, bucket, mode):
    at = {"Bucket": bucket, "Key": "k"}
    upload = {**at, "UploadId": s3.create_multipart_upload(**at, **mode.new)["UploadId"]}
    sent = send_headers(s3, mode.named())
    part = s3.upload_part(**upload, PartNumber=1, Body=b"x")
    assert applied(part) == mode.answer
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    sent.clear()
    sent.update(S3.named())
    with refused("InvalidRequest", status=400):
        s3.upload_part(**upload, PartNumber=1, Body=b"x")
    with refused("InvalidRequest", status=400):
        s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    sent.update(mode.named())
    assert applied(s3.complete_multipart_upload(**upload, MultipartUpload=parts)) == mode.answer


def test_a_form_is_encrypted_with_the_key(server, s3, bucket, mode):
    fields = mode.named()
    post = s3.generate_presigned_post(bucket, "k", fields, [{k: v} for k, v in fields.items()])
    status, headers, text = send_form(server, post["url"], post["fields"], b"hello")
    assert (status, chosen(headers)) == (204, mode.answer), text
    found = s3.get_object(Bucket=bucket, Key="k")
    assert applied(found) == mode.answer and found["Body"].read() == b"hello"
    # A form without the fields gets the default of the bucket.
    set_default(s3, bucket, "aws:kms", server.kms_key)
    post = s3.generate_presigned_post(bucket, "other")
    status, headers, text = send_form(server, post["url"], post["fields"], b"hello")
    assert (status, chosen(headers)) == (204, mode.answer), text


def test_presigned_urls_have_the_key(server, bucket, mode):
    s3 = boto3.client("s3", config=Config(signature_version="s3v4"), **server.aws_settings())
    at = {"Bucket": bucket, "Key": "k"}
    url = s3.generate_presigned_url("put_object", {**at, **mode.new})
    named = mode.named()
    status, headers, text = send(server, "PUT", url, b"hello", named)
    assert (status, chosen(headers)) == (200, mode.answer), text
    # The headers are signed, so a client can neither drop nor change them.
    assert send(server, "PUT", url, b"other")[0] == 403
    assert send(server, "PUT", url, b"other", {**named, PREFIX: "AES256"})[0] == 403
    status, headers, text = send(server, "GET", s3.generate_presigned_url("get_object", at))
    assert (status, text, chosen(headers)) == (200, b"hello", mode.answer)


def test_checksums_are_of_the_content(s3, bucket, mode):
    at, body = {"Bucket": bucket, "Key": "k"}, content(70_000)
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    put = s3.put_object(**at, Body=body, ChecksumAlgorithm="SHA256", **mode.new)
    head = s3.head_object(**at, ChecksumMode="ENABLED")
    assert put["ChecksumSHA256"] == head["ChecksumSHA256"] == digest
    attributes = s3.get_object_attributes(**at, ObjectAttributes=["Checksum", "ObjectSize"])
    assert attributes["Checksum"]["ChecksumSHA256"] == digest
    assert attributes["ObjectSize"] == len(body)
    wrong = base64.b64encode(bytes(16)).decode()
    with refused("BadDigest", status=400):
        s3.put_object(**at, Body=body, ContentMD5=wrong, **mode.new)


def test_changes_of_an_object_keep_its_key(s3, bucket, mode):
    s3.put_object(Bucket=bucket, Key="a", Body=b"ab", **mode.new)
    more = s3.put_object(Bucket=bucket, Key="a", Body=b"cd", WriteOffsetBytes=2)
    assert applied(more) == mode.answer
    s3.rename_object(Bucket=bucket, Key="b", RenameSource="a")
    found = s3.get_object(Bucket=bucket, Key="b")
    assert applied(found) == mode.answer and found["Body"].read() == b"abcd"


def test_each_version_has_its_own_mode(s3, bucket, mode):
    versions.enable(s3, bucket)
    at = {"Bucket": bucket, "Key": "k"}
    put = {
        s3.put_object(**at, Body=str(number).encode(), **one.new)["VersionId"]: (number, one)
        for number, one in enumerate((mode, NONE, S3, mode))
    }
    for version, (number, one) in put.items():
        found = s3.get_object(**at, VersionId=version)
        assert applied(found) == one.answer and found["Body"].read() == str(number).encode()


def test_a_policy_requires_the_key(server, s3, bucket, mode):
    writer = add_person(server, ["readwrite"]).s3
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    key = {f"s3:{PREFIX}-aws-kms-key-id": server.kms_key}
    statements = [
        {**statement, "Condition": {"StringNotEquals": {f"s3:{PREFIX}": "aws:kms"}}},
        {**statement, "Condition": {"StringNotEqualsIfExists": key}},
    ]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    for other in (NONE, S3, kms("another-key")):
        with refused("AccessDenied", status=403):
            writer.put_object(**put, **other.new)
    assert applied(writer.put_object(**put, **mode.new)) == mode.answer
