"""The blocks of docs/CLIENTS.md that tests run.

A comment before a block, which readers of the page do not see, has the kind of its program and a line
that it prints.
"""

import re
import subprocess
from pathlib import Path

import pytest

from server import COMMAND_SECONDS, REGION

PAGE = Path(__file__).parents[2] / "docs/CLIENTS.md"

MARKER = re.compile(
    r"^<!-- run: (?P<kind>\w+), prints: (?P<prints>[^\n]+) -->\n"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

# The bucket of the page. A suite shares its server with others, so each run has another bucket.
BUCKET = "photos"


def blocks(*kinds):
    """Returns the blocks of these kinds, each with the heading above it."""
    text = PAGE.read_text()
    found = []
    for match in MARKER.finditer(text):
        heading = re.findall(r"^### (.+)$", text[: match.start()], re.MULTILINE)[-1]
        if match["kind"] in kinds:
            found.append(pytest.param(match, id=f"{heading} {len(found)}"))
    return found


def environment(server):
    """The variables that the page sets at its beginning."""
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "LANG": "C.UTF-8",
    }


def run(block, program, bucket, folder, variables):
    """Runs a block with a bucket in place of the page's. It must print its line."""
    text = re.sub(rf"\b{BUCKET}\b", bucket, block["text"])
    done = subprocess.run(
        [*program, text],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert block["prints"] in done.stdout.splitlines(), done.stdout
