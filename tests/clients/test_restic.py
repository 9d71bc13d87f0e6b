"""restic: a backup program that relies on its storage."""

import json
import time
from datetime import datetime, timezone

import pytest

from server import Command, fresh_bucket_name, random_file, read_tree, write_tree

MIB = 1 << 20


@pytest.fixture
def restic_in(server, tmp_path):
    """Returns a function that makes a restic for a repository at any place."""

    def make(repository):
        environment = {
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "RESTIC_PASSWORD": "a repository's password",
            "RESTIC_REPOSITORY": str(repository),
            "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
        }
        return Command("restic", ["--cacert", server.ca] if server.ca else [], environment)

    return make


@pytest.fixture
def restic(restic_in, server, bucket):
    return restic_in(f"s3:{server.endpoint}/{bucket}/repository")


@pytest.fixture
def locked(control):
    """A new bucket that locks each object for one day. A bypass removes it earlier."""
    name = fresh_bucket_name("restic-lock")
    control.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    retention = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": retention}
    control.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=configuration)
    yield name
    everything = [version_of(each) for each in history(control, name)]
    remove(control, name, everything, BypassGovernanceRetention=True)
    control.delete_bucket(Bucket=name)


def history(control, bucket):
    """Returns all versions and delete markers. Only versions have a size."""
    pages = control.get_paginator("list_object_versions").paginate(Bucket=bucket)
    return [it for page in pages for it in page.get("Versions", []) + page.get("DeleteMarkers", [])]


def version_of(entry):
    return {"Key": entry["Key"], "VersionId": entry["VersionId"]}


def remove(control, bucket, these, **arguments):
    """Removes objects or versions. Returns the error codes of those that stay."""
    answer = control.delete_objects(Bucket=bucket, Delete={"Objects": these}, **arguments)
    return [each["Code"] for each in answer.get("Errors", [])]


def moment():
    """Returns a time strictly between the previous writes and the next ones."""
    time.sleep(1.1)
    now = datetime.now(timezone.utc)
    time.sleep(1.1)
    return now


def copy_as_of(control, bucket, when, folder):
    """Writes to a folder the content of a bucket at a given time."""
    before = [each for each in history(control, bucket) if each["LastModified"] < when]
    found = {it["Key"]: it for it in sorted(before, key=lambda each: each["LastModified"])}
    held = [version_of(each) for each in found.values() if "Size" in each]
    read = {it["Key"]: control.get_object(Bucket=bucket, **it)["Body"].read() for it in held}
    write_tree(folder, read)


def test_backup_check_restore_and_prune(restic, control, bucket, tmp_path):
    source = tmp_path / "source"
    write_tree(source, {f"docs/{number:03}.txt": b"page" * number for number in range(60)})
    random_file(source / "photo.raw", 24 * MIB)
    restic.run("init")
    assert restic.attempt("init").returncode != 0, "a repository is made once"
    restic.run("backup", source)
    first = read_tree(source)
    (source / "docs/001.txt").write_bytes(b"changed")
    (source / "photo.raw").unlink()
    restic.run("backup", source)
    snapshots = json.loads(restic.run("snapshots", "--json"))
    assert len(snapshots) == 2
    restic.run("check", "--read-data")
    restic.run("restore", snapshots[0]["short_id"], "--target", tmp_path / "restored")
    assert read_tree(tmp_path / "restored" / source.relative_to("/")) == first
    restic.run("forget", "--keep-last", "1", "--prune")
    restic.run("check", "--read-data")
    restic.run("restore", "latest", "--target", tmp_path / "latest")
    assert read_tree(tmp_path / "latest" / source.relative_to("/")) == read_tree(source)
    left = control.list_objects_v2(Bucket=bucket, Prefix="repository/data/")["Contents"]
    assert sum(each["Size"] for each in left) < 24 * MIB, "pruned packs are gone"
    assert "Contents" not in control.list_objects_v2(Bucket=bucket, Prefix="repository/locks/")


def test_a_locked_bucket_survives_a_prune_and_an_attack(
    restic_in, server, control, locked, tmp_path
):
    restic = restic_in(f"s3:{server.endpoint}/{locked}/repository")
    source = tmp_path / "source"
    write_tree(source, {f"docs/{number:02}.txt": b"page" * number for number in range(20)})
    random_file(source / "photo.raw", 3 * MIB)
    first = read_tree(source)
    restic.run("init")
    restic.run("backup", source)
    before_prune = moment()
    (source / "photo.raw").unlink()
    restic.run("backup", source)
    restic.run("forget", "--keep-last", "1", "--prune")
    restic.run("check", "--read-data")

    before_attack = moment()
    visible = control.list_objects_v2(Bucket=locked)["Contents"]
    pruned = {each["Key"] for each in history(control, locked)} - {it["Key"] for it in visible}
    assert any(key.startswith("repository/data/") for key in pruned)
    kept = [version_of(each) for each in history(control, locked) if "Size" in each]
    [denied] = set(remove(control, locked, kept))
    assert denied in server.codes("AccessDenied", "InvalidRequest")
    assert remove(control, locked, [{"Key": each["Key"]} for each in visible]) == []
    assert restic.attempt("snapshots").returncode != 0

    markers = [each for each in history(control, locked) if "Size" not in each]
    attack = [version_of(each) for each in markers if each["LastModified"] > before_attack]
    assert {each["Key"] for each in attack} == {each["Key"] for each in visible}
    assert remove(control, locked, attack) == []
    restic.run("check", "--read-data")
    restic.run("restore", "latest", "--target", tmp_path / "latest")
    assert read_tree(tmp_path / "latest" / source.relative_to("/")) == read_tree(source)

    copy_as_of(control, locked, before_prune, tmp_path / "copy")
    old = restic_in(tmp_path / "copy/repository")
    old.run("check", "--read-data")
    old.run("restore", "latest", "--target", tmp_path / "old")
    assert read_tree(tmp_path / "old" / source.relative_to("/")) == first
