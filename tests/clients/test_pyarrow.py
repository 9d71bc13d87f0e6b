"""pyarrow's own S3 file system, which uses the AWS SDK for C++, and datasets on it."""

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from server import fresh_bucket_name

MIB = 1 << 20


@pytest.fixture
def fs(server):
    scheme, _, address = server.endpoint.partition("://")
    return S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        region="us-east-1",
        scheme=scheme,
        endpoint_override=address,
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
        **({"tls_ca_file_path": server.ca} if server.ca else {}),
    )


def table(rows):
    return pyarrow.table(
        {
            "id": pyarrow.array(range(rows), pyarrow.int64()),
            "year": pyarrow.array([2023 + number % 3 for number in range(rows)], pyarrow.int32()),
            "city": pyarrow.array([["Köln", "Oslo"][number % 2] for number in range(rows)]),
            "value": pyarrow.array([number * 0.5 for number in range(rows)]),
        }
    )


def put(fs, path, content):
    with fs.open_output_stream(path) as stream:
        stream.write(content)


def get(fs, path):
    with fs.open_input_stream(path) as stream:
        return stream.read()


def test_partitioned_dataset_with_filters(fs, bucket):
    written = table(30_000)
    root = f"{bucket}/warehouse/sales"
    pyarrow.dataset.write_dataset(
        written, root, filesystem=fs, format="parquet",
        partitioning=pyarrow.dataset.partitioning(
            pyarrow.schema([("year", pyarrow.int32()), ("city", pyarrow.string())]), flavor="hive"
        ),
    )
    dataset = pyarrow.dataset.dataset(root, filesystem=fs, format="parquet", partitioning="hive")
    assert dataset.count_rows() == 30_000
    assert len(dataset.files) == 6
    field = pyarrow.dataset.field
    some = dataset.to_table(
        columns=["id"], filter=(field("year") == 2024) & (field("city") == "Köln")
    )
    assert sorted(some["id"].to_pylist()) == [
        number for number in range(30_000) if number % 3 == 1 and number % 2 == 0
    ]
    few = dataset.to_table(filter=field("id") < 10)
    assert sorted(few["id"].to_pylist()) == list(range(10))


def test_overwriting_a_dataset(fs, bucket):
    root = f"{bucket}/sales"
    for rows in (3_000, 300):
        pyarrow.dataset.write_dataset(
            table(rows), root, filesystem=fs, format="parquet", partitioning=["year"],
            existing_data_behavior="delete_matching",
        )
        found = pyarrow.dataset.dataset(root, filesystem=fs, partitioning=["year"])
        assert found.count_rows() == rows


def test_footer_and_column_reads(fs, bucket):
    path = f"{bucket}/one.parquet"
    pyarrow.parquet.write_table(table(500_000), path, filesystem=fs, row_group_size=50_000)
    metadata = pyarrow.parquet.read_metadata(path, filesystem=fs)
    assert (metadata.num_rows, metadata.num_row_groups) == (500_000, 10)
    assert pyarrow.parquet.read_schema(path, filesystem=fs).names == table(1).column_names
    with pyarrow.parquet.ParquetFile(fs.open_input_file(path)) as file:
        group = file.read_row_group(7, columns=["value"])
    assert group["value"][0].as_py() == 350_000 * 0.5
    assert pyarrow.parquet.read_table(path, filesystem=fs).equals(table(500_000))


def test_csv_and_feather(fs, bucket):
    written = table(10_000)
    with fs.open_output_stream(f"{bucket}/t.csv") as stream:
        pyarrow.csv.write_csv(written, stream)
    with fs.open_input_stream(f"{bucket}/t.csv") as stream:
        assert pyarrow.csv.read_csv(stream)["id"].to_pylist() == list(range(10_000))
    pyarrow.dataset.write_dataset(written, f"{bucket}/f", filesystem=fs, format="feather")
    assert pyarrow.dataset.dataset(f"{bucket}/f", filesystem=fs, format="feather").count_rows() == 10_000


def test_random_access(fs, bucket):
    content = bytes(range(256)) * 40_000
    put(fs, f"{bucket}/k", content)
    with fs.open_input_file(f"{bucket}/k") as file:
        assert file.size() == len(content)
        assert file.read_at(10, 5_000_000) == content[5_000_000:5_000_010]
        file.seek(len(content) - 3)
        assert file.read() == content[-3:]


def test_a_large_stream_goes_up_in_parts(fs, control, bucket):
    pieces = [bytes([number]) * (4 * MIB) for number in range(16)]
    with fs.open_output_stream(f"{bucket}/big") as stream:
        for piece in pieces:
            stream.write(piece)
    head = control.head_object(Bucket=bucket, Key="big")
    assert head["ContentLength"] == 64 * MIB and "-" in head["ETag"]
    assert get(fs, f"{bucket}/big") == b"".join(pieces)


def test_metadata_of_a_stream(fs, control, bucket):
    with fs.open_output_stream(
        f"{bucket}/k", metadata={"Content-Type": "text/x-stone", "Cache-Control": "no-cache"}
    ) as stream:
        stream.write(b"x")
    head = control.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["CacheControl"]) == ("text/x-stone", "no-cache")


def test_file_info(fs, bucket):
    put(fs, f"{bucket}/dir/sub/file.bin", b"12345")
    fs.create_dir(f"{bucket}/made/by hand")
    kinds = {
        bucket: FileType.Directory,
        f"{bucket}/dir": FileType.Directory,
        f"{bucket}/dir/sub": FileType.Directory,
        f"{bucket}/dir/sub/file.bin": FileType.File,
        f"{bucket}/made": FileType.Directory,
        f"{bucket}/made/by hand": FileType.Directory,
        f"{bucket}/dir/su": FileType.NotFound,
        f"{bucket}/absent/at/all": FileType.NotFound,
    }
    infos = fs.get_file_info(list(kinds))
    assert {info.path: info.type for info in infos} == kinds
    assert fs.get_file_info(f"{bucket}/dir/sub/file.bin").size == 5
    found = fs.get_file_info(FileSelector(bucket, recursive=True))
    assert {info.path for info in found} == set(kinds) - {
        bucket, f"{bucket}/dir/su", f"{bucket}/absent/at/all",
    }
    flat = fs.get_file_info(FileSelector(f"{bucket}/dir"))
    assert [(info.path, info.type) for info in flat] == [(f"{bucket}/dir/sub", FileType.Directory)]
    assert fs.get_file_info(FileSelector(f"{bucket}/absent", allow_not_found=True)) == []
    with pytest.raises(FileNotFoundError):
        fs.get_file_info(FileSelector(f"{bucket}/absent"))


def test_copy_move_and_delete(fs, bucket):
    put(fs, f"{bucket}/a/one ä", b"one")
    put(fs, f"{bucket}/a/two", b"two")
    fs.copy_file(f"{bucket}/a/one ä", f"{bucket}/b/copied")
    fs.move(f"{bucket}/a/two", f"{bucket}/b/moved")
    assert (get(fs, f"{bucket}/b/copied"), get(fs, f"{bucket}/b/moved")) == (b"one", b"two")
    assert fs.get_file_info(f"{bucket}/a/two").type == FileType.NotFound
    fs.delete_file(f"{bucket}/a/one ä")
    # pyarrow keeps the directory: it creates a marker after the last file is removed.
    assert fs.get_file_info(f"{bucket}/a").type == FileType.Directory
    fs.delete_dir(f"{bucket}/b")
    assert fs.get_file_info(f"{bucket}/b").type == FileType.NotFound
    with pytest.raises(FileNotFoundError):
        fs.open_input_stream(f"{bucket}/b/copied")
    with pytest.raises(FileNotFoundError):
        fs.delete_file(f"{bucket}/b/copied")
    fs.delete_dir_contents(bucket)
    assert fs.get_file_info(FileSelector(bucket, recursive=True)) == []


def test_delete_a_directory_of_many_files(fs, bucket):
    for number in range(300):
        put(fs, f"{bucket}/many/{number % 7}/{number}", b"x")
    fs.delete_dir(f"{bucket}/many")
    assert fs.get_file_info(FileSelector(bucket, recursive=True)) == []


def test_buckets(fs):
    name = fresh_bucket_name("arrow")
    fs.create_dir(name)
    assert fs.get_file_info(name).type == FileType.Directory
    fs.delete_dir(name)
    assert fs.get_file_info(name).type == FileType.NotFound
