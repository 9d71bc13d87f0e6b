"""Directories with many files, through both views."""

import os

import pytest

from mounted import run


def _fill(place, count):
    folder = place / "many"
    folder.mkdir()
    for number in range(count):
        os.close(os.open(folder / f"f{number:06}", os.O_CREAT | os.O_WRONLY, 0o644))
    return folder


def _check(folder, place, control, count, report):
    names = [f"f{number:06}" for number in range(count)]
    assert sorted(os.listdir(folder)) == names
    assert len(run("ls", "-lU", folder).splitlines()) == count + 1
    pages = control.get_paginator("list_objects_v2").paginate(Bucket=place.name, Prefix="many/")
    listed = [found["Key"] for page in pages for found in page.get("Contents", [])]
    assert listed == [f"many/{name}" for name in names]
    # A listing continues correctly while the listed entries are removed.
    with os.scandir(folder) as entries:
        removed = 0
        for entry in entries:
            os.unlink(entry.path)
            removed += 1
    assert removed == count and os.listdir(folder) == []
    folder.rmdir()
    report(f"many: {count} files in a directory")


def test_more_files_than_a_page_of_a_listing_in_a_directory(place, control, report):
    _check(_fill(place, 1_200), place, control, 1_200, report)


@pytest.mark.whole("100,000 files take minutes")
def test_a_hundred_thousand_files_in_a_directory(place, control, report):
    _check(_fill(place, 100_000), place, control, 100_000, report)
