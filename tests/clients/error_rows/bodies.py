"""Bodies: lengths, digests, chunks, trailers and documents."""

import hashlib

from raw import Ask, crc32, md5

from . import SOME, Row, argument
from .every import GOOD

PUT, PART = GOOD["PutObject"], GOOD["UploadPart"]
STREAMED = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
WRONG_SUM = "AAAAAA=="

# Operations that require a document as their body.
DOCUMENTS = (
    "DeleteObjects",
    "PutBucketTagging",
    "PutBucketCors",
    "PutBucketLogging",
    "PutBucketEncryption",
    "PutBucketOwnershipControls",
    "PutPublicAccessBlock",
    "PutObjectTagging",
    "PutBucketVersioning",
    "PutObjectLockConfiguration",
    "PutBucketLifecycleConfiguration",
)
# For these, S3 reports a missing document as malformed.
LOCKS = ("PutObjectLegalHold", "PutObjectRetention")


def rows():
    yield from digests()
    yield from checksums()
    yield from chunks()
    yield from documents()


def digests():
    for name in ("PutObject", "UploadPart", "DeleteObjects"):
        ask = GOOD[name]
        wrong = ask.but(headers=(*ask.headers, ("content-md5", md5(b"other"))))
        also = {"ExpectedDigest": hashlib.md5(b"other").hexdigest(), "CalculatedDigest": md5(ask.body)}
        yield Row(name, "another Content-MD5", wrong, 400, "BadDigest", also=also)
        bad = ask.more(content_md5="short")
        also = {"Content-MD5": "short"}
        yield Row(name, "a Content-MD5 that is invalid", bad, 400, "InvalidDigest", also=also)
        claimed = ask.but(claim="0" * 64)
        code = "XAmzContentSHA256Mismatch"
        also = {"ClientComputedContentSHA256": "0" * 64, "S3ComputedContentSHA256": SOME}
        yield Row(name, "another hash", claimed, 400, code, also=also)
        sum_of = ask.more(x_amz_checksum_crc32=WRONG_SUM)
        also = {"ExpectedDigest": WRONG_SUM, "CalculatedDigest": crc32(ask.body)}
        message = "The CRC32 you specified did not match the calculated checksum."
        yield Row(name, "another checksum", sum_of, 400, "BadDigest", message, also)


def checksums():
    message = "Value for x-amz-checksum-crc32 header is invalid."
    ask = PUT.more(x_amz_checksum_crc32="xyz")
    yield Row("PutObject", "a checksum that is invalid", ask, 400, "InvalidRequest", message)
    message = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
    both = PUT.more(x_amz_checksum_crc32=crc32(b"x"), x_amz_checksum_crc32c="AAAAAA==")
    yield Row("PutObject", "two checksums", both, 400, "InvalidRequest", message)
    message = "The algorithm type you specified in x-amz-checksum- header is invalid."
    ask = PUT.more(x_amz_checksum_crc7="AAAAAA==")
    yield Row("PutObject", "an unknown checksum", ask, 400, "InvalidRequest", message)
    message = (
        "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or "
        "x-amz-trailer headers were found."
    )
    ask = PUT.more(x_amz_sdk_checksum_algorithm="CRC32")
    yield Row("PutObject", "a checksum announced and not sent", ask, 400, "InvalidRequest", message)
    message = "Value for x-amz-sdk-checksum-algorithm header is invalid."
    ask = ask.more(x_amz_checksum_sha1="qvTGHdzF6KLavt4PO0gs2a6pQ00=")
    yield Row("PutObject", "another one than announced", ask, 400, "InvalidRequest", message)


def streamed(body, trailer="x-amz-checksum-crc32", length=1):
    headers = (("x-amz-trailer", trailer), ("x-amz-decoded-content-length", str(length)))
    return PUT.but(claim=STREAMED, headers=headers, body=body)


def chunks():
    good = b"1\r\nx\r\n0\r\nx-amz-checksum-crc32:" + crc32(b"x").encode() + b"\r\n\r\n"
    code = "MalformedTrailerError"
    for wrong, body in [
        ("another trailer than announced", good.replace(b"crc32:", b"sha1:")),
        ("no trailer", b"1\r\nx\r\n0\r\n\r\n"),
        ("a trailer without a colon", b"1\r\nx\r\n0\r\nx-amz-checksum-crc32\r\n\r\n"),
    ]:
        yield Row("PutObject", wrong, streamed(body), 400, code)
    message = "Value for x-amz-checksum-crc32 trailing header is invalid."
    bad = streamed(good.replace(crc32(b"x").encode(), b"xyz"))
    yield Row("PutObject", "a trailer that is no checksum", bad, 400, "InvalidRequest", message)
    also = {"ExpectedDigest": WRONG_SUM, "CalculatedDigest": crc32(b"x")}
    message = "The CRC32 you specified did not match the calculated checksum."
    other = streamed(good.replace(crc32(b"x").encode(), WRONG_SUM.encode()))
    yield Row("PutObject", "another checksum behind", other, 400, "BadDigest", message, also)
    message = "The value specified in the x-amz-trailer header is not supported"
    strange = streamed(good, trailer="x-amz-meta-a")
    yield Row("PutObject", "a trailer of metadata", strange, 400, "InvalidRequest", message)
    short, long = streamed(good, length=2), streamed(good, length=0)
    yield Row("PutObject", "fewer bytes than announced", short, 400, "IncompleteBody")
    yield Row("PutObject", "more bytes than announced", long, 400, "IncompleteBody")
    message = "The request body terminated unexpectedly"
    broken = streamed(b"zz\r\n")
    yield Row("PutObject", "a chunk without a size", broken, 400, "IncompleteBody", message)
    headers = (("x-amz-trailer", "x-amz-checksum-crc32"),)
    unknown = PUT.but(claim=STREAMED, headers=headers, body=good)
    yield Row("PutObject", "chunks of no known length", unknown, 411, "MissingContentLength")
    message = "The value of x-amz-content-sha256 header is invalid."
    deleted = GOOD["DeleteObjects"].but(claim=STREAMED)
    yield Row("DeleteObjects", "a document in chunks", deleted, 400, "InvalidRequest", message)
    length = (("x-amz-decoded-content-length", "200"),)
    signed = PUT.but(claim=SIGNED, headers=length, body=b"x" * 200)
    also = {"Chunk": "2", "BadChunkSize": "100"}
    small = signed.but(chunks=(100, 100))
    yield Row("PutObject", "small chunks", small, 400, "InvalidChunkSizeError", also=also)
    also = {"StringToSign": SOME, "SignatureProvided": "0" * 64}
    forged = signed.but(chunks=(200,), wrong_chunk=True)
    yield Row("PutObject", "a chunk signed wrong", forged, 403, "SignatureDoesNotMatch", also=also)


def documents():
    # The announced length is refused, so the body need not be sent.
    long = (("content-length", str((4 << 20) + 1)),)
    for name in (*DOCUMENTS, *LOCKS):
        ask = GOOD[name]
        code = "MalformedXML" if name in LOCKS else "MissingRequestBodyError"
        yield Row(name, "no body", ask.but(body=b""), 400, code)
        yield Row(name, "no document", ask.but(body=b"no XML"), 400, "MalformedXML")
        yield Row(name, "a document that is cut off", ask.but(body=b"<X>"), 400, "MalformedXML")
        yield Row(name, "another document", ask.but(body=b"<X/>"), 400, "MalformedXML")
        also = {"MaxMessageLengthBytes": SOME}
        code = "MaxMessageLengthExceeded"
        yield Row(name, "a document too long", ask.but(body=b"", unsigned=long), 400, code, also=also)
    one = b"<Object><Key>small</Key></Object>"
    delete = GOOD["DeleteObjects"]
    for wrong, content in [("no key", b""), ("more than a thousand keys", one * 1001)]:
        ask = delete.but(body=b"<Delete>" + content + b"</Delete>")
        yield Row("DeleteObjects", wrong, ask, 400, "MalformedXML")
    yield from deletions()
    loud = b"<Delete><Quiet>perhaps</Quiet>" + one + b"</Delete>"
    yield Row("DeleteObjects", "Quiet is no flag", delete.but(body=loud), 400, "MalformedXML")


def deletions():
    """The errors of single keys are in the common response of DeleteObjects."""
    name = "DeleteObjects"
    ask = GOOD[name]

    def of(more):
        content = f"<Delete><Object><Key>small</Key>{more}</Object></Delete>"
        return ask.but(body=content.encode())

    also = {"Key": "small"}
    named = of("").but(by="powerless")
    yield Row(name, "no right to a key", named, 200, "AccessDenied", also=also)
    version = of("<VersionId>1.00</VersionId>")
    named = {"Key": "small", "VersionId": "1.00"}
    # Only here S3 reports an invalid version id as a missing version.
    yield Row(name, "no version of a key", version, 200, "NoSuchVersion", also=named)
    for wrong, more in [
        ("another tag of a key", "<ETag>x</ETag>"),
        ("another size of a key", "<Size>3</Size>"),
    ]:
        yield Row(name, wrong, of(more), 200, "PreconditionFailed", also=also)
