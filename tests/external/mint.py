"""The functional tests of MinIO's clients, which their test bench `mint` runs against servers.

They have in common how they are told where the server is, and how they tell what they found: a
line of JSON for each thing they looked at, with `PASS`, `FAIL`, or `NA` where the server says that
it does not do it, which is no success here. They end at the first failure, so each case is a
process of its own.
"""

import json
import os
import subprocess
from urllib.parse import urlsplit

CASE_SECONDS = 240


def environment(server, **more):
    """What a suite is told. Without it, some look for a public server."""
    endpoint = urlsplit(server.endpoint)
    settings = {
        "SERVER_ENDPOINT": endpoint.netloc,
        "ACCESS_KEY": server.access_key,
        "SECRET_KEY": server.secret_key,
        "ENABLE_HTTPS": "1" if endpoint.scheme == "https" else "0",
        "MINT_MODE": "full",
    }
    if server.ca:
        settings["SSL_CERT_FILE"] = server.ca
    return {**os.environ, **settings, **more}


def run(words, folder, environment, silent=False):
    """Runs a case in a folder; returns whether it passed, and what it said.

    `silent` is for a case that prints nothing when it succeeds.
    """
    try:
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            timeout=CASE_SECONDS,
            cwd=folder,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return False, "it did not end"
    said = done.stdout + done.stderr
    found = statuses(done.stdout)
    passed = found == {"PASS"} or (silent and not found)
    return passed and done.returncode == 0, said


def statuses(text):
    """The statuses that a suite's lines tell."""
    found = set()
    for line in text.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and "status" in told:
            found.add(told["status"])
    return found
