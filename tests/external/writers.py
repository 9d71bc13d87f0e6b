"""Processes that do the same at the same time."""

import multiprocessing
import queue
import time

import pyarrow

START_SECONDS = 300
"""How long they may take until all of them have loaded their libraries."""
WORK_SECONDS = 600

# A copy of a process has none of the threads that these libraries rest on.
SPAWN = multiprocessing.get_context("spawn")


def together(count, work, *arguments):
    """What `work(number, *arguments)` returned in `count` processes that began at one instant.

    If it failed in one of them, that fails the test.
    """
    start, told = SPAWN.Barrier(count), SPAWN.Queue()
    processes = [
        SPAWN.Process(target=_run, args=(start, told, number, work, arguments), daemon=True)
        for number in range(count)
    ]
    try:
        for process in processes:
            process.start()
        found = _collect(told, processes)
    finally:
        for process in processes:
            process.kill()
            process.join()
    failures = [error for error, _ in found.values() if error]
    assert not failures, "\n".join(failures)
    return [found[number][1] for number in range(count)]


def _run(start, told, number, work, arguments):
    try:
        start.wait(START_SECONDS)
        told.put((number, None, work(number, *arguments)))
    except BaseException as error:
        told.put((number, f"writer {number}: {type(error).__name__}: {error}", None))
        raise


def _collect(told, processes):
    found = {}
    deadline = time.monotonic() + START_SECONDS + WORK_SECONDS
    while len(found) < len(processes):
        try:
            number, error, result = told.get(timeout=1)
            found[number] = (error, result)
        except queue.Empty:
            assert time.monotonic() < deadline, f"{len(found)} of {len(processes)} came to an end"
            for number, process in enumerate(processes):
                if process.exitcode and number not in found and told.empty():
                    found[number] = (f"writer {number} died: {process.exitcode}", None)
    return found


def rows(writer, number):
    """What one commit appends to a table."""
    places = range(100)
    return pyarrow.table({
        "writer": pyarrow.array([writer] * 100, pyarrow.int64()),
        "number": pyarrow.array([number] * 100, pyarrow.int64()),
        "place": pyarrow.array(places, pyarrow.int64()),
        "text": [f"{writer}/{number}/{place}" for place in places],
    })
