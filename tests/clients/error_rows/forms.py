"""Forms of browsers, and temporary credentials, which clients request by a form."""

from raw import Ask, Form

from . import SOME, Row, argument

NAME = "PostObject"
EVERY = '{"bucket": "$bucket"}, ["starts-with", "$$key", ""]'


def post(form, **changes):
    return Ask("POST /$bucket", by=None, form=form, **changes)


def rows():
    yield from shapes()
    yield from policies()
    yield from signatures()
    yield from sessions()


def shapes():
    plain = Ask("POST /$bucket", (("content-type", "text/plain"),), b"x", by=None)
    also = {"Condition": "Bucket POST must be of the enclosure-type multipart/form-data"}
    yield Row(NAME, "no form", plain, 412, "PreconditionFailed", also=also)
    kind = (("content-type", "multipart/form-data; boundary=b"),)
    for wrong, body in [
        ("no boundary in it", b"x" * 100),
        ("a part without a name", b"--b\r\n\r\nx\r\n--b--\r\n"),
    ]:
        ask = plain.but(headers=kind, body=body)
        yield Row(NAME, wrong, ask, 400, "MalformedPOSTRequest")
    fileless = plain.but(
        headers=kind,
        body=b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--b--\r\n',
    )
    message = "POST requires exactly one file upload per request."
    yield argument(NAME, "no file", fileless, "file", "0", message)
    yield Row(NAME, "nobody asks", post(Form(signed=False)), 403, "AccessDenied")
    hold = "x-amz-object-lock-legal-hold"
    fields = ((hold, "ON"),)
    locked = post(Form(fields=fields, conditions=f'{EVERY}, {{"{hold}": "ON"}}'))
    yield Row(NAME, "a lock", locked, 501, "NotImplemented", also={"Header": hold})
    long = post(Form(fields=(("x-ignore-a", "v" * (21 << 10)),)))
    also = {"MaxPostPreDataLengthBytes": "20480"}
    yield Row(NAME, "long fields", long, 400, "MaxPostPreDataLengthExceededError", also=also)
    keyless = post(Form(key=None, conditions='{"bucket": "$bucket"}'))
    message = (
        "Bucket POST must contain a field named 'key'.  If it is specified, please check the order "
        "of the fields."
    )
    yield argument(NAME, "no key", keyless, "key", "", message)
    large = post(Form(key="k" * 1025, conditions=EVERY))
    also = {"Size": "1025", "MaxSizeAllowed": "1024"}
    yield Row(NAME, "a key too long", large, 400, "KeyTooLongError", also=also)


def policies():
    for wrong, policy, why in [
        ("no policy in it", "", "Expecting '{' but found End-of-Input"),
        ("no base64", "???", "invalid Base64 encoding."),
        ("no JSON", "eA==", "Invalid JSON."),
    ]:
        ask = post(Form(policy=policy))
        yield Row(NAME, wrong, ask, 400, "InvalidPolicyDocument", f"Invalid Policy: {why}")
    for wrong, conditions, why in [
        ("a condition that is invalid", '"x"', "Invalid condition test: must be a List or Object."),
        ("an empty condition", "[]", "Invalid Condition: missing operation identifier."),
        (
            "an unknown condition",
            '["is", "$$key", "k"]',
            "Invalid Condition: unknown operation 'is'.",
        ),
        ("half a condition", '["eq", "$$key"]', "Invalid eq: wrong number of arguments."),
    ]:
        ask = post(Form(conditions=conditions))
        yield Row(NAME, wrong, ask, 400, "InvalidPolicyDocument", f"Invalid Policy: {why}")
    according = "Invalid according to Policy: "
    for wrong, form, why in [
        ("another key", Form(key="other"), 'Policy Condition failed: ["eq", "$$key", "k"]'),
        (
            "a field that it does not cover",
            Form(fields=(("x-amz-meta-a", "b"),)),
            "Extra input fields: x-amz-meta-a",
        ),
        ("a policy that has expired", Form(expiration="2001-01-01T00:00:00Z"), "Policy expired."),
        (
            "another bucket",
            Form(conditions='{"bucket": "other"}, {"key": "k"}'),
            'Policy Condition failed: ["eq", "$$bucket", "other"]',
        ),
    ]:
        yield Row(NAME, wrong, post(form), 403, "AccessDenied", according + why)
    limits = '{"bucket": "$bucket"}, {"key": "k"}, ["content-length-range", 2, 10]'
    also = {"ProposedSize": "1", "MinSizeAllowed": "2"}
    small = post(Form(conditions=limits))
    yield Row(NAME, "a short file", small, 400, "EntityTooSmall", also=also)
    also = {"ProposedSize": "11", "MaxSizeAllowed": "10"}
    large = post(Form(conditions=limits, content=b"x" * 11))
    yield Row(NAME, "a long file", large, 400, "EntityTooLarge", also=also)


def signatures():
    also = {
        "AWSAccessKeyId": SOME,
        "StringToSign": SOME,
        "SignatureProvided": SOME,
        "StringToSignBytes": SOME,
    }
    forged = post(Form(secret="another"))
    yield Row(NAME, "another secret", forged, 403, "SignatureDoesNotMatch", also=also)
    unknown = post(Form(by="unknown"))
    also = {"AWSAccessKeyId": "AKIANOBODYHASTHISKEY"}
    yield Row(NAME, "an unknown key", unknown, 403, "InvalidAccessKeyId", also=also)
    yield Row(NAME, "nothing is allowed", post(Form(by="powerless")), 403, "AccessDenied")
    gone = post(Form(conditions='{"bucket": "none-$bucket"}, {"key": "k"}'))
    gone = gone.but(line="POST /none-$bucket")
    also = {"BucketName": "none-$bucket"}
    yield Row(NAME, "no bucket", gone, 404, "NoSuchBucket", also=also)
    message = "Only AWS4-HMAC-SHA256 is supported"
    ask = post(Form(algorithm="AWS5-HMAC"))
    yield argument(NAME, "another algorithm", ask, "X-Amz-Algorithm", "AWS5-HMAC", message)
    foreign = post(Form(region="eu-west-1"))
    message = 'the region "eu-west-1" is wrong; expecting "us-east-1"'
    yield argument(NAME, "another region", foreign, "x-amz-credential", SOME, message)


def sessions():
    name = "AssumeRole"
    kind = (("content-type", "application/x-www-form-urlencoded"),)
    also = {"Type": "Sender"}

    def of(**parameters):
        text = "&".join(f"{key}={value}" for key, value in parameters.items())
        return Ask("POST /", kind, text.encode(), service="sts")

    message = "The request is missing an action or a required parameter."
    yield Row(name, "no action", of(Version="2011-06-15"), 400, "MissingAction", message, also)
    message = "Could not find operation Fly for version 2011-06-15"
    yield Row(name, "an unknown action", of(Action="Fly"), 400, "InvalidAction", message, also)
    message = (
        "1 validation error detected: Value '1' at 'durationSeconds' failed to satisfy constraint: "
        "Member must have value between 900 and 604800"
    )
    short = of(Action=name, DurationSeconds="1")
    yield Row(name, "a second", short, 400, "ValidationError", message, also)
    long = of(Action=name, Policy="x" * (7 << 10))
    message = "The session policy is larger than allowed."
    yield Row(name, "a policy too long", long, 400, "PackedPolicyTooLarge", message, also)
    unsigned = of(Action=name).but(by=None)
    yield Row(name, "nobody asks", unsigned, 403, "AccessDenied", None, also)
    forged = of(Action=name).but(secret="another")
    yield Row(name, "another secret", forged, 403, "SignatureDoesNotMatch", None, also)
    unknown = of(Action=name).but(by="unknown")
    message = "The security token included in the request is invalid."
    yield Row(name, "an unknown key", unknown, 403, "InvalidClientTokenId", message, also)
