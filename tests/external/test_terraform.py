"""Terraform: its state in a bucket, locked there, and buckets as resources of its aws provider."""

import json
import os
import re
import secrets
import shutil
import subprocess
import time
from pathlib import Path

import botocore.exceptions
import pytest

from server import fresh_bucket_name

MODULES = Path(__file__).parent / "terraform"
# A folder that providers lie in, laid out as their registry is.
MIRROR = os.environ.get("ASHLAR_TEST_TERRAFORM_MIRROR", "")

# The provider alone needs a minute to start where others are at work.
COMMAND_SECONDS = 400
STATE = "environments/one/terraform.tfstate"
LOCK = f"{STATE}.tflock"
AT_ONCE = 5
TRIES = 20


class Terraform:
    """A working folder with one module."""

    def __init__(self, folder, module, server, variables=()):
        folder.mkdir()
        shutil.copy(MODULES / module, folder)
        settings = folder / "terraform.rc"
        settings.write_text(
            f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n'
            if MIRROR
            else ""
        )
        self.folder = folder
        self.variables = [word for it in variables for word in ("-var", it)]
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TF_")},
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_ENDPOINT_URL_S3": server.endpoint,
            "CHECKPOINT_DISABLE": "1",
            "TF_CLI_CONFIG_FILE": str(settings),
            "TF_IN_AUTOMATION": "1",
        }

    def start(self, *words):
        """Begins a command; its output is one text."""
        return subprocess.Popen(
            ["terraform", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words, expect=0):
        """Runs a command to its end, which must be this exit code; returns its output."""
        return finish(self.start(*words), expect)

    def change(self, command, *words):
        """The words of a command that plans or changes something."""
        return [command, "-no-color", "-input=false", *words, *self.variables]

    def outputs(self):
        told = json.loads(self.run("output", "-json"))
        return {name: output["value"] for name, output in told.items()}


def finish(process, expect):
    try:
        said, _ = process.communicate(timeout=COMMAND_SECONDS)
    finally:
        process.kill()
    if expect is not None:
        assert process.returncode == expect, said
    return said


@pytest.fixture
def workplace(server, bucket, tmp_path):
    """Makes a folder like that of one of several people who share a state."""

    def make(value, *variables):
        folder = tmp_path / f"by-{value}"
        made = Terraform(folder, "backend.tf", server, [f"value={value}", *variables])
        made.run("init", "-no-color", "-input=false", f"-backend-config=bucket={bucket}")
        return made

    return make


def absent(control, bucket, key):
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        control.head_object(Bucket=bucket, Key=key)
    return caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_the_second_apply_is_told_who_has_the_lock(workplace, control, bucket, tmp_path):
    gate = tmp_path / "gate"
    first, second = workplace("first", f"gate={gate}"), workplace("second")
    running = first.start(*first.change("apply", "-auto-approve"))
    try:
        deadline = time.monotonic() + COMMAND_SECONDS
        while not Path(f"{gate}.reached").exists():
            assert running.poll() is None, running.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        lock = json.load(control.get_object(Bucket=bucket, Key=LOCK)["Body"])
        said = second.run(*second.change("apply", "-auto-approve"), expect=1)
        gate.touch()
        finish(running, 0)
    finally:
        running.kill()
    assert "Error acquiring the state lock" in said and "PreconditionFailed" in said
    told = dict(re.findall(r"^[\s│]*(ID|Who|Operation):\s+(\S+)", said, re.M))
    assert told == {"ID": lock["ID"], "Who": lock["Who"], "Operation": "OperationTypeApply"}
    assert absent(control, bucket, LOCK)
    assert first.outputs() == {"value": "first"}
    second.run(*second.change("apply", "-auto-approve"))
    assert first.outputs() == {"value": "second"}
    first.run(*first.change("plan", "-detailed-exitcode"), expect=2)
    second.run(*second.change("plan", "-detailed-exitcode"))


def test_no_apply_of_many_at_once_is_lost(workplace, control, bucket):
    people = [workplace(f"person{number}") for number in range(AT_ONCE)]
    words = ["apply", "-auto-approve", "-lock-timeout=300s"]
    waiting = people
    for _ in range(TRIES):
        running = [(it, it.start(*it.change(*words))) for it in waiting]
        said = [(it, finish(process, None), process.returncode) for it, process in running]
        waiting = [it for it, _, code in said if code != 0]
        # Whoever is refused and then finds no lock to wait for is told so at once, and tries again.
        refused = "Error acquiring the state lock"
        assert all(code == 0 or refused in text for _, text, code in said), said
        if not waiting:
            break
    assert not waiting
    state = json.load(control.get_object(Bucket=bucket, Key=STATE)["Body"])
    made = people[0].outputs()["value"]
    assert made in {f"person{number}" for number in range(AT_ONCE)}
    assert absent(control, bucket, LOCK)
    # Each made one more of the state that it found.
    assert state["serial"] >= AT_ONCE
    for number, person in enumerate(people):
        expect = 0 if made == f"person{number}" else 2
        person.run(*person.change("plan", "-detailed-exitcode"), expect=expect)


def test_a_state_comes_and_goes(workplace, control, bucket):
    """Workspaces have states of their own; a lock that somebody left can be broken."""
    one = workplace("one")
    one.run(*one.change("apply", "-auto-approve"))
    one.run("workspace", "new", "stage")
    one.run(*one.change("apply", "-auto-approve"))
    listed = one.run("workspace", "list")
    assert re.findall(r"^[* ] (\w+)$", listed, re.M) == ["default", "stage"]
    control.head_object(Bucket=bucket, Key=f"env:/stage/{STATE}")
    pulled = json.loads(one.run("state", "pull"))
    assert pulled["outputs"]["value"]["value"] == "one"

    lock = {"ID": secrets.token_hex(8), "Operation": "OperationTypeApply", "Who": "somebody@else"}
    key = f"env:/stage/{LOCK}"
    control.put_object(Bucket=bucket, Key=key, Body=json.dumps(lock).encode())
    said = one.run(*one.change("apply", "-auto-approve"), expect=1)
    assert lock["ID"] in said and "somebody@else" in said
    one.run("force-unlock", "-force", lock["ID"])
    assert absent(control, bucket, key)

    one.run(*one.change("destroy", "-auto-approve"))
    one.run("workspace", "select", "default")
    one.run("workspace", "delete", "stage")
    left = control.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in left] == [STATE]


@pytest.mark.skipif(not MIRROR, reason="the aws provider is not on this machine")
def test_buckets_and_objects_as_resources(server, control, tmp_path):
    """All is made; nothing is then found to differ; a change is made in place; all is gone."""
    prefix = fresh_bucket_name("tf")
    folder = tmp_path / "provider"
    variables = [f"endpoint={server.endpoint}", f"prefix={prefix}"]
    module = Terraform(folder, "provider.tf", server, variables)
    (folder / "large.bin").write_bytes(os.urandom(12_000_000))
    module.run("init", "-no-color", "-input=false")

    said = module.run(*module.change("apply", "-auto-approve"))
    assert "Apply complete! Resources: 11 added, 0 changed, 0 destroyed." in said
    outputs = module.outputs()
    policy = json.loads(outputs.pop("policy"))
    assert policy["Statement"][0]["Condition"] == {"IpAddress": {"aws:SourceIp": "127.0.0.1/32"}}
    assert outputs.pop("user") == control.list_buckets()["Owner"]["ID"]
    assert outputs == {
        "body": "hewn by masons",
        "caller": "arn:aws:iam::000000000001:root",
        "keys": ["a/one ü+.txt", "copies/changed.txt", "copies/kept.txt", "large.bin"],
        "region": "us-east-1",
    }
    full = {"Bucket": f"{prefix}-full"}
    tags = {tag["Key"]: tag["Value"] for tag in control.get_bucket_tagging(**full)["TagSet"]}
    assert tags == {"owner": "masons", "stage": "tést"}
    head = control.head_object(**full, Key="copies/changed.txt")
    assert (head["ContentType"], head["Metadata"]) == ("text/csv", {"quarry": "south"})
    for key, kind in [("copies/kept.txt", "stone"), ("copies/changed.txt", "copy")]:
        found = control.get_object_tagging(**full, Key=key)["TagSet"]
        assert found == [{"Key": "kind", "Value": kind}], key

    said = module.run(*module.change("plan", "-detailed-exitcode"))
    assert "No changes." in said

    module.variables += ["-var", "owner=carvers"]
    said = module.run(*module.change("apply", "-auto-approve"))
    assert "Apply complete! Resources: 0 added, 2 changed, 0 destroyed." in said
    assert module.outputs()["body"] == "hewn by carvers"
    # Somebody else's object does not keep what is to be destroyed.
    control.put_object(**full, Key="not/of/terraform", Body=b"x")
    said = module.run(*module.change("destroy", "-auto-approve"))
    assert "Destroy complete! Resources: 11 destroyed." in said
    names = [it["Name"] for it in control.list_buckets()["Buckets"]]
    assert not [name for name in names if name.startswith(prefix)]


@pytest.mark.skipif(not MIRROR, reason="the aws provider is not on this machine")
def test_versions_locks_and_lifecycles_as_resources(server, control, tmp_path):
    """What is written is read back equal, or the provider waits for it until it gives up."""
    prefix = fresh_bucket_name("tf")
    variables = [f"endpoint={server.endpoint}", f"prefix={prefix}"]
    module = Terraform(tmp_path / "provider", "versions.tf", server, variables)
    versions, locks = {"Bucket": f"{prefix}-versions"}, {"Bucket": f"{prefix}-locks"}
    module.run("init", "-no-color", "-input=false")

    said = module.run(*module.change("apply", "-auto-approve"))
    assert "Apply complete! Resources: 9 added, 0 changed, 0 destroyed." in said
    said = module.run(*module.change("plan", "-detailed-exitcode"))
    assert "No changes." in said
    kept = control.head_object(**locks, Key="kept")
    assert (kept["ObjectLockMode"], kept["ObjectLockLegalHoldStatus"]) == ("GOVERNANCE", "ON")

    module.variables += ["-var", "days=60", "-var", "status=Suspended"]
    said = module.run(*module.change("apply", "-auto-approve"))
    assert "Apply complete! Resources: 0 added, 4 changed, 0 destroyed." in said
    said = module.run(*module.change("plan", "-detailed-exitcode"))
    assert "No changes." in said
    assert control.get_bucket_versioning(**versions)["Status"] == "Suspended"
    rules = control.get_bucket_lifecycle_configuration(**versions)["Rules"]
    assert [rule["ID"] for rule in rules] == ["logs", "versions", "dated"]
    assert rules[0]["Expiration"] == {"Days": 60}
    lock = control.get_object_lock_configuration(**locks)["ObjectLockConfiguration"]
    assert lock["Rule"]["DefaultRetention"] == {"Mode": "GOVERNANCE", "Days": 60}
    listed = control.list_object_versions(**locks)["Versions"]
    assert [version["IsLatest"] for version in listed] == [True, False]

    # Versions, markers and locked objects do not keep what is to be destroyed.
    for _ in range(2):
        control.put_object(**versions, Key="not/of/terraform", Body=b"x")
        control.delete_object(**versions, Key="not/of/terraform")
    said = module.run(*module.change("destroy", "-auto-approve"))
    assert "Destroy complete! Resources: 9 destroyed." in said
    names = [it["Name"] for it in control.list_buckets()["Buckets"]]
    assert not [name for name in names if name.startswith(prefix)]
