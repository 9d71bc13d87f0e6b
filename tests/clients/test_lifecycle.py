"""boto3, low level: rules that remove objects, versions, markers and uploads.

Rules are read back on any server. The last tests check the removals and run only if
ASHLAR_TEST_LIFECYCLE_DAY sets the server's length of a day in seconds. They cannot run against the
reference, and follow AWS's documentation.
"""

import os
import re
import time
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

import boto3
import pytest

from conftest import watch_retries
from server import fresh_bucket_name, refused

DAY_SECONDS = 86_400
# Time limit in seconds of a removal, after the days of its rule.
PATIENCE_SECONDS = 60

GONE_AT_ONCE = {"Expiration": {"Days": 1}}


@pytest.fixture
def s3(server):
    yield from watch_retries(boto3.client("s3", **server.aws_settings()))


@pytest.fixture
def lifecycle_day_seconds():
    """The server's length of a day in seconds. Tests that need it are skipped if it is not set."""
    value = os.environ.get("ASHLAR_TEST_LIFECYCLE_DAY")
    if not value:
        pytest.skip("set ASHLAR_TEST_LIFECYCLE_DAY to the seconds that the server takes for a day")
    return float(value)


@pytest.fixture
def day():
    """The server's length of a day."""
    return timedelta(seconds=float(os.environ.get("ASHLAR_TEST_LIFECYCLE_DAY") or DAY_SECONDS))


@pytest.fixture
def plain(s3, bucket):
    """A new bucket, which is removed with its remaining content."""
    yield bucket
    s3.delete_bucket_lifecycle(Bucket=bucket)
    for each in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"])
    for each in entries(s3, bucket):
        s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
    s3.delete_bucket(Bucket=bucket)


@pytest.fixture
def versioned(s3, plain):
    s3.put_bucket_versioning(Bucket=plain, VersioningConfiguration={"Status": "Enabled"})
    return plain


def entries(s3, bucket, **arguments):
    found = s3.list_object_versions(Bucket=bucket, **arguments)
    return [*found.get("Versions", []), *found.get("DeleteMarkers", [])]


def rule(name="rule", **parts):
    """Returns a rule for all objects, unless `parts` has a filter."""
    made = {"ID": name, "Status": "Enabled", **parts}
    return made if {"Filter", "Prefix"} & set(made) else {**made, "Filter": {}}


def rule_for(prefix, name="rule", **parts):
    """Returns a rule for the keys below a prefix."""
    return rule(name, Filter={"Prefix": prefix}, **parts)


def set_rules(s3, bucket, *rules):
    """Sets the rules of a bucket."""
    s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)}
    )


def rules_of(s3, bucket):
    """Returns the rules of a bucket as they are read back."""
    return s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]


# --- rules are stored --------------------------------------------------------------------------

TAG, OTHER_TAG = {"Key": "kind", "Value": "log"}, {"Key": "größe", "Value": ""}
MIDNIGHT = datetime(2041, 5, 6, tzinfo=timezone.utc)
NO_UPLOADS = pytest.mark.ashlar("the reference has no rules for uploads")

KEPT = {
    "days": rule(Expiration={"Days": 30}),
    "many days": rule(Expiration={"Days": 2_147_483_647}),
    "date": rule(Expiration={"Date": MIDNIGHT}),
    "markers": rule(Expiration={"ExpiredObjectDeleteMarker": True}),
    "disabled": rule(Status="Disabled", Expiration={"Days": 30}),
    "prefix": rule_for("logs/", Expiration={"Days": 30}),
    "odd prefix": rule_for("ü ö+&<'\">/", Expiration={"Days": 30}),
    "tag": rule(Filter={"Tag": TAG}, Expiration={"Days": 30}),
    "larger": rule(Filter={"ObjectSizeGreaterThan": 500}, Expiration={"Days": 30}),
    "smaller": rule(Filter={"ObjectSizeLessThan": 64_000}, Expiration={"Days": 30}),
    "and": rule(
        Filter={
            "And": {
                "Prefix": "logs/", "Tags": [TAG],
                "ObjectSizeGreaterThan": 500, "ObjectSizeLessThan": 64_000,
            }
        },
        Expiration={"Days": 30},
    ),
    "two tags": rule(
        Filter={"And": {"Tags": [TAG, {"Key": "b", "Value": "2"}]}}, Expiration={"Days": 30}
    ),
    "two sizes": rule(
        Filter={"And": {"ObjectSizeGreaterThan": 1, "ObjectSizeLessThan": 1 << 40}},
        Expiration={"Days": 1},
    ),
    "noncurrent": rule(NoncurrentVersionExpiration={"NoncurrentDays": 7}),
    "newer noncurrent": rule(
        NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 100}
    ),
    "two actions": rule_for(
        "x/", Expiration={"Days": 3}, NoncurrentVersionExpiration={"NoncurrentDays": 7}
    ),
    "long name": rule("n" * 255, Expiration={"Days": 30}),
    "old form": rule(Prefix="logs/", Expiration={"Days": 30}),
    "old form for all": rule(Prefix="", Expiration={"Days": 30}),
}
KEPT_ELSEWHERE = {
    "uploads": rule_for("u/", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 3}),
    "all actions": rule_for(
        "x/", Expiration={"ExpiredObjectDeleteMarker": True},
        NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 2},
        AbortIncompleteMultipartUpload={"DaysAfterInitiation": 3},
    ),
}


def check_kept(s3, bucket, made):
    set_rules(s3, bucket, made)
    assert rules_of(s3, bucket) == [made]


@pytest.mark.parametrize("name", KEPT)
def test_a_rule_is_read_back_as_it_was_written(s3, plain, name):
    check_kept(s3, plain, KEPT[name])


@NO_UPLOADS
@pytest.mark.parametrize("name", KEPT_ELSEWHERE)
def test_a_rule_for_uploads_is_read_back_as_it_was_written(s3, plain, name):
    check_kept(s3, plain, KEPT_ELSEWHERE[name])


@pytest.mark.ashlar("the reference allows ASCII in tags only")
def test_a_rule_with_tags_in_any_script_is_read_back(s3, plain):
    check_kept(
        s3, plain, rule(Filter={"And": {"Prefix": "", "Tags": [TAG, OTHER_TAG]}}, **GONE_AT_ONCE)
    )


def test_rules_stay_in_order_and_are_replaced_as_a_whole(s3, plain):
    several = [
        rule_for("b/", "second", Expiration={"Days": 2}), rule_for("a/", "first", Expiration={"Days": 1}),
        rule_for("c/", "third", NoncurrentVersionExpiration={"NoncurrentDays": 3}),
    ]
    set_rules(s3, plain, *several)
    assert rules_of(s3, plain) == several
    set_rules(s3, plain, several[1])
    assert rules_of(s3, plain) == several[1:2]


def test_rules_without_ids_get_ids(s3, plain):
    nameless = [rule_for(prefix, **GONE_AT_ONCE) for prefix in ("a/", "b/")]
    for each in nameless:
        del each["ID"]
    set_rules(s3, plain, *nameless)
    found = rules_of(s3, plain)
    names = [each.pop("ID") for each in found]
    assert found == nameless
    assert len(set(names)) == 2 and all(names)
    assert [each["ID"] for each in rules_of(s3, plain)] == names, "names stay"


def test_a_thousand_rules_and_no_more(server, s3, plain):
    many = [rule_for(f"{number}/", f"r{number}", **GONE_AT_ONCE) for number in range(1001)]
    set_rules(s3, plain, *many[:1000])
    assert rules_of(s3, plain) == many[:1000]
    # AWS documents one code and has returned the other. The reference has a third one.
    codes = ["InvalidRequest", *server.codes("MalformedXML", "InvalidArgument")]
    with refused(*codes, status=400):
        set_rules(s3, plain, *many)
    with refused(*codes, status=400):
        set_rules(s3, plain)
    assert len(rules_of(s3, plain)) == 1000


def test_rules_are_removed(s3, plain):
    for _ in range(2):
        s3.delete_bucket_lifecycle(Bucket=plain)
        with refused("NoSuchLifecycleConfiguration", status=404) as caught:
            rules_of(s3, plain)
        assert caught.value.response["Error"]["Message"] == (
            "The lifecycle configuration does not exist"
        )
    set_rules(s3, plain, rule(Expiration={"Days": 1}))
    answer = s3.delete_bucket_lifecycle(Bucket=plain)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused("NoSuchLifecycleConfiguration", status=404):
        rules_of(s3, plain)


def test_rules_are_removed_with_their_bucket(server, s3):
    name = fresh_bucket_name()
    s3.create_bucket(Bucket=name)
    set_rules(s3, name, rule(Expiration={"Days": 1}))
    s3.delete_bucket(Bucket=name)
    with refused("NoSuchBucket", status=404):
        rules_of(s3, name)
    if server.is_ashlar():
        # The reference does not check that the bucket exists.
        with refused("NoSuchBucket", status=404):
            set_rules(s3, name, rule(Expiration={"Days": 1}))
    s3.create_bucket(Bucket=name)
    with refused("NoSuchLifecycleConfiguration", status=404):
        rules_of(s3, name)
    s3.delete_bucket(Bucket=name)


# --- invalid rules -----------------------------------------------------------------------------

POSITIVE = "must be a positive integer"
# The fault, the code of AWS, and the beginning or a part of its sentence.
WRONG = {
    "a status that is invalid": (rule(Status="enabled", **GONE_AT_ONCE), "MalformedXML", ""),
    "no filter": (
        {"ID": "rule", "Status": "Enabled", **GONE_AT_ONCE}, "MalformedXML", "",
    ),
    "no action": (rule(), "InvalidRequest", "At least one action"),
    "a long name": (rule("n" * 256, **GONE_AT_ONCE), "InvalidArgument", "ID length should not"),
    "no days": (
        rule(Expiration={"Days": 0}), "InvalidArgument",
        f"'Days' for Expiration action {POSITIVE}",
    ),
    "fewer days": (rule(Expiration={"Days": -1}), "InvalidArgument", ""),
    "a date at noon": (
        rule(Expiration={"Date": MIDNIGHT + timedelta(hours=12)}),
        "InvalidArgument", "'Date' must be at midnight GMT",
    ),
    "days and a date": (rule(Expiration={"Days": 1, "Date": MIDNIGHT}), "MalformedXML", ""),
    "days and markers": (
        rule(Expiration={"Days": 1, "ExpiredObjectDeleteMarker": True}), "MalformedXML", "",
    ),
    "an expiration of nothing": (rule(Expiration={}), "MalformedXML", ""),
    "no noncurrent days": (
        rule(NoncurrentVersionExpiration={"NoncurrentDays": 0}), "InvalidArgument",
        f"'NoncurrentDays' for NoncurrentVersionExpiration action {POSITIVE}",
    ),
    "a noncurrent expiration of nothing": (
        rule(NoncurrentVersionExpiration={}), "MalformedXML", "",
    ),
    "newer versions without days": (
        rule(NoncurrentVersionExpiration={"NewerNoncurrentVersions": 3}), "MalformedXML", "",
    ),
    "an upload of no days": (
        rule(AbortIncompleteMultipartUpload={"DaysAfterInitiation": 0}), "InvalidArgument",
        f"'DaysAfterInitiation' for AbortIncompleteMultipartUpload action {POSITIVE}",
    ),
    "uploads by tag": (
        rule(Filter={"Tag": TAG}, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}),
        "InvalidRequest", "AbortIncompleteMultipartUpload cannot be specified with Tags",
    ),
    "uploads by size": (
        rule(
            Filter={"ObjectSizeLessThan": 9},
            AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1},
        ),
        "InvalidRequest", "AbortIncompleteMultipartUpload cannot be specified with Object Size",
    ),
    "markers by tag": (
        rule(Filter={"Tag": TAG}, Expiration={"ExpiredObjectDeleteMarker": True}),
        "InvalidRequest", "ExpiredObjectDeleteMarker",
    ),
    "markers by size": (
        rule(
            Filter={"ObjectSizeLessThan": 9}, Expiration={"ExpiredObjectDeleteMarker": True}
        ),
        "InvalidRequest", "ExpiredObjectDeleteMarker cannot be specified with Object Size",
    ),
    "a prefix and a tag": (
        rule(Filter={"Prefix": "a/", "Tag": TAG}, **GONE_AT_ONCE), "MalformedXML", "",
    ),
    "a prefix and more": (
        rule(Filter={"Prefix": "a/", "And": {"Prefix": "a/", "Tags": [TAG]}}, **GONE_AT_ONCE),
        "MalformedXML", "",
    ),
    "one and nothing": (
        rule(Filter={"And": {"Prefix": "a/"}}, **GONE_AT_ONCE), "MalformedXML", "",
    ),
    "a tag twice": (
        rule(Filter={"And": {"Tags": [TAG, TAG]}}, **GONE_AT_ONCE),
        "InvalidRequest", "Duplicate Tag Keys are not allowed",
    ),
    "smaller than nothing": (
        rule(Filter={"ObjectSizeLessThan": 0}, **GONE_AT_ONCE), "InvalidRequest", "",
    ),
    "larger than smaller": (
        rule(
            Filter={"And": {"ObjectSizeGreaterThan": 9, "ObjectSizeLessThan": 9}}, **GONE_AT_ONCE
        ),
        "InvalidRequest", "'ObjectSizeLessThan' has to be a value greater than",
    ),
}


# Faults that the reference does not check.
TAKEN = pytest.mark.ashlar("the reference accepts such a rule")
TAKEN_ELSEWHERE = [
    "newer versions without days", "markers by tag", "markers by size", "smaller than nothing",
    "larger than smaller", "no filter",
]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=TAKEN) if name in TAKEN_ELSEWHERE else name for name in WRONG],
)
def test_an_invalid_rule_is_refused(server, s3, plain, name):
    made, code, sentence = WRONG[name]
    # The reference has one code and its own sentences for all of them.
    with refused(*server.codes(code, "InvalidArgument"), status=400) as caught:
        set_rules(s3, plain, rule_for("right/", "right", **GONE_AT_ONCE), made)
    if server.is_ashlar():
        assert sentence in caught.value.response["Error"]["Message"]
    with refused("NoSuchLifecycleConfiguration", status=404):
        rules_of(s3, plain)


def test_a_refused_configuration_leaves_the_one_before(s3, plain):
    before = rule_for("a/", **GONE_AT_ONCE)
    set_rules(s3, plain, before)
    with refused("InvalidArgument", status=400) as caught:
        set_rules(s3, plain, rule_for("b/", **GONE_AT_ONCE), rule_for("c/", **GONE_AT_ONCE))
    assert caught.value.response["Error"]["Message"].startswith("Rule ID must be unique")
    assert rules_of(s3, plain) == [before]


@pytest.mark.ashlar("the reference accepts both together")
def test_old_and_new_forms_do_not_mix(s3, plain):
    old, new = rule("old", Prefix="a/", **GONE_AT_ONCE), rule_for("b/", "new", **GONE_AT_ONCE)
    for both in ((old, new), (new, old)):
        with refused("InvalidRequest", status=400) as caught:
            set_rules(s3, plain, *both)
        assert "Lifecycle V2" in caught.value.response["Error"]["Message"]


# --- headers of responses ----------------------------------------------------------------------


def promised(answer):
    """Returns the time of removal and the rule, as in `x-amz-expiration`."""
    found = re.fullmatch(r'expiry-date="(.+ GMT)", rule-id="(.+)"', answer["Expiration"])
    return parsedate_to_datetime(found[1]), found[2]


def test_responses_contain_the_expiration_of_an_object(s3, plain, day):
    set_rules(s3, plain, rule_for("a/", "the-rule", Expiration={"Days": 300}))
    written = s3.put_object(Bucket=plain, Key="a/k", Body=b"x")
    answers = [written]
    answers += [ask(Bucket=plain, Key="a/k") for ask in (s3.head_object, s3.get_object)]
    source = {"Bucket": plain, "Key": "a/k"}
    answers.append(s3.copy_object(Bucket=plain, Key="a/k2", CopySource=source))
    made = answers[1]["LastModified"]
    for answer in answers:
        date, name = promised(answer)
        assert name == "the-rule"
        # All these days, and then the next midnight.
        assert made + 300 * day <= date <= made + 301 * day + timedelta(minutes=2)
        if day.total_seconds() == DAY_SECONDS:
            assert (date.hour, date.minute, date.second) == (0, 0, 0)
    assert promised(answers[1]) == promised(answers[2])
    other = s3.put_object(Bucket=plain, Key="b/k", Body=b"x")
    assert "Expiration" not in other
    assert "Expiration" not in s3.head_object(Bucket=plain, Key="b/k")


def test_a_completed_upload_returns_the_expiration(s3, plain):
    set_rules(s3, plain, rule(Expiration={"Days": 300}))
    begun = s3.create_multipart_upload(Bucket=plain, Key="k")
    which = {"Bucket": plain, "Key": "k", "UploadId": begun["UploadId"]}
    part = {"PartNumber": 1, "ETag": s3.upload_part(**which, PartNumber=1, Body=b"x")["ETag"]}
    done = s3.complete_multipart_upload(**which, MultipartUpload={"Parts": [part]})
    assert promised(done) == promised(s3.head_object(Bucket=plain, Key="k"))


def test_the_date_of_a_rule_is_the_expiration(s3, plain):
    set_rules(s3, plain, rule(Expiration={"Date": MIDNIGHT}))
    assert promised(s3.put_object(Bucket=plain, Key="k", Body=b"x")) == (MIDNIGHT, "rule")


def test_rules_that_do_not_apply_give_no_expiration(s3, plain):
    set_rules(
        s3, plain,
        rule("off", Status="Disabled", Expiration={"Days": 1}),
        rule("markers", Expiration={"ExpiredObjectDeleteMarker": True}),
        rule("older", NoncurrentVersionExpiration={"NoncurrentDays": 1}),
        rule_for("other/", "other", Expiration={"Days": 1}),
        rule("large", Filter={"ObjectSizeGreaterThan": 1}, Expiration={"Days": 1}),
        rule("small", Filter={"ObjectSizeLessThan": 1}, Expiration={"Days": 1}),
        rule("tagged", Filter={"Tag": TAG}, Expiration={"Days": 1}),
    )
    # Sizes are exclusive.
    assert "Expiration" not in s3.put_object(Bucket=plain, Key="k", Body=b"1")
    assert "Expiration" not in s3.head_object(Bucket=plain, Key="k")


def test_filters_select_objects(s3, plain):
    tags = {"And": {"Tags": [TAG, {"Key": "b", "Value": "2"}]}}
    both = {"And": {"Prefix": "a/", "Tags": [{"Key": "c", "Value": "3"}]}}
    set_rules(
        s3, plain,
        rule("large", Filter={"ObjectSizeGreaterThan": 10}, Expiration={"Days": 301}),
        rule("tags", Filter=tags, Expiration={"Days": 302}),
        rule("both", Filter=both, Expiration={"Days": 303}),
    )

    def named(key, body=b"", tagging=""):
        s3.put_object(Bucket=plain, Key=key, Body=body, Tagging=tagging)
        answer = s3.head_object(Bucket=plain, Key=key)
        return promised(answer)[1] if "Expiration" in answer else None

    assert named("k", b"x" * 11) == "large"
    assert named("k", b"x" * 10) is None
    assert named("k", tagging="kind=log&b=2&more=1") == "tags"
    assert named("k", tagging="kind=log&b=3") is None
    assert named("k", tagging="kind=log") is None
    assert named("a/k", tagging="c=3") == "both"
    assert named("a/k", tagging="c=4") is None
    assert named("b/k", tagging="c=3") is None
    s3.put_object_tagging(Bucket=plain, Key="a/k", Tagging={"TagSet": [{"Key": "c", "Value": "3"}]})
    assert promised(s3.head_object(Bucket=plain, Key="a/k"))[1] == "both"


def test_the_earliest_of_several_expirations_is_returned(s3, plain):
    set_rules(
        s3, plain,
        rule_for("a/", "late", Expiration={"Days": 300}),
        rule_for("a/b/", "soon", Expiration={"Days": 200}),
        rule_for("a/b/c", "later", Expiration={"Days": 400}),
    )
    s3.put_object(Bucket=plain, Key="a/b/c", Body=b"x")
    assert promised(s3.head_object(Bucket=plain, Key="a/b/c"))[1] == "soon"


def test_only_current_versions_have_an_expiration(server, s3, versioned):
    set_rules(s3, versioned, rule(Expiration={"Days": 300}))
    older = s3.put_object(Bucket=versioned, Key="k", Body=b"1")["VersionId"]
    newer = s3.put_object(Bucket=versioned, Key="k", Body=b"2")["VersionId"]
    assert "Expiration" in s3.head_object(Bucket=versioned, Key="k")
    assert "Expiration" not in s3.head_object(Bucket=versioned, Key="k", VersionId=older)
    if server.is_ashlar():
        # AWS returns it only if the request does not name the version.
        assert "Expiration" not in s3.head_object(Bucket=versioned, Key="k", VersionId=newer)


@NO_UPLOADS
def test_uploads_have_an_abort_date(s3, plain, day):
    action = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 300}}
    set_rules(s3, plain, rule_for("a/", "the-rule", **action))
    begun = s3.create_multipart_upload(Bucket=plain, Key="a/k")
    now = datetime.now(timezone.utc)
    parts = s3.list_parts(Bucket=plain, Key="a/k", UploadId=begun["UploadId"])
    for answer in (begun, parts):
        assert answer["AbortRuleId"] == "the-rule"
        slack = timedelta(minutes=2)
        assert now + 300 * day - slack <= answer["AbortDate"] <= now + 301 * day + slack
    other = s3.create_multipart_upload(Bucket=plain, Key="b/k")
    assert "AbortDate" not in other and "AbortRuleId" not in other


# --- removals ----------------------------------------------------------------------------------


def eventually(what, days, day_seconds):
    """Waits until `what` holds: the days of the rule, rounded up, and some seconds more."""
    end = time.monotonic() + (days + 2) * day_seconds + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < end, "the rule was not followed"
        time.sleep(0.2)


def put(s3, bucket, key, body=b"x", **arguments):
    """Writes an object and returns its version id, or None."""
    return s3.put_object(Bucket=bucket, Key=key, Body=body, **arguments).get("VersionId")


def kinds(s3, bucket, key):
    """Returns the versions and markers of a key, newest first: id, and True for a marker."""
    found = [each for each in entries(s3, bucket, Prefix=key) if each["Key"] == key]
    found.sort(key=lambda each: (each["IsLatest"], each["LastModified"]), reverse=True)
    return [(each["VersionId"], "ETag" not in each) for each in found]


def current_keys(s3, bucket):
    return [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_objects_expire_after_their_days(s3, plain, lifecycle_day_seconds):
    for key in ("before", "keep/k", "much/later"):
        put(s3, plain, key)
    set_rules(
        s3, plain,
        rule_for("b", "b", Expiration={"Days": 1}), rule_for("after", "after", Expiration={"Days": 2}),
        rule_for("much/", "much", Expiration={"Days": 10_000}),
        rule_for("keep/", "off", Status="Disabled", Expiration={"Days": 1}),
    )
    put(s3, plain, "after")
    left = ["keep/k", "much/later"]
    eventually(lambda: current_keys(s3, plain) == left, 2, lifecycle_day_seconds)
    with refused("NoSuchKey", status=404) as caught:
        s3.get_object(Bucket=plain, Key="before")
    headers = caught.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert "x-amz-delete-marker" not in headers
    assert len(entries(s3, plain)) == 2


def test_nothing_expires_before_its_time(s3, plain, lifecycle_day_seconds):
    days = max(3, int(5 / lifecycle_day_seconds) + 1)
    set_rules(s3, plain, rule(Expiration={"Days": days}))
    put(s3, plain, "k")
    made = s3.head_object(Bucket=plain, Key="k")["LastModified"]
    eventually(lambda: current_keys(s3, plain) == [], days, lifecycle_day_seconds)
    gone = datetime.now(timezone.utc)
    assert gone - made >= timedelta(seconds=days * lifecycle_day_seconds) - timedelta(seconds=1)


def test_an_overwritten_object_gets_its_days_again(s3, plain, lifecycle_day_seconds):
    days = max(3, int(6 / lifecycle_day_seconds) + 1)
    set_rules(s3, plain, rule(Expiration={"Days": days}))
    put(s3, plain, "k", b"old")
    time.sleep(days * lifecycle_day_seconds / 2)
    put(s3, plain, "k", b"new")
    time.sleep(days * lifecycle_day_seconds * 0.6)
    assert s3.get_object(Bucket=plain, Key="k")["Body"].read() == b"new"
    eventually(lambda: current_keys(s3, plain) == [], days, lifecycle_day_seconds)


def test_filters_select_the_objects_that_expire(s3, plain, lifecycle_day_seconds):
    set_rules(
        s3, plain,
        rule("tag", Filter={"Tag": TAG}, **GONE_AT_ONCE),
        rule("large", Filter={"ObjectSizeGreaterThan": 10}, **GONE_AT_ONCE),
        rule(
            "both",
            Filter={"And": {"Prefix": "p/", "ObjectSizeGreaterThan": 1, "ObjectSizeLessThan": 3}},
            **GONE_AT_ONCE,
        ),
    )
    put(s3, plain, "tag", Tagging="kind=log&other=1")
    put(s3, plain, "large", b"x" * 11)
    put(s3, plain, "p/two", b"xx")
    stays = ["other", "p/one", "p/three", "ten", "wrong-tag"]
    put(s3, plain, "ten", b"x" * 10)
    put(s3, plain, "wrong-tag", Tagging="kind=other")
    put(s3, plain, "p/one", b"x")
    put(s3, plain, "p/three", b"xxx")
    put(s3, plain, "other", b"xx")
    eventually(lambda: current_keys(s3, plain) == stays, 1, lifecycle_day_seconds)


def test_a_past_date_expires_objects_at_once(s3, plain, lifecycle_day_seconds):
    put(s3, plain, "before")
    past = datetime(2020, 1, 1, tzinfo=timezone.utc)
    set_rules(s3, plain, rule(Expiration={"Date": past}))
    eventually(lambda: current_keys(s3, plain) == [], 0, lifecycle_day_seconds)
    put(s3, plain, "after")
    eventually(lambda: current_keys(s3, plain) == [], 0, lifecycle_day_seconds)


def test_removed_rules_are_no_longer_applied(s3, plain, lifecycle_day_seconds):
    set_rules(s3, plain, rule(Expiration={"Days": 1}))
    put(s3, plain, "goes")
    eventually(lambda: current_keys(s3, plain) == [], 1, lifecycle_day_seconds)
    s3.delete_bucket_lifecycle(Bucket=plain)
    put(s3, plain, "stays")
    time.sleep(4 * lifecycle_day_seconds)
    assert current_keys(s3, plain) == ["stays"]


def test_an_expired_current_version_is_hidden_by_a_marker(s3, versioned, lifecycle_day_seconds):
    # A rule with days would also remove the marker, once it is alone.
    set_rules(s3, versioned, rule(Expiration={"Days": 1}))
    older, version = put(s3, versioned, "k", b"1"), put(s3, versioned, "k", b"2")
    eventually(lambda: current_keys(s3, versioned) == [], 1, lifecycle_day_seconds)
    marker, *versions = kinds(s3, versioned, "k")
    assert marker[1] is True and marker[0] != "null"
    assert versions == [(version, False), (older, False)]
    with refused("NoSuchKey", status=404) as caught:
        s3.get_object(Bucket=versioned, Key="k")
    headers = caught.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert headers["x-amz-version-id"] == marker[0]
    assert s3.get_object(Bucket=versioned, Key="k", VersionId=version)["Body"].read() == b"2"
    time.sleep(3 * lifecycle_day_seconds)
    assert kinds(s3, versioned, "k") == [marker, *versions], "no marker upon a marker"


def test_while_suspended_an_expired_version_null_is_replaced_by_a_marker(
    s3, versioned, lifecycle_day_seconds
):
    version = put(s3, versioned, "k", b"kept")
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    put(s3, versioned, "k", b"lost")
    set_rules(s3, versioned, rule(Expiration={"Days": 1}))
    eventually(lambda: current_keys(s3, versioned) == [], 1, lifecycle_day_seconds)
    assert kinds(s3, versioned, "k") == [("null", True), (version, False)]


def test_noncurrent_versions_are_removed(s3, versioned, lifecycle_day_seconds):
    put(s3, versioned, "k", b"1")
    put(s3, versioned, "k", b"2")
    current = put(s3, versioned, "k", b"3")
    put(s3, versioned, "hidden")
    s3.delete_object(Bucket=versioned, Key="hidden")
    put(s3, versioned, "other", b"1")
    alone = put(s3, versioned, "alone")
    set_rules(s3, versioned, rule(NoncurrentVersionExpiration={"NoncurrentDays": 1}))

    def done():
        return kinds(s3, versioned, "k") == [(current, False)] and (
            [marker for _, marker in kinds(s3, versioned, "hidden")] == [True]
        )

    eventually(done, 1, lifecycle_day_seconds)
    assert kinds(s3, versioned, "alone") == [(alone, False)]
    assert current_keys(s3, versioned) == ["alone", "k", "other"]
    assert s3.get_object(Bucket=versioned, Key="k")["Body"].read() == b"3"


def test_some_noncurrent_versions_are_retained(s3, versioned, lifecycle_day_seconds):
    made = [put(s3, versioned, "k", str(number).encode()) for number in range(6)]
    few = [put(s3, versioned, "few", str(number).encode()) for number in range(3)]
    action = {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}
    set_rules(s3, versioned, rule(NoncurrentVersionExpiration=action))
    left = [(version, False) for version in (made[5], made[4], made[3])]
    eventually(lambda: kinds(s3, versioned, "k") == left, 1, lifecycle_day_seconds)
    time.sleep(3 * lifecycle_day_seconds)
    assert kinds(s3, versioned, "k") == left
    assert kinds(s3, versioned, "few") == [(version, False) for version in few[::-1]]


def test_locked_versions_are_not_removed(s3, lifecycle_day_seconds):
    bucket = fresh_bucket_name("lock")
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    locked = put(s3, bucket, "k", ObjectLockLegalHoldStatus="ON")
    put(s3, bucket, "k")
    current = put(s3, bucket, "k")
    set_rules(s3, bucket, rule(NoncurrentVersionExpiration={"NoncurrentDays": 1}))
    left = [(current, False), (locked, False)]
    eventually(lambda: kinds(s3, bucket, "k") == left, 1, lifecycle_day_seconds)
    time.sleep(3 * lifecycle_day_seconds)
    assert kinds(s3, bucket, "k") == left
    lifted = {"Status": "OFF"}
    s3.put_object_legal_hold(Bucket=bucket, Key="k", VersionId=locked, LegalHold=lifted)
    eventually(lambda: kinds(s3, bucket, "k") == left[:1], 1, lifecycle_day_seconds)
    s3.delete_object(Bucket=bucket, Key="k", VersionId=current)
    s3.delete_bucket(Bucket=bucket)


def leave_a_marker(s3, bucket, key):
    """Creates a key of which only a delete marker remains."""
    gone = put(s3, bucket, key)
    s3.delete_object(Bucket=bucket, Key=key)
    s3.delete_object(Bucket=bucket, Key=key, VersionId=gone)


def test_markers_that_hide_nothing_are_removed(s3, versioned, lifecycle_day_seconds):
    leave_a_marker(s3, versioned, "alone")
    put(s3, versioned, "hidden")
    s3.delete_object(Bucket=versioned, Key="hidden")
    before = kinds(s3, versioned, "hidden")
    set_rules(s3, versioned, rule(Expiration={"ExpiredObjectDeleteMarker": True}))
    eventually(lambda: kinds(s3, versioned, "alone") == [], 0, lifecycle_day_seconds)
    time.sleep(2 * lifecycle_day_seconds)
    assert kinds(s3, versioned, "hidden") == before


def test_a_rule_that_excludes_markers_keeps_them(s3, versioned, lifecycle_day_seconds):
    leave_a_marker(s3, versioned, "alone")
    before = kinds(s3, versioned, "alone")
    assert [marker for _, marker in before] == [True]
    set_rules(s3, versioned, rule(Expiration={"ExpiredObjectDeleteMarker": False}))
    time.sleep(4 * lifecycle_day_seconds)
    assert kinds(s3, versioned, "alone") == before


def test_all_versions_and_markers_of_a_key_are_removed_eventually(
    s3, versioned, lifecycle_day_seconds
):
    set_rules(
        s3, versioned,
        rule(Expiration={"Days": 1}, NoncurrentVersionExpiration={"NoncurrentDays": 1}),
    )
    put(s3, versioned, "k", b"1")
    put(s3, versioned, "k", b"2")
    # First a marker hides the object, then its versions are removed, and then the marker.
    eventually(lambda: entries(s3, versioned) == [], 3, lifecycle_day_seconds)


@NO_UPLOADS
def test_uploads_that_are_not_completed_are_aborted(s3, plain, lifecycle_day_seconds):
    action = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}
    goes = s3.create_multipart_upload(Bucket=plain, Key="a/goes")
    which = {"Bucket": plain, "Key": "a/goes", "UploadId": goes["UploadId"]}
    etag = s3.upload_part(**which, PartNumber=1, Body=b"x")["ETag"]
    s3.create_multipart_upload(Bucket=plain, Key="b/stays")
    put(s3, plain, "a/object")
    set_rules(s3, plain, rule_for("a/", **action))

    def uploads():
        found = s3.list_multipart_uploads(Bucket=plain).get("Uploads", [])
        return [each["Key"] for each in found]

    eventually(lambda: uploads() == ["b/stays"], 1, lifecycle_day_seconds)
    with refused("NoSuchUpload", status=404):
        s3.list_parts(**which)
    with refused("NoSuchUpload", status=404):
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        s3.complete_multipart_upload(**which, MultipartUpload=parts)
    assert current_keys(s3, plain) == ["a/object"]
