"""Buckets in the administration API, and the effect of each change on S3."""

import json

import pytest
from botocore import UNSIGNED
from botocore.config import Config

from api import add_user, fresh
from server import fresh_bucket_name, refused


@pytest.fixture
def anonymous(server, botocore_session):
    """An S3 client without credentials."""
    settings = {**server.aws_settings(), "config": Config(signature_version=UNSIGNED)}
    for name in ("aws_access_key_id", "aws_secret_access_key"):
        del settings[name]
    return botocore_session.create_client("s3", **settings)


def document(api, bucket, name, content, kept=None):
    """Writes a document of a bucket, reads it, and returns the path. `kept` are the fields that
    must stay; all without it."""
    path = f"/buckets/{bucket}/{name}"
    written = api("PUT", path, content, expect=200)
    read = api("GET", path, expect=200)
    assert read.json == written.json and read.etag == written.etag
    assert {field: read.json[field] for field in kept or content} == {
        field: content[field] for field in kept or content
    }
    stale = api("PUT", path, content, if_match='"00000000000000000000000000000000"', expect=412)
    assert stale.code == "Changed"
    api("PUT", path, content, if_match=read.etag, expect=200)
    return path


def test_a_bucket_is_made_and_deleted(api, control):
    name = fresh_bucket_name()
    made = api("PUT", f"/buckets/{name}", {}, expect=200).json
    assert made["name"] == name and made["versioning"] == "off" and not made["public"]
    assert control.list_objects_v2(Bucket=name)["KeyCount"] == 0
    control.put_object(Bucket=name, Key="k", Body=b"hello")
    again = api("PUT", f"/buckets/{name}", {}, expect=200).json
    assert again["created"] == made["created"], "a bucket that exists stays as it is"
    assert api("DELETE", f"/buckets/{name}", expect=409).code == "BucketNotEmpty"
    control.delete_object(Bucket=name, Key="k")
    api("DELETE", f"/buckets/{name}", expect=204)
    assert api("GET", f"/buckets/{name}", expect=404).code == "NoSuchBucket"
    with refused("NoSuchBucket"):
        control.list_objects_v2(Bucket=name)


def test_a_bucket_with_versions_and_lock_has_them_in_s3(api, control):
    kept, locked = fresh_bucket_name(), fresh_bucket_name()
    assert api("PUT", f"/buckets/{kept}", {"versioning": True}).json["versioning"] == "enabled"
    assert control.get_bucket_versioning(Bucket=kept)["Status"] == "Enabled"
    api("PATCH", f"/buckets/{kept}", {"versioning": "suspended"}, expect=200)
    assert control.get_bucket_versioning(Bucket=kept)["Status"] == "Suspended"
    api("PATCH", f"/buckets/{kept}", {"versioning": "off"}, expect=400)
    made = api("PUT", f"/buckets/{locked}", {"object_lock": True}, expect=200).json
    assert made["object_lock"] and made["versioning"] == "enabled"
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 3}}
    content = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    document(api, locked, "object-lock", content)
    found = control.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert found["Rule"] == rule


def test_pages_of_buckets_have_each_bucket_once(api):
    prefix = fresh("page")
    names = [f"{prefix}-{number}" for number in range(5)]
    for name in names:
        api("PUT", f"/buckets/{name}", {}, expect=200)
    seen, pages, page = [], 0, ""
    while page is not None:
        following = f"&page={page}" if page else ""
        answer = api("GET", f"/buckets?prefix={prefix}&limit=2{following}", expect=200).json
        seen += [item["name"] for item in answer["items"]]
        pages, page = pages + 1, answer["next"]
    assert seen == names and pages == 3


def test_a_user_sees_only_the_buckets_of_its_policies(api, bucket):
    hidden = fresh_bucket_name()
    api("PUT", f"/buckets/{hidden}", {}, expect=200)
    user = add_user(api, "s3:ListBucket", resource=f"arn:aws:s3:::{bucket}")
    names = [item["name"] for item in user("GET", "/buckets", expect=200).json["items"]]
    # Other suites of the cell leave public buckets.
    assert bucket in names and hidden not in names
    user("GET", f"/buckets/{bucket}", expect=200)
    assert user("GET", f"/buckets/{hidden}", expect=404).code == "NoSuchBucket"
    assert user("DELETE", f"/buckets/{hidden}", expect=403).code == "AccessDenied"
    assert user("PUT", f"/buckets/{fresh_bucket_name()}", {}, expect=403).code == "AccessDenied"


def test_an_action_on_one_bucket_does_not_reach_another(api, bucket):
    other = fresh_bucket_name()
    api("PUT", f"/buckets/{other}", {}, expect=200)
    statement = {
        "Effect": "Allow",
        "Action": "admin:SetBucketQuota",
        "Resource": f"arn:aws:s3:::{bucket}",
    }
    policy = fresh("policy")
    api("PUT", f"/policies/{policy}", {"document": {"Statement": [statement]}}, expect=200)
    user = add_user(api, policies=[policy])
    limits = {"bytes": 10, "objects": None}
    user("PUT", f"/buckets/{bucket}/quota", limits, expect=200)
    assert user("PUT", f"/buckets/{other}/quota", limits, expect=403).code == "AccessDenied"


def test_a_quota_limits_writes_and_changes_only_the_state_that_was_read(api, control, bucket):
    path = f"/buckets/{bucket}/quota"
    first = api("GET", path, expect=200)
    assert first.json == {"bytes": None, "objects": None}
    limits = {"bytes": 1000, "objects": 7}
    second = api("PUT", path, limits, if_match=first.etag, expect=200)
    assert second.json == limits and api("GET", path).etag == second.etag
    assert api("PUT", path, {"bytes": 5}, if_match=first.etag, expect=412).code == "Changed"
    assert api("DELETE", path, if_match=first.etag, expect=412).code == "Changed"
    assert api("GET", path).json == limits
    with refused("QuotaExceeded", "XMinioAdminBucketQuotaExceeded"):
        control.put_object(Bucket=bucket, Key="k", Body=b"x" * 1001)
    api("PUT", path, {"bytes": None, "objects": 7}, if_match=second.etag, expect=200)
    control.put_object(Bucket=bucket, Key="k", Body=b"x" * 1001)
    api("DELETE", path, expect=204)
    assert api("GET", path).json == first.json
    shown = api("GET", f"/buckets/{bucket}", expect=200).json
    assert (shown["objects"], shown["bytes"]) == (1, 1001)


def test_the_public_switch_opens_a_bucket_and_closes_it(api, control, anonymous, bucket):
    control.put_object(Bucket=bucket, Key="k", Body=b"hello")
    path = f"/buckets/{bucket}/public"
    closed = api("GET", path, expect=200)
    assert closed.json == {"access": "private"}
    with refused("AccessDenied"):
        anonymous.get_object(Bucket=bucket, Key="k")
    api("PUT", path, {"access": "download"}, if_match=closed.etag, expect=200)
    assert anonymous.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"
    assert anonymous.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    with refused("AccessDenied"):
        anonymous.put_object(Bucket=bucket, Key="new", Body=b"")
    assert api("GET", f"/buckets/{bucket}").json["public"]
    api("PUT", path, {"access": "public"}, if_match=closed.etag, expect=412)
    api("PUT", path, {"access": "upload"}, expect=200)
    anonymous.put_object(Bucket=bucket, Key="new", Body=b"")
    with refused("AccessDenied"):
        anonymous.get_object(Bucket=bucket, Key="k")
    api("PUT", path, {"access": "private"}, expect=200)
    with refused("AccessDenied"):
        anonymous.put_object(Bucket=bucket, Key="new", Body=b"")
    assert api("PUT", path, {"access": "custom"}, expect=400).code == "BadRequest"


def test_the_public_switch_keeps_other_statements(api, control, bucket):
    own = {
        # The switch recognises its own statements by more than their names.
        "Sid": "AshlarPublicNoDeletes",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:DeleteObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    content = {"Version": "2012-10-17", "Statement": [own]}
    path = document(api, bucket, "policy", content)
    api("PUT", f"/buckets/{bucket}/public", {"access": "download"}, expect=200)
    assert api("GET", f"/buckets/{bucket}/public").json == {"access": "download"}
    found = json.loads(control.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert own in found and len(found) == 3
    api("PUT", f"/buckets/{bucket}/public", {"access": "private"}, expect=200)
    found = json.loads(control.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert found == [own]
    api("DELETE", path, expect=204)
    with refused("NoSuchBucketPolicy"):
        control.get_bucket_policy(Bucket=bucket)


def test_documents_of_a_bucket_are_those_of_s3(api, control, bucket):
    rule = {"ID": "a", "Status": "Enabled", "Filter": {"Prefix": "x/"}, "Expiration": {"Days": 30}}
    lifecycle = document(api, bucket, "lifecycle", {"Rules": [rule]})
    (found,) = control.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert found == rule
    origin = {"AllowedMethods": ["GET"], "AllowedOrigins": ["https://a.example"]}
    cors = document(api, bucket, "cors", {"CORSRules": [origin]})
    assert control.get_bucket_cors(Bucket=bucket)["CORSRules"] == [origin]
    tag = {"Key": "team", "Value": "é + ü"}
    tags = document(api, bucket, "tags", {"TagSet": [tag]})
    assert control.get_bucket_tagging(Bucket=bucket)["TagSet"] == [tag]
    block = {
        "BlockPublicAcls": True,
        "IgnorePublicAcls": True,
        "BlockPublicPolicy": True,
        "RestrictPublicBuckets": True,
    }
    public = document(api, bucket, "public-access-block", block)
    opened = api("PUT", f"/buckets/{bucket}/public", {"access": "download"}, expect=403)
    assert opened.code == "AccessDenied", "the block refuses a public policy"
    shown = api("GET", f"/buckets/{bucket}").json
    assert shown["has_lifecycle"] and shown["has_cors"] and not shown["public"]
    for path in (lifecycle, cors, tags, public):
        api("DELETE", path, expect=204)
        assert api("GET", path).status == 404, path
    with refused("NoSuchLifecycleConfiguration"):
        control.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_a_malformed_document_changes_nothing(api, control, bucket):
    rule = {"ID": "a", "Status": "Enabled", "Filter": {"Prefix": "x"}, "Expiration": {"Dayz": 3}}
    answer = api("PUT", f"/buckets/{bucket}/lifecycle", {"Rules": [rule]})
    assert answer.status == 400, answer
    assert api("PUT", f"/buckets/{bucket}/policy", {"Statement": "x"}).status == 400
    with refused("NoSuchLifecycleConfiguration"):
        control.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_a_trash_gives_objects_back(api, control, bucket):
    path = f"/buckets/{bucket}/trash"
    assert api("GET", path, expect=200).json == {"days": None}
    api("PUT", path, {"days": 30}, expect=200)
    assert api("GET", f"/buckets/{bucket}").json["trash_days"] == 30
    for key in ("a/1", "a/2", "b/1"):
        control.put_object(Bucket=bucket, Key=key, Body=key.encode())
        control.delete_object(Bucket=bucket, Key=key)
    items = api("GET", f"{path}/items?limit=100", expect=200).json["items"]
    assert sorted(item["key"] for item in items) == ["a/1", "a/2", "b/1"]
    api("POST", f"{path}/restore", {"key": "a/1"}, expect=200)
    assert control.get_object(Bucket=bucket, Key="a/1")["Body"].read() == b"a/1"
    done = api("POST", f"{path}/restore", {"prefix": "a/"}, expect=200).json
    assert done["restored"] == 1
    assert control.list_objects_v2(Bucket=bucket)["KeyCount"] == 2
    done = api("POST", f"{path}/empty", {"prefix": "b/"}, expect=200).json
    assert done["removed"] == 1
    assert api("GET", f"{path}/items", expect=200).json["items"] == []
    with refused("NoSuchKey"):
        control.get_object(Bucket=bucket, Key="b/1")
