"""MinIO's client after `mc alias set`, with default settings."""

import json
import os
import shutil
from pathlib import Path

import pytest

import encryption
from server import Command, fresh_bucket_name, random_file, read_tree, sha256_of, write_tree

MIB = 1 << 20
TREE = {
    "a.txt": b"a",
    "dir/b.txt": b"bb",
    "dir/deep/c.log": b"ccc",
    "dir/deep/\u00fcml\u00e4ut & space.txt": b"dddd",
    "empty": b"",
}


@pytest.fixture
def mc(server, tmp_path):
    configuration = tmp_path / "mc"
    if server.ca:
        authorities = configuration / "certs" / "CAs"
        authorities.mkdir(parents=True)
        shutil.copy(server.ca, authorities / "ashlar.crt")
    program = os.environ.get("ASHLAR_TEST_MC", "mc")
    command = Command(program, ["--config-dir", str(configuration), "--no-color"])
    command.run("alias", "set", "s", server.endpoint, server.access_key, server.secret_key)
    return command


@pytest.fixture
def tree(tmp_path):
    write_tree(tmp_path / "tree", TREE)
    return tmp_path / "tree"


def lines(output):
    """Returns the objects of mc's JSON output, one a line."""
    return [json.loads(line) for line in output.splitlines() if line]


def names_below(mc, target):
    return sorted(each["key"] for each in lines(mc.run("--json", "ls", "--recursive", target)))


def test_alias_refuses_a_wrong_secret(mc, server):
    failed = mc.attempt("alias", "set", "wrong", server.endpoint, server.access_key, "not-it-at-all")
    assert failed.returncode != 0


def test_make_list_and_remove_a_bucket(mc):
    name = fresh_bucket_name("mc")
    mc.run("mb", f"s/{name}")
    assert f"{name}/" in [each["key"] for each in lines(mc.run("--json", "ls", "s"))]
    mc.run("mb", "--ignore-existing", f"s/{name}")
    mc.run("rb", f"s/{name}")
    assert f"{name}/" not in [each["key"] for each in lines(mc.run("--json", "ls", "s"))]


def test_copy_up_cat_stat_and_down(mc, bucket, tree, tmp_path):
    mc.run("cp", tree / "dir/b.txt", f"s/{bucket}/x/b.txt")
    assert mc.run("cat", f"s/{bucket}/x/b.txt") == "bb"
    [stat] = lines(mc.run("--json", "stat", f"s/{bucket}/x/b.txt"))
    assert stat["size"] == 2
    assert stat["etag"] == "21ad0bd836b90d08f4cf640b4c298e7c"
    assert stat["metadata"]["Content-Type"] == "text/plain"
    mc.run("cp", f"s/{bucket}/x/b.txt", f"s/{bucket}/y/ä copy.txt")
    mc.run("cp", f"s/{bucket}/y/ä copy.txt", tmp_path / "down.txt")
    assert (tmp_path / "down.txt").read_bytes() == b"bb"
    assert mc.attempt("stat", f"s/{bucket}/absent").returncode != 0


def test_attributes_are_restored(mc, bucket, tree):
    mc.run("cp", "--attr", "Cache-Control=max-age=90;Artist=Mason", tree / "a.txt", f"s/{bucket}/k")
    [stat] = lines(mc.run("--json", "stat", f"s/{bucket}/k"))
    assert stat["metadata"]["Cache-Control"] == "max-age=90"
    assert stat["metadata"]["X-Amz-Meta-Artist"] == "Mason"


def test_pipe(mc, bucket):
    content = bytes(range(256)) * 50_000
    mc.run("pipe", f"s/{bucket}/piped", stdin=content, text=False)
    assert mc.run("cat", f"s/{bucket}/piped", text=False) == content


def test_mirror_both_ways(mc, bucket, tree, tmp_path):
    mc.run("mirror", tree, f"s/{bucket}/tree")
    assert names_below(mc, f"s/{bucket}/tree") == sorted(TREE)
    mc.run("mirror", f"s/{bucket}/tree", tmp_path / "down")
    assert read_tree(tmp_path / "down") == TREE
    (tree / "a.txt").unlink()
    (tree / "dir/b.txt").write_bytes(b"another length")
    mc.run("mirror", "--overwrite", "--remove", tree, f"s/{bucket}/tree")
    assert names_below(mc, f"s/{bucket}/tree") == sorted(set(TREE) - {"a.txt"})
    assert mc.run("cat", f"s/{bucket}/tree/dir/b.txt") == "another length"


def test_list_find_and_du(mc, bucket, tree):
    mc.run("cp", "--recursive", f"{tree}/", f"s/{bucket}/")
    top = [each["key"] for each in lines(mc.run("--json", "ls", f"s/{bucket}/"))]
    assert sorted(top) == ["a.txt", "dir/", "empty"]
    found = mc.run("find", f"s/{bucket}", "--name", "*.txt").splitlines()
    assert sorted(Path(each).name for each in found) == ["a.txt", "b.txt", "\u00fcml\u00e4ut & space.txt"]
    [usage] = lines(mc.run("--json", "du", f"s/{bucket}"))
    assert (usage["size"], usage["objects"]) == (sum(map(len, TREE.values())), len(TREE))
    assert mc.run("diff", tree, f"s/{bucket}") == ""


def test_move(mc, bucket, tree):
    mc.run("cp", "--recursive", f"{tree}/", f"s/{bucket}/from/")
    mc.run("mv", f"s/{bucket}/from/a.txt", f"s/{bucket}/renamed.txt")
    mc.run("mv", "--recursive", f"s/{bucket}/from/dir/", f"s/{bucket}/to/")
    assert names_below(mc, f"s/{bucket}/from") == ["empty"]
    assert names_below(mc, f"s/{bucket}/to") == sorted(
        name.removeprefix("dir/") for name in TREE if name.startswith("dir/")
    )
    assert mc.run("cat", f"s/{bucket}/renamed.txt") == "a"


def test_remove(mc, control, bucket, tree):
    mc.run("cp", "--recursive", f"{tree}/", f"s/{bucket}/")
    mc.run("rm", f"s/{bucket}/a.txt")
    assert "a.txt" not in names_below(mc, f"s/{bucket}")
    mc.run("rm", "-r", "--force", f"s/{bucket}/dir/")
    assert names_below(mc, f"s/{bucket}") == ["empty"]
    mc.run("rb", "--force", f"s/{bucket}")
    assert bucket not in [each["Name"] for each in control.list_buckets()["Buckets"]]


def test_tags(mc, bucket, tree):
    mc.run("cp", "--tags", "a=1&b=2", tree / "a.txt", f"s/{bucket}/k")
    [listed] = lines(mc.run("--json", "tag", "list", f"s/{bucket}/k"))
    assert listed["tagset"] == {"a": "1", "b": "2"}
    mc.run("tag", "remove", f"s/{bucket}/k")


def test_share(mc, server, bucket, tree):
    mc.run("cp", tree / "dir/b.txt", f"s/{bucket}/k")
    [shared] = lines(mc.run("--json", "share", "download", f"s/{bucket}/k"))
    curl = Command("curl", ["--silent", "--fail", *(["--cacert", server.ca] if server.ca else [])])
    assert curl.run(shared["share"]) == "bb"


def test_100_mib(mc, control, bucket, tmp_path):
    written = random_file(tmp_path / "up", 100 * MIB)
    mc.run("--quiet", "cp", tmp_path / "up", f"s/{bucket}/big")
    assert control.head_object(Bucket=bucket, Key="big")["ETag"].endswith('-7"'), "parts of 16 MiB"
    mc.run("--quiet", "cp", f"s/{bucket}/big", tmp_path / "down")
    assert sha256_of(tmp_path / "down") == written
    mc.run("rm", f"s/{bucket}/big")


@pytest.mark.ashlar("the reference uses other anonymous requests")
def test_anonymous_access_is_set_and_removed(mc, server, bucket, tmp_path):
    import ssl
    import urllib.error
    import urllib.request

    context = ssl.create_default_context(cafile=server.ca) if server.ca else None
    url = f"{server.endpoint}/{bucket}"

    def status(method, path, body=None):
        request = urllib.request.Request(f"{url}{path}", body, method=method)
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    (tmp_path / "k").write_bytes(b"k")
    mc.run("cp", tmp_path / "k", f"s/{bucket}/k")
    for access, expected in [
        ("download", (200, 200, 403)),
        ("upload", (403, 403, 200)),
        ("public", (200, 200, 200)),
        ("private", (403, 403, 403)),
    ]:
        mc.run("anonymous", "set", access, f"s/{bucket}")
        found = status("GET", ""), status("GET", "/k"), status("PUT", "/new", b"x")
        assert found == expected, access
        assert lines(mc.run("--json", "anonymous", "get", f"s/{bucket}"))[0]["permission"] == access


NO_KMS = pytest.mark.ashlar("the reference has no key management service")


@NO_KMS
def test_the_default_encryption_of_a_bucket(mc, server, control, bucket, tree):
    s3, kms = encryption.S3, encryption.kms(server.kms_key)
    for words, algorithm, mode in [
        (["sse-s3"], {"algorithm": "AES256"}, s3),
        (["sse-kms", server.kms_key], {"algorithm": "aws:kms", "keyId": server.kms_key}, kms),
    ]:
        mc.run("encrypt", "set", *words, f"s/{bucket}")
        [info] = lines(mc.run("--json", "encrypt", "info", f"s/{bucket}"))
        assert info["encryption"] == algorithm
        mc.run("cp", tree / "dir/b.txt", f"s/{bucket}/k")
        assert encryption.applied(control.head_object(Bucket=bucket, Key="k")) == mode.answer
    assert mc.attempt("encrypt", "set", "sse-kms", "no-such-key", f"s/{bucket}").returncode != 0
    mc.run("encrypt", "clear", f"s/{bucket}")
    assert mc.attempt("encrypt", "info", f"s/{bucket}").returncode != 0


@NO_KMS
def test_modes_of_encryption(mc, server, control, bucket, tree, tmp_path):
    # mc takes only options whose place is in the command.
    s3, kms = f"s/{bucket}/s3", f"s/{bucket}/kms"
    as_s3, as_kms = ["--enc-s3", s3], ["--enc-kms", f"{kms}={server.kms_key}"]
    digest = random_file(tmp_path / "large", 17 * MIB)
    mc.run("cp", *as_s3, tree / "dir/b.txt", f"{s3}/b.txt")
    mc.run("cp", *as_kms, tmp_path / "large", f"{kms}/large")
    mc.run("cp", *as_kms, f"{s3}/b.txt", f"{kms}/b.txt")
    mc.run("mirror", *as_kms, tree, f"{kms}/tree")
    mode = encryption.kms(server.kms_key)
    for name in ("kms/large", "kms/b.txt", "kms/tree/dir/b.txt"):
        assert encryption.applied(control.head_object(Bucket=bucket, Key=name)) == mode.answer
    [stat] = lines(mc.run("--json", "stat", f"{s3}/b.txt"))
    assert stat["metadata"]["X-Amz-Server-Side-Encryption"] == "AES256"
    mc.run("cp", f"{kms}/large", tmp_path / "down")
    assert sha256_of(tmp_path / "down") == digest
    assert mc.run("cat", f"{kms}/b.txt") == "bb"


def test_objects_under_a_key_of_the_client(mc, server, bucket, tree, tmp_path):
    if not server.ca:
        pytest.skip("mc sends the key of a client over TLS only")
    a, b = (f"s/{bucket}/{label}" for label in ("a", "b"))
    key_a, key_b = (
        ["--enc-c", f"s/{bucket}/{label}={encryption.CustomerKey(label).bytes.hex()}"]
        for label in ("a", "b")
    )
    digest = random_file(tmp_path / "large", 17 * MIB)
    mc.run("cp", *key_a, tmp_path / "large", f"{a}/large")
    mc.run("cp", *key_a, tree / "dir/b.txt", f"{a}/b.txt")
    mc.run("cp", *key_a, *key_b, "--recursive", f"{a}/", f"{b}/")
    [stat] = lines(mc.run("--json", "stat", *key_b, f"{b}/b.txt"))
    md5 = encryption.CustomerKey("b").md5
    assert stat["metadata"]["X-Amz-Server-Side-Encryption-Customer-Key-Md5"] == md5
    assert mc.run("cat", *key_b, f"{b}/b.txt") == "bb"
    mc.run("cp", *key_b, f"{b}/large", tmp_path / "down")
    assert sha256_of(tmp_path / "down") == digest
    failed = mc.attempt("cat", f"{b}/b.txt")
    assert (failed.returncode, failed.stdout) == (1, "")
