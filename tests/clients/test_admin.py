"""The administration API: credentials, permissions, and resources of operators."""

import re
import socket
import ssl
from urllib.parse import urlsplit

import pytest

from api import add_policy, add_user, allow, fresh

# The time in which an answer must arrive. The gateway waits 30 s for a body that it reads.
ANSWER_SECONDS = 10

# Valid bodies of operations that have an action, by `operationId`.
BODIES = {
    "PutBucketQuota": {"bytes": 1, "objects": None},
    "PutBucketTrash": {"days": 1},
    "RestoreTrash": {"prefix": ""},
    "EmptyTrash": {"prefix": ""},
    "PutUser": {},
    "PutGroup": {},
    "PutPolicy": {"document": allow("s3:GetObject", resource="arn:aws:s3:::none/*")},
    "PostToken": {"actions": ["admin:ListUsers"]},
}

# Requests about another user or group, each with the action that it needs.
ON_OTHERS = [
    ("GET", "/users/{user}", None, "admin:GetUser"),
    ("PATCH", "/users/{user}", {"enabled": True}, "admin:EnableUser"),
    ("PATCH", "/users/{user}", {"enabled": False}, "admin:DisableUser"),
    ("PATCH", "/users/{user}", {"policies": []}, "admin:AttachUserOrGroupPolicy"),
    ("PATCH", "/users/{user}", {"uid": 7}, "admin:CreateUser"),
    ("GET", "/users/{user}/keys", None, "admin:ListServiceAccounts"),
    ("POST", "/users/{user}/keys", {}, "admin:CreateServiceAccount"),
    ("PATCH", "/users/{user}/keys/{key}", {"enabled": True}, "admin:UpdateServiceAccount"),
    ("POST", "/users/{user}/keys/{key}/rotate", {}, "admin:UpdateServiceAccount"),
    ("DELETE", "/users/{user}/keys/{key}", None, "admin:RemoveServiceAccount"),
    ("PATCH", "/groups/{group}", {"add": ["{user}"]}, "admin:AddUserToGroup"),
    ("PATCH", "/groups/{group}", {"remove": ["{user}"]}, "admin:RemoveUserFromGroup"),
]


@pytest.fixture(scope="session")
def operations(api):
    """The operations of the OpenAPI document: method, path below `/api/v1`, and description."""
    paths = api.having()("GET", "/openapi.json", expect=200).json["paths"]
    return [
        (method.upper(), path.removeprefix("/api/v1"), operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if "operationId" in operation
    ]


def is_denied(answer):
    return answer.status in (401, 403)


def test_every_operation_with_an_action_needs_this_action(api, operations):
    without, checked = add_user(api), 0
    for method, path, operation in operations:
        action = operation.get("x-ashlar-action", "")
        if not action.startswith("admin:"):
            continue
        name = operation["operationId"]
        body = BODIES.get(name)
        assert ("requestBody" in operation) == (body is not None), f"BODIES lacks {name}"
        path = re.sub(r"\{\w+\}", fresh("none"), path)
        denied = without(method, path, body)
        assert (denied.status, denied.code) == (403, "AccessDenied"), f"{name}: {denied}"
        assert action in denied.json["message"], f"{name}: {denied}"
        answer = add_user(api, action)(method, path, body)
        assert not is_denied(answer), f"{name} with {action}: {answer}"
        assert answer.status < 500, f"{name}: {answer}"
        checked += 1
    assert checked > 20


@pytest.mark.parametrize("method, path, body, action", ON_OTHERS)
def test_a_request_about_another_user_or_group_needs_its_action(api, method, path, body, action):
    user = add_user(api).access_key
    key = api("POST", f"/users/{user}/keys", {}, expect=200).json["access_key"]
    group = fresh("group")
    api("PUT", f"/groups/{group}", {}, expect=200)
    names = {"user": user, "key": key, "group": group}
    path = path.format(**names)
    if body:
        body = {
            name: [item.format(**names) for item in value] if isinstance(value, list) else value
            for name, value in body.items()
        }
    denied = add_user(api)(method, path, body)
    assert (denied.status, denied.code) == (403, "AccessDenied"), denied
    answer = add_user(api, action)(method, path, body)
    assert answer.status < 300, answer


def test_a_bucket_request_in_another_users_name_needs_permissions_of_s3(api, operations, bucket):
    without, checked = add_user(api), 0
    for method, path, operation in operations:
        if operation.get("x-ashlar-action") != "s3":
            continue
        body = {} if "requestBody" in operation else None
        if operation["operationId"] == "PutBucketPublic":
            body = {"access": "download"}
        if operation["operationId"] == "PatchBucket":
            body = {"versioning": "enabled"}
        answer = without(method, path.format(bucket=bucket), body)
        # The body of a document can be refused first.
        assert answer.status in (400, 403), f"{operation['operationId']}: {answer}"
        checked += answer.status == 403
    assert checked > 12
    api("GET", f"/buckets/{bucket}", expect=200)


def test_an_anonymous_request_is_refused(api, operations):
    anonymous = api.having()
    for method, path, operation in operations:
        is_open = operation.get("security") == []
        path = re.sub(r"\{\w+\}", "none", path)
        answer = anonymous(method, path, {} if "requestBody" in operation else None)
        assert (answer.status == 401) != is_open, f"{operation['operationId']}: {answer}"
    opened = [it["operationId"] for _, _, it in operations if it.get("security") == []]
    assert sorted(opened) == ["GetHealth", "GetOpenApi"]


def test_wrong_signatures_are_refused(api, server):
    user = add_user(api, "admin:ListUsers")
    user("GET", "/users", expect=200)
    wrong = api.having(access_key=user.access_key, secret=f"{user.secret}x")
    assert wrong("GET", "/users").code == "SignatureDoesNotMatch"
    unknown = api.having(access_key=fresh("unknown"), secret=user.secret)
    assert is_denied(unknown("GET", "/users"))
    assert user.presigned("GET", "/users").code == "Unauthenticated"
    assert user.with_service("GET", "/users", "ashlar").status == 200
    other = user.with_service("GET", "/users", "s3")
    assert other.status in (400, 401, 403), other
    assert is_denied(api.having(token="ashlar-wrong-token")("GET", "/users"))


def test_a_body_that_the_signature_does_not_cover_is_refused(api):
    name = fresh("user")
    answer = api.with_other_body("PUT", f"/users/{name}", {}, {"uid": 1})
    assert 400 <= answer.status < 404, answer
    api("GET", f"/users/{name}", expect=404)


def test_an_unknown_path_and_a_wrong_method_have_their_errors(api):
    assert api("GET", "/nothing", expect=404).code == "NoSuchEndpoint"
    answer = api("POST", "/users", {}, expect=405)
    assert answer.code == "MethodNotAllowed" and "GET" in answer.headers.get("allow", "")
    answer = api("GET", "/policies/validate/more", expect=404)
    assert answer.json["request_id"], "an operator finds the request in the log"


def test_malformed_bodies_and_queries_are_bad_requests(api):
    name = fresh("user")
    for body in ({"uid": "seven"}, {"unknown": 1}, [], "text"):
        answer = api("PUT", f"/users/{name}", body)
        assert answer.status in (400, 422), answer
    for query in ("limit=0", "limit=1001", "limit=x", "page=%21", "unknown=1"):
        assert api("GET", f"/users?{query}").status == 400, query
    api("GET", f"/users/{name}", expect=404)


def test_nothing_is_read_of_a_body_that_is_too_long(server):
    """The answer comes before the body, which the client never sends."""
    url = urlsplit(server.console)
    connection = socket.create_connection((url.hostname, url.port), timeout=ANSWER_SECONDS)
    if url.scheme == "https":
        tls = ssl.create_default_context(cafile=server.ca)
        connection = tls.wrap_socket(connection, server_hostname=url.hostname)
    with connection:
        length = "Content-Length: 99999999999"
        head = ["PUT /api/v1/policies/p HTTP/1.1", f"Host: {url.netloc}", length, "", ""]
        connection.sendall("\r\n".join(head).encode())
        assert b" 413 " in connection.recv(4096).split(b"\r\n")[0]


def test_the_sender_is_shown(api):
    me = api("GET", "/me", expect=200).json
    assert me["root"] and "admin:ListUsers" in me["actions"]
    user = add_user(api, "admin:ListGroups")
    me = user("GET", "/me", expect=200).json
    assert not me["root"] and me["actions"] == ["admin:ListGroups"]
    assert me["access_key"] == user.access_key
    assert user("GET", "/version", expect=200).json["api"] == ["v1"]


def test_a_policy_is_made_changed_and_removed(api):
    name, document = fresh("policy"), allow("s3:GetObject", resource="arn:aws:s3:::a/*")
    made = api("PUT", f"/policies/{name}", {"document": document}, expect=200)
    assert made.json["document"] == document and not made.json["built_in"]
    read = api("GET", f"/policies/{name}", expect=200)
    assert read.etag == made.etag
    other = {"document": allow("s3:PutObject", resource="arn:aws:s3:::a/*")}
    api("PUT", f"/policies/{name}", other, if_match=read.etag, expect=200)
    stale = api("PUT", f"/policies/{name}", {"document": document}, if_match=read.etag, expect=412)
    assert stale.code == "Changed"
    assert api("DELETE", f"/policies/{name}", if_match=read.etag).code == "Changed"
    names = [item["name"] for item in api("GET", f"/policies?prefix={name}").json["items"]]
    assert names == [name]
    user = add_user(api, policies=[name])
    assert api("DELETE", f"/policies/{name}", expect=409).code == "InUse"
    api("DELETE", f"/users/{user.access_key}", expect=204)
    api("DELETE", f"/policies/{name}", expect=204)
    assert api("GET", f"/policies/{name}", expect=404).code == "NoSuchPolicy"
    assert api("DELETE", "/policies/consoleAdmin", expect=409).code == "BuiltIn"


def test_a_policy_document_is_checked(api):
    user = add_user(api)

    def check(document):
        return user("POST", "/policies/validate", {"document": document}, expect=200).json

    good = check(allow("s3:GetObject", resource="arn:aws:s3:::a/*"))
    assert good == {"valid": True, "problem": None, "hints": []}
    bad = check(allow("s3:NoSuchAction"))
    assert not bad["valid"] and "NoSuchAction" in bad["problem"]
    half = allow("s3:*")
    half["Statement"].append(
        {"Effect": "Deny", "Action": "s3:GetObjectVersion", "Resource": "arn:aws:s3:::a/*"}
    )
    half = check(half)
    assert half["valid"] and any("s3:GetObjectVersion" in hint for hint in half["hints"]), half
    name = fresh("policy")
    answer = api("PUT", f"/policies/{name}", {"document": allow("s3:NoSuchAction")}, expect=400)
    assert answer.code == "InvalidPolicy"


def test_a_group_gives_its_policies_to_its_members(api, bucket):
    group, user = fresh("group"), add_user(api)
    policy = add_policy(api, allow("s3:ListBucket", resource=f"arn:aws:s3:::{bucket}"))
    made = api("PUT", f"/groups/{group}", {"policies": [policy]}, expect=200)

    def seen():
        # Other suites of the cell leave public buckets.
        items = user("GET", "/buckets", expect=200).json["items"]
        return [item["name"] for item in items if item["name"] == bucket]

    assert seen() == []
    joined = api("PATCH", f"/groups/{group}", {"add": [user.access_key]}, if_match=made.etag)
    assert joined.status == 200 and joined.json["members"] == [user.access_key]
    assert seen() == [bucket]
    details = api("GET", f"/users/{user.access_key}", expect=200).json
    assert details["groups"] == [group] and details["effective_policies"] == [policy]
    stale = api("PUT", f"/groups/{group}", {"enabled": False}, if_match=made.etag, expect=412)
    assert stale.code == "Changed"
    api("PUT", f"/groups/{group}", {"enabled": False}, expect=200)
    assert seen() == [], "a disabled group gives nothing"
    api("PUT", f"/groups/{group}", {"enabled": True}, expect=200)
    assert seen() == [bucket]
    assert api("DELETE", f"/groups/{group}", expect=409).code == "InUse"
    api("PATCH", f"/groups/{group}", {"remove": [user.access_key]}, expect=200)
    assert seen() == []
    api("DELETE", f"/groups/{group}", expect=204)
    assert api("GET", f"/groups/{group}", expect=404).code == "NoSuchGroup"


def test_an_account_is_made_and_removed(api):
    name = fresh("account")
    made = api("PUT", f"/accounts/{name}", expect=200).json
    assert api("PUT", f"/accounts/{name}", expect=200).json == made, "it stays as it is"
    assert made in api("GET", "/accounts?limit=1000", expect=200).json["items"]
    user = fresh("user")
    api("PUT", f"/users/{user}", {"account": name}, expect=200)
    assert api("DELETE", f"/accounts/{name}", expect=409).code == "InUse"
    api("DELETE", f"/users/{user}", expect=204)
    api("DELETE", f"/accounts/{name}", expect=204)
    assert api("DELETE", f"/accounts/{name}", expect=404).code == "NoSuchAccount"
    assert api("DELETE", "/accounts/main", expect=409).code == "BuiltIn"


def test_a_user_of_another_account_administers_nothing(api):
    account, policy = fresh("account"), "consoleAdmin"
    api("PUT", f"/accounts/{account}", expect=200)
    body = {"account": account, "policies": [policy]}
    issued = api("PUT", f"/users/{fresh('user')}", body, expect=200).json
    user = api.having(access_key=issued["access_key"], secret=issued["secret"])
    assert user("GET", "/me", expect=200).json["actions"] == []
    assert user("GET", "/users", expect=403).code == "AccessDenied"


def test_sessions_status_and_configuration_are_shown(api, server):
    sessions = api("GET", "/sessions", expect=200).json["items"]
    assert sessions and all(item["place"] and item["id"] for item in sessions)
    status = api("GET", "/status", expect=200).json
    assert status["metadata"]["state"] == "ok" and status["blocks"]["state"] == "ok"
    assert status["volume"]["session"] == "ok"
    config = api("GET", "/config", expect=200)
    assert server.secret_key.encode() not in config.body


def test_a_node_is_shown_with_its_blocks(api, control, bucket):
    control.put_object(Bucket=bucket, Key="dir/k", Body=b"x" * 300_000)
    node = api("GET", f"/nodes?path={bucket}%2Fdir%2Fk", expect=200).json
    assert (node["kind"], node["size"]) == ("file", 300_000)
    assert node["blocks_count"] == len(node["blocks"]) >= 1 and node["stored_bytes"] >= 300_000
    again = api("GET", f"/nodes?inode={node['inode']}", expect=200).json
    assert again["etag"] == node["etag"]
    assert api("GET", f"/nodes?path={bucket}%2Fnone", expect=404).code == "NoSuchNode"
    for query in ("", "?inode=1&path=x"):
        assert api("GET", f"/nodes{query}", expect=400).code == "BadRequest"
