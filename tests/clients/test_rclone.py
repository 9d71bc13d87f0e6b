"""rclone, configured by its environment as a generic S3 provider."""

import os
import time

import pytest

import encryption
from server import Command, random_file, read_tree, refused, sha256_of, write_tree

MIB = 1 << 20
TREE = {
    "a.txt": b"a",
    "sub/b.bin": bytes(range(256)) * 100,
    "sub/deep/\u00e9t\u00e9 + space.txt": b"summer",
    "sub/empty": b"",
}


@pytest.fixture
def rclone(server):
    environment = {
        "RCLONE_CONFIG": "/dev/null",
        "RCLONE_CONFIG_S_TYPE": "s3",
        "RCLONE_CONFIG_S_PROVIDER": "Other",
        "RCLONE_CONFIG_S_ENDPOINT": server.endpoint,
        "RCLONE_CONFIG_S_ACCESS_KEY_ID": server.access_key,
        "RCLONE_CONFIG_S_SECRET_ACCESS_KEY": server.secret_key,
        "RCLONE_CONFIG_S_REGION": "us-east-1",
    }
    # rclone 1.60 does not start with AWS_CA_BUNDLE; its own option works in all versions.
    return Command("rclone", ["--ca-cert", server.ca] if server.ca else [], environment)


@pytest.fixture
def tree(tmp_path):
    write_tree(tmp_path / "tree", TREE)
    return tmp_path / "tree"


def names_below(rclone, target):
    return sorted(rclone.run("lsf", "--recursive", "--files-only", target).splitlines())


def test_make_and_remove_a_bucket(rclone, bucket):
    rclone.run("mkdir", f"s:{bucket}-two")
    assert f"{bucket}-two/" in rclone.run("lsf", "s:").splitlines()
    rclone.run("rmdir", f"s:{bucket}-two")
    assert f"{bucket}-two/" not in rclone.run("lsf", "s:").splitlines()


def test_copy_check_and_read(rclone, bucket, tree, tmp_path):
    rclone.run("copy", tree, f"s:{bucket}/tree")
    assert names_below(rclone, f"s:{bucket}/tree") == sorted(TREE)
    rclone.run("check", tree, f"s:{bucket}/tree")
    assert rclone.run("cat", f"s:{bucket}/tree/a.txt") == "a"
    rclone.run("copy", f"s:{bucket}/tree", tmp_path / "down")
    assert read_tree(tmp_path / "down") == TREE


def test_check_notices_a_difference(rclone, control, bucket, tree):
    rclone.run("copy", tree, f"s:{bucket}/tree")
    control.put_object(Bucket=bucket, Key="tree/a.txt", Body=b"b")
    failed = rclone.attempt("check", tree, f"s:{bucket}/tree")
    assert failed.returncode != 0 and "1 differences found" in failed.stderr


def test_sync_by_checksum(rclone, control, bucket, tree):
    rclone.run("sync", "--checksum", tree, f"s:{bucket}/tree")
    before = control.head_object(Bucket=bucket, Key="tree/sub/b.bin")["LastModified"]
    again = rclone.attempt("sync", "--checksum", "--verbose", tree, f"s:{bucket}/tree")
    assert again.returncode == 0 and "Copied" not in again.stderr
    (tree / "sub/empty").unlink()
    (tree / "a.txt").write_bytes(b"b")  # same size, so only the checksum tells
    rclone.run("sync", "--checksum", tree, f"s:{bucket}/tree")
    assert names_below(rclone, f"s:{bucket}/tree") == sorted(set(TREE) - {"sub/empty"})
    assert rclone.run("cat", f"s:{bucket}/tree/a.txt") == "b"
    assert control.head_object(Bucket=bucket, Key="tree/sub/b.bin")["LastModified"] == before


def test_modification_times_are_kept(rclone, bucket, tree, tmp_path):
    os.utime(tree / "a.txt", ns=(0, 1_234_567_890_123_456_789))
    rclone.run("copy", tree, f"s:{bucket}/tree")
    rclone.run("copy", f"s:{bucket}/tree", tmp_path / "down")
    assert (tmp_path / "down/a.txt").stat().st_mtime_ns == 1_234_567_890_123_456_789


def test_move_and_server_side_copy(rclone, bucket, tree):
    rclone.run("copy", tree, f"s:{bucket}/one")
    rclone.run("moveto", f"s:{bucket}/one/a.txt", f"s:{bucket}/two/renamed ä.txt")
    assert names_below(rclone, f"s:{bucket}/two") == ["renamed ä.txt"]
    assert "a.txt" not in names_below(rclone, f"s:{bucket}/one")
    rclone.run("copy", f"s:{bucket}/one", f"s:{bucket}/three")
    rclone.run("check", f"s:{bucket}/one", f"s:{bucket}/three")


def test_listing_by_level(rclone, bucket, tree):
    rclone.run("copy", tree, f"s:{bucket}/tree")
    assert rclone.run("lsf", f"s:{bucket}/tree").splitlines() == ["a.txt", "sub/"]
    assert rclone.run("lsf", f"s:{bucket}/tree/sub").splitlines() == ["b.bin", "deep/", "empty"]
    said = rclone.run("size", f"s:{bucket}")
    assert f"({sum(map(len, TREE.values()))} Byte)" in said


def test_delete_and_purge(rclone, bucket, tree):
    rclone.run("copy", tree, f"s:{bucket}/tree")
    rclone.run("deletefile", f"s:{bucket}/tree/a.txt")
    rclone.run("delete", "--include", "*.bin", f"s:{bucket}/tree")
    assert names_below(rclone, f"s:{bucket}/tree") == sorted(set(TREE) - {"a.txt", "sub/b.bin"})
    rclone.run("purge", f"s:{bucket}/tree")
    assert names_below(rclone, f"s:{bucket}") == []


def test_50_mib_in_small_parts(rclone, control, bucket, tmp_path):
    written = random_file(tmp_path / "up", 50 * MIB)
    rclone.run(
        "copyto", "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M", tmp_path / "up",
        f"s:{bucket}/big",
    )
    assert control.head_object(Bucket=bucket, Key="big")["ETag"].endswith('-10"')
    rclone.run("copyto", "--multi-thread-cutoff", "10M", f"s:{bucket}/big", tmp_path / "down")
    assert sha256_of(tmp_path / "down") == written
    rclone.run("copyto", "--s3-copy-cutoff", "20M", f"s:{bucket}/big", f"s:{bucket}/again")
    assert control.head_object(Bucket=bucket, Key="again")["ContentLength"] == 50 * MIB
    rclone.run("purge", f"s:{bucket}")


@pytest.mark.ashlar("MinIO has no buckets with opaque ETags")
@pytest.mark.parametrize("provider", ["Other", "Minio"])
def test_checks_pass_with_opaque_etags(
    rclone, server, control, bucket, tree, tmp_path, provider
):
    server.operate("bucket", "set", bucket, "--opaque-etags", "true")

    def is_opaque():
        return control.put_object(Bucket=bucket, Key="probe", Body=b"x")["ETag"].endswith('-1"')

    until = time.monotonic() + 10
    while not is_opaque():
        assert time.monotonic() < until, "the gateway does not hear of the change"
        time.sleep(0.1)
    # With MinIO, rclone compares the ETag of a multipart upload with its parts' MD5s.
    rclone.environment["RCLONE_CONFIG_S_PROVIDER"] = provider
    random_file(tree / "large", 12 * MIB)
    small = ["--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M"]
    rclone.run("copy", "--checksum", *small, tree, f"s:{bucket}/tree")
    assert control.head_object(Bucket=bucket, Key="tree/a.txt")["ETag"].endswith('-1"')
    assert control.head_object(Bucket=bucket, Key="tree/large")["ETag"].endswith('-3"')
    rclone.run("check", "--download", tree, f"s:{bucket}/tree")
    rclone.run("check", tree, f"s:{bucket}/tree")
    rclone.run("copy", "--checksum", f"s:{bucket}/tree", tmp_path / "down")
    assert read_tree(tmp_path / "down") == read_tree(tree)


def test_a_stream_of_unknown_size(rclone, bucket):
    content = bytes(range(256)) * 30_000
    rclone.run("rcat", f"s:{bucket}/piped", stdin=content, text=False)
    assert rclone.run("cat", f"s:{bucket}/piped", text=False) == content


@pytest.mark.ashlar("the reference has no key management service")
def test_modes_of_encryption(rclone, server, control, bucket, tree, tmp_path):
    sse = ["--s3-server-side-encryption"]
    rclone.run("copy", *sse, "AES256", tree, f"s:{bucket}/s3")
    kms = [*sse, "aws:kms", "--s3-sse-kms-key-id", server.kms_key]
    random_file(tree / "large", 11 * MIB)
    small = ["--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M"]
    rclone.run("copy", *kms, *small, tree, f"s:{bucket}/kms")
    for name, mode in (("s3", encryption.S3), ("kms", encryption.kms(server.kms_key))):
        head = control.head_object(Bucket=bucket, Key=f"{name}/sub/b.bin")
        assert encryption.applied(head) == mode.answer
    # Entity tags are those of the content, so checksums still compare.
    rclone.run("check", tree, f"s:{bucket}/kms")
    rclone.run("copy", *kms, f"s:{bucket}/s3", f"s:{bucket}/copy")
    head = control.head_object(Bucket=bucket, Key="copy/sub/b.bin")
    assert encryption.applied(head) == encryption.kms(server.kms_key).answer
    rclone.run("copy", f"s:{bucket}/kms", tmp_path / "down")
    assert read_tree(tmp_path / "down") == read_tree(tree)


def test_a_tree_under_a_key_of_the_client(rclone, server, control, bucket, tree, tmp_path):
    if not server.ca:
        pytest.skip("rclone sends the key of a client over TLS only")
    key = encryption.CustomerKey("a").text
    customer = ["--s3-sse-customer-algorithm", "AES256", "--s3-sse-customer-key-base64", key]
    random_file(tree / "large", 11 * MIB)
    small = ["--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M"]
    rclone.run("copy", *customer, *small, tree, f"s:{bucket}/tree")
    rclone.run("copy", *customer, f"s:{bucket}/tree", f"s:{bucket}/copy")
    rclone.run("copy", *customer, f"s:{bucket}/copy", tmp_path / "down")
    assert read_tree(tmp_path / "down") == read_tree(tree)
    with refused("InvalidRequest", status=400):
        control.get_object(Bucket=bucket, Key="tree/a.txt")
