"""Attempts to gain rights by credentials that end, by names, and by changes of policies that others
need."""

import datetime
import threading
import time

import boto3
import pytest

from api import add_policy, add_user, allow, denied, fresh, key_of, works

# The actions of a sender that makes users and keys.
MAKES_CREDENTIALS = [
    "admin:CreateUser",
    "admin:AttachUserOrGroupPolicy",
    "admin:CreateServiceAccount",
    "admin:UpdateServiceAccount",
    "admin:RemoveServiceAccount",
]


def in_hours(hours):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (now + datetime.timedelta(hours=hours)).replace(microsecond=0).isoformat()


def session_of(api, server, sender):
    keys = {"aws_access_key_id": sender.access_key, "aws_secret_access_key": sender.secret}
    sts = boto3.client("sts", **{**server.aws_settings(), **keys})
    given = sts.assume_role(RoleArn="arn:aws:iam::0:role/any", RoleSessionName="session")["Credentials"]
    return api.having(
        access_key=given["AccessKeyId"],
        secret=given["SecretAccessKey"],
        session=given["SessionToken"],
    )


@pytest.mark.parametrize("kind", ["token of the operator", "token", "session"])
def test_temporary_senders_make_no_credentials_of_others(api, server, kind):
    data = add_user(api, policies=["readwrite"])
    chief = add_user(api, policies=["consoleAdmin"])
    path = f"/users/{data.access_key}"
    key = key_of(api, data("POST", f"{path}/keys", {"expires": in_hours(1)}, expect=200).json)
    if kind == "session":
        sender = session_of(api, server, chief)
    else:
        of = api if kind == "token of the operator" else chief
        issued = of("POST", "/tokens", {"actions": MAKES_CREDENTIALS}, expect=200).json
        sender = api.having(token=issued["token"])
    name, key_path = fresh("user"), f"{path}/keys/{key.access_key}"
    denied(sender("POST", f"{path}/keys", {}))
    denied(sender("POST", f"{path}/keys/{data.access_key}/rotate", {}))
    denied(sender("POST", f"{key_path}/rotate", {}))
    denied(sender("PUT", f"/users/{name}", {"policies": ["readwrite"]}))
    denied(sender("PATCH", f"{path}/keys/{data.access_key}", {"secret": "takeover1234"}))
    denied(sender("PATCH", key_path, {"secret": "takeover1234"}))
    denied(sender("PATCH", key_path, {"expires": ""}))
    denied(sender("PATCH", key_path, {"expires": in_hours(2)}))
    api("GET", f"/users/{name}", expect=404)
    assert works(data) and works(key)
    # What makes no credentials needs the actions alone.
    sender("PATCH", key_path, {"enabled": False}, expect=200)
    assert not works(key)
    sender("DELETE", key_path, expect=204)


def test_a_key_with_an_end_makes_no_credentials_that_end_later(api):
    data, contractor = add_user(api, policies=["readwrite"]), add_user(api, *MAKES_CREDENTIALS)
    end = in_hours(24)
    own = f"/users/{contractor.access_key}/keys"
    sender = key_of(api, contractor("POST", own, {"expires": end}, expect=200).json)
    path = f"/users/{data.access_key}"
    denied(sender("PUT", f"/users/{fresh('user')}", {}))
    denied(sender("POST", f"{path}/keys/{data.access_key}/rotate", {}))
    denied(sender("PATCH", f"{path}/keys/{data.access_key}", {"secret": "takeover1234"}))
    denied(sender("POST", f"{path}/keys", {"expires": in_hours(48)}))
    issued = sender("POST", f"{path}/keys", {}, expect=200).json
    assert issued["expires"], "it ends with the key of its maker"
    made = f"{path}/keys/{issued['access_key']}"
    denied(sender("PATCH", made, {"expires": ""}))
    denied(sender("PATCH", made, {"expires": in_hours(48)}))
    denied(sender("PATCH", made, {"secret": "takeover1234", "expires": ""}))
    sender("PATCH", made, {"expires": in_hours(12)}, expect=200)
    sender("PATCH", made, {"secret": "takeover1234"}, expect=200)
    sender("POST", f"{made}/rotate", {}, expect=200)
    # The permanent key of the same user has no such limit.
    contractor("PATCH", made, {"expires": ""}, expect=200)
    denied(sender("PATCH", made, {"secret": "takeover5678"}))
    denied(sender("POST", f"{made}/rotate", {}))
    assert works(data)


def test_only_operators_choose_the_name_of_a_key(api):
    user, officer = add_user(api), add_user(api, "admin:CreateServiceAccount")
    path, name = f"/users/{user.access_key}/keys", fresh("backup")
    denied(user("POST", path, {"access_key": name}))
    issued = user("POST", path, {"secret": "chosen-secret-1"}, expect=200).json
    assert issued["access_key"] != name and issued["secret"] == "chosen-secret-1"
    assert officer("POST", path, {"access_key": name}, expect=200).json["access_key"] == name
    # A user of another account has no administrative action.
    account = fresh("account")
    api("PUT", f"/accounts/{account}", expect=200)
    body = {"account": account, "policies": ["consoleAdmin"]}
    tenant = key_of(api, api("PUT", f"/users/{fresh('tenant')}", body, expect=200).json)
    denied(tenant("POST", f"/users/{tenant.access_key}/keys", {"access_key": fresh("loki")}))


def test_a_key_that_an_operator_disables_stays_disabled(api):
    user, officer = add_user(api), add_user(api, "admin:UpdateServiceAccount")
    path = f"/users/{user.access_key}/keys"
    key = key_of(api, user("POST", path, {}, expect=200).json)
    key_path = f"{path}/{key.access_key}"
    # An equal state is no change.
    user("PATCH", key_path, {"enabled": True}, expect=200)
    officer("PATCH", key_path, {"enabled": False}, expect=200)
    denied(user("PATCH", key_path, {"enabled": True}))
    assert not works(key)
    issued = key_of(api, user("POST", f"{key_path}/rotate", {}, expect=200).json)
    assert not works(issued)
    officer("PATCH", key_path, {"enabled": True}, expect=200)
    assert works(key)


def test_a_user_that_makes_no_keys_rotates_none(api):
    no_keys = add_policy(api, allow("admin:CreateServiceAccount", effect="Deny"))
    user = add_user(api, policies=["readwrite"])
    path = f"/users/{user.access_key}"
    key = user("POST", f"{path}/keys", {}, expect=200).json["access_key"]
    api("PATCH", path, {"policies": ["readwrite", no_keys]}, expect=200)
    for of in (key, user.access_key):
        body = {"old_expires_seconds": 3_153_600_000}
        denied(user("POST", f"{path}/keys/{of}/rotate", body))
    denied(user("POST", f"{path}/keys", {}))
    keys = api("GET", f"{path}/keys", expect=200).json["items"]
    assert [item["access_key"] for item in keys] == [key]
    # Its other changes need no key.
    user("PATCH", f"{path}/keys/{key}", {"description": "laptop"}, expect=200)


def test_a_member_of_a_disabled_group_cannot_change_its_policies(api):
    author = add_user(api, "admin:CreatePolicy")
    limit = add_policy(api, allow("s3:DeleteObject", effect="Deny"))
    group, harmless = fresh("group"), {"document": allow("s3:DeleteBucketPolicy", effect="Deny")}
    api("PUT", f"/groups/{group}", {"policies": [limit]}, expect=200)
    api("PATCH", f"/groups/{group}", {"add": [author.access_key]}, expect=200)
    for enabled in (True, False):
        api("PUT", f"/groups/{group}", {"enabled": enabled}, expect=200)
        denied(author("PUT", f"/policies/{limit}", harmless))


def test_a_policy_that_is_replaced_needs_the_rank(api):
    low = add_user(api, "admin:CreatePolicy", "admin:DeletePolicy")
    policy = add_policy(api, allow("admin:ServerInfo"))
    denied(low("PUT", f"/policies/{policy}", {"document": allow("s3:GetObject")}))
    denied(low("DELETE", f"/policies/{policy}"))
    peer = add_user(api, "admin:CreatePolicy", "admin:DeletePolicy", "admin:ServerInfo")
    peer("PUT", f"/policies/{policy}", {"document": allow("s3:GetObject")}, expect=200)
    low("DELETE", f"/policies/{policy}", expect=204)


def test_a_policy_that_does_not_exist_yet_is_not_given(api):
    low = add_user(api, "admin:CreateUser", "admin:AttachUserOrGroupPolicy", "admin:AddUserToGroup")
    puppet = add_user(api)
    future, path = fresh("policy"), f"/users/{puppet.access_key}"
    stop, given = threading.Event(), []

    def attach():
        while not stop.is_set():
            answer = low("PATCH", path, {"policies": [future]})
            if answer.status == 200:
                given.append(answer)

    threads = [threading.Thread(target=attach) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    api("PUT", f"/policies/{future}", {"document": allow("admin:*")}, expect=200)
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not given
    assert api("GET", path, expect=200).json["policies"] == []
    for method, at, body in (
        ("PUT", f"/users/{fresh('user')}", {"policies": [fresh("policy")]}),
        ("PUT", f"/groups/{fresh('group')}", {"policies": [fresh("policy")]}),
    ):
        answer = low(method, at, body)
        assert (answer.status, answer.code) == (404, "NoSuchPolicy"), answer


def test_users_do_not_displace_the_jobs_of_operators(api):
    fsck = api("POST", "/jobs", {"kind": "gc"})
    job = fsck.json["number"] if fsck.status == 200 else None
    tenant = add_user(api, "s3:*", resource="arn:aws:s3:::tenant-*")
    numbers = []
    for _ in range(15):
        name = fresh("tenant")
        tenant.s3().create_bucket(Bucket=name)
        body = {"kind": "delete-bucket", "bucket": name, "confirm": name}
        numbers.append(started(tenant, body))
        deadline = time.monotonic() + 60
        while tenant("GET", f"/jobs/{numbers[-1]}", expect=200).json["state"] == "running":
            assert time.monotonic() < deadline
            time.sleep(0.1)
    jobs = api("GET", "/jobs?limit=1000", expect=200).json["items"]
    kept = [item["number"] for item in jobs if item["user"] == tenant.access_key]
    assert kept == numbers[:-11:-1], "the newest ten"
    if job:
        assert api("GET", f"/jobs/{job}").status == 200


def started(sender, body):
    """Starts a job as soon as the volume has room for one."""
    deadline = time.monotonic() + 60
    while True:
        answer = sender("POST", "/jobs", body)
        if answer.code != "TooManyJobs" or time.monotonic() > deadline:
            assert answer.status == 200, answer
            return answer.json["number"]
        time.sleep(0.2)
