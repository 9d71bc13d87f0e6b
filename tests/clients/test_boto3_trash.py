"""boto3, low level, on buckets with a trash: clients do not see it, and it keeps all deleted
content.

The gateway's own commands list and empty the trash.
"""

import os
import time

import boto3
import pytest

from conftest import watch_retries
from server import refused

pytestmark = pytest.mark.ashlar("the reference has no trash")

# More days than any test takes.
LONG = 30_000
# Time limit in seconds until the trash is emptied, after its days.
PATIENCE_SECONDS = 60


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


@pytest.fixture
def trashing(server, s3, bucket):
    """A new bucket with a trash."""
    said = server.operate("bucket", "trash", bucket, "--trash-days", str(LONG))
    assert said.split() == ["trash", str(LONG), "days"]
    yield bucket
    for each in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        s3.delete_object(Bucket=bucket, Key=each["Key"])
    server.operate("trash", "empty", bucket)
    s3.delete_bucket(Bucket=bucket)


def listed(server, bucket, prefix=""):
    """Returns the items of the trash: key, bytes and id, by key, the last deleted first."""
    lines = server.operate("trash", "list", bucket, prefix).splitlines()
    cells = [line.split("\t") for line in lines]
    return [(key, int(size.removesuffix(" bytes")), name) for key, _since, size, name in cells]


def keys_in_trash(server, bucket, prefix=""):
    return [(key, size) for key, size, _ in listed(server, bucket, prefix)]


def read(s3, bucket, key):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


def put(s3, bucket, key, body):
    return s3.put_object(Bucket=bucket, Key=key, Body=body)


def test_a_trash_is_invisible_to_clients(server, s3, trashing):
    assert "VersionId" not in put(s3, trashing, "a", b"1")
    assert "VersionId" not in put(s3, trashing, "a", b"22")
    gone = s3.delete_object(Bucket=trashing, Key="a")
    assert "VersionId" not in gone and "DeleteMarker" not in gone
    put(s3, trashing, "a", b"333")
    assert "Status" not in s3.get_bucket_versioning(Bucket=trashing)
    listing = s3.list_object_versions(Bucket=trashing)
    assert [(it["Key"], it["VersionId"]) for it in listing["Versions"]] == [("a", "null")]
    assert "DeleteMarkers" not in listing
    (_, _, name), _ = listed(server, trashing)
    for ask in (s3.get_object, s3.head_object):
        with refused("NoSuchVersion", "404"):
            ask(Bucket=trashing, Key="a", VersionId=name)
    s3.delete_object(Bucket=trashing, Key="a", VersionId=name)
    assert keys_in_trash(server, trashing) == [("a", 2), ("a", 1)]


def test_deleted_and_replaced_objects_are_in_the_trash(server, s3, trashing):
    for key in ("put", "copied", "batch", "null", "multipart", "renamed"):
        put(s3, trashing, key, key.encode())
    put(s3, trashing, "put", b"again")
    s3.copy_object(Bucket=trashing, Key="copied", CopySource=f"{trashing}/put")
    s3.delete_objects(Bucket=trashing, Delete={"Objects": [{"Key": "batch"}]})
    s3.delete_object(Bucket=trashing, Key="null", VersionId="null")
    upload = s3.create_multipart_upload(Bucket=trashing, Key="multipart")["UploadId"]
    part = {"Bucket": trashing, "Key": "multipart", "UploadId": upload}
    tag = s3.upload_part(PartNumber=1, Body=b"part", **part)["ETag"]
    parts = [{"PartNumber": 1, "ETag": tag}]
    s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **part)
    s3.rename_object(Bucket=trashing, Key="renamed", RenameSource="/put")
    names = ["batch", "copied", "multipart", "null", "put", "renamed"]
    assert keys_in_trash(server, trashing) == [(name, len(name)) for name in names]
    left = [it["Key"] for it in s3.list_objects_v2(Bucket=trashing)["Contents"]]
    assert left == ["copied", "multipart", "renamed"]


def test_an_item_of_the_trash_is_restored(server, s3, trashing):
    metadata = {"colour": "blue"}
    s3.put_object(Bucket=trashing, Key="d/e/f", Body=b"first", Metadata=metadata)
    etag = put(s3, trashing, "d/e/f", b"second")["ETag"]
    s3.delete_object(Bucket=trashing, Key="d/e/f")
    assert "Contents" not in s3.list_objects_v2(Bucket=trashing)
    server.operate("trash", "restore", trashing, "d/e/f")
    assert s3.head_object(Bucket=trashing, Key="d/e/f")["ETag"] == etag
    (_, _, name), = listed(server, trashing)
    server.operate("trash", "restore", trashing, "d/e/f", "--id", name)
    found = s3.get_object(Bucket=trashing, Key="d/e/f")
    assert (found["Body"].read(), found["Metadata"]) == (b"first", metadata)
    assert keys_in_trash(server, trashing) == [("d/e/f", 6)], "what made way is in the trash"
    assert "there is no such item in the trash" in server.operate_refused(
        "trash", "restore", trashing, "other"
    )


def test_all_items_below_a_prefix_are_restored(server, s3, trashing):
    bodies = {f"t/{n % 3}/{n}": b"x" * n for n in range(40)}
    for key, body in bodies.items():
        put(s3, trashing, key, b"older")
        put(s3, trashing, key, body)
    objects = [{"Key": key} for key in bodies]
    s3.delete_objects(Bucket=trashing, Delete={"Objects": objects})
    put(s3, trashing, "t/0/3", b"newer")
    said = server.operate("trash", "restore", trashing, "t/", "--all")
    assert said.splitlines() == [
        "restored 39 keys",
        "skipped 1 keys that have an object",
    ]
    found = {it["Key"] for it in s3.list_objects_v2(Bucket=trashing)["Contents"]}
    assert found == set(bodies)
    for key in ("t/0/39", "t/1/1", "t/2/38"):
        assert read(s3, trashing, key) == bodies[key]
    assert read(s3, trashing, "t/0/3") == b"newer"


def test_a_bucket_with_items_in_its_trash_cannot_be_deleted(server, s3, trashing):
    put(s3, trashing, "a", b"1")
    s3.delete_object(Bucket=trashing, Key="a")
    with refused("BucketNotEmpty"):
        s3.delete_bucket(Bucket=trashing)
    said = server.operate_refused("bucket", "trash", trashing, "--none")
    assert "its trash is not empty" in said
    enable = {"Status": "Enabled"}
    with refused("InvalidBucketState"):
        s3.put_bucket_versioning(Bucket=trashing, VersioningConfiguration=enable)
    assert server.operate("trash", "empty", trashing) == "deleted 1 items permanently\n"
    assert server.operate("bucket", "trash", trashing, "--none").split() == ["trash", "none"]
    put(s3, trashing, "a", b"1")
    s3.delete_object(Bucket=trashing, Key="a")
    assert "it has no trash" in server.operate_refused("trash", "list", trashing)
    s3.put_bucket_versioning(Bucket=trashing, VersioningConfiguration=enable)
    said = server.operate_refused("bucket", "trash", trashing, "--trash-days", "1")
    assert "it keeps versions" in said
    s3.delete_bucket(Bucket=trashing)
    s3.create_bucket(Bucket=trashing)
    server.operate("bucket", "trash", trashing, "--trash-days", "1")


def test_items_of_the_trash_count_for_quotas(server, s3, trashing):
    server.operate("bucket", "quota", trashing, "--bytes", "100000")
    put(s3, trashing, "a", b"x" * 60_000)
    s3.delete_object(Bucket=trashing, Key="a")
    with refused("QuotaExceeded"):
        put(s3, trashing, "b", b"x" * 60_000)


def test_after_its_days_a_trash_is_emptied(server, s3, trashing):
    day = os.environ.get("ASHLAR_TEST_LIFECYCLE_DAY")
    if not day:
        pytest.skip("set ASHLAR_TEST_LIFECYCLE_DAY to the seconds that the server takes for a day")
    server.operate("bucket", "trash", trashing, "--trash-days", "3")
    put(s3, trashing, "a", b"stays")
    put(s3, trashing, "b", b"goes")
    s3.delete_object(Bucket=trashing, Key="b")
    lost_at = time.monotonic()
    assert keys_in_trash(server, trashing) == [("b", 4)]
    while keys_in_trash(server, trashing):
        assert time.monotonic() - lost_at < 3 * float(day) + PATIENCE_SECONDS
        time.sleep(0.2)
    assert time.monotonic() - lost_at > 2 * float(day), "it went before its days were over"
    assert read(s3, trashing, "a") == b"stays"
