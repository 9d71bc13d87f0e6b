"""polars and DuckDB: queries over Parquet in a bucket, and what they write there."""

from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import duckdb_extension_httpfs
import polars
import pyarrow
import pyarrow.parquet
import pytest
import s3fs
from pyiceberg.catalog.sql import SqlCatalog

ROWS = 400_000


@pytest.fixture(scope="module")
def frame():
    return polars.DataFrame({"id": range(ROWS)}).with_columns(
        value=polars.col("id") * 0.5,
        text=polars.format("stone {}", polars.col("id")),
        year=(2020 + polars.col("id") % 4).cast(polars.Int64),
    )


@pytest.fixture
def options(server):
    """What a user of polars sets for a server of his own."""
    return {
        "aws_endpoint_url": server.endpoint,
        "aws_access_key_id": server.access_key,
        "aws_secret_access_key": server.secret_key,
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }


@pytest.fixture
def duck(server, tmp_path):
    """DuckDB with its own S3 client, as a user sets it up; signed by DuckDB, and loaded as such."""
    connection = duckdb.connect(config={"extension_directory": str(tmp_path / "extensions")})
    folder = Path(duckdb_extension_httpfs.__file__).parent / "extensions"
    extension = folder / f"v{duckdb.__version__}" / "httpfs.duckdb_extension"
    connection.execute(f"LOAD '{extension}'")
    address = urlsplit(server.endpoint)
    connection.execute(f"""
        CREATE SECRET (TYPE s3, KEY_ID '{server.access_key}', SECRET '{server.secret_key}',
            REGION 'us-east-1', ENDPOINT '{address.netloc}', URL_STYLE 'path',
            USE_SSL {address.scheme == "https"})
    """)
    yield connection
    connection.close()


@pytest.fixture
def fs(server):
    return s3fs.S3FileSystem(
        key=server.access_key,
        secret=server.secret_key,
        client_kwargs={"endpoint_url": server.endpoint, "region_name": "us-east-1"},
        skip_instance_cache=True,
    )


def test_polars_sinks_and_scans(frame, options, bucket):
    path = f"s3://{bucket}/one/frame.parquet"
    frame.lazy().sink_parquet(path, storage_options=options, row_group_size=50_000)
    lazy = polars.scan_parquet(path, storage_options=options)
    assert lazy.collect().equals(frame)
    few = lazy.filter(polars.col("id") >= ROWS - 10).select("text").collect()
    assert few.equals(frame.select("text").tail(10))
    assert lazy.select(polars.len()).collect().item() == ROWS
    assert lazy.collect_schema() == frame.schema


def test_polars_partitions(frame, options, bucket, control):
    root = f"s3://{bucket}/parts/"
    parts = polars.PartitionBy(root, key="year")
    frame.lazy().sink_parquet(parts, storage_options=options)
    listed = control.list_objects_v2(Bucket=bucket, Prefix="parts/", Delimiter="/")
    folders = [entry["Prefix"] for entry in listed["CommonPrefixes"]]
    assert folders == [f"parts/year={year}/" for year in range(2020, 2024)]
    lazy = polars.scan_parquet(root, storage_options=options, hive_partitioning=True)
    assert lazy.collect().select(frame.columns).sort("id").equals(frame)
    year = polars.scan_parquet(f"{root}year=2021/*.parquet", storage_options=options)
    assert year.select("id").collect().sort("id").equals(
        frame.filter(polars.col("year") == 2021).select("id")
    )


def test_polars_other_formats(frame, options, bucket):
    small = frame.head(20_000)
    for kind, sink, scan in [
        ("csv", "sink_csv", polars.scan_csv),
        ("ndjson", "sink_ndjson", polars.scan_ndjson),
        ("arrow", "sink_ipc", polars.scan_ipc),
    ]:
        path = f"s3://{bucket}/small.{kind}"
        getattr(small.lazy(), sink)(path, storage_options=options)
        assert scan(path, storage_options=options).collect().equals(small), kind


def test_polars_writes_and_reads_delta(frame, options, bucket):
    table = f"s3://{bucket}/delta"
    for part in (frame.head(1000), frame.slice(1000, 1000)):
        part.write_delta(table, mode="append", storage_options=options)
    lazy = polars.scan_delta(table, storage_options=options)
    assert lazy.collect().sort("id").equals(frame.head(2000))
    assert lazy.filter(polars.col("id") == 1500).select("text").collect().item() == "stone 1500"
    first = polars.read_delta(table, version=0, storage_options=options)
    assert first.sort("id").equals(frame.head(1000))


def test_polars_reads_iceberg(frame, options, bucket, tmp_path):
    names = {"endpoint": "endpoint_url", "access-key-id": "access_key_id"}
    names |= {"secret-access-key": "secret_access_key", "region": "region"}
    settings = {f"s3.{ours}": options[f"aws_{theirs}"] for ours, theirs in names.items()}
    catalog = SqlCatalog(
        "t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"s3://{bucket}/warehouse", **settings
    )
    catalog.create_namespace("stones")
    small = frame.head(1000).to_arrow()
    table = catalog.create_table("stones.t", schema=small.schema)
    table.append(small)
    lazy = polars.scan_iceberg(table, storage_options=options)
    assert lazy.collect().sort("id").equals(frame.head(1000))
    assert lazy.filter(polars.col("id") == 7).select("text").collect().item() == "stone 7"


def test_polars_says_what_is_not_there(options, bucket):
    with pytest.raises((FileNotFoundError, OSError, polars.exceptions.ComputeError)) as caught:
        polars.scan_parquet(f"s3://{bucket}/absent.parquet", storage_options=options).collect()
    assert "404" in str(caught.value) or "not found" in str(caught.value).lower()


def test_duckdb_writes_and_reads(duck, frame, bucket):
    path = f"s3://{bucket}/one/frame.parquet"
    stones = frame.to_arrow()  # noqa: F841 (the query names it)
    duck.execute(f"COPY (FROM stones) TO '{path}' (ROW_GROUP_SIZE 50000)")
    found = duck.sql(f"FROM '{path}' ORDER BY id").pl()
    assert found.equals(frame)
    few = f"SELECT text FROM '{path}' WHERE id >= {ROWS - 10} ORDER BY id"
    assert duck.sql(few).pl().equals(frame.select("text").tail(10))
    groups = f"SELECT count(DISTINCT row_group_id) FROM parquet_metadata('{path}')"
    assert duck.sql(groups).fetchone() == (ROWS // 50_000,)
    # What is written again is what is read, whatever the client remembers.
    duck.execute(f"COPY (SELECT 1 AS id) TO '{path}'")
    assert duck.sql(f"FROM '{path}'").fetchall() == [(1,)]


def test_duckdb_writes_in_parts(duck, bucket, control):
    # So that a part is as short as S3 allows.
    duck.execute("SET s3_uploader_max_filesize = '50GB'")
    numbers = "SELECT range AS id, hash(range) AS number FROM range(2000000)"
    path = f"s3://{bucket}/parts.parquet"
    duck.execute(f"COPY ({numbers}) TO '{path}' (COMPRESSION uncompressed)")
    head = control.head_object(Bucket=bucket, Key="parts.parquet")
    parts = int(head["ETag"].strip('"').split("-")[1])
    assert parts > 3 and head["ContentLength"] > 5 * parts
    assert duck.sql(f"(FROM '{path}') EXCEPT ({numbers})").fetchall() == []
    assert duck.sql(f"SELECT count(*) FROM '{path}'").fetchone() == (2_000_000,)


def test_duckdb_partitions_and_globs(duck, frame, bucket, control):
    stones = frame.to_arrow()  # noqa: F841
    root = f"s3://{bucket}/parts"
    duck.execute(f"COPY (FROM stones) TO '{root}' (FORMAT parquet, PARTITION_BY (year))")
    listed = control.list_objects_v2(Bucket=bucket, Prefix="parts/", Delimiter="/")
    folders = [entry["Prefix"] for entry in listed["CommonPrefixes"]]
    assert folders == [f"parts/year={year}/" for year in range(2020, 2024)]
    everything = duck.sql(f"FROM read_parquet('{root}/*/*.parquet') ORDER BY id").pl()
    assert everything.select(frame.columns).equals(frame)
    one = f"SELECT count(*), min(id) FROM read_parquet('{root}/**/*.parquet') WHERE year = 2021"
    assert duck.sql(one).fetchone() == (ROWS // 4, 1)
    names = duck.sql(f"SELECT file FROM glob('{root}/year=202[01]/*')").fetchall()
    assert {name.split("/")[-2] for (name,) in names} == {"year=2020", "year=2021"}


def test_duckdb_other_formats(duck, frame, bucket, control):
    small = frame.head(20_000).to_arrow()  # noqa: F841
    duck.execute(f"COPY (FROM small) TO 's3://{bucket}/small ä.csv.gz' (HEADER)")
    assert duck.sql(f"FROM 's3://{bucket}/small ä.csv.gz' ORDER BY id").pl().equals(
        frame.head(20_000)
    )
    control.put_object(Bucket=bucket, Key="texts/a b+c", Body="hewn".encode())
    found = duck.sql(f"SELECT content FROM read_text('s3://{bucket}/texts/*')").fetchall()
    assert found == [("hewn",)]
    with pytest.raises(duckdb.HTTPException, match="404"):
        duck.sql(f"FROM 's3://{bucket}/absent.parquet'").fetchall()


def test_duckdb_by_fsspec(fs, frame, bucket):
    """Without its own client: whatever file system Python has."""
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        stones = frame.to_arrow()  # noqa: F841
        path = f"s3://{bucket}/by/fsspec.parquet"
        connection.execute(f"COPY (FROM stones) TO '{path}'")
        assert connection.sql(f"FROM '{path}' ORDER BY id").pl().equals(frame)


def test_what_one_writes_the_others_read(duck, frame, options, fs, bucket):
    paths = {name: f"s3://{bucket}/shared/{name}.parquet" for name in ("polars", "duckdb", "arrow")}
    stones = frame.to_arrow()
    frame.lazy().sink_parquet(paths["polars"], storage_options=options)
    duck.execute(f"COPY (FROM stones) TO '{paths['duckdb']}'")
    pyarrow.parquet.write_table(stones, paths["arrow"].removeprefix("s3://"), filesystem=fs)
    for path in paths.values():
        assert polars.read_parquet(path, storage_options=options).sort("id").equals(frame)
        assert duck.sql(f"FROM '{path}' ORDER BY id").pl().equals(frame)
        found = pyarrow.parquet.read_table(path.removeprefix("s3://"), filesystem=fs)
        assert polars.from_arrow(found).sort("id").equals(frame)
    total = duck.sql(f"SELECT count(*), sum(id) FROM 's3://{bucket}/shared/*.parquet'").fetchone()
    assert total == (3 * ROWS, 3 * ROWS * (ROWS - 1) // 2)
