"""boto3, low level: copies between the modes of server-side encryption, whole and in parts.

A copy shares the blocks of its source if both have the same mode and key. Otherwise the gateway
writes the bytes again.
"""

import pytest

from encryption import NONE, S3, applied, content, customer, kms
from server import fresh_bucket_name

MIB = 1 << 20
MODES = ["none", "sse-s3", "sse-kms", "sse-c"]
# In a record, in a pack if the key allows it, and in a block. The last size has several blocks.
SIZES = [1, 70_000, MIB]
LARGE = 17 * MIB

pytestmark = pytest.mark.ashlar("the reference has no key management service")


def mode_of(server, name, key="a"):
    """Returns a mode by its name. `key` is the label of a client's key."""
    return {
        "none": lambda: NONE,
        "sse-s3": lambda: S3,
        "sse-kms": lambda: kms(server.kms_key),
        "sse-c": lambda: customer(key),
    }[name]()


@pytest.fixture(scope="module")
def pair(server, botocore_session):
    """A client and two buckets for all tests of this file."""
    s3 = botocore_session.create_client("s3", **server.aws_settings())
    names = [fresh_bucket_name("copies") for _ in range(2)]
    for name in names:
        s3.create_bucket(Bucket=name)
    return s3, *names


def copied(pair, source, target, size):
    """Copies an object between two modes, and checks the answers and the copy."""
    s3, first, second = pair
    at, to, body = {"Bucket": first, "Key": "k"}, {"Bucket": second, "Key": "k"}, content(size)
    assert applied(s3.put_object(**at, Body=body, **source.new)) == source.answer
    copy = s3.copy_object(**to, CopySource=at, **source.source, **target.new)
    # The copy does not need the source.
    s3.delete_object(**at)
    found = s3.get_object(**to, **target.own)
    assert applied(copy) == applied(found) == target.answer
    assert found["Body"].read() == body
    assert found["ETag"] == copy["CopyObjectResult"]["ETag"]
    head = s3.head_object(**to, **target.own)
    assert (applied(head), head["ContentLength"]) == (target.answer, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("target", MODES)
@pytest.mark.parametrize("source", MODES)
def test_a_copy_has_the_mode_of_its_own_request(server, pair, source, target, size):
    copied(pair, mode_of(server, source), mode_of(server, target, "b"), size)


def test_a_copy_of_several_blocks(server, pair):
    copied(pair, mode_of(server, "sse-c"), mode_of(server, "sse-kms"), LARGE)


def test_a_copy_under_the_same_key(server, pair):
    for size in (1, MIB):
        copied(pair, mode_of(server, "sse-c"), mode_of(server, "sse-c"), size)


def copied_in_parts(pair, source, target, size, spans):
    """Copies ranges of an object as parts of an upload, and checks the answers and the result."""
    s3, first, second = pair
    at, to, body = {"Bucket": first, "Key": "source"}, {"Bucket": second, "Key": "k"}, content(size)
    s3.put_object(**at, Body=body, **source.new)
    created = s3.create_multipart_upload(**to, **target.new)
    upload = {**to, "UploadId": created["UploadId"]}
    keys = {**source.source, **target.own}
    copies = [
        s3.upload_part_copy(
            **upload,
            PartNumber=number,
            CopySource=at,
            CopySourceRange=f"bytes={start}-{end - 1}",
            **keys,
        )
        for number, (start, end) in enumerate(spans, 1)
    ]
    parts = [
        {"PartNumber": number, "ETag": copy["CopyPartResult"]["ETag"]}
        for number, copy in enumerate(copies, 1)
    ]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **target.own)
    s3.delete_object(**at)
    found = s3.get_object(**to, **target.own)
    for answer in (created, *copies, done, found):
        assert applied(answer) == target.answer
    assert found["Body"].read() == b"".join(body[start:end] for start, end in spans)


# A range that begins and ends within a cipher block.
SPAN = (77_777, 99_991)


@pytest.mark.parametrize("target", MODES)
@pytest.mark.parametrize("source", MODES)
def test_a_part_copied_from_another_mode(server, pair, source, target):
    copied_in_parts(pair, mode_of(server, source), mode_of(server, target, "b"), 100_000, [SPAN])


@pytest.mark.parametrize("source, target", [("none", "sse-c"), ("sse-c", "sse-kms")])
def test_several_parts_copied_from_another_mode(server, pair, source, target):
    size = 5 * MIB + 100
    spans = [(0, size), (100, size), SPAN]
    copied_in_parts(pair, mode_of(server, source), mode_of(server, target, "b"), size, spans)
