"""s3fs and pandas: a bucket as the file system of a notebook."""

import numpy
import pandas
import pytest
import s3fs

import encryption
from server import fresh_bucket_name, random_file, sha256_of

MIB = 1 << 20


@pytest.fixture
def fs(server):
    # s3fs caches instances and listings; each test starts without both.
    s3fs.S3FileSystem.clear_instance_cache()
    return s3fs.S3FileSystem(**options(server))


def options(server):
    """Returns a user's `storage_options`."""
    return {
        "key": server.access_key,
        "secret": server.secret_key,
        "endpoint_url": server.endpoint,
        **({"client_kwargs": {"verify": server.ca}} if server.ca else {}),
    }


def frame(rows, seed=7):
    random = numpy.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "id": numpy.arange(rows),
            "price": random.normal(100, 15, rows).round(4),
            "name": [f"stone {number % 97} ä" for number in range(rows)],
            "when": pandas.date_range("2024-01-01", periods=rows, freq="min"),
        }
    )


def test_csv_round_trip_and_overwrite(server, bucket):
    path = f"s3://{bucket}/tables/prices.csv"
    for rows in (50_000, 100):
        written = frame(rows, seed=rows)
        written.to_csv(path, index=False, storage_options=options(server))
        read = pandas.read_csv(path, parse_dates=["when"], storage_options=options(server))
        pandas.testing.assert_frame_equal(read, written, check_dtype=False)


def test_csv_append_by_rewriting(server, bucket):
    path = f"s3://{bucket}/log.csv"
    total = pandas.DataFrame()
    for batch in range(5):
        total = pandas.concat([total, frame(10, seed=batch)], ignore_index=True)
        total.to_csv(path, index=False, storage_options=options(server))
        read = pandas.read_csv(path, parse_dates=["when"], storage_options=options(server))
        assert len(read) == 10 * (batch + 1)
        total = read


def test_parquet_round_trip_and_overwrite(server, bucket):
    path = f"s3://{bucket}/tables/prices.parquet"
    for rows in (200_000, 1_000):
        written = frame(rows, seed=rows)
        written.to_parquet(path, storage_options=options(server))
        read = pandas.read_parquet(path, storage_options=options(server))
        pandas.testing.assert_frame_equal(read, written)
    columns = pandas.read_parquet(path, columns=["price"], storage_options=options(server))
    assert list(columns.columns) == ["price"]


def test_partitioned_parquet(server, bucket):
    written = frame(3_000)
    written["year"] = written["id"] % 3 + 2023
    path = f"s3://{bucket}/partitioned"
    written.to_parquet(path, partition_cols=["year"], storage_options=options(server))
    read = pandas.read_parquet(
        path, filters=[("year", "==", 2024)], storage_options=options(server)
    )
    assert sorted(read["id"]) == sorted(written.loc[written["year"] == 2024, "id"])


def test_existence_and_kinds(fs, bucket):
    fs.pipe({f"{bucket}/dir/a.txt": b"a", f"{bucket}/dir/sub/b.txt": b"bb"})
    assert fs.exists(f"{bucket}/dir/a.txt") and fs.exists(f"{bucket}/dir")
    assert not fs.exists(f"{bucket}/dir/absent") and not fs.exists(f"{bucket}/di")
    assert fs.isdir(f"{bucket}/dir") and fs.isdir(f"{bucket}/dir/sub") and fs.isdir(bucket)
    assert not fs.isdir(f"{bucket}/dir/a.txt")
    assert fs.isfile(f"{bucket}/dir/a.txt") and not fs.isfile(f"{bucket}/dir")
    info = fs.info(f"{bucket}/dir/sub/b.txt")
    assert (info["type"], info["size"]) == ("file", 2)
    assert info["ETag"].strip('"') == "21ad0bd836b90d08f4cf640b4c298e7c"
    assert fs.info(f"{bucket}/dir")["type"] == "directory"
    with pytest.raises(FileNotFoundError):
        fs.info(f"{bucket}/absent")
    with pytest.raises(FileNotFoundError):
        fs.cat(f"{bucket}/absent")


def test_listing_glob_find_walk_and_du(fs, bucket):
    names = ["a.csv", "b.csv", "c.txt", "year=2024/d.csv", "year=2025/deep/e.csv"]
    fs.pipe({f"{bucket}/data/{name}": name.encode() for name in names})
    assert sorted(fs.ls(f"{bucket}/data", detail=False)) == [
        f"{bucket}/data/{name}" for name in ["a.csv", "b.csv", "c.txt", "year=2024", "year=2025"]
    ]
    assert fs.glob(f"{bucket}/data/*.csv") == [f"{bucket}/data/a.csv", f"{bucket}/data/b.csv"]
    assert fs.glob(f"{bucket}/data/**/*.csv") == [
        f"{bucket}/data/{name}" for name in names if name.endswith(".csv")
    ]
    assert fs.glob(f"{bucket}/data/year=*/") != []
    assert fs.find(f"{bucket}/data") == [f"{bucket}/data/{name}" for name in names]
    assert fs.du(f"{bucket}/data") == sum(map(len, names))
    walked = {root: sorted(files) for root, _, files in fs.walk(f"{bucket}/data")}
    assert walked[f"{bucket}/data/year=2025/deep"] == ["e.csv"]


def test_move_copy_and_remove(fs, control, bucket):
    fs.pipe({f"{bucket}/from/{name}": name.encode() for name in ["a", "b/c", "b/d ä"]})
    fs.mv(f"{bucket}/from/a", f"{bucket}/moved")
    assert fs.cat(f"{bucket}/moved") == b"a" and not fs.exists(f"{bucket}/from/a")
    fs.copy(f"{bucket}/from/b/c", f"{bucket}/copied")
    assert fs.cat(f"{bucket}/copied") == b"b/c"
    # s3fs cannot `mv` a directory on any server: it would copy the prefix itself as an object.
    fs.copy(f"{bucket}/from/", f"{bucket}/to/", recursive=True)
    fs.rm(f"{bucket}/from", recursive=True)
    assert fs.find(f"{bucket}/to") == [f"{bucket}/to/b/c", f"{bucket}/to/b/d ä"]
    assert not fs.exists(f"{bucket}/from")
    fs.rm(f"{bucket}/to", recursive=True)
    fs.rm([f"{bucket}/moved", f"{bucket}/copied"])
    assert control.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_appending(fs, bucket):
    path = f"{bucket}/growing.log"
    with fs.open(path, "wb") as file:
        file.write(b"one\n")
    with fs.open(path, "ab") as file:
        file.write(b"two\n")
    assert fs.cat(path) == b"one\ntwo\n"
    # Above 5 MiB s3fs appends by UploadPartCopy of the present content.
    large = b"0123456789abcdef" * (6 * MIB // 16)
    fs.pipe(path, large)
    with fs.open(path, "ab") as file:
        file.write(b"tail")
    assert fs.info(path)["size"] == len(large) + 4
    assert fs.cat_file(path, start=len(large) - 4) == large[-4:] + b"tail"


def test_reading_and_seeking(fs, bucket):
    content = bytes(range(256)) * 50_000
    fs.pipe(f"{bucket}/k", content)
    with fs.open(f"{bucket}/k", "rb") as file:
        file.seek(-10, 2)
        assert file.read() == content[-10:]
        file.seek(7_000_001)
        assert file.read(1_000) == content[7_000_001:7_001_001]
    with fs.open(f"{bucket}/text", "w", encoding="utf-8") as file:
        file.writelines(f"line {number} ü\n" for number in range(1_000))
    with fs.open(f"{bucket}/text", "r", encoding="utf-8") as file:
        assert sum(1 for line in file if line.endswith("ü\n")) == 1_000
    assert fs.cat_ranges([f"{bucket}/k"] * 3, [0, 100, 1_000], [4, 104, 1_004]) == [
        content[0:4], content[100:104], content[1_000:1_004],
    ]


def test_a_file_of_120_mib(fs, bucket, tmp_path):
    written = random_file(tmp_path / "up", 120 * MIB)
    fs.put(str(tmp_path / "up"), f"{bucket}/big")
    assert fs.info(f"{bucket}/big")["size"] == 120 * MIB
    fs.get(f"{bucket}/big", str(tmp_path / "down"))
    assert sha256_of(tmp_path / "down") == written
    fs.rm(f"{bucket}/big")


def test_an_abandoned_write_leaves_nothing(fs, control, bucket):
    fs.pipe(f"{bucket}/k", b"before")
    with pytest.raises(ZeroDivisionError):
        with fs.transaction:
            with fs.open(f"{bucket}/k", "wb") as file:
                file.write(b"x" * (6 * MIB))
            1 / 0
    assert control.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


def test_buckets(fs):
    name = fresh_bucket_name("s3fs")
    fs.mkdir(name)
    assert name in fs.ls("")
    fs.touch(f"{name}/empty")
    assert fs.info(f"{name}/empty")["size"] == 0
    fs.rm(name, recursive=True)
    fs.invalidate_cache()
    assert not fs.exists(name)


def test_metadata_and_tags(fs, bucket):
    with fs.open(f"{bucket}/k", "wb", Metadata={"colour": "grey"}) as file:
        file.write(b"x")
    assert fs.metadata(f"{bucket}/k")["colour"] == "grey"
    fs.put_tags(f"{bucket}/k", {"a": "1"})
    assert fs.get_tags(f"{bucket}/k") == {"a": "1"}
    assert fs.checksum(f"{bucket}/k") == fs.checksum(f"{bucket}/k")


@pytest.mark.ashlar("the reference has no key management service")
def test_modes_of_encryption(server, control, bucket):
    mode, written = encryption.kms(server.kms_key), frame(1_000)
    path, secret = f"s3://{bucket}/prices.parquet", {"s3_additional_kwargs": mode.new}
    written.to_parquet(path, storage_options={**options(server), **secret})
    head = control.head_object(Bucket=bucket, Key="prices.parquet")
    assert encryption.applied(head) == mode.answer
    read = pandas.read_parquet(path, storage_options=options(server))
    pandas.testing.assert_frame_equal(read, written)


def test_files_under_a_key_of_the_client(server, bucket):
    if not (server.ca or server.is_ashlar()):
        pytest.skip("the reference accepts keys of clients over TLS only")
    key = {"s3_additional_kwargs": encryption.customer("a").own}
    fs = s3fs.S3FileSystem(**options(server), **key)
    content = encryption.content(11 * MIB)
    # One request, and an upload in parts.
    for name, size in (("small", 70_000), ("large", len(content))):
        with fs.open(f"{bucket}/{name}", "wb", block_size=5 * MIB) as file:
            file.write(content[:size])
        assert fs.info(f"{bucket}/{name}")["size"] == size
        assert fs.cat_file(f"{bucket}/{name}", start=10, end=40) == content[10:40]
        assert fs.cat(f"{bucket}/{name}") == content[:size]
    with pytest.raises(OSError):
        s3fs.S3FileSystem(**options(server)).cat(f"{bucket}/small")
