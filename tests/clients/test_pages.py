"""The blocks of docs/CLIENTS.md, each as a reader of the page would run it."""

import os
import re
import sys
from pathlib import Path

import pytest

import blocks
from server import fresh_bucket_name

KINDS = ["sh", "python", "frames"]


@pytest.fixture(scope="module")
def variables(server, tmp_path_factory):
    """The environment of the page, with the search path of the clients."""
    mc = os.environ["ASHLAR_TEST_MC"]
    path = [str(Path(sys.executable).parent), str(Path(mc).parent), os.environ["PATH"]]
    home = str(tmp_path_factory.mktemp("home"))
    return {**blocks.environment(server), "PATH": os.pathsep.join(path), "HOME": home}


@pytest.fixture(scope="module")
def photos():
    """The name of the bucket, which the first block of the page creates."""
    return fresh_bucket_name("pages")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.mark.parametrize("block", blocks.blocks(*KINDS))
def test_a_block_prints_what_the_page_says(block, variables, photos, folder):
    program = {
        "sh": ["bash", "-euo", "pipefail", "-c"],
        "python": [sys.executable, "-c"],
        "frames": [os.environ["ASHLAR_TEST_PYTHON_FRAMES"], "-c"],
    }[block["kind"]]
    blocks.run(block, program, photos, folder, variables)


def test_each_block_of_a_tested_section_has_a_marker():
    tested, _, others = blocks.PAGE.read_text().partition("\n## Other clients\n")
    _, _, tested = tested.partition("\n## Blocks that our tests run\n")
    fences = len(re.findall(r"^```\w+$", tested, re.MULTILINE))
    assert fences == len(blocks.blocks(*KINDS)) >= 9
    # The others say that no test runs them.
    for client in others.split("\n### ")[1:]:
        assert len(re.findall(r"^```\w+$", client, re.MULTILINE)) == 1, client
        assert ("<!-- run: tables," in client) != ("Our tests do not run this block" in client), client
