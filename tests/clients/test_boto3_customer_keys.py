"""boto3, low level: server-side encryption with keys that clients send with each request (SSE-C).

The tests follow AWS: its documentation and recorded responses. A wrong key is an exception: S3
answers 403, and this gateway 400, as Ceph's gateway does.
"""

import base64
import hashlib
import json
import zlib

import boto3
import pytest
from botocore.config import Config

import versions
from conftest import watch_retries
from encryption import (
    NONE,
    PREFIX,
    S3,
    CustomerKey,
    applied,
    chosen,
    content,
    customer,
    send_headers,
    set_default,
)
from people import add_person
from server import random_file, refused, sha256_of
from test_boto3_forms import send, send_form

MIB = 1 << 20
# In a record, at its limit, in one block, and in several.
SIZES = [1, 4096, 70_000, 20 * MIB]
KEY = CustomerKey("a")
A, B = customer("a"), customer("b")

pytestmark = pytest.mark.ashlar("the reference accepts keys of clients over TLS only")


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


@pytest.fixture
def other(server):
    """A client that may repeat requests. botocore repeats a HEAD that is answered with 400."""
    return boto3.client("s3", config=Config(signature_version="s3v4"), **server.aws_settings())


@pytest.fixture
def stored(s3, bucket):
    """Ten bytes under the first key."""
    at = {"Bucket": bucket, "Key": "k"}
    s3.put_object(**at, Body=b"0123456789", **A.new)
    return at


def md5_etag(body):
    return f'"{hashlib.md5(body).hexdigest()}"'


@pytest.mark.parametrize("size", SIZES)
def test_an_object_reads_as_it_was_written(s3, bucket, size):
    at, body = {"Bucket": bucket, "Key": "k"}, content(size)
    put = s3.put_object(**at, Body=body, **A.new)
    head, found = s3.head_object(**at, **A.own), s3.get_object(**at, **A.own)
    for answer in (put, head, found):
        assert applied(answer) == A.answer
    assert head["ContentLength"] == size and found["Body"].read() == body
    assert put["ETag"] == head["ETag"] == found["ETag"] != md5_etag(body)
    middle = size // 2
    for start, end in ((0, 0), (middle, middle + 9), (max(size - 17, 0), size - 1)):
        part = s3.get_object(**at, **A.own, Range=f"bytes={start}-{end}")
        assert part["Body"].read() == body[start : end + 1]
    [listed] = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert (listed["Size"], listed["ETag"]) == (size, put["ETag"])


def test_the_same_content_has_another_etag(s3, bucket):
    put = {"Bucket": bucket, "Key": "k", "Body": b"x", **A.new}
    assert s3.put_object(**put)["ETag"] != s3.put_object(**put)["ETag"]


def test_reads_need_the_key(s3, other, stored):
    with refused("InvalidRequest", status=400):
        s3.get_object(**stored)
    with refused("InvalidRequest", status=400):
        s3.get_object(**stored, Range="bytes=0-1")
    with refused("400", status=400):
        other.head_object(**stored)
    with refused("400", status=400):
        other.head_object(**stored, **B.own)
    with refused("InvalidRequest", status=400):
        s3.get_object_attributes(**stored, ObjectAttributes=["ETag"])
    with refused("InvalidRequest", status=400):
        s3.copy_object(**{**stored, "Key": "copy"}, CopySource=stored)
    with refused("InvalidArgument", status=400):
        s3.get_object(**stored, **B.own)
    with refused("InvalidArgument", status=400):
        s3.get_object_attributes(**stored, ObjectAttributes=["ETag"], **B.own)
    with refused("InvalidArgument", status=400):
        s3.copy_object(**{**stored, "Key": "copy"}, CopySource=stored, **B.source)


@pytest.mark.parametrize("mode", [NONE, S3], ids=["none", "sse-s3"])
def test_an_object_of_another_mode_needs_no_key(s3, other, bucket, mode):
    at = {"Bucket": bucket, "Key": "k"}
    s3.put_object(**at, Body=b"x", **mode.new)
    with refused("InvalidRequest", status=400):
        s3.get_object(**at, **A.own)
    with refused("400", status=400):
        other.head_object(**at, **A.own)
    with refused("InvalidRequest", status=400):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=at, **A.source)


def test_attributes_need_the_key(s3, bucket):
    at = {"Bucket": bucket, "Key": "k"}
    put = s3.put_object(**at, Body=b"0123456789", ChecksumAlgorithm="SHA256", **A.new)
    wanted = ["ETag", "Checksum", "ObjectSize"]
    found = s3.get_object_attributes(**at, ObjectAttributes=wanted, **A.own)
    assert (found["ETag"], found["ObjectSize"]) == (put["ETag"].strip('"'), 10)
    digest = base64.b64encode(hashlib.sha256(b"0123456789").digest()).decode()
    assert found["Checksum"]["ChecksumSHA256"] == put["ChecksumSHA256"] == digest


def test_checksums_are_of_the_content(s3, bucket):
    put = {"Bucket": bucket, "Key": "k", "Body": b"0123456789", **A.new}
    right = base64.b64encode(hashlib.md5(b"0123456789").digest()).decode()
    s3.put_object(**put, ContentMD5=right)
    wrong = base64.b64encode(bytes(16)).decode()
    with refused("BadDigest", status=400):
        s3.put_object(**put, ContentMD5=wrong)
    with refused("BadDigest", status=400):
        s3.put_object(**put, ChecksumCRC32="AAAAAA==")
    found = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED", **A.own)
    assert found["Body"].read() == b"0123456789"
    crc = zlib.crc32(b"0123456789").to_bytes(4, "big")
    assert found["ChecksumCRC32"] == base64.b64encode(crc).decode()


def test_conditions_apply_after_the_key(s3, stored):
    etag = s3.head_object(**stored, **A.own)["ETag"]
    with refused("304", status=304):
        s3.get_object(**stored, **A.own, IfNoneMatch=etag)
    with refused("PreconditionFailed", status=412):
        s3.get_object(**stored, **A.own, IfMatch='"0"')
    assert s3.get_object(**stored, **A.own, IfMatch=etag)["Body"].read() == b"0123456789"


def test_other_requests_need_no_key(s3, stored):
    tags = {"TagSet": [{"Key": "a", "Value": "1"}]}
    s3.put_object_tagging(**stored, Tagging=tags)
    assert s3.get_object_tagging(**stored)["TagSet"] == tags["TagSet"]
    assert s3.get_object_acl(**stored)["Grants"]
    s3.delete_object(**stored)
    with refused("NoSuchKey", status=404):
        s3.get_object(**stored, **A.own)


SHORT = base64.b64encode(b"1234567890").decode()
SHORT_MD5 = base64.b64encode(hashlib.md5(b"1234567890").digest()).decode()
WRONG = {
    "no algorithm": ({"algorithm": None}, "InvalidArgument"),
    "another algorithm": ({"algorithm": "AES192"}, "InvalidEncryptionAlgorithmError"),
    "no key": ({"key": None}, "InvalidArgument"),
    "no MD5": ({"key-MD5": None}, "InvalidArgument"),
    "the MD5 of another key": ({"key-MD5": CustomerKey("b").md5}, "InvalidArgument"),
    "a short key": ({"key": SHORT, "key-MD5": SHORT_MD5}, "InvalidArgument"),
    "a key that is not base64": ({"key": "!" * 44}, "InvalidArgument"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_headers_are_refused(s3, other, stored, wrong):
    changes, code = WRONG[wrong]
    headers = KEY.headers()
    for name, value in changes.items():
        del headers[f"{PREFIX}-customer-{name}"]
        headers |= {f"{PREFIX}-customer-{name}": value} if value else {}

    send_headers(other, headers)
    with refused(code, status=400):
        other.put_object(**{**stored, "Key": "other"}, Body=b"x")
    with refused(code, status=400):
        other.create_multipart_upload(**stored)
    with refused(code, status=400):
        other.get_object(**stored)
    with refused("400", status=400):
        other.head_object(**stored)
    assert s3.list_objects_v2(Bucket=stored["Bucket"])["KeyCount"] == 1


def test_two_modes_are_refused(s3, bucket):
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    for other in (S3.new, {"ServerSideEncryption": "aws:kms"}):
        with refused("InvalidArgument", status=400):
            s3.put_object(**put, **A.new, **other)


def test_a_client_may_encode_the_key_itself_or_leave_it_to_botocore(s3, stored):
    raw = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": KEY.bytes}
    assert s3.get_object(**stored, **raw)["Body"].read() == b"0123456789"


@pytest.mark.parametrize("part", [5 * MIB, 5 * MIB + 1])
def test_an_upload_in_parts(s3, bucket, part):
    at, body = {"Bucket": bucket, "Key": "k"}, content(2 * part + 1000)
    created = s3.create_multipart_upload(**at, **A.new, Metadata={"foo": "bar"})
    upload = {**at, "UploadId": created["UploadId"]}
    pieces = [body[start : start + part] for start in range(0, len(body), part)]
    sent = [
        s3.upload_part(**upload, PartNumber=number, Body=piece, **A.own)
        for number, piece in enumerate(pieces, 1)
    ]
    parts = [{"PartNumber": number, "ETag": it["ETag"]} for number, it in enumerate(sent, 1)]
    assert [it["Size"] for it in s3.list_parts(**upload)["Parts"]] == list(map(len, pieces))
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **A.own)
    found, second = s3.get_object(**at, **A.own), s3.get_object(**at, **A.own, PartNumber=2)
    for answer in (created, *sent, done, found, second):
        assert applied(answer) == A.answer
    assert found["Body"].read() == body and found["Metadata"] == {"foo": "bar"}
    assert second["Body"].read() == pieces[1] and second["PartsCount"] == 3
    for start in (0, part - 5, part, 2 * part - 1, 2 * part + 990):
        ranged = s3.get_object(**at, **A.own, Range=f"bytes={start}-{start + 9}")
        assert ranged["Body"].read() == body[start : start + 10]
    with refused("InvalidArgument", status=400):
        s3.get_object(**at, **B.own)
    with refused("InvalidRequest", status=400):
        s3.get_object(**at, PartNumber=1)
    with refused("InvalidPart", "InvalidPartNumber", "InvalidRange"):
        s3.get_object(**at, **A.own, PartNumber=5)


def test_each_part_needs_the_key_of_its_upload(s3, bucket):
    at = {"Bucket": bucket, "Key": "k"}
    upload = {**at, "UploadId": s3.create_multipart_upload(**at, **A.new)["UploadId"]}
    part = {**upload, "PartNumber": 1}
    source = {"Bucket": bucket, "Key": "source"}
    s3.put_object(**source, Body=b"x")
    for wrong in (NONE, B):
        with refused("InvalidRequest", status=400):
            s3.upload_part(**part, Body=b"x", **wrong.own)
        with refused("InvalidRequest", status=400):
            s3.upload_part_copy(**part, CopySource=source, **wrong.own)
    with refused("InvalidArgument", status=400):
        s3.upload_part(**part, Body=b"x", **{**A.own, "SSECustomerKeyMD5": CustomerKey("b").md5})
    assert "Parts" not in s3.list_parts(**upload)
    sent = s3.upload_part(**part, Body=b"0123", **A.own)
    parts = {"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]}
    with refused("InvalidRequest", status=400):
        s3.complete_multipart_upload(**upload, MultipartUpload=parts, **B.own)
    # The completion needs no key.
    done = s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    found = s3.get_object(**at, **A.own)
    assert found["Body"].read() == b"0123" and found["ETag"] == done["ETag"]


def test_an_upload_without_a_key_takes_no_part_with_one(s3, bucket):
    at = {"Bucket": bucket, "Key": "k"}
    for mode in (NONE, S3):
        upload = {**at, "UploadId": s3.create_multipart_upload(**at, **mode.new)["UploadId"]}
        with refused("InvalidRequest", status=400):
            s3.upload_part(**upload, PartNumber=1, Body=b"x", **A.own)
        s3.abort_multipart_upload(**upload)


def test_files_of_the_high_level_client(s3, bucket, tmp_path):
    written = random_file(tmp_path / "up", 9 * MIB)
    s3.upload_file(str(tmp_path / "up"), bucket, "k", ExtraArgs=A.own)
    s3.download_file(bucket, "k", str(tmp_path / "down"), ExtraArgs=A.own)
    assert sha256_of(tmp_path / "down") == written
    s3.copy({"Bucket": bucket, "Key": "k"}, bucket, "copy", ExtraArgs={**A.source, **B.own})
    s3.download_file(bucket, "copy", str(tmp_path / "copy"), ExtraArgs=B.own)
    assert sha256_of(tmp_path / "copy") == written


def test_each_version_has_its_own_key(s3, bucket):
    versions.enable(s3, bucket)
    at = {"Bucket": bucket, "Key": "k"}
    old = s3.put_object(**at, Body=b"old", **A.new)["VersionId"]
    new = s3.put_object(**at, Body=b"new", **B.new)["VersionId"]
    assert s3.get_object(**at, VersionId=old, **A.own)["Body"].read() == b"old"
    assert s3.get_object(**at, VersionId=new, **B.own)["Body"].read() == b"new"
    assert s3.get_object(**at, **B.own)["Body"].read() == b"new"
    with refused("InvalidArgument", status=400):
        s3.get_object(**at, **A.own)


def test_a_key_has_precedence_over_the_default_of_a_bucket(s3, bucket):
    set_default(s3, bucket, "AES256")
    at = {"Bucket": bucket, "Key": "k"}
    assert applied(s3.put_object(**at, Body=b"x", **A.new)) == A.answer
    assert applied(s3.head_object(**at, **A.own)) == A.answer
    # A copy of it without a mode gets the default.
    copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource=at, **A.source)
    assert applied(copy) == S3.answer
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == b"x"


def test_a_copy_to_itself_replaces_the_key(s3, stored):
    copy = s3.copy_object(**stored, CopySource=stored, **A.source, **B.new)
    assert applied(copy) == B.answer
    assert s3.get_object(**stored, **B.own)["Body"].read() == b"0123456789"
    with refused("InvalidArgument", status=400):
        s3.get_object(**stored, **A.own)


def test_a_rename_keeps_the_key(s3, stored):
    s3.rename_object(Bucket=stored["Bucket"], Key="new", RenameSource=stored["Key"])
    found = s3.get_object(Bucket=stored["Bucket"], Key="new", **A.own)
    assert found["Body"].read() == b"0123456789"


def test_an_append_is_refused(s3, stored):
    for key in (NONE.new, A.new, B.new):
        with refused("InvalidRequest", "InvalidArgument", status=400):
            s3.put_object(**stored, Body=b"x", WriteOffsetBytes=10, **key)
    assert s3.get_object(**stored, **A.own)["Body"].read() == b"0123456789"


def test_a_form_has_the_key_in_its_fields(server, s3, bucket):
    fields = KEY.headers()
    post = s3.generate_presigned_post(bucket, "k", fields, [{k: v} for k, v in fields.items()])
    status, headers, text = send_form(server, post["url"], post["fields"], b"hello")
    assert (status, chosen(headers)) == (204, A.answer), text
    found = s3.get_object(Bucket=bucket, Key="k", **A.own)
    assert applied(found) == A.answer and found["Body"].read() == b"hello"


def test_a_presigned_url_needs_the_headers(server, other, bucket):
    at = {"Bucket": bucket, "Key": "k"}
    url = other.generate_presigned_url("put_object", {**at, **A.new})
    assert KEY.text not in url
    assert send(server, "PUT", url, b"hello")[0] == 403
    status, headers, text = send(server, "PUT", url, b"hello", KEY.headers())
    assert (status, chosen(headers)) == (200, A.answer), text
    url = other.generate_presigned_url("get_object", {**at, **A.own})
    status, headers, text = send(server, "GET", url, headers=KEY.headers())
    assert (status, text, chosen(headers)) == (200, b"hello", A.answer)
    assert send(server, "GET", url, headers=CustomerKey("b").headers())[0] == 403


def deny_put(bucket, condition):
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": condition,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_policy_requires_a_key(server, s3, bucket):
    writer = add_person(server, ["readwrite"]).s3
    algorithm = f"s3:{PREFIX}-customer-algorithm"
    s3.put_bucket_policy(Bucket=bucket, Policy=deny_put(bucket, {"Null": {algorithm: "true"}}))
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    with refused("AccessDenied", status=403):
        writer.put_object(**put)
    writer.put_object(**put, **A.new)
    s3.put_bucket_policy(Bucket=bucket, Policy=deny_put(bucket, {"Null": {algorithm: "false"}}))
    with refused("AccessDenied", status=403):
        writer.put_object(**put, **A.new)
    with refused("AccessDenied", status=403):
        writer.create_multipart_upload(Bucket=bucket, Key="k", **A.new)
    writer.put_object(**put)


def test_a_policy_decides_before_the_algorithm_is_checked(server, s3, bucket):
    writer = add_person(server, ["readwrite"]).s3
    condition = {"StringNotEquals": {f"s3:{PREFIX}-customer-algorithm": "AES256"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=deny_put(bucket, condition))
    wrong = {**A.new, "SSECustomerAlgorithm": "AES192"}
    with refused("AccessDenied", status=403):
        writer.put_object(Bucket=bucket, Key="k", Body=b"x", **wrong)
    writer.put_object(Bucket=bucket, Key="k", Body=b"x", **A.new)


def test_a_bucket_refuses_keys_of_clients(s3, bucket):
    old = {"Bucket": bucket, "Key": "old"}
    s3.put_object(**old, Body=b"x", **A.new)
    set_default(s3, bucket, "AES256", BlockedEncryptionTypes={"EncryptionType": ["SSE-C"]})
    new = {"Bucket": bucket, "Key": "new"}
    with refused("AccessDenied", status=403):
        s3.put_object(**new, Body=b"x", **A.new)
    with refused("AccessDenied", status=403):
        s3.copy_object(**new, CopySource=old, **A.source, **B.new)
    with refused("AccessDenied", status=403):
        s3.create_multipart_upload(**new, **A.new)
    assert s3.get_object(**old, **A.own)["Body"].read() == b"x"
    s3.put_object(**new, Body=b"x")
    set_default(s3, bucket, "AES256", BlockedEncryptionTypes={"EncryptionType": ["NONE"]})
    s3.put_object(**new, Body=b"x", **A.new)
