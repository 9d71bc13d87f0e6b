"""boto3, low level: versions of objects, delete markers, and the version whose id is `null`.

Where AWS and the reference differ, the tests follow AWS: its documentation and recorded responses.
"""

import concurrent.futures
import hashlib
import json
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import boto3
import pytest

from conftest import watch_retries
from people import add_person
from raw import Ask, send
from server import refused
from versions import (
    Entry,
    current_keys,
    empty,
    enable,
    headers_of,
    delete_current,
    ids,
    listed,
    put,
    read,
    suspend,
)

PART = 5 << 20

ALWAYS_A_MARKER = pytest.mark.ashlar("the reference makes a marker only over an object")


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


# --- the state of a bucket -------------------------------------------------------------------


def test_versioning_is_unset_then_enabled_then_suspended(s3, plain):
    unset = s3.get_bucket_versioning(Bucket=plain)
    assert "Status" not in unset and "MFADelete" not in unset
    for state in ("Enabled", "Enabled", "Suspended", "Enabled"):
        s3.put_bucket_versioning(Bucket=plain, VersioningConfiguration={"Status": state})
        assert s3.get_bucket_versioning(Bucket=plain)["Status"] == state


def test_versioning_may_be_suspended_before_it_was_ever_enabled(s3, plain):
    suspend(s3, plain)
    assert s3.get_bucket_versioning(Bucket=plain)["Status"] == "Suspended"


def test_a_bad_status_is_refused(server, s3, plain):
    bad = "IllegalVersioningConfigurationException"
    for status in ("Disabled", "enabled", "On"):
        with refused(*server.codes("MalformedXML", bad), status=400):
            s3.put_bucket_versioning(Bucket=plain, VersioningConfiguration={"Status": status})
    with refused(bad, status=400):
        s3.put_bucket_versioning(Bucket=plain, VersioningConfiguration={})
    assert "Status" not in s3.get_bucket_versioning(Bucket=plain)


def test_versioning_of_a_bucket_that_is_not_there(server, s3):
    with refused("NoSuchBucket", status=404):
        s3.get_bucket_versioning(Bucket="no-such-bucket-at-all")
    with refused("NoSuchBucket", status=404):
        s3.list_object_versions(Bucket="no-such-bucket-at-all")
    if server.is_ashlar():
        # The reference does not check that the bucket exists.
        with refused("NoSuchBucket", status=404):
            enable(s3, "no-such-bucket-at-all")


def test_mfa_delete_may_be_set_to_disabled(s3, plain):
    state = {"Status": "Enabled", "MFADelete": "Disabled"}
    s3.put_bucket_versioning(Bucket=plain, VersioningConfiguration=state)
    assert s3.get_bucket_versioning(Bucket=plain)["Status"] == "Enabled"


@pytest.mark.ashlar("the reference accepts the setting and drops it")
def test_mfa_delete_cannot_be_enabled(s3, plain):
    # AWS does not enable it either without the serial number and code of a device.
    state = {"Status": "Enabled", "MFADelete": "Enabled"}
    with refused("AccessDenied", "InvalidRequest", "NotImplemented"):
        s3.put_bucket_versioning(Bucket=plain, VersioningConfiguration=state)
    assert "Status" not in s3.get_bucket_versioning(Bucket=plain)


def test_a_bucket_with_versions_or_markers_is_not_empty(s3, versioned):
    version = put(s3, versioned, "k")
    marker = delete_current(s3, versioned, "k")
    assert current_keys(s3, versioned) == []
    for left in (marker, version):
        with refused("BucketNotEmpty", status=409) as caught:
            s3.delete_bucket(Bucket=versioned)
        assert "delete all versions" in caught.value.response["Error"]["Message"]
        s3.delete_object(Bucket=versioned, Key="k", VersionId=left)
    s3.delete_bucket(Bucket=versioned)
    s3.create_bucket(Bucket=versioned)
    assert "Status" not in s3.get_bucket_versioning(Bucket=versioned)


# --- ids in responses --------------------------------------------------------------------------


def test_every_write_makes_a_version(s3, versioned):
    made = [put(s3, versioned, "k", b"put"), put(s3, versioned, "k", b"put")]
    source = {"Bucket": versioned, "Key": "k"}
    made.append(s3.copy_object(Bucket=versioned, Key="k2", CopySource=source)["VersionId"])
    made.append(upload(s3, versioned, "k", [b"parts"]))
    assert len(set(made)) == 4
    for version in made:
        assert version and version != "null" and len(version.encode()) <= 1024
    assert ids(s3, versioned, "k") == [made[3], made[1], made[0]]
    assert ids(s3, versioned, "k2") == [made[2]]


def upload(s3, bucket, key, bodies):
    """Uploads an object in parts. Returns its version id, or None."""
    begun = s3.create_multipart_upload(Bucket=bucket, Key=key)
    assert "VersionId" not in begun, "a version is made at the end"
    which = {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]}
    parts = []
    for number, body in enumerate(bodies, start=1):
        sent = s3.upload_part(**which, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
    done = s3.complete_multipart_upload(**which, MultipartUpload={"Parts": parts})
    return done.get("VersionId")


# Operations whose response contains the version id of the object.
ABOUT_A_VERSION = {
    "GetObject": lambda s3, **which: s3.get_object(**which),
    "HeadObject": lambda s3, **which: s3.head_object(**which),
    "GetObjectAttributes": lambda s3, **which: s3.get_object_attributes(
        ObjectAttributes=["ETag", "ObjectSize"], **which
    ),
    "GetObjectTagging": lambda s3, **which: s3.get_object_tagging(**which),
    "PutObjectTagging": lambda s3, **which: s3.put_object_tagging(
        Tagging={"TagSet": [{"Key": "a", "Value": "1"}]}, **which
    ),
    "DeleteObjectTagging": lambda s3, **which: s3.delete_object_tagging(**which),
}
SILENT = pytest.mark.ashlar("the reference does not return the version of the tags")


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(name, marks=SILENT) if name == "GetObjectTagging" else name
        for name in ABOUT_A_VERSION
    ],
)
def test_responses_contain_the_version_id(s3, versioned, operation):
    ask = ABOUT_A_VERSION[operation]
    older, newer = put(s3, versioned, "k", b"1"), put(s3, versioned, "k", b"22")
    assert ask(s3, Bucket=versioned, Key="k")["VersionId"] == newer
    for version in (older, newer):
        answer = ask(s3, Bucket=versioned, Key="k", VersionId=version)
        assert answer["VersionId"] == version
        assert headers_of(answer)["x-amz-version-id"] == version


def test_without_versioning_no_response_contains_a_version_id(s3, plain):
    assert put(s3, plain, "k") is None
    assert upload(s3, plain, "parts", [b"x"]) is None
    source = {"Bucket": plain, "Key": "k"}
    copied = s3.copy_object(Bucket=plain, Key="k2", CopySource=source)
    answers = [copied, *(ask(s3, Bucket=plain, Key="k") for ask in ABOUT_A_VERSION.values())]
    # AWS does not return it even if it is requested.
    answers.append(s3.get_object(Bucket=plain, Key="k", VersionId="null"))
    answers.append(s3.delete_object(Bucket=plain, Key="k"))
    answers.append(s3.delete_object(Bucket=plain, Key="never-was"))
    answers.append(s3.delete_object(Bucket=plain, Key="parts", VersionId="null"))
    for answer in answers[:-1]:
        names = {"x-amz-version-id", "x-amz-delete-marker", "x-amz-copy-source-version-id"}
        assert not names & set(headers_of(answer))
    assert listed(s3, plain) == [Entry("k2", "null", "Version", True)]


def test_a_bucket_without_versioning_lists_each_object_as_version_null(s3, plain):
    for key in ("b", "a/1", "a/2"):
        put(s3, plain, key, b"1")
        put(s3, plain, key, b"2")
    s3.delete_object(Bucket=plain, Key="a/1")
    assert listed(s3, plain) == [
        Entry("a/2", "null", "Version", True), Entry("b", "null", "Version", True),
    ]


def test_concurrent_writes_all_make_versions(server, versioned):
    def write(number):
        s3 = boto3.client("s3", **server.aws_settings())
        return {put(s3, versioned, "k", f"{number} {turn}".encode()) for turn in range(5)}

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = set().union(*pool.map(write, range(6)))
    s3 = boto3.client("s3", **server.aws_settings())
    found = listed(s3, versioned)
    assert len(made) == 30
    assert {each.version for each in found} == made
    assert [each.latest for each in found] == [True] + 29 * [False]
    assert read(s3, versioned, "k") == read(s3, versioned, "k", VersionId=found[0].version)


# --- reading versions ------------------------------------------------------------------------


def test_versions_are_read_by_id(s3, versioned):
    made = {}
    for number in range(3):
        body = f"content {number}".encode() * (number + 1)
        kept = {"Metadata": {"number": str(number)}, "ContentType": f"text/x-{number}"}
        made[put(s3, versioned, "k", body, **kept)] = (body, kept)
    for version, (body, kept) in made.items():
        got = s3.get_object(Bucket=versioned, Key="k", VersionId=version)
        head = s3.head_object(Bucket=versioned, Key="k", VersionId=version)
        assert got["Body"].read() == body
        for answer in (got, head):
            assert answer["ContentLength"] == len(body)
            assert answer["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
            assert {name: answer[name] for name in kept} == kept
        which = {"VersionId": version}
        assert read(s3, versioned, "k", Range="bytes=2-5", **which) == body[2:6]
        assert read(s3, versioned, "k", IfMatch=got["ETag"], **which) == body
        with refused("PreconditionFailed", status=412):
            s3.get_object(Bucket=versioned, Key="k", IfMatch='"other"', **which)
        with refused("304", status=304):
            s3.head_object(Bucket=versioned, Key="k", IfNoneMatch=got["ETag"], **which)
    assert read(s3, versioned, "k") == body


def test_attributes_belong_to_the_version(s3, versioned):
    made = {put(s3, versioned, "k", body): body for body in (b"1", b"22")}
    for version, body in made.items():
        answer = s3.get_object_attributes(
            Bucket=versioned, Key="k", VersionId=version, ObjectAttributes=["ETag", "ObjectSize"]
        )
        assert answer["ObjectSize"] == len(body)
        assert answer["ETag"] == hashlib.md5(body).hexdigest()


def test_tags_belong_to_the_version(s3, versioned):
    older = put(s3, versioned, "k", b"1", Tagging="age=older")
    newer = put(s3, versioned, "k", b"2")

    def tags(**which):
        answer = s3.get_object_tagging(Bucket=versioned, Key="k", **which)
        return {each["Key"]: each["Value"] for each in answer["TagSet"]}

    def tag(value, **which):
        tagging = {"TagSet": [{"Key": "age", "Value": value}]}
        s3.put_object_tagging(Bucket=versioned, Key="k", Tagging=tagging, **which)

    assert (tags(VersionId=older), tags()) == ({"age": "older"}, {})
    tag("newer")
    tag("oldest", VersionId=older)
    assert tags(VersionId=older) == {"age": "oldest"}
    assert tags(VersionId=newer) == tags() == {"age": "newer"}
    assert s3.get_object(Bucket=versioned, Key="k", VersionId=older)["TagCount"] == 1
    s3.delete_object_tagging(Bucket=versioned, Key="k", VersionId=older)
    assert (tags(VersionId=older), tags()) == ({}, {"age": "newer"})
    assert ids(s3, versioned, "k") == [newer, older], "tags make no version"


@pytest.mark.ashlar("the reference uses only the current version")
def test_access_control_lists_belong_to_the_version(s3, versioned):
    version = put(s3, versioned, "k")
    marker = delete_current(s3, versioned, "k")
    grants = s3.get_object_acl(Bucket=versioned, Key="k", VersionId=version)["Grants"]
    assert [each["Permission"] for each in grants] == ["FULL_CONTROL"]
    with refused("MethodNotAllowed", status=405):
        s3.get_object_acl(Bucket=versioned, Key="k", VersionId=marker)
    # AWS's documentation does not say which of the two.
    with refused("NoSuchKey", "MethodNotAllowed"):
        s3.get_object_acl(Bucket=versioned, Key="k")
    s3.delete_object(Bucket=versioned, Key="k", VersionId=version)
    with refused("NoSuchVersion", status=404):
        s3.get_object_acl(Bucket=versioned, Key="k", VersionId=version)
    with refused("InvalidArgument", status=400):
        s3.get_object_acl(Bucket=versioned, Key="k", VersionId="not an id")


def test_parts_of_a_version_are_read(s3, versioned):
    bodies = [b"1" * PART, b"22"]
    version = upload(s3, versioned, "k", bodies)
    put(s3, versioned, "k", b"newer")
    for number, body in enumerate(bodies, start=1):
        got = s3.get_object(Bucket=versioned, Key="k", VersionId=version, PartNumber=number)
        assert (got["Body"].read(), got["PartsCount"]) == (body, 2)
    assert read(s3, versioned, "k", VersionId=version) == b"".join(bodies)


@pytest.mark.ashlar("users are created by the gateway's own commands")
def test_versions_have_permissions_of_their_own(server, s3, versioned):
    person = add_person(server)

    def allow(*actions):
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::000000000001:user/{person.access_key}"},
            "Action": [f"s3:{action}" for action in actions],
            "Resource": [f"arn:aws:s3:::{versioned}", f"arn:aws:s3:::{versioned}/*"],
        }
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        s3.put_bucket_policy(Bucket=versioned, Policy=json.dumps(policy))

    version = put(s3, versioned, "k", b"theirs")
    allow("GetObject", "DeleteObject", "ListBucket")
    assert read(person.s3, versioned, "k") == b"theirs"
    for ask in (person.s3.get_object, person.s3.delete_object):
        with refused("AccessDenied", status=403):
            ask(Bucket=versioned, Key="k", VersionId=version)
    with refused("AccessDenied", status=403):
        person.s3.list_object_versions(Bucket=versioned)
    marker = delete_current(person.s3, versioned, "k")
    allow("GetObjectVersion", "DeleteObjectVersion", "ListBucketVersions")
    assert read(person.s3, versioned, "k", VersionId=version) == b"theirs"
    assert ids(person.s3, versioned, "k") == [marker, version]
    with refused("AccessDenied", status=403):
        person.s3.delete_object(Bucket=versioned, Key="k")
    person.s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    with refused("AccessDenied", status=403):
        person.s3.get_object(Bucket=versioned, Key="k")
    assert read(s3, versioned, "k") == b"theirs"


INVALID = ["not-an-id", "0", "NULL", "a/b", "ä"]


@pytest.mark.parametrize(
    "operation", ["DeleteObject", *(name for name in ABOUT_A_VERSION if name != "HeadObject")]
)
def test_an_invalid_version_id_is_refused(server, s3, versioned, operation):
    ask = {"DeleteObject": lambda s3, **which: s3.delete_object(**which), **ABOUT_A_VERSION}
    put(s3, versioned, "k")
    for version in INVALID:
        with refused("InvalidArgument", status=400) as caught:
            ask[operation](s3, Bucket=versioned, Key="k", VersionId=version)
        error = caught.value.response["Error"]
        assert error["Message"] == "Invalid version id specified"
        if server.is_ashlar():
            assert (error["ArgumentName"], error["ArgumentValue"]) == ("versionId", version)
    assert len(ids(s3, versioned, "k")) == 1


def test_a_head_with_an_invalid_version_id_is_refused(server, s3, versioned):
    put(s3, versioned, "k")
    for version in INVALID:
        # Built by hand: boto3 takes such a response to a HEAD as one from the wrong region and
        # retries.
        ask = Ask(f"HEAD /{versioned}/k?versionId={quote(version, safe='')}")
        answer = send(server, ask, server.access_key, server.secret_key)
        assert (answer.status, answer.body) == (400, b"")


def test_a_bucket_without_versioning_validates_version_ids(s3, plain):
    put(s3, plain, "k", b"still here")
    with refused("InvalidArgument", status=400):
        s3.get_object(Bucket=plain, Key="k", VersionId="not-an-id")
    with refused("InvalidArgument", status=400):
        s3.delete_object(Bucket=plain, Key="k", VersionId="not-an-id")
    assert read(s3, plain, "k") == read(s3, plain, "k", VersionId="null") == b"still here"


@pytest.mark.parametrize("operation", ABOUT_A_VERSION)
def test_a_version_that_is_not_there_is_not_found(server, s3, versioned, operation):
    gone = put(s3, versioned, "k")
    others = put(s3, versioned, "other")
    put(s3, versioned, "k")
    s3.delete_object(Bucket=versioned, Key="k", VersionId=gone)
    for version in (gone, others, "null"):
        code = "404" if operation == "HeadObject" else "NoSuchVersion"
        with refused(code, status=404) as caught:
            ABOUT_A_VERSION[operation](s3, Bucket=versioned, Key="k", VersionId=version)
        if operation != "HeadObject" and server.is_ashlar():
            error = caught.value.response["Error"]
            assert (error["Key"], error["VersionId"]) == ("k", version)


def test_removing_a_version_that_is_not_there_changes_nothing(s3, versioned):
    gone = put(s3, versioned, "k")
    others = put(s3, versioned, "other")
    stays = put(s3, versioned, "k")
    for version in (gone, gone, others, "null"):
        answer = s3.delete_object(Bucket=versioned, Key="k", VersionId=version)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
        assert "x-amz-delete-marker" not in headers_of(answer)
    assert (ids(s3, versioned, "k"), ids(s3, versioned, "other")) == ([stays], [others])


# --- delete markers --------------------------------------------------------------------------


def test_a_delete_makes_a_marker(s3, versioned):
    version = put(s3, versioned, "k")
    answer = s3.delete_object(Bucket=versioned, Key="k")
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert answer["DeleteMarker"] is True
    marker = answer["VersionId"]
    assert marker not in (version, "null")
    assert listed(s3, versioned) == [
        Entry("k", marker, "DeleteMarker", True), Entry("k", version, "Version", False),
    ]
    assert current_keys(s3, versioned) == []
    newer = put(s3, versioned, "k", b"again")
    assert ids(s3, versioned, "k") == [newer, marker, version]
    assert read(s3, versioned, "k") == b"again"


@ALWAYS_A_MARKER
def test_a_delete_of_a_deleted_key_makes_another_marker(s3, versioned):
    version = put(s3, versioned, "k")
    made = [delete_current(s3, versioned, "k") for _ in range(3)]
    assert len({version, *made}) == 4
    assert listed(s3, versioned) == [
        Entry("k", made[2], "DeleteMarker", True),
        Entry("k", made[1], "DeleteMarker", False),
        Entry("k", made[0], "DeleteMarker", False),
        Entry("k", version, "Version", False),
    ]
    for marker in made:
        s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert current_keys(s3, versioned) == ["k"]


@ALWAYS_A_MARKER
def test_a_delete_of_a_key_that_never_existed_makes_a_marker(s3, versioned):
    answer = s3.delete_object(Bucket=versioned, Key="never/was")
    assert answer["DeleteMarker"] is True
    marker = answer["VersionId"]
    assert listed(s3, versioned) == [Entry("never/was", marker, "DeleteMarker", True)]
    with refused("NoSuchKey", status=404) as caught:
        s3.get_object(Bucket=versioned, Key="never/was")
    assert headers_of(caught.value.response)["x-amz-version-id"] == marker
    s3.delete_object(Bucket=versioned, Key="never/was", VersionId=marker)
    assert listed(s3, versioned) == []


def test_a_marker_hides_the_object(s3, versioned):
    version = put(s3, versioned, "k", b"hidden")
    marker = delete_current(s3, versioned, "k")
    for code, ask in (("NoSuchKey", s3.get_object), ("404", s3.head_object)):
        with refused(code, status=404) as caught:
            ask(Bucket=versioned, Key="k")
        headers = headers_of(caught.value.response)
        assert headers["x-amz-delete-marker"] == "true"
        assert headers["x-amz-version-id"] == marker
    with refused("NoSuchKey", status=404):
        s3.get_object_attributes(Bucket=versioned, Key="k", ObjectAttributes=["ETag"])
    with refused("NoSuchKey", status=404):
        s3.copy_object(Bucket=versioned, Key="to", CopySource={"Bucket": versioned, "Key": "k"})
    # A key that never existed differs: the response has no delete marker.
    with refused("NoSuchKey", status=404) as caught:
        s3.get_object(Bucket=versioned, Key="never-was")
    assert "x-amz-delete-marker" not in headers_of(caught.value.response)
    assert read(s3, versioned, "k", VersionId=version) == b"hidden"


def test_a_marker_is_not_read_by_its_id(s3, versioned):
    put(s3, versioned, "k")
    marker = delete_current(s3, versioned, "k")
    put(s3, versioned, "k")
    for code, ask in (("MethodNotAllowed", s3.get_object), ("405", s3.head_object)):
        with refused(code, status=405) as caught:
            ask(Bucket=versioned, Key="k", VersionId=marker)
        headers = headers_of(caught.value.response)
        assert headers["x-amz-delete-marker"] == "true"
        assert headers["x-amz-version-id"] == marker
    # AWS's documentation does not say which of the two, and observations differ.
    with refused("MethodNotAllowed", "NoSuchKey"):
        s3.get_object_attributes(
            Bucket=versioned, Key="k", VersionId=marker, ObjectAttributes=["ETag"]
        )


@pytest.mark.ashlar("the reference returns neither the time of a marker nor the allowed methods")
def test_a_marker_is_identified_by_headers(s3, versioned):
    put(s3, versioned, "k")
    marker = delete_current(s3, versioned, "k")
    for code, ask in (("MethodNotAllowed", s3.get_object), ("405", s3.head_object)):
        with refused(code, status=405) as caught:
            ask(Bucket=versioned, Key="k", VersionId=marker)
        headers = headers_of(caught.value.response)
        assert headers["allow"] == "DELETE"
        made = parsedate_to_datetime(headers["last-modified"])
        assert abs(datetime.now(timezone.utc) - made) < timedelta(minutes=2)
        if code == "MethodNotAllowed":
            error = caught.value.response["Error"]
            assert (error["Method"], error["ResourceType"]) == ("GET", "DeleteMarker")


@pytest.mark.parametrize("operation", [name for name in ABOUT_A_VERSION if "Tagging" in name])
def test_a_marker_has_no_tags(server, s3, versioned, operation):
    put(s3, versioned, "k", Tagging="a=1")
    marker = delete_current(s3, versioned, "k")
    ask = ABOUT_A_VERSION[operation]
    with refused("MethodNotAllowed", status=405):
        ask(s3, Bucket=versioned, Key="k", VersionId=marker)
    # AWS returns the same for a current marker; the reference returns NoSuchKey.
    with refused(*server.codes("MethodNotAllowed", "NoSuchKey")) as caught:
        ask(s3, Bucket=versioned, Key="k")
    if server.is_ashlar():
        assert caught.value.response["Error"]["ResourceType"] == "DeleteMarker"


def test_removing_a_marker_restores_the_object(s3, versioned):
    version = put(s3, versioned, "k", b"back", Metadata={"a": "1"}, Tagging="t=1")
    marker = delete_current(s3, versioned, "k")
    answer = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert (answer["DeleteMarker"], answer["VersionId"]) == (True, marker)
    got = s3.get_object(Bucket=versioned, Key="k")
    assert (got["Body"].read(), got["VersionId"]) == (b"back", version)
    assert (got["Metadata"], got["TagCount"]) == ({"a": "1"}, 1)
    assert current_keys(s3, versioned) == ["k"]


def test_removing_the_current_version_makes_the_one_before_current(s3, versioned):
    made = [put(s3, versioned, "k", body) for body in (b"1", b"2", b"3", b"4")]
    answer = s3.delete_object(Bucket=versioned, Key="k", VersionId=made[3])
    assert answer["VersionId"] == made[3]
    assert "x-amz-delete-marker" not in headers_of(answer)
    assert read(s3, versioned, "k") == b"3"
    s3.delete_object(Bucket=versioned, Key="k", VersionId=made[1])
    assert read(s3, versioned, "k") == b"3", "what was not current is removed unseen"
    s3.delete_object(Bucket=versioned, Key="k", VersionId=made[2])
    assert (read(s3, versioned, "k"), ids(s3, versioned, "k")) == (b"1", made[:1])
    (shown,) = s3.list_objects_v2(Bucket=versioned)["Contents"]
    assert shown["ETag"] == f'"{hashlib.md5(b"1").hexdigest()}"'


def test_removing_a_version_may_leave_a_marker_current(s3, versioned):
    put(s3, versioned, "k")
    marker = delete_current(s3, versioned, "k")
    s3.delete_object(Bucket=versioned, Key="k", VersionId=put(s3, versioned, "k"))
    with refused("404", status=404) as caught:
        s3.head_object(Bucket=versioned, Key="k")
    assert headers_of(caught.value.response)["x-amz-version-id"] == marker
    assert current_keys(s3, versioned) == []


def test_removing_the_last_version_removes_the_key(s3, versioned):
    version = put(s3, versioned, "a/k")
    marker = delete_current(s3, versioned, "a/k")
    s3.delete_object(Bucket=versioned, Key="a/k", VersionId=version)
    assert listed(s3, versioned) == [Entry("a/k", marker, "DeleteMarker", True)]
    s3.delete_object(Bucket=versioned, Key="a/k", VersionId=marker)
    assert listed(s3, versioned) == []
    with refused("NoSuchKey", status=404) as caught:
        s3.get_object(Bucket=versioned, Key="a/k")
    assert "x-amz-delete-marker" not in headers_of(caught.value.response)
    # AWS's documentation does not say which of the two applies to a key without any version.
    with refused("NoSuchVersion", "NoSuchKey", status=404):
        s3.get_object(Bucket=versioned, Key="a/k", VersionId=version)


# --- the version null ------------------------------------------------------------------------


def test_objects_from_before_versioning_are_version_null(s3, plain):
    put(s3, plain, "k", b"before")
    enable(s3, plain)
    assert read(s3, plain, "k") == b"before"
    version = put(s3, plain, "k", b"after")
    assert read(s3, plain, "k", VersionId="null") == b"before"
    assert listed(s3, plain) == [
        Entry("k", version, "Version", True), Entry("k", "null", "Version", False),
    ]
    s3.delete_object(Bucket=plain, Key="k", VersionId=version)
    assert read(s3, plain, "k") == b"before"


@pytest.mark.ashlar("the reference does not return the id null")
def test_responses_contain_the_id_null_once_versioning_was_set(s3, plain):
    put(s3, plain, "k")
    for change in (enable, suspend):
        change(s3, plain)
        for which in ({}, {"VersionId": "null"}):
            for ask in (s3.get_object, s3.head_object):
                assert ask(Bucket=plain, Key="k", **which)["VersionId"] == "null"


def test_a_delete_after_enabling_keeps_version_null(s3, plain):
    put(s3, plain, "k", b"before")
    enable(s3, plain)
    marker = delete_current(s3, plain, "k")
    assert marker != "null"
    assert ids(s3, plain, "k") == [marker, "null"]
    assert read(s3, plain, "k", VersionId="null") == b"before"
    s3.delete_object(Bucket=plain, Key="k", VersionId="null")
    assert ids(s3, plain, "k") == [marker]


def test_while_suspended_a_write_replaces_version_null_alone(s3, plain):
    put(s3, plain, "k", b"before")
    enable(s3, plain)
    made = [put(s3, plain, "k", b"1"), put(s3, plain, "k", b"2")]
    suspend(s3, plain)
    assert ids(s3, plain, "k") == [*made[::-1], "null"], "suspending changes no version"
    for body in (b"suspended", b"suspended again"):
        # AWS returns no version id for writes while versioning is suspended.
        assert put(s3, plain, "k", body) is None
        assert read(s3, plain, "k") == read(s3, plain, "k", VersionId="null") == body
        assert ids(s3, plain, "k") == ["null", *made[::-1]], "null is now the newest"
    assert [read(s3, plain, "k", VersionId=version) for version in made] == [b"1", b"2"]
    enable(s3, plain)
    newest = put(s3, plain, "k", b"3")
    assert listed(s3, plain) == [
        Entry("k", newest, "Version", True),
        Entry("k", "null", "Version", False),
        Entry("k", made[1], "Version", False),
        Entry("k", made[0], "Version", False),
    ]
    assert read(s3, plain, "k", VersionId="null") == b"suspended again"


def test_while_suspended_copies_and_uploads_are_version_null(s3, versioned):
    version = put(s3, versioned, "k", b"source")
    suspend(s3, versioned)
    source = {"Bucket": versioned, "Key": "k", "VersionId": version}
    assert "VersionId" not in s3.copy_object(Bucket=versioned, Key="copy", CopySource=source)
    assert upload(s3, versioned, "parts", [b"parts"]) is None
    assert upload(s3, versioned, "copy", [b"parts"]) is None
    assert listed(s3, versioned) == [
        Entry("copy", "null", "Version", True),
        Entry("k", version, "Version", True),
        Entry("parts", "null", "Version", True),
    ]


def test_while_suspended_a_delete_replaces_version_null_by_a_marker(server, s3, versioned):
    version = put(s3, versioned, "k", b"kept")
    suspend(s3, versioned)
    put(s3, versioned, "k", b"lost")
    for _ in range(2):
        answer = s3.delete_object(Bucket=versioned, Key="k")
        if server.is_ashlar():
            # The reference returns neither.
            assert (answer["DeleteMarker"], answer["VersionId"]) == (True, "null")
        assert listed(s3, versioned) == [
            Entry("k", "null", "DeleteMarker", True), Entry("k", version, "Version", False),
        ]
    with refused("MethodNotAllowed", status=405):
        s3.get_object(Bucket=versioned, Key="k", VersionId="null")
    assert read(s3, versioned, "k", VersionId=version) == b"kept"
    put(s3, versioned, "k", b"new")
    assert ids(s3, versioned, "k") == ["null", version]
    assert read(s3, versioned, "k") == b"new"


def test_while_suspended_a_delete_of_a_version_with_an_id_keeps_it(s3, versioned):
    version = put(s3, versioned, "k", b"kept")
    suspend(s3, versioned)
    s3.delete_object(Bucket=versioned, Key="k")
    assert listed(s3, versioned) == [
        Entry("k", "null", "DeleteMarker", True), Entry("k", version, "Version", False),
    ]


@ALWAYS_A_MARKER
def test_while_suspended_a_delete_of_a_missing_key_makes_a_marker_null(s3, plain):
    suspend(s3, plain)
    for _ in range(2):
        answer = s3.delete_object(Bucket=plain, Key="k")
        assert (answer["DeleteMarker"], answer["VersionId"]) == (True, "null")
        assert listed(s3, plain) == [Entry("k", "null", "DeleteMarker", True)]


def test_the_marker_null_is_removed_like_any_other(server, s3, versioned):
    version = put(s3, versioned, "k", b"back")
    suspend(s3, versioned)
    s3.delete_object(Bucket=versioned, Key="k")
    answer = s3.delete_object(Bucket=versioned, Key="k", VersionId="null")
    if server.is_ashlar():
        assert (answer["DeleteMarker"], answer["VersionId"]) == (True, "null")
    assert (read(s3, versioned, "k"), ids(s3, versioned, "k")) == (b"back", [version])


@pytest.mark.ashlar("the reference removes the marker null only while versioning is suspended")
def test_the_marker_null_is_removed_after_enabling_again(s3, versioned):
    version = put(s3, versioned, "k", b"back")
    suspend(s3, versioned)
    s3.delete_object(Bucket=versioned, Key="k")
    enable(s3, versioned)
    newer = put(s3, versioned, "k", b"newer")
    assert ids(s3, versioned, "k") == [newer, "null", version]
    s3.delete_object(Bucket=versioned, Key="k", VersionId="null")
    assert ids(s3, versioned, "k") == [newer, version]
    s3.delete_object(Bucket=versioned, Key="k", VersionId=newer)
    assert read(s3, versioned, "k") == b"back"


# --- copies ----------------------------------------------------------------------------------


def test_a_version_is_copied(s3, versioned):
    kept = {"Metadata": {"a": "1"}, "ContentType": "text/x-old"}
    older = put(s3, versioned, "k", b"older", Tagging="t=1", **kept)
    put(s3, versioned, "k", b"newer")
    source = {"Bucket": versioned, "Key": "k", "VersionId": older}
    copied = s3.copy_object(Bucket=versioned, Key="copy", CopySource=source)
    assert copied["CopySourceVersionId"] == older
    assert copied["VersionId"] not in (older, None)
    got = s3.get_object(Bucket=versioned, Key="copy")
    assert (got["Body"].read(), got["VersionId"]) == (b"older", copied["VersionId"])
    assert {name: got[name] for name in kept} == kept
    assert got["TagCount"] == 1


@pytest.mark.ashlar("the reference returns it only if the request names it")
def test_a_copy_returns_the_version_id_of_its_source(s3, versioned):
    version = put(s3, versioned, "k")
    source = {"Bucket": versioned, "Key": "k"}
    copied = s3.copy_object(Bucket=versioned, Key="copy", CopySource=source)
    assert copied["CopySourceVersionId"] == version


def test_a_copy_of_an_older_version_onto_its_key_makes_it_current(s3, versioned):
    older = put(s3, versioned, "k", b"older", Metadata={"a": "1"})
    newer = put(s3, versioned, "k", b"newer")
    source = {"Bucket": versioned, "Key": "k", "VersionId": older}
    restored = s3.copy_object(Bucket=versioned, Key="k", CopySource=source)["VersionId"]
    got = s3.get_object(Bucket=versioned, Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (b"older", {"a": "1"})
    assert ids(s3, versioned, "k") == [restored, newer, older]
    delete_current(s3, versioned, "k")
    s3.copy_object(Bucket=versioned, Key="k", CopySource={**source, "VersionId": newer})
    assert read(s3, versioned, "k") == b"newer"


def test_conditions_of_a_copy_apply_to_the_version(s3, versioned):
    older = s3.put_object(Bucket=versioned, Key="k", Body=b"older")
    newer = s3.put_object(Bucket=versioned, Key="k", Body=b"newer")
    source = {"Bucket": versioned, "Key": "k", "VersionId": older["VersionId"]}
    with refused("PreconditionFailed", status=412):
        s3.copy_object(
            Bucket=versioned, Key="to", CopySource=source, CopySourceIfMatch=newer["ETag"]
        )
    s3.copy_object(Bucket=versioned, Key="to", CopySource=source, CopySourceIfMatch=older["ETag"])
    assert read(s3, versioned, "to") == b"older"


def test_a_marker_is_not_copied(server, s3, versioned):
    put(s3, versioned, "k")
    marker = delete_current(s3, versioned, "k")
    put(s3, versioned, "k")
    source = {"Bucket": versioned, "Key": "k", "VersionId": marker}
    # The reference returns MethodNotAllowed, as for a read.
    status = 400 if server.is_ashlar() else 405
    with refused(*server.codes("InvalidRequest", "MethodNotAllowed"), status=status) as caught:
        s3.copy_object(Bucket=versioned, Key="to", CopySource=source)
    if server.is_ashlar():
        assert caught.value.response["Error"]["Message"] == (
            "The source of a copy request may not specifically refer to a delete marker by"
            " version id."
        )


def test_a_copy_of_a_version_that_is_not_there_is_refused(server, s3, versioned):
    gone = put(s3, versioned, "k")
    put(s3, versioned, "k")
    s3.delete_object(Bucket=versioned, Key="k", VersionId=gone)
    source = {"Bucket": versioned, "Key": "k", "VersionId": gone}
    with refused("NoSuchVersion", status=404):
        s3.copy_object(Bucket=versioned, Key="to", CopySource=source)
    # The reference treats an invalid id as a missing version.
    with refused(*server.codes("InvalidArgument", "NoSuchVersion")):
        s3.copy_object(
            Bucket=versioned, Key="to", CopySource={**source, "VersionId": "not-an-id"}
        )
    assert "to" not in current_keys(s3, versioned)


def test_parts_are_copied_from_a_version(server, s3, versioned):
    older = put(s3, versioned, "k", b"1" * PART)
    put(s3, versioned, "k", b"2" * PART)
    marker = delete_current(s3, versioned, "k")
    upload_id = s3.create_multipart_upload(Bucket=versioned, Key="to")["UploadId"]
    which = {"Bucket": versioned, "Key": "to", "UploadId": upload_id}
    source = {"Bucket": versioned, "Key": "k", "VersionId": older}
    parts = []
    for number, range_ in enumerate(({}, {"CopySourceRange": "bytes=0-6"}), start=1):
        copied = s3.upload_part_copy(**which, PartNumber=number, CopySource=source, **range_)
        if server.is_ashlar():
            # The reference does not return it for parts.
            assert copied["CopySourceVersionId"] == older
        parts.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    with refused(*server.codes("InvalidRequest", "MethodNotAllowed")):
        s3.upload_part_copy(**which, PartNumber=3, CopySource={**source, "VersionId": marker})
    with refused("NoSuchKey", status=404):
        s3.upload_part_copy(**which, PartNumber=3, CopySource=f"{versioned}/k")
    s3.complete_multipart_upload(**which, MultipartUpload={"Parts": parts})
    assert read(s3, versioned, "to") == b"1" * (PART + 7)


# --- batches of deletes ------------------------------------------------------------------------


def delete_all(s3, bucket, objects, **arguments):
    """DeleteObjects. Returns the deleted entries by key, and the errors."""
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, **arguments})
    return {each["Key"]: each for each in answer.get("Deleted", [])}, answer.get("Errors", [])


def test_many_deletes_make_markers(server, s3, versioned):
    put(s3, versioned, "a")
    put(s3, versioned, "b")
    keys = ["a", "b", *(["never/was"] if server.is_ashlar() else [])]
    deleted, errors = delete_all(s3, versioned, [{"Key": key} for key in keys])
    assert (set(deleted), errors) == (set(keys), [])
    for key in keys:
        marker = deleted[key]["DeleteMarkerVersionId"]
        assert deleted[key] == {
            "Key": key, "DeleteMarker": True, "DeleteMarkerVersionId": marker,
        }
        assert ids(s3, versioned, key)[0] == marker
    assert current_keys(s3, versioned) == []


def test_many_versions_are_removed_by_id(server, s3, versioned):
    version, lowest = put(s3, versioned, "a"), put(s3, versioned, "b")
    stays, marker = put(s3, versioned, "a"), delete_current(s3, versioned, "b")
    deleted, errors = delete_all(
        s3, versioned, [{"Key": "a", "VersionId": version}, {"Key": "b", "VersionId": marker}]
    )
    assert errors == []
    assert deleted["a"] == {"Key": "a", "VersionId": version}
    assert (deleted["b"]["Key"], deleted["b"]["VersionId"]) == ("b", marker)
    if server.is_ashlar():
        # The reference does not say that it was a marker.
        assert deleted["b"]["DeleteMarker"] is True
        assert deleted["b"]["DeleteMarkerVersionId"] == marker
    assert listed(s3, versioned) == [
        Entry("a", stays, "Version", True), Entry("b", lowest, "Version", True),
    ]


def test_one_request_removes_several_versions_of_a_key(s3, versioned):
    made = [put(s3, versioned, "k", body) for body in (b"1", b"2", b"3")]
    made.append(delete_current(s3, versioned, "k"))
    gone = [made[3], made[0], made[2]]
    answer = s3.delete_objects(
        Bucket=versioned,
        Delete={"Objects": [{"Key": "k", "VersionId": version} for version in gone]},
    )
    assert sorted(each["VersionId"] for each in answer["Deleted"]) == sorted(gone)
    assert (ids(s3, versioned, "k"), read(s3, versioned, "k")) == ([made[1]], b"2")


def test_a_batch_of_deletes_reports_invalid_version_ids(s3, versioned):
    gone = put(s3, versioned, "a")
    s3.delete_object(Bucket=versioned, Key="a", VersionId=gone)
    put(s3, versioned, "b")
    deleted, errors = delete_all(
        s3, versioned,
        [{"Key": "a", "VersionId": gone}, {"Key": "b", "VersionId": "not-an-id"}, {"Key": "c"}],
    )
    assert deleted["a"] == {"Key": "a", "VersionId": gone}
    assert deleted["c"]["DeleteMarker"] is True
    # Only here AWS reports an invalid id as a missing version.
    assert [(each["Key"], each["VersionId"], each["Code"]) for each in errors] == [
        ("b", "not-an-id", "NoSuchVersion")
    ]
    assert current_keys(s3, versioned) == ["b"]


def test_a_quiet_batch_of_deletes_returns_nothing(s3, versioned):
    version = put(s3, versioned, "a")
    put(s3, versioned, "b")
    these = [{"Key": "a", "VersionId": version}, {"Key": "b"}]
    assert delete_all(s3, versioned, these, Quiet=True) == ({}, [])
    assert [each.kind for each in listed(s3, versioned)] == ["DeleteMarker", "Version"]
    _, errors = delete_all(s3, versioned, [{"Key": "b", "VersionId": "not-an-id"}], Quiet=True)
    assert [each["Key"] for each in errors] == ["b"]


def test_many_deletes_while_suspended(server, s3, versioned):
    version = put(s3, versioned, "a")
    suspend(s3, versioned)
    put(s3, versioned, "b")
    deleted, errors = delete_all(s3, versioned, [{"Key": "a"}, {"Key": "b"}])
    assert errors == [] and deleted["a"]["DeleteMarker"] is True
    if server.is_ashlar():
        assert deleted["b"] == {
            "Key": "b", "DeleteMarker": True, "DeleteMarkerVersionId": "null",
        }
    assert listed(s3, versioned) == [
        Entry("a", "null", "DeleteMarker", True),
        Entry("a", version, "Version", False),
        Entry("b", "null", "DeleteMarker", True),
    ]


def test_a_thousand_at_once(s3, versioned):
    keys = [f"{number:04}" for number in range(1000)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        versions = dict(zip(keys, pool.map(lambda key: put(s3, versioned, key), keys)))
    deleted, errors = delete_all(s3, versioned, [{"Key": key} for key in keys])
    assert (sorted(deleted), errors) == (keys, [])
    assert len(listed(s3, versioned, MaxKeys=300)) == 2000
    assert current_keys(s3, versioned) == []
    markers = [
        {"Key": key, "VersionId": deleted[key]["DeleteMarkerVersionId"]} for key in keys
    ]
    removed, errors = delete_all(s3, versioned, markers)
    assert (sorted(removed), errors) == (keys, [])
    assert current_keys(s3, versioned) == keys
    removed, errors = delete_all(
        s3, versioned, [{"Key": key, "VersionId": versions[key]} for key in keys]
    )
    assert (sorted(removed), errors) == (keys, [])
    assert listed(s3, versioned) == []


# --- conditional writes ----------------------------------------------------------------------


def test_if_none_match_star_treats_a_marker_as_absent(s3, versioned):
    put(s3, versioned, "k", b"first", IfNoneMatch="*")
    with refused("PreconditionFailed", status=412):
        put(s3, versioned, "k", b"second", IfNoneMatch="*")
    delete_current(s3, versioned, "k")
    put(s3, versioned, "k", b"third", IfNoneMatch="*")
    assert read(s3, versioned, "k") == b"third"
    assert len(ids(s3, versioned, "k")) == 3


def test_an_upload_may_require_an_absent_key(s3, versioned):
    put(s3, versioned, "k")
    begun = s3.create_multipart_upload(Bucket=versioned, Key="k")
    which = {"Bucket": versioned, "Key": "k", "UploadId": begun["UploadId"]}
    etag = s3.upload_part(**which, PartNumber=1, Body=b"parts")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    with refused("PreconditionFailed", status=412):
        s3.complete_multipart_upload(**which, MultipartUpload=parts, IfNoneMatch="*")
    s3.abort_multipart_upload(**which)
    delete_current(s3, versioned, "k")
    begun = s3.create_multipart_upload(Bucket=versioned, Key="k")
    which["UploadId"] = begun["UploadId"]
    s3.upload_part(**which, PartNumber=1, Body=b"parts")
    s3.complete_multipart_upload(**which, MultipartUpload=parts, IfNoneMatch="*")
    assert read(s3, versioned, "k") == b"parts"


def test_if_match_applies_to_the_current_version(s3, versioned):
    older = s3.put_object(Bucket=versioned, Key="k", Body=b"1")["ETag"]
    newer = s3.put_object(Bucket=versioned, Key="k", Body=b"2", IfMatch=older)["ETag"]
    with refused("PreconditionFailed", status=412):
        put(s3, versioned, "k", b"3", IfMatch=older)
    delete_current(s3, versioned, "k")
    with refused("NoSuchKey", status=404):
        put(s3, versioned, "k", b"4", IfMatch=newer)
    assert len(ids(s3, versioned, "k")) == 3


@pytest.mark.ashlar("the reference ignores conditions on DELETE")
def test_a_delete_may_depend_on_the_current_version(s3, versioned):
    older = s3.put_object(Bucket=versioned, Key="k", Body=b"1")["ETag"]
    newer = s3.put_object(Bucket=versioned, Key="k", Body=b"2")["ETag"]
    with refused("PreconditionFailed", status=412):
        s3.delete_object(Bucket=versioned, Key="k", IfMatch=older)
    assert read(s3, versioned, "k") == b"2"
    assert s3.delete_object(Bucket=versioned, Key="k", IfMatch=newer)["DeleteMarker"] is True
    # AWS's documentation allows both: it is missing, or it does not match.
    with refused("NoSuchKey", "PreconditionFailed"):
        s3.delete_object(Bucket=versioned, Key="k", IfMatch=newer)
    assert len(ids(s3, versioned, "k")) == 3, "a marker is nothing that could match"
    put(s3, versioned, "k", b"3")
    s3.delete_object(Bucket=versioned, Key="k", IfMatch="*")
    assert current_keys(s3, versioned) == []


@pytest.mark.ashlar("the reference ignores conditions on DELETE")
def test_many_deletes_may_depend_on_current_versions(s3, versioned):
    right = s3.put_object(Bucket=versioned, Key="right", Body=b"1")["ETag"]
    put(s3, versioned, "wrong", b"2")
    deleted, errors = delete_all(
        s3, versioned, [{"Key": "right", "ETag": right}, {"Key": "wrong", "ETag": right}]
    )
    assert deleted["right"]["DeleteMarker"] is True
    assert [(each["Key"], each["Code"]) for each in errors] == [("wrong", "PreconditionFailed")]
    assert current_keys(s3, versioned) == ["wrong"]
