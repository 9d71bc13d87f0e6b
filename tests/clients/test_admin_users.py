"""Users, keys and tokens in the administration API, and attempts to gain rights by them."""

import datetime
import json
import time
from urllib.parse import quote

import boto3
import pytest
from botocore.exceptions import ClientError

from api import add_policy, add_user, allow, denied, fresh, key_of, works
from server import refused

# All actions that manage users, keys, groups and policies.
USER_ACTIONS = [
    "admin:ListUsers",
    "admin:GetUser",
    "admin:CreateUser",
    "admin:DeleteUser",
    "admin:EnableUser",
    "admin:DisableUser",
    "admin:AttachUserOrGroupPolicy",
    "admin:CreateServiceAccount",
    "admin:UpdateServiceAccount",
    "admin:ListServiceAccounts",
    "admin:RemoveServiceAccount",
    "admin:ListGroups",
    "admin:GetGroup",
    "admin:AddUserToGroup",
    "admin:RemoveUserFromGroup",
    "admin:EnableGroup",
    "admin:DisableGroup",
    "admin:CreatePolicy",
    "admin:DeletePolicy",
    "admin:GetPolicy",
    "admin:ManageTokens",
]

# The time in seconds until which a disabled or expired key must be refused.
REFUSED_SECONDS = 10


@pytest.fixture
def officer(api):
    """A user with every action that manages users, and no other."""
    return add_user(api, *USER_ACTIONS)


@pytest.fixture
def chief(api):
    """A user with all administrative actions."""
    return add_user(api, policies=["consoleAdmin"])


def test_a_secret_is_shown_once(api):
    user = add_user(api, "s3:ListAllMyBuckets")
    assert works(user)
    for path in ("", "/keys"):
        shown = api("GET", f"/users/{user.access_key}{path}", expect=200)
        assert user.secret.encode() not in shown.body
    own = user("POST", f"/users/{user.access_key}/keys", {"description": "laptop"}, expect=200)
    key = key_of(api, own.json)
    assert works(key)
    listed = user("GET", f"/users/{user.access_key}/keys", expect=200)
    assert [item["description"] for item in listed.json["items"]] == ["laptop"]
    assert key.secret.encode() not in listed.body
    assert key("GET", "/me", expect=200).json["access_key"] == user.access_key


def test_a_user_with_a_chosen_secret_and_owner(api):
    name = fresh("user")
    body = {"secret": "chosen-secret-1", "uid": 1000, "gid": 1001, "umask": "027"}
    assert api("PUT", f"/users/{name}", body, expect=200).json["secret"] == "chosen-secret-1"
    shown = api("GET", f"/users/{name}", expect=200).json
    assert (shown["uid"], shown["gid"], shown["umask"]) == (1000, 1001, "027")
    assert works(api.having(access_key=name, secret="chosen-secret-1"))
    assert api("PUT", f"/users/{name}", {}, expect=409).code == "Exists"
    assert api("PUT", f"/users/{fresh('user')}", {"secret": "short"}, expect=400)
    answer = api("PUT", f"/users/{fresh('user')}", {"policies": ["no-such-policy"]}, expect=404)
    assert answer.code == "NoSuchPolicy"


@pytest.mark.parametrize("name", ["anna@example.org", "a+b=c"])
def test_a_name_may_have_characters_that_a_url_escapes(api, name):
    path = f"/users/{quote(name + fresh(''), safe='')}"
    made = api("PUT", path, {}, expect=200).json
    assert made["access_key"].startswith(name)
    assert api("GET", path, expect=200).json["name"] == made["access_key"]
    api("DELETE", path, expect=204)


def test_a_change_of_a_user_names_the_state_that_was_read(api):
    user = add_user(api)
    path = f"/users/{user.access_key}"
    read = api("GET", path, expect=200)
    assert read.etag == api("GET", path).etag
    changed = api("PATCH", path, {"uid": 7}, if_match=read.etag, expect=200)
    assert changed.etag != read.etag
    for change in ({"uid": 8}, {"enabled": False}, {"policies": ["readonly"]}):
        assert api("PATCH", path, change, if_match=read.etag, expect=412).code == "Changed"
    assert api("DELETE", path, if_match=read.etag, expect=412).code == "Changed"
    assert api("GET", path).json["uid"] == 7 and works(user)
    api("DELETE", path, if_match=changed.etag, expect=204)
    assert api("GET", path, expect=404).code == "NoSuchUser"
    assert not works(user)


def test_a_disabled_user_and_its_keys_are_refused(api):
    user = add_user(api, "s3:ListAllMyBuckets", "admin:ManageTokens", "admin:ListUsers")
    path = f"/users/{user.access_key}"
    key = key_of(api, user("POST", f"{path}/keys", {}, expect=200).json)
    made = user("POST", "/tokens", {"actions": ["admin:ListUsers"]}, expect=200).json
    token = api.having(token=made["token"])
    token("GET", "/users", expect=200)
    api("PATCH", path, {"enabled": False}, expect=200)
    assert not works(user) and not works(key)
    assert token("GET", "/users").status in (401, 403)
    api("PATCH", path, {"enabled": True}, expect=200)
    assert works(user) and works(key)
    key_path = f"{path}/keys/{key.access_key}"
    off = user("PATCH", key_path, {"enabled": False}, expect=200)
    assert works(user) and not works(key)
    stale = api("PATCH", key_path, {"enabled": True}, if_match='"1"', expect=412)
    assert stale.code == "Changed"
    api("PATCH", key_path, {"enabled": True}, if_match=off.etag, expect=200)
    assert works(key)
    user("DELETE", key_path, expect=204)
    assert not works(key)


def test_an_expired_key_is_refused(api):
    user = add_user(api, "s3:ListAllMyBuckets")
    path = f"/users/{user.access_key}/keys"
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=4)
    issued = user("POST", path, {"expires": end.isoformat()}, expect=200).json
    key = key_of(api, issued)
    assert works(key) and issued["expires"]
    deadline = time.monotonic() + 4 + REFUSED_SECONDS
    while works(key):
        assert time.monotonic() < deadline, "the key works after its time"
        time.sleep(0.2)
    assert datetime.datetime.now(datetime.timezone.utc) >= end, "the key ended early"
    assert works(user)
    assert user("POST", path, {"expires": "tomorrow"}, expect=400).code == "BadRequest"


def test_a_rotated_key_works_beside_its_successor_until_its_time(api):
    user = add_user(api, "s3:ListAllMyBuckets")
    path = f"/users/{user.access_key}/keys"
    old = key_of(api, user("POST", path, {}, expect=200).json)
    rotate = f"{path}/{old.access_key}/rotate"
    new = key_of(api, user("POST", rotate, {"old_expires_seconds": 3600}, expect=200).json)
    assert new.access_key != old.access_key and works(old) and works(new)
    following = f"{path}/{new.access_key}/rotate"
    last = key_of(api, user("POST", following, {"old_expires_seconds": 0}, expect=200).json)
    assert works(last) and works(old) and not works(new)


def test_a_user_manages_its_own_keys_and_no_others(api):
    one, other = add_user(api), add_user(api)
    for user in (one, other):
        user("POST", f"/users/{user.access_key}/keys", {}, expect=200)
    mine, theirs = f"/users/{one.access_key}", f"/users/{other.access_key}"
    (key,) = other("GET", f"{theirs}/keys").json["items"]
    denied(one("GET", theirs))
    denied(one("GET", f"{theirs}/keys"))
    denied(one("POST", f"{theirs}/keys", {}))
    denied(one("DELETE", f"{theirs}/keys/{key['access_key']}"))
    # A key of another user below the own path.
    for method, tail, body in (
        ("DELETE", "", None),
        ("PATCH", "", {"enabled": False}),
        ("POST", "/rotate", {}),
    ):
        answer = one(method, f"{mine}/keys/{key['access_key']}{tail}", body)
        assert answer.status == 404, answer
    assert works(other) and works_key(other, key)
    no_keys = allow("admin:CreateServiceAccount", effect="Deny")
    limited = add_user(api, policies=[add_policy(api, no_keys)])
    denied(limited("POST", f"/users/{limited.access_key}/keys", {}))


def works_key(owner, key):
    """True if a user still has an enabled key."""
    keys = owner("GET", f"/users/{owner.access_key}/keys", expect=200).json["items"]
    return any(item["access_key"] == key["access_key"] and item["enabled"] for item in keys)


def test_an_officer_manages_users_with_no_more_rights(api, officer):
    reader = add_policy(officer, allow("s3:GetObject", resource="arn:aws:s3:::a/*"))
    made = officer("PUT", f"/users/{fresh('user')}", {"policies": [reader]}, expect=200).json
    path = f"/users/{made['access_key']}"
    officer("PATCH", path, {"enabled": False}, expect=200)
    officer("POST", f"{path}/keys", {}, expect=200)
    officer("DELETE", path, expect=204)


def test_an_officer_cannot_give_more_rights_than_it_has(api, officer):
    name, group, policy = fresh("user"), fresh("group"), fresh("policy")
    denied(officer("PUT", f"/users/{name}", {"policies": ["consoleAdmin"]}))
    api("GET", f"/users/{name}", expect=404)
    for actions in (["admin:*"], ["s3:*", "ADMIN:Server*"], ["admin:ServerInfo"]):
        denied(officer("PUT", f"/policies/{policy}", {"document": allow(*actions)}))
    api("GET", f"/policies/{policy}", expect=404)
    # Everything is everything of S3.
    everything = add_policy(officer, allow("*"))
    assert add_user(api, policies=[everything])("GET", "/me", expect=200).json["actions"] == []
    made = officer("PUT", f"/users/{name}", {}, expect=200).json
    denied(officer("PATCH", f"/users/{name}", {"policies": ["consoleAdmin"]}))
    denied(officer("PUT", f"/groups/{group}", {"policies": ["consoleAdmin"]}))
    api("PUT", f"/groups/{group}", {"policies": ["consoleAdmin"]}, expect=200)
    denied(officer("PATCH", f"/groups/{group}", {"add": [name]}))
    # A group that is disabled now could be enabled later.
    api("PUT", f"/groups/{group}", {"enabled": False}, expect=200)
    denied(officer("PATCH", f"/groups/{group}", {"add": [name]}))
    denied(officer("PUT", f"/groups/{group}", {"enabled": True}))
    assert key_of(api, made)("GET", "/me", expect=200).json["actions"] == []


def test_an_officer_cannot_widen_a_policy_that_others_have(api, officer):
    policy = add_policy(api, allow("admin:ServerInfo"))
    add_user(api, policies=[policy])
    denied(officer("PUT", f"/policies/{policy}", {"document": allow("admin:ListUsers")}))
    harmless = add_policy(officer, allow("admin:ListUsers"))
    denied(officer("PUT", f"/policies/{harmless}", {"document": allow("admin:*")}))


@pytest.mark.parametrize("by_group", [False, True])
def test_an_officer_cannot_take_over_an_operator(api, officer, chief, by_group):
    if by_group:
        chief, group = add_user(api), fresh("group")
        api("PUT", f"/groups/{group}", {"policies": ["consoleAdmin"]}, expect=200)
        api("PATCH", f"/groups/{group}", {"add": [chief.access_key]}, expect=200)
        denied(officer("PATCH", f"/groups/{group}", {"remove": [chief.access_key]}))
        denied(officer("PUT", f"/groups/{group}", {"policies": []}))
    path = f"/users/{chief.access_key}"
    key = chief("POST", f"{path}/keys", {}, expect=200).json["access_key"]
    denied(officer("POST", f"{path}/keys", {}))
    denied(officer("POST", f"{path}/keys/{key}/rotate", {}))
    denied(officer("POST", f"{path}/keys/{chief.access_key}/rotate", {}))
    denied(officer("PATCH", f"{path}/keys/{key}", {"enabled": False}))
    denied(officer("DELETE", f"{path}/keys/{key}"))
    for change in ({"enabled": False}, {"policies": []}, {"uid": 1}):
        denied(officer("PATCH", path, change))
    denied(officer("DELETE", path))
    assert "admin:ServerInfo" in chief("GET", "/me", expect=200).json["actions"]
    keys = chief("GET", f"{path}/keys", expect=200).json["items"]
    assert [(item["access_key"], item["enabled"]) for item in keys] == [(key, True)]


def test_the_operators_own_key_cannot_be_taken(api, officer, server):
    path = f"/users/{server.access_key}"
    for method, tail, body in (
        ("POST", "/keys", {}),
        ("POST", f"/keys/{server.access_key}/rotate", {}),
        ("PATCH", "", {"enabled": False}),
        ("DELETE", "", None),
        ("PUT", "", {}),
    ):
        answer = officer(method, f"{path}{tail}", body)
        assert answer.status in (403, 404, 409), answer
    assert api("GET", "/me", expect=200).json["root"]


def test_a_user_cannot_change_its_own_rights(api):
    deny = add_policy(api, allow("admin:ListGroups", effect="Deny"))
    actions = [action for action in USER_ACTIONS if action != "admin:ListGroups"]
    user = add_user(api, *actions, policies=[deny])
    path, group, joined = f"/users/{user.access_key}", fresh("group"), fresh("group")
    api("PUT", f"/groups/{group}", {}, expect=200)
    api("PUT", f"/groups/{joined}", {"policies": [deny]}, expect=200)
    api("PATCH", f"/groups/{joined}", {"add": [user.access_key]}, expect=200)
    before = user("GET", "/me", expect=200).json["actions"]
    for change in ({"policies": []}, {"enabled": True}, {"uid": 0}):
        denied(user("PATCH", path, change))
    denied(user("PATCH", f"/groups/{group}", {"add": [user.access_key]}))
    denied(user("PATCH", f"/groups/{joined}", {"remove": [user.access_key]}))
    denied(user("PUT", f"/groups/{joined}", {"policies": []}))
    denied(user("PUT", f"/groups/{joined}", {"enabled": False}))
    denied(user("PUT", f"/policies/{deny}", {"document": allow("admin:ListUsers")}))
    # A key of its own has the same rights and limits.
    key = key_of(api, user("POST", f"{path}/keys", {}, expect=200).json)
    denied(key("PATCH", path, {"policies": []}))
    assert user("GET", "/me", expect=200).json["actions"] == before
    assert "admin:ListGroups" not in before


def test_temporary_credentials_make_no_keys_and_no_tokens(api, server, chief):
    keys = {"aws_access_key_id": chief.access_key, "aws_secret_access_key": chief.secret}
    sts = boto3.client("sts", **{**server.aws_settings(), **keys})
    given = sts.assume_role(RoleArn="arn:aws:iam::0:role/any", RoleSessionName="session")["Credentials"]
    temporary = api.having(
        access_key=given["AccessKeyId"],
        secret=given["SecretAccessKey"],
        session=given["SessionToken"],
    )
    assert temporary("GET", "/me", expect=200).json["access_key"] == chief.access_key
    temporary("GET", "/users?limit=1", expect=200)
    denied(temporary("POST", f"/users/{chief.access_key}/keys", {}))
    denied(temporary("POST", "/tokens", {"actions": ["admin:ListUsers"]}))
    denied(temporary("PATCH", f"/users/{chief.access_key}", {"policies": []}))
    without = api.having(access_key=given["AccessKeyId"], secret=given["SecretAccessKey"])
    assert without("GET", "/me").status in (400, 401, 403)


def test_a_token_has_its_actions_and_no_others(api, server, chief, bucket):
    made = chief("POST", "/tokens", {"actions": ["admin:ListUsers"], "description": "t"}).json
    token = api.having(token=made["token"])
    token("GET", "/users?limit=1", expect=200)
    assert token("GET", "/me", expect=200).json["actions"] == ["admin:ListUsers"]
    user = add_user(api)
    path = f"/users/{user.access_key}"
    for method, at, body in (
        ("GET", "/groups", None),
        ("GET", "/status", None),
        ("GET", "/tokens", None),
        ("GET", path, None),
        # Its own user, too.
        ("GET", f"/users/{chief.access_key}", None),
        ("GET", f"/users/{chief.access_key}/keys", None),
        ("POST", "/policies/simulate", {"user": chief.access_key, "action": "s3:GetObject"}),
        ("PUT", f"/users/{fresh('user')}", {}),
        ("DELETE", path, None),
        ("POST", f"{path}/keys", {}),
        ("POST", f"/users/{chief.access_key}/keys", {}),
        ("POST", "/tokens", {"actions": ["admin:ListUsers"]}),
        ("PUT", f"/buckets/{bucket}/public", {"access": "public"}),
        ("DELETE", f"/buckets/{bucket}", None),
    ):
        denied(token(method, at, body))
    assert token("GET", "/buckets", expect=200).json["items"] == []
    # Nor is a token an access key of S3.
    stolen = {"aws_access_key_id": made["name"], "aws_secret_access_key": made["token"]}
    s3 = boto3.client("s3", **{**server.aws_settings(), **stolen})
    with refused("InvalidAccessKeyId", "AccessDenied", "SignatureDoesNotMatch"):
        s3.list_buckets()


def test_a_bucket_policy_that_names_a_session_gives_a_token_nothing(api, chief, control, bucket):
    made = chief("POST", "/tokens", {"actions": ["admin:ListUsers"]}, expect=200).json
    session = f"{chief.access_key}/{made['name']}"
    account = api("GET", "/me", expect=200).json["account"]
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:sts::{account}:assumed-role/{session}"},
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    api("PUT", f"/buckets/{bucket}/policy", policy, expect=200)
    token = api.having(token=made["token"])
    denied(token("GET", f"/buckets/{bucket}/tags"))
    assert token("GET", "/buckets", expect=200).json["items"] == []


def test_a_right_under_a_condition_is_not_passed_on(api):
    creates = allow("admin:CreateUser", "admin:AttachUserOrGroupPolicy")
    listing = allow("admin:ListUsers")
    under_condition = allow("admin:ListUsers")
    under_condition["Statement"][0]["Condition"] = {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}
    wanted = add_policy(api, listing)
    local = add_user(api, policies=[add_policy(api, creates), add_policy(api, under_condition)])
    local("GET", "/users?limit=1", expect=200)
    denied(local("PUT", f"/users/{fresh('user')}", {"policies": [wanted]}))
    always = add_user(api, policies=[add_policy(api, creates), wanted])
    always("PUT", f"/users/{fresh('user')}", {"policies": [wanted]}, expect=200)
    # A Deny under a condition would not limit the new user, who is elsewhere.
    under_condition["Statement"][0]["Effect"] = "Deny"
    under_condition["Statement"][0]["Condition"] = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    policies = [add_policy(api, creates), wanted, add_policy(api, under_condition)]
    limited = add_user(api, policies=policies)
    limited("GET", "/users?limit=1", expect=200)
    denied(limited("PUT", f"/users/{fresh('user')}", {"policies": [wanted]}))


def test_a_token_with_all_actions_makes_no_other_token(api, chief):
    body = {"actions": ["admin:ManageTokens", "admin:CreateServiceAccount"]}
    token = api.having(token=chief("POST", "/tokens", body, expect=200).json["token"])
    token("GET", "/tokens", expect=200)
    denied(token("POST", "/tokens", {"actions": ["admin:ListUsers"]}))
    denied(token("POST", f"/users/{chief.access_key}/keys", {}))


def test_a_token_has_no_more_rights_than_its_user(api):
    user = add_user(api, "admin:ManageTokens", "admin:ListUsers")
    body = {"actions": ["admin:ListUsers", "admin:ServerInfo"]}
    answer = user("POST", "/tokens", body)
    if answer.status == 200:
        token = api.having(token=answer.json["token"])
        denied(token("GET", "/status"))
    else:
        denied(answer)


def test_a_token_ends_when_it_is_revoked_or_expires(api, chief):
    body = {"actions": ["admin:ListUsers"]}
    made = chief("POST", "/tokens", body, expect=200).json
    token = api.having(token=made["token"])
    token("GET", "/users?limit=1", expect=200)
    listed = chief("GET", "/tokens?limit=1000", expect=200)
    assert made["name"] in [item["access_key"] for item in listed.json["items"]]
    assert made["token"].encode() not in listed.body
    other = add_user(api, "admin:ManageTokens")
    assert other("DELETE", f"/tokens/{made['name']}").status in (403, 404)
    chief("DELETE", f"/tokens/{made['name']}", expect=204)
    assert token("GET", "/users?limit=1", expect=401)
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
    made = chief("POST", "/tokens", {**body, "expires": end.isoformat()}, expect=200).json
    token = api.having(token=made["token"])
    token("GET", "/users?limit=1", expect=200)
    deadline = time.monotonic() + 3 + REFUSED_SECONDS
    while token("GET", "/users?limit=1").status == 200:
        assert time.monotonic() < deadline, "the token works after its time"
        time.sleep(0.2)


def simulated(api, user, resource):
    asked = {"user": user.access_key, "action": "s3:GetObject", "resource": resource}
    return api("POST", "/policies/simulate", asked, expect=200).json["allowed"]


def reads(user, resource):
    bucket, key = resource.split("/")
    try:
        user.s3().get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied", error
        return False
    return True


def test_the_simulator_sees_tags_lists_and_the_public_access_block(api, control, bucket):
    reader, stranger = add_user(api, policies=["readonly"]), add_user(api)
    arn, account = f"arn:aws:s3:::{bucket}/*", fresh("lab")
    for key, tags in (("secret", "secret=yes"), ("public", "public=yes"), ("plain", "")):
        control.put_object(Bucket=bucket, Key=key, Body=b"1", Tagging=tags)
    statements = [
        {
            "Effect": effect,
            "Principal": {"AWS": f"arn:aws:iam::000000000001:user/{user.access_key}"},
            "Action": "s3:GetObject",
            "Resource": arn,
            "Condition": {"StringEquals": {f"s3:ExistingObjectTag/{tag}": "yes"}},
        }
        for effect, user, tag in (("Deny", reader, "secret"), ("Allow", stranger, "public"))
    ]
    document = {"Version": "2012-10-17", "Statement": statements}
    control.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))
    listed = fresh("listed")
    control.create_bucket(Bucket=listed, ObjectOwnership="ObjectWriter")
    control.delete_public_access_block(Bucket=listed)
    control.put_object(Bucket=listed, Key="k", Body=b"1", ACL="authenticated-read")
    api("PUT", f"/accounts/{account}", expect=200)
    body = {"account": account, "policies": ["readwrite"]}
    lara = key_of(api, api("PUT", f"/users/{fresh('lara')}", body, expect=200).json)
    theirs, s3 = fresh("theirs"), lara.s3()
    s3.create_bucket(Bucket=theirs)
    s3.put_object(Bucket=theirs, Key="k", Body=b"1")
    block = {"BlockPublicPolicy": False, "BlockPublicAcls": False, "IgnorePublicAcls": False}
    block |= {"RestrictPublicBuckets": True}
    s3.put_public_access_block(Bucket=theirs, PublicAccessBlockConfiguration=block)
    everyone = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}
    everyone |= {"Resource": f"arn:aws:s3:::{theirs}/*"}
    document = {"Version": "2012-10-17", "Statement": [everyone]}
    s3.put_bucket_policy(Bucket=theirs, Policy=json.dumps(document))
    for user, resource, expected in (
        (reader, f"{bucket}/plain", True),
        (reader, f"{bucket}/secret", False),
        (stranger, f"{bucket}/plain", False),
        (stranger, f"{bucket}/public", True),
        (stranger, f"{listed}/k", True),
        (reader, f"{theirs}/k", False),
    ):
        assert reads(user, resource) == expected, resource
        assert simulated(api, user, resource) == expected, resource
