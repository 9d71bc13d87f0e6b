"""s3cmd, with a configuration file that contains the server and the two keys."""

import json
import re
import ssl
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

import encryption
from server import Command, fresh_bucket_name, random_file, read_tree, sha256_of, write_tree

MIB = 1 << 20
ANSWER_SECONDS = 60
TREE = {
    "a.txt": b"a",
    "dir/b.bin": bytes(range(256)) * 100,
    "dir/deep/\u00fcml\u00e4ut & space+plus.txt": b"dddd",
    "empty": b"",
}


@pytest.fixture
def s3cmd(server, tmp_path):
    endpoint = urlsplit(server.endpoint)
    settings = {
        "access_key": server.access_key,
        "secret_key": server.secret_key,
        # A template without the bucket's name means path-style addresses.
        "host_base": endpoint.netloc,
        "host_bucket": endpoint.netloc,
        "use_https": endpoint.scheme == "https",
        "signurl_use_https": endpoint.scheme == "https",
        **({"ca_certs_file": server.ca} if server.ca else {}),
    }
    lines = [f"{name} = {value}" for name, value in settings.items()]
    configuration = tmp_path / "s3cfg"
    configuration.write_text("\n".join(["[default]", *lines, ""]))
    return Command("s3cmd", ["--config", str(configuration), "--no-progress"])


@pytest.fixture
def tree(tmp_path):
    write_tree(tmp_path / "tree", TREE)
    return tmp_path / "tree"


@pytest.fixture
def listed(control):
    """A bucket in which access control lists are effective."""
    name = fresh_bucket_name("s3cmd")
    control.create_bucket(Bucket=name, ObjectOwnership="ObjectWriter")
    return name


def names_below(s3cmd, target):
    """Returns the output of `ls` below a target, relative to it."""
    entries = s3cmd.run("ls", "--recursive", target).splitlines()
    return sorted(entry.split(target, 1)[1] for entry in entries)


def fetched(server, url):
    """Returns the status and the body that a client without credentials gets."""
    context = ssl.create_default_context(cafile=server.ca) if server.ca else None
    try:
        with urllib.request.urlopen(url, context=context, timeout=ANSWER_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_make_list_and_remove_a_bucket(s3cmd):
    target = f"s3://{fresh_bucket_name('s3cmd')}"
    s3cmd.run("mb", target)
    assert target in s3cmd.run("ls").split()
    assert target in s3cmd.run("info", target)
    s3cmd.run("rb", target)
    assert target not in s3cmd.run("ls").split()
    missing = s3cmd.attempt("ls", target)
    assert missing.returncode != 0 and "NoSuchBucket" in missing.stderr


def test_put_get_and_delete(s3cmd, bucket, tmp_path):
    source, target = tmp_path / "source.json", f"s3://{bucket}/d/\u00fc & +.json"
    source.write_bytes(b'{"a": 1}')
    s3cmd.run("put", "--add-header", "x-amz-meta-colour:green", source, target)
    shown = s3cmd.run("info", target)
    assert re.search(r"File size:\s+8\n", shown)
    assert re.search(r"MIME type:\s+application/json", shown)
    assert re.search(r"x-amz-meta-colour:\s+green", shown)
    s3cmd.run("get", target, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert s3cmd.run("get", target, "-") == '{"a": 1}'
    assert re.search(r"^\s*8\s+1 objects", s3cmd.run("du", f"s3://{bucket}"))
    s3cmd.run("del", target)
    assert names_below(s3cmd, f"s3://{bucket}/") == []
    missing = s3cmd.attempt("get", target, tmp_path / "none")
    assert missing.returncode != 0


def test_put_from_standard_input(s3cmd, bucket):
    s3cmd.run("put", "-", f"s3://{bucket}/piped", stdin="from a pipe")
    assert s3cmd.run("get", f"s3://{bucket}/piped", "-") == "from a pipe"


def test_an_interrupted_download_continues(s3cmd, bucket, tmp_path):
    digest = random_file(tmp_path / "source", 2 * MIB)
    s3cmd.run("put", tmp_path / "source", f"s3://{bucket}/k")
    (tmp_path / "part").write_bytes((tmp_path / "source").read_bytes()[: MIB + 7])
    s3cmd.run("get", "--continue", f"s3://{bucket}/k", tmp_path / "part")
    assert sha256_of(tmp_path / "part") == digest


def test_copy_move_and_change_headers(s3cmd, control, bucket, tmp_path):
    (tmp_path / "f").write_bytes(b"copied")
    s3cmd.run("put", "--mime-type", "text/x-one", tmp_path / "f", f"s3://{bucket}/one")
    s3cmd.run("cp", f"s3://{bucket}/one", f"s3://{bucket}/two")
    s3cmd.run("mv", f"s3://{bucket}/one", f"s3://{bucket}/three")
    assert names_below(s3cmd, f"s3://{bucket}/") == ["three", "two"]
    assert control.head_object(Bucket=bucket, Key="three")["ContentType"] == "text/x-one"
    s3cmd.run("modify", "--add-header", "Cache-Control:max-age=7", f"s3://{bucket}/two")
    changed = control.get_object(Bucket=bucket, Key="two")
    assert (changed["CacheControl"], changed["Body"].read()) == ("max-age=7", b"copied")
    assert changed["ContentType"] == "text/x-one"


def test_trees_up_and_down(s3cmd, bucket, tree, tmp_path):
    s3cmd.run("put", "--recursive", f"{tree}/", f"s3://{bucket}/t/")
    assert names_below(s3cmd, f"s3://{bucket}/t/") == sorted(TREE)
    (tmp_path / "down").mkdir()
    s3cmd.run("get", "--recursive", f"s3://{bucket}/t/", f"{tmp_path}/down/")
    assert read_tree(tmp_path / "down") == TREE
    s3cmd.run("del", "--recursive", "--force", f"s3://{bucket}/t/")
    assert names_below(s3cmd, f"s3://{bucket}/") == []


def test_sync_transfers_only_differences(s3cmd, control, bucket, tree, tmp_path):
    target = f"s3://{bucket}/t/"
    s3cmd.run("sync", f"{tree}/", target)
    assert names_below(s3cmd, target) == sorted(TREE)
    assert "upload:" not in s3cmd.run("sync", f"{tree}/", target)
    (tree / "a.txt").write_bytes(b"b")  # same size, so only the MD5 tells
    (tree / "empty").unlink()
    said = s3cmd.run("sync", "--delete-removed", f"{tree}/", target)
    assert said.count("upload:") == 1 and said.count("delete:") == 1
    assert control.get_object(Bucket=bucket, Key="t/a.txt")["Body"].read() == b"b"
    (tmp_path / "down").mkdir()
    s3cmd.run("sync", target, f"{tmp_path}/down/")
    assert read_tree(tmp_path / "down") == read_tree(tree)
    s3cmd.run("sync", target, f"s3://{bucket}/u/")
    assert names_below(s3cmd, f"s3://{bucket}/u/") == names_below(s3cmd, target)


def test_upload_in_parts(s3cmd, control, bucket, tmp_path):
    digest = random_file(tmp_path / "big", 12 * MIB)
    s3cmd.run("put", "--multipart-chunk-size-mb=5", tmp_path / "big", f"s3://{bucket}/big")
    assert control.head_object(Bucket=bucket, Key="big")["ETag"].endswith('-3"')
    s3cmd.run("get", f"s3://{bucket}/big", tmp_path / "back")
    assert sha256_of(tmp_path / "back") == digest
    s3cmd.run("cp", f"s3://{bucket}/big", f"s3://{bucket}/copy")
    s3cmd.run("get", "--force", f"s3://{bucket}/copy", tmp_path / "back")
    assert sha256_of(tmp_path / "back") == digest


def test_uploads_in_parts_are_listed_continued_and_aborted(s3cmd, control, bucket, tmp_path):
    random_file(tmp_path / "big", 11 * MIB)
    content = (tmp_path / "big").read_bytes()
    begun = control.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    control.upload_part(
        Bucket=bucket, Key="k", UploadId=begun, PartNumber=1, Body=content[: 5 * MIB]
    )
    assert begun in s3cmd.run("multipart", f"s3://{bucket}")
    assert str(5 * MIB) in s3cmd.run("listmp", f"s3://{bucket}/k", begun)
    said = s3cmd.run(
        "put",
        "--verbose",
        "--multipart-chunk-size-mb=5",
        f"--upload-id={begun}",
        tmp_path / "big",
        f"s3://{bucket}/k",
    )
    assert control.get_object(Bucket=bucket, Key="k")["Body"].read() == content, said
    other = control.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    s3cmd.run("abortmp", f"s3://{bucket}/k", other)
    assert other not in s3cmd.run("multipart", f"s3://{bucket}")


def test_a_policy_makes_a_bucket_public(s3cmd, server, bucket, tmp_path):
    (tmp_path / "f").write_bytes(b"open")
    s3cmd.run("put", tmp_path / "f", f"s3://{bucket}/k")
    url = f"{server.endpoint}/{bucket}/k"
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": "*",
                "Action": "s3:GetObject",
                "Resource": f"arn:aws:s3:::{bucket}/*",
            }
        ],
    }
    (tmp_path / "policy").write_text(json.dumps(policy))
    s3cmd.run("setpolicy", tmp_path / "policy", f"s3://{bucket}")
    assert "s3:GetObject" in s3cmd.run("info", f"s3://{bucket}")
    assert fetched(server, url) == (200, b"open")
    s3cmd.run("delpolicy", f"s3://{bucket}")
    assert re.search(r"Policy:\s+none", s3cmd.run("info", f"s3://{bucket}"))


@pytest.mark.ashlar("MinIO has no CORS configuration of buckets")
def test_a_cors_configuration_is_stored(s3cmd, bucket, tmp_path):
    (tmp_path / "cors").write_text(
        "<CORSConfiguration><CORSRule><AllowedOrigin>https://page.example</AllowedOrigin>"
        "<AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"
    )
    s3cmd.run("setcors", tmp_path / "cors", f"s3://{bucket}")
    assert "https://page.example" in s3cmd.run("info", f"s3://{bucket}")
    s3cmd.run("delcors", f"s3://{bucket}")
    assert re.search(r"CORS:\s+none", s3cmd.run("info", f"s3://{bucket}"))


@pytest.mark.ashlar("MinIO has no access control lists")
def test_an_access_control_list_makes_an_object_public(s3cmd, server, listed, tmp_path):
    (tmp_path / "f").write_bytes(b"open")
    url = f"{server.endpoint}/{listed}/k"
    s3cmd.run("put", tmp_path / "f", f"s3://{listed}/k")
    s3cmd.run("setacl", "--acl-public", f"s3://{listed}/k")
    assert "*anon*: READ" in s3cmd.run("info", f"s3://{listed}/k")
    assert fetched(server, url) == (200, b"open")
    s3cmd.run("setacl", "--acl-private", f"s3://{listed}/k")
    assert "*anon*" not in s3cmd.run("info", f"s3://{listed}/k")
    assert fetched(server, url)[0] == 403


@pytest.mark.ashlar("MinIO has no access control lists")
def test_a_bucket_without_effective_lists_refuses_them(s3cmd, bucket, tmp_path):
    (tmp_path / "f").write_bytes(b"closed")
    s3cmd.run("put", tmp_path / "f", f"s3://{bucket}/k")
    refused = s3cmd.attempt("setacl", "--acl-public", f"s3://{bucket}/k")
    assert refused.returncode != 0 and "AccessControlListNotSupported" in refused.stderr


def test_a_signed_url_works_without_credentials(s3cmd, server, bucket, tmp_path):
    (tmp_path / "f").write_bytes(b"signed")
    s3cmd.run("put", tmp_path / "f", f"s3://{bucket}/k")
    url = s3cmd.run("signurl", f"s3://{bucket}/k", "+60").strip()
    assert fetched(server, url) == (200, b"signed")
    assert fetched(server, url.replace("Expires=", "Expires=1"))[0] == 403


@pytest.mark.ashlar("the reference has no key management service")
def test_modes_of_encryption(s3cmd, server, control, bucket, tmp_path):
    digest = random_file(tmp_path / "f", 6 * MIB)
    s3cmd.run("put", "--server-side-encryption", tmp_path / "f", f"s3://{bucket}/s3")
    assert encryption.applied(control.head_object(Bucket=bucket, Key="s3")) == encryption.S3.answer
    kms = ["--server-side-encryption", f"--server-side-encryption-kms-id={server.kms_key}"]
    mode = encryption.kms(server.kms_key)
    s3cmd.run("put", *kms, "--multipart-chunk-size-mb=5", tmp_path / "f", f"s3://{bucket}/kms")
    s3cmd.run("cp", *kms, f"s3://{bucket}/s3", f"s3://{bucket}/copy")
    for key in ("kms", "copy"):
        assert encryption.applied(control.head_object(Bucket=bucket, Key=key)) == mode.answer
    s3cmd.run("get", f"s3://{bucket}/kms", tmp_path / "back")
    assert sha256_of(tmp_path / "back") == digest
