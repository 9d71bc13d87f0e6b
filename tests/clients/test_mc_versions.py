"""MinIO's client: versions, retention, legal holds, lifecycle rules, and undo."""

import json
import os
import shutil
import time
from datetime import datetime, timedelta, timezone

import pytest

from server import Command, fresh_bucket_name


@pytest.fixture
def mc(server, tmp_path):
    configuration = tmp_path / "mc"
    if server.ca:
        authorities = configuration / "certs" / "CAs"
        authorities.mkdir(parents=True)
        shutil.copy(server.ca, authorities / "ashlar.crt")
    program = os.environ.get("ASHLAR_TEST_MC", "mc")
    command = Command(program, ["--config-dir", str(configuration), "--no-color"])
    command.run("alias", "set", "s", server.endpoint, server.access_key, server.secret_key)
    return command


@pytest.fixture
def versioned(mc, bucket):
    """A new versioned bucket. mc removes it with all versions."""
    mc.run("version", "enable", f"s/{bucket}")
    yield bucket
    mc.run("rb", "--force", f"s/{bucket}")


@pytest.fixture
def lockable(mc, control):
    """A new bucket with object lock. Its locks are removed before the bucket."""
    name = fresh_bucket_name("mc-lock")
    mc.run("mb", "--with-lock", f"s/{name}")
    yield name
    mc.attempt("legalhold", "clear", "--recursive", "--versions", f"s/{name}")
    mc.run("rm", "--recursive", "--versions", "--force", "--bypass", f"s/{name}")
    control.delete_bucket(Bucket=name)


def lines(output):
    """Returns the objects of mc's JSON output, one a line."""
    return [json.loads(line) for line in output.splitlines() if line]


def write(mc, target, content):
    mc.run("pipe", target, stdin=content)


def object_of(mc, *arguments):
    """Returns the only object of a command's output."""
    [answer] = lines(mc.run("--json", *arguments))
    assert answer["status"] == "success"
    return answer


def versions(mc, target):
    """Returns the versions and markers of an object, newest first: id, and True for a marker."""
    found = lines(mc.run("--json", "ls", "--versions", target))
    return [(each["versionId"], each.get("isDeleteMarker", False)) for each in found]


def until_of(shown):
    """Returns the end of a retention."""
    return datetime.fromisoformat(shown["until"].replace("Z", "+00:00"))


def names(mc, target, *options):
    return [each["key"] for each in lines(mc.run("--json", "ls", *options, target))]


# --- versions --------------------------------------------------------------------------------


def test_versioning_is_enabled_and_suspended(mc, bucket):
    assert object_of(mc, "version", "info", f"s/{bucket}")["versioning"]["status"] == ""
    mc.run("version", "enable", f"s/{bucket}")
    assert object_of(mc, "version", "info", f"s/{bucket}")["versioning"]["status"] == "Enabled"
    mc.run("version", "suspend", f"s/{bucket}")
    assert object_of(mc, "version", "info", f"s/{bucket}")["versioning"]["status"] == "Suspended"


def test_versions_are_listed_read_and_copied(mc, versioned, tmp_path):
    target = f"s/{versioned}/dir/k"
    for content in ("first", "second", "third"):
        write(mc, target, content)
    made = versions(mc, target)
    assert [marker for _, marker in made] == [False] * 3
    third, second, first = (version for version, _ in made)
    assert mc.run("cat", target) == "third"
    assert mc.run("cat", "--version-id", first, target) == "first"
    assert object_of(mc, "stat", "--version-id", second, target)["versionID"] == second
    mc.run("cp", "--version-id", second, target, tmp_path / "down")
    assert (tmp_path / "down").read_text() == "second"
    mc.run("cp", "--version-id", first, target, f"s/{versioned}/copy")
    assert mc.run("cat", f"s/{versioned}/copy") == "first"
    stats = lines(mc.run("--json", "stat", "--versions", target))
    assert [each["versionID"] for each in stats] == [third, second, first]
    assert names(mc, f"s/{versioned}", "--recursive") == ["copy", "dir/k"]


def test_removing_hides_and_removing_versions_removes(mc, versioned):
    target = f"s/{versioned}/k"
    write(mc, target, "first")
    write(mc, target, "second")
    mc.run("rm", target)
    assert mc.attempt("stat", target).returncode != 0
    assert names(mc, f"s/{versioned}") == []
    (marker, is_marker), (second, _), (first, _) = versions(mc, target)
    assert is_marker
    mc.run("rm", "--version-id", marker, target)
    assert mc.run("cat", target) == "second"
    mc.run("rm", "--version-id", second, target)
    assert (mc.run("cat", target), versions(mc, target)) == ("first", [(first, False)])
    write(mc, target, "third")
    mc.run("rm", "--versions", "--force", target)
    assert names(mc, f"s/{versioned}", "--versions") == []


def test_old_versions_alone_are_removed(mc, versioned):
    for key in ("a", "dir/b"):
        for content in ("old", "older", "current"):
            write(mc, f"s/{versioned}/{key}", content)
    mc.run("rm", "--recursive", "--force", "--versions", "--non-current", f"s/{versioned}")
    for key in ("a", "dir/b"):
        assert len(versions(mc, f"s/{versioned}/{key}")) == 1
        assert mc.run("cat", f"s/{versioned}/{key}") == "current"


def test_a_bucket_with_versions_is_removed_by_force(mc, control, bucket):
    mc.run("version", "enable", f"s/{bucket}")
    for content in ("first", "second"):
        write(mc, f"s/{bucket}/k", content)
    mc.run("rm", f"s/{bucket}/k")
    assert mc.attempt("rb", f"s/{bucket}").returncode != 0
    mc.run("rb", "--force", f"s/{bucket}")
    assert bucket not in [each["Name"] for each in control.list_buckets()["Buckets"]]


def test_a_mirror_writes_versions(mc, versioned, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for content in ("first", "second"):
        (tree / "k").write_text(content * len(content))
        mc.run("mirror", "--overwrite", tree, f"s/{versioned}/tree")
    (tree / "k").unlink()
    mc.run("mirror", "--overwrite", "--remove", tree, f"s/{versioned}/tree")
    assert [marker for _, marker in versions(mc, f"s/{versioned}/tree/k")] == [True, False, False]


def test_a_bucket_is_read_as_of_an_earlier_time(mc, versioned, control):
    target = f"s/{versioned}/k"
    write(mc, target, "first")
    moment = control.head_object(Bucket=versioned, Key="k")["LastModified"]
    # The times of mc have a resolution of one second.
    time.sleep(2)
    write(mc, target, "second")
    write(mc, f"s/{versioned}/new", "new")
    mc.run("rm", target)
    back = (moment + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert mc.run("cat", "--rewind", back, target) == "first"
    assert names(mc, f"s/{versioned}", "--rewind", back) == ["k"]
    assert names(mc, f"s/{versioned}") == ["new"]


def test_tags_of_versions(mc, versioned):
    target = f"s/{versioned}/k"
    write(mc, target, "first")
    write(mc, target, "second")
    (_, _), (first, _) = versions(mc, target)
    mc.run("tag", "set", "--version-id", first, target, "age=first")
    assert object_of(mc, "tag", "list", "--version-id", first, target)["tagset"] == {"age": "first"}
    mc.run("tag", "set", target, "age=second")
    assert object_of(mc, "tag", "list", "--version-id", first, target)["tagset"] == {"age": "first"}
    mc.run("tag", "remove", "--version-id", first, target)
    assert object_of(mc, "tag", "list", target)["tagset"] == {"age": "second"}


# --- undoing ---------------------------------------------------------------------------------


def test_undo_reverts_the_last_change(mc, versioned):
    target = f"s/{versioned}/k"
    write(mc, target, "first")
    write(mc, target, "second")
    mc.run("rm", target)
    mc.run("undo", target)
    assert mc.run("cat", target) == "second"
    mc.run("undo", target)
    assert mc.run("cat", target) == "first"
    write(mc, target, "again")
    mc.run("rm", target)
    mc.run("undo", "--last", "2", target)
    assert mc.run("cat", target) == "first"
    assert len(versions(mc, target)) == 1


def test_undo_below_a_prefix(mc, versioned):
    for key in ("dir/a", "dir/b", "other"):
        write(mc, f"s/{versioned}/{key}", key)
    mc.run("rm", "--recursive", "--force", f"s/{versioned}")
    mc.run("undo", "--recursive", "--force", "--dry-run", f"s/{versioned}/dir/")
    assert names(mc, f"s/{versioned}", "--recursive") == []
    mc.run("undo", "--recursive", "--force", "--action", "DELETE", f"s/{versioned}/dir/")
    assert names(mc, f"s/{versioned}", "--recursive") == ["dir/a", "dir/b"]
    assert mc.run("cat", f"s/{versioned}/dir/b") == "dir/b"


# --- locks -----------------------------------------------------------------------------------


def test_retention_by_default(mc, lockable):
    assert object_of(mc, "version", "info", f"s/{lockable}")["versioning"]["status"] == "Enabled"
    mc.run("retention", "set", "--default", "governance", "3d", f"s/{lockable}")
    shown = object_of(mc, "retention", "info", "--default", f"s/{lockable}")
    assert (shown["mode"], shown["validity"]) == ("GOVERNANCE", "3DAYS")
    target = f"s/{lockable}/k"
    write(mc, target, "kept")
    kept = object_of(mc, "retention", "info", target)
    assert kept["mode"] == "GOVERNANCE"
    left = until_of(kept) - datetime.now(timezone.utc)
    assert abs(left - timedelta(days=3)) < timedelta(minutes=2)
    mc.run("retention", "clear", "--default", f"s/{lockable}")
    write(mc, f"s/{lockable}/free", "free")
    mc.run("rm", "--versions", "--force", f"s/{lockable}/free")


def test_retention_of_an_object(mc, lockable):
    target = f"s/{lockable}/k"
    write(mc, target, "kept")
    mc.run("retention", "set", "governance", "30d", target)
    [(version, _)] = versions(mc, target)
    shown = object_of(mc, "retention", "info", "--version-id", version, target)
    assert (shown["mode"], shown["versionID"]) == ("GOVERNANCE", version)
    assert mc.attempt("rm", "--version-id", version, target).returncode != 0
    mc.run("rm", target)
    assert [marker for _, marker in versions(mc, target)] == [True, False]
    mc.run("undo", target)
    assert mc.run("cat", target) == "kept"
    assert mc.attempt("retention", "set", "governance", "1d", target).returncode != 0
    mc.run("retention", "set", "--bypass", "governance", "1d", target)
    mc.run("retention", "clear", target)
    mc.run("rm", "--version-id", version, target)
    assert names(mc, f"s/{lockable}", "--versions") == []


def test_a_locked_object_is_removed_by_a_bypass(mc, lockable):
    target = f"s/{lockable}/k"
    write(mc, target, "kept")
    mc.run("retention", "set", "governance", "30d", target)
    [(version, _)] = versions(mc, target)
    assert mc.attempt("rm", "--version-id", version, target).returncode != 0
    mc.run("rm", "--bypass", "--version-id", version, target)
    assert names(mc, f"s/{lockable}", "--versions") == []


def test_legal_holds(mc, lockable):
    target = f"s/{lockable}/k"
    write(mc, target, "held")
    assert object_of(mc, "legalhold", "info", target)["legalhold"] == ""
    mc.run("legalhold", "set", target)
    assert object_of(mc, "legalhold", "info", target)["legalhold"] == "ON"
    [(version, _)] = versions(mc, target)
    assert mc.attempt("rm", "--bypass", "--version-id", version, target).returncode != 0
    mc.run("legalhold", "clear", target)
    assert object_of(mc, "legalhold", "info", target)["legalhold"] == "OFF"
    mc.run("rm", "--version-id", version, target)


def test_locks_are_set_with_a_copy(mc, lockable, tmp_path):
    (tmp_path / "k").write_text("kept")
    target = f"s/{lockable}/k"
    mc.run(
        "cp", "--retention-mode", "governance", "--retention-duration", "1d", "--legal-hold", "on",
        tmp_path / "k", target,
    )
    kept = object_of(mc, "retention", "info", target)
    assert kept["mode"] == "GOVERNANCE"
    assert until_of(kept) - datetime.now(timezone.utc) <= timedelta(days=1)
    assert object_of(mc, "legalhold", "info", target)["legalhold"] == "ON"


def test_a_bucket_without_locks_has_none(mc, bucket):
    write(mc, f"s/{bucket}/k", "free")
    assert mc.attempt("retention", "set", "governance", "1d", f"s/{bucket}/k").returncode != 0
    assert mc.attempt("legalhold", "set", f"s/{bucket}/k").returncode != 0
    assert mc.attempt("retention", "info", "--default", f"s/{bucket}").returncode != 0


# --- rules -----------------------------------------------------------------------------------


def rules(mc, bucket):
    return object_of(mc, "ilm", "rule", "ls", f"s/{bucket}")["config"]["Rules"]


def test_rules_are_added_listed_changed_and_removed(mc, control, bucket):
    made = ["ilm", "rule", "add", "--prefix", "logs/", "--expire-days", "30", f"s/{bucket}"]
    added = object_of(mc, *made)
    [shown] = rules(mc, bucket)
    assert (shown["ID"], shown["Status"]) == (added["id"], "Enabled")
    assert (shown["Expiration"], shown["Filter"]) == ({"Days": 30}, {"Prefix": "logs/"})
    [kept] = control.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert kept == shown
    mc.run("ilm", "rule", "edit", "--id", added["id"], "--expire-days", "7", f"s/{bucket}")
    assert rules(mc, bucket)[0]["Expiration"] == {"Days": 7}
    mc.run("ilm", "rule", "edit", "--id", added["id"], "--disable", f"s/{bucket}")
    assert rules(mc, bucket)[0]["Status"] == "Disabled"
    mc.run("ilm", "rule", "add", "--tags", "a=1&b=2", "--expire-days", "1", f"s/{bucket}")
    assert len(rules(mc, bucket)) == 2
    mc.run("ilm", "rule", "rm", "--id", added["id"], f"s/{bucket}")
    [left] = rules(mc, bucket)
    tags = sorted(left["Filter"]["And"]["Tags"], key=lambda each: each["Key"])
    assert tags == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    mc.run("ilm", "rule", "rm", "--all", "--force", f"s/{bucket}")
    assert mc.attempt("ilm", "rule", "ls", f"s/{bucket}").returncode != 0


def test_rules_for_versions(mc, control, versioned):
    mc.run("ilm", "rule", "add", "--expire-delete-marker", f"s/{versioned}")
    mc.run(
        "ilm", "rule", "add", "--noncurrent-expire-days", "7", "--noncurrent-expire-newer", "3",
        "--size-gt", "1KiB", f"s/{versioned}",
    )
    expected = {"NoncurrentDays": 7, "NewerNoncurrentVersions": 3}
    markers, older = rules(mc, versioned)
    assert markers["Expiration"] == {"ExpiredObjectDeleteMarker": True}
    assert older["NoncurrentVersionExpiration"] == expected
    markers, older = control.get_bucket_lifecycle_configuration(Bucket=versioned)["Rules"]
    assert markers["Expiration"] == {"ExpiredObjectDeleteMarker": True}
    assert older["NoncurrentVersionExpiration"] == expected
    assert older["Filter"] == {"ObjectSizeGreaterThan": 1024}


def test_rules_are_exported_and_imported(mc, control, bucket):
    mc.run("ilm", "rule", "add", "--prefix", "logs/", "--expire-days", "30", f"s/{bucket}")
    before = control.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    saved = mc.run("ilm", "rule", "export", f"s/{bucket}")
    mc.run("ilm", "rule", "rm", "--all", "--force", f"s/{bucket}")
    mc.run("ilm", "rule", "import", f"s/{bucket}", stdin=saved)
    assert control.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == before
