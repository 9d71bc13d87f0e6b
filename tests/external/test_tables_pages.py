"""The blocks of polars and DuckDB in docs/CLIENTS.md."""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_httpfs
import pytest

import blocks


@pytest.mark.parametrize("block", blocks.blocks("tables"))
def test_a_block_prints_what_the_page_says(block, server, control, bucket, tmp_path):
    # The extension of this environment, so that DuckDB downloads none.
    folder = Path(duckdb_extension_httpfs.__file__).parent / "extensions"
    extension = folder / f"v{duckdb.__version__}" / "httpfs.duckdb_extension"
    text = block["text"].replace("INSTALL httpfs; LOAD httpfs", f"LOAD '{extension}'")
    variables = {**blocks.environment(server), "HOME": str(tmp_path)}
    ours = {**block.groupdict(), "text": text}
    blocks.run(ours, [sys.executable, "-c"], bucket, tmp_path, variables)
