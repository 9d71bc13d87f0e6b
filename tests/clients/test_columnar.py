"""The cost of a few columns of a large Parquet file in bytes from the backend, and of a second
read.

The gateway under test caches a tenth of the file. Its metrics show the bytes from the backend.
"""

import os
import urllib.request

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import s3fs
from pyarrow.fs import S3FileSystem

from server import fresh_bucket_name

COLUMNS = 200
ROWS = 312_500
ROW_GROUP = 62_500
WANTED = ["c007", "c100", "c193"]

pytestmark = pytest.mark.ashlar("the suite tests the gateway's cache")


def fetched():
    """Returns the bytes that the gateway has read from its backend so far."""
    address = os.environ["ASHLAR_TEST_ADMIN"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("ashlar_blocks_bytes") and 'operation="get"' in line:
                return int(line.rsplit(" ", 1)[1])
    raise AssertionError("the gateway does not tell")


@pytest.fixture(scope="module")
def wide(server, tmp_path_factory):
    """Returns the path of a file of 500 MB, and the length of the wanted columns and the footer."""
    local = tmp_path_factory.mktemp("columnar") / "wide.parquet"
    random = numpy.random.default_rng(7)
    names = [f"c{number:03}" for number in range(COLUMNS)]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
    settings = {"compression": "none", "use_dictionary": False}
    with pyarrow.parquet.ParquetWriter(local, schema, **settings) as writer:
        for _ in range(ROWS // ROW_GROUP):
            group = {name: random.random(ROW_GROUP) for name in names}
            writer.write_table(pyarrow.table(group, schema=schema))
    assert local.stat().st_size >= 500_000_000
    metadata = pyarrow.parquet.read_metadata(local)
    needed = metadata.serialized_size + 8
    for group in range(metadata.num_row_groups):
        columns = (metadata.row_group(group).column(number) for number in range(COLUMNS))
        needed += sum(it.total_compressed_size for it in columns if it.path_in_schema in WANTED)
    columns = pyarrow.parquet.read_table(local, columns=WANTED)
    fs = by_s3fs(server)
    path = f"{fresh_bucket_name()}/wide.parquet"
    fs.mkdir(path.split("/")[0])
    fs.put_file(str(local), path)
    local.unlink()
    return path, needed, columns


def by_s3fs(server):
    return s3fs.S3FileSystem(
        key=server.access_key,
        secret=server.secret_key,
        client_kwargs={"endpoint_url": server.endpoint, "region_name": "us-east-1"},
        # Its read-ahead would add bytes that the test does not need.
        default_cache_type="none",
        skip_instance_cache=True,
    )


def by_pyarrow(server):
    scheme, _, address = server.endpoint.partition("://")
    return S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        region="us-east-1",
        scheme=scheme,
        endpoint_override=address,
    )


def test_three_columns_cost_little_and_are_cached(server, wide):
    path, needed, columns = wide
    before = fetched()
    found = pyarrow.parquet.read_table(path, columns=WANTED, filesystem=by_s3fs(server))
    assert found.equals(columns)
    cold = fetched() - before
    print(f"{cold} bytes fetched for {needed}: {cold / needed:.2f}")
    assert 0.9 * needed < cold <= 1.5 * needed, f"{cold / needed:.2f} times what was needed"

    before = fetched()
    found = pyarrow.parquet.read_table(path, columns=WANTED, filesystem=by_s3fs(server))
    assert found.equals(columns)
    assert fetched() == before, "the second look finds everything in the cache"
    found = pyarrow.parquet.read_table(path, columns=WANTED, filesystem=by_pyarrow(server))
    assert found.equals(columns)
    again = fetched() - before
    assert again <= 0.05 * needed, f"another client cost {again / needed:.2f} times what is needed"
