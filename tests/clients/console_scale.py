"""Measures the pages of the console on a large volume: time, CPU time and size of each.

    python console_scale.py PROGRAM FOLDER [--buckets N] [--users N] [--keys N]

The script starts the program over SQLite and blocks in FOLDER, fills a new volume, and requests
each page. A volume that FOLDER has already is measured as it is. The script prints a table, and
exits with 1 if a page takes longer or is larger than its limit. For example, the page of a bucket
lists 200 of a million keys, so its size does not depend on their number.
"""

import argparse
import os
import re
import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from api import allow, operator
from console import FORM
from program import gateway
from test_console_guards import PAGES

LIMIT_SECONDS = 0.3
LIMIT_BYTES = 150_000
REQUESTS = 11
THREADS = 16

MEMBERS_OF_A_REQUEST = 100

# The requests that a connection sends before it reads their responses.
PIPELINED = 16

# The names of the volume that pages show.
NAMES = {"bucket": "million", "user": "user-00500", "group": "everyone", "policy": "policy-0500"}

# Pages that the list of all pages does not have: searches, and another bucket.
FURTHER = [
    "/buckets?prefix=bucket-09",
    "/buckets/{bucket}/objects?prefix=many/05",
    "/buckets/{bucket}/objects?prefix=many/",
    "/buckets/bucket-00001/objects",
    "/users?prefix=user-009",
    "/simulator",
]

# Lists whose next page is measured, too.
PAGED = ["/buckets", "/buckets/{bucket}/objects?prefix=many/", "/users", "/policies"]


def put_keys(server, bucket, keys):
    """Stores empty objects as an anonymous client, several requests at once on one connection."""
    parts = urlsplit(server.endpoint)
    place = f"Host: {parts.netloc}\r\nContent-Length: 0\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        answers = connection.makefile("rb")
        for start in range(0, len(keys), PIPELINED):
            batch = keys[start : start + PIPELINED]
            heads = [f"PUT /{bucket}/{key} HTTP/1.1\r\n{place}" for key in batch]
            connection.sendall("".join(heads).encode())
            for _ in batch:
                status = answers.readline()
                assert b" 200 " in status, status
                while answers.readline() != b"\r\n":
                    pass


def spread(items, work):
    """Calls `work` with each item, several at once."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, items))


def fill(server, sizes):
    """Creates the buckets, users and keys."""
    api, bucket = operator(server), NAMES["bucket"]
    call = lambda method, path, body: api(method, path, body, expect=200)
    call("PUT", f"/buckets/{bucket}", {"versioning": False})
    call("PUT", f"/buckets/{bucket}/public", {"access": "upload"})
    keys = [f"many/{number:07}" for number in range(sizes.keys)]
    parts = [keys[first::THREADS] for first in range(THREADS)]
    spread(parts, lambda part: put_keys(server, bucket, part))
    call("PUT", f"/buckets/{bucket}/public", {"access": "private"})
    api.s3().put_object(Bucket=bucket, Key="a.txt", Body=b"word " * 400, ContentType="text/plain")
    spread(range(sizes.buckets), lambda it: call("PUT", f"/buckets/bucket-{it:05}", {}))
    document = {"document": allow("s3:GetObject", resource=f"arn:aws:s3:::{bucket}/*")}
    users = [f"user-{number:05}" for number in range(sizes.users)]
    policies = [f"policy-{number:04}" for number in range(sizes.users)]
    spread(policies, lambda name: call("PUT", f"/policies/{name}", document))
    pairs = zip(users, policies)
    spread(pairs, lambda pair: call("PUT", f"/users/{pair[0]}", {"policies": [pair[1]]}))
    call("PUT", f"/groups/{NAMES['group']}", {"policies": []})
    for first in range(0, len(users), MEMBERS_OF_A_REQUEST):
        added = users[first : first + MEMBERS_OF_A_REQUEST]
        call("PATCH", f"/groups/{NAMES['group']}", {"add": added})


class Visitor:
    """A person who is logged in, over one connection."""

    def __init__(self, server, process):
        self.server, self.process = server, process
        self.http = operator(server).http
        fields = {"access_key": server.access_key, "secret": server.secret_key}
        headers = {"Content-Type": FORM, "Origin": server.console}
        login = f"{server.console}/login"
        answer = self.http.request(
            "POST", login, body=urlencode(fields), headers=headers, redirect=False
        )
        assert answer.status == 303, answer.data
        self.headers = {"Cookie": answer.headers["set-cookie"].split(";")[0]}

    def get(self, path):
        url = f"{self.server.console}{path}"
        answer = self.http.request("GET", url, headers=self.headers, redirect=False)
        assert answer.status == 200 or path == "/no-such-page", (path, answer.status, answer.data)
        return answer.data

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def measure(self, path):
        """Returns the median and the largest time of a page, its CPU time, and its size."""
        times, before = [], self.cpu_seconds()
        for _ in range(REQUESTS):
            start = time.perf_counter()
            body = self.get(path)
            times.append(time.perf_counter() - start)
        cpu = (self.cpu_seconds() - before) / REQUESTS
        return statistics.median(times), max(times), cpu, len(body)

    def next_page(self, path):
        found = re.search(r'href="([^"]+)">Next page<', self.get(path).decode())
        return found and found.group(1).replace("&amp;", "&")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    for name, count in (("buckets", 10_000), ("users", 1_000), ("keys", 1_000_000)):
        parser.add_argument(f"--{name}", type=int, default=count)
    given = parser.parse_args()
    is_new = not given.folder.exists()
    given.folder.mkdir(exist_ok=True)
    with gateway(given.program, given.folder) as (server, process):
        if is_new:
            start = time.monotonic()
            fill(server, given)
            print(f"filled in {time.monotonic() - start:.0f} s", file=sys.stderr)
        visitor = Visitor(server, process)
        pages = [path.format(**NAMES) for path in PAGES + FURTHER]
        pages += filter(None, (visitor.next_page(path.format(**NAMES)) for path in PAGED))
        bad = False
        print("| page | median ms | largest ms | CPU ms | KB |\n|---|---:|---:|---:|---:|")
        for path in pages:
            median, largest, cpu, size = visitor.measure(path)
            is_over = median > LIMIT_SECONDS or size > LIMIT_BYTES
            bad |= is_over
            shown = path if len(path) < 60 else f"{path[:57]}…"
            print(
                f"| `{shown}` | {median * 1e3:.1f} | {largest * 1e3:.1f} | {cpu * 1e3:.1f} "
                f"| {size / 1e3:.0f} |{' over the limit' if is_over else ''}",
                flush=True,
            )
    sys.exit(bad)


if __name__ == "__main__":
    main()
