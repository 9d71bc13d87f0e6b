"""boto3, low level: requests of browsers: forms, preflights, and pages of other origins."""

import http.client
import json
import secrets
import ssl
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from server import fresh_bucket_name


def send(server, method, url, body=None, headers=None):
    """Sends a request as a browser does. Returns status, headers and body."""
    parts = urlsplit(url)
    if server.ca:
        context = ssl.create_default_context(cafile=server.ca)
        connection = http.client.HTTPSConnection(parts.netloc, timeout=30, context=context)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    query = f"?{parts.query}" if parts.query else ""
    connection.request(method, f"{parts.path}{query}", body, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def send_form(server, url, fields, content, filename="photo.txt", more=None):
    """Sends a form as browsers encode it, with the file last; `more` are headers of the request."""
    boundary = f"----form{secrets.token_hex(8)}"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
        "Content-Type: text/plain\r\n\r\n"
    )
    body = "".join(parts).encode() + content + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", **(more or {})}
    return send(server, "POST", url, body, headers)


@pytest.fixture(params=["s3v4", "s3"])
def signer(server, request):
    """A client that signs forms with version 4, or 2."""
    config = Config(signature_version=request.param)
    return boto3.client("s3", config=config, **server.aws_settings())


@pytest.mark.ashlar("the reference accepts only forms of version 4")
def test_a_form_uploads_a_file(server, control, bucket, signer):
    post = signer.generate_presigned_post(
        bucket,
        "up/${filename}",
        Fields={"x-amz-meta-by": "hand", "Content-Type": "text/plain"},
        Conditions=[{"x-amz-meta-by": "hand"}, {"Content-Type": "text/plain"}],
    )
    status, headers, _ = send_form(server, post["url"], post["fields"], b"hello\r\n--not it")
    assert status == 204, headers
    found = control.get_object(Bucket=bucket, Key="up/photo.txt")
    assert found["Body"].read() == b"hello\r\n--not it"
    assert found["Metadata"] == {"by": "hand"} and found["ContentType"] == "text/plain"
    assert headers["ETag"] == found["ETag"]


def test_a_form_chooses_its_response(server, control, bucket, signer):
    if not server.is_ashlar() and signer.meta.config.signature_version == "s3":
        pytest.skip("the reference accepts only forms of version 4")
    for field, value, expected in [
        ("success_action_status", "200", 200),
        ("success_action_status", "201", 201),
        ("success_action_redirect", "http://example.com/done?a=b", 303),
    ]:
        post = signer.generate_presigned_post(
            bucket, "k", Fields={field: value}, Conditions=[{field: value}]
        )
        status, headers, body = send_form(server, post["url"], post["fields"], b"x")
        assert status == expected, body
        if expected == 201:
            assert b"<Key>k</Key>" in body and f"<Bucket>{bucket}</Bucket>".encode() in body
        if expected == 303:
            assert headers["Location"].startswith(f"{value}&bucket={bucket}&key=k&etag=")


@pytest.mark.ashlar("the reference has its own error texts")
def test_a_form_must_satisfy_its_policy(server, control, bucket, signer):
    post = signer.generate_presigned_post(
        bucket, "k", Conditions=[["content-length-range", 2, 10]]
    )

    def refusal(fields, content, url=post["url"]):
        status, _, body = send_form(server, url, fields, content)
        code = body.split(b"<Code>")[1].split(b"</Code>")[0].decode()
        return status, code

    assert refusal(post["fields"], b"x") == (400, "EntityTooSmall")
    assert refusal(post["fields"], b"x" * 11) == (400, "EntityTooLarge")
    # The server reads at most this much of a refused body, so a client that only writes still gets
    # the response.
    assert refusal(post["fields"], b"x" * (700 << 10)) == (400, "EntityTooLarge")
    assert refusal({**post["fields"], "key": "other"}, b"xxx") == (403, "AccessDenied")
    assert refusal({**post["fields"], "x-amz-meta-a": "b"}, b"xxx") == (403, "AccessDenied")
    assert refusal({"key": "k"}, b"xxx") == (403, "AccessDenied")
    forged = dict(post["fields"])
    name = "x-amz-signature" if "x-amz-signature" in forged else "signature"
    forged[name] = forged[name][::-1]
    assert refusal(forged, b"xxx") == (403, "SignatureDoesNotMatch")
    other = fresh_bucket_name()
    control.create_bucket(Bucket=other)
    elsewhere = post["url"].replace(bucket, other)
    assert refusal(post["fields"], b"xxx", elsewhere) == (403, "AccessDenied")
    assert control.list_objects_v2(Bucket=bucket)["KeyCount"] == 0, "nothing is left of them"
    assert send_form(server, post["url"], post["fields"], b"xxx")[0] == 204


@pytest.mark.ashlar("the reference refuses anonymous forms")
def test_a_public_bucket_accepts_anonymous_forms(server, control, bucket):
    url = f"{server.endpoint}/{bucket}"
    assert send_form(server, url, {"key": "k"}, b"x")[0] == 403
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/in/*",
    }
    text = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    control.put_bucket_policy(Bucket=bucket, Policy=text)
    assert send_form(server, url, {"key": "in/${filename}"}, b"x")[0] == 204
    assert send_form(server, url, {"key": "k"}, b"x")[0] == 403
    assert control.get_object(Bucket=bucket, Key="in/photo.txt")["Body"].read() == b"x"


@pytest.mark.ashlar("the reference has no configuration for a bucket")
def test_the_bucket_admits_pages_of_other_origins(server, control, bucket):
    url, page = f"{server.endpoint}/{bucket}/k", "https://app.example.com"
    asked = {"Origin": page, "Access-Control-Request-Method": "PUT"}
    assert send(server, "OPTIONS", url, headers=asked)[0] == 403
    rule = {
        "AllowedMethods": ["GET", "PUT"],
        "AllowedOrigins": ["https://*.example.com"],
        "AllowedHeaders": ["content-type"],
        "ExposeHeaders": ["ETag"],
    }
    control.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    status, headers, _ = send(server, "OPTIONS", url, headers=asked)
    assert status == 200
    assert headers["Access-Control-Allow-Origin"] == page
    assert "PUT" in headers["Access-Control-Allow-Methods"]
    assert send(server, "OPTIONS", url, headers={**asked, "Origin": "https://b.org"})[0] == 403
    delete = {**asked, "Access-Control-Request-Method": "DELETE"}
    assert send(server, "OPTIONS", url, headers=delete)[0] == 403
    # The page may also read an error response.
    status, headers, _ = send(server, "GET", url, headers={"Origin": page})
    assert status == 403 and headers["Access-Control-Allow-Origin"] == page
    status, headers, _ = send(server, "GET", url, headers={"Origin": "https://b.org"})
    assert status == 403 and headers["Access-Control-Allow-Origin"] is None


@pytest.mark.ashlar("the reference does not know s3:if-none-match")
def test_a_header_of_a_form_request_is_not_a_precondition(server, control, bucket, signer):
    control.put_object(Bucket=bucket, Key="k", Body=b"first")
    once = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringEquals": {"s3:if-none-match": "*"}},
    }
    twice = {**once, "Effect": "Deny", "Condition": {"Null": {"s3:if-none-match": "true"}}}
    policy = {"Version": "2012-10-17", "Statement": [once, twice]}
    control.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    url = f"{server.endpoint}/{bucket}"
    signed = signer.generate_presigned_post(bucket, "k")
    for fields in (signed["fields"], {"key": "k"}):
        for more in (None, {"If-None-Match": "*"}):
            status, _, body = send_form(server, url, fields, b"second", more=more)
            assert status == 403 and b"AccessDenied" in body
    assert control.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"


@pytest.mark.ashlar("the reference has no value of s3:signatureAge for a form")
def test_signature_age_conditions_apply_to_forms(server, control, bucket, signer):
    young = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"NumericGreaterThan": {"s3:signatureAge": "600000"}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [young]})
    post = signer.generate_presigned_post(bucket, "k")
    assert send_form(server, post["url"], post["fields"], b"x")[0] == 204
    control.put_bucket_policy(Bucket=bucket, Policy=policy)
    status, _, _ = send_form(server, post["url"], post["fields"], b"x")
    # A signature of version 2 has no time of its creation, so it may have any age.
    assert status == (204 if "x-amz-date" in post["fields"] else 403)
