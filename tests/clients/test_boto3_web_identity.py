"""boto3: credentials for identities that an OpenID issuer confirms.

The issuer is a real one in this process. The gateway is started by this suite, because the issuers
are part of its settings. Metadata stores do not matter here, so the suite uses one.
"""

import json
import os
import secrets
import subprocess
import time
import urllib.request

import boto3
import pytest
import urllib3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

import ports
from api import Api, add_policy, add_user, allow, denied
from issuer import AUDIENCE, Authority, Issuer, Key
from server import Command, fresh_bucket_name, refused

pytestmark = pytest.mark.ashlar("the issuers of a server are part of its settings")

STARTS_SECONDS = 60

# The least time in seconds between two requests of a gateway to an issuer, plus one.
ASKED_AGAIN_SECONDS = 11

ROLE = "arn:aws:iam::000000000001:role/staff"
READERS = "arn:aws:iam::000000000001:role/readers"
ACME = "arn:aws:iam::000000000001:role/acme"


class Gateway:
    """A gateway over SQLite and a folder, with its own root user."""

    def __init__(self, program, folder, issuer, of_staff=""):
        self.program, self.folder = program, folder
        self.endpoint = f"http://127.0.0.1:{ports.reserve()}"
        self.console, self.ca = f"http://127.0.0.1:{ports.reserve()}", None
        self.operator = ("operator", secrets.token_hex(16))
        role = f'issuer = "{issuer.url}"\naudience = ["{AUDIENCE}"]\n'
        self.config = folder / "ashlar.toml"
        self.config.write_text(
            f'[[openid]]\nrole = "staff"\n{role}claims = ["email", "groups"]\n{of_staff}\n'
            f'[[openid]]\nrole = "readers"\n{role}policies = ["readonly"]\n'
            f'[[openid]]\nrole = "acme"\n{role}policies = ["readonly"]\n'
            'require = { repository_owner = ["acme", "acme-labs"] }\n'
        )
        self.log = folder / "log"
        self.process = None

    def start(self):
        environment = {name: value for name, value in os.environ.items() if "ASHLAR" not in name}
        environment |= {"ASHLAR_ROOT_USER": self.operator[0]}
        environment |= {"ASHLAR_ROOT_PASSWORD": self.operator[1]}
        words = ["serve", "--create", "--config", self.config, "--data-dir", self.folder / "data"]
        words += ["--listen", self.endpoint.removeprefix("http://"), "--admin-listen", "off"]
        words += ["--console-listen", self.console.removeprefix("http://")]
        words += ["--log", "debug"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, *map(str, words)], env=environment, stdout=log, stderr=log
            )
        end = time.monotonic() + STARTS_SECONDS
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.endpoint}/minio/health/live", timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text()

    def operate(self, *words):
        settings = ["--data-dir", str(self.folder / "data")]
        return Command(self.program, settings).run(*words)

    def aws_settings(self, keys=None):
        key, secret = keys or self.operator
        return {
            "endpoint_url": self.endpoint,
            "region_name": "us-east-1",
            "aws_access_key_id": key,
            "aws_secret_access_key": secret,
        }

    def client(self, service, keys=None, token=None):
        return boto3.client(service, **self.aws_settings(keys), aws_session_token=token)

    def assume(self, token, role=ROLE, **more):
        """Exchanges a token as a program does that has nothing else. Retries are disabled, because
        the test checks the response of STS."""
        config = Config(signature_version=UNSIGNED, retries={"max_attempts": 0})
        settings = {"endpoint_url": self.endpoint, "region_name": "us-east-1", "config": config}
        asked = {"RoleArn": role, "RoleSessionName": "nightly", "WebIdentityToken": token, **more}
        return boto3.client("sts", **settings).assume_role_with_web_identity(**asked)

    def session(self, answer, service="s3"):
        given = answer["Credentials"]
        keys = (given["AccessKeyId"], given["SecretAccessKey"])
        return self.client(service, keys, given["SessionToken"])


@pytest.fixture(scope="module")
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.stop()


@pytest.fixture(scope="module")
def gateway(server, tmp_path_factory, issuer):
    if not server.program:
        pytest.skip("set ASHLAR_TEST_PROGRAM to start a gateway with an issuer")
    if server.ca or not (server.meta or "sqlite:").startswith("sqlite:"):
        pytest.skip("neither metadata stores nor listeners differ in this: tried over http and SQLite")
    gateway = Gateway(server.program, tmp_path_factory.mktemp("web-identity"), issuer)
    gateway.start()
    yield gateway
    gateway.stop()
    log = gateway.log.read_text()
    assert "eyJ" not in log and "anna" not in log, "no tokens and no people in the log"


@pytest.fixture(scope="module")
def operator(gateway):
    return gateway.client("s3")


@pytest.fixture
def bucket(operator):
    name = fresh_bucket_name()
    operator.create_bucket(Bucket=name)
    return name


def rejected(gateway, code, token, status=400, message=None, **more):
    with refused(code, status=status) as caught:
        gateway.assume(token, **more)
    error = caught.value.response["Error"]
    assert error["Type"] == "Sender"
    assert not message or message in error["Message"], error
    assert token.split(".")[1] not in json.dumps(error)


def test_a_token_is_exchanged_for_credentials(gateway, issuer, bucket):
    given = gateway.assume(issuer.token(), DurationSeconds=900)
    assert given["SubjectFromWebIdentityToken"] == "anna-7"
    assert given["Audience"] == AUDIENCE and given["Provider"] == issuer.url
    arn = "arn:aws:sts::000000000001:assumed-role/staff/nightly"
    assert given["AssumedRoleUser"] == {"Arn": arn, "AssumedRoleId": "staff:nightly"}
    left = given["Credentials"]["Expiration"].timestamp() - time.time()
    assert 890 < left <= 901
    s3 = gateway.session(given)
    s3.put_object(Bucket=bucket, Key="k", Body=b"from anna")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"from anna"
    caller = gateway.session(given, "sts").get_caller_identity()
    assert (caller["Arn"], caller["UserId"]) == (arn, "staff:nightly")
    assert caller["Account"] == "000000000001"
    with refused("AccessDenied", status=403):
        gateway.session(given, "sts").assume_role(RoleArn=ROLE, RoleSessionName="again")


def test_the_sdk_gets_credentials_from_a_token_file_and_a_role(
    gateway, issuer, bucket, tmp_path, monkeypatch
):
    """As in a pod of Kubernetes: only environment variables and the SDK's own provider."""
    (tmp_path / "token").write_text(issuer.token())
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    monkeypatch.setenv("AWS_ENDPOINT_URL", gateway.endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3 = boto3.Session().client("s3")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]


def test_parameters_may_be_in_the_query_without_a_role(gateway, issuer):
    """As MinIO's clients send them."""
    words = f"Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken={issuer.token()}"
    request = urllib.request.Request(f"{gateway.endpoint}/?{words}", method="POST", data=b"")
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    assert "<AssumeRoleWithWebIdentityResult>" in text and "<SessionToken>" in text
    assert "assumed-role/staff/session" in text, "the first role of the issuer"


def test_a_session_policy_limits_it(gateway, issuer, bucket):
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    limit = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3 = gateway.session(gateway.assume(issuer.token(), Policy=limit))
    with refused("AccessDenied", status=403):
        s3.put_object(Bucket=bucket, Key="k", Body=b"")
    rejected(gateway, "MalformedPolicyDocument", issuer.token(), Policy="no json")
    rejected(gateway, "PackedPolicyTooLarge", issuer.token(), Policy="x" * 7000)
    arns = [{"arn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}]
    rejected(gateway, "ValidationError", issuer.token(), PolicyArns=arns)


def test_a_role_may_have_its_own_policies(gateway, issuer, bucket, operator):
    operator.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3 = gateway.session(gateway.assume(issuer.token(policy="readwrite"), role=READERS))
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    with refused("AccessDenied", status=403):
        s3.put_object(Bucket=bucket, Key="k", Body=b"the claim does not count")


def test_a_role_may_require_claims_of_the_token(gateway, issuer, bucket, operator):
    """As with GitHub, which issues tokens for any audience to anyone."""
    operator.put_object(Bucket=bucket, Key="k", Body=b"x")
    for owner in ["acme", "acme-labs", ["other", "acme"]]:
        given = gateway.assume(issuer.token(repository_owner=owner), role=ACME)
        assert gateway.session(given).get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    refusal = "Not authorized to perform sts:AssumeRoleWithWebIdentity"
    for owner in [None, "", "acm", "Acme", "acme,acme-labs", [], ["other"], {"acme": "acme"}]:
        token = issuer.token(repository_owner=owner)
        rejected(gateway, "AccessDenied", token, status=403, message=refusal, role=ACME)


def test_a_policy_by_a_claim_needs_the_claim(gateway, issuer, bucket, tmp_path):
    name = f"policy-{secrets.token_hex(4)}"
    allow = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    deny = {**allow, "Effect": "Deny", "Condition": {"StringEquals": {"jwt:groups": "interns"}}}
    (tmp_path / "policy").write_text(json.dumps({"Statement": [allow, deny]}))
    gateway.operate("policy", "add", name, str(tmp_path / "policy"))
    given = eventually(lambda: gateway.assume(issuer.token(policy=name)))
    gateway.session(given).list_objects_v2(Bucket=bucket)
    intern = gateway.session(gateway.assume(issuer.token(policy=name, groups=["a", "interns"])))
    with refused("AccessDenied", status=403):
        intern.list_objects_v2(Bucket=bucket)
    deny["Condition"] = {"StringEquals": {"jwt:team": "interns"}}
    (tmp_path / "policy").write_text(json.dumps({"Statement": [allow, deny]}))
    gateway.operate("policy", "add", name, str(tmp_path / "policy"))
    eventually_denied(lambda: gateway.session(given).list_objects_v2(Bucket=bucket))
    rejected(gateway, "AccessDenied", issuer.token(policy=name), status=403)


def test_a_policy_of_a_claim_needs_the_rank_to_change_it(gateway, issuer):
    """No record says which web identities have a policy by their claim."""
    keys = {"access_key": gateway.operator[0], "secret": gateway.operator[1]}
    api = Api(gateway, urllib3.PoolManager(), **keys)
    low = add_user(api, "admin:CreatePolicy", "admin:DeletePolicy")
    limits = allow("admin:DeleteUser", effect="Deny")
    ops = {**limits, "Statement": allow("admin:*")["Statement"] + limits["Statement"]}
    ops, limits = add_policy(api, ops), add_policy(api, limits)
    for names in (ops, f"consoleAdmin,{limits}"):
        given = gateway.assume(issuer.token(policy=names))["Credentials"]
        web = api.having(
            access_key=given["AccessKeyId"],
            secret=given["SecretAccessKey"],
            session=given["SessionToken"],
        )
        web("GET", "/users", expect=200)
        for name in (ops, limits):
            for document in (allow("s3:GetObject"), allow("admin:*", effect="Deny")):
                denied(low("PUT", f"/policies/{name}", {"document": document}))
            denied(low("DELETE", f"/policies/{name}"))
        web("GET", "/users", expect=200)
        denied(web("DELETE", f"/users/{low.access_key}"))
    # A policy of S3 needs no rank.
    own = add_policy(low, allow("s3:GetObject"))
    low("PUT", f"/policies/{own}", {"document": allow("s3:PutObject")}, expect=200)
    low("DELETE", f"/policies/{own}", expect=204)


def test_the_sessions_of_a_person_share_its_limit_of_jobs(gateway, issuer):
    keys = {"access_key": gateway.operator[0], "secret": gateway.operator[1]}
    api = Api(gateway, urllib3.PoolManager(), **keys)
    policy = add_policy(api, allow("s3:*", resource="arn:aws:s3:::web-*"))
    kept = []
    for _ in range(2):
        token = issuer.token(policy=policy, sub="mallory")
        given = gateway.assume(token)["Credentials"]
        web = api.having(
            access_key=given["AccessKeyId"],
            secret=given["SecretAccessKey"],
            session=given["SessionToken"],
        )
        # The new session sees the jobs of the earlier one.
        for number in kept:
            web("GET", f"/jobs/{number}", expect=200)
        for _ in range(6):
            name = f"web-{fresh_bucket_name()}"
            web.s3().create_bucket(Bucket=name)
            body = {"kind": "delete-bucket", "bucket": name, "confirm": name}
            number = web("POST", "/jobs", body, expect=200).json["number"]
            end = time.monotonic() + 60
            while web("GET", f"/jobs/{number}", expect=200).json["state"] == "running":
                assert time.monotonic() < end
                time.sleep(0.1)
            kept = [*kept, number][-10:]
        other = gateway.assume(issuer.token(policy=policy, sub="bert"))["Credentials"]
        bert = api.having(
            access_key=other["AccessKeyId"],
            secret=other["SecretAccessKey"],
            session=other["SessionToken"],
        )
        denied(bert("GET", f"/jobs/{number}"))
    jobs = api("GET", "/jobs?limit=1000", expect=200).json["items"]
    of_mallory = [item["number"] for item in jobs if item["user"] == f"{issuer.url} mallory"]
    assert of_mallory == kept[::-1], "the newest ten"


def test_no_key_and_no_user_has_the_name_of_a_role(gateway, issuer):
    keys = {"access_key": gateway.operator[0], "secret": gateway.operator[1]}
    api = Api(gateway, urllib3.PoolManager(), **keys)
    user = add_user(api)
    for answer in (
        api("POST", f"/users/{user.access_key}/keys", {"access_key": "staff"}),
        api("PUT", "/users/staff", {}),
    ):
        assert (answer.status, answer.code) == (409, "Exists"), answer
    # A command knows no roles. The principal of a key is its user, so the sessions stay.
    gateway.operate("key", "add", user.access_key, "--access-key", "staff")
    time.sleep(1)
    gateway.assume(issuer.token())
    gateway.operate("key", "remove", "staff")


def test_a_bucket_policy_may_name_the_role_and_the_session(gateway, issuer, bucket, operator):
    operator.put_object(Bucket=bucket, Key="k", Body=b"x")
    given = gateway.assume(issuer.token(policy="writeonly"))
    s3 = gateway.session(given)
    with refused("AccessDenied", status=403):
        s3.get_object(Bucket=bucket, Key="k")
    for who in [ROLE, given["AssumedRoleUser"]["Arn"]]:
        statement = {"Effect": "Allow", "Principal": {"AWS": who}, "Action": "s3:GetObject"}
        statement |= {"Resource": f"arn:aws:s3:::{bucket}/*"}
        condition = {"aws:userid": "staff:nightly", "jwt:sub": "anna-7", "aws:PrincipalArn": ROLE}
        statement |= {"Condition": {"StringEquals": {**condition, "jwt:email": "anna@example.com"}}}
        text = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        operator.put_bucket_policy(Bucket=bucket, Policy=text)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
        bert = gateway.session(gateway.assume(issuer.token(policy="writeonly", sub="bert")))
        with refused("AccessDenied", status=403):
            bert.get_object(Bucket=bucket, Key="k")
        unverified = gateway.assume(issuer.token(policy="writeonly", email_verified=False))
        with refused("AccessDenied", status=403):
            gateway.session(unverified).get_object(Bucket=bucket, Key="k")
        operator.delete_bucket_policy(Bucket=bucket)


def test_invalid_claims_are_refused(gateway, issuer):
    now = int(time.time())
    for changes, code, message in [
        ({"aud": "somebody-else"}, "InvalidIdentityToken", "Incorrect token audience"),
        ({"iss": "https://idp.example.com"}, "InvalidIdentityToken", "No OpenIDConnect provider"),
        ({"exp": now - 300}, "ExpiredTokenException", "Token expired: current date/time"),
        ({"nbf": now + 300}, "InvalidIdentityToken", "not valid yet"),
        ({"iat": now + 300}, "InvalidIdentityToken", "not valid yet"),
        ({"sub": None}, "InvalidIdentityToken", "sub"),
        ({"exp": None}, "InvalidIdentityToken", "exp"),
    ]:
        rejected(gateway, code, issuer.token(**changes), message=message)
    rejected(gateway, "IDPRejectedClaim", issuer.token(policy={"a": 1}), status=403)
    rejected(gateway, "IDPRejectedClaim", issuer.token(policy=["p"] * 33), status=403)
    for policy in [None, "", [], "no-such-policy", "readwrite,no-such-policy"]:
        rejected(gateway, "AccessDenied", issuer.token(policy=policy), status=403)
    other = "arn:aws:iam::000000000001:role/another"
    rejected(gateway, "AccessDenied", issuer.token(), status=403, role=other)
    gateway.assume(issuer.token())


def test_a_forged_token_is_refused(gateway, issuer):
    stranger = Key("first")
    rejected(gateway, "InvalidIdentityToken", issuer.token(stranger), message="signature")
    rejected(gateway, "InvalidIdentityToken", issuer.token(algorithm="none"))
    rejected(gateway, "InvalidIdentityToken", issuer.token(algorithm="HS256"))
    good = issuer.token().split(".")
    richer = issuer.token(stranger, sub="root").split(".")
    rejected(gateway, "InvalidIdentityToken", ".".join([good[0], richer[1], good[2]]))
    rejected(gateway, "InvalidIdentityToken", "this-is.no-token.at-all")
    rejected(gateway, "ValidationError", "long.token." + "c" * 20_000)
    rejected(gateway, "MaxMessageLengthExceeded", "longer.token." + "c" * 70_000)
    gateway.assume(issuer.token())


def test_a_session_is_no_longer_than_its_token(gateway, issuer, bucket):
    soon = int(time.time()) + 120
    given = gateway.assume(issuer.token(exp=soon), DurationSeconds=43_200)
    # One minute of leeway for clocks that differ.
    assert given["Credentials"]["Expiration"].timestamp() == soon + 60
    rejected(gateway, "ValidationError", issuer.token(), DurationSeconds=43_201)
    # A token that expires within the leeway gives credentials for the rest of it.
    given = gateway.assume(issuer.token(exp=int(time.time()) - 57))
    s3 = gateway.session(given)
    s3.list_objects_v2(Bucket=bucket)
    time.sleep(4)
    with refused("ExpiredToken", status=400):
        s3.list_objects_v2(Bucket=bucket)


def test_the_removal_of_a_policy_takes_effect_at_once(gateway, issuer, bucket, tmp_path):
    name = f"policy-{secrets.token_hex(4)}"
    statement = {"Effect": "Allow", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}*"}
    (tmp_path / "policy").write_text(json.dumps({"Statement": [statement]}))
    gateway.operate("policy", "add", name, str(tmp_path / "policy"))
    token = issuer.token(policy=name)
    given = eventually(lambda: gateway.assume(token))
    s3 = gateway.session(given)
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    statement["Action"] = "s3:GetObject"
    (tmp_path / "policy").write_text(json.dumps({"Statement": [statement]}))
    gateway.operate("policy", "add", name, str(tmp_path / "policy"))
    eventually_denied(lambda: s3.put_object(Bucket=bucket, Key="k", Body=b""))
    s3.get_object(Bucket=bucket, Key="k")
    gateway.operate("policy", "remove", name)
    eventually_denied(lambda: s3.get_object(Bucket=bucket, Key="k"))
    rejected(gateway, "AccessDenied", token, status=403)


def eventually(call, seconds=10):
    """Returns the result of a call once the gateway has noticed a change."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except ClientError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def eventually_denied(call):
    def denied():
        try:
            call()
        except ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied", error
            return True
        return False

    end = time.monotonic() + 10
    while not denied():
        assert time.monotonic() < end, "it may still do it"
        time.sleep(0.05)


def test_new_and_removed_keys_of_an_issuer_are_noticed(gateway, issuer):
    gateway.assume(issuer.token())
    first, second = issuer.keys[0], Key("second")
    time.sleep(ASKED_AGAIN_SECONDS)
    asked = len(issuer.asked)
    for made_up in range(10):
        token = issuer.token(first, key_id=f"no-{made_up}")
        rejected(gateway, "InvalidIdentityToken", token, message="verification key")
    assert len(issuer.asked) == asked + 2, "strangers make it ask once, for two documents"
    issuer.keys = [second]
    rejected(gateway, "InvalidIdentityToken", issuer.token(second))
    assert len(issuer.asked) == asked + 2, "not again so soon"
    time.sleep(ASKED_AGAIN_SECONDS)
    gateway.assume(issuer.token(second))
    assert len(issuer.asked) == asked + 4
    rejected(gateway, "InvalidIdentityToken", issuer.token(first))


def test_an_unreachable_issuer_and_an_oversized_response_are_errors(gateway, issuer, tmp_path):
    """A gateway that has just started has no keys in its cache."""
    fresh = Gateway(gateway.program, tmp_path, issuer)
    issuer.stop()
    fresh.start()
    try:
        rejected(fresh, "IDPCommunicationError", issuer.token())
        assert "cannot read the keys of an OpenID issuer" in fresh.log.read_text()
        assert "Connection refused" in fresh.log.read_text()
        gateway.assume(issuer.token())
        issuer.padding, asked = 300_000, len(issuer.asked)
        issuer.start()
        time.sleep(ASKED_AGAIN_SECONDS)
        rejected(fresh, "IDPCommunicationError", issuer.token())
        assert issuer.asked[asked:][-1] == "/realm/keys", "the document was asked for"
        assert "length limit exceeded" in fresh.log.read_text()
        issuer.padding = 0
        time.sleep(ASKED_AGAIN_SECONDS)
        fresh.assume(issuer.token())
    finally:
        issuer.padding = 0
        fresh.stop()


def test_the_certificate_of_an_issuer_is_verified(gateway, tmp_path):
    authority = Authority(tmp_path)
    issuer = Issuer(authority)
    fresh = Gateway(gateway.program, tmp_path, issuer, f'ca_file = "{authority.file}"')
    fresh.start()
    try:
        fresh.assume(issuer.token())
        # The role of readers uses the certificates of the machine.
        rejected(fresh, "IDPCommunicationError", issuer.token(), role=READERS)
        assert "invalid peer certificate" in fresh.log.read_text()
    finally:
        fresh.stop()
        issuer.stop()


def test_the_removal_of_a_role_ends_its_sessions(gateway, issuer, bucket):
    given = gateway.assume(issuer.token(), role=READERS)
    kept = gateway.assume(issuer.token())
    gateway.session(given).list_objects_v2(Bucket=bucket)
    gateway.stop()
    text = gateway.config.read_text()
    first = text.split("[[openid]]")[1]
    gateway.config.write_text(f"[[openid]]{first}")
    gateway.start()
    gateway.session(kept).list_objects_v2(Bucket=bucket)
    with refused("InvalidToken", status=400):
        gateway.session(given).list_objects_v2(Bucket=bucket)
