"""boto3, low level: buckets, authentication, and presigned URLs."""

import http.client
import ssl
import time
from urllib.parse import urlsplit

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.handlers import validate_bucket_name

from conftest import watch_retries
from server import fresh_bucket_name, refused


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


def fetch(server, url, method="GET", body=None, headers=None):
    """Requests a presigned URL without further headers. Returns status, headers and body.

    SigV2 signs the Content-Type, so the server correctly refuses a request with an added one.
    """
    parts = urlsplit(url)
    if server.ca:
        context = ssl.create_default_context(cafile=server.ca)
        connection = http.client.HTTPSConnection(parts.netloc, timeout=30, context=context)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request(method, f"{parts.path}?{parts.query}", body, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def test_create_list_head_and_delete_a_bucket(s3):
    name = fresh_bucket_name()
    s3.create_bucket(Bucket=name)
    assert name in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert s3.head_bucket(Bucket=name)["ResponseMetadata"]["HTTPStatusCode"] == 200
    # S3 represents the location us-east-1 by no value.
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] is None
    s3.delete_bucket(Bucket=name)
    assert name not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    with refused("404", status=404):
        s3.head_bucket(Bucket=name)


def test_list_buckets_gives_a_creation_date_and_an_owner(s3, bucket):
    answer = s3.list_buckets()
    found = [each for each in answer["Buckets"] if each["Name"] == bucket]
    assert found[0]["CreationDate"].year >= 2024
    assert answer["Owner"]["ID"]


def test_a_missing_bucket_is_refused_by_every_call(s3):
    name = fresh_bucket_name("absent")
    with refused("NoSuchBucket", status=404):
        s3.list_objects_v2(Bucket=name)
    with refused("NoSuchBucket", status=404):
        s3.put_object(Bucket=name, Key="a", Body=b"x")
    with refused("NoSuchBucket", status=404):
        s3.get_object(Bucket=name, Key="a")
    with refused("NoSuchBucket", status=404):
        s3.delete_bucket(Bucket=name)
    with refused("NoSuchBucket", status=404):
        s3.create_multipart_upload(Bucket=name, Key="a")
    with refused("NoSuchBucket", status=404):
        s3.get_bucket_location(Bucket=name)


def test_a_bucket_with_objects_cannot_be_deleted(s3, bucket):
    s3.put_object(Bucket=bucket, Key="deep/er/a", Body=b"x")
    with refused("BucketNotEmpty", status=409):
        s3.delete_bucket(Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="deep/er/a")
    s3.delete_bucket(Bucket=bucket)


def test_creating_a_bucket_twice(s3, server, bucket):
    # In us-east-1 the owner may create a bucket again, as on AWS; the reference reports a
    # conflict.
    if server.is_ashlar():
        s3.create_bucket(Bucket=bucket)
    else:
        with refused("BucketAlreadyOwnedByYou", "BucketAlreadyExists", status=409):
            s3.create_bucket(Bucket=bucket)


@pytest.mark.parametrize("name", ["ab", "Capital-letters", "under_score", "192.168.0.1", "-dash"])
def test_invalid_bucket_names_are_refused(server, name):
    # botocore itself would refuse some of these names, so its check is disabled.
    client = boto3.client("s3", **server.aws_settings())
    client.meta.events.unregister("before-parameter-build.s3", validate_bucket_name)
    with refused("InvalidBucketName", status=400):
        client.create_bucket(Bucket=name)


def test_bucket_tagging(s3, bucket):
    with refused("NoSuchTagSet", status=404):
        s3.get_bucket_tagging(Bucket=bucket)
    tags = [{"Key": "team", "Value": "storage +-=._:/@"}, {"Key": "empty", "Value": ""}]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    found = s3.get_bucket_tagging(Bucket=bucket)["TagSet"]
    assert sorted(found, key=str) == sorted(tags, key=str)
    s3.delete_bucket_tagging(Bucket=bucket)
    with refused("NoSuchTagSet", status=404):
        s3.get_bucket_tagging(Bucket=bucket)


def test_a_wrong_secret_and_an_unknown_key_are_refused(server, bucket):
    settings = server.aws_settings()
    wrong = boto3.client("s3", **{**settings, "aws_secret_access_key": "not-the-secret"})
    with refused("SignatureDoesNotMatch", status=403):
        wrong.list_objects_v2(Bucket=bucket)
    with refused("SignatureDoesNotMatch", status=403):
        wrong.put_object(Bucket=bucket, Key="a", Body=b"x")
    unknown_key = boto3.client("s3", **{**settings, "aws_access_key_id": "AKIDNOBODY"})
    with refused("InvalidAccessKeyId", status=403):
        unknown_key.list_objects_v2(Bucket=bucket)
    with refused("InvalidAccessKeyId", status=403):
        unknown_key.list_buckets()


def test_anonymous_callers_are_refused(server, control, bucket):
    control.put_object(Bucket=bucket, Key="secret", Body=b"x")
    settings = {
        name: value
        for name, value in server.aws_settings().items()
        if not name.startswith("aws_")
    }
    anonymous = boto3.client("s3", config=Config(signature_version=UNSIGNED), **settings)
    with refused("AccessDenied", status=403):
        anonymous.get_object(Bucket=bucket, Key="secret")
    with refused("AccessDenied", status=403):
        anonymous.put_object(Bucket=bucket, Key="new", Body=b"x")
    with refused("AccessDenied", status=403):
        anonymous.delete_object(Bucket=bucket, Key="secret")
    with refused("AccessDenied", status=403):
        anonymous.list_objects_v2(Bucket=bucket)
    with refused("AccessDenied", status=403):
        anonymous.list_buckets()
    assert control.get_object(Bucket=bucket, Key="secret")["Body"].read() == b"x"


# With a custom endpoint in us-east-1, boto3 presigns with SigV2; users set `s3v4` to avoid it.
PRESIGNERS = pytest.mark.parametrize("signature", [None, "s3v4"], ids=["default", "s3v4"])


def presigner(server, signature):
    config = Config(signature_version=signature) if signature else None
    return boto3.client("s3", config=config, **server.aws_settings())


@PRESIGNERS
def test_presigned_get_and_put(server, control, bucket, signature):
    client = presigner(server, signature)
    key = "dir with space/ünï+code.bin"
    put = client.generate_presigned_url("put_object", {"Bucket": bucket, "Key": key})
    status, headers, _ = fetch(server, put, "PUT", b"through a url")
    assert status == 200 and headers["ETag"]
    assert control.get_object(Bucket=bucket, Key=key)["Body"].read() == b"through a url"
    get = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": key})
    status, headers, body = fetch(server, get)
    assert (status, body) == (200, b"through a url")
    assert headers["Accept-Ranges"] == "bytes"
    status, _, body = fetch(server, get, headers={"Range": "bytes=8-9"})
    assert (status, body) == (206, b"a ")


@PRESIGNERS
def test_presigned_response_headers(server, control, bucket, signature):
    control.put_object(Bucket=bucket, Key="a", Body=b"x", ContentType="text/plain")
    url = presigner(server, signature).generate_presigned_url(
        "get_object",
        {
            "Bucket": bucket,
            "Key": "a",
            "ResponseContentType": "application/x-report",
            "ResponseContentDisposition": 'attachment; filename="a b.txt"',
        },
    )
    status, headers, _ = fetch(server, url)
    assert status == 200
    assert headers["Content-Type"] == "application/x-report"
    assert headers["Content-Disposition"] == 'attachment; filename="a b.txt"'


@PRESIGNERS
def test_a_presigned_url_serves_one_method_and_one_key_only(server, control, bucket, signature):
    control.put_object(Bucket=bucket, Key="a", Body=b"x")
    control.put_object(Bucket=bucket, Key="b", Body=b"y")
    url = presigner(server, signature).generate_presigned_url(
        "get_object", {"Bucket": bucket, "Key": "a"}
    )
    assert fetch(server, url)[0] == 200
    status, _, body = fetch(server, url, "PUT", b"overwritten")
    assert status == 403 and b"<Code>SignatureDoesNotMatch</Code>" in body
    status, _, body = fetch(server, url.replace(f"/{bucket}/a?", f"/{bucket}/b?"))
    assert status == 403 and b"<Code>SignatureDoesNotMatch</Code>" in body
    assert control.get_object(Bucket=bucket, Key="a")["Body"].read() == b"x"


@PRESIGNERS
def test_an_expired_presigned_url_is_refused(server, control, bucket, signature):
    control.put_object(Bucket=bucket, Key="a", Body=b"x")
    url = presigner(server, signature).generate_presigned_url(
        "get_object", {"Bucket": bucket, "Key": "a"}, ExpiresIn=1
    )
    time.sleep(2.5)
    status, _, body = fetch(server, url)
    assert status == 403
    assert b"<Code>AccessDenied</Code>" in body
