"""Iceberg tables by pyiceberg: files and metadata in the bucket, the catalog in SQLite."""

import random
import time

import pyarrow
import pyarrow.compute
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from writers import rows, together

WRITERS = 8
COMMITS = 4
INCREMENTS = 2
TRIES = 300

# Its ways to a bucket: the first is what it takes by itself.
FILE_IO = {
    "pyarrow": "pyiceberg.io.pyarrow.PyArrowFileIO",
    "fsspec": "pyiceberg.io.fsspec.FsspecFileIO",
}


def catalog(settings):
    return SqlCatalog("test", **settings)


@pytest.fixture
def settings(server, bucket, tmp_path):
    """What a user sets for a server of his own."""
    settings = {
        "uri": f"sqlite:///{tmp_path}/catalog.db?timeout=120",
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.endpoint": server.endpoint,
        "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
        "s3.region": "us-east-1",
    }
    catalog(settings).create_namespace("stones")
    return settings


def until_committed(settings, name, change):
    """Loads the table and changes it until no other was faster; tells how often one was."""
    for refused in range(TRIES):
        try:
            change(catalog(settings).load_table(name))
            return refused
        except CommitFailedException:
            time.sleep(random.uniform(0, 0.2))
    raise AssertionError(f"refused {TRIES} times")


def append(writer, settings):
    for number in range(COMMITS):
        until_committed(settings, "stones.t", lambda table: table.append(rows(writer, number)))


def test_every_append_of_eight_writers_is_there_once(settings, control, bucket):
    catalog(settings).create_table("stones.t", schema=rows(0, 0).schema)
    together(WRITERS, append, settings)

    table = catalog(settings).load_table("stones.t")
    assert len(table.snapshots()) == WRITERS * COMMITS
    assert all(it.summary["added-records"] == "100" for it in table.snapshots())
    expected = pyarrow.concat_tables(
        rows(writer, number) for writer in range(WRITERS) for number in range(COMMITS)
    )
    order = [("writer", "ascending"), ("number", "ascending"), ("place", "ascending")]
    assert table.scan().to_arrow().sort_by(order).to_pylist() == expected.to_pylist()
    one = table.scan(row_filter="writer == 3 and number == 2", selected_fields=("text",))
    assert one.to_arrow().sort_by("text").equals(rows(3, 2).select(["text"]).sort_by("text"))


def increment(_, settings):
    def add_one(table):
        then = table.current_snapshot().snapshot_id
        now = table.scan(snapshot_id=then).to_arrow()["n"][0].as_py() + 1
        table.overwrite(pyarrow.table({"n": [now]}))

    return sum(until_committed(settings, "stones.n", add_one) for _ in range(INCREMENTS))


def test_no_update_of_eight_writers_is_lost(settings):
    start = pyarrow.table({"n": [0]})
    # Without this pyiceberg itself would write what it computed from what is no longer so.
    never_again = {"commit.retry.num-retries": "0"}
    table = catalog(settings).create_table(
        "stones.n", schema=start.schema, properties=never_again
    )
    table.append(start)
    refused = together(WRITERS, increment, settings)
    print(f"{sum(refused)} commits refused for {WRITERS * INCREMENTS} that went through")
    table = catalog(settings).load_table("stones.n")
    assert table.scan().to_arrow()["n"].to_pylist() == [WRITERS * INCREMENTS]


@pytest.mark.parametrize("way", FILE_IO)
def test_a_table_changes(settings, control, bucket, way):
    """Its schema, its rows, its partitions; and it can be dropped with all that it has."""
    settings["py-io-impl"] = FILE_IO[way]
    table = catalog(settings).create_table("stones.t", schema=rows(0, 0).schema)
    table.append(rows(0, 0))
    with table.update_spec() as spec:
        spec.add_identity("number")
    table.append(rows(0, 1))
    with table.update_schema() as schema:
        schema.rename_column("text", "label")
    table.delete("place >= 50 and number == 0")
    found = table.scan().to_arrow()
    assert found.num_rows == 150 and "label" in found.column_names
    total = pyarrow.compute.sum(found["place"]).as_py()
    assert total == sum(range(50)) + sum(range(100))
    first = table.snapshots()[0].snapshot_id
    assert table.scan(snapshot_id=first).to_arrow().num_rows == 100
    catalog(settings).purge_table("stones.t")
    left = control.list_objects_v2(Bucket=bucket).get("Contents", [])
    assert [entry["Key"] for entry in left if entry["Key"].endswith(".parquet")] == []
