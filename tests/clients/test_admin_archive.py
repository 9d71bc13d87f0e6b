"""ZIP files of folders, made while they are sent."""

import calendar
import http.client
import io
import os
import ssl
import time
import zipfile
from urllib.parse import quote, urlsplit

import pytest

from api import add_policy, add_user, allow
from server import refused

HOSTILE = {
    "../../etc/passwd": "_/_/etc/passwd",
    "/abs": "abs",
    "back\\slash": "back/slash",
    "C:drive": "C_drive",
    "ctl\x01": "ctl_",
}


def archive(api, bucket, prefix=""):
    query = f"?prefix={quote(prefix, safe='')}" if prefix else ""
    answer = api("GET", f"/buckets/{bucket}/archive{query}", expect=200)
    assert answer.headers["content-type"] == "application/zip"
    return zipfile.ZipFile(io.BytesIO(answer.body))


def test_a_folder_is_one_file(api, control, bucket):
    contents = {
        "2026/a.txt": b"a" * 10,
        "2026/deep/er/b.bin": os.urandom(3_000_000),
        "2026/empty": b"",
        "2026/ünï 🎉.txt": b"x",
    }
    for key, body in {**contents, "2027/other": b"no", "2026/folder/": b""}.items():
        control.put_object(Bucket=bucket, Key=key, Body=body)
    found = archive(api, bucket, "2026/")
    assert found.testzip() is None
    read = {f"2026/{name}": found.read(name) for name in found.namelist()}
    assert read == contents
    for entry in found.infolist():
        assert entry.external_attr >> 16 == 0o100644, entry
        assert abs(time.time() - calendar.timegm((*entry.date_time, 0, 0, 0))) < 3600, entry
    assert sorted(archive(api, bucket).namelist()) == sorted([*contents, "2027/other"])


def test_more_objects_than_a_page_of_a_list(api, control, bucket):
    keys = [f"{number:04}" for number in range(1_050)]
    for key in keys:
        control.put_object(Bucket=bucket, Key=key, Body=key.encode())
    found = archive(api, bucket)
    assert found.namelist() == keys
    assert found.read("1049") == b"1049"


def test_names_are_safe_to_unpack(api, control, bucket):
    for key in [*HOSTILE, "abs"]:
        control.put_object(Bucket=bucket, Key=key, Body=key.encode())
    names = archive(api, bucket).namelist()
    assert sorted(names) == sorted([*HOSTILE.values(), "abs (2)"])


def test_objects_that_the_sender_may_not_read_are_named(api, control, bucket):
    for key in ("open/a", "secret/b"):
        control.put_object(Bucket=bucket, Key=key, Body=b"x")
    both = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    reads = add_policy(api, allow("s3:ListBucket", "s3:GetObject", resource=both))
    secret = f"arn:aws:s3:::{bucket}/secret/*"
    denied = add_policy(api, allow("s3:GetObject", resource=secret, effect="Deny"))
    found = archive(add_user(api, policies=[reads, denied]), bucket)
    assert found.namelist() == ["open/a", "NOT-IN-THIS-ARCHIVE.txt"]
    left_out = found.read("NOT-IN-THIS-ARCHIVE.txt").decode()
    assert left_out.startswith('"secret/b": ') and left_out.count("\n") == 1
    stranger = add_user(api, "admin:ServerInfo")
    assert stranger("GET", f"/buckets/{bucket}/archive").code == "AccessDenied"
    assert api("GET", "/buckets/no-such-bucket-here/archive").code == "NoSuchBucket"


def opened(api, bucket):
    """Returns a connection on which an archive has begun and waits for its reader."""
    url = urlsplit(api.server.console)
    request = api.signed("GET", f"/api/v1/buckets/{bucket}/archive", b"", {})
    address = (url.hostname, url.port)
    if url.scheme == "https":
        context = ssl.create_default_context(cafile=api.server.ca)
        connection = http.client.HTTPSConnection(*address, context=context)
    else:
        connection = http.client.HTTPConnection(*address)
    connection.request("GET", f"/api/v1/buckets/{bucket}/archive", headers=dict(request.headers))
    answer = connection.getresponse()
    assert answer.status == 200
    answer.read(64 << 10)
    return answer


def test_an_archive_ends_with_its_sender(api, control, bucket):
    for number in range(40):
        control.put_object(Bucket=bucket, Key=f"{number:02}", Body=os.urandom(1 << 20))
    cleo = add_user(api, policies=["readonly"])
    answer = opened(cleo, bucket)
    api("PATCH", f"/users/{cleo.access_key}", {"enabled": False}, expect=200)
    with pytest.raises((http.client.HTTPException, OSError)):
        answer.read()
