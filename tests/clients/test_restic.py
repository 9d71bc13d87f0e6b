"""restic: a backup program that trusts its storage with everything."""

import json

import pytest

from server import Command, random_file, read_tree, write_tree

MIB = 1 << 20


@pytest.fixture
def restic(server, bucket, tmp_path):
    environment = {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "RESTIC_PASSWORD": "a repository's password",
        "RESTIC_REPOSITORY": f"s3:{server.endpoint}/{bucket}/repository",
        "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }
    return Command("restic", ["--cacert", server.ca] if server.ca else [], environment)


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
