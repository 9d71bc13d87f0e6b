"""The sender of a request: signatures in headers and URLs, tokens, and their faults."""

from raw import Ask

from . import SOME, Row, argument
from .every import GOOD

READ, PUT = GOOD["GetObject"], GOOD["PutObject"]
NAME = "GetObject"
FORM = "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request"
WEEK = (
    "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires "
    "must be less than 604800 seconds"
)
MISSING = (
    "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
    "X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters."
)

# The elements of the error for a signature that differs from the computed one.
COMPARED = {
    "AWSAccessKeyId": SOME,
    "StringToSign": SOME,
    "SignatureProvided": SOME,
    "StringToSignBytes": SOME,
    "CanonicalRequest": SOME,
    "CanonicalRequestBytes": SOME,
}


def rows():
    yield from headers()
    yield from authorizations()
    yield from urls()
    yield from payloads()
    yield from tokens()


def headers():
    for name in (
        "ListBuckets",
        "GetObject",
        "PutObject",
        "DeleteBucket",
        "CompleteMultipartUpload",
    ):
        wrong = GOOD[name].but(secret="another")
        yield Row(name, "another secret", wrong, 403, "SignatureDoesNotMatch", also=COMPARED)
        unknown = GOOD[name].but(by="unknown")
        also = {"AWSAccessKeyId": "AKIANOBODYHASTHISKEY"}
        yield Row(name, "an unknown key", unknown, 403, "InvalidAccessKeyId", also=also)
    for late in (-1000, 1000):
        also = {
            "RequestTime": SOME,
            "ServerTime": SOME,
            "MaxAllowedSkewMilliseconds": "900000",
        }
        ask = READ.but(late=late)
        yield Row(NAME, f"a clock {late} s off", ask, 403, "RequestTimeTooSkewed", also=also)
    message = "There were headers present in the request which were not signed"
    ask = READ.but(unsigned=(("x-amz-meta-a", "b"), ("x-amz-request-payer", "requester")))
    also = {"HeadersNotSigned": "x-amz-meta-a, x-amz-request-payer"}
    yield Row(NAME, "headers that are not signed", ask, 403, "AccessDenied", message, also)
    large = READ.but(headers=tuple((f"a-{at}", "v" * 1000) for at in range(9)))
    also = {"MaxSizeAllowed": "8192"}
    yield Row(
        NAME,
        "nine thousand bytes of headers",
        large,
        400,
        "RequestHeaderSectionTooLarge",
        also=also,
    )


def authorizations():
    def of(text, **changes):
        return READ.but(by=None, unsigned=(("authorization", text),), **changes)

    message = "Authorization header is invalid -- one and only one ' ' (space) required."
    yield argument(NAME, "one word", of("nonsense"), "Authorization", "nonsense", message)
    message = "Unsupported Authorization Type"
    yield argument(NAME, "a password", of("Basic eDp5"), "Authorization", "Basic", message)
    old = (
        "The authorization mechanism you have provided is not supported. Please use "
        "AWS4-HMAC-SHA256."
    )
    yield Row(NAME, "version 2", of("AWS key:signature"), 400, "InvalidRequest", old)

    def malformed(why):
        return f"The authorization header is malformed; {why}"

    code = "AuthorizationHeaderMalformed"
    three = malformed(
        "the authorization header requires three components: Credential, SignedHeaders, and "
        "Signature."
    )
    yield Row(NAME, "two components", of("AWS4-HMAC-SHA256 a=b, c=d"), 400, code, three)
    for old, new, message in [
        ("Credential=", "Credentials=", "missing Credential."),
        ("SignedHeaders=", "Signed=", "missing SignedHeaders."),
        ("Signature=", "Sign=", "missing Signature."),
        ("/s3/aws4_request", "", f'the Credential is mal-formed; expecting "{FORM}".'),
    ]:
        ask = READ.but(forged=((old, new),))
        yield Row(NAME, f"{new or 'no scope'}", ask, 400, code, malformed(message))
    for wrong, changes, why, also in [
        (
            "another region",
            {"region": "eu-west-1"},
            'the region "eu-west-1" is wrong; expecting "us-east-1"',
            {"Region": "us-east-1"},
        ),
        (
            "another service",
            {"service": "ec2"},
            'incorrect service "ec2". This endpoint belongs to "s3".',
            {},
        ),
        (
            "another end",
            {"terminal": "aws5_request"},
            'incorrect terminal "aws5_request". This endpoint uses "aws4_request".',
            {},
        ),
        (
            "a day that is invalid",
            {"day": "2020-1-1"},
            'incorrect date format "2020-1-1". This date in the credential must be in the '
            'format "yyyyMMdd".',
            {},
        ),
    ]:
        yield Row(NAME, wrong, READ.but(**changes), 400, code, malformed(why), also)
    undated = of(
        "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=s"
    )
    message = "AWS authentication requires a valid Date or x-amz-date header."
    yield Row(NAME, "no date", undated, 403, "AccessDenied", message)


def urls():
    url = READ.but(how="url")
    code = "AuthorizationQueryParametersError"
    for expires, message in [
        ("604801", WEEK),
        ("-1", "X-Amz-Expires must be non-negative"),
        ("1e3", "X-Amz-Expires should be a number"),
    ]:
        ask = url.but(expires=expires)
        yield Row(NAME, f"a URL for {expires} s", ask, 400, code, message)
    credential = "Error parsing the X-Amz-Credential parameter; "
    for wrong, changes, message, also in [
        (
            "a URL for another region",
            {"region": "eu-west-1"},
            f'{credential}the region "eu-west-1" is wrong; expecting "us-east-1"',
            {"Region": "us-east-1"},
        ),
        (
            "a URL for another service",
            {"service": "ec2"},
            f'{credential}incorrect service "ec2". This endpoint belongs to "s3".',
            {},
        ),
    ]:
        yield Row(NAME, wrong, url.but(**changes), 400, code, message, also)
    for parameter in ("Credential", "Date", "Expires", "SignedHeaders", "Signature"):
        ask = url.but(forged=((f"X-Amz-{parameter}=", "X-Other="),))
        yield Row(NAME, f"a URL without {parameter}", ask, 400, code, MISSING)
    message = 'X-Amz-Algorithm only supports "AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256"'
    ask = url.but(forged=(("AWS4-HMAC-SHA256", "AWS5-HMAC"),))
    yield Row(NAME, "a URL of another algorithm", ask, 400, code, message)
    also = {"X-Amz-Expires": "300", "Expires": SOME, "ServerTime": SOME}
    past = url.but(late=-400)
    yield Row(
        NAME, "a URL that has expired", past, 403, "AccessDenied", "Request has expired.", also
    )
    also = {"ServerTime": SOME}
    early = url.but(late=1000)
    yield Row(
        NAME, "a URL of the future", early, 403, "AccessDenied", "Request is not valid yet.", also
    )
    wrong = url.but(secret="another")
    yield Row(NAME, "a URL of another secret", wrong, 403, "SignatureDoesNotMatch", also=COMPARED)
    both = url.but(unsigned=(("authorization", "AWS4-HMAC-SHA256 a=b"),))
    message = (
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query "
        "string parameter or the Authorization header should be specified"
    )
    yield argument(NAME, "two signatures", both, "Authorization", None, message)
    old = READ.but(by=None, line="GET /$bucket/small?AWSAccessKeyId=a&Signature=b")
    message = (
        "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters"
    )
    yield Row(NAME, "a URL of version 2 without end", old, 403, "AccessDenied", message)
    old = READ.but(by=None, line="GET /$bucket/small?AWSAccessKeyId=a&Signature=b&Expires=x")
    message = "Invalid date (should be seconds since epoch)"
    yield Row(NAME, "a URL of version 2 with no date", old, 403, "AccessDenied", message)
    overridden = READ.but(by=None, line="GET /$open/small?response-expires=x")
    message = "Request specific response headers cannot be used for anonymous GET requests."
    yield Row(NAME, "headers of the answer for nobody", overridden, 400, "InvalidRequest", message)


def payloads():
    message = "Missing required header for this request: x-amz-content-sha256"
    yield Row("PutObject", "no hash", PUT.but(claim=""), 400, "InvalidRequest", message)
    known = (
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, "
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER "
        "or a valid sha256 value."
    )
    strange = PUT.but(claim="nonsense")
    name = "x-amz-content-sha256"
    yield argument("PutObject", "a hash that is invalid", strange, name, "nonsense", known)
    signed = PUT.but(claim="STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")
    yield Row("PutObject", "version 4A", signed, 501, "NotImplemented")
    nobody = PUT.but(claim="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", by=None)
    message = (
        "Anonymous requests don't support this x-amz-content-sha256 value. Please use "
        "UNSIGNED-PAYLOAD or STREAMING-UNSIGNED-PAYLOAD-TRAILER."
    )
    yield Row("PutObject", "signed chunks of nobody", nobody, 400, "InvalidRequest", message)


def tokens():
    ask = READ.but(token="nonsense")
    yield Row(NAME, "a token that is invalid", ask, 400, "InvalidToken")
    session = READ.but(by="session", token="$token")
    forged = session.but(token="$token" + "x")
    yield Row(NAME, "a token that was changed", forged, 400, "InvalidToken")
    foreign = READ.but(token="$token")
    yield Row(NAME, "the token of another key", foreign, 400, "InvalidToken")
    tokenless = session.but(token=None)
    also = {"AWSAccessKeyId": SOME}
    yield Row(NAME, "a session without its token", tokenless, 403, "InvalidAccessKeyId", also=also)
    limited = session.but(line="DELETE /$bucket/small")
    yield Row("DeleteObject", "a session that only reads", limited, 403, "AccessDenied")
