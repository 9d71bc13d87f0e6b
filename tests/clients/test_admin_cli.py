"""Commands of the program over the API of a running gateway: the same output as over the store."""

import json
import re

import pytest

from api import add_policy, add_user, allow, fresh
from server import Command, fresh_bucket_name


@pytest.fixture
def store(server):
    """The program on the metadata store."""
    return server.operator()


@pytest.fixture
def remote(server, tmp_path):
    """The program on the API. Its folder has no volume, so a store that it opened would be empty."""

    def of(access_key, secret, **more):
        settings = {
            "ASHLAR_ENDPOINT": server.console,
            "ASHLAR_ACCESS_KEY": access_key,
            "ASHLAR_SECRET_KEY": secret,
            "ASHLAR_DATA_DIR": str(tmp_path / "none"),
            **({"ASHLAR_CA": server.ca} if server.ca else {}),
            **more,
        }
        if not server.program:
            pytest.skip("set ASHLAR_TEST_PROGRAM")
        return Command(server.program, [], {name: text for name, text in settings.items() if text})

    yield of
    assert not (tmp_path / "none").exists(), "a command opened a store"


@pytest.fixture
def cli(server, remote):
    """The program on the API as the operator's own key."""
    return remote(server.access_key, server.secret_key)


def same(store, cli, *arguments):
    """Runs a command in both forms, as a table and as JSON. Returns the JSON."""
    assert cli.run(*arguments) == store.run(*arguments)
    of_cli = cli.run(*arguments, "--output", "json")
    assert of_cli == store.run(*arguments, "--output", "json")
    return of_cli


def words(output, *names):
    """Returns an output without names and random texts."""
    for name in names:
        output = output.replace(name, "NAME")
    return re.sub(r"[A-Za-z0-9]{12,}", "RANDOM", output)


def alike(store, cli, command, of_store, of_cli):
    """Runs a change in both forms, each on a name of its own, and compares the outputs."""
    one, other = store.run(*command(of_store)), cli.run(*command(of_cli))
    assert words(one, of_store) == words(other, of_cli)


def test_users_keys_and_tokens(store, cli, tmp_path):
    one, other = fresh("anna"), fresh("bert")
    both = lambda *command: alike(
        store, cli, lambda name: [name if word == "NAME" else word for word in command], one, other
    )
    both("user", "add", "NAME", "--policy", "readonly", "--uid", "7", "--umask", "027")
    both("user", "set", "NAME", "--gid", "8")
    both("user", "policy", "NAME", "readwrite")
    both("user", "disable", "NAME")
    same(store, cli, "user", "list")
    both("user", "enable", "NAME")
    both("key", "add", "NAME", "--description", "nightly", "--expires", "2030-01-02T03:04:05Z")
    same(store, cli, "key", "list")
    same(store, cli, "key", "list", one)
    for name in [one, other]:
        keys = json.loads(same(store, cli, "key", "list", name))
        [key] = [key["access_key"] for key in keys if key["access_key"] != name]
        for program in [store, cli]:
            program.run("key", "set", key, "--description", "weekly", "--expires", "never")
            program.run("key", "disable", key)
            program.run("key", "enable", key)
            program.run("key", "set", name, "--description", "a person")
        same(store, cli, "user", "show", name)
        cli.run("key", "remove", key)
    both("key", "rotate", "NAME", "--old-expires", "1h")
    same(store, cli, "user", "show", other)
    token = json.loads(
        cli.run("token", "add", "--action", "admin:ListUsers", "--output", "json")
    )
    same(store, cli, "token", "list")
    cli.run("token", "remove", token["access_key"])
    assert token["access_key"] not in same(store, cli, "token", "list")
    both("user", "remove", "NAME")
    secret = tmp_path / "secret"
    secret.write_text("of-the-file-1")
    alike(store, cli, lambda name: ["user", "add", name, "--secret-file", secret], one, other)


def test_groups_policies_and_accounts(store, cli, api, tmp_path):
    one, other, user = fresh("lab"), fresh("hut"), add_user(api).access_key
    document = tmp_path / "policy.json"
    document.write_text(json.dumps(allow("s3:GetObject", effect="Deny"), indent=1))
    alike(store, cli, lambda name: ["policy", "add", name, document], one, other)
    assert cli.run("policy", "show", other) == store.run("policy", "show", other)
    assert same(store, cli, "policy", "list")
    for name, program in [(one, store), (other, cli)]:
        program.run("group", "add", name, "--policy", name)
        program.run("group", "join", name, user)
        same(store, cli, "group", "show", name)
        program.run("group", "set", name, "--enabled", "false", "--policy", "readonly")
        program.run("group", "leave", name, user)
    same(store, cli, "group", "list")
    for name, program in [(one, store), (other, cli)]:
        program.run("group", "remove", name)
        program.run("policy", "remove", name)
    alike(store, cli, lambda name: ["account", "add", name], one, other)
    same(store, cli, "account", "list")
    alike(store, cli, lambda name: ["account", "remove", name], one, other)


def test_buckets_and_trash(store, cli, control, bucket):
    for program in [store, cli]:
        program.run("bucket", "quota", bucket, "--bytes", "5MiB")
        program.run("bucket", "quota", bucket, "--objects", "100")
    assert cli.run("bucket", "quota", bucket) == store.run("bucket", "quota", bucket)
    assert "5242880" in cli.run("bucket", "quota", bucket)
    same(store, cli, "bucket", "list")
    cli.run("bucket", "quota", bucket, "--none")
    assert " of " not in store.run("bucket", "quota", bucket)
    assert cli.run("bucket", "trash", bucket, "--trash-days", "365") == "trash         365 days\n"
    assert cli.run("bucket", "trash", bucket) == store.run("bucket", "trash", bucket)
    for key in ["a/1", "a/2", "b"]:
        control.put_object(Bucket=bucket, Key=key, Body=b"12345")
        control.delete_object(Bucket=bucket, Key=key)
    same(store, cli, "trash", "list", bucket)
    assert len(cli.run("trash", "list", bucket, "a/").splitlines()) == 2
    assert cli.run("trash", "restore", bucket, "b") == "restored b\n"
    assert cli.run("trash", "restore", bucket, "a/", "--all") == "restored 2 keys\n"
    assert control.get_object(Bucket=bucket, Key="a/1")["Body"].read() == b"12345"
    control.delete_object(Bucket=bucket, Key="b")
    assert cli.run("trash", "empty", bucket) == "deleted 1 items permanently\n"
    assert cli.run("bucket", "trash", bucket, "--none") == "trash         none\n"


def test_refusals_have_the_words_of_the_api(api, remote, cli):
    nobody = add_user(api)
    said = remote(nobody.access_key, nobody.secret).attempt("user", "list")
    assert said.returncode == 1
    assert "not allowed to perform the action admin:ListUsers" in said.stderr
    assert re.search(r"has the request [0-9A-F]{16}", said.stderr), said.stderr
    wrong = remote(nobody.access_key, "another-secret").attempt("user", "list")
    assert wrong.returncode == 1 and "signature" in wrong.stderr
    assert cli.attempt("user", "show", fresh("absent")).returncode == 1
    twice = fresh("twice")
    cli.run("group", "add", twice)
    assert "it exists" in cli.attempt("group", "add", twice).stderr


def test_token_is_a_proof_too(api, remote):
    issued = api("POST", "/tokens", {"actions": ["admin:ListUsers"]}, expect=200).json
    program = remote("", "", ASHLAR_TOKEN=issued["token"])
    program.run("user", "list")
    assert "not allowed" in program.attempt("policy", "list").stderr
    both = remote("key", "secret", ASHLAR_TOKEN=issued["token"]).attempt("user", "list")
    assert both.returncode == 78 and "both" in both.stderr


def test_commands_on_the_store_are_refused(cli, bucket):
    for command in [
        ["fsck"],
        ["gc", "--dry-run"],
        ["dump", "file"],
        ["load", "file"],
        ["bucket", "show", bucket],
        ["bucket", "clear", bucket, "policy"],
        ["bucket", "fork", bucket, "copy"],
        ["token", "add", "--action", "admin:*", "--user", "anna"],
    ]:
        done = cli.attempt(*command)
        assert done.returncode == 2, (command, done.stderr)
        assert "ASHLAR_ENDPOINT" in done.stderr
    assert cli.attempt("info", f"{bucket}/key").returncode == 1


def test_wrong_endpoints_are_refused(remote, server):
    for url in ["ftp://127.0.0.1", "http://", "http://user@127.0.0.1:1", "http://127.0.0.1:1/x?y"]:
        done = remote("key", "secret", ASHLAR_ENDPOINT=url).attempt("user", "list")
        assert done.returncode == 78, (url, done.stderr)
    away = remote("key", "secret", ASHLAR_ENDPOINT="http://127.0.0.1:1").attempt("user", "list")
    assert away.returncode == 75
    other = remote("key", "secret", ASHLAR_ENDPOINT=server.endpoint).attempt("user", "list")
    assert other.returncode == 75, other.stderr


def test_jobs(store, cli, control, bucket):
    control.put_object(Bucket=bucket, Key="a", Body=b"12345")
    target = fresh_bucket_name("fork")
    forked = cli.attempt("job", "start", "fork", bucket, target, "--wait", "--output", "json")
    assert forked.returncode == 0, forked.stderr
    job = json.loads(forked.stdout)
    assert (job["state"], job["kind"]) == ("done", "fork"), job
    assert job["arguments"] == {"source": bucket, "target": target}
    assert job["progress"]["files"] == 1
    # The first line of progress, because standard error is a pipe.
    assert f"job {job['number']} is running" in forked.stderr
    assert control.get_object(Bucket=target, Key="a")["Body"].read() == b"12345"
    same(store, cli, "job", "show", job["number"])
    listed = json.loads(cli.run("job", "list", "--output", "json"))
    assert job["number"] in [one["number"] for one in listed]
    assert job["number"] in store.run("job", "list")
    for program in [store, cli]:
        assert program.attempt("job", "stop", job["number"]).returncode == 1, "it has ended"
        assert program.attempt("job", "show", "17").returncode == 1, "there is none"
    twice = cli.attempt("job", "start", "fork", bucket, target)
    assert twice.returncode == 1 and "ashlar: cannot start a job" in twice.stderr, twice.stderr
    wrong = cli.attempt("job", "start", "delete-bucket", target, "--confirm", bucket)
    assert wrong.returncode == 1 and "differ" in wrong.stderr
    cli.run("job", "start", "delete-bucket", target, "--confirm", target, "--wait")
    assert target not in cli.run("bucket", "list")
    direct = store.attempt("job", "start", "fsck")
    assert direct.returncode == 2 and "--endpoint" in direct.stderr, direct.stderr


def test_policies_as_json(store, cli):
    shown = json.loads(same(store, cli, "policy", "show", "readonly"))
    assert shown["name"] == "readonly" and shown["document"]["Statement"]
