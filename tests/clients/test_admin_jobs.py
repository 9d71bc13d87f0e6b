"""Jobs of the administration API: forks, checks, dumps, and buckets that are deleted with content."""

import io
import os
import time

import pytest

from api import add_policy, add_user, allow, fresh
from server import fresh_bucket_name

# The time in seconds in which a job must end.
JOB_SECONDS = 60


def ended(api, number):
    """Waits for the end of a job, and returns it."""
    limit = time.monotonic() + JOB_SECONDS
    while True:
        job = api("GET", f"/jobs/{number}", expect=200).json
        if job["state"] not in ("running", "stopping"):
            return job
        assert time.monotonic() < limit, job
        time.sleep(0.2)


def run(api, **body):
    """Starts a job, and returns it at its end."""
    # Jobs of some kinds run one at a time, and other tests start them, too.
    limit = time.monotonic() + JOB_SECONDS
    while True:
        answer = api("POST", "/jobs", body)
        if answer.code not in ("JobRuns", "TooManyJobs") or time.monotonic() > limit:
            break
        time.sleep(0.2)
    assert answer.status == 200, answer
    return ended(api, answer.json["number"])


def counts(job):
    return {count["name"]: count["count"] for count in job["progress"]}


def test_a_bucket_is_forked(api, control, bucket):
    for number in range(20):
        control.put_object(Bucket=bucket, Key=f"dir/{number}", Body=b"x" * 1000)
    target = fresh_bucket_name()
    job = run(api, kind="fork", source=bucket, target=target)
    assert (job["state"], job["user"]) == ("done", api.access_key), job
    assert counts(job)["files"] == 20
    listed = control.list_objects_v2(Bucket=target)["Contents"]
    assert [item["Key"] for item in listed] == sorted(f"dir/{number}" for number in range(20))
    # A change of the fork does not reach the source.
    control.put_object(Bucket=target, Key="dir/0", Body=b"new")
    assert control.get_object(Bucket=bucket, Key="dir/0")["Body"].read() == b"x" * 1000
    answer = api("POST", "/jobs", {"kind": "fork", "source": bucket, "target": target})
    assert (answer.status, answer.code) == (409, "Exists")
    api("POST", "/jobs", {"kind": "delete-bucket", "bucket": target, "confirm": target}, expect=200)


def test_a_check_a_collection_and_a_warmup_end_with_a_result(api, control, bucket):
    control.put_object(Bucket=bucket, Key="a", Body=os.urandom(300_000))
    job = run(api, kind="fsck")
    assert job["state"] == "done" and " findings in " in job["message"], job
    assert sum(counts(job).values()) > 0, job
    job = run(api, kind="gc")
    assert job["state"] == "done" and "0 deleted" in job["message"], job
    job = run(api, kind="warmup", bucket=bucket)
    assert job["state"] == "done", job
    assert counts(job) == {"bytes": 300_000, "objects": 1}
    numbers = [item["number"] for item in api("GET", "/jobs?limit=3", expect=200).json["items"]]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) == 3


def test_a_dump_is_written_and_can_be_verified(api, server):
    job = run(api, kind="dump")
    assert job["state"] == "done", job
    path = job["message"].split(" in the file ")[1].split(" on this gateway")[0]
    assert path.startswith(server.data)
    assert os.stat(path).st_mode & 0o077 == 0
    said = server.operate("load", "--check", path)
    assert "complete" in said, said
    os.remove(path)


def test_a_bucket_with_content_is_deleted(api, control):
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name)
    control.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    keys = ["a", "a/b", "quote'\"&<>", "tab\there", "ünï 🎉", "space +%2F"]
    for key in keys:
        for body in (b"1", b"2"):
            control.put_object(Bucket=name, Key=key, Body=body)
    control.delete_object(Bucket=name, Key="a")
    control.create_multipart_upload(Bucket=name, Key="unfinished")
    answer = api("DELETE", f"/buckets/{name}")
    assert answer.code == "BucketNotEmpty"
    answer = api("POST", "/jobs", {"kind": "delete-bucket", "bucket": name, "confirm": "other"})
    assert answer.code == "BadRequest"
    job = run(api, kind="delete-bucket", bucket=name, confirm=name)
    assert job["state"] == "done", job
    assert counts(job)["versions"] == 2 * len(keys) + 1
    assert api("GET", f"/buckets/{name}").status == 404


def test_a_trash_is_deleted_with_its_bucket(api, control):
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name)
    api("PUT", f"/buckets/{name}/trash", {"days": 365}, expect=200)
    for number in range(5):
        control.put_object(Bucket=name, Key=str(number), Body=b"x")
    control.delete_object(Bucket=name, Key="0")
    job = run(api, kind="delete-bucket", bucket=name, confirm=name)
    assert job["state"] == "done", job
    assert counts(job)["items of the trash"] == 5


def test_a_locked_version_keeps_its_bucket(api, control):
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    control.put_object(
        Bucket=name,
        Key="kept",
        Body=b"x",
        ObjectLockLegalHoldStatus="ON",
    )
    control.put_object(Bucket=name, Key="other", Body=b"x")
    job = run(api, kind="delete-bucket", bucket=name, confirm=name)
    assert job["state"] == "failed" and "kept (AccessDenied)" in job["message"], job
    found = control.list_object_versions(Bucket=name)["Versions"]
    assert [version["Key"] for version in found] == ["kept"]
    hold = {"Status": "OFF"}
    control.put_object_legal_hold(Bucket=name, Key="kept", LegalHold=hold)
    assert run(api, kind="delete-bucket", bucket=name, confirm=name)["state"] == "done"


def test_jobs_need_their_permissions(api, control, bucket):
    control.put_object(Bucket=bucket, Key="a", Body=b"x")
    target = fresh_bucket_name()
    bodies = [
        {"kind": "fsck"},
        {"kind": "gc"},
        {"kind": "dump"},
        {"kind": "warmup", "bucket": bucket},
        {"kind": "fork", "source": bucket, "target": target},
        {"kind": "delete-bucket", "bucket": bucket, "confirm": bucket},
    ]
    plain = add_user(api)
    reader = add_user(api, "admin:ListJobs", "admin:CancelJob")
    # May start jobs, and may neither read nor delete the bucket.
    starter = add_user(api, "admin:StartJob", "admin:ForkBucket")
    for body in bodies:
        for sender in (plain, reader):
            answer = sender("POST", "/jobs", body)
            assert (answer.status, answer.code) == (403, "AccessDenied"), (body, answer)
    for body in bodies[3:]:
        answer = starter("POST", "/jobs", body)
        assert answer.status in (403, 404), (body, answer)
    owner = add_user(api, "s3:*", resource=f"arn:aws:s3:::{bucket}*")
    for body in bodies[:5]:
        assert owner("POST", "/jobs", body).code == "AccessDenied", body
    job = run(owner, **bodies[5])
    assert job["state"] == "done", job
    # The job of another user is visible with the permission alone.
    assert reader("GET", f"/jobs/{job['number']}", expect=200).json["user"] == owner.access_key
    for sender in (plain, starter):
        assert sender("GET", f"/jobs/{job['number']}").code == "AccessDenied"
        assert sender("DELETE", f"/jobs/{job['number']}").code == "AccessDenied"
    assert plain("GET", "/jobs").code == "AccessDenied"
    assert reader("POST", f"/jobs/{job['number']}/stop").code == "InvalidState"
    owner("DELETE", f"/jobs/{job['number']}", expect=204)
    assert api("GET", f"/jobs/{job['number']}").code == "NoSuchJob"


def test_a_fork_needs_the_permission_to_read_all_objects(api, control, bucket):
    control.put_object(Bucket=bucket, Key="secret/plan.txt", Body=b"top")
    target = fresh_bucket_name()
    others = [
        add_policy(api, allow("admin:StartJob", "admin:ForkBucket")),
        add_policy(api, allow("s3:ListBucket", resource=f"arn:aws:s3:::{bucket}")),
        add_policy(api, allow("s3:*", resource=f"arn:aws:s3:::{target}*")),
    ]
    body = {"kind": "fork", "source": bucket, "target": target}
    outside = allow("s3:GetObject")
    outside["Statement"][0].pop("Resource")
    outside["Statement"][0]["NotResource"] = f"arn:aws:s3:::{bucket}/secret/*"
    for read in (
        allow("s3:GetObject", resource=f"arn:aws:s3:::{bucket}/?"),
        allow("s3:GetObject", resource=f"arn:aws:s3:::{bucket}/*/x"),
        outside,
    ):
        user = add_user(api, policies=[*others, add_policy(api, read)])
        answer = user("POST", "/jobs", body)
        assert (answer.status, answer.code) == (403, "AccessDenied"), read
    read = allow("s3:GetObject", resource=f"arn:aws:s3:::{bucket}/*")
    user = add_user(api, policies=[*others, add_policy(api, read)])
    job = run(user, **body)
    assert job["state"] == "done", job


def test_a_deletion_stops_at_objects_that_the_user_may_not_delete(api, control, bucket):
    for key in ("mine/1", "theirs/1"):
        control.put_object(Bucket=bucket, Key=key, Body=b"x")
    document = allow("s3:*", resource=[f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"])
    denied = allow("s3:DeleteObject*", resource=f"arn:aws:s3:::{bucket}/theirs/*", effect="Deny")
    policies = [add_policy(api, document), add_policy(api, denied)]
    user = add_user(api, policies=policies)
    job = run(user, kind="delete-bucket", bucket=bucket, confirm=bucket)
    assert job["state"] == "failed" and "theirs/1 (AccessDenied)" in job["message"], job
    assert [it["Key"] for it in control.list_objects_v2(Bucket=bucket)["Contents"]] == ["theirs/1"]


def test_malformed_jobs_are_refused(api, bucket):
    for body in (
        {"kind": "format"},
        {},
        {"kind": "fork", "source": bucket},
        {"kind": "fsck", "fix": True},
        {"kind": "gc", "delete_percent_max": 101},
        {"kind": "fork", "source": bucket, "target": "Not A Bucket"},
    ):
        answer = api("POST", "/jobs", body)
        assert answer.status == 400, (body, answer)
    answer = api("POST", "/jobs", {"kind": "fork", "source": fresh("none"), "target": fresh("x")})
    assert (answer.status, answer.code) == (404, "NoSuchBucket")
    for number in ("0", "none", "99999999999999999999"):
        assert api("GET", f"/jobs/{number}").code == "NoSuchJob"
        assert api("POST", f"/jobs/{number}/stop").code == "NoSuchJob"
