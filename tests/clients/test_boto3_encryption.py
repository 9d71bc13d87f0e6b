"""boto3, low level: server-side encryption with keys of the volume (SSE-S3), and the default of a
bucket.

Where AWS and the reference differ, the tests follow AWS: its documentation and recorded responses.
"""

import json

import boto3
import pytest
from botocore.config import Config

from conftest import watch_retries
from encryption import S3, content, customer, set_default
from people import add_person
from server import refused
from test_boto3_forms import send, send_form

MIB = 1 << 20
# In a record, in a pack, in a block, and in several blocks.
SIZES = [1, 4096, 70_000, 5 * MIB, 20 * MIB]
# MinIO needs a key management service for each mode.
OURS = pytest.mark.ashlar("the reference has no key management service")


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


def mode_of(answer):
    return answer.get("ServerSideEncryption")


@OURS
@pytest.mark.parametrize("size", SIZES)
def test_an_encrypted_object_reads_as_it_was_written(s3, bucket, size):
    body = content(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ServerSideEncryption="AES256")
    assert mode_of(put) == "AES256"
    found = s3.get_object(Bucket=bucket, Key="k")
    assert mode_of(found) == "AES256" and found["Body"].read() == body
    assert put["ETag"] == found["ETag"]
    head = s3.head_object(Bucket=bucket, Key="k")
    assert mode_of(head) == "AES256" and head["ContentLength"] == size
    part = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={size // 2}-{size // 2 + 9}")
    assert mode_of(part) == "AES256" and part["Body"].read() == body[size // 2 : size // 2 + 10]


@OURS
def test_the_etag_is_the_md5_of_the_content(s3, bucket):
    for size in (10, 5 * MIB):
        body = content(size)
        plain = s3.put_object(Bucket=bucket, Key="a", Body=body)["ETag"]
        secret = s3.put_object(Bucket=bucket, Key="b", Body=body, ServerSideEncryption="AES256")
        assert plain == secret["ETag"]


@OURS
def test_each_step_of_an_upload_names_the_mode(s3, bucket):
    at = {"Bucket": bucket, "Key": "k"}
    created = s3.create_multipart_upload(**at, ServerSideEncryption="AES256")
    assert mode_of(created) == "AES256"
    upload = {**at, "UploadId": created["UploadId"]}
    first, second = content(5 * MIB), b"the end"
    one = s3.upload_part(**upload, PartNumber=1, Body=first)
    assert mode_of(one) == "AES256"
    s3.put_object(Bucket=bucket, Key="source", Body=second)
    two = s3.upload_part_copy(**upload, PartNumber=2, CopySource=f"{bucket}/source")
    assert mode_of(two) == "AES256"
    parts = [
        {"PartNumber": 1, "ETag": one["ETag"]},
        {"PartNumber": 2, "ETag": two["CopyPartResult"]["ETag"]},
    ]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert mode_of(done) == "AES256"
    found = s3.get_object(**at)
    assert mode_of(found) == "AES256" and found["Body"].read() == first + second


@OURS
def test_a_copy_to_itself_changes_the_mode(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    source = {"Bucket": bucket, "Key": "k", "CopySource": f"{bucket}/k"}
    with refused("InvalidRequest", status=400):
        s3.copy_object(**source)
    assert mode_of(s3.copy_object(**source, ServerSideEncryption="AES256")) == "AES256"
    found = s3.get_object(Bucket=bucket, Key="k")
    assert mode_of(found) == "AES256" and found["Body"].read() == b"x"


@OURS
def test_a_bucket_encrypts_by_default(s3, bucket):
    with refused("ServerSideEncryptionConfigurationNotFoundError", status=404):
        s3.get_bucket_encryption(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="before", Body=b"x")
    set_default(s3, bucket, "AES256")
    found = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]
    default = {"SSEAlgorithm": "AES256"}
    rule = {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": False}
    assert found == {"Rules": [rule]}
    assert mode_of(s3.put_object(Bucket=bucket, Key="after", Body=b"y")) == "AES256"
    assert mode_of(s3.get_object(Bucket=bucket, Key="after")) == "AES256"
    # The default is for new objects only.
    assert mode_of(s3.head_object(Bucket=bucket, Key="before")) is None
    copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/before")
    assert mode_of(copy) == "AES256"
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")
    assert mode_of(upload) == "AES256"
    s3.abort_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload["UploadId"])
    s3.delete_bucket_encryption(Bucket=bucket)
    s3.delete_bucket_encryption(Bucket=bucket)
    with refused("ServerSideEncryptionConfigurationNotFoundError", status=404):
        s3.get_bucket_encryption(Bucket=bucket)
    assert mode_of(s3.put_object(Bucket=bucket, Key="later", Body=b"z")) is None
    assert mode_of(s3.head_object(Bucket=bucket, Key="after")) == "AES256"


@OURS
def test_an_append_keeps_the_mode(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"ab", ServerSideEncryption="AES256")
    more = s3.put_object(Bucket=bucket, Key="k", Body=b"cd", WriteOffsetBytes=2)
    assert mode_of(more) == "AES256"
    found = s3.get_object(Bucket=bucket, Key="k")
    assert mode_of(found) == "AES256" and found["Body"].read() == b"abcd"


@OURS
@pytest.mark.parametrize("size", [2, 70_000])
def test_an_append_cannot_name_another_mode(s3, bucket, size):
    body, key = content(size), customer("a")
    plain, secret = {"Bucket": bucket, "Key": "plain"}, {"Bucket": bucket, "Key": "secret"}
    s3.put_object(**plain, Body=body)
    s3.put_object(**secret, Body=body, **S3.new)
    more = {"Body": b"cd", "WriteOffsetBytes": size}
    with refused("EncryptionTypeMismatch", "InvalidRequest", status=400):
        s3.put_object(**plain, **more, **S3.new)
    for at in (plain, secret):
        with refused("EncryptionTypeMismatch", "InvalidRequest", status=400):
            s3.put_object(**at, **more, **key.new)
        assert s3.get_object(**at)["Body"].read() == body
    # The same mode may be named.
    s3.put_object(**secret, **more, **S3.new)
    assert s3.get_object(**secret)["Body"].read() == body + b"cd"


@OURS
def test_a_form_is_encrypted(server, s3, bucket):
    field = {"x-amz-server-side-encryption": "AES256"}
    post = s3.generate_presigned_post(bucket, "k", Fields=field, Conditions=[field])
    status, headers, _ = send_form(server, post["url"], post["fields"], b"hello")
    assert (status, headers["x-amz-server-side-encryption"]) == (204, "AES256")
    found = s3.get_object(Bucket=bucket, Key="k")
    assert mode_of(found) == "AES256" and found["Body"].read() == b"hello"


@OURS
@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_a_presigned_url_names_the_mode(server, bucket, version):
    s3 = boto3.client("s3", config=Config(signature_version=version), **server.aws_settings())
    what = {"Bucket": bucket, "Key": "k", "ServerSideEncryption": "AES256"}
    url = s3.generate_presigned_url("put_object", what)
    # The header is signed, so the client sends it, too. Version 2 has it in the query.
    headers = {"x-amz-server-side-encryption": "AES256"} if version == "s3v4" else {}
    status, answer, text = send(server, "PUT", url, b"hello", headers)
    assert (status, answer["x-amz-server-side-encryption"]) == (200, "AES256"), text
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    status, answer, text = send(server, "GET", url)
    assert (status, text) == (200, b"hello")
    assert answer["x-amz-server-side-encryption"] == "AES256"


@OURS
def test_wrong_modes_are_refused(s3, bucket):
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    for wrong in ("aes:kms", "AES512", "aws:fsx"):
        with refused("InvalidArgument", status=400):
            s3.put_object(**put, ServerSideEncryption=wrong)
    with refused("InvalidArgument", status=400):
        s3.put_object(**put, ServerSideEncryption="AES256", SSEKMSKeyId="k")
    with refused("InvalidArgument", status=400):
        s3.put_object(**put, SSEKMSKeyId="k")
    with refused("NotImplemented", status=501):
        s3.put_object(**put, ServerSideEncryption="aws:kms:dsse")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


@OURS
def test_a_policy_requires_encryption(server, s3, bucket):
    writer = add_person(server, ["readwrite"]).s3
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"Null": {"s3:x-amz-server-side-encryption": "true"}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    with refused("AccessDenied", status=403):
        writer.put_object(**put)
    assert mode_of(writer.put_object(**put, ServerSideEncryption="AES256")) == "AES256"
    upload = writer.create_multipart_upload(
        Bucket=bucket, Key="parts", ServerSideEncryption="AES256"
    )
    parts = {"Bucket": bucket, "Key": "parts", "UploadId": upload["UploadId"]}
    assert mode_of(writer.upload_part(**parts, PartNumber=1, Body=b"x")) == "AES256"
    writer.abort_multipart_upload(**parts)
