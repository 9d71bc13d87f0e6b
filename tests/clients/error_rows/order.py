"""Requests with two faults: the one that S3 reports.

The order of checks is: the form of the names in the URL, the signature, the bucket, the
permissions of the sender, key, version and upload, and last the body. A browser's preflight has no
sender.
"""

from raw import Ask

from . import SOME, Row
from .every import GOOD, SOURCE, elsewhere
from .senders import COMPARED
from .versions import NO_VERSION

NO_UPLOAD = "0" * 32
NOWHERE = {"BucketName": "none-$bucket"}


def rows():
    yield from sender_first()
    yield from bucket_before_key()
    yield from key_before_body()
    yield from apart()


def sender_first():
    code = "SignatureDoesNotMatch"
    forged = {"secret": "another"}
    for name, wrong, line in [
        ("GetObject", "no bucket", "GET /none-$bucket/small"),
        ("GetObject", "no key", "GET /$bucket/none"),
        ("ListObjectsV2", "a count that is invalid", "GET /$bucket?list-type=2&max-keys=x"),
        ("ListParts", "no upload", f"GET /$bucket/up?uploadId={NO_UPLOAD}"),
        ("DeleteObject", "an id that is invalid", "DELETE /$bucket/small?versionId=1"),
        ("GetObject", "no version", f"GET /$bucket/small?versionId={NO_VERSION}"),
        ("DeleteObject", "a lock", "DELETE /$locks/kept?versionId=$kept"),
        ("RestoreObject", "it is not served", "POST /$bucket/small?restore"),
        ("CreateBucket", "the method", "PATCH /$bucket"),
    ]:
        ask = Ask(line, **forged)
        yield Row(name, f"the signature, and {wrong}", ask, 403, code, also=COMPARED)
    for name in (
        "PutBucketTagging",
        "DeleteObjects",
        "PutBucketPolicy",
        "PutBucketCors",
        "PutBucketLifecycleConfiguration",
        "PutBucketVersioning",
        "PutObjectRetention",
    ):
        ask = GOOD[name].but(body=b"no document", **forged)
        yield Row(name, "the signature, and the document", ask, 403, code, also=COMPARED)
    huge = GOOD["PutObject"].but(
        claim="UNSIGNED-PAYLOAD", unsigned=(("content-length", str((5 << 30) + 1)),), **forged
    )
    yield Row("PutObject", "the signature, and the size", huge, 403, code, also=COMPARED)
    unknown = Ask("GET /none-$bucket/small", by="unknown")
    also = {"AWSAccessKeyId": SOME}
    yield Row("GetObject", "the key, and no bucket", unknown, 403, "InvalidAccessKeyId", also=also)
    late = Ask("GET /none-$bucket/small", late=-1000)
    also = {"RequestTime": SOME, "ServerTime": SOME, "MaxAllowedSkewMilliseconds": SOME}
    yield Row("GetObject", "the clock, and no bucket", late, 403, "RequestTimeTooSkewed", also=also)
    named = Ask("PUT /Box", secret="another")
    also = {"BucketName": "Box"}
    code = "InvalidBucketName"
    yield Row("CreateBucket", "the name, and the signature", named, 400, code, also=also)


def bucket_before_key():
    code = "NoSuchBucket"
    for name, wrong, line in [
        ("ListObjectsV2", "a count", "GET /none-$bucket?list-type=2&max-keys=x"),
        ("ListObjects", "an encoding", "GET /none-$bucket?encoding-type=x"),
        ("GetObject", "an id that is invalid", "GET /none-$bucket/small?versionId=1"),
        ("GetObject", "a version", f"GET /none-$bucket/small?versionId={NO_VERSION}"),
        ("GetObjectRetention", "a key", "GET /none-$bucket/none?retention"),
        ("GetObject", "a part", "GET /none-$bucket/small?partNumber=0"),
        ("ListParts", "an upload", f"GET /none-$bucket/up?uploadId={NO_UPLOAD}"),
        ("UploadPart", "a part", f"PUT /none-$bucket/up?partNumber=0&uploadId={NO_UPLOAD}"),
        ("AbortMultipartUpload", "an upload", "DELETE /none-$bucket/up?uploadId=nonsense"),
    ]:
        yield Row(name, f"no bucket, and {wrong}", Ask(line), 404, code, also=NOWHERE)
    for name in (
        "PutBucketTagging",
        "PutBucketPolicy",
        "PutBucketCors",
        "PutBucketLifecycleConfiguration",
        "PutBucketAcl",
        "PutBucketOwnershipControls",
        "PutPublicAccessBlock",
        "DeleteObjects",
        "PutObjectTagging",
        "PutObjectAcl",
        "CompleteMultipartUpload",
        "PutBucketVersioning",
        "PutObjectLockConfiguration",
        "PutObjectLegalHold",
        "PutObjectRetention",
    ):
        ask = elsewhere(GOOD[name], "none-$bucket").but(headers=(), body=b"no document")
        yield Row(name, "no bucket, and the document", ask, 404, code, also=NOWHERE)
    put = GOOD["PutObject"].but(line="PUT /none-$bucket/small")
    for wrong, ask in [
        ("the class", put.more(x_amz_storage_class="COLD")),
        ("the metadata", put.more(x_amz_meta_long="m" * 2100)),
        ("the digest", put.more(content_md5="short")),
        ("the tags", put.more(x_amz_tagging="a=1&a=2")),
        ("the list", put.more(x_amz_acl="everybody")),
        ("the lock", put.more(x_amz_object_lock_mode="GOVERNANCE")),
        ("the length", put.but(without_length=True, claim="UNSIGNED-PAYLOAD")),
    ]:
        yield Row("PutObject", f"no bucket, and {wrong}", ask, 404, code, also=NOWHERE)
    copied = Ask("PUT /none-$bucket/copy", (("x-amz-copy-source", "/$bucket/none"),))
    yield Row("CopyObject", "no bucket, and no source", copied, 404, code, also=NOWHERE)
    copied = copied.but(headers=(("x-amz-copy-source", ""),))
    yield Row("CopyObject", "no bucket, and a source that is invalid", copied, 404, code, also=NOWHERE)
    for by in (None, "powerless"):
        ask = Ask("GET /none-$bucket/small", by=by)
        wrong = f"no bucket, and no right of {by or 'nobody'}"
        yield Row("GetObject", wrong, ask, 404, code, also=NOWHERE)
    code = "AccessDenied"
    for name, wrong, line in [
        ("GetObject", "no key", "GET /$bucket/none"),
        ("GetObject", "an id that is invalid", "GET /$bucket/small?versionId=1"),
        ("GetObject", "no version", f"GET /$bucket/small?versionId={NO_VERSION}"),
        ("GetObject", "a marker", "GET /$versions/deleted?versionId=$versions_marker"),
        ("GetObjectRetention", "no locks", "GET /$bucket/small?retention"),
        ("GetObjectLockConfiguration", "no locks", "GET /$bucket?object-lock"),
        ("GetObject", "the part", "GET /$bucket/small?partNumber=0"),
        ("ListObjectsV2", "the count", "GET /$bucket?list-type=2&max-keys=x"),
        ("ListParts", "no upload", f"GET /$bucket/up?uploadId={NO_UPLOAD}"),
        ("UploadPart", "no upload", f"PUT /$bucket/up?partNumber=1&uploadId={NO_UPLOAD}"),
        ("GetBucketPolicy", "no policy", "GET /$bucket?policy"),
    ]:
        ask = Ask(line, by="powerless")
        yield Row(name, f"no right, and {wrong}", ask, 403, code)
    for name in (
        "PutBucketTagging",
        "PutBucketPolicy",
        "PutBucketCors",
        "PutBucketLifecycleConfiguration",
        "PutObjectAcl",
        "PutBucketVersioning",
        "PutObjectLockConfiguration",
        "PutObjectLegalHold",
        "PutObjectRetention",
    ):
        ask = GOOD[name].but(body=b"no document", by="powerless")
        yield Row(name, "no right, and the document", ask, 403, code)
    owner = Ask("GET /$bucket/none").more(x_amz_expected_bucket_owner="999999999999")
    yield Row("GetObject", "another owner, and no key", owner, 403, code)


def key_before_body():
    also = {"Key": "none"}
    code = "NoSuchKey"
    ranged = Ask("GET /$bucket/none").more(range="bytes=10-")
    yield Row("GetObject", "no key, and the range", ranged, 404, code, also=also)
    held = Ask("GET /$bucket/none").more(if_match='"x"')
    yield Row("GetObject", "no key, and the condition", held, 404, code, also=also)
    range_of = GOOD["GetObject"].more(range="bytes=10-", if_match='"x"')
    also = {"Condition": "If-Match"}
    code = "PreconditionFailed"
    yield Row("GetObject", "the condition, and the range", range_of, 412, code, also=also)
    also = {"UploadId": NO_UPLOAD}
    code = "NoSuchUpload"
    part = GOOD["UploadPart"]
    lost = part.but(line=part.line.replace("$upload", NO_UPLOAD))
    for wrong, ask in [
        ("the hash", lost.but(claim="0" * 64)),
        ("the digest", lost.more(content_md5="AAAAAAAAAAAAAAAAAAAAAA==")),
        ("the checksum", lost.more(x_amz_checksum_crc32="AAAAAA==")),
    ]:
        yield Row("UploadPart", f"no upload, and {wrong}", ask, 404, code, also=also)
    complete = GOOD["CompleteMultipartUpload"]
    lost = complete.but(line=complete.line.replace("$upload", NO_UPLOAD))
    for wrong, body in [
        ("no document", b"no XML"),
        ("no part", b"<CompleteMultipartUpload/>"),
        ("a part that is invalid", complete.body.replace(b">1<", b">0<")),
    ]:
        ask = lost.but(body=body)
        yield Row("CompleteMultipartUpload", f"no upload, and {wrong}", ask, 404, code, also=also)
    copied = GOOD["UploadPartCopy"]
    lost = copied.but(line=copied.line.replace("$upload", NO_UPLOAD))
    header = ("x-amz-copy-source-range", "bytes=0-10")
    ranged = lost.but(headers=(*SOURCE, header))
    yield Row("UploadPartCopy", "no upload, and the range", ranged, 404, code, also=also)


def apart():
    asked = (("origin", "https://example.org"), ("access-control-request-method", "GET"))
    also = {"Method": "OPTIONS", "ResourceType": "OBJECT"}
    forged = "?X-Amz-Algorithm=x&X-Amz-Credential=x&X-Amz-Signature=x"
    ask = Ask(f"OPTIONS /$shared/none{forged}", asked, by=None)
    code = "AccessForbidden"
    yield Row("OptionsObject", "the origin, and the signature", ask, 403, code, also=also)
    message = "Insufficient information. Origin request header needed."
    ask = Ask("OPTIONS /none-$bucket/k", by=None)
    yield Row("OptionsObject", "no origin, and no bucket", ask, 400, "BadRequest", message)
