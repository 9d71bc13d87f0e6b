"""boto3, low level: the three kinds of listings, compared with a brute-force result."""

import boto3
import pytest

from conftest import watch_retries
from raw import fill
from server import refused

KEYS = sorted(
    [
        "a+", "a-b", "a.txt", "a/b", "a/c/d", "a/c/e", "a0", "b/", "b/x y", "b/ü", "c/1", "c/2",
        "c/3/4", "z", "data/year=2024/part-0", "data/year=2025/part-0", "photo.jpg", "photos/1",
    ],
    key=str.encode,
)


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


@pytest.fixture
def filled(s3, bucket):
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode() if not key.endswith("/") else b"")
    return bucket


def expected(prefix="", delimiter="", after=""):
    """Returns the complete listing that S3 defines: keys and common prefixes in one order."""
    entries = []
    for key in KEYS:
        if not key.startswith(prefix):
            continue
        rest = key[len(prefix):]
        if delimiter and delimiter in rest:
            common = prefix + rest.split(delimiter)[0] + delimiter
            if ("prefix", common) not in entries:
                entries.append(("prefix", common))
        else:
            entries.append(("key", key))
    return [entry for entry in entries if entry[1].encode() > after.encode()]


def entries_of(page):
    """Returns the keys and prefixes of a page in order."""
    found = [("key", each["Key"]) for each in page.get("Contents", [])]
    found += [("prefix", each["Prefix"]) for each in page.get("CommonPrefixes", [])]
    return sorted(found, key=lambda entry: entry[1].encode())


# The reference ends a listing too early if a page of one entry is a marker's prefix.
ONE = pytest.param(1, marks=pytest.mark.ashlar("the reference loses entries at page size 1"))

CASES = [
    ("", ""), ("", "/"), ("a", ""), ("a", "/"), ("a/", "/"), ("a/c", "/"), ("a/c/", ""),
    ("b/", "/"), ("data/", "/"), ("data/year", "="), ("none", "/"), ("photo", "o"), ("c/", ""),
]


@pytest.mark.parametrize("page_size", [ONE, 2, 5, 1000])
def test_version_2_pages_add_up(s3, filled, page_size):
    for prefix, delimiter in CASES:
        found, token = [], {}
        for _ in range(100):
            page = s3.list_objects_v2(
                Bucket=filled, Prefix=prefix, Delimiter=delimiter, MaxKeys=page_size, **token
            )
            entries = entries_of(page)
            assert page["KeyCount"] == len(entries) <= page_size
            found += entries
            if not page["IsTruncated"]:
                break
            token = {"ContinuationToken": page["NextContinuationToken"]}
        assert found == expected(prefix, delimiter), (prefix, delimiter)


@pytest.mark.parametrize("page_size", [ONE, 3, 1000])
def test_version_1_pages_add_up(s3, filled, page_size):
    for prefix, delimiter in CASES:
        found, marker = [], ""
        for _ in range(100):
            page = s3.list_objects(
                Bucket=filled, Prefix=prefix, Delimiter=delimiter, MaxKeys=page_size, Marker=marker
            )
            entries = entries_of(page)
            found += entries
            if not page["IsTruncated"]:
                break
            # NextMarker is guaranteed only with a delimiter; otherwise the last key continues.
            marker = page.get("NextMarker") or entries[-1][1]
        assert found == expected(prefix, delimiter), (prefix, delimiter)


def test_start_after(s3, filled):
    for after in ["a-b", "a/c", "b/zzz", "zz", "0"]:
        page = s3.list_objects_v2(Bucket=filled, StartAfter=after)
        assert entries_of(page) == expected(after=after), after
    page = s3.list_objects_v2(Bucket=filled, Prefix="a/", StartAfter="a/c/d")
    assert [each["Key"] for each in page["Contents"]] == ["a/c/e"]


def test_entries_agree_with_head(s3, filled):
    page = s3.list_objects_v2(Bucket=filled, FetchOwner=True)
    assert [each["Key"] for each in page["Contents"]] == KEYS
    for each in page["Contents"]:
        head = s3.head_object(Bucket=filled, Key=each["Key"])
        assert each["Size"] == head["ContentLength"]
        assert each["ETag"] == head["ETag"]
        assert each["LastModified"].replace(microsecond=0) == head["LastModified"]
        assert each["StorageClass"] == "STANDARD"
        assert each["Owner"]["ID"]


def test_a_page_of_zero_keys_is_empty(s3, filled):
    page = s3.list_objects_v2(Bucket=filled, MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"]) == (0, False)


def test_the_paginator_reads_more_than_a_thousand_keys(s3, server, bucket):
    keys = [f"many/{number:05}" for number in range(1_100)]
    fill(server, bucket, keys)
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket))
    assert [len(page["Contents"]) for page in pages] == [1000, 100]
    assert [each["Key"] for page in pages for each in page["Contents"]] == keys
    rolled = s3.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [each["Prefix"] for each in rolled["CommonPrefixes"]] == ["many/"]
    assert "Contents" not in rolled
    for start in (0, 1000):
        wanted = [{"Key": key} for key in keys[start:start + 1000]]
        assert "Errors" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_versions_of_a_bucket_without_versioning(s3, filled):
    page = s3.list_object_versions(Bucket=filled)
    assert [each["Key"] for each in page["Versions"]] == KEYS
    assert all(each["VersionId"] == "null" and each["IsLatest"] for each in page["Versions"])
    assert "DeleteMarkers" not in page
    rolled = s3.list_object_versions(Bucket=filled, Delimiter="/")
    assert [each["Prefix"] for each in rolled["CommonPrefixes"]] == [
        "a/", "b/", "c/", "data/", "photos/",
    ]


def test_a_listing_contains_every_earlier_write(s3, bucket):
    for number in range(20):
        s3.put_object(Bucket=bucket, Key=f"d/{number:02}", Body=b"x")
        assert s3.list_objects_v2(Bucket=bucket, Prefix="d/")["KeyCount"] == number + 1
    for number in range(20):
        s3.delete_object(Bucket=bucket, Key=f"d/{number:02}")
        assert s3.list_objects_v2(Bucket=bucket, Prefix="d/")["KeyCount"] == 19 - number


def test_a_bad_token_or_limit_is_refused(s3, filled):
    with refused("InvalidArgument", status=400):
        s3.list_objects_v2(Bucket=filled, MaxKeys=-1)
    with refused("InvalidArgument", status=400):
        s3.list_objects_v2(Bucket=filled, ContinuationToken="not*base64")
