"""boto3, low level: the properties of an object, and the options of requests."""

import base64
import hashlib
import zlib
from datetime import datetime, timedelta, timezone

import boto3
import pytest

from conftest import watch_retries
from server import fresh_bucket_name, refused

HEADERS = {
    "ContentType": "text/x-stone; charset=utf-8",
    "CacheControl": "max-age=60, private",
    "ContentDisposition": 'attachment; filename="stone.txt"',
    "ContentEncoding": "gzip",
    "ContentLanguage": "de, en",
}
EMPTY_MD5 = '"d41d8cd98f00b204e9800998ecf8427e"'


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


def md5_etag(content):
    return f'"{hashlib.md5(content).hexdigest()}"'


def body_of(s3, bucket, key, **arguments):
    return s3.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65_536, 1 << 20, (9 << 20) + 1])
def test_put_get_head_at_every_size(s3, bucket, size):
    content = hashlib.shake_128(str(size).encode()).digest(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=content)
    assert put["ETag"] == md5_etag(content)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == content
    head = s3.head_object(Bucket=bucket, Key="k")
    for answer in (got, head):
        assert answer["ContentLength"] == size
        assert answer["ETag"] == put["ETag"]
        assert answer["AcceptRanges"] == "bytes"
        assert abs(datetime.now(timezone.utc) - answer["LastModified"]) < timedelta(minutes=2)
    assert "ContentRange" not in got


def test_overwriting_replaces_content_headers_and_metadata(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"old" * 9000, Metadata={"a": "1"}, **HEADERS)
    s3.put_object(Bucket=bucket, Key="k", Body=b"new")
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"new"
    assert got["Metadata"] == {}
    assert got["ContentType"] == "binary/octet-stream"
    assert "CacheControl" not in got and "ContentEncoding" not in got


def test_content_headers_and_metadata_are_returned(s3, bucket):
    expires = datetime(2031, 5, 4, 3, 2, 1, tzinfo=timezone.utc)
    metadata = {"colour": "grey", "with-dash": "a  b", "empty": ""}
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata=metadata, Expires=expires, **HEADERS)
    for answer in (s3.head_object(Bucket=bucket, Key="k"), s3.get_object(Bucket=bucket, Key="k")):
        for name, value in HEADERS.items():
            assert answer[name] == value, name
        assert answer["Metadata"]["colour"] == "grey"
        assert set(answer["Metadata"]) == set(metadata)
        assert answer["ExpiresString"] == "Sun, 04 May 2031 03:02:01 GMT"


def test_metadata_over_two_kibibytes_is_refused(s3, bucket):
    with refused("MetadataTooLarge", status=400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"big": "v" * 2049})
    with refused("404", status=404):
        s3.head_object(Bucket=bucket, Key="k")


def test_a_missing_key_is_refused(s3, bucket):
    with refused("NoSuchKey", status=404) as caught:
        s3.get_object(Bucket=bucket, Key="absent/key")
    assert caught.value.response["Error"]["Key"] == "absent/key"
    assert caught.value.response["ResponseMetadata"]["RequestId"]
    with refused("404", status=404):
        s3.head_object(Bucket=bucket, Key="absent/key")
    with refused("NoSuchKey", status=404):
        s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "absent"})


def test_deleting_is_idempotent_and_removes_empty_prefixes(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a/b/c", Body=b"x")
    for _ in range(2):
        assert s3.delete_object(Bucket=bucket, Key="a/b/c")["ResponseMetadata"][
            "HTTPStatusCode"
        ] == 204
    with refused("NoSuchKey", status=404):
        s3.get_object(Bucket=bucket, Key="a/b/c")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_delete_objects_reports_each_key(s3, bucket):
    keys = [f"d/{number:03}&<é" for number in range(50)]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3.put_object(Bucket=bucket, Key="stays", Body=b"x")
    wanted = [{"Key": key} for key in [*keys, "never/was"]]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    assert sorted(each["Key"] for each in answer["Deleted"]) == sorted([*keys, "never/was"])
    assert "Errors" not in answer
    s3.put_object(Bucket=bucket, Key="quiet", Body=b"x")
    quiet = s3.delete_objects(
        Bucket=bucket, Delete={"Objects": [{"Key": "quiet"}], "Quiet": True}
    )
    assert "Deleted" not in quiet and "Errors" not in quiet
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["stays"]


# --- ranges ----------------------------------------------------------------------------------

CONTENT = bytes(range(256)) * 20_000  # 5,120,000 bytes: more than one block
RANGES = [
    ("bytes=0-0", 0, 1),
    ("bytes=0-9", 0, 10),
    ("bytes=65530-65545", 65_530, 65_546),
    ("bytes=4194300-4194310", 4_194_300, 4_194_311),
    ("bytes=5119999-", 5_119_999, 5_120_000),
    ("bytes=-7", 5_119_993, 5_120_000),
    ("bytes=5119990-9999999", 5_119_990, 5_120_000),
    ("bytes=-9999999", 0, 5_120_000),
]


def test_ranges(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=CONTENT)
    for header, start, end in RANGES:
        got = s3.get_object(Bucket=bucket, Key="k", Range=header)
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206, header
        assert got["Body"].read() == CONTENT[start:end], header
        assert got["ContentRange"] == f"bytes {start}-{end - 1}/{len(CONTENT)}", header
        assert got["ContentLength"] == end - start, header
    head = s3.head_object(Bucket=bucket, Key="k", Range="bytes=10-19")
    assert (head["ContentLength"], head["ContentRange"]) == (10, f"bytes 10-19/{len(CONTENT)}")


def test_a_range_past_the_end_is_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    with refused("InvalidRange", status=416):
        s3.get_object(Bucket=bucket, Key="k", Range="bytes=10-")
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    with refused("InvalidRange", status=416):
        s3.get_object(Bucket=bucket, Key="empty", Range="bytes=0-")


def test_the_answer_after_that_of_an_empty_body_is_complete(s3, bucket):
    # botocore expects `100 Continue`, also for an empty body.
    for _ in range(3):
        for body in (b"", b"content"):
            put = s3.put_object(Bucket=bucket, Key="k", Body=body)
            assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"', body


def test_a_malformed_range_is_ignored(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    got = s3.get_object(Bucket=bucket, Key="k", Range="lines=1-2")
    assert (got["ResponseMetadata"]["HTTPStatusCode"], got["Body"].read()) == (200, b"0123456789")


# --- conditions ------------------------------------------------------------------------------


def test_conditions_on_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    past = datetime.now(timezone.utc) - timedelta(days=1)
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    assert body_of(s3, bucket, "k", IfMatch=etag) == b"x"
    assert body_of(s3, bucket, "k", IfNoneMatch='"other"') == b"x"
    assert body_of(s3, bucket, "k", IfModifiedSince=past) == b"x"
    assert body_of(s3, bucket, "k", IfUnmodifiedSince=later) == b"x"
    with refused("PreconditionFailed", status=412):
        s3.get_object(Bucket=bucket, Key="k", IfMatch='"other"')
    with refused("PreconditionFailed", status=412):
        s3.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=past)
    with refused("304", status=304):
        s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=etag)
    with refused("304", status=304):
        s3.head_object(Bucket=bucket, Key="k", IfNoneMatch=etag)
    with refused("412", status=412):
        s3.head_object(Bucket=bucket, Key="k", IfMatch='"other"')


def test_if_none_match_star_creates_once(s3, bucket):
    s3.put_object(Bucket=bucket, Key="lock", Body=b"first", IfNoneMatch="*")
    with refused("PreconditionFailed", status=412):
        s3.put_object(Bucket=bucket, Key="lock", Body=b"second", IfNoneMatch="*")
    assert body_of(s3, bucket, "lock") == b"first"


def test_if_match_replaces_only_the_matching_object(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"one")["ETag"]
    newer = s3.put_object(Bucket=bucket, Key="k", Body=b"two", IfMatch=etag)["ETag"]
    with refused("PreconditionFailed", status=412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"three", IfMatch=etag)
    assert body_of(s3, bucket, "k", IfMatch=newer) == b"two"
    with refused("NoSuchKey", status=404):
        s3.put_object(Bucket=bucket, Key="absent", Body=b"x", IfMatch=etag)


@pytest.mark.ashlar("the reference ignores conditions on DELETE")
def test_conditional_delete(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"one")["ETag"]
    with refused("PreconditionFailed", status=412):
        s3.delete_object(Bucket=bucket, Key="k", IfMatch='"00000000000000000000000000000000"')
    assert body_of(s3, bucket, "k") == b"one"
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag)
    with refused("NoSuchKey", status=404):
        s3.get_object(Bucket=bucket, Key="k")


# --- copies ----------------------------------------------------------------------------------


def test_copy_keeps_or_replaces_metadata(s3, bucket):
    content = b"stone" * 300_000
    s3.put_object(Bucket=bucket, Key="from/ä b+c", Body=content, Metadata={"a": "1"}, **HEADERS)
    source = {"Bucket": bucket, "Key": "from/ä b+c"}
    copied = s3.copy_object(Bucket=bucket, Key="kept", CopySource=source)
    assert copied["CopyObjectResult"]["ETag"] == md5_etag(content)
    kept = s3.get_object(Bucket=bucket, Key="kept")
    assert kept["Body"].read() == content
    assert (kept["Metadata"], kept["ContentType"]) == ({"a": "1"}, HEADERS["ContentType"])
    s3.copy_object(
        Bucket=bucket, Key="replaced", CopySource=source, MetadataDirective="REPLACE",
        Metadata={"b": "2"}, ContentType="text/plain",
    )
    replaced = s3.head_object(Bucket=bucket, Key="replaced")
    assert (replaced["Metadata"], replaced["ContentType"]) == ({"b": "2"}, "text/plain")
    s3.delete_object(Bucket=bucket, Key="from/ä b+c")
    assert body_of(s3, bucket, "kept") == content


def test_copy_onto_itself_needs_a_change(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "1"})
    source = {"Bucket": bucket, "Key": "k"}
    with refused("InvalidRequest", status=400):
        s3.copy_object(Bucket=bucket, Key="k", CopySource=source)
    s3.copy_object(
        Bucket=bucket, Key="k", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"}
    )
    got = s3.get_object(Bucket=bucket, Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (b"x", {"b": "2"})


def test_copy_between_buckets_and_on_conditions(s3, bucket):
    other = fresh_bucket_name()
    s3.create_bucket(Bucket=other)
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    source = {"Bucket": bucket, "Key": "k"}
    s3.copy_object(Bucket=other, Key="k", CopySource=source, CopySourceIfMatch=etag)
    assert body_of(s3, other, "k") == b"x"
    with refused("PreconditionFailed", status=412):
        s3.copy_object(Bucket=other, Key="n", CopySource=source, CopySourceIfMatch='"other"')
    with refused("PreconditionFailed", status=412):
        s3.copy_object(Bucket=other, Key="n", CopySource=source, CopySourceIfNoneMatch=etag)
    with refused("404", status=404):
        s3.head_object(Bucket=other, Key="n")


# --- tags ------------------------------------------------------------------------------------


def test_object_tagging(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1&b=two%20words")
    tags = s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    assert sorted(tags, key=str) == [
        {"Key": "a", "Value": "1"}, {"Key": "b", "Value": "two words"},
    ]
    assert s3.get_object(Bucket=bucket, Key="k")["TagCount"] == 2
    s3.put_object_tagging(
        Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "c", "Value": "3"}]}
    )
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "c", "Value": "3"}]
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []


@pytest.mark.ashlar("the reference allows ASCII in tags only")
def test_tags_in_any_script(s3, bucket):
    tags = [{"Key": "größe", "Value": "大きい"}]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tags})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == tags


def test_too_many_or_repeated_tags_are_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    eleven = [{"Key": f"k{number}", "Value": "v"} for number in range(11)]
    with refused("BadRequest", "InvalidTag", status=400):
        s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": eleven})
    twice = [{"Key": "same", "Value": "1"}, {"Key": "same", "Value": "2"}]
    with refused("InvalidTag", status=400):
        s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": twice})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []


# --- checksums -------------------------------------------------------------------------------


def reflected_crc(polynomial, width):
    """A CRC with reflected bits and all-ones start and end, big-endian as S3 sends it."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    ones = (1 << width) - 1

    def digest(content):
        value = ones
        for byte in content:
            value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
        return (value ^ ones).to_bytes(width // 8, "big")

    return digest


ALGORITHMS = {
    "CRC32": lambda content: zlib.crc32(content).to_bytes(4, "big"),
    "CRC32C": reflected_crc(0x82F63B78, 32),
    "CRC64NVME": reflected_crc(0x9A6C9329AC4BC9B5, 64),
    "SHA1": lambda content: hashlib.sha1(content).digest(),
    "SHA256": lambda content: hashlib.sha256(content).digest(),
}

# Newer algorithms, which not every server supports.
LATER = {
    "SHA512": lambda content: hashlib.sha512(content).digest(),
    "MD5": lambda content: hashlib.md5(content).digest(),
}


@pytest.mark.ashlar("the reference does not know them")
@pytest.mark.parametrize("algorithm", LATER)
def test_newer_checksums_are_verified_stored_and_returned(server, s3, bucket, algorithm):
    test_checksums_are_verified_stored_and_returned(server, s3, bucket, algorithm)



@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_checksums_are_verified_stored_and_returned(server, s3, bucket, algorithm):
    content = b"The quick brown fox jumps over the lazy dog." * 100
    name = f"Checksum{algorithm}"
    value = base64.b64encode({**ALGORITHMS, **LATER}[algorithm](content)).decode()
    put = s3.put_object(Bucket=bucket, Key="k", Body=content, **{name: value})
    assert put[name] == value
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[name] == value
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (got["Body"].read(), got[name]) == (content, value)
    wrong = base64.b64encode({**ALGORITHMS, **LATER}[algorithm](content + b"!")).decode()
    with refused(*server.codes("BadDigest", "XAmzContentChecksumMismatch"), status=400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"other", **{name: wrong})
    assert body_of(s3, bucket, "k") == content


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_that_the_client_computes(s3, bucket, algorithm):
    content = b"computed by the client" * 1000
    s3.put_object(Bucket=bucket, Key="k", Body=content, ChecksumAlgorithm=algorithm)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    expected = base64.b64encode(ALGORITHMS[algorithm](content)).decode()
    assert (got["Body"].read(), got[f"Checksum{algorithm}"]) == (content, expected)


def test_content_md5_is_verified(s3, bucket):
    right = base64.b64encode(hashlib.md5(b"content").digest()).decode()
    s3.put_object(Bucket=bucket, Key="k", Body=b"content", ContentMD5=right)
    with refused("BadDigest", status=400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"changed", ContentMD5=right)
    with refused("InvalidDigest", status=400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"changed", ContentMD5="bm90IGFuIG1kNQ==")
    assert body_of(s3, bucket, "k") == b"content"


def test_get_object_attributes(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345", ChecksumAlgorithm="SHA256")
    answer = s3.get_object_attributes(
        Bucket=bucket, Key="k", ObjectAttributes=["ETag", "ObjectSize", "StorageClass", "Checksum"]
    )
    assert answer["ETag"] == hashlib.md5(b"12345").hexdigest()
    assert answer["ObjectSize"] == 5
    assert answer["Checksum"]["ChecksumSHA256"] == base64.b64encode(
        hashlib.sha256(b"12345").digest()
    ).decode()


# --- keys ------------------------------------------------------------------------------------

# Keys that any server over a file system can store, the reference included.
PLAIN_KEYS = [
    "a", "with space", "plus+sign", "per%cent", "per%20cent", "a%2Fb", "am&per<sand>", "quo\"te'",
    "ünïcödé/日本語/🪨", "semi;colon=equals?question#hash", "deep/" * 20 + "end",
    "back~tick`^{}|", "*star*", "dots.in..name", "...", "tab\there", "line\nbreak",
    "back\\slash", "trailing/", "é", "e\u0301",
]
# Keys that S3 allows and a file system does not. Ashlar keeps all of them apart.
ODD_KEYS = [
    "a//b", "/leading", "//", "trailing//", ".", "..", "./x", "../x", "a/./b",
    "a/../b", "x" * 1024, "y" * 300 + "/" + "z" * 300,
]


@pytest.mark.parametrize("key", PLAIN_KEYS)
def test_plain_keys_round_trip(s3, bucket, key):
    check_key(s3, bucket, key)


@pytest.mark.ashlar("a file system in the reference refuses or normalises such keys")
@pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: repr(key)[:20])
def test_odd_keys_round_trip(s3, bucket, key):
    check_key(s3, bucket, key)


def check_key(s3, bucket, key):
    content = key.encode()
    s3.put_object(Bucket=bucket, Key=key, Body=content)
    assert body_of(s3, bucket, key) == content
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(content)
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in listed] == [key]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert body_of(s3, bucket, "copy") == content
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}, {"Key": "copy"}]})
    assert "Errors" not in answer
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@pytest.mark.ashlar("a file system in the reference cannot hold all of them at once")
def test_odd_keys_are_never_aliases(s3, bucket):
    keys = [*PLAIN_KEYS, *ODD_KEYS]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in keys:
        assert body_of(s3, bucket, key) == key.encode(), repr(key)
    listed = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(keys, key=str.encode)


def test_a_key_and_keys_below_it_both_exist(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"the file")
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"below it")
    s3.put_object(Bucket=bucket, Key="a/", Body=b"the marker, with bytes")
    assert body_of(s3, bucket, "a") == b"the file"
    assert body_of(s3, bucket, "a/") == b"the marker, with bytes"
    assert body_of(s3, bucket, "a/b") == b"below it"
    s3.delete_object(Bucket=bucket, Key="a")
    with refused("NoSuchKey", status=404):
        s3.get_object(Bucket=bucket, Key="a")
    assert body_of(s3, bucket, "a/b") == b"below it"


def test_a_key_of_1025_bytes_is_refused(s3, bucket):
    with refused("KeyTooLongError", status=400):
        s3.put_object(Bucket=bucket, Key="x/" * 512 + "y", Body=b"x")


def test_an_empty_directory_marker_is_an_object(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="dir/", Body=b"", ContentType="application/x-directory")
    assert put["ETag"] == EMPTY_MD5
    head = s3.head_object(Bucket=bucket, Key="dir/")
    assert (head["ContentLength"], head["ContentType"]) == (0, "application/x-directory")
    with refused("404", status=404):
        s3.head_object(Bucket=bucket, Key="dir")
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["dir/"]
