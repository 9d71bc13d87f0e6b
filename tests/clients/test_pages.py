"""The blocks of docs/CLIENTS.md, each as a reader of the page would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from server import COMMAND_SECONDS, REGION, fresh_bucket_name

PAGE = Path(__file__).parents[2] / "docs/CLIENTS.md"

# The marker is a comment, which readers of the page do not see.
MARKER = re.compile(
    r"^<!-- run: (?P<kind>sh|python|frames), prints: (?P<prints>[^\n]+) -->\n"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

# The bucket of the page. A suite shares its server with others, so each run has another bucket.
BUCKET = "photos"


def blocks():
    """Returns the marked blocks, each with the heading above it."""
    text = PAGE.read_text()
    found = []
    for match in MARKER.finditer(text):
        heading = re.findall(r"^### (.+)$", text[: match.start()], re.MULTILINE)[-1]
        found.append(pytest.param(match, id=f"{heading} {len(found)}"))
    return found


@pytest.fixture(scope="module")
def environment(server, tmp_path_factory):
    """The environment of the page, with the search path of the clients."""
    mc = os.environ["ASHLAR_TEST_MC"]
    path = [str(Path(sys.executable).parent), str(Path(mc).parent), os.environ["PATH"]]
    return {
        "PATH": os.pathsep.join(path),
        "HOME": str(tmp_path_factory.mktemp("home")),
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "LANG": "C.UTF-8",
    }


@pytest.fixture(scope="module")
def photos():
    """The name of the bucket, which the first block of the page creates."""
    return fresh_bucket_name("pages")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.mark.parametrize("block", blocks())
def test_a_block_prints_what_the_page_says(block, environment, photos, folder):
    program = {
        "sh": ["bash", "-euo", "pipefail", "-c"],
        "python": [sys.executable, "-c"],
        "frames": [os.environ["ASHLAR_TEST_PYTHON_FRAMES"], "-c"],
    }[block["kind"]]
    text = re.sub(rf"\b{BUCKET}\b", photos, block["text"])
    done = subprocess.run(
        [*program, text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert block["prints"] in done.stdout.splitlines(), done.stdout


def test_each_block_of_a_tested_section_has_a_marker():
    tested, _, others = PAGE.read_text().partition("\n## Other clients\n")
    _, _, tested = tested.partition("\n## Blocks that our tests run\n")
    fences = len(re.findall(r"^```\w+$", tested, re.MULTILINE))
    assert fences == len(blocks()) >= 9
    assert "<!-- run:" not in others
