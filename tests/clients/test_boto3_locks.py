"""boto3, low level: versions that a retention or a legal hold protects.

Where AWS and the reference differ, the tests follow AWS: its documentation and recorded responses.
"""

import json
import time
from datetime import datetime, timedelta, timezone

import boto3
import pytest
from botocore.exceptions import ClientError

from conftest import watch_retries
from people import add_person
from server import fresh_bucket_name, refused

# A retention in mode COMPLIANCE cannot be ended, so those of these tests expire soon.
SOON, LATER = 10, 14
# Time limit in seconds until a bucket is empty: more than the longest of them.
PATIENCE_SECONDS = 60


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


@pytest.fixture(scope="module")
def locked_buckets(server):
    """Buckets with locks. They are removed after all tests, when the retentions have expired."""
    buckets = []
    yield buckets
    s3 = boto3.client("s3", **server.aws_settings())
    end = time.monotonic() + PATIENCE_SECONDS
    for bucket in buckets:
        while not remove_bucket(s3, bucket):
            assert time.monotonic() < end, f"{bucket} does not become empty"
            time.sleep(0.5)


def remove_bucket(s3, bucket):
    """Removes a bucket with its content. Returns False if something is still locked."""
    found = s3.list_object_versions(Bucket=bucket)
    for each in [*found.get("Versions", []), *found.get("DeleteMarkers", [])]:
        which = {"Bucket": bucket, "Key": each["Key"], "VersionId": each["VersionId"]}
        try:
            if "ETag" in each:
                s3.put_object_legal_hold(**which, LegalHold={"Status": "OFF"})
            s3.delete_object(**which, BypassGovernanceRetention=True)
        except ClientError:
            return False
    s3.delete_bucket(Bucket=bucket)
    return True


@pytest.fixture
def lockable(s3, locked_buckets):
    """A new bucket with object lock."""
    name = fresh_bucket_name("lock")
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    locked_buckets.append(name)
    return name


def locked_out(server):
    """The error of a lock: AWS denies access; the reference calls the request invalid."""
    status = 403 if server.is_ashlar() else 400
    return refused(*server.codes("AccessDenied", "InvalidRequest"), status=status)


def future(**what):
    """Returns a future time without fractions of a second."""
    return (datetime.now(timezone.utc) + timedelta(**what)).replace(microsecond=0)


def put(s3, bucket, key="k", content=b"x", **arguments):
    return s3.put_object(Bucket=bucket, Key=key, Body=content, **arguments)["VersionId"]


def put_retained(s3, bucket, mode="GOVERNANCE", until=None, **arguments):
    """Writes an object with a retention, and returns its key and version."""
    until = until or future(days=1)
    kept = {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": until}
    version = put(s3, bucket, **kept, **arguments)
    return {"Bucket": bucket, "Key": arguments.get("key", "k"), "VersionId": version}


def set_retention(s3, which, mode, until, **arguments):
    """Sets the retention of a version."""
    retention = {"Mode": mode, "RetainUntilDate": until}
    s3.put_object_retention(**which, Retention=retention, **arguments)


def retention_of(s3, which):
    """Returns the retention of a version: mode and end."""
    retention = s3.get_object_retention(**which)["Retention"]
    return retention["Mode"], retention["RetainUntilDate"]


def set_hold(s3, which, status="ON"):
    s3.put_object_legal_hold(**which, LegalHold={"Status": status})


def remove(s3, which, **arguments):
    return s3.delete_object(**which, **arguments)


def default(s3, bucket, **retention):
    """Sets the default retention of a bucket; without arguments, none."""
    rule = {"Rule": {"DefaultRetention": retention}} if retention else {}
    configuration = {"ObjectLockEnabled": "Enabled", **rule}
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=configuration)


# --- compliance: first, because these retentions expire while other tests run ------------------


def test_compliance_cannot_be_ended_and_expires(server, s3, lockable):
    which = put_retained(s3, lockable, "COMPLIANCE", future(seconds=4))
    for bypass in ({}, {"BypassGovernanceRetention": True}):
        with locked_out(server):
            remove(s3, which, **bypass)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            remove(s3, which)
            break
        except ClientError:
            assert time.monotonic() < end, "the retention does not end"
            time.sleep(0.5)
    with refused("NoSuchVersion", "NoSuchKey", status=404):
        s3.get_object(**which)


def test_compliance_is_neither_shortened_nor_removed_nor_downgraded(server, s3, lockable):
    until = future(seconds=LATER)
    which = put_retained(s3, lockable, "COMPLIANCE", until)
    for bypass in ({}, {"BypassGovernanceRetention": True}):
        with locked_out(server):
            set_retention(s3, which, "COMPLIANCE", until - timedelta(seconds=4), **bypass)
        with locked_out(server):
            set_retention(s3, which, "GOVERNANCE", until, **bypass)
        with locked_out(server):
            s3.put_object_retention(**which, Retention={}, **bypass)
        assert retention_of(s3, which) == ("COMPLIANCE", until)


def test_compliance_can_be_extended_without_a_bypass(s3, lockable):
    which = put_retained(s3, lockable, "COMPLIANCE", future(seconds=SOON))
    until = future(seconds=LATER)
    set_retention(s3, which, "COMPLIANCE", until)
    assert retention_of(s3, which) == ("COMPLIANCE", until)
    assert s3.head_object(**which)["ObjectLockRetainUntilDate"] == until


def test_governance_becomes_compliance(server, s3, lockable):
    which = put_retained(s3, lockable)
    until = future(seconds=SOON)
    # Such a retention could never be removed.
    for date in (until, future(days=9)) if server.is_ashlar() else (until,):
        with locked_out(server):
            set_retention(s3, which, "COMPLIANCE", date)
    set_retention(s3, which, "COMPLIANCE", until, BypassGovernanceRetention=True)
    assert retention_of(s3, which) == ("COMPLIANCE", until)
    with locked_out(server):
        remove(s3, which, BypassGovernanceRetention=True)


# --- buckets ---------------------------------------------------------------------------------


def test_versioning_of_a_bucket_with_locks_cannot_be_suspended(server, s3, lockable):
    assert s3.get_bucket_versioning(Bucket=lockable)["Status"] == "Enabled"
    shown = s3.get_object_lock_configuration(Bucket=lockable)["ObjectLockConfiguration"]
    assert shown == {"ObjectLockEnabled": "Enabled"}
    # The status of AWS is 409.
    with refused("InvalidBucketState", status=409 if server.is_ashlar() else 400) as caught:
        s3.put_bucket_versioning(
            Bucket=lockable, VersioningConfiguration={"Status": "Suspended"}
        )
    sentence = "An Object Lock configuration is present on this bucket"
    assert caught.value.response["Error"]["Message"].startswith(sentence)
    s3.put_bucket_versioning(Bucket=lockable, VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(Bucket=lockable)["Status"] == "Enabled"


def test_a_bucket_without_locks_has_its_error_code(server, s3, bucket):
    with refused("ObjectLockConfigurationNotFoundError", status=404) as caught:
        s3.get_object_lock_configuration(Bucket=bucket)
    assert "Object Lock configuration does not exist for this bucket" in str(caught.value)
    if server.is_ashlar():
        # The reference reports a missing bucket as one without locks.
        with refused("NoSuchBucket", status=404):
            s3.get_object_lock_configuration(Bucket="no-such-bucket-at-all")


def test_locks_need_versions(server, s3, bucket):
    with refused("InvalidBucketState", status=409) as caught:
        default(s3, bucket)
    if server.is_ashlar():
        assert caught.value.response["Error"]["Message"] == (
            "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"
        )
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    with refused("InvalidBucketState", status=409):
        default(s3, bucket)
    with refused("ObjectLockConfigurationNotFoundError", status=404):
        s3.get_object_lock_configuration(Bucket=bucket)


@pytest.mark.ashlar("the reference locks only in buckets made for it; AWS does since 2023")
def test_a_bucket_with_versions_is_made_lockable_later(server, s3, bucket, locked_buckets):
    before = s3.put_object(Bucket=bucket, Key="before", Body=b"x")
    assert "VersionId" not in before
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    default(s3, bucket, Mode="GOVERNANCE", Days=1)
    locked_buckets.append(bucket)
    with refused("InvalidBucketState", status=409):
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    version = put(s3, bucket, "k")
    with locked_out(server):
        s3.delete_object(Bucket=bucket, Key="k", VersionId=version)
    set_hold(s3, {"Bucket": bucket, "Key": "before", "VersionId": "null"})
    with locked_out(server):
        s3.delete_object(Bucket=bucket, Key="before", VersionId="null")


def test_a_default_is_set_replaced_and_removed(s3, lockable):
    def shown():
        return s3.get_object_lock_configuration(Bucket=lockable)["ObjectLockConfiguration"]

    for retention in (
        {"Mode": "GOVERNANCE", "Days": 1}, {"Mode": "COMPLIANCE", "Years": 2},
        {"Mode": "GOVERNANCE", "Days": 36_500}, {"Mode": "COMPLIANCE", "Years": 100},
    ):
        default(s3, lockable, **retention)
        assert shown() == {
            "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention},
        }
    default(s3, lockable)
    assert shown() == {"ObjectLockEnabled": "Enabled"}
    version = put(s3, lockable)
    assert "ObjectLockMode" not in s3.head_object(Bucket=lockable, Key="k", VersionId=version)


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"ObjectLockEnabled": "Disabled"},
        {"Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}},
        pytest.param(
            {"ObjectLockEnabled": "Enabled", "Rule": {}},
            marks=pytest.mark.ashlar("the reference fails"),
        ),
        {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {}}},
        {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Days": 1}}},
        {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE"}}},
        {
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "governance", "Days": 1}},
        },
        {
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1, "Years": 1}},
        },
    ],
)
def test_an_invalid_lock_configuration_is_refused(server, s3, lockable, configuration):
    with refused(*server.codes("MalformedXML", "InvalidArgument"), status=400):
        s3.put_object_lock_configuration(
            Bucket=lockable, ObjectLockConfiguration=configuration
        )
    shown = s3.get_object_lock_configuration(Bucket=lockable)["ObjectLockConfiguration"]
    assert shown == {"ObjectLockEnabled": "Enabled"}


@pytest.mark.parametrize(
    ("unit", "value", "sentence"),
    [
        ("Days", 0, "Default retention period must be a positive integer value."),
        ("Days", -3, "Default retention period must be a positive integer value."),
        ("Years", 0, "Default retention period must be a positive integer value."),
        ("Days", 36_501, "Default retention period too large."),
        ("Years", 101, "Default retention period too large."),
    ],
)
def test_a_default_has_limits(server, s3, lockable, unit, value, sentence):
    with refused("InvalidArgument", status=400) as caught:
        default(s3, lockable, Mode="GOVERNANCE", **{unit: value})
    if server.is_ashlar():
        error = caught.value.response["Error"]
        assert (error["Message"], error["ArgumentName"]) == (sentence, unit)


# --- the default of a bucket -----------------------------------------------------------------


@pytest.mark.parametrize(("unit", "value", "days"), [("Days", 3, 3), ("Years", 1, 365)])
def test_the_default_retention_applies_to_new_objects(server, s3, lockable, unit, value, days):
    older = put(s3, lockable, "older")
    default(s3, lockable, Mode="GOVERNANCE", **{unit: value})
    which = {"Bucket": lockable, "Key": "k", "VersionId": put(s3, lockable)}
    for answer in (s3.head_object(**which), s3.get_object(**which)):
        assert answer["ObjectLockMode"] == "GOVERNANCE"
        until = answer["ObjectLockRetainUntilDate"] - answer["LastModified"]
        # A year may be a leap year.
        assert timedelta(days=days) <= until + timedelta(seconds=2)
        assert until <= timedelta(days=days + (unit == "Years"), seconds=2)
        assert "ObjectLockLegalHoldStatus" not in answer
    assert retention_of(s3, which) == ("GOVERNANCE", answer["ObjectLockRetainUntilDate"])
    with locked_out(server):
        remove(s3, which)
    head = s3.head_object(Bucket=lockable, Key="older", VersionId=older)
    assert "ObjectLockMode" not in head, "it was there before"
    s3.delete_object(Bucket=lockable, Key="older", VersionId=older)
    default(s3, lockable)
    with locked_out(server):
        remove(s3, which)


def test_the_default_retention_applies_to_copies_and_uploads(server, s3, lockable):
    put(s3, lockable, "source")
    default(s3, lockable, Mode="GOVERNANCE", Days=1)
    source = {"Bucket": lockable, "Key": "source"}
    copied = s3.copy_object(Bucket=lockable, Key="copy", CopySource=source)["VersionId"]
    uploaded = upload(s3, lockable, "parts")
    for key, version in (("copy", copied), ("parts", uploaded)):
        which = {"Bucket": lockable, "Key": key, "VersionId": version}
        assert retention_of(s3, which)[0] == "GOVERNANCE"
        with locked_out(server):
            remove(s3, which)


def upload(s3, bucket, key, **arguments):
    """Uploads an object in one part, and returns its version id."""
    begun = s3.create_multipart_upload(Bucket=bucket, Key=key, **arguments)
    which = {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]}
    part = {"PartNumber": 1, "ETag": s3.upload_part(**which, PartNumber=1, Body=b"x")["ETag"]}
    return s3.complete_multipart_upload(**which, MultipartUpload={"Parts": [part]})["VersionId"]


def test_a_lock_of_the_request_overrides_the_default(s3, lockable):
    default(s3, lockable, Mode="GOVERNANCE", Days=30)
    until = future(hours=1)
    which = put_retained(s3, lockable, "GOVERNANCE", until)
    assert retention_of(s3, which) == ("GOVERNANCE", until)


def test_the_default_retention_does_not_apply_to_markers(s3, lockable):
    default(s3, lockable, Mode="GOVERNANCE", Days=1)
    version = put(s3, lockable)
    marker = s3.delete_object(Bucket=lockable, Key="k")
    assert marker["DeleteMarker"] is True
    s3.delete_object(Bucket=lockable, Key="k", VersionId=marker["VersionId"])
    assert s3.head_object(Bucket=lockable, Key="k")["VersionId"] == version


# --- locks in the headers of a write -----------------------------------------------------------


def test_a_write_sets_retention_and_legal_hold(server, s3, lockable):
    until = future(days=2)
    asked = {
        "ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until,
        "ObjectLockLegalHoldStatus": "ON",
    }
    put(s3, lockable, "source")
    source = {"Bucket": lockable, "Key": "source"}
    copied = s3.copy_object(Bucket=lockable, Key="copied", CopySource=source, **asked)
    made = {
        "written": put(s3, lockable, "written", **asked),
        "uploaded": upload(s3, lockable, "uploaded", **asked),
        "copied": copied["VersionId"],
    }
    for key, version in made.items():
        which = {"Bucket": lockable, "Key": key, "VersionId": version}
        for answer in (s3.head_object(**which), s3.get_object(**which)):
            assert {name: answer[name] for name in asked} == asked
        assert retention_of(s3, which) == ("GOVERNANCE", until)
        assert s3.get_object_legal_hold(**which)["LegalHold"]["Status"] == "ON"
        with locked_out(server):
            remove(s3, which)


def test_a_copy_does_not_copy_locks(s3, lockable):
    put_retained(s3, lockable, ObjectLockLegalHoldStatus="ON")
    source = {"Bucket": lockable, "Key": "k"}
    version = s3.copy_object(Bucket=lockable, Key="copy", CopySource=source)["VersionId"]
    head = s3.head_object(Bucket=lockable, Key="copy")
    assert not [name for name in head if name.startswith("ObjectLock")]
    s3.delete_object(Bucket=lockable, Key="copy", VersionId=version)


def test_overwriting_a_locked_object_makes_a_version(server, s3, lockable):
    which = put_retained(s3, lockable, content=b"locked")
    newer = put(s3, lockable, content=b"newer")
    got = s3.get_object(Bucket=lockable, Key="k")
    assert (got["Body"].read(), got["VersionId"]) == (b"newer", newer)
    assert "ObjectLockMode" not in got
    assert s3.get_object(**which)["Body"].read() == b"locked"
    with locked_out(server):
        remove(s3, which)
    s3.delete_object(Bucket=lockable, Key="k", VersionId=newer)
    assert s3.get_object(Bucket=lockable, Key="k")["Body"].read() == b"locked"


def test_a_write_needs_a_valid_mode_and_date(server, s3, lockable):
    mode, until = {"ObjectLockMode": "GOVERNANCE"}, {"ObjectLockRetainUntilDate": future(days=1)}
    past = {"ObjectLockRetainUntilDate": future(days=-1)}
    both = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
    for bad, sentence in (
        (mode, both),
        (until, both),
        ({**mode, **past}, "The retain until date must be in the future!"),
        ({**until, "ObjectLockMode": "governance?"}, "Unknown wormMode directive."),
        ({"ObjectLockLegalHoldStatus": "MAYBE"}, "Legal Hold must be either of 'ON' or 'OFF'"),
    ):
        with refused(*server.codes("InvalidArgument", "InvalidRequest"), status=400) as caught:
            put(s3, lockable, **bad)
        if server.is_ashlar():
            assert caught.value.response["Error"]["Message"].startswith(sentence)
    assert "Versions" not in s3.list_object_versions(Bucket=lockable)


@pytest.mark.parametrize(
    "asked",
    [
        {"ObjectLockLegalHoldStatus": "ON"},
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": future(days=1)},
    ],
    ids=["hold", "retention"],
)
def test_a_bucket_without_locks_refuses_locked_objects(s3, bucket, asked):
    s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    source = {"Bucket": bucket, "Key": "source"}
    for write in (
        lambda: s3.put_object(Bucket=bucket, Key="k", Body=b"x", **asked),
        lambda: s3.copy_object(Bucket=bucket, Key="k", CopySource=source, **asked),
        lambda: s3.create_multipart_upload(Bucket=bucket, Key="k", **asked),
    ):
        with refused("InvalidRequest", status=400) as caught:
            write()
        # AWS spells the code without spaces here, and with spaces where a retention is set.
        assert caught.value.response["Error"]["Message"].startswith("Bucket is missing Object")
    with refused("404", status=404):
        s3.head_object(Bucket=bucket, Key="k")


# --- retention -------------------------------------------------------------------------------


def test_retention_belongs_to_a_version(server, s3, lockable):
    older, newer = put(s3, lockable, content=b"1"), put(s3, lockable, content=b"2")
    current = {"Bucket": lockable, "Key": "k"}
    which = {**current, "VersionId": older}
    until = future(days=1)
    set_retention(s3, which, "GOVERNANCE", until)
    assert retention_of(s3, which) == ("GOVERNANCE", until)
    missing = 404 if server.is_ashlar() else 400
    with refused("NoSuchObjectLockConfiguration", status=missing):
        s3.get_object_retention(**current)
    set_retention(s3, current, "GOVERNANCE", until + timedelta(days=1))
    assert retention_of(s3, {**current, "VersionId": newer})[1] == until + timedelta(days=1)
    assert retention_of(s3, which) == ("GOVERNANCE", until)
    found = s3.list_object_versions(Bucket=lockable)["Versions"]
    assert [each["VersionId"] for each in found] == [newer, older], "no version was made"


def test_a_locked_version_cannot_be_removed(server, s3, lockable):
    which = put_retained(s3, lockable, content=b"locked")
    with locked_out(server) as caught:
        remove(s3, which)
    if server.is_ashlar():
        # AWS either says only this, or adds that an object lock protects the version.
        assert caught.value.response["Error"]["Message"].startswith("Access Denied")
    assert s3.get_object(**which)["Body"].read() == b"locked"
    with refused("BucketNotEmpty", status=409):
        s3.delete_bucket(Bucket=lockable)


def test_a_plain_delete_hides_a_locked_object(server, s3, lockable):
    which = put_retained(s3, lockable, content=b"locked")
    marker = s3.delete_object(Bucket=lockable, Key="k")
    assert marker["DeleteMarker"] is True
    with refused("NoSuchKey", status=404):
        s3.get_object(Bucket=lockable, Key="k")
    with locked_out(server):
        remove(s3, which)
    s3.delete_object(Bucket=lockable, Key="k", VersionId=marker["VersionId"])
    assert s3.get_object(Bucket=lockable, Key="k")["Body"].read() == b"locked"


def test_governance_is_bypassed_with_the_header(server, s3, lockable):
    which = put_retained(s3, lockable)
    for no in ({}, {"BypassGovernanceRetention": False}):
        with locked_out(server):
            remove(s3, which, **no)
    answer = remove(s3, which, BypassGovernanceRetention=True)
    assert answer["VersionId"] == which["VersionId"]
    with refused("NoSuchVersion", "NoSuchKey", status=404):
        s3.get_object(**which)


def test_governance_is_extended_without_and_shortened_with_a_bypass(server, s3, lockable):
    until = future(days=1)
    which = put_retained(s3, lockable, "GOVERNANCE", until)
    set_retention(s3, which, "GOVERNANCE", until)
    set_retention(s3, which, "GOVERNANCE", until + timedelta(days=1))
    assert retention_of(s3, which) == ("GOVERNANCE", until + timedelta(days=1))
    with locked_out(server):
        set_retention(s3, which, "GOVERNANCE", until)
    assert retention_of(s3, which) == ("GOVERNANCE", until + timedelta(days=1))
    set_retention(s3, which, "GOVERNANCE", until, BypassGovernanceRetention=True)
    assert retention_of(s3, which) == ("GOVERNANCE", until)


def test_governance_is_removed_with_a_bypass(server, s3, lockable):
    which = put_retained(s3, lockable)
    with locked_out(server):
        s3.put_object_retention(**which, Retention={})
    s3.put_object_retention(**which, Retention={}, BypassGovernanceRetention=True)
    missing = 404 if server.is_ashlar() else 400
    with refused("NoSuchObjectLockConfiguration", status=missing):
        s3.get_object_retention(**which)
    assert "ObjectLockMode" not in s3.head_object(**which)
    remove(s3, which)


@pytest.mark.ashlar("users are created by the gateway's own commands")
def test_a_bypass_needs_a_permission(server, s3, lockable):
    person = add_person(server)
    allowed = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::000000000001:user/{person.access_key}"},
        "Action": ["s3:DeleteObjectVersion", "s3:PutObjectRetention"],
        "Resource": f"arn:aws:s3:::{lockable}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [allowed]}
    s3.put_bucket_policy(Bucket=lockable, Policy=json.dumps(policy))
    until = future(days=1)
    which = put_retained(s3, lockable, "GOVERNANCE", until)
    with refused("AccessDenied", status=403):
        remove(person.s3, which, BypassGovernanceRetention=True)
    with refused("AccessDenied", status=403):
        set_retention(person.s3, which, "GOVERNANCE", future(hours=1), BypassGovernanceRetention=True)
    assert retention_of(s3, which) == ("GOVERNANCE", until)
    allowed["Action"].append("s3:BypassGovernanceRetention")
    s3.put_bucket_policy(Bucket=lockable, Policy=json.dumps(policy))
    set_retention(person.s3, which, "GOVERNANCE", future(hours=1), BypassGovernanceRetention=True)
    remove(person.s3, which, BypassGovernanceRetention=True)


def policy_of(bucket, *statements):
    """A policy about the objects of a bucket, from statements without resources."""
    of_all = {"Principal": "*", "Resource": f"arn:aws:s3:::{bucket}/*"}
    whole = [{**of_all, **one} for one in statements]
    return json.dumps({"Version": "2012-10-17", "Statement": whole})


@pytest.mark.ashlar("users are created by the gateway's own commands")
def test_a_bypass_in_a_batch_is_permitted_for_each_object(server, s3, lockable):
    person = add_person(server)
    arn = f"arn:aws:s3:::{lockable}/scratch/*"
    text = policy_of(
        lockable,
        {"Effect": "Allow", "Action": "s3:DeleteObjectVersion"},
        {"Effect": "Allow", "Action": "s3:BypassGovernanceRetention", "Resource": arn},
    )
    s3.put_bucket_policy(Bucket=lockable, Policy=text)
    until = future(days=1)
    which = [put_retained(s3, lockable, "GOVERNANCE", until, key=key) for key in ("a", "scratch/a")]
    objects = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in which]
    answer = person.s3.delete_objects(
        Bucket=lockable, Delete={"Objects": objects}, BypassGovernanceRetention=True
    )
    assert [one["Key"] for one in answer["Deleted"]] == ["scratch/a"]
    assert [(one["Key"], one["Code"]) for one in answer["Errors"]] == [("a", "AccessDenied")]
    assert retention_of(s3, which[0]) == ("GOVERNANCE", until)
    # The owner may bypass a retention unless a statement denies it.
    deny = {"Effect": "Deny", "Action": "s3:BypassGovernanceRetention"}
    s3.put_bucket_policy(Bucket=lockable, Policy=policy_of(lockable, deny))
    answer = s3.delete_objects(
        Bucket=lockable, Delete={"Objects": objects[:1]}, BypassGovernanceRetention=True
    )
    assert "Deleted" not in answer and retention_of(s3, which[0]) == ("GOVERNANCE", until)
    s3.delete_bucket_policy(Bucket=lockable)


@pytest.mark.ashlar("the reference has no policies of buckets by locks")
def test_a_policy_limits_retentions(s3, lockable):
    denies = [
        {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}},
        {"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}},
        {"DateGreaterThan": {"s3:object-lock-retain-until-date": "2090-01-01T00:00:00Z"}},
    ]
    action = "s3:PutObjectRetention"
    deny = [{"Effect": "Deny", "Action": action, "Condition": one} for one in denies]
    s3.put_bucket_policy(Bucket=lockable, Policy=policy_of(lockable, *deny))
    which = {"Bucket": lockable, "Key": "k", "VersionId": put(s3, lockable)}
    for mode, until in (
        ("GOVERNANCE", future(days=10, minutes=1)),
        ("COMPLIANCE", future(minutes=1)),
        ("GOVERNANCE", future(days=40_000)),
    ):
        with refused("AccessDenied", status=403):
            set_retention(s3, which, mode, until)
        with refused("AccessDenied", status=403):
            put_retained(s3, lockable, mode, until, key="by-headers")
    set_retention(s3, which, "GOVERNANCE", future(days=10))
    put_retained(s3, lockable, "GOVERNANCE", future(days=9), key="by-headers")


@pytest.mark.ashlar("the reference has no policies of buckets by locks")
def test_a_policy_limits_legal_holds(s3, lockable):
    deny = {
        "Effect": "Deny",
        "Action": "s3:PutObjectLegalHold",
        "Condition": {"StringEquals": {"s3:object-lock-legal-hold": "OFF"}},
    }
    s3.put_bucket_policy(Bucket=lockable, Policy=policy_of(lockable, deny))
    which = {"Bucket": lockable, "Key": "k", "VersionId": put(s3, lockable)}
    set_hold(s3, which)
    with refused("AccessDenied", status=403):
        set_hold(s3, which, "OFF")
    s3.delete_bucket_policy(Bucket=lockable)
    set_hold(s3, which, "OFF")


@pytest.mark.ashlar("the reference ignores a bypass without locks")
def test_a_bypass_in_a_bucket_without_locks_is_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for delete in (
        lambda: s3.delete_object(Bucket=bucket, Key="k", BypassGovernanceRetention=True),
        lambda: s3.delete_objects(
            Bucket=bucket, Delete={"Objects": [{"Key": "k"}]}, BypassGovernanceRetention=True
        ),
    ):
        with refused("InvalidArgument", status=400) as caught:
            delete()
        assert caught.value.response["Error"]["Message"] == (
            "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets."
        )
    s3.head_object(Bucket=bucket, Key="k")


def test_an_invalid_retention_is_refused(server, s3, lockable):
    which = {"Bucket": lockable, "Key": "k", "VersionId": put(s3, lockable)}
    tomorrow = future(days=1)
    for retention in (
        {"Mode": "GOVERNANCE"}, {"RetainUntilDate": tomorrow},
        {"Mode": "governance?", "RetainUntilDate": tomorrow},
    ):
        # The reference has its own code for an unknown mode.
        with refused(*server.codes("MalformedXML", "InvalidRequest"), status=400):
            s3.put_object_retention(**which, Retention=retention)
    with refused(*server.codes("InvalidArgument", "MalformedXML"), status=400) as caught:
        set_retention(s3, which, "GOVERNANCE", future(seconds=-5))
    if server.is_ashlar():
        assert caught.value.response["Error"]["Message"] == (
            "The retain until date must be in the future!"
        )
    assert "ObjectLockMode" not in s3.head_object(**which)


# Operations on locks, with their arguments besides bucket, key and version.
ABOUT_LOCKS = {
    "GetObjectRetention": lambda s3, **which: s3.get_object_retention(**which),
    "PutObjectRetention": lambda s3, **which: set_retention(s3, which, "GOVERNANCE", future(days=1)),
    "GetObjectLegalHold": lambda s3, **which: s3.get_object_legal_hold(**which),
    "PutObjectLegalHold": lambda s3, **which: set_hold(s3, which),
}


@pytest.mark.parametrize("operation", ABOUT_LOCKS)
def test_lock_operations_in_a_bucket_without_locks_are_refused(server, s3, bucket, operation):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with refused("InvalidRequest", status=400) as caught:
        ABOUT_LOCKS[operation](s3, Bucket=bucket, Key="k")
    if server.is_ashlar():
        # The reference spells it without spaces, and also returns it for missing buckets.
        assert caught.value.response["Error"]["Message"] == (
            "Bucket is missing Object Lock Configuration"
        )
        with refused("NoSuchBucket", status=404):
            ABOUT_LOCKS[operation](s3, Bucket="no-such-bucket-at-all", Key="k")


@pytest.mark.parametrize("operation", ABOUT_LOCKS)
def test_lock_operations_on_missing_objects_are_refused(s3, lockable, operation):
    ask = ABOUT_LOCKS[operation]
    gone = put(s3, lockable)
    s3.delete_object(Bucket=lockable, Key="k", VersionId=gone)
    with refused("NoSuchKey", status=404):
        ask(s3, Bucket=lockable, Key="k")
    put(s3, lockable)
    with refused("NoSuchVersion", status=404):
        ask(s3, Bucket=lockable, Key="k", VersionId=gone)
    with refused("InvalidArgument", status=400) as caught:
        ask(s3, Bucket=lockable, Key="k", VersionId="not-an-id")
    assert caught.value.response["Error"]["Message"] == "Invalid version id specified"


@pytest.mark.parametrize("operation", ABOUT_LOCKS)
def test_a_marker_has_no_locks(server, s3, lockable, operation):
    put(s3, lockable)
    marker = s3.delete_object(Bucket=lockable, Key="k")["VersionId"]
    with refused("MethodNotAllowed", status=405) as caught:
        ABOUT_LOCKS[operation](s3, Bucket=lockable, Key="k", VersionId=marker)
    if server.is_ashlar():
        assert caught.value.response["Error"]["ResourceType"] == "DeleteMarker"


@pytest.mark.parametrize("operation", ["GetObjectRetention", "GetObjectLegalHold"])
def test_an_object_without_a_lock_has_its_error_code(server, s3, lockable, operation):
    version = put(s3, lockable)
    # The status of AWS is 404.
    status = 404 if server.is_ashlar() else 400
    with refused("NoSuchObjectLockConfiguration", status=status) as caught:
        ABOUT_LOCKS[operation](s3, Bucket=lockable, Key="k", VersionId=version)
    assert caught.value.response["Error"]["Message"] == (
        "The specified object does not have a ObjectLock configuration"
    )
    head = s3.head_object(Bucket=lockable, Key="k")
    assert not [name for name in head if name.startswith("ObjectLock")]


# --- legal holds -----------------------------------------------------------------------------


def test_a_hold_protects_until_it_is_released(server, s3, lockable):
    which = {"Bucket": lockable, "Key": "k", "VersionId": put(s3, lockable)}
    set_hold(s3, which)
    assert s3.head_object(**which)["ObjectLockLegalHoldStatus"] == "ON"
    for bypass in ({}, {"BypassGovernanceRetention": True}):
        with locked_out(server):
            remove(s3, which, **bypass)
    set_hold(s3, which, "OFF")
    assert s3.get_object_legal_hold(**which)["LegalHold"] == {"Status": "OFF"}
    assert s3.head_object(**which)["ObjectLockLegalHoldStatus"] == "OFF"
    remove(s3, which)


def test_a_hold_belongs_to_a_version(server, s3, lockable):
    older, newer = put(s3, lockable, content=b"1"), put(s3, lockable, content=b"2")
    which = {"Bucket": lockable, "Key": "k"}
    set_hold(s3, {**which, "VersionId": older})
    assert "ObjectLockLegalHoldStatus" not in s3.head_object(**which)
    set_hold(s3, which)
    assert s3.get_object_legal_hold(**which, VersionId=newer)["LegalHold"]["Status"] == "ON"
    set_hold(s3, {**which, "VersionId": older}, "OFF")
    s3.delete_object(**which, VersionId=older)
    with locked_out(server):
        s3.delete_object(**which, VersionId=newer)


def test_holds_and_retentions_are_independent(server, s3, lockable):
    until = future(days=1)
    which = put_retained(s3, lockable, "GOVERNANCE", until, ObjectLockLegalHoldStatus="ON")
    with locked_out(server):
        remove(s3, which, BypassGovernanceRetention=True)
    set_hold(s3, which, "OFF")
    assert retention_of(s3, which) == ("GOVERNANCE", until)
    with locked_out(server):
        remove(s3, which)
    set_hold(s3, which, "ON")
    set_retention(s3, which, "GOVERNANCE", future(hours=1), BypassGovernanceRetention=True)
    assert s3.get_object_legal_hold(**which)["LegalHold"]["Status"] == "ON"


def test_a_hold_is_on_or_off(s3, lockable):
    which = {"Bucket": lockable, "Key": "k", "VersionId": put(s3, lockable)}
    for bad in ({}, {"Status": "MAYBE"}, {"Status": "on"}):
        with refused("MalformedXML", status=400):
            s3.put_object_legal_hold(**which, LegalHold=bad)
    assert "ObjectLockLegalHoldStatus" not in s3.head_object(**which)


# --- batches of deletes ------------------------------------------------------------------------


def test_a_batch_of_deletes_reports_locked_versions(server, s3, lockable):
    locked = put_retained(s3, lockable, key="locked")
    held = put(s3, lockable, "held", ObjectLockLegalHoldStatus="ON")
    free = put(s3, lockable, "free")
    these = [
        {"Key": "locked", "VersionId": locked["VersionId"]}, {"Key": "held", "VersionId": held},
        {"Key": "free", "VersionId": free},
    ]
    denied = "AccessDenied" if server.is_ashlar() else "InvalidRequest"
    answer = s3.delete_objects(Bucket=lockable, Delete={"Objects": these})
    assert [each["Key"] for each in answer["Deleted"]] == ["free"]
    assert sorted(
        (each["Key"], each["VersionId"], each["Code"]) for each in answer["Errors"]
    ) == [("held", held, denied), ("locked", locked["VersionId"], denied)]
    answer = s3.delete_objects(
        Bucket=lockable, Delete={"Objects": these[:2]}, BypassGovernanceRetention=True
    )
    assert [each["Key"] for each in answer["Deleted"]] == ["locked"]
    assert [(each["Key"], each["Code"]) for each in answer["Errors"]] == [("held", denied)]
    # A delete without a version id removes nothing, so it is always allowed.
    answer = s3.delete_objects(Bucket=lockable, Delete={"Objects": [{"Key": "held"}]})
    assert answer["Deleted"][0]["DeleteMarker"] is True
    assert s3.get_object(Bucket=lockable, Key="held", VersionId=held)["Body"].read() == b"x"
