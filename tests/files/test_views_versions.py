"""Buckets with versions and object lock, in both views.

A noncurrent version never changes, and programs can still use their open files.
"""

import datetime
import errno
import os
import shutil

import pytest

from mounted import fresh_name

SIZES = [20, 200_000]


@pytest.fixture
def versioned(mount, control):
    """A versioned bucket and its folder. It is not removed, since each version would have to be
    removed."""
    name = fresh_name("versioned")
    control.create_bucket(Bucket=name)
    control.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name, mount.root / name


@pytest.fixture
def locking(mount, control):
    """A bucket with object lock, and its folder."""
    name = fresh_name("locking")
    control.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name, mount.root / name


def put(control, bucket, key, body, **about):
    return control.put_object(Bucket=bucket, Key=key, Body=body, **about)["VersionId"]


def version(control, bucket, key, version_id):
    found = control.get_object(Bucket=bucket, Key=key, VersionId=version_id)
    return found["Body"].read(), found["Metadata"], found["ContentType"]


def supersede(control, bucket, folder, key, how):
    if how == "unlink":
        (folder / key).unlink()
    elif how == "rename over":
        (folder / "other").write_text("new")
        (folder / "other").rename(folder / key)
    elif how == "put":
        put(control, bucket, key, b"new")
    else:
        control.delete_object(Bucket=bucket, Key=key)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", ["unlink", "rename over", "put", "delete"])
def test_an_open_file_does_not_change_a_noncurrent_version(control, versioned, how, size):
    bucket, folder = versioned
    body = b"A" * size
    version_id = put(control, bucket, "k", body, Metadata={"a": "1"})
    before = version(control, bucket, "k", version_id)
    with open(folder / "k", "r+b", buffering=0) as file:
        supersede(control, bucket, folder, "k", how)
        assert os.pwrite(file.fileno(), b"XXXX", 3) == 4
        os.fsync(file.fileno())
        os.ftruncate(file.fileno(), 12)
        os.fsync(file.fileno())
        assert os.pread(file.fileno(), 100, 0) == b"AAAXXXXAAAAA"
    assert version(control, bucket, "k", version_id) == before
    assert before[0] == body


@pytest.mark.parametrize("size", SIZES)
def test_a_hard_link_does_not_change_a_noncurrent_version_of_the_other_name(
        control, versioned, size):
    bucket, folder = versioned
    body = b"A" * size
    version_id = put(control, bucket, "k", body)
    os.link(folder / "k", folder / "link")
    put(control, bucket, "k", b"new")
    with open(folder / "link", "r+b") as file:
        file.write(b"XXXX")
    assert version(control, bucket, "k", version_id)[0] == body
    assert (folder / "link").read_bytes()[:6] == b"XXXXAA"


def test_headers_and_metadata_of_a_noncurrent_version_are_refused_and_tags_are_not(
        control, versioned):
    bucket, folder = versioned
    version_id = put(control, bucket, "k", b"m" * 9_000, Metadata={"a": "1"})
    before = version(control, bucket, "k", version_id)
    with open(folder / "k", "rb") as file:
        put(control, bucket, "k", b"new")
        for name in ["user.ashlar.meta.a", "user.ashlar.content-type"]:
            with pytest.raises(OSError) as caught:
                os.setxattr(file.fileno(), name, b"text/other")
            assert caught.value.errno == errno.EPERM, name
        os.setxattr(file.fileno(), "user.ashlar.tag.t", b"2")
    assert version(control, bucket, "k", version_id) == before
    tags = control.get_object_tagging(Bucket=bucket, Key="k", VersionId=version_id)["TagSet"]
    assert tags == [{"Key": "t", "Value": "2"}]


def test_keys_can_be_changed_after_an_exchange_of_directories(control, versioned):
    bucket, folder = versioned
    for name, text in [("site", "old"), ("site.new", "new")]:
        (folder / name).mkdir()
        (folder / name / "index.html").write_text(text)
    shutil.rmtree(folder / "site")
    (folder / "site.new").rename(folder / "site")
    key = "site/index.html"
    assert control.get_object(Bucket=bucket, Key=key)["Body"].read() == b"new"
    put(control, bucket, key, b"newer")
    (folder / "site" / "tmp").write_text("newest")
    (folder / "site" / "tmp").rename(folder / key)
    assert control.get_object(Bucket=bucket, Key=key)["Body"].read() == b"newest"
    control.delete_object(Bucket=bucket, Key=key)
    put(control, bucket, key, b"again")
    (folder / key).unlink()
    listed = control.list_object_versions(Bucket=bucket, Prefix=key)
    latest = [it for it in listed["Versions"] + listed["DeleteMarkers"] if it["IsLatest"]]
    assert len(latest) == 1 and latest[0] in listed["DeleteMarkers"]
    bodies = {version(control, bucket, key, it["VersionId"])[0] for it in listed["Versions"]}
    assert bodies == {b"old", b"new", b"newer", b"newest", b"again"}


def test_metadata_of_a_locked_version_does_not_change_through_the_mount(control, locking):
    bucket, folder = locking
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    version_id = put(control, bucket, "k", b"locked", ContentType="text/plain",
                     ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    before = version(control, bucket, "k", version_id)
    for name in ["user.ashlar.meta.q", "user.ashlar.content-type"]:
        with pytest.raises(OSError) as caught:
            os.setxattr(folder / "k", name, b"other")
        assert caught.value.errno == errno.EPERM, name
    assert version(control, bucket, "k", version_id) == before


def test_the_default_retention_covers_writes_renames_and_links_of_programs(control, locking):
    bucket, folder = locking
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    control.put_object_lock_configuration(
        Bucket=bucket,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule})

    def mode(key):
        return control.head_object(Bucket=bucket, Key=key).get("ObjectLockMode")

    with open(folder / "written", "wb", buffering=0) as file:
        for _ in range(3):
            file.write(b"x" * 100_000)
            os.fsync(file.fileno())
            assert mode("written") == "GOVERNANCE"
    assert (folder / "written").stat().st_size == 300_000
    with pytest.raises(PermissionError), open(folder / "written", "r+b") as file:
        file.write(b"y")
    version_id = control.head_object(Bucket=bucket, Key="written")["VersionId"]
    (folder / "written").rename(folder / "renamed")
    os.link(folder / "renamed", folder / "linked")
    assert (mode("renamed"), mode("linked")) == ("GOVERNANCE", "GOVERNANCE")
    assert version(control, bucket, "written", version_id)[0] == b"x" * 300_000
