"""boto3, low level: accounts, bucket policies, access control lists, public buckets, CORS, STS."""

import json
import threading
import time

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from people import Person, add_account, add_person
from server import fresh_bucket_name, refused

pytestmark = pytest.mark.ashlar("accounts are created by the gateway's own commands")


@pytest.fixture(scope="module")
def other_account(server):
    """Another account, with a user who has all rights in it."""
    account = add_account(server)
    return account, add_person(server, ["readwrite"], account)


@pytest.fixture
def anonymous(server):
    """A client without credentials."""
    settings = {"endpoint_url": server.endpoint, "region_name": "us-east-1"}
    settings |= {"verify": server.ca} if server.ca else {}
    return boto3.client("s3", config=Config(signature_version=UNSIGNED), **settings)


def policy(bucket, *statements):
    """Returns a bucket policy of statements: (effect, principal, actions, resource in the bucket).
    """
    arn = f"arn:aws:s3:::{bucket}"
    made = [
        {"Effect": effect, "Principal": who, "Action": actions, "Resource": f"{arn}{of}"}
        for effect, who, actions, of in statements
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": made})


def shared_bucket(control, ownership="ObjectWriter"):
    """Creates a bucket in which access control lists are effective."""
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name, ObjectOwnership=ownership)
    return name


def test_accounts_do_not_see_each_other(control, bucket, other_account):
    account, carl = other_account
    control.put_object(Bucket=bucket, Key="k", Body=b"ours")
    with refused("AccessDenied", status=403):
        carl.s3.get_object(Bucket=bucket, Key="k")
    with refused("AccessDenied", status=403):
        carl.s3.list_objects_v2(Bucket=bucket)
    with refused("BucketAlreadyExists", status=409):
        carl.s3.create_bucket(Bucket=bucket)
    assert bucket not in [each["Name"] for each in carl.s3.list_buckets()["Buckets"]]
    own = fresh_bucket_name()
    carl.s3.create_bucket(Bucket=own)
    listed = carl.s3.list_buckets()
    assert [each["Name"] for each in listed["Buckets"]] == [own]
    assert listed["Owner"]["ID"] == account.canonical_id
    assert own not in [each["Name"] for each in control.list_buckets()["Buckets"]]
    carl.s3.delete_bucket(Bucket=own)


def test_a_bucket_policy_lets_another_account_in(control, bucket, other_account):
    account, carl = other_account
    control.put_object(Bucket=bucket, Key="open/k", Body=b"read me")
    control.put_object(Bucket=bucket, Key="k", Body=b"not me")
    who = {"AWS": f"arn:aws:iam::{account.number}:root"}
    text = policy(bucket, ("Allow", who, "s3:GetObject", "/open/*"))
    control.put_bucket_policy(Bucket=bucket, Policy=text)
    assert json.loads(control.get_bucket_policy(Bucket=bucket)["Policy"]) == json.loads(text)
    assert carl.s3.get_object(Bucket=bucket, Key="open/k")["Body"].read() == b"read me"
    with refused("AccessDenied", status=403):
        carl.s3.get_object(Bucket=bucket, Key="k")
    status = control.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]
    assert status["IsPublic"] is False
    control.delete_bucket_policy(Bucket=bucket)
    with refused("AccessDenied", status=403):
        carl.s3.get_object(Bucket=bucket, Key="open/k")
    with refused("NoSuchBucketPolicy", status=404):
        control.get_bucket_policy(Bucket=bucket)


def test_an_unsupported_policy_is_refused(control, bucket):
    for text in ["no json", policy(bucket, ("Allow", "*", "s3:Frobnicate", "/*"))]:
        with refused("MalformedPolicy", status=400):
            control.put_bucket_policy(Bucket=bucket, Policy=text)
    elsewhere = policy("another-bucket", ("Allow", "*", "s3:GetObject", "/*"))
    with refused("MalformedPolicy", status=400):
        control.put_bucket_policy(Bucket=bucket, Policy=elsewhere)


def test_a_public_bucket_is_read_and_written_without_credentials(control, bucket, anonymous):
    with refused("AccessDenied", status=403):
        anonymous.get_object(Bucket=bucket, Key="k")
    text = policy(
        bucket,
        ("Allow", "*", ["s3:GetObject", "s3:PutObject"], "/*"),
        ("Allow", "*", "s3:ListBucket", ""),
    )
    control.put_bucket_policy(Bucket=bucket, Policy=text)
    anonymous.put_object(Bucket=bucket, Key="k", Body=b"from anonymous")
    assert anonymous.get_object(Bucket=bucket, Key="k")["Body"].read() == b"from anonymous"
    assert [each["Key"] for each in anonymous.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]
    with refused("AccessDenied", status=403):
        anonymous.delete_object(Bucket=bucket, Key="k")
    block = {"BlockPublicPolicy": True, "RestrictPublicBuckets": True}
    control.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    with refused("AccessDenied", status=403):
        anonymous.get_object(Bucket=bucket, Key="k")
    with refused("AccessDenied", status=403):
        control.put_bucket_policy(Bucket=bucket, Policy=text)
    control.delete_public_access_block(Bucket=bucket)
    assert anonymous.get_object(Bucket=bucket, Key="k")["Body"].read() == b"from anonymous"


def test_conditions_use_the_values_of_the_request(control, bucket, server):
    bert = add_person(server)
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::000000000001:user/{bert.access_key}"},
        "Action": "s3:ListBucket",
        "Resource": f"arn:aws:s3:::{bucket}",
        "Condition": {
            "StringLike": {"s3:prefix": "home/${aws:username}/*"},
            "IpAddress": {"aws:SourceIp": ["127.0.0.0/8", "::1/128"]},
        },
    }
    text = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    control.put_bucket_policy(Bucket=bucket, Policy=text)
    bert.s3.list_objects_v2(Bucket=bucket, Prefix=f"home/{bert.access_key}/a")
    with refused("AccessDenied", status=403):
        bert.s3.list_objects_v2(Bucket=bucket, Prefix="home/anna/")
    with refused("AccessDenied", status=403):
        bert.s3.list_objects_v2(Bucket=bucket)
    statement["Condition"]["IpAddress"]["aws:SourceIp"] = ["192.0.2.0/24"]
    text = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    control.put_bucket_policy(Bucket=bucket, Policy=text)
    with refused("AccessDenied", status=403):
        bert.s3.list_objects_v2(Bucket=bucket, Prefix=f"home/{bert.access_key}/a")


def test_new_buckets_have_no_access_control_lists(control, bucket):
    controls = control.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]
    assert controls["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    control.put_object(Bucket=bucket, Key="k", Body=b"", ACL="bucket-owner-full-control")
    with refused("AccessControlListNotSupported", status=400):
        control.put_object(Bucket=bucket, Key="k", Body=b"", ACL="public-read")
    with refused("AccessControlListNotSupported", status=400):
        control.put_bucket_acl(Bucket=bucket, ACL="public-read")
    grants = control.get_bucket_acl(Bucket=bucket)["Grants"]
    assert [grant["Permission"] for grant in grants] == ["FULL_CONTROL"]


def test_access_control_lists_are_read_back_and_effective(control, anonymous, other_account):
    account, carl = other_account
    bucket = shared_bucket(control)
    control.put_object(Bucket=bucket, Key="public", Body=b"1", ACL="public-read")
    grant = f'id="{account.canonical_id}"'
    control.put_object(Bucket=bucket, Key="carls", Body=b"2", GrantRead=grant)
    assert anonymous.get_object(Bucket=bucket, Key="public")["Body"].read() == b"1"
    with refused("AccessDenied", status=403):
        anonymous.get_object(Bucket=bucket, Key="carls")
    assert carl.s3.get_object(Bucket=bucket, Key="carls")["Body"].read() == b"2"
    shown = control.get_object_acl(Bucket=bucket, Key="carls")
    assert [(each["Grantee"]["ID"], each["Permission"]) for each in shown["Grants"]] == [
        (account.canonical_id, "READ")
    ]
    control.put_object_acl(Bucket=bucket, Key="public", ACL="private")
    with refused("AccessDenied", status=403):
        anonymous.get_object(Bucket=bucket, Key="public")
    control.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert len(anonymous.list_objects_v2(Bucket=bucket)["Contents"]) == 2
    grantees = [each["Grantee"] for each in control.get_bucket_acl(Bucket=bucket)["Grants"]]
    assert grantees[1]["URI"].endswith("/AllUsers")


def test_an_object_belongs_to_its_writer(control, other_account):
    account, carl = other_account
    for ownership, asked, whose in [
        ("ObjectWriter", {}, account.canonical_id),
        ("BucketOwnerPreferred", {}, account.canonical_id),
        ("BucketOwnerPreferred", {"ACL": "bucket-owner-full-control"}, None),
        ("BucketOwnerEnforced", {}, None),
    ]:
        bucket = shared_bucket(control, ownership)
        who = {"AWS": f"arn:aws:iam::{account.number}:root"}
        text = policy(bucket, ("Allow", who, ["s3:PutObject", "s3:PutObjectAcl"], "/*"))
        control.put_bucket_policy(Bucket=bucket, Policy=text)
        carl.s3.put_object(Bucket=bucket, Key="k", Body=b"x", **asked)
        listed = control.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"][0]
        own = control.list_buckets()["Owner"]["ID"]
        assert listed["Owner"]["ID"] == (whose or own), ownership
        if whose:
            with refused("AccessDenied", status=403):
                control.get_object(Bucket=bucket, Key="k")
            assert carl.s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
        else:
            assert control.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_the_expected_owner_is_checked(control, bucket):
    control.put_object(
        Bucket=bucket, Key="k", Body=b"", ExpectedBucketOwner="000000000001"
    )
    with refused("AccessDenied", status=403):
        control.put_object(Bucket=bucket, Key="k", Body=b"", ExpectedBucketOwner="1" * 12)


def test_a_missing_key_is_reported_only_with_the_right_to_list(control, bucket, anonymous):
    text = policy(bucket, ("Allow", "*", "s3:GetObject", "/*"))
    control.put_bucket_policy(Bucket=bucket, Policy=text)
    with refused("AccessDenied", status=403):
        anonymous.get_object(Bucket=bucket, Key="absent")
    with refused("NoSuchKey", status=404):
        control.get_object(Bucket=bucket, Key="absent")


def test_temporary_credentials_are_limited_by_their_policy(control, bucket, server):
    control.put_object(Bucket=bucket, Key="a/k", Body=b"1")
    control.put_object(Bucket=bucket, Key="k", Body=b"2")
    sts = boto3.client("sts", **server.aws_settings())
    statement = {
        "Effect": "Allow",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/a/*",
    }
    limit = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    given = sts.assume_role(
        RoleArn="arn:aws:iam::000000000001:role/any", RoleSessionName="nightly", Policy=limit
    )["Credentials"]
    settings = {
        **server.aws_settings(),
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
    }
    s3 = boto3.client("s3", aws_session_token=given["SessionToken"], **settings)
    assert s3.get_object(Bucket=bucket, Key="a/k")["Body"].read() == b"1"
    with refused("AccessDenied", status=403):
        s3.get_object(Bucket=bucket, Key="k")
    with refused("InvalidToken", status=400):
        boto3.client("s3", aws_session_token="none", **settings).list_buckets()
    with refused("InvalidAccessKeyId", status=403):
        boto3.client("s3", **settings).list_buckets()
    caller = boto3.client("sts", aws_session_token=given["SessionToken"], **settings)
    arn = caller.get_caller_identity()["Arn"]
    assert arn.startswith("arn:aws:sts::000000000001:assumed-role/") and arn.endswith("/nightly")


@pytest.mark.parametrize("key", ["aws:username", "aws:PrincipalArn"])
def test_a_deny_of_a_user_holds_for_its_sessions(control, bucket, server, key):
    bert = add_person(server, ["readwrite"])
    control.put_object(Bucket=bucket, Key="keep", Body=b"1")
    arn = f"arn:aws:iam::000000000001:user/{bert.access_key}"
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:DeleteObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringEquals": {key: bert.access_key if key == "aws:username" else arn}},
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    control.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))
    sts = boto3.client("sts", **bert.settings(server))
    role = "arn:aws:iam::000000000001:role/any"
    given = sts.assume_role(RoleArn=role, RoleSessionName="zz")["Credentials"]
    settings = {
        **server.aws_settings(),
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
        "aws_session_token": given["SessionToken"],
    }
    for s3 in (bert.s3, boto3.client("s3", **settings)):
        with refused("AccessDenied", status=403):
            s3.delete_object(Bucket=bucket, Key="keep")
        assert s3.get_object(Bucket=bucket, Key="keep")["Body"].read() == b"1"


def issued(said):
    """Returns the access key and the secret in the output of a command."""
    lines = dict(line.rsplit(None, 1) for line in said.splitlines())
    return lines["access key"], lines["secret key"]


def test_a_key_is_rotated_without_a_refused_request(server, control, bucket):
    control.put_object(Bucket=bucket, Key="k", Body=b"1")
    anna = add_person(server, ["readonly"])
    current, failures, counts, stop = [anna.s3], [], {}, threading.Event()

    def load():
        while not stop.is_set():
            client = current[0]
            try:
                client.get_object(Bucket=bucket, Key="k")["Body"].read()
            except ClientError as error:
                failures.append(error.response["Error"]["Code"])
            counts[id(client)] = counts.get(id(client), 0) + 1

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    key, secret = issued(server.operate("key", "rotate", anna.access_key, "--old-expires", "8s"))
    ends = time.monotonic() + 8
    new = boto3.client("s3", **Person(key, secret, None).settings(server))
    while True:
        try:
            new.list_buckets()
            break
        except ClientError:
            assert time.monotonic() < ends - 3, "the gateway does not know the new key"
            time.sleep(0.05)
    time.sleep(max(0, ends - 2 - time.monotonic()))
    current[0] = new
    time.sleep(max(0, ends + 1 - time.monotonic()))
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures and min(counts.values()) > 10 and len(counts) == 2, (failures, counts)
    with refused("InvalidAccessKeyId", status=403):
        anna.s3.list_buckets()
    listed = server.operate("key", "list", anna.access_key).splitlines()
    assert sorted(line.split("\t")[0] for line in listed) == sorted([anna.access_key, key])
    server.operate("user", "remove", anna.access_key)


def test_a_cors_configuration_is_stored_and_applied(control, bucket):
    with refused("NoSuchCORSConfiguration", status=404):
        control.get_bucket_cors(Bucket=bucket)
    rule = {
        "AllowedMethods": ["GET", "PUT"],
        "AllowedOrigins": ["https://*.example.com"],
        "AllowedHeaders": ["*"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 60,
    }
    control.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    assert control.get_bucket_cors(Bucket=bucket)["CORSRules"] == [rule]
    control.delete_bucket_cors(Bucket=bucket)
    with refused("NoSuchCORSConfiguration", status=404):
        control.get_bucket_cors(Bucket=bucket)
