"""The aws cli with only an endpoint, two keys and a certificate authority."""

import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import encryption
import versions
from server import (
    Command,
    fresh_bucket_name,
    random_file,
    read_tree,
    refused,
    sha256_of,
    write_tree,
)

MIB = 1 << 20
TREE = {
    "readme.md": b"# stone\n",
    "src/main.rs": b"fn main() {}\n",
    "src/deep/er/lib.rs": b"",
    "name with space/ä+b.txt": b"umlaut",
}


@pytest.fixture
def aws(server):
    environment = {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        **({"AWS_CA_BUNDLE": server.ca} if server.ca else {}),
    }
    # The console script of this interpreter's environment, not the `aws` of the machine.
    return Command(str(Path(sys.executable).parent / "aws"), environment=environment)


def keys_of(control, bucket):
    return [each["Key"] for each in control.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_make_and_remove_a_bucket(aws, control, bucket):
    name = f"{bucket}-cli"
    assert f"make_bucket: {name}" in aws.run("s3", "mb", f"s3://{name}")
    assert name in aws.run("s3", "ls")
    control.put_object(Bucket=name, Key="a/b", Body=b"x")
    assert aws.attempt("s3", "rb", f"s3://{name}").returncode != 0
    assert f"remove_bucket: {name}" in aws.run("s3", "rb", "--force", f"s3://{name}")
    assert name not in aws.run("s3", "ls")


def test_copy_a_small_file_up_down_and_across(aws, control, bucket, tmp_path):
    (tmp_path / "up.txt").write_bytes(b"hello")
    aws.run("s3", "cp", tmp_path / "up.txt", f"s3://{bucket}/dir/up.txt")
    head = control.head_object(Bucket=bucket, Key="dir/up.txt")
    assert (head["ContentLength"], head["ContentType"]) == (5, "text/plain")
    aws.run("s3", "cp", f"s3://{bucket}/dir/up.txt", f"s3://{bucket}/copy ä.txt")
    aws.run("s3", "cp", f"s3://{bucket}/copy ä.txt", tmp_path / "down.txt")
    assert (tmp_path / "down.txt").read_bytes() == b"hello"


def test_copy_100_mib_in_parts(aws, control, bucket, tmp_path):
    written = random_file(tmp_path / "up", 100 * MIB)
    aws.run("s3", "cp", "--no-progress", tmp_path / "up", f"s3://{bucket}/big")
    head = control.head_object(Bucket=bucket, Key="big")
    assert head["ContentLength"] == 100 * MIB
    assert head["ETag"].endswith('-13"'), "aws cli sends parts of 8 MiB"
    aws.run("s3", "cp", "--no-progress", f"s3://{bucket}/big", tmp_path / "down")
    assert sha256_of(tmp_path / "down") == written
    # The cli copies such a large object by UploadPartCopy.
    aws.run("s3", "cp", "--no-progress", f"s3://{bucket}/big", f"s3://{bucket}/again")
    aws.run("s3", "cp", "--no-progress", f"s3://{bucket}/again", tmp_path / "again")
    assert sha256_of(tmp_path / "again") == written
    aws.run("s3", "rm", "--recursive", f"s3://{bucket}/")


def test_pipes(aws, bucket):
    content = bytes(range(256)) * 40_000  # 10 MB: more than one part of a stream
    aws.run("s3", "cp", "-", f"s3://{bucket}/piped", stdin=content, text=False)
    assert aws.run("s3", "cp", f"s3://{bucket}/piped", "-", text=False) == content


def test_sync_up_down_and_delete(aws, control, bucket, tmp_path):
    write_tree(tmp_path / "up", TREE)
    aws.run("s3", "sync", tmp_path / "up", f"s3://{bucket}/tree")
    assert sorted(keys_of(control, bucket)) == sorted(f"tree/{name}" for name in TREE)
    assert aws.run("s3", "sync", tmp_path / "up", f"s3://{bucket}/tree") == "", "nothing changed"
    aws.run("s3", "sync", f"s3://{bucket}/tree", tmp_path / "down")
    assert read_tree(tmp_path / "down") == TREE
    (tmp_path / "up/readme.md").write_bytes(b"# stone, dressed\n")
    (tmp_path / "up/src/main.rs").unlink()
    said = aws.run("s3", "sync", "--delete", tmp_path / "up", f"s3://{bucket}/tree")
    assert "upload:" in said and "delete:" in said
    assert "tree/src/main.rs" not in keys_of(control, bucket)
    aws.run("s3", "sync", "--delete", f"s3://{bucket}/tree", tmp_path / "down")
    assert read_tree(tmp_path / "down") == read_tree(tmp_path / "up")


def test_recursive_copy_move_and_remove(aws, control, bucket, tmp_path):
    write_tree(tmp_path / "up", TREE)
    aws.run("s3", "cp", "--recursive", tmp_path / "up", f"s3://{bucket}/one")
    aws.run("s3", "mv", "--recursive", f"s3://{bucket}/one", f"s3://{bucket}/two")
    assert sorted(keys_of(control, bucket)) == sorted(f"two/{name}" for name in TREE)
    aws.run("s3", "mv", f"s3://{bucket}/two/readme.md", tmp_path / "moved.md")
    assert (tmp_path / "moved.md").read_bytes() == TREE["readme.md"]
    aws.run("s3", "rm", "--recursive", "--exclude", "*.rs", f"s3://{bucket}/two")
    assert sorted(keys_of(control, bucket)) == ["two/src/deep/er/lib.rs", "two/src/main.rs"]
    aws.run("s3", "rm", "--recursive", f"s3://{bucket}/")
    assert keys_of(control, bucket) == []


def test_list(aws, control, bucket):
    for name, content in TREE.items():
        control.put_object(Bucket=bucket, Key=name, Body=content)
    top = aws.run("s3", "ls", f"s3://{bucket}/")
    assert "PRE src/" in top and "8 readme.md" in top and "main.rs" not in top
    everything = aws.run("s3", "ls", "--recursive", "--summarize", f"s3://{bucket}/")
    assert f"Total Objects: {len(TREE)}" in everything
    assert f"Total Size: {sum(map(len, TREE.values()))}" in everything


def test_presign(aws, server, control, bucket):
    control.put_object(Bucket=bucket, Key="shared file.txt", Body=b"for everyone")
    url = aws.run("s3", "presign", f"s3://{bucket}/shared file.txt").strip()
    curl = Command("curl", ["--silent", "--fail", *(["--cacert", server.ca] if server.ca else [])])
    assert curl.run(url) == "for everyone"
    assert curl.attempt(url.replace("shared", "other")).returncode == 22


def test_s3api(aws, control, bucket, tmp_path):
    (tmp_path / "body").write_bytes(b"through s3api")
    put = json.loads(aws.run(
        "s3api", "put-object", "--bucket", bucket, "--key", "k", "--body", tmp_path / "body",
        "--metadata", "colour=grey", "--content-type", "text/x-stone",
    ))
    head = json.loads(aws.run("s3api", "head-object", "--bucket", bucket, "--key", "k"))
    assert head["ETag"] == put["ETag"]
    assert (head["ContentLength"], head["ContentType"]) == (13, "text/x-stone")
    assert head["Metadata"] == {"colour": "grey"}
    aws.run(
        "s3api", "get-object", "--bucket", bucket, "--key", "k", "--range", "bytes=8-",
        tmp_path / "part",
    )
    assert (tmp_path / "part").read_bytes() == b"s3api"
    failed = aws.attempt("s3api", "head-object", "--bucket", bucket, "--key", "absent")
    assert failed.returncode != 0 and "(404)" in failed.stderr
    aws.run("s3api", "delete-object", "--bucket", bucket, "--key", "k")
    with refused("NoSuchKey"):
        control.get_object(Bucket=bucket, Key="k")


@pytest.fixture
def s3api(aws):
    """Runs a command of s3api. Returns its JSON document, or None without output."""

    def run(command, **options):
        words = ["s3api", command]
        for name, value in options.items():
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(json.dumps(value) if isinstance(value, dict) else value)
        said = aws.run(*words)
        return json.loads(said) if said else None

    return run


def test_versions(aws, s3api, control, bucket, tmp_path):
    enabled = {"Status": "Enabled"}
    s3api("put-bucket-versioning", bucket=bucket, versioning_configuration=enabled)
    assert s3api("get-bucket-versioning", bucket=bucket) == enabled
    which = {"bucket": bucket, "key": "k"}
    written = []
    for content in [b"first", b"second"]:
        (tmp_path / "body").write_bytes(content)
        written.append(s3api("put-object", **which, body=tmp_path / "body")["VersionId"])
    first, second = written
    marker = s3api("delete-object", **which)
    assert marker["DeleteMarker"]
    listed = s3api("list-object-versions", bucket=bucket)
    assert [(it["VersionId"], it["IsLatest"]) for it in listed["Versions"]] == [
        (second, False),
        (first, False),
    ]
    [hidden] = listed["DeleteMarkers"]
    assert (hidden["VersionId"], hidden["IsLatest"]) == (marker["VersionId"], True)
    with refused("404"):
        control.head_object(Bucket=bucket, Key="k")
    words = ["--bucket", bucket, "--key", "k", "--version-id", first]
    answer = json.loads(aws.run("s3api", "get-object", *words, tmp_path / "old"))
    assert (answer["VersionId"], (tmp_path / "old").read_bytes()) == (first, b"first")
    removed = s3api("delete-object", **which, version_id=marker["VersionId"])
    assert removed == marker
    assert s3api("head-object", **which)["VersionId"] == second
    versions.empty(control, bucket)


def test_object_lock(server, aws, s3api, control):
    name = fresh_bucket_name("cli-lock")
    s3api("create-bucket", bucket=name, object_lock_enabled_for_bucket=True)
    days = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": days}
    s3api("put-object-lock-configuration", bucket=name, object_lock_configuration=configuration)
    read = s3api("get-object-lock-configuration", bucket=name)
    assert read == {"ObjectLockConfiguration": configuration}
    version = control.put_object(Bucket=name, Key="k", Body=b"kept")["VersionId"]
    which = {"bucket": name, "key": "k", "version_id": version}
    words = ["s3api", "delete-object", "--bucket", name, "--key", "k", "--version-id", version]

    until = (datetime.now(timezone.utc) + timedelta(days=2)).replace(microsecond=0)
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": until.isoformat()}
    s3api("put-object-retention", **which, retention=retention)
    read = s3api("get-object-retention", **which)["Retention"]
    assert read["Mode"] == "GOVERNANCE"
    assert datetime.fromisoformat(read["RetainUntilDate"].replace("Z", "+00:00")) == until
    said = aws.attempt(*words).stderr
    assert any(f"({code})" in said for code in server.codes("AccessDenied", "InvalidRequest"))

    for status in ["ON", "OFF"]:
        s3api("put-object-legal-hold", **which, legal_hold={"Status": status})
        assert s3api("get-object-legal-hold", **which) == {"LegalHold": {"Status": status}}
        bypassed = aws.attempt(*words, "--bypass-governance-retention")
        assert (bypassed.returncode == 0) == (status == "OFF"), bypassed.stderr
    control.delete_bucket(Bucket=name)


@pytest.mark.ashlar("MinIO drops the rule for uploads")
def test_lifecycle(aws, s3api, bucket):
    rules = [
        {
            "ID": "logs",
            "Filter": {"And": {"Prefix": "logs/", "Tags": [{"Key": "kind", "Value": "ä b"}]}},
            "Status": "Enabled",
            "Expiration": {"Days": 30},
        },
        {
            "ID": "versions",
            "Filter": {"Prefix": ""},
            "Status": "Disabled",
            "Expiration": {"ExpiredObjectDeleteMarker": True},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 2},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3},
        },
    ]
    configuration = {"Rules": rules}
    s3api(
        "put-bucket-lifecycle-configuration",
        bucket=bucket,
        lifecycle_configuration=configuration,
    )
    read = s3api("get-bucket-lifecycle-configuration", bucket=bucket)
    assert read["Rules"] == rules
    s3api("delete-bucket-lifecycle", bucket=bucket)
    words = ["s3api", "get-bucket-lifecycle-configuration", "--bucket", bucket]
    assert "(NoSuchLifecycleConfiguration)" in aws.attempt(*words).stderr


@pytest.mark.ashlar("the reference has no key management service")
def test_modes_of_encryption(aws, s3api, server, control, bucket, tmp_path):
    (tmp_path / "up").write_bytes(b"hello")
    mode = encryption.kms(server.kms_key)
    aws.run(
        "s3", "cp", "--sse", "aws:kms", "--sse-kms-key-id", server.kms_key, tmp_path / "up",
        f"s3://{bucket}/kms",
    )
    assert encryption.applied(control.get_object(Bucket=bucket, Key="kms")) == mode.answer
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": server.kms_key}
    rule = {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}
    configuration = {"Rules": [rule]}
    s3api(
        "put-bucket-encryption",
        bucket=bucket,
        server_side_encryption_configuration=configuration,
    )
    found = control.get_bucket_encryption(Bucket=bucket)
    assert found["ServerSideEncryptionConfiguration"] == configuration
    assert encryption.applied(control.put_object(Bucket=bucket, Key="k")) == mode.answer


def test_a_file_in_parts_under_a_key_of_the_client(aws, server, control, bucket, tmp_path):
    if not (server.ca or server.is_ashlar()):
        pytest.skip("the reference accepts keys of clients over TLS only")
    written = random_file(tmp_path / "up", 9 * MIB)
    keys = {label: encryption.CustomerKey(label) for label in ("a", "b")}
    for label, key in keys.items():
        (tmp_path / label).write_bytes(key.bytes)
    a, b = (f"fileb://{tmp_path / label}" for label in keys)
    copy = ["s3", "cp", "--no-progress"]
    aws.run(*copy, "--sse-c", "--sse-c-key", a, tmp_path / "up", f"s3://{bucket}/k")
    found = control.head_object(Bucket=bucket, Key="k", **keys["a"].arguments())
    assert found["ETag"].endswith('-2"')
    source = ["--sse-c-copy-source", "--sse-c-copy-source-key", a]
    aws.run(
        *copy, *source, "--sse-c", "--sse-c-key", b, f"s3://{bucket}/k", f"s3://{bucket}/copy"
    )
    aws.run(*copy, "--sse-c", "--sse-c-key", b, f"s3://{bucket}/copy", tmp_path / "down")
    assert sha256_of(tmp_path / "down") == written
