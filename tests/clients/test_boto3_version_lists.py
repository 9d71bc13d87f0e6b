"""boto3, low level: listings of versions and delete markers, and their order.

Where AWS and the reference differ, the tests follow AWS: its documentation and recorded responses.
"""

import hashlib
from datetime import datetime, timedelta, timezone
from urllib.parse import unquote_plus

import boto3
import pytest

from conftest import watch_retries
from server import refused
from versions import (
    Entry,
    current_keys,
    empty,
    enable,
    delete_current,
    ids,
    listed,
    page_of,
    put,
    read,
)


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


@pytest.fixture
def plain(s3, bucket):
    """A new bucket whose versioning was never set. It is removed with its content."""
    yield bucket
    empty(s3, bucket)
    s3.delete_bucket(Bucket=bucket)


@pytest.fixture
def versioned(s3, plain):
    """A new versioned bucket."""
    enable(s3, plain)
    return plain


# Operations before and after versioning is enabled: + writes a key, - deletes it, ! removes its
# oldest version.
BEFORE = ["+a", "+n/old", "+z"]
AFTER = [
    "+a", "-a", "+a", "+a", "+b/1", "-b/1", "+b/2", "+b/2", "+b/2", "+c/gone", "-c/gone",
    "!c/gone", "+d", "-d", "+d", "-d", "+e", "+b-1", "+n/ü ö+&<", "-n/ü ö+&<", "+n/ü ö+&<", "+z",
    "-n/old", "+b/3/x",
]
# Operations that the reference ignores.
AFTER_ELSEWHERE = ["-c/never", "-c/never", "-d", "-a", "-a"]
PAGES = [1, 2, 3, 4, 5, 7, 11, 1000]
CASES = [
    ("", ""), ("", "/"), ("b", ""), ("b", "/"), ("b/", "/"), ("c", "/"), ("c/", ""), ("n/", "/"),
    ("n/ü ö+", ""), ("none", ""), ("b/", "2"),
]
# Listings in which the reference repeats a version.
CASES_ELSEWHERE = [("", "-"), ("", "ö")]


@pytest.fixture
def story(server, s3, plain):
    """A bucket with all kinds of keys, and the expected listing of all its versions."""
    history = {}
    for step in BEFORE:
        put(s3, plain, step[1:])
        history[step[1:]] = [("null", "Version")]
    enable(s3, plain)
    for step in [*AFTER, *(AFTER_ELSEWHERE if server.is_ashlar() else [])]:
        key, of_key = step[1:], history.setdefault(step[1:], [])
        if step[0] == "+":
            of_key.insert(0, (put(s3, plain, key), "Version"))
        elif step[0] == "-":
            of_key.insert(0, (delete_current(s3, plain, key), "DeleteMarker"))
        else:
            s3.delete_object(Bucket=plain, Key=key, VersionId=of_key.pop()[0])
    entries = [
        Entry(key, version, kind, place == 0)
        for key in sorted(history, key=str.encode)
        for place, (version, kind) in enumerate(history[key])
    ]
    return plain, entries


def expected(entries, prefix, delimiter):
    """Returns the listing that S3 defines."""
    found = []
    for entry in entries:
        if not entry.key.startswith(prefix):
            continue
        rest = entry.key[len(prefix):]
        if delimiter and delimiter in rest:
            common = prefix + rest.split(delimiter)[0] + delimiter
            entry = Entry(common, None, "Prefix", None)
            if entry in found:
                continue
        found.append(entry)
    return found


def test_a_listing_is_in_order_newest_first(s3, story):
    bucket, entries = story
    assert listed(s3, bucket) == entries
    latest = [each.key for each in entries if each.latest]
    assert len(latest) == len(set(latest)) == len({each.key for each in entries})


@pytest.mark.parametrize("page_size", PAGES)
def test_pages_hold_each_version_once(s3, story, page_size):
    bucket, entries = story
    assert listed(s3, bucket, MaxKeys=page_size) == entries


@pytest.mark.parametrize("page_size", PAGES)
def test_pages_with_prefixes_add_up(server, s3, story, page_size):
    bucket, entries = story
    for prefix, delimiter in [*CASES, *(CASES_ELSEWHERE if server.is_ashlar() else [])]:
        found = listed(s3, bucket, Prefix=prefix, Delimiter=delimiter, MaxKeys=page_size)
        assert found == expected(entries, prefix, delimiter), (prefix, delimiter)


def test_a_common_prefix_counts_as_one_entry(server, s3, story):
    bucket, _ = story
    page, entries = page_of(s3, bucket, Delimiter="/", Prefix="c")
    assert [each["Prefix"] for each in page["CommonPrefixes"]] == ["c/"], "markers alone"
    assert entries == []
    if server.is_ashlar():
        # There are no objects below the prefix; the reference shows it nevertheless.
        for list_objects in (s3.list_objects, s3.list_objects_v2):
            assert "CommonPrefixes" not in list_objects(Bucket=bucket, Delimiter="/", Prefix="c")


@pytest.mark.ashlar("the reference adds its own data to the key of the next page")
def test_a_page_has_the_markers_of_the_next_one(s3, story):
    bucket, entries = story
    page, _ = page_of(s3, bucket, MaxKeys=3)
    assert (page["NextKeyMarker"], page["NextVersionIdMarker"]) == entries[2][:2]
    page, _ = page_of(s3, bucket, Prefix="b/", Delimiter="2", MaxKeys=3)
    assert page["IsTruncated"] and page["NextKeyMarker"] == "b/2"
    assert "NextVersionIdMarker" not in page, "a common prefix has no version"


def test_a_listing_begins_after_its_markers(s3, story):
    bucket, entries = story
    for place, entry in enumerate(entries):
        begin = {"KeyMarker": entry.key}
        assert listed_from(s3, bucket, **begin) == [
            each for each in entries if each.key.encode() > entry.key.encode()
        ]
        begin["VersionIdMarker"] = entry.version
        assert listed_from(s3, bucket, **begin) == entries[place + 1:]
    assert listed_from(s3, bucket, KeyMarker="b") == [each for each in entries if each.key > "b"]
    assert listed_from(s3, bucket, KeyMarker="zz") == []


def listed_from(s3, bucket, **begin):
    """Returns one page that begins at the given place, and its markers."""
    page, found = page_of(s3, bucket, **begin)
    assert not page["IsTruncated"]
    assert page["KeyMarker"] == begin["KeyMarker"]
    assert page["VersionIdMarker"] == begin.get("VersionIdMarker", "")
    assert "NextKeyMarker" not in page
    return found


@pytest.mark.ashlar("the reference returns 501, or accepts it")
def test_a_version_id_marker_needs_a_key_marker(s3, versioned):
    version = put(s3, versioned, "k")
    with refused("InvalidArgument", status=400) as caught:
        s3.list_object_versions(Bucket=versioned, VersionIdMarker=version)
    error = caught.value.response["Error"]
    assert error["Message"] == "A version-id marker cannot be specified without a key marker."
    assert (error["ArgumentName"], error["ArgumentValue"]) == ("version-id-marker", version)
    with refused("InvalidArgument", status=400) as caught:
        s3.list_object_versions(Bucket=versioned, KeyMarker="k", VersionIdMarker="")
    assert caught.value.response["Error"]["Message"] == "A version-id marker cannot be empty."
    with refused("InvalidArgument", status=400) as caught:
        s3.list_object_versions(Bucket=versioned, KeyMarker="k", VersionIdMarker="not-an-id")
    assert caught.value.response["Error"]["Message"] == "Invalid version id specified"


def test_a_page_of_zero_entries_is_the_last(s3, story):
    bucket, _ = story
    page, entries = page_of(s3, bucket, MaxKeys=0)
    assert (page["IsTruncated"], page["MaxKeys"], entries) == (False, 0, [])


def test_keys_are_encoded_on_request(server, s3, story):
    bucket, _ = story
    prefix, odd = "n/ü", "n/ü ö+&<"
    # boto3 requests the encoding and decodes it; with an explicit request it returns the raw
    # response.
    raw = s3.list_object_versions(Bucket=bucket, Prefix=prefix, EncodingType="url", MaxKeys=1)
    assert raw["EncodingType"] == "url"
    for sent, meant in ((raw["Versions"][0]["Key"], odd), (raw["Prefix"], prefix)):
        assert sent.isascii() and unquote_plus(sent) == meant
    if server.is_ashlar():
        assert unquote_plus(raw["NextKeyMarker"]) == odd
    again = s3.list_object_versions(
        Bucket=bucket, KeyMarker=odd, Prefix="", Delimiter="ö", EncodingType="url"
    )
    assert unquote_plus(again["KeyMarker"]) == odd
    assert again["Delimiter"].isascii() and unquote_plus(again["Delimiter"]) == "ö"


def test_an_entry_has_the_properties_of_its_version(s3, versioned):
    version = put(s3, versioned, "k", b"12345")
    marker = delete_current(s3, versioned, "k")
    page, _ = page_of(s3, versioned)
    (shown,), (hidden,) = page["Versions"], page["DeleteMarkers"]
    assert (shown["VersionId"], shown["Size"]) == (version, 5)
    assert shown["ETag"] == f'"{hashlib.md5(b"12345").hexdigest()}"'
    assert shown["StorageClass"] == "STANDARD"
    assert hidden["VersionId"] == marker
    assert not {"Size", "ETag", "StorageClass"} & set(hidden)
    for each in (shown, hidden):
        assert each["Owner"]["ID"]
        assert abs(datetime.now(timezone.utc) - each["LastModified"]) < timedelta(minutes=2)
    assert shown["LastModified"] <= hidden["LastModified"]
    assert (page["Name"], page["Prefix"], page["MaxKeys"]) == (versioned, "", 1000)


def test_listings_of_objects_show_only_current_versions(s3, story):
    bucket, entries = story
    current = [each.key for each in entries if each.latest and each.kind == "Version"]
    assert current_keys(s3, bucket) == current
    found, token = [], {}
    while True:
        page = s3.list_objects_v2(Bucket=bucket, MaxKeys=2, **token)
        found += [each["Key"] for each in page.get("Contents", [])]
        if not page["IsTruncated"]:
            break
        token = {"ContinuationToken": page["NextContinuationToken"]}
    assert found == current


def test_300_versions_of_one_key(s3, versioned):
    made = [put(s3, versioned, "k", str(number).encode()) for number in range(300)]
    assert len(set(made)) == 300
    put(s3, versioned, "k2")
    assert ids(s3, versioned, "k") == made[::-1]
    assert [each.version for each in listed(s3, versioned, MaxKeys=70, Prefix="k")][:300] == (
        made[::-1]
    )
    for number in (0, 1, 149, 298, 299):
        assert read(s3, versioned, "k", VersionId=made[number]) == str(number).encode()
    page, entries = page_of(s3, versioned, KeyMarker="k", VersionIdMarker=made[100], MaxKeys=3)
    assert [each.version for each in entries] == [made[99], made[98], made[97]]
    for version in made[:100:-1]:
        s3.delete_object(Bucket=versioned, Key="k", VersionId=version)
    assert read(s3, versioned, "k") == b"100"
    assert current_keys(s3, versioned) == ["k", "k2"]
