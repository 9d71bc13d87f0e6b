"""boto3, low level: access logs of buckets, delivered into other buckets.

The gateway of a cell delivers logs each second.
"""

import json
import re
import time

import pytest

from people import add_account, add_person
from server import fresh_bucket_name, refused

pytestmark = pytest.mark.ashlar("the interval of deliveries is an option of the gateway")

# Time limit in seconds until a line is delivered; it usually takes one or two.
DELIVERY_SECONDS = 30

SERVICE = {"Service": "logging.s3.amazonaws.com"}
# The account of the user with whom the tests sign.
MAIN = "000000000001"
UNIQUE = r"\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-[0-9A-F]{16}"


def statement(target, source, **changes):
    """Returns AWS's example of a statement for log delivery, with these changes."""
    return {
        "Effect": "Allow",
        "Principal": SERVICE,
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{target}/*",
        "Condition": {
            "ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{source}"},
            "StringEquals": {"aws:SourceAccount": MAIN},
        },
    } | changes


def set_policy(s3, bucket, *statements):
    document = {"Version": "2012-10-17", "Statement": statements}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))


def enabled(target, prefix="log/", **more):
    return {"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": prefix} | more}


def put_logging(s3, source, target, **more):
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=enabled(target, **more))


def partitioned(date):
    return {"TargetObjectKeyFormat": {"PartitionedPrefix": {"PartitionDateSource": date}}}


@pytest.fixture
def target(control, bucket):
    """A bucket that accepts the log of `bucket`."""
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name)
    set_policy(control, name, statement(name, bucket))
    return name


def delivered(s3, target, prefix="log/"):
    """Returns the objects below a prefix, each key with its lines."""
    found = s3.list_objects_v2(Bucket=target, Prefix=prefix).get("Contents", [])
    keys = [one["Key"] for one in found]
    return {k: s3.get_object(Bucket=target, Key=k)["Body"].read().decode() for k in keys}


def wait_for_line(s3, target, pattern, prefix="log/"):
    """Waits until a line with this pattern is delivered. Returns its key and the line."""
    end = time.monotonic() + DELIVERY_SECONDS
    while True:
        objects = delivered(s3, target, prefix)
        for key, text in objects.items():
            assert text.endswith("\n")
            for line in text.splitlines():
                if re.search(pattern, line):
                    return key, line
        assert time.monotonic() < end, f"no line {pattern} in {objects}"
        time.sleep(0.2)


def test_a_configuration_is_stored_and_removed(control, bucket, target):
    assert "LoggingEnabled" not in control.get_bucket_logging(Bucket=bucket)
    simple = {"TargetObjectKeyFormat": {"SimplePrefix": {}}}
    for more in ({}, simple, partitioned("EventTime"), partitioned("DeliveryTime")):
        put_logging(control, bucket, target, **more)
        found = control.get_bucket_logging(Bucket=bucket)
        assert found["LoggingEnabled"] == enabled(target, **more)["LoggingEnabled"]
    control.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    assert "LoggingEnabled" not in control.get_bucket_logging(Bucket=bucket)


def test_lines_are_delivered_with_the_fields_of_s3(control, bucket, target):
    put_logging(control, bucket, target)
    answer = control.put_object(Bucket=bucket, Key="a key", Body=b"seven b")
    request = answer["ResponseMetadata"]["RequestId"]
    key, line = wait_for_line(control, target, re.escape(request))
    assert re.fullmatch(f"log/{UNIQUE}", key)
    fields = re.findall(r'"[^"]*"|\[[^]]*\]|\S+', line)
    assert fields[1] == bucket
    assert fields[5:7] == [request, "REST.PUT.OBJECT"], line
    assert "a%20key" in line and " 200 " in line
    head = control.head_object(Bucket=target, Key=key)
    assert head["ContentType"] == "text/plain"
    with refused("NoSuchKey", status=404):
        control.get_object(Bucket=bucket, Key="none")
    wait_for_line(control, target, r"REST\.GET\.OBJECT none .* 404 NoSuchKey")
    # Each key of a batch has a line.
    doomed = {"Objects": [{"Key": "a key"}, {"Key": "none"}]}
    control.delete_objects(Bucket=bucket, Delete=doomed)
    wait_for_line(control, target, r"BATCH\.DELETE\.OBJECT a%20key")
    wait_for_line(control, target, r"BATCH\.DELETE\.OBJECT none")


def test_partitioned_keys_name_account_region_and_bucket(control, bucket, target):
    day = r"(\d{4})/(\d\d)/(\d\d)/\1-\2-\3-"
    for date, clock in (("DeliveryTime", r"\d\d-\d\d-\d\d"), ("EventTime", "00-00-00")):
        put_logging(control, bucket, target, prefix=f"{date}/", **partitioned(date))
        control.put_object(Bucket=bucket, Key=f"by-{date}", Body=b"x")
        key, _ = wait_for_line(control, target, f"OBJECT by-{date}", prefix=f"{date}/")
        expected = f"{date}/{MAIN}/us-east-1/{bucket}/{day}{clock}-[0-9A-F]{{16}}"
        assert re.fullmatch(expected, key), key


def test_a_denied_request_of_another_account_has_a_line(server, control, bucket, target):
    put_logging(control, bucket, target)
    carl = add_person(server, ["readwrite"], add_account(server))
    with refused("AccessDenied", status=403):
        carl.s3.get_object(Bucket=bucket, Key="secret")
    _, line = wait_for_line(control, target, r"REST\.GET\.OBJECT secret")
    assert " 403 AccessDenied " in line and carl.access_key in line


def test_a_bucket_that_is_its_own_target_does_not_feed_itself(control, bucket):
    set_policy(control, bucket, statement(bucket, bucket))
    put_logging(control, bucket, bucket)
    control.put_object(Bucket=bucket, Key="k", Body=b"x")
    wait_for_line(control, bucket, r"REST\.PUT\.OBJECT k ")
    # The reads of this test have lines. After the last of them is delivered, nothing follows.
    time.sleep(3)

    def count():
        found = control.list_objects_v2(Bucket=bucket, Prefix="log/")
        return found["KeyCount"]

    first = count()
    time.sleep(6)
    # One object for the listing above, at most.
    assert count() <= first + 1
    lines = "".join(delivered(control, bucket).values())
    assert "REST.PUT.OBJECT log/" not in lines


def test_the_policy_of_the_target_decides(control, bucket, target):
    control.delete_bucket_policy(Bucket=target)
    with refused("AccessDenied", status=403):
        put_logging(control, bucket, target)
    for changes in (
        {"Principal": {"AWS": f"arn:aws:iam::{MAIN}:root"}},
        {"Action": "s3:GetObject"},
        {"Resource": f"arn:aws:s3:::{target}/kaboom/*"},
        {"Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::kaboom"}}},
        {"Condition": {"StringEquals": {"aws:SourceAccount": "000000000002"}}},
        {"Effect": "Deny"},
    ):
        set_policy(control, target, statement(target, bucket, **changes))
        with refused("AccessDenied", status=403):
            put_logging(control, bucket, target)
    for changes in (
        {"Resource": f"arn:aws:s3:::{target}/log/*"},
        {"Condition": {"ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{bucket[:-4]}*"}}},
        {"Condition": {}},
        {"Principal": "*"},
    ):
        set_policy(control, target, statement(target, bucket, **changes))
        put_logging(control, bucket, target)
    with refused("MalformedPolicy", status=400):
        other = {"Principal": {"Service": "logging.s3.amazonaws.comkaboom"}}
        set_policy(control, target, statement(target, bucket, **other))


def test_a_target_whose_policy_is_gone_gets_nothing(control, bucket, target):
    put_logging(control, bucket, target)
    control.put_object(Bucket=bucket, Key="before", Body=b"x")
    wait_for_line(control, target, "OBJECT before ")
    control.delete_bucket_policy(Bucket=target)
    control.put_object(Bucket=bucket, Key="lost", Body=b"x")
    time.sleep(3)
    set_policy(control, target, statement(target, bucket))
    control.put_object(Bucket=bucket, Key="after", Body=b"x")
    wait_for_line(control, target, "OBJECT after ")
    assert "OBJECT lost " not in "".join(delivered(control, target).values())


def test_a_grant_to_the_log_delivery_group_is_enough(control, bucket):
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name, ObjectOwnership="ObjectWriter")
    with refused("AccessDenied", status=403):
        put_logging(control, bucket, name)
    control.put_bucket_acl(Bucket=name, ACL="log-delivery-write")
    put_logging(control, bucket, name)
    control.put_object(Bucket=bucket, Key="k", Body=b"x")
    wait_for_line(control, name, r"REST\.PUT\.OBJECT k ")


def test_wrong_targets_and_documents_are_refused(server, control, bucket, target):
    with refused("NoSuchBucket", status=404):
        put_logging(control, fresh_bucket_name(), target)
    for wrong in (fresh_bucket_name(), "No_Name"):
        with refused("InvalidTargetBucketForLogging", status=400):
            put_logging(control, bucket, wrong)
    with refused("MalformedXML", status=400):
        put_logging(control, bucket, target, **partitioned("kaboom"))
    grant = {"Grantee": {"Type": "CanonicalUser", "ID": "a" * 64}, "Permission": "READ"}
    with refused("NotImplemented", status=501):
        put_logging(control, bucket, target, TargetGrants=[grant])
    with refused("KeyTooLongError", status=400):
        put_logging(control, bucket, target, prefix="x" * 1000)
    # A target of another account, although its policy allows the delivery.
    carl = add_person(server, ["readwrite"], add_account(server))
    foreign = fresh_bucket_name()
    carl.s3.create_bucket(Bucket=foreign)
    set_policy(carl.s3, foreign, statement(foreign, bucket))
    with refused("InvalidTargetBucketForLogging", status=400):
        put_logging(control, bucket, foreign)
    locked = fresh_bucket_name()
    control.create_bucket(Bucket=locked, ObjectLockEnabledForBucket=True)
    set_policy(control, locked, statement(locked, bucket))
    put_logging(control, bucket, locked)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    control.put_object_lock_configuration(
        Bucket=locked, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    with refused("InvalidTargetBucketForLogging", status=400):
        put_logging(control, bucket, locked)


def test_only_the_account_of_the_owner_sets_the_log(server, control, bucket, target):
    carl = add_person(server, ["readwrite"], add_account(server))
    allow = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:PutBucketLogging", "s3:GetBucketLogging"],
        "Resource": f"arn:aws:s3:::{bucket}",
    }
    set_policy(control, bucket, allow)
    with refused("AccessDenied", status=403):
        put_logging(carl.s3, bucket, target)
    put_logging(control, bucket, target)
    with refused("AccessDenied", status=403):
        carl.s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    assert carl.s3.get_bucket_logging(Bucket=bucket)["LoggingEnabled"]
    # Within the account the permission decides.
    control.delete_bucket_policy(Bucket=bucket)
    bert = add_person(server)
    with refused("AccessDenied", status=403):
        bert.s3.get_bucket_logging(Bucket=bucket)
    with refused("AccessDenied", status=403):
        bert.s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
