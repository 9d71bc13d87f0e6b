"""boto3, low level: conditions of policies are evaluated for the requested object or version."""

import json

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config

import versions
from people import add_account, add_person
from server import fresh_bucket_name, refused

pytestmark = pytest.mark.ashlar("the reference has other keys, and other values of some")


@pytest.fixture
def versioned(control, bucket):
    """A versioned bucket."""
    versions.enable(control, bucket)
    return bucket


@pytest.fixture
def anonymous(server):
    """A client without credentials."""
    settings = {"endpoint_url": server.endpoint, "region_name": "us-east-1"}
    settings |= {"verify": server.ca} if server.ca else {}
    return boto3.client("s3", config=Config(signature_version=UNSIGNED), **settings)


def set_policy(s3, bucket, *statements):
    """Sets a policy about the objects of a bucket, from statements without principal and resource.
    """
    of_all = {"Principal": "*", "Resource": f"arn:aws:s3:::{bucket}/*"}
    whole = [{**of_all, **one} for one in statements]
    document = {"Version": "2012-10-17", "Statement": whole}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))


def deny(action, **condition):
    return {"Effect": "Deny", "Action": action, "Condition": condition}


def secret_then_plain(s3, bucket, key):
    """Writes two versions, of which the first has the tag class=secret. Returns both ids."""
    secret = versions.put(s3, bucket, key, Tagging="class=secret")
    return secret, versions.put(s3, bucket, key)


def test_tag_conditions_use_the_tags_of_the_version(control, versioned):
    old, new = secret_then_plain(control, versioned, "k")
    secret = {"s3:ExistingObjectTag/class": "secret"}
    set_policy(control, versioned, deny("s3:*", StringEquals=secret))
    where = {"Bucket": versioned, "Key": "k"}
    tagging = {"TagSet": [{"Key": "class", "Value": "open"}]}
    copied = {"Bucket": versioned, "Key": "copy"}
    for operation in (
        lambda: control.get_object(**where, VersionId=old),
        lambda: control.put_object_tagging(**where, VersionId=old, Tagging=tagging),
        lambda: control.delete_object_tagging(**where, VersionId=old),
        lambda: control.delete_object(**where, VersionId=old),
        lambda: control.copy_object(**copied, CopySource={**where, "VersionId": old}),
    ):
        with refused("AccessDenied", status=403):
            operation()
    gone = control.delete_objects(
        Bucket=versioned, Delete={"Objects": [{"Key": "k", "VersionId": old}]}
    )
    assert [one["Code"] for one in gone["Errors"]] == ["AccessDenied"]
    control.put_object_tagging(**where, VersionId=new, Tagging=tagging)
    control.copy_object(**copied, CopySource={**where, "VersionId": new})
    control.delete_object(**where, VersionId=new)
    # Now the secret version is current.
    with refused("AccessDenied", status=403):
        control.delete_object(**where)
    control.delete_bucket_policy(Bucket=versioned)


def test_version_conditions_use_the_version_of_the_entry_or_source(control, versioned):
    first, second = secret_then_plain(control, versioned, "k")
    actions = ("s3:DeleteObjectVersion", "s3:GetObjectVersion")
    keep = [deny(action, StringEquals={"s3:VersionId": first}) for action in actions]
    set_policy(control, versioned, *keep)
    entries = [{"Key": "k", "VersionId": one} for one in (first, second)]
    answer = control.delete_objects(Bucket=versioned, Delete={"Objects": entries})
    assert [one["VersionId"] for one in answer["Errors"]] == [first]
    assert [one["VersionId"] for one in answer["Deleted"]] == [second]
    source = {"Bucket": versioned, "Key": "k", "VersionId": first}
    with refused("AccessDenied", status=403):
        control.copy_object(Bucket=versioned, Key="copy", CopySource=source)
    control.delete_bucket_policy(Bucket=versioned)


def test_the_source_of_a_copy_has_one_name(control, bucket):
    for key in ("open/a b", "closed/a b"):
        control.put_object(Bucket=bucket, Key=key, Body=key.encode())
    pattern = {"s3:x-amz-copy-source": f"{bucket}/closed/*"}
    set_policy(control, bucket, deny("s3:PutObject", StringLike=pattern))
    upload = control.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    part = {"Bucket": bucket, "Key": "parts", "UploadId": upload, "PartNumber": 1}
    sources = []

    def write_source(params, **_):
        # boto3 would encode it a second time.
        params["headers"]["x-amz-copy-source"] = sources[-1]

    events = ("before-call.s3.CopyObject", "before-call.s3.UploadPartCopy")
    for event in events:
        control.meta.events.register(event, write_source)
    copies = (
        lambda: control.copy_object(Bucket=bucket, Key="copy", CopySource="set/later"),
        lambda: control.upload_part_copy(**part, CopySource="set/later"),
    )
    for prefix in ("", "/", "%2F"):
        for key in ("closed/a%20b", "closed/a+b", "%63losed/a%20b", "closed/a b?versionId=null"):
            sources.append(f"{prefix}{bucket}/{key}")
            for copy in copies:
                with refused("AccessDenied", status=403):
                    copy()
    sources.append(f"/{bucket}/open/a%20b")
    for copy in copies:
        copy()
    for event in events:
        control.meta.events.unregister(event, write_source)
    control.abort_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload)


def test_policies_can_require_conditions_on_writes_and_deletes(control, bucket):
    control.put_object(Bucket=bucket, Key="k", Body=b"first")
    creates = {"Bool": {"s3:ObjectCreationOperation": "true"}}
    set_policy(
        control,
        bucket,
        deny("s3:PutObject", Null={"s3:if-none-match": "true"}, **creates),
        deny("s3:DeleteObject", Null={"s3:if-match": "true"}),
    )
    control.put_object(Bucket=bucket, Key="other", Body=b"other", IfNoneMatch="*")

    def add(name, value):
        def before(params, **_):
            params["headers"][name] = value

        return before

    events = control.meta.events
    for event, call, name in (
        (
            "DeleteObjects",
            lambda: control.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}]}),
            "If-Match",
        ),
        (
            "RenameObject",
            lambda: control.rename_object(Bucket=bucket, Key="new", RenameSource="other"),
            "If-Match",
        ),
    ):
        for header in (None, name):
            handler = add(header, "*") if header else None
            if handler:
                events.register(f"before-call.s3.{event}", handler)
            try:
                answer = call()
                codes = [one["Code"] for one in answer.get("Errors", [])]
                assert codes == ["AccessDenied"], answer
            except control.exceptions.ClientError as error:
                assert error.response["Error"]["Code"] in ("AccessDenied", "PreconditionFailed")
            if handler:
                events.unregister(f"before-call.s3.{event}", handler)
    assert versions.read(control, bucket, "k") == b"first"
    assert versions.read(control, bucket, "other") == b"other"

    # The steps of an upload have no preconditions; its completion has one.
    upload = control.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    which = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    etag = control.upload_part(**which, PartNumber=1, Body=b"parts")["ETag"]
    parts = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": etag}]}}
    with refused("AccessDenied", status=403):
        control.complete_multipart_upload(**which, **parts)
    with refused("PreconditionFailed", status=412):
        control.complete_multipart_upload(**which, **parts, IfNoneMatch="*")
    control.abort_multipart_upload(**which)

    tag = control.head_object(Bucket=bucket, Key="k")["ETag"]
    entry = {"Key": "k", "ETag": tag}
    answer = control.delete_objects(Bucket=bucket, Delete={"Objects": [entry]})
    assert [one["Key"] for one in answer["Deleted"]] == ["k"]


def test_an_entry_with_a_version_keeps_its_condition(control, versioned):
    version = versions.put(control, versioned, "k")
    entry = {"Key": "k", "VersionId": version, "ETag": '"0"'}
    answer = control.delete_objects(Bucket=versioned, Delete={"Objects": [entry]})
    assert [one["Code"] for one in answer["Errors"]] == ["PreconditionFailed"]
    entry["ETag"] = control.head_object(Bucket=versioned, Key="k")["ETag"]
    answer = control.delete_objects(Bucket=versioned, Delete={"Objects": [entry]})
    assert [one["VersionId"] for one in answer["Deleted"]] == [version]


def test_request_tag_conditions_apply_where_tags_are_set(control, bucket):
    control.put_object(Bucket=bucket, Key="from", Body=b"x", Tagging="class=secret")
    need = deny("s3:PutObject", StringNotEquals={"s3:RequestObjectTag/class": "open"})
    keep = deny("s3:PutObjectTagging", StringEquals={"s3:RequestObjectTag/class": "secret"})
    source = {"Bucket": bucket, "Key": "from"}
    for statement in (need, keep):
        set_policy(control, bucket, statement)
        with refused("AccessDenied", status=403):
            # The copy gets the tags of its source and ignores the header.
            control.copy_object(Bucket=bucket, Key="to", CopySource=source, Tagging="class=open")
        control.copy_object(
            Bucket=bucket,
            Key="to",
            CopySource=source,
            Tagging="class=open",
            TaggingDirective="REPLACE",
        )


def test_ownership_conditions_use_the_document(control, bucket):
    lists = {"s3:x-amz-object-ownership": "ObjectWriter"}
    statement = deny("s3:PutBucketOwnershipControls", StringEquals=lists)
    set_policy(control, bucket, {**statement, "Resource": f"arn:aws:s3:::{bucket}"})

    def own(rule):
        rules = {"Rules": [{"ObjectOwnership": rule}]}
        control.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules)

    with refused("AccessDenied", status=403):
        own("ObjectWriter")
    own("BucketOwnerPreferred")


def test_region_conditions_use_the_document(server):
    name = f"made-in-{fresh_bucket_name()}"
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
            {
                "Effect": "Deny",
                "Action": "s3:CreateBucket",
                "Resource": "*",
                "Condition": {"Null": {"s3:LocationConstraint": "true"}},
            },
        ],
    }
    sts = boto3.client("sts", **server.aws_settings())
    session = sts.assume_role(
        RoleArn="arn:aws:iam::000000000001:role/any",
        RoleSessionName="regions",
        Policy=json.dumps(document),
    )["Credentials"]
    keys = {
        "aws_access_key_id": session["AccessKeyId"],
        "aws_secret_access_key": session["SecretAccessKey"],
        "aws_session_token": session["SessionToken"],
    }
    limited = boto3.client("s3", **{**server.aws_settings(), **keys})
    with refused("AccessDenied", status=403):
        limited.create_bucket(Bucket=name)

    def place(params, **_):
        region = "<LocationConstraint>us-east-1</LocationConstraint>"
        params["body"] = f"<CreateBucketConfiguration>{region}</CreateBucketConfiguration>".encode()

    limited.meta.events.register("before-call.s3.CreateBucket", place)
    limited.create_bucket(Bucket=name)


@pytest.mark.parametrize(
    "key",
    [
        "aws:SourceVpc",
        "aws:SourceVpce",
        "aws:SourceOwner",
        "aws:PrincipalOrgID",
        "aws:MultiFactorAuthPresent",
        "aws:MultiFactorAuthAge",
        "s3:DataAccessPointArn",
    ],
)
def test_a_key_without_values_is_refused(control, bucket, key):
    with refused("MalformedPolicy", status=400):
        set_policy(control, bucket, deny("s3:GetObject", StringEquals={key: "x"}))


@pytest.mark.parametrize("ownership", ["BucketOwnerPreferred", "ObjectWriter"])
def test_markers_and_versions_are_removed_in_buckets_with_effective_lists(control, ownership):
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name, ObjectOwnership=ownership)
    versions.enable(control, name)
    ids = [versions.put(control, name, "k") for _ in range(3)]
    ids.append(versions.delete_current(control, name, "k"))
    for version in ids:
        control.delete_object(Bucket=name, Key="k", VersionId=version)
    listed = control.list_object_versions(Bucket=name)
    assert "Versions" not in listed and "DeleteMarkers" not in listed


def test_other_accounts_do_not_learn_which_versions_exist(control, server, anonymous):
    name = fresh_bucket_name()
    control.create_bucket(Bucket=name, ObjectOwnership="ObjectWriter")
    versions.enable(control, name)
    private = versions.put(control, name, "k")
    marker = versions.delete_current(control, name, "k")
    control.put_object(Bucket=name, Key="k", Body=b"x", ACL="public-read")
    other_user = add_person(server, ["readwrite"], add_account(server)).s3
    absent = private[:-1] + ("0" if private[-1] != "0" else "1")
    for client in (anonymous, other_user):
        assert client.get_object(Bucket=name, Key="k")["Body"].read() == b"x"
        for version in (private, marker, absent):
            for read in (client.get_object, client.head_object):
                with refused("AccessDenied", "403", status=403):
                    read(Bucket=name, Key="k", VersionId=version)
    # This also holds if a policy lets them read every version that is not secret.
    control.put_object(Bucket=name, Key="k", Body=b"x", Tagging="class=secret")
    secret = versions.put(control, name, "k", Tagging="class=secret")
    set_policy(
        control,
        name,
        {"Effect": "Allow", "Action": "s3:GetObjectVersion"},
        deny("s3:GetObjectVersion", StringEquals={"s3:ExistingObjectTag/class": "secret"}),
    )
    assert anonymous.get_object(Bucket=name, Key="k", VersionId=private)["Body"].read() == b"x"
    for version in (secret, marker, absent):
        with refused("AccessDenied", status=403):
            anonymous.get_object(Bucket=name, Key="k", VersionId=version)
    with refused("NoSuchVersion", status=404):
        control.get_object(Bucket=name, Key="k", VersionId=absent)
    with refused("MethodNotAllowed", status=405):
        control.get_object(Bucket=name, Key="k", VersionId=marker)
