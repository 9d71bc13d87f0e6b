"""Every error of S3 that a client can provoke, one test for each row of a table.

The rows are in `error_rows`. This file checks the common rules: the form of the document, that a
refused request changes nothing, and that each operation and each code has a row.
"""

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from string import Template
from urllib.parse import unquote

import boto3
import botocore.session
import pytest

import encryption
from error_rows import (
    MESSAGES,
    bodies,
    buckets,
    every,
    forms,
    locks,
    modes,
    objects,
    order,
    senders,
    uploads,
    versions,
)
from people import add_account, add_person
from raw import send
from server import fresh_bucket_name

pytestmark = pytest.mark.ashlar("the sentences are those of S3, and the reference has its own")

PAGE = Path(__file__).parents[2] / "docs" / "S3.md"
TABLES = (
    every,
    senders,
    buckets,
    objects,
    modes,
    versions,
    locks,
    uploads,
    bodies,
    forms,
    order,
)
ROWS = [row for table in TABLES for row in table.rows()]

# Codes that no request can provoke, each with its reason.
UNPROVOKED = {
    "InternalError": "only a mistake of the gateway, or damage to what it keeps",
    "ServiceUnavailable": "only while a store behind the gateway is away",
    "SlowDown": "only under more load than a limit allows",
    "XMinioStorageFull": "only while a disk behind the gateway is full",
    "RequestTimeout": "only after a body has not arrived for as long as the gateway waits",
    "ConditionalRequestConflict": "only while others write the same key without a pause",
    "ExpiredToken": "only after fifteen minutes, the shortest life of a session",
    "BucketAlreadyOwnedByYou": "only outside of us-east-1, where it is no error",
    "IdempotencyParameterMismatch": "only after a rename was done: test_boto3_changes",
    "ExpiredTokenException": "only where an issuer is known: test_boto3_web_identity",
    "IDPCommunicationError": "as ExpiredTokenException",
    "IDPRejectedClaim": "as ExpiredTokenException",
    "InvalidIdentityToken": "as ExpiredTokenException",
    "KMS.DisabledException": "only where a key management service has disabled a key",
    "KMS.KMSInvalidStateException": "as KMS.DisabledException",
}

# The elements of every error document. `Detail` is Ashlar's own.
COMMON = {"Code", "Message", "Resource", "RequestId", "HostId", "Detail"}


# The buckets of a scene: with objects, never configured, with effective lists that must not be
# public, with a public list and an admitted page, with a policy for everyone, with versions, with
# locks, and with a full quota.
KINDS = ("bucket", "plain", "lists", "shared", "open", "versions", "locks", "full")
# The keys in the bucket with locks: not locked, with a retention, and with a legal hold.
LOCKS = {
    "small": {},
    "kept": {
        "ObjectLockMode": "GOVERNANCE",
        "ObjectLockRetainUntilDate": datetime(2100, 1, 1, tzinfo=timezone.utc),
    },
    "hold": {"ObjectLockLegalHoldStatus": "ON"},
}


class Scene:
    """The resources of the rows: buckets, objects, uploads, and people with their keys."""

    def __init__(self, server):
        self.server = server
        session = botocore.session.get_session()
        self.s3 = s3 = session.create_client("s3", **server.aws_settings())
        names = self.names = {kind: fresh_bucket_name(kind) for kind in KINDS}
        self.people = {"root": (server.access_key, server.secret_key)}
        self.own = tuple(names.values())
        self.make_people()
        for kind in KINDS:
            s3.create_bucket(Bucket=names[kind], ObjectLockEnabledForBucket=kind == "locks")
        names["theirs"] = fresh_bucket_name("theirs")
        self.foreign.s3.create_bucket(Bucket=names["theirs"])
        self.make_objects()
        self.make_lists()
        self.make_versions()
        self.before = self.look()

    def make_people(self):
        policies = {"powerless": (), "reader": ("readonly",), "writer": ("writeonly",)}
        for name, policy in policies.items():
            person = add_person(self.server, policy)
            self.people[name] = (person.access_key, person.secret)
        account = add_account(self.server)
        self.foreign = person = add_person(self.server, ("readwrite",), account)
        self.people["foreign"] = (person.access_key, person.secret)
        self.people["unknown"] = ("AKIANOBODYHASTHISKEY", "secret")
        allowed = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        role = {"RoleArn": "arn:aws:iam::000000000001:role/any", "RoleSessionName": "rows"}
        sts = boto3.client("sts", **self.server.aws_settings())
        given = sts.assume_role(Policy=policy, **role)["Credentials"]
        self.people["session"] = (given["AccessKeyId"], given["SecretAccessKey"])
        self.names["token"] = given["SessionToken"]

    def make_objects(self):
        s3, names = self.s3, self.names
        bucket = names["bucket"]
        s3.delete_bucket_ownership_controls(Bucket=names["plain"])
        s3.put_object(Bucket=bucket, Key="small", Body=b"0123456789")
        upload = s3.create_multipart_upload(Bucket=bucket, Key="up")["UploadId"]
        names["upload"] = upload
        for number in (1, 2):
            part = {"UploadId": upload, "PartNumber": number, "Body": b"part"}
            names[f"part{number}"] = s3.upload_part(Bucket=bucket, Key="up", **part)["ETag"]
        held = s3.create_multipart_upload(Bucket=bucket, Key="held", ChecksumAlgorithm="CRC32")
        names["held"] = held["UploadId"]
        secret = encryption.customer("a")
        s3.put_object(Bucket=bucket, Key="secret", Body=b"0123456789", **secret.new)
        sealed = s3.create_multipart_upload(Bucket=bucket, Key="sealed", **secret.new)
        names["sealed"] = sealed["UploadId"]
        s3.put_object(Bucket=names["full"], Key="small", Body=b"0123456789")
        quota = ("--bytes", "1000", "--objects", "1")
        self.server.operate("bucket", "quota", names["full"], *quota)
        names["owner"] = s3.get_bucket_acl(Bucket=bucket)["Owner"]["ID"]

    def make_lists(self):
        """Creates buckets with effective access control lists: one that must not be public, and a
        public one."""
        s3, lists, shared = self.s3, self.names["lists"], self.names["shared"]
        for bucket in (lists, shared):
            rule = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
            s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rule)
        s3.put_object(Bucket=lists, Key="small", Body=b"0123456789")
        block = {"BlockPublicAcls": True, "BlockPublicPolicy": True}
        s3.put_public_access_block(Bucket=lists, PublicAccessBlockConfiguration=block)
        s3.put_bucket_acl(Bucket=shared, ACL="public-read")
        public = {
            "Effect": "Allow",
            "Principal": "*",
            "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::{self.names['open']}/*",
        }
        # Operations that S3 allows only to the owner's account, even if a policy allows them.
        own = {
            "Effect": "Allow",
            "Principal": "*",
            "Action": "s3:*BucketPolicy",
            "Resource": f"arn:aws:s3:::{self.names['open']}",
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [public, own]})
        s3.put_bucket_policy(Bucket=self.names["open"], Policy=policy)
        rule = {"AllowedMethods": ["GET"], "AllowedOrigins": ["https://app.example.com"]}
        s3.put_bucket_cors(Bucket=shared, CORSConfiguration={"CORSRules": [rule]})

    def make_versions(self):
        """Creates versions and locks. In both buckets one key is deleted."""
        s3, names = self.s3, self.names
        versions, locks = names["versions"], names["locks"]
        s3.put_bucket_versioning(Bucket=versions, VersioningConfiguration={"Status": "Enabled"})
        s3.put_object(Bucket=versions, Key="small", Body=b"before")
        s3.put_object(Bucket=versions, Key="small", Body=b"0123456789")
        for key, lock in LOCKS.items():
            made = s3.put_object(Bucket=locks, Key=key, Body=b"0123456789", **lock)
            names[key] = made["VersionId"]
        for kind in ("versions", "locks"):
            s3.put_object(Bucket=names[kind], Key="deleted", Body=b"x")
            marker = s3.delete_object(Bucket=names[kind], Key="deleted")
            names[f"{kind}_marker"] = marker["VersionId"]

    def look(self):
        """Returns everything that a row could change if it were not refused."""
        s3 = self.s3
        found = {"buckets": [it["Name"] for it in s3.list_buckets()["Buckets"]]}
        for bucket in self.own:
            versions = s3.list_object_versions(Bucket=bucket)
            listed = [*versions.get("Versions", []), *versions.get("DeleteMarkers", [])]
            uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
            found[bucket] = (
                [
                    (it["Key"], it["VersionId"], it.get("ETag"), it["LastModified"])
                    for it in listed
                ],
                [it["UploadId"] for it in uploads],
                s3.get_bucket_acl(Bucket=bucket)["Grants"],
                s3.get_bucket_versioning(Bucket=bucket).get("Status"),
            )
        locks = self.names["locks"]
        found["default"] = s3.get_object_lock_configuration(Bucket=locks)["ObjectLockConfiguration"]
        for key in LOCKS:
            head = s3.head_object(Bucket=locks, Key=key, VersionId=self.names[key])
            found[key] = {name: head[name] for name in head if name.startswith("ObjectLock")}
        return found

    def fill(self, value):
        """Replaces the names in a text of a row by those of this scene."""
        if isinstance(value, bytes):
            return self.fill(value.decode("latin-1")).encode("latin-1")
        return Template(value).safe_substitute(self.names) if isinstance(value, str) else value

    def ask(self, ask):
        pairs = {
            name: tuple((key, self.fill(value)) for key, value in getattr(ask, name))
            for name in ("headers", "unsigned")
        }
        token = self.fill(ask.token)
        if ask.form:
            kind, body = ask.form.encoded(*self.people[ask.form.by], self.fill)
            pairs["headers"] += (("content-type", kind),)
            ask = ask.but(body=body)
        body = ask.body if ask.form else self.fill(ask.body)
        ask = ask.but(line=self.fill(ask.line), body=body, token=token, **pairs)
        key, secret = self.people[ask.by] if ask.by else (None, None)
        return ask, send(self.server, ask, key, secret)


@pytest.fixture(scope="module")
def scene(server, clean_environment):
    scene = Scene(server)
    yield scene
    assert scene.look() == scene.before, "what was refused has left something behind"


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_error(scene, row):
    ask, answer = scene.ask(row.ask)
    assert answer.headers["x-amz-request-id"] and answer.headers["x-amz-id-2"]
    if ask.method == "HEAD":
        assert (answer.status, answer.body) == (row.status, b"")
    else:
        check_document(scene, row, ask, answer)
    for name, value in row.headers.items():
        assert answer.headers[name] == scene.fill(value)


def check_document(scene, row, ask, answer):
    assert answer.error is not None, (answer.status, answer.body[:500])
    said = dict(answer.error)
    message = row.message or MESSAGES[row.code]
    expected = (row.status, row.code, scene.fill(message))
    assert (answer.status, said["Code"], said["Message"]) == expected, said
    found = {name: text for name, text in said.items() if name not in COMMON}
    assert found == {name: scene.fill(text) for name, text in row.also.items()}, said
    assert answer.headers["Content-Type"] == "application/xml"
    if row.status == 200 or b"<ErrorResponse" in answer.body:
        return  # It stands in the answer to a list of keys, or is one of STS.
    assert said["RequestId"] == answer.headers["x-amz-request-id"]
    assert said["HostId"] == answer.headers["x-amz-id-2"]
    assert said["Resource"] == unquote(ask.target.partition("?")[0])


def table(name):
    """Returns the lines of a table of docs/S3.md."""
    text = PAGE.read_text()
    begin = text.index(f"<!-- {name}: ")
    return text[begin : text.index("<!-- end -->", begin)].splitlines()[1:]


def test_every_operation_has_a_row():
    served = [
        line.split("|")[1].strip() for line in table("served") + table("stubbed") if "|" in line
    ]
    refused = re.findall(r"\w+", " ".join(table("refused")))
    named = {name for name in served + refused if name not in ("operation", "---")}
    assert named - {row.operation for row in ROWS} == set()


def test_every_code_has_a_row_or_a_reason():
    lines = [line.split("|") for line in table("codes") if line.startswith("| ")]
    codes = {(int(status), code.strip(" `")) for _, status, code, *_ in lines[1:]}
    shown = {(row.status, row.code) for row in ROWS if row.ask.method != "HEAD"}
    assert {code for _, code in codes - shown} == set(UNPROVOKED)
