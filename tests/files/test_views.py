"""One file in both views: S3 shows a program's writes at once, and a program sees those of S3."""

import errno
import fcntl
import hashlib
import os
import random
import subprocess
import sys
import time

import numpy
import pandas
import pyarrow.dataset
import pyarrow.parquet
import pytest
from botocore.exceptions import ClientError

MIB = 1 << 20


@pytest.fixture
def bucket(place):
    """The name of the bucket whose files are in `place`."""
    return place.name


def keys(control, bucket, **about):
    return [found["Key"] for found in
            control.list_objects_v2(Bucket=bucket, **about).get("Contents", [])]


def body(control, bucket, key):
    return control.get_object(Bucket=bucket, Key=key)["Body"].read()


def missing(control, bucket, key):
    with pytest.raises(ClientError) as caught:
        control.head_object(Bucket=bucket, Key=key)
    return caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 300_000, 5 * MIB, 40 * MIB])
def test_a_file_written_front_to_back_has_its_md5_as_etag(control, bucket, place, size):
    content = random.Random(size).randbytes(size)
    (place / "file.csv").write_bytes(content)
    head = control.head_object(Bucket=bucket, Key="file.csv")
    assert head["ContentLength"] == size
    assert head["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'
    assert body(control, bucket, "file.csv") == content
    [listed] = control.list_objects_v2(Bucket=bucket)["Contents"]
    assert (listed["Key"], listed["Size"], listed["ETag"]) == ("file.csv", size, head["ETag"])
    first = control.get_object(Bucket=bucket, Key="file.csv", Range="bytes=0-9")["Body"].read() \
        if size else b""
    assert first == content[:10]


def test_the_content_type_follows_the_name(control, bucket, place):
    (place / "page.html").write_text("<p>")
    assert control.head_object(Bucket=bucket, Key="page.html")["ContentType"] == "text/html"


@pytest.mark.parametrize("size", [0, 100, 300_000, 40 * MIB])
def test_a_put_object_is_a_file(control, bucket, place, size):
    content = random.Random(size).randbytes(size)
    control.put_object(Bucket=bucket, Key="a/b/c", Body=content)
    assert (place / "a" / "b" / "c").stat().st_size == size
    assert (place / "a" / "b" / "c").read_bytes() == content
    assert os.listdir(place) == ["a"] and os.listdir(place / "a" / "b") == ["c"]


def test_a_file_is_visible_to_s3_after_close_and_fsync(control, bucket, place):
    with open(place / "file", "wb", buffering=0) as file:
        file.write(b"first")
        os.fsync(file.fileno())
        assert body(control, bucket, "file") == b"first"
        file.write(b" second")
    assert body(control, bucket, "file") == b"first second"


def test_a_change_in_the_middle_changes_the_etag(control, bucket, place):
    path = place / "file"
    path.write_bytes(b"x" * 2 * MIB)
    before = control.head_object(Bucket=bucket, Key="file")["ETag"]
    with open(path, "r+b") as file:
        file.seek(MIB)
        file.write(b"middle")
    after = control.head_object(Bucket=bucket, Key="file")["ETag"]
    assert after != before
    changed = body(control, bucket, "file")
    assert changed == path.read_bytes() and changed[MIB : MIB + 6] == b"middle"
    with pytest.raises(ClientError, match="412|PreconditionFailed"):
        control.get_object(Bucket=bucket, Key="file", IfMatch=before)
    path.write_bytes(b"short")
    assert control.head_object(Bucket=bucket, Key="file")["ETag"] == (
        f'"{hashlib.md5(b"short").hexdigest()}"'
    )


def test_an_s3_overwrite_is_visible_by_path_and_not_to_open_files(control, bucket, place):
    path = place / "file"
    for version in range(20):
        content = bytes([version]) * (100 + 50_000 * (version % 3))
        if version:
            opened = open(path, "rb", buffering=0)
            before = os.fstat(opened.fileno()).st_size
        control.put_object(Bucket=bucket, Key="file", Body=content)
        assert path.stat().st_size == len(content)
        assert path.read_bytes() == content
        if version:
            with opened:
                assert opened.read() == bytes([version - 1]) * before


def test_a_delete_through_s3_removes_the_path(control, bucket, place):
    (place / "file").write_text("x")
    with open(place / "file") as opened:
        control.delete_object(Bucket=bucket, Key="file")
        assert not (place / "file").exists() and os.listdir(place) == []
        assert opened.read() == "x"


def test_cached_names_and_attributes_are_current_after_an_s3_response(control, bucket, place):
    """Names, missing names and attributes, which kernels cache for a moment."""
    path, missing = place / "a" / "file", place / "a" / "new"
    for step in range(60):
        control.put_object(Bucket=bucket, Key="a/file", Body=bytes(step))
        assert path.stat().st_size == step and not missing.exists()
        inode, times = path.stat().st_ino, (place / "a").stat()
        control.put_object(Bucket=bucket, Key="a/file", Body=bytes(step + 1))
        assert path.stat().st_size == step + 1 and path.stat().st_ino != inode
        control.put_object(Bucket=bucket, Key="a/new", Body=b"")
        assert missing.exists() and (place / "a").stat().st_mtime_ns > times.st_mtime_ns
        control.put_object(Bucket=bucket, Key="a/new/below", Body=b"")
        assert (place / "a").stat().st_nlink == times.st_nlink + 1 and missing.is_dir()
        control.delete_objects(
            Bucket=bucket,
            Delete={"Objects": [{"Key": "a/new"}, {"Key": "a/new/below"}, {"Key": "a/file"}]},
        )
        assert not path.exists() and not missing.exists() and not (place / "a").exists()


def test_an_unlink_removes_the_key(control, bucket, place):
    control.put_object(Bucket=bucket, Key="a/file", Body=b"x")
    control.put_object(Bucket=bucket, Key="a/other", Body=b"x")
    (place / "a" / "file").unlink()
    assert missing(control, bucket, "a/file")
    assert keys(control, bucket) == ["a/other"]


def test_a_rename_moves_keys_of_files_and_directories(control, bucket, place):
    for name in ["a/1", "a/b/2", "a/b/3", "c"]:
        control.put_object(Bucket=bucket, Key=name, Body=name.encode())
    os.rename(place / "a", place / "z")
    assert keys(control, bucket) == ["c", "z/1", "z/b/2", "z/b/3"]
    os.rename(place / "c", place / "z" / "1")
    assert keys(control, bucket) == ["z/1", "z/b/2", "z/b/3"]
    assert body(control, bucket, "z/1") == b"c" and body(control, bucket, "z/b/3") == b"a/b/3"
    assert missing(control, bucket, "a/1") and missing(control, bucket, "c")


def test_an_explicit_directory_is_listed(control, bucket, place):
    (place / "made").mkdir()
    assert keys(control, bucket) == ["made/"]
    assert control.head_object(Bucket=bucket, Key="made/")["ContentLength"] == 0
    (place / "made" / "file").write_text("x")
    listed = control.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [found["Prefix"] for found in listed["CommonPrefixes"]] == ["made/"]
    control.delete_object(Bucket=bucket, Key="made/file")
    # An explicit directory stays until it is removed.
    assert os.listdir(place) == ["made"] and os.listdir(place / "made") == []
    (place / "made").rmdir()
    assert keys(control, bucket) == [] and missing(control, bucket, "made/")


def test_an_implied_directory_is_removed_with_its_last_key(control, bucket, place):
    control.put_object(Bucket=bucket, Key="a/b/c", Body=b"x")
    control.put_object(Bucket=bucket, Key="a/d", Body=b"x")
    assert sorted(os.listdir(place / "a")) == ["b", "d"]
    control.delete_object(Bucket=bucket, Key="a/b/c")
    assert os.listdir(place / "a") == ["d"]
    control.delete_object(Bucket=bucket, Key="a/d")
    assert os.listdir(place) == []


def test_a_directory_marker_of_s3_is_a_directory(control, bucket, place):
    control.put_object(Bucket=bucket, Key="marked/", Body=b"")
    assert os.listdir(place) == ["marked"] and os.listdir(place / "marked") == []
    (place / "marked").rmdir()
    assert missing(control, bucket, "marked/")


def test_a_hard_link_is_two_keys_with_one_content(control, bucket, place):
    (place / "one").write_text("x" * 1000)
    os.link(place / "one", place / "two")
    assert keys(control, bucket) == ["one", "two"]
    with open(place / "two", "a") as file:
        file.write("more")
    assert body(control, bucket, "one") == body(control, bucket, "two") == b"x" * 1000 + b"more"
    control.put_object(Bucket=bucket, Key="one", Body=b"apart")
    assert (place / "two").read_text() == "x" * 1000 + "more"
    assert (place / "two").stat().st_nlink == 1
    control.delete_object(Bucket=bucket, Key="one")
    assert (place / "two").read_text() == "x" * 1000 + "more"


def test_an_s3_append_follows_the_bytes_of_a_program(control, bucket, place):
    file = place / "log"
    file.write_text("one\n")
    file.chmod(0o4755)
    control.put_object(Bucket=bucket, Key="log", Body=b"two\n", WriteOffsetBytes=4)
    assert file.read_text() == "one\ntwo\n"
    assert file.stat().st_mode & 0o7777 == 0o755, "whoever runs it runs as himself now"
    with open(file, "a") as more:
        more.write("three\n")
    assert body(control, bucket, "log") == b"one\ntwo\nthree\n"
    # The right to append under one key gives no right on another name of the file.
    os.link(file, place / "other")
    with pytest.raises(ClientError, match="InvalidRequest"):
        control.put_object(Bucket=bucket, Key="log", Body=b"x", WriteOffsetBytes=14)
    assert file.read_text() == (place / "other").read_text() == "one\ntwo\nthree\n"


def test_holes_take_no_blocks(control, bucket, place):
    path, content = place / "image", random.Random(5).randbytes(4 * MIB)
    path.write_bytes(content)
    assert path.stat().st_blocks == 4 * MIB // 512
    subprocess.run(["fallocate", "--punch-hole", "--offset", str(MIB), "--length", str(2 * MIB),
                    path], check=True)
    assert (path.stat().st_size, path.stat().st_blocks) == (4 * MIB, 2 * MIB // 512)
    os.truncate(path, 1 << 40)
    found = subprocess.run(["du", "--block-size=1", path], check=True, capture_output=True)
    assert int(found.stdout.split()[0]) == 2 * MIB
    ranged = control.get_object(Bucket=bucket, Key="image", Range=f"bytes=0-{4 * MIB - 1}")
    assert ranged["Body"].read() == content[:MIB] + bytes(2 * MIB) + content[3 * MIB:]


def test_a_deadlock_of_locks_is_an_error(place):
    path = place / "file"
    path.write_bytes(b"ab")
    program = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 1)
print("held", flush=True)
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
print("got", flush=True)
"""
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
        other = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"held\n"
        # It takes a moment until the second program waits.
        time.sleep(1)
        with pytest.raises(OSError) as caught:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 1)
        assert caught.value.errno == errno.EDEADLK
        fcntl.lockf(file, fcntl.LOCK_UN, 1, 0)
    assert other.communicate(timeout=30)[0] == b"got\n"


def test_links_and_pipes_are_not_objects(control, bucket, place):
    (place / "file").write_text("x")
    (place / "link").symlink_to("file")
    os.mkfifo(place / "pipe")
    assert keys(control, bucket) == ["file"]
    assert missing(control, bucket, "link") and missing(control, bucket, "pipe")


@pytest.mark.parametrize("condition", [{}, {"IfNoneMatch": "*"}], ids=["plain", "if absent"])
def test_a_put_replaces_a_link(control, bucket, place, condition):
    (place / "link").symlink_to("nowhere")
    assert missing(control, bucket, "link")
    control.put_object(Bucket=bucket, Key="link", Body=b"x", **condition)
    assert not (place / "link").is_symlink() and (place / "link").read_text() == "x"


def test_a_copy_through_s3_and_a_multipart_upload_are_files(control, bucket, place):
    content = random.Random(3).randbytes(11 * MIB)
    (place / "source").write_bytes(content)
    control.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "source"})
    with open(place / "source", "r+b") as file:
        file.write(b"changed")
    assert (place / "copy").read_bytes() == content
    upload = control.create_multipart_upload(Bucket=bucket, Key="large")["UploadId"]
    parts = []
    for number, start in enumerate(range(0, len(content), 6 * MIB), 1):
        part = control.upload_part(Bucket=bucket, Key="large", UploadId=upload, PartNumber=number,
                                   Body=content[start : start + 6 * MIB])
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    assert "large" not in os.listdir(place)
    control.complete_multipart_upload(Bucket=bucket, Key="large", UploadId=upload,
                                      MultipartUpload={"Parts": parts})
    assert (place / "large").read_bytes() == content
    with open(place / "large", "ab") as file:
        file.write(b"tail")
    assert body(control, bucket, "large") == content + b"tail"


def test_a_bucket_made_in_either_view_is_in_both(control, mount, place):
    name = f"{place.name}-second"
    control.create_bucket(Bucket=name)
    assert (mount.root / name).is_dir() and os.listdir(mount.root / name) == []
    (mount.root / name).rmdir()
    with pytest.raises(ClientError):
        control.head_bucket(Bucket=name)
    (mount.root / name).mkdir()
    assert name in [found["Name"] for found in control.list_buckets()["Buckets"]]
    control.delete_bucket(Bucket=name)
    assert name not in os.listdir(mount.root)


def frame(version, rows):
    return pandas.DataFrame({"version": numpy.full(rows, version), "row": numpy.arange(rows)})


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_pandas_reads_a_path_that_s3_overwrites(control, bucket, place, tmp_path, kind):
    path = place / f"frame.{kind}"
    read = getattr(pandas, f"read_{kind}")
    for version in range(12):
        made, local = frame(version, 500 + 997 * version), tmp_path / f"frame.{kind}"
        made.to_parquet(local) if kind == "parquet" else made.to_csv(local, index=False)
        if version % 3 == 2:
            made.to_parquet(path) if kind == "parquet" else made.to_csv(path, index=False)
        else:
            control.put_object(Bucket=bucket, Key=path.name, Body=local.read_bytes())
        pandas.testing.assert_frame_equal(read(path), made)
        head = control.head_object(Bucket=bucket, Key=path.name)
        assert head["ContentLength"] == path.stat().st_size
        assert head["ETag"] == f'"{hashlib.md5(path.read_bytes()).hexdigest()}"'


def test_pyarrow_maps_a_file_that_s3_overwrites(control, bucket, place):
    path = place / "table.parquet"
    frame(1, 50_000).to_parquet(path)
    with pyarrow.parquet.ParquetFile(path, memory_map=True) as opened:
        first = opened.read_row_group(0, columns=["version"])
        frame(2, 10).to_parquet(place / "second.parquet")
        control.put_object(Bucket=bucket, Key="table.parquet",
                           Body=(place / "second.parquet").read_bytes())
        assert opened.read(columns=["row"]).num_rows == 50_000
        assert set(first["version"].to_pylist()) == {1}
    assert pyarrow.parquet.read_table(path, memory_map=True)["version"].to_pylist() == [2] * 10


def test_a_dataset_that_s3_and_pyarrow_write_together(control, bucket, place, tmp_path):
    whole = frame(0, 4_000).assign(part=lambda it: it["row"] % 4)
    table = pyarrow.Table.from_pandas(whole, preserve_index=False)
    pyarrow.dataset.write_dataset(table, place / "set", format="parquet", partitioning=["part"],
                                  partitioning_flavor="hive")
    frame(9, 100).to_parquet(tmp_path / "more.parquet")
    control.put_object(Bucket=bucket, Key="set/part=4/more.parquet",
                       Body=(tmp_path / "more.parquet").read_bytes())
    found = pyarrow.dataset.dataset(place / "set", partitioning="hive")
    assert found.count_rows() == 4_100
    assert len(keys(control, bucket, Prefix="set/part=")) == 5
