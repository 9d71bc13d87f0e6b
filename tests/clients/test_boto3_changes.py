"""boto3, low level: changes of an object without a new upload: rename and append."""

import hashlib
import json
import threading
from datetime import datetime, timedelta, timezone

import boto3
import pytest

from conftest import watch_retries
from people import add_account, add_person
from server import refused

# Too long for a record, and shorter than a block.
MIDDLE = 700_000


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


def content(seed, size):
    return hashlib.shake_128(str(seed).encode()).digest(size)


def body_of(s3, bucket, key, **arguments):
    return s3.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()


def keys(s3, bucket):
    return [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_a_renamed_object_keeps_everything_except_its_key(s3, bucket):
    kept = {"Metadata": {"colour": "grey"}, "ContentType": "text/x-stone", "Tagging": "a=1"}
    put = s3.put_object(Bucket=bucket, Key="a/b/old", Body=content(1, MIDDLE), **kept)
    s3.rename_object(Bucket=bucket, Key="c/new", RenameSource="a/b/old")
    got = s3.get_object(Bucket=bucket, Key="c/new", ChecksumMode="ENABLED")
    assert got["Body"].read() == content(1, MIDDLE)
    assert got["ETag"] == put["ETag"] and got["ChecksumCRC32"] == put["ChecksumCRC32"]
    assert got["Metadata"] == kept["Metadata"] and got["ContentType"] == kept["ContentType"]
    assert s3.get_object_tagging(Bucket=bucket, Key="c/new")["TagSet"] == [
        {"Key": "a", "Value": "1"}
    ]
    assert keys(s3, bucket) == ["c/new"]


@pytest.mark.parametrize("source", ["ä b", "/ä b", "/{bucket}/ä b", "%C3%A4%20b"])
def test_the_source_may_be_named_in_several_ways(s3, bucket, source):
    s3.put_object(Bucket=bucket, Key="ä b", Body=b"x")
    if "%" not in source:
        source = source.replace("ä b", "%C3%A4%20b")
    s3.rename_object(Bucket=bucket, Key="new", RenameSource=source.format(bucket=bucket))
    assert keys(s3, bucket) == ["new"]


def test_a_rename_replaces_an_object_unless_a_condition_forbids_it(s3, bucket):
    s3.put_object(Bucket=bucket, Key="old", Body=b"old")
    there = s3.put_object(Bucket=bucket, Key="new", Body=b"new")
    with refused("PreconditionFailed", status=412):
        s3.rename_object(
            Bucket=bucket, Key="new", RenameSource="old", DestinationIfNoneMatch="*"
        )
    with refused("PreconditionFailed", status=412):
        s3.rename_object(
            Bucket=bucket, Key="new", RenameSource="old", DestinationIfMatch='"0"'
        )
    with refused("PreconditionFailed", status=412):
        s3.rename_object(
            Bucket=bucket, Key="other", RenameSource="old", DestinationIfMatch=there["ETag"]
        )
    assert body_of(s3, bucket, "new") == b"new"
    s3.rename_object(
        Bucket=bucket, Key="new", RenameSource="old", DestinationIfMatch=there["ETag"]
    )
    assert body_of(s3, bucket, "new") == b"old"
    assert keys(s3, bucket) == ["new"]


def test_conditions_on_the_source_of_a_rename_are_checked(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="old", Body=b"old")
    hour = timedelta(hours=1)
    now = datetime.now(timezone.utc)
    for condition in (
        {"SourceIfMatch": '"0"'},
        {"SourceIfNoneMatch": put["ETag"]},
        {"SourceIfNoneMatch": "*"},
        {"SourceIfModifiedSince": now + hour},
        {"SourceIfUnmodifiedSince": now - hour},
    ):
        with refused("PreconditionFailed", status=412):
            s3.rename_object(Bucket=bucket, Key="new", RenameSource="old", **condition)
    assert keys(s3, bucket) == ["old"]
    s3.rename_object(
        Bucket=bucket,
        Key="new",
        RenameSource="old",
        SourceIfMatch=put["ETag"],
        SourceIfModifiedSince=now - hour,
    )
    assert keys(s3, bucket) == ["new"]


def test_a_repeated_rename_takes_effect_once(s3, bucket):
    s3.put_object(Bucket=bucket, Key="old", Body=b"old")
    request = {"Bucket": bucket, "Key": "new", "RenameSource": "old", "ClientToken": "once"}
    s3.rename_object(**request)
    s3.rename_object(**request)
    with refused("NoSuchKey", status=404):
        s3.rename_object(**{**request, "ClientToken": "twice"})
    with refused("InvalidArgument", status=400):
        s3.rename_object(**{**request, "ClientToken": "t" * 65})
    # The key now belongs to a newer object, which must stay.
    s3.put_object(Bucket=bucket, Key="old", Body=b"newer")
    s3.rename_object(**request)
    s3.rename_object(**request, SourceIfMatch='"0"', DestinationIfNoneMatch="*")
    assert body_of(s3, bucket, "new") == b"old"
    assert body_of(s3, bucket, "old") == b"newer"
    s3.put_object(Bucket=bucket, Key="other", Body=b"other")
    with refused("IdempotencyParameterMismatch", status=400):
        s3.rename_object(**{**request, "RenameSource": "other"})
    s3.rename_object(**{**request, "ClientToken": "twice"})
    assert body_of(s3, bucket, "new") == b"newer"


def test_invalid_renames_are_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a/", Body=b"")
    for key, source in (("b", "a/"), ("b/", "a")):
        with refused("InvalidRequest", status=400):
            s3.rename_object(Bucket=bucket, Key=key, RenameSource=source)
    with refused("NoSuchKey", status=404):
        s3.rename_object(Bucket=bucket, Key="b", RenameSource="nothing")
    with refused("InvalidArgument", status=400):
        s3.rename_object(Bucket=bucket, Key="b", RenameSource="/")
    with refused("NoSuchBucket", status=404):
        s3.rename_object(Bucket=bucket + "-none", Key="b", RenameSource="a")


@pytest.mark.ashlar("accounts are created by the gateway's own commands")
def test_a_rename_needs_rights_to_read_delete_and_write(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="old", Body=b"old")
    account = add_account(server)
    carl = add_person(server, ["readwrite"], account)

    def allow(actions):
        statement = [
            {
                "Effect": "Allow",
                "Principal": {"AWS": account.number},
                "Action": action,
                "Resource": f"arn:aws:s3:::{bucket}/{key}",
            }
            for action, key in actions
        ]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statement})
        s3.put_bucket_policy(Bucket=bucket, Policy=policy)

    needed = [("s3:GetObject", "old"), ("s3:DeleteObject", "old"), ("s3:PutObject", "new")]
    for left_out in range(len(needed)):
        allow(needed[:left_out] + needed[left_out + 1 :])
        with refused("AccessDenied", status=403):
            carl.s3.rename_object(Bucket=bucket, Key="new", RenameSource="old")
    allow(needed)
    carl.s3.rename_object(Bucket=bucket, Key="new", RenameSource="old")
    assert keys(s3, bucket) == ["new"]


@pytest.mark.parametrize("first", [0, 100, MIDDLE, (9 << 20) + 1])
@pytest.mark.parametrize("second", [1, 5000, (5 << 20) + 3])
def test_appended_bytes_follow_the_existing_content(s3, bucket, first, second):
    before, behind = content(1, first), content(2, second)
    put = s3.put_object(Bucket=bucket, Key="log", Body=before, Metadata={"colour": "grey"})
    appended = s3.put_object(Bucket=bucket, Key="log", Body=behind, WriteOffsetBytes=first)
    assert appended["Size"] == first + second
    assert appended["ETag"] != put["ETag"]
    got = s3.get_object(Bucket=bucket, Key="log", ChecksumMode="ENABLED")
    # boto3 compares the checksum of the whole object with the bytes.
    assert got["Body"].read() == before + behind
    assert got["ChecksumCRC32"] and got["ChecksumType"] == "FULL_OBJECT"
    assert got["ETag"] == appended["ETag"]
    assert got["Metadata"] == {"colour": "grey"}
    ranged = body_of(s3, bucket, "log", Range=f"bytes={max(first - 3, 0)}-{first}")
    assert ranged == (before + behind)[max(first - 3, 0) : first + 1]


def test_the_first_append_creates_the_object(s3, bucket):
    with refused("NoSuchKey", status=404):
        s3.put_object(Bucket=bucket, Key="log", Body=b"one", WriteOffsetBytes=3)
    s3.put_object(
        Bucket=bucket, Key="log", Body=b"one", WriteOffsetBytes=0, ContentType="text/x-log"
    )
    for offset, line in ((3, b" two"), (7, b" three"), (13, b"")):
        s3.put_object(Bucket=bucket, Key="log", Body=line, WriteOffsetBytes=offset)
    got = s3.get_object(Bucket=bucket, Key="log")
    assert got["Body"].read() == b"one two three"
    assert got["ContentType"] == "text/x-log"


def test_an_append_at_a_wrong_offset_is_refused_without_loss(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="log", Body=b"12345")
    for offset in (0, 4, 6):
        with refused("InvalidWriteOffset", status=400):
            s3.put_object(Bucket=bucket, Key="log", Body=b"x", WriteOffsetBytes=offset)
    with refused("PreconditionFailed", status=412):
        s3.put_object(
            Bucket=bucket, Key="log", Body=b"x", WriteOffsetBytes=5, IfMatch='"0"'
        )
    with refused("BadDigest", status=400):
        s3.put_object(
            Bucket=bucket,
            Key="log",
            Body=b"x",
            WriteOffsetBytes=5,
            ContentMD5="XUFAKrxLKna5cZ2REBfFkg==",
        )
    head = s3.head_object(Bucket=bucket, Key="log")
    assert head["ETag"] == put["ETag"] and body_of(s3, bucket, "log") == b"12345"
    s3.put_object(
        Bucket=bucket, Key="log", Body=b"x", WriteOffsetBytes=5, IfMatch=put["ETag"]
    )


@pytest.mark.ashlar("accounts are created by the gateway's own commands")
def test_an_append_needs_the_right_to_read(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="log", Body=b"12345")
    writer = add_person(server, ["writeonly"])
    writer.s3.put_object(Bucket=bucket, Key="other", Body=b"12345")
    for offset in (0, 4, 5):
        with refused("AccessDenied", status=403):
            writer.s3.put_object(Bucket=bucket, Key="log", Body=b"", WriteOffsetBytes=offset)
    assert body_of(s3, bucket, "log") == b"12345"


@pytest.mark.ashlar("accounts are created by the gateway's own commands")
def test_policies_see_the_headers_of_an_append_only_if_it_creates_the_object(server, s3, bucket):
    person = add_person(server, ["readwrite"])
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }

    def set_policy(condition):
        policy = {"Version": "2012-10-17", "Statement": [{**statement, "Condition": condition}]}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))

    offset = []

    def write_offset(params, **_):
        params["headers"]["x-amz-write-offset-bytes"] = offset[-1]

    event = "before-call.s3.PutObject"
    person.s3.meta.events.register(event, write_offset)
    set_policy({"StringEquals": {"s3:x-amz-storage-class": "GLACIER"}})
    for zero in ("0", "00"):
        offset.append(zero)
        with refused("AccessDenied", status=403):
            person.s3.put_object(Bucket=bucket, Key="new", Body=b"x", StorageClass="GLACIER")
    set_policy({"Null": {"s3:x-amz-storage-class": "true"}})
    s3.put_object(Bucket=bucket, Key="empty", Body=b"", StorageClass="STANDARD")
    with refused("AccessDenied", status=403):
        person.s3.put_object(Bucket=bucket, Key="empty", Body=b"x", StorageClass="STANDARD")
    person.s3.put_object(Bucket=bucket, Key="new", Body=b"x", StorageClass="STANDARD")
    person.s3.meta.events.unregister(event, write_offset)
    s3.delete_bucket_policy(Bucket=bucket)
    assert body_of(s3, bucket, "empty") == b"" and body_of(s3, bucket, "new") == b"x"


@pytest.mark.ashlar("accounts are created by the gateway's own commands")
def test_a_write_once_policy_requires_if_none_match_star(server, s3, bucket):
    carl = add_person(server, ["readwrite"], add_account(server))
    once = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"Null": {"s3:if-none-match": "false"}},
    }
    read = {**once, "Action": "s3:GetObject"}
    del read["Condition"]
    policy = json.dumps({"Version": "2012-10-17", "Statement": [once, read]})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    carl.s3.put_object(Bucket=bucket, Key="k", Body=b"first", IfNoneMatch="*")
    for condition in ({}, {"IfNoneMatch": '"0"'}):
        with refused("AccessDenied", status=403):
            carl.s3.put_object(Bucket=bucket, Key="k", Body=b"second", **condition)
    with refused("PreconditionFailed", status=412):
        carl.s3.put_object(Bucket=bucket, Key="k", Body=b"second", IfNoneMatch="*")
    assert body_of(s3, bucket, "k") == b"first"


def test_exactly_one_of_two_appends_at_one_offset_succeeds(server, bucket):
    s3 = boto3.client("s3", **server.aws_settings())
    s3.put_object(Bucket=bucket, Key="log", Body=b"")
    lines = 20

    def write(name):
        own = boto3.client("s3", **server.aws_settings())
        for number in range(lines):
            line = f"{name} {number}\n".encode()
            while True:
                end = own.head_object(Bucket=bucket, Key="log")["ContentLength"]
                try:
                    own.put_object(Bucket=bucket, Key="log", Body=line, WriteOffsetBytes=end)
                    break
                except own.exceptions.ClientError as error:
                    code = error.response["Error"]["Code"]
                    assert code in ("InvalidWriteOffset", "ConditionalRequestConflict"), code

    writers = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    [writer.start() for writer in writers]
    [writer.join() for writer in writers]
    written = body_of(s3, bucket, "log").decode().splitlines()
    assert sorted(written) == sorted(f"{name} {n}" for name in "abcd" for n in range(lines))
    for name in "abcd":
        own = [line for line in written if line.startswith(name)]
        assert own == [f"{name} {n}" for n in range(lines)]


def test_a_write_may_require_another_content(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"one", IfNoneMatch='"0"')
    with refused("PreconditionFailed", status=412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"two", IfNoneMatch=put["ETag"])
    with refused("PreconditionFailed", status=412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"two", IfNoneMatch=f'"0", {put["ETag"]}')
    assert body_of(s3, bucket, "k") == b"one"
    s3.put_object(Bucket=bucket, Key="k", Body=b"two", IfNoneMatch='"0"')
    assert body_of(s3, bucket, "k") == b"two"
