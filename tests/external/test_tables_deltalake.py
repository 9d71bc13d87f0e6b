"""Delta tables: their log is a row of objects, each made by a PUT that no other may have made.

Nothing else keeps writers apart, neither a lock nor a catalog.
"""

import re
import time

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from writers import rows, together

WRITERS = 8
COMMITS = 8
INCREMENTS = 3
TRIES = 200


@pytest.fixture
def table(bucket):
    return f"s3://{bucket}/lake/table"


def append(writer, table, options):
    properties = CommitProperties(custom_metadata={"writer": str(writer)}, max_commit_retries=TRIES)
    for number in range(COMMITS):
        write_deltalake(
            table,
            rows(writer, number),
            mode="append",
            storage_options=options,
            commit_properties=properties,
        )


def test_every_append_of_eight_writers_is_there_once(server, control, bucket, table):
    options = object_store_options(server)
    write_deltalake(table, rows(0, 0).slice(0, 0), storage_options=options)
    together(WRITERS, append, table, options)

    listed = control.list_objects_v2(Bucket=bucket, Prefix="lake/table/_delta_log/")["Contents"]
    log = [re.search(r"/(\d{20})\.json$", entry["Key"]) for entry in listed]
    versions = sorted(int(found[1]) for found in log if found)
    assert versions == list(range(WRITERS * COMMITS + 1)), "one object for each commit, no gap"
    written = DeltaTable(table, storage_options=options)
    assert written.version() == WRITERS * COMMITS
    authors = [entry.get("writer") for entry in written.history() if entry["version"] > 0]
    assert sorted(authors) == sorted(str(it) for it in range(WRITERS) for _ in range(COMMITS))

    expected = pyarrow.concat_tables(
        rows(writer, number) for writer in range(WRITERS) for number in range(COMMITS)
    )
    order = [("writer", "ascending"), ("number", "ascending"), ("place", "ascending")]
    found = pyarrow.table(written.to_pyarrow_table()).sort_by(order)
    assert found.to_pylist() == expected.to_pylist()
    # Each state that the table was in can be looked at still.
    for version in (0, 1, WRITERS * COMMITS // 2):
        then = DeltaTable(table, version=version, storage_options=options)
        assert then.to_pyarrow_table().num_rows == version * 100


def increment(_, table, options):
    """Adds one, again and again, and tells how often another was faster."""
    refused = 0
    for _ in range(INCREMENTS):
        for attempt in range(TRIES):
            try:
                DeltaTable(table, storage_options=options).update(updates={"n": "n + 1"})
                break
            except CommitFailedError:
                refused += 1
                time.sleep(0.01 * (attempt % 10))
        else:
            raise AssertionError(f"refused {TRIES} times")
    return refused


def test_no_update_of_eight_writers_is_lost(server, table):
    options = object_store_options(server)
    write_deltalake(table, pyarrow.table({"n": [0]}), storage_options=options)
    refused = together(WRITERS, increment, table, options)
    print(f"{sum(refused)} commits refused for {WRITERS * INCREMENTS} that went through")
    found = DeltaTable(table, storage_options=options)
    assert found.to_pyarrow_table()["n"].to_pylist() == [WRITERS * INCREMENTS]
    assert found.version() == WRITERS * INCREMENTS
    assert sum(refused) > 0, "they never met, so nothing was asked"


def test_a_table_is_kept_up(server, control, bucket, table):
    """Partitions, merges, deletes, compaction, checkpoints and vacuum."""
    options = object_store_options(server)
    for number in range(3):
        write_deltalake(
            table, rows(0, number), mode="append", partition_by=["number"], storage_options=options
        )
    lake = DeltaTable(table, storage_options=options)
    changes = pyarrow.table({
        "writer": pyarrow.array([0, 0], pyarrow.int64()),
        "number": pyarrow.array([1, 1], pyarrow.int64()),
        "place": pyarrow.array([7, 1000], pyarrow.int64()),
        "text": ["changed", "added"],
    })
    merge = lake.merge(
        changes, "t.number = s.number AND t.place = s.place", source_alias="s", target_alias="t"
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    lake.delete("number = 2 AND place >= 50")
    lake.optimize.compact()
    lake.create_checkpoint()
    removed = lake.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert removed
    found = DeltaTable(table, storage_options=options).to_pyarrow_table().to_pylist()
    expected = rows(0, 0).to_pylist() + rows(0, 1).to_pylist() + rows(0, 2).to_pylist()[:50]
    expected[107]["text"] = "changed"
    expected.append({"writer": 0, "number": 1, "place": 1000, "text": "added"})
    key = lambda row: (row["number"], row["place"])  # noqa: E731
    assert sorted(found, key=key) == sorted(expected, key=key)
    left = {entry["Key"] for entry in control.list_objects_v2(Bucket=bucket)["Contents"]}
    assert not left & {f"lake/table/{path}" for path in removed}
    assert any(key.endswith(".checkpoint.parquet") for key in left)


def object_store_options(server):
    """What a user of delta-rs sets for a server of his own."""
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
