"""Buckets: names, listings, access control lists, policies and configurations."""

from raw import Ask

from . import ILL_FORMED, SOME, Row, argument
from .every import CORS, GOOD, OWNERSHIP, POLICY, elsewhere

BAD_NAMES = ("Box", "ab", "a..b", "-ab", "ab-", "192.168.0.1", "under_score", "b" * 64, "xn--a")


def rows():
    yield from creations()
    yield from listings()
    yield from lists()
    yield from policies()
    yield from configurations()
    yield from logging()
    yield from preflights()
    yield from policies_of_others()


def creations():
    for name in BAD_NAMES:
        also = {"BucketName": name}
        ask = Ask(f"PUT /{name}")
        yield Row("CreateBucket", f"the name {name}", ask, 400, "InvalidBucketName", also=also)
    read = Ask("GET /Box/key")
    also = {"BucketName": "Box"}
    yield Row("GetObject", "a bucket that cannot be", read, 400, "InvalidBucketName", also=also)
    also = {"BucketName": "$theirs"}
    taken = Ask("PUT /$theirs")
    yield Row(
        "CreateBucket", "another account's name", taken, 409, "BucketAlreadyExists", also=also
    )
    new = Ask("PUT /new-$bucket")

    def configured(content):
        root = f"<CreateBucketConfiguration>{content}</CreateBucketConfiguration>"
        return new.but(body=root.encode())

    for region in ("eu-central-1", "nowhere"):
        ask = configured(f"<LocationConstraint>{region}</LocationConstraint>")
        also = {"LocationConstraint": region}
        code = "InvalidLocationConstraint"
        yield Row("CreateBucket", f"the region {region}", ask, 400, code, also=also)
    ask = configured("<Location><Name>x</Name></Location>")
    also = {"Element": "Location"}
    yield Row("CreateBucket", "a place elsewhere", ask, 501, "NotImplemented", also=also)
    yield Row("CreateBucket", "no document", new.but(body=b"no XML"), 400, "MalformedXML")
    owner = new.more(x_amz_object_ownership="Nobody")
    message = "Invalid x-amz-object-ownership header: Nobody"
    name = "x-amz-object-ownership"
    yield argument("CreateBucket", "an unknown ownership", owner, name, "Nobody", message)
    enforced = new.more(x_amz_object_ownership="BucketOwnerEnforced", x_amz_acl="public-read")
    code = "InvalidBucketAclWithObjectOwnership"
    yield Row("CreateBucket", "a list that cannot count", enforced, 400, code)
    both = new.more(x_amz_acl="private", x_amz_grant_read='id="x"')
    message = "Specifying both Canned ACLs and Header Grants is not allowed."
    yield Row("CreateBucket", "two kinds of lists", both, 400, "InvalidRequest", message)
    name = "x-amz-bucket-object-lock-enabled"
    locked = new.more(x_amz_bucket_object_lock_enabled="perhaps")
    yield argument("CreateBucket", "perhaps locks", locked, name, "perhaps", "Invalid Argument")
    tags = configured("<Tags><Tag><Key></Key><Value>v</Value></Tag></Tags>")
    message = "The TagKey you have provided is invalid"
    also = {"TagKey": ""}
    yield Row("CreateBucket", "a tag without a name", tags, 400, "InvalidTag", message, also)
    also = {"BucketName": "$bucket"}
    yield Row(
        "DeleteBucket", "objects in it", GOOD["DeleteBucket"], 409, "BucketNotEmpty", also=also
    )
    patched = Ask("PATCH /$bucket")
    also = {"Method": "PATCH", "ResourceType": "BUCKET"}
    yield Row("CreateBucket", "PATCH", patched, 405, "MethodNotAllowed", also=also)
    served = Ask("PUT /")
    also = {"Method": "PUT", "ResourceType": "SERVICE"}
    yield Row("ListBuckets", "PUT", served, 405, "MethodNotAllowed", also=also)


def listings():
    counts = [
        ("-1", "Argument -1 must be an integer between 0 and 2147483647"),
        ("x", "Provided x not an integer or within integer range"),
    ]
    for name, parameter in [
        ("ListObjects", "max-keys"),
        ("ListObjectsV2", "max-keys"),
        ("ListObjectVersions", "max-keys"),
        ("ListMultipartUploads", "max-uploads"),
    ]:
        for text, message in counts:
            ask = with_query(GOOD[name], f"{parameter}={text}")
            yield argument(name, f"{parameter} {text}", ask, parameter, text, message)
        ask = with_query(GOOD[name], "encoding-type=utf")
        message = "Invalid Encoding Method specified in Request"
        yield argument(name, "an unknown encoding", ask, "encoding-type", "utf", message)
    for text in ("0", "10001", "x"):
        ask = with_query(GOOD["ListBuckets"], f"max-buckets={text}")
        message = "Argument max-buckets must be an integer between 1 and 10000."
        yield argument("ListBuckets", f"max-buckets {text}", ask, "max-buckets", text, message)
    token = "The continuation token provided is incorrect"
    for name in ("ListBuckets", "ListObjectsV2"):
        ask = with_query(GOOD[name], "continuation-token=nonsense")
        yield argument(name, "a token that is invalid", ask, "continuation-token", None, token)
    ask = with_query(GOOD["ListMultipartUploads"], "key-marker=k&upload-id-marker=nonsense")
    message = "Invalid uploadId marker"
    name = "upload-id-marker"
    yield argument("ListMultipartUploads", "a marker that is invalid", ask, name, "nonsense", message)
    ask = with_query(GOOD["ListObjectVersions"], "version-id-marker=null")
    message = "A version-id marker cannot be specified without a key marker."
    name = "version-id-marker"
    yield argument("ListObjectVersions", "half a marker", ask, name, "null", message)
    for text, message in [
        ("", "A version-id marker cannot be empty."),
        ("1.00", "Invalid version id specified"),
    ]:
        ask = with_query(GOOD["ListObjectVersions"], f"key-marker=k&version-id-marker={text}")
        wrong = f"the marker {text or 'nothing'}"
        yield argument("ListObjectVersions", wrong, ask, name, text, message)
    ask = Ask("GET /$bucket?list-type=3")
    message = "Invalid List Type specified in Request"
    yield argument("ListObjectsV2", "an unknown kind", ask, "list-type", "3", message)
    ask = with_query(GOOD["ListObjectsV2"], "colour=red")
    also = {"Feature": "colour"}
    yield Row("ListObjectsV2", "an unknown parameter", ask, 501, "NotImplemented", also=also)
    ask = Ask("GET /$bucket?acl&cors")
    message = "Conflicting query string parameters: acl, cors"
    yield argument("GetBucketAcl", "two operations", ask, "ResourceType", "acl", message)


def with_query(ask, query):
    return ask.but(line=f"{ask.line}{'&' if '?' in ask.line else '?'}{query}")


def grant(grantee, permission="READ"):
    return f"<Grant>{grantee}<Permission>{permission}</Permission></Grant>"


def lists():
    kind = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type='

    def policy(*grants, owner="$owner"):
        return (
            f"<AccessControlPolicy><Owner><ID>{owner}</ID></Owner><AccessControlList>"
            f"{''.join(grants)}</AccessControlList></AccessControlPolicy>"
        ).encode()

    mail = f'<Grantee {kind}"AmazonCustomerByEmail"><EmailAddress>a@b.c</EmailAddress></Grantee>'
    group = f'<Grantee {kind}"Group"><URI>urn:nobody</URI></Grantee>'
    nobody = f'<Grantee {kind}"CanonicalUser"><ID>nobody</ID></Grantee>'
    public = (
        f'<Grantee {kind}"Group"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>'
        "</Grantee>"
    )
    for name, line in [
        ("PutBucketAcl", "PUT /$lists?acl"),
        ("PutObjectAcl", "PUT /$lists/small?acl"),
    ]:
        ask = Ask(line)
        also = {"MissingHeaderName": "x-amz-acl"}
        yield Row(name, "no list", ask, 400, "MissingSecurityHeader", also=also)
        both = ask.but(body=policy()).more(x_amz_acl="private")
        yield Row(name, "a list twice", both, 400, "UnexpectedContent")
        for wrong, body in [
            ("no document", b"no XML"),
            ("another document", b"<X/>"),
            ("an unknown permission", policy(grant(nobody, "FLY"))),
        ]:
            yield Row(name, wrong, ask.but(body=body), 400, "MalformedACLError")
        also = {"EmailAddress": "a@b.c"}
        code = "UnresolvableGrantByEmailAddress"
        yield Row(
            name, "an address of mail", ask.but(body=policy(grant(mail))), 400, code, also=also
        )
        strange = ask.but(body=policy(grant(group)))
        yield argument(name, "an unknown group", strange, "uri", "urn:nobody", "Invalid group uri")
        strange = ask.but(body=policy(grant(nobody)))
        yield argument(name, "no such account", strange, "CanonicalUser/ID", "nobody", "Invalid id")
        other = ask.but(body=policy(owner="nobody"))
        yield Row(name, "another owner", other, 403, "AccessDenied")
        blocked = ask.but(body=policy(grant(public)))
        yield Row(name, "public where that is blocked", blocked, 403, "AccessDenied")
        canned = ask.more(x_amz_acl="everybody")
        message = "Invalid Argument"
        yield argument(name, "an unknown list", canned, "x-amz-acl", "everybody", message)
        header = ask.more(x_amz_grant_read="nobody")
        message = "Argument format not recognized"
        yield argument(name, "a grant that is invalid", header, "grantee", "nobody", message)
        many = ask.but(body=policy(*[grant(nobody)] * 101))
        message = "The number of grants in the access control list exceeds the limit"
        yield Row(name, "too many grants", many, 400, "InvalidRequest", message)
        plain = ask.but(line=line.replace("$lists", "$bucket")).more(x_amz_acl="public-read")
        code = "AccessControlListNotSupported"
        yield Row(name, "lists do not count", plain, 400, code)


def policies():
    name = "PutBucketPolicy"
    ask = GOOD[name]
    good = POLICY.decode()
    for wrong, text, message in [
        ("no JSON", "no JSON", "Policies must be valid JSON and the first byte must be '{'"),
        ("JSON that is cut off", "{", None),
        ("no statement", '{"Version":"2012-10-17"}', "Missing required field Statement"),
        (
            "statements that are none",
            '{"Version":"2012-10-17","Statement":[]}',
            "Could not parse the policy: Statement is empty!",
        ),
        (
            "an unknown version",
            good.replace("2012-10-17", "2020-01-01"),
            "The policy must contain a valid version string",
        ),
        ("an unknown action", good.replace("DeleteBucket", "Fly"), "Policy has invalid action"),
        ("nobody", good.replace('"*"', '{"AWS":"nobody"}'), "Invalid principal in policy"),
        (
            "another bucket",
            good.replace("$bucket", "other"),
            "Policy has invalid resource",
        ),
        ("an unknown effect", good.replace("Deny", "Perhaps"), "Invalid effect: Perhaps"),
    ]:
        yield Row(name, wrong, ask.but(body=text.encode()), 400, "MalformedPolicy", message)
    long = ask.but(body=POLICY + b" " * (20 << 10))
    also = {"MaxMessageLengthBytes": "20480"}
    yield Row(name, "a policy too long", long, 400, "MaxMessageLengthExceeded", also=also)
    public = good.replace("Deny", "Allow").replace("DeleteBucket", "ListBucket")
    blocked = ask.but(line="PUT /$lists?policy", body=public.replace("$bucket", "$lists").encode())
    yield Row(name, "public where that is blocked", blocked, 403, "AccessDenied")


def logging():
    name = "PutBucketLogging"
    ask = GOOD[name]
    inside = b"<TargetBucket>none-$bucket</TargetBucket><TargetPrefix/>"
    body = b"<LoggingEnabled>" + inside + b"</LoggingEnabled>"
    body = b"<BucketLoggingStatus>" + body + b"</BucketLoggingStatus>"
    code, also = "InvalidTargetBucketForLogging", {"TargetBucket": "none-$bucket"}
    absent = "The target bucket for logging does not exist"
    yield Row(name, "no target bucket", ask.but(body=body), 400, code, absent, also)
    itself = ask.but(body=body.replace(b"none-$bucket", b"$bucket"))
    needed = (
        "The policy of the target bucket must allow s3:PutObject to the service "
        "logging.s3.amazonaws.com."
    )
    yield Row(name, "a target without a policy", itself, 403, "AccessDenied", needed)


def configurations():
    shared = Ask("PUT /$shared?ownershipControls", body=OWNERSHIP)
    code = "InvalidBucketAclWithObjectOwnership"
    yield Row("PutBucketOwnershipControls", "a list that counts", shared, 400, code)
    strange = GOOD["PutBucketOwnershipControls"]
    strange = strange.but(body=OWNERSHIP.replace(b"BucketOwnerEnforced", b"Nobody"))
    yield Row("PutBucketOwnershipControls", "an unknown one", strange, 400, "MalformedXML")
    name = "PutBucketCors"
    cors = GOOD[name]
    for wrong, old, new, message in [
        (
            "an unknown method",
            b"GET",
            b"PATCH",
            "Found unsupported HTTP method in CORS config. Unsupported method is PATCH",
        ),
        (
            "an origin with two wildcards",
            b"Origin>*<",
            b"Origin>*.*<",
            'AllowedOrigin "*.*" can not have more than one wildcard.',
        ),
        (
            "a header that is invalid",
            b"</CORSRule>",
            b"<AllowedHeader>a b</AllowedHeader></CORSRule>",
            'AllowedHeader "a b" contains invalid character.',
        ),
        (
            "a wildcard among what is exposed",
            b"</CORSRule>",
            b"<ExposeHeader>x-*</ExposeHeader></CORSRule>",
            'ExposeHeader "x-*" contains wildcard. We currently do not support wildcard for '
            "ExposeHeader.",
        ),
    ]:
        ask = cors.but(body=CORS.replace(old, new))
        yield Row(name, wrong, ask, 400, "InvalidRequest", message)
    rule = CORS[len(b"<CORSConfiguration>") : -len(b"</CORSConfiguration>")]
    many = cors.but(body=b"<CORSConfiguration>" + rule * 101 + b"</CORSConfiguration>")
    message = "The number of CORS rules should not exceed allowed limit of 100 rules."
    yield Row(name, "too many rules", many, 400, "InvalidRequest", message)
    half = cors.but(body=CORS.replace(b"<AllowedMethod>GET</AllowedMethod>", b""))
    yield Row(name, "no method", half, 400, "MalformedXML")
    switch = GOOD["PutPublicAccessBlock"]
    body = b"<PublicAccessBlockConfiguration><BlockPublicAcls>x</BlockPublicAcls>"
    switch = switch.but(body=body + b"</PublicAccessBlockConfiguration>")
    yield Row("PutPublicAccessBlock", "a switch that is invalid", switch, 400, "MalformedXML")


def preflights():
    name = "OptionsObject"
    page = (("origin", "https://app.example.com"),)
    asked = Ask("OPTIONS /$shared/k", (*page, ("access-control-request-method", "PUT")), by=None)
    also = {"Method": "OPTIONS", "ResourceType": "BUCKET"}
    message = "CORSResponse: CORS is not enabled for this bucket."
    closed = asked.but(line="OPTIONS /$bucket/k")
    yield Row(name, "no configuration", closed, 403, "AccessForbidden", message, also)
    also = {"Method": "OPTIONS", "ResourceType": "OBJECT"}
    yield Row(name, "no rule for the method", asked, 403, "AccessForbidden", also=also)
    get = asked.but(headers=(*page, ("access-control-request-method", "GET")))
    other = get.but(headers=(("origin", "https://example.org"), *get.headers[1:]))
    yield Row(name, "no rule for the origin", other, 403, "AccessForbidden", also=also)
    header = get.but(headers=(*get.headers, ("access-control-request-headers", "x-a")))
    yield Row(name, "no rule for the header", header, 403, "AccessForbidden", also=also)
    message = "Insufficient information. Origin request header needed."
    yield Row(name, "no origin", get.but(headers=get.headers[1:]), 400, "BadRequest", message)
    for method, shown in [("PATCH", "PATCH"), (None, "null")]:
        headers = (*page, ("access-control-request-method", method)) if method else page
        ask = get.but(headers=headers)
        message = f"Invalid Access-Control-Request-Method: {shown}"
        yield Row(name, f"the method {shown}", ask, 400, "BadRequest", message)
    broken = get.but(headers=(*get.headers, ("access-control-request-headers", "a b")))
    message = 'Access-Control-Request-Headers "a b" contains invalid character.'
    yield Row(name, "a header that is invalid", broken, 400, "BadRequest", message)
    gone = get.but(line="OPTIONS /none-$bucket/k")
    also = {"BucketName": "none-$bucket"}
    yield Row(name, "no bucket", gone, 404, "NoSuchBucket", also=also)


def policies_of_others():
    """The bucket policy allows everyone to do this, and S3 allows it only to the owner's account.
    """
    also = {"ResourceType": "BUCKETPOLICY"}
    for name in ("GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"):
        for by in ("foreign", None):
            wrong = f"{by or 'nobody'} is not of the owner's account"
            ask = elsewhere(GOOD[name], "$open").but(by=by)
            yield Row(name, wrong, ask, 405, "MethodNotAllowed", also=also)
