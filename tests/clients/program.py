"""The gateway's program, which a script starts over SQLite and blocks in a folder."""

import contextlib
import os
import re
import subprocess
import time

from server import Server

START_SECONDS = 120

KEYS = {"ASHLAR_ROOT_USER": "operator", "ASHLAR_ROOT_PASSWORD": "operator-secret"}


@contextlib.contextmanager
def gateway(program, folder):
    """Starts the program, and yields its server and its process."""
    log = folder / "log"
    listens = ("LISTEN", "ADMIN_LISTEN", "CONSOLE_LISTEN")
    settings = {f"ASHLAR_{name}": "127.0.0.1:0" for name in listens}
    settings |= {"ASHLAR_DATA_DIR": str(folder / "data"), **KEYS}
    with open(log, "w") as output:
        process = subprocess.Popen(
            [program, "serve"], env={**os.environ, **settings}, stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not (found := re.search(r'endpoint="([^"]+)".* console="([^"]+)"', log.read_text())):
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        endpoint, console = found.groups()
        yield Server(endpoint, *KEYS.values(), None, "ashlar", _console=console), process
    finally:
        process.terminate()
        process.wait()
