"""`mc admin` and other clients of MinIO's administration protocol."""

import json
import os
import subprocess
import time

import boto3
import pytest
from botocore.exceptions import ClientError

from api import add_policy, add_user, allow, fresh
from minio_admin import Protocol, with_authority
from server import Command, refused

# Each call with its action. A sender without the action is refused, also for its body, which here is
# not valid.
CALLS = [
    ("GET", "/info", "admin:ServerInfo"),
    ("GET", "/trace?s3=true", "admin:ServerTrace"),
    ("GET", "/list-users", "admin:ListUsers"),
    ("GET", "/user-info?accessKey={user}", "admin:GetUser"),
    ("PUT", "/set-user-status?accessKey={user}&status=disabled", "admin:DisableUser"),
    ("PUT", "/set-user-status?accessKey={user}&status=enabled", "admin:EnableUser"),
    ("DELETE", "/remove-user?accessKey={user}", "admin:DeleteUser"),
    ("GET", "/list-service-accounts?user={user}", "admin:ListServiceAccounts"),
    ("GET", "/list-access-keys-bulk?listType=all&all=true", "admin:ListUsers"),
    ("GET", "/list-access-keys-bulk?listType=all&users={user}", "admin:ListServiceAccounts"),
    ("GET", "/group?group={group}", "admin:GetGroup"),
    ("GET", "/groups", "admin:ListGroups"),
    ("PUT", "/set-group-status?group={group}&status=disabled", "admin:DisableGroup"),
    ("GET", "/info-canned-policy?name=readonly", "admin:GetPolicy"),
    ("GET", "/list-canned-policies", "admin:GetPolicy"),
    ("DELETE", "/remove-canned-policy?name={policy}", "admin:DeletePolicy"),
    (
        "PUT",
        "/set-user-or-group-policy?policyName=readonly&userOrGroup={user}&isGroup=false",
        "admin:AttachUserOrGroupPolicy",
    ),
    ("GET", "/idp/builtin/policy-entities", "admin:ListUsers"),
    ("GET", "/get-bucket-quota?bucket={bucket}", "admin:GetBucketQuota"),
]

# Calls with plain bodies.
CALLS_WITH_BODIES = [
    (
        "PUT",
        "/update-group-members",
        {"group": "{group}", "members": ["{user}"], "isRemove": False},
        "admin:AddUserToGroup",
    ),
    (
        "PUT",
        "/update-group-members",
        {"group": "{group}", "members": ["{user}"], "isRemove": True},
        "admin:RemoveUserFromGroup",
    ),
    (
        "PUT",
        "/add-canned-policy?name={policy}",
        allow("s3:GetObject", resource="arn:aws:s3:::none/*"),
        "admin:CreatePolicy",
    ),
    ("PUT", "/set-bucket-quota?bucket={bucket}", {"size": 5}, "admin:SetBucketQuota"),
]


class MinioClient(Command):
    """mc with an alias for one sender."""

    def json(self, *arguments):
        """Runs a command and returns the documents that it prints."""
        return [json.loads(line) for line in self.run("--json", *arguments).splitlines() if line]

    def refusal(self, *arguments):
        """Runs a command, which must fail, and returns its words."""
        done = self.attempt(*arguments)
        assert done.returncode, f"{arguments} did not fail: {done.stdout}"
        return done.stdout + done.stderr


@pytest.fixture
def client(server, tmp_path):
    """Returns mc as a sender: `client(access_key, secret)`."""
    made = []

    def of(access_key, secret):
        folder = with_authority(server, tmp_path / f"mc{len(made)}")
        folder.mkdir(exist_ok=True)
        alias = {"url": server.endpoint, "accessKey": access_key, "secretKey": secret}
        alias |= {"api": "s3v4", "path": "auto"}
        (folder / "config.json").write_text(json.dumps({"version": "10", "aliases": {"s": alias}}))
        program = os.environ.get("ASHLAR_TEST_MC", "mc")
        made.append(MinioClient(program, ["--config-dir", str(folder), "--no-color"]))
        return made[-1]

    return of


@pytest.fixture
def mc(server, client):
    """mc as the operator's own key."""
    return client(server.access_key, server.secret_key)


@pytest.fixture
def operator(server):
    """The protocol as the operator's own key."""
    return Protocol(server, server.access_key, server.secret_key)


def as_sender(server, api):
    """Returns the protocol as the sender of an API."""
    return Protocol(server, api.access_key, api.secret, api.session)


def signs(server, access_key, secret):
    """Fails if the gateway does not accept the key with this secret. The key needs no permission."""
    settings = server.aws_settings() | {
        "aws_access_key_id": access_key,
        "aws_secret_access_key": secret,
    }
    try:
        boto3.client("s3", **settings).list_buckets()
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDenied":
            raise


def test_server_and_readiness(mc, bucket):
    [info] = mc.json("admin", "info", "s")
    assert info["info"]["mode"] == "online"
    assert info["info"]["buckets"]["count"] >= 1
    assert info["info"]["servers"][0]["state"] == "online"
    assert "Uptime" in mc.run("admin", "info", "s")
    assert "ready" in mc.run("ready", "s")


def test_user_from_creation_to_removal(server, mc):
    name, secret = fresh("anna"), "of-anna-1234"
    mc.run("admin", "user", "add", "s", name, secret)
    signs(server, name, secret)
    assert name in [user["accessKey"] for user in mc.json("admin", "user", "list", "s")]
    mc.run("admin", "user", "disable", "s", name)
    assert mc.json("admin", "user", "info", "s", name)[0]["userStatus"] == "disabled"
    with refused("InvalidAccessKeyId", status=403):
        signs(server, name, secret)
    mc.run("admin", "user", "enable", "s", name)
    # As with MinIO, a second `add` gives the user another secret.
    mc.run("admin", "user", "add", "s", name, "another-secret")
    signs(server, name, "another-secret")
    with refused("SignatureDoesNotMatch", status=403):
        signs(server, name, secret)
    mc.run("admin", "user", "remove", "s", name)
    mc.refusal("admin", "user", "info", "s", name)
    with refused("InvalidAccessKeyId", status=403):
        signs(server, name, "another-secret")


def test_policies_of_users_and_groups(mc, api, tmp_path):
    name, group, policy = fresh("anna"), fresh("lab"), fresh("readers")
    document = tmp_path / "policy.json"
    document.write_text(json.dumps(allow("s3:GetObject", resource="arn:aws:s3:::photos/*")))
    mc.run("admin", "user", "add", "s", name, "of-anna-1234")
    mc.run("admin", "policy", "create", "s", policy, document)
    assert policy in [each["policy"] for each in mc.json("admin", "policy", "list", "s")]
    [shown] = mc.json("admin", "policy", "info", "s", policy)
    assert shown["policyInfo"]["Policy"]["Statement"][0]["Action"] == ["s3:GetObject"]
    mc.run("admin", "policy", "attach", "s", policy, "--user", name)
    assert api("GET", f"/users/{name}", expect=200).json["policies"] == [policy]
    # MinIO's client takes the second one as a success.
    mc.run("admin", "policy", "attach", "s", policy, "--user", name)
    assert "GetObject" in mc.run("admin", "user", "policy", "s", name)
    [entities] = mc.json("admin", "policy", "entities", "s", "--user", name)
    assert entities["result"]["userMappings"] == [{"user": name, "policies": [policy]}]
    assert "in use" in mc.refusal("admin", "policy", "remove", "s", policy)

    mc.run("admin", "group", "add", "s", group, name)
    assert group in mc.json("admin", "group", "list", "s")[0]["groups"]
    mc.run("admin", "policy", "attach", "s", "readonly", "--group", group)
    [shown] = mc.json("admin", "group", "info", "s", group)
    assert (shown["members"], shown["groupPolicy"]) == ([name], "readonly")
    [entities] = mc.json("admin", "policy", "entities", "s", "--policy", "readonly")
    assert group in entities["result"]["policyMappings"][0]["groups"]
    mc.run("admin", "group", "disable", "s", group)
    assert mc.json("admin", "group", "info", "s", group)[0]["groupStatus"] == "disabled"
    mc.run("admin", "group", "enable", "s", group)
    assert "not empty" in mc.refusal("admin", "group", "remove", "s", group)
    mc.run("admin", "group", "remove", "s", group, name)
    mc.run("admin", "group", "remove", "s", group)
    assert group not in mc.json("admin", "group", "list", "s")[0].get("groups", [])

    mc.run("admin", "policy", "detach", "s", policy, "--user", name)
    mc.run("admin", "policy", "remove", "s", policy)


def test_service_accounts(server, mc):
    name, key = fresh("anna"), fresh("KEY")
    mc.run("admin", "user", "add", "s", name, "of-anna-1234")
    add = ["admin", "user", "svcacct", "add", "s", name, "--access-key", key]
    mc.run(*add, "--secret-key", "of-the-key", "--name", "ci", "--description", "nightly build")
    signs(server, key, "of-the-key")
    [shown] = mc.json("admin", "user", "svcacct", "info", "s", key)
    expected = (name, "ci", "nightly build", "on")
    assert tuple(
        shown[field] for field in ("parentUser", "name", "description", "accountStatus")
    ) == expected
    assert key in mc.run("admin", "user", "svcacct", "list", "s", name)
    mc.run("admin", "user", "svcacct", "edit", "s", key, "--secret-key", "another-secret")
    signs(server, key, "another-secret")
    mc.run("admin", "user", "svcacct", "disable", "s", key)
    with refused("InvalidAccessKeyId", status=403):
        signs(server, key, "another-secret")
    mc.run("admin", "user", "svcacct", "enable", "s", key)
    assert "nightly build" in mc.run("admin", "accesskey", "info", "s", key)
    assert key in mc.run("admin", "accesskey", "ls", "s", name)
    [made] = mc.json("admin", "accesskey", "create", "s", name, "--expiry-duration", "24h")
    signs(server, made["accessKey"], made["secretKey"])
    assert mc.json("admin", "accesskey", "info", "s", made["accessKey"])[0]["expiration"]
    mc.run("admin", "user", "svcacct", "rm", "s", key)
    with refused("InvalidAccessKeyId", status=403):
        signs(server, key, "another-secret")
    assert "not found" in mc.refusal("admin", "user", "svcacct", "info", "s", key)


def test_service_account_with_a_policy_is_refused(mc, tmp_path):
    name = fresh("anna")
    mc.run("admin", "user", "add", "s", name, "of-anna-1234")
    document = tmp_path / "policy.json"
    document.write_text(json.dumps(allow("s3:GetObject", resource="arn:aws:s3:::photos/*")))
    said = mc.refusal("admin", "user", "svcacct", "add", "s", name, "--policy", str(document))
    assert "Ashlar has no policies of access keys" in said
    assert mc.json("admin", "user", "svcacct", "list", "s", name) == []


def test_policies_of_keys_are_refused_in_each_spelling(server, api):
    user = add_user(api, policies=["readwrite"])
    sender, path = as_sender(server, user), f"/users/{user.access_key}/keys"
    limit = allow("s3:GetObject", resource="arn:aws:s3:::photos/*")
    assert sender.sealed("PUT", "/add-service-account", {"policy": limit}).status == 501
    for name in ("Policy", "POLICY", "unknown"):
        answer = sender.sealed("PUT", "/add-service-account", {name: limit})
        assert (answer.status, answer.code) == (400, "XMinioAdminConfigBadJSON"), name
    assert user("GET", path, expect=200).json["items"] == []
    key = user("POST", path, {}, expect=200).json["access_key"]
    update = f"/update-service-account?accessKey={key}"
    assert sender.sealed("POST", update, {"newPolicy": limit}).status == 501
    for body in ({"NewPolicy": limit}, {"newpolicy": limit}, {"NewStatus": "off"}):
        answer = sender.sealed("POST", update, body)
        assert (answer.status, answer.code) == (400, "XMinioAdminConfigBadJSON"), body
    assert sender.sealed("POST", update, {"newName": "ci"}).status == 204


def test_a_user_is_disabled_from_the_beginning(server, api):
    officer = as_sender(server, add_user(api, "admin:CreateUser", "admin:GetUser"))
    name, secret = fresh("ghost"), "of-ghost-1234"
    path, body = f"/add-user?accessKey={name}", {"secretKey": secret, "status": "disabled"}
    assert officer.sealed("PUT", path, body).status == 200
    assert not api("GET", f"/users/{name}", expect=200).json["enabled"]
    with refused("InvalidAccessKeyId", status=403):
        signs(server, name, secret)
    # A state that the sender may not change is refused before the secret changes.
    body = {"secretKey": "another-secret-1", "status": "enabled"}
    assert officer.sealed("PUT", path, body).code == "AccessDenied"
    api("PATCH", f"/users/{name}", {"enabled": True}, expect=200)
    signs(server, name, secret)
    body = {"secretKey": "another-secret-1", "status": "disabled"}
    assert officer.sealed("PUT", path, body).code == "AccessDenied"
    signs(server, name, secret)


def test_quota(mc, api, bucket):
    mc.run("quota", "set", f"s/{bucket}", "--size", "1MiB")
    assert "1.0 MiB" in mc.run("quota", "info", f"s/{bucket}")
    quota = api("GET", f"/buckets/{bucket}/quota", expect=200).json
    assert quota == {"bytes": 1 << 20, "objects": None}
    # The limit of objects, which MinIO does not have, stays.
    api("PUT", f"/buckets/{bucket}/quota", {"bytes": 5, "objects": 7}, expect=200)
    mc.run("quota", "clear", f"s/{bucket}")
    quota = api("GET", f"/buckets/{bucket}/quota", expect=200).json
    assert quota == {"bytes": None, "objects": 7}


def test_metrics_with_a_token(server, mc, api, client):
    [generated] = mc.json("admin", "prometheus", "generate", "s")
    protocol, url = Protocol(server), f"{server.endpoint}{generated['metricsPath']}"

    def scrape(token):
        headers = {"authorization": f"Bearer {token}"}
        return protocol.http().request("GET", url, headers=headers, retries=False)

    answer = scrape(generated["bearerToken"])
    assert answer.status == 200
    assert b"ashlar_build_info" in answer.data
    assert "ashlar_build_info" in mc.run("admin", "prometheus", "metrics", "s")
    assert scrape(generated["bearerToken"][:-4] + "AAAA").status == 403
    assert protocol.http().request("GET", url, retries=False).status == 403
    reader, other = add_user(api, "admin:Prometheus"), add_user(api, "admin:ListUsers")
    for sender, status in [(reader, 200), (other, 403)]:
        [generated] = client(sender.access_key, sender.secret).json(
            "admin", "prometheus", "generate", "s"
        )
        assert scrape(generated["bearerToken"]).status == status
    [generated] = client(reader.access_key, reader.secret).json(
        "admin", "prometheus", "generate", "s"
    )
    api("PATCH", f"/users/{reader.access_key}", {"enabled": False}, expect=200)
    assert scrape(generated["bearerToken"]).status == 403


def test_trace_shows_requests_and_ends_with_the_permission(api, client, control, bucket, tmp_path):
    sender = add_user(api, "admin:ServerTrace")
    mc, output = client(sender.access_key, sender.secret), tmp_path / "trace"
    command = [*mc.prefix, "--json", "admin", "trace", "--verbose", "s"]

    def documents():
        # The last one may not be complete yet.
        rest, found = output.read_text().lstrip(), []
        while rest:
            try:
                document, end = json.JSONDecoder().raw_decode(rest)
            except ValueError:
                break
            found.append(document)
            rest = rest[end:].lstrip()
        return found

    def until(condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, output.read_text()
            control.put_object(Bucket=bucket, Key="traced", Body=b"12345")
            time.sleep(0.2)

    with open(output, "w") as file:
        trace = subprocess.Popen(command, stdout=file, stderr=file, env=mc.environment)
    try:
        puts = lambda: [each for each in documents() if each.get("api") == "s3.PutObject"]
        until(puts, 30)
        assert puts()[0]["path"] == f"/{bucket}/traced"
        assert puts()[0]["response"]["statusCode"] == 200
        # The stream ends, and the client is refused when it asks again.
        api("PATCH", f"/users/{sender.access_key}", {"enabled": False}, expect=200)
        until(lambda: trace.poll() is not None, 30)
    finally:
        trace.kill()
        trace.wait()


def test_other_calls_name_the_command_that_helps(mc, operator):
    assert "systemctl" in mc.refusal("admin", "service", "stop", "s")
    assert "ashlar fsck" in mc.refusal("admin", "heal", "s")
    for method, path in [("POST", "/service?action=restart"), ("GET", "/unheard-of")]:
        answer = operator(method, path)
        assert (answer.status, answer.code) == (501, "NotImplemented")


def filled(text, names):
    for name, value in names.items():
        text = text.replace("{%s}" % name, value)
    return text


def test_each_call_needs_its_action(server, api, control, bucket):
    without = as_sender(server, add_user(api))
    for number, (method, path, *body, action) in enumerate(CALLS + CALLS_WITH_BODIES):
        names = {
            "user": add_user(api).access_key,
            "group": fresh("group"),
            "policy": add_policy(api, allow("s3:GetObject", resource="arn:aws:s3:::none/*")),
            "bucket": bucket,
        }
        api("PUT", f"/groups/{names['group']}", {}, expect=200)
        path = filled(path, names)
        body = filled(json.dumps(body[0]), names).encode() if body else b""
        answer = without(method, path, body)
        assert (answer.status, answer.code) == (403, "AccessDenied"), (number, method, path)
        if "trace" in path:
            continue
        also = {"admin:ListUsers": ["admin:ListGroups", "admin:ListServiceAccounts"]}
        permitted = as_sender(server, add_user(api, action, *also.get(action, [])))
        answer = permitted(method, path, body)
        assert answer.status < 300, (number, method, path, answer.body)


def test_calls_with_encrypted_bodies_need_their_action(api, client):
    other = add_user(api)
    mc = client(*[(sender := add_user(api)).access_key, sender.secret])
    name = other.access_key
    for arguments in [
        ["user", "add", "s", fresh("new"), "of-new-1234"],
        ["user", "add", "s", name, "taken-over-1"],
        ["user", "svcacct", "add", "s", name],
        ["policy", "attach", "s", "readonly", "--user", name],
        ["policy", "detach", "s", "readonly", "--user", name],
    ]:
        assert "not allowed" in mc.refusal("admin", *arguments), arguments


def test_no_sender_gets_more_rights_than_it_has(api, client, tmp_path):
    sender = add_user(
        api,
        "admin:CreateUser",
        "admin:AttachUserOrGroupPolicy",
        "admin:CreatePolicy",
        "admin:CreateServiceAccount",
        "admin:UpdateServiceAccount",
        "admin:ListServiceAccounts",
        "admin:GetUser",
        "admin:AddUserToGroup",
        "admin:GetGroup",
    )
    mc, own = client(sender.access_key, sender.secret), sender.access_key
    boss, group = add_user(api, policies=["consoleAdmin"]), fresh("group")
    api("PUT", f"/groups/{group}", {"policies": ["consoleAdmin"]}, expect=200)
    key = api("POST", f"/users/{boss.access_key}/keys", {}, expect=200).json["access_key"]
    document = tmp_path / "policy.json"
    document.write_text(json.dumps(allow("admin:*")))
    for arguments in [
        ["policy", "attach", "s", "consoleAdmin", "--user", own],
        ["policy", "attach", "s", "readonly", "--user", own],
        ["policy", "create", "s", fresh("all"), str(document)],
        ["user", "add", "s", boss.access_key, "taken-over-1"],
        ["user", "svcacct", "add", "s", boss.access_key],
        ["user", "svcacct", "edit", "s", key, "--secret-key", "taken-over-1"],
        ["group", "add", "s", group, own],
    ]:
        said = mc.refusal("admin", *arguments)
        assert "not allowed" in said or "cannot" in said, arguments
    # It may do what its own rights allow.
    mc.run("admin", "user", "add", "s", fresh("new"), "of-new-1234")


def test_users_manage_their_own_keys(server, api, client):
    sender = add_user(api)
    mc = client(sender.access_key, sender.secret)
    [made] = mc.json("admin", "user", "svcacct", "add", "s", sender.access_key)
    key = made["accessKey"]
    signs(server, key, made["secretKey"])
    mc.run("admin", "user", "svcacct", "info", "s", key)
    # Operators alone choose names. The client shows that of the answer.
    name, secret = fresh("backup"), ["--secret-key", "of-the-key"]
    for add in (["user", "svcacct", "add", "s", sender.access_key], ["accesskey", "create", "s/"]):
        [other] = mc.json("admin", *add, "--access-key", name, *secret)
        assert other["accessKey"] != name
        signs(server, other["accessKey"], "of-the-key")
    mc.run("admin", "user", "svcacct", "disable", "s", key)
    said = mc.refusal("admin", "user", "svcacct", "enable", "s", key)
    assert "An operator enables them" in said
    # A stranger does not learn that the key exists.
    stranger = client(*[(other := add_user(api)).access_key, other.secret])
    assert "not found" in stranger.refusal("admin", "user", "svcacct", "info", "s", key)
    assert "not found" in stranger.refusal("admin", "user", "svcacct", "rm", "s", key)
    mc.run("admin", "user", "svcacct", "rm", "s", key)


def test_signature_covers_path_query_and_body(server, api, operator):
    user, other = add_user(api), add_user(api)
    path = f"/set-user-status?accessKey={user.access_key}&status=disabled"
    headers = operator.signed("PUT", path)
    moved = path.replace(user.access_key, other.access_key)
    assert operator.send("PUT", moved, b"", headers).code == "SignatureDoesNotMatch"
    body = json.dumps({"group": fresh("group"), "members": [user.access_key]}).encode()
    headers = operator.signed("PUT", "/update-group-members", body)
    swapped = body.replace(user.access_key.encode(), other.access_key.encode())
    answer = operator.send("PUT", "/update-group-members", swapped, headers)
    assert answer.code == "XAmzContentSHA256Mismatch"
    assert operator.send("PUT", path).code == "AccessDenied"
    unsigned = {
        **{name.lower(): value for name, value in operator.signed("GET", "/groups").items()},
        "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    }
    assert operator.send("GET", "/groups", b"", unsigned).status == 403


def test_body_of_another_sender_is_refused(server, api, operator):
    sender = as_sender(server, add_user(api, "admin:CreateUser"))
    path = f"/add-user?accessKey={fresh('new')}"
    for body in [b"", b"{}", bytes(60), b"\x00" * 32 + b"\x02" + bytes(40), bytes(1000)]:
        answer = sender("PUT", path, body)
        assert (answer.status, answer.code) == (400, "XMinioAdminConfigBadJSON"), body
    answer = sender("PUT", path, bytes(262_273))
    assert answer.code == "XMinioAdminConfigTooLarge"


def test_permission_is_checked_before_the_body_is_decrypted(server, api):
    without = as_sender(server, add_user(api))
    no_keys = add_policy(api, allow("admin:CreateServiceAccount", effect="Deny"))
    limited = as_sender(server, add_user(api, policies=[no_keys]))
    other = add_user(api).access_key
    for sender, method, path in [
        (without, "PUT", f"/add-user?accessKey={fresh('new')}"),
        (without, "POST", "/idp/builtin/policy/attach"),
        (without, "POST", "/idp/builtin/policy/detach"),
        (limited, "PUT", "/add-service-account"),
    ]:
        answer = sender(method, path, bytes(81))
        assert (answer.status, answer.code) == (403, "AccessDenied"), (path, answer.body)
    key = api("POST", f"/users/{other}/keys", {}, expect=200).json["access_key"]
    answer = without("POST", f"/update-service-account?accessKey={key}", bytes(81))
    assert answer.status == 404, answer.body


def test_tokens_and_old_signatures_are_refused(server, api, operator):
    token = api("POST", "/tokens", {"actions": ["admin:*"]}, expect=200).json["token"]
    bearer = {"authorization": f"Bearer {token}"}
    assert operator.send("GET", "/list-users", b"", bearer).code == "AccessDenied"
    headers = operator.signed("GET", "/groups")
    headers = {name.lower(): value for name, value in headers.items()}
    date = headers["x-amz-date"]
    old = {**headers, "x-amz-date": "20200101" + date[8:]}
    assert operator.send("GET", "/groups", b"", old).status in (400, 403)


def test_region_may_be_empty_or_that_of_the_server(operator):
    path = "/groups"
    assert operator.send("GET", path, b"", operator.signed("GET", path)).status == 200
    empty = operator.signed("GET", path, region="")
    assert operator.send("GET", path, b"", empty).status == 200
    other = operator.signed("GET", path, region="eu-west-9")
    assert operator.send("GET", path, b"", other).code == "AuthorizationHeaderMalformed"
