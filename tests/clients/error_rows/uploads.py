"""Multipart uploads."""

from . import SOME, Row, argument
from .every import GOOD, PARTS

NO_UPLOAD = "0" * 32
ON_UPLOADS = (
    "UploadPart",
    "UploadPartCopy",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
    "ListParts",
)
COMPLETE = GOOD["CompleteMultipartUpload"]
OTHER = '"00000000000000000000000000000000"'


def listed(*parts):
    """A document that lists parts by number and ETag, with further elements."""
    content = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>{''.join(more)}</Part>"
        for number, tag, *more in parts
    )
    return f"<CompleteMultipartUpload>{content}</CompleteMultipartUpload>".encode()


def rows():
    yield from none()
    yield from parts()
    yield from completions()
    yield from begun()


def none():
    for name in ON_UPLOADS:
        for wrong, upload in [("no upload", NO_UPLOAD), ("an id that is invalid", "nonsense")]:
            ask = GOOD[name].but(line=GOOD[name].line.replace("$upload", upload))
            yield Row(name, wrong, ask, 404, "NoSuchUpload", also={"UploadId": upload})
        strange = GOOD[name].but(line=GOOD[name].line.replace("/up?", "/other?"))
        also = {"UploadId": "$upload"}
        yield Row(name, "the upload of another key", strange, 404, "NoSuchUpload", also=also)


def parts():
    message = "Part number must be an integer between 1 and 10000, inclusive."
    for name in ("UploadPart", "UploadPartCopy"):
        for number in ("0", "10001", "-1", "one", ""):
            line = GOOD[name].line.replace("partNumber=1", f"partNumber={number}")
            wrong = f"the part number {number or 'nothing'}"
            yield argument(name, wrong, GOOD[name].but(line=line), "partNumber", number, message)
    copied = GOOD["UploadPartCopy"]
    header = "x-amz-copy-source-range"
    shape = (
        "The x-amz-copy-source-range value must be of the form bytes=first-last where first and "
        "last are the zero-based offsets of the first and last bytes to copy"
    )
    size = "Range specified is not valid for source object of size: 10"
    for value, message in [
        ("bytes=1-", shape),
        ("1-2", shape),
        ("bytes=2-1", shape),
        ("bytes=0-10", size),
    ]:
        ask = copied.but(headers=(*copied.headers, (header, value)))
        yield argument("UploadPartCopy", f"the range {value}", ask, header, value, message)
    gone = copied.but(headers=(("x-amz-copy-source", "/$bucket/none"),))
    also = {"Key": "none"}
    yield Row("UploadPartCopy", "no source", gone, 404, "NoSuchKey", also=also)
    held = copied.but(headers=(*copied.headers, ("x-amz-copy-source-if-match", OTHER)))
    also = {"Condition": "x-amz-copy-source-If-Match"}
    yield Row("UploadPartCopy", "another source", held, 412, "PreconditionFailed", also=also)
    unnumbered = GOOD["UploadPart"].but(line="PUT /$bucket/up?uploadId=$upload")
    also = {"Method": "PUT", "ResourceType": "UPLOAD"}
    allow = {"Allow": "DELETE, POST, GET"}
    code = "MethodNotAllowed"
    yield Row("UploadPart", "no part number", unnumbered, 405, code, None, also, allow)
    message = (
        "Checksum Type mismatch occurred, expected checksum Type: CRC32, actual checksum Type: "
    )
    held = GOOD["UploadPart"].but(line="PUT /$bucket/held?partNumber=1&uploadId=$held")
    yield Row("UploadPart", "no checksum", held, 400, "InvalidRequest", f"{message}null")
    sha1 = held.more(x_amz_checksum_sha1="EfatjsUqKYSrq5rdJU0Ld/0kbCA=")
    yield Row("UploadPart", "another checksum", sha1, 400, "InvalidRequest", f"{message}SHA1")
    for parameter in ("max-parts", "part-number-marker"):
        for text, message in [
            ("-1", "Argument -1 must be an integer between 0 and 2147483647"),
            ("x", "Provided x not an integer or within integer range"),
        ]:
            ask = GOOD["ListParts"]
            ask = ask.but(line=f"{ask.line}&{parameter}={text}")
            yield argument("ListParts", f"{parameter} {text}", ask, parameter, text, message)
    late = GOOD["AbortMultipartUpload"]
    header = "x-amz-if-match-initiated-time"
    past = late.but(headers=((header, "Mon, 01 Jan 2001 00:00:00 GMT"),))
    also = {"Condition": "If-Match-Initiated-Time"}
    yield Row(
        "AbortMultipartUpload", "begun at another time", past, 412, "PreconditionFailed", also=also
    )
    never = late.but(headers=((header, "never"),))
    yield argument(
        "AbortMultipartUpload", "a time that is invalid", never, header, "never", "Invalid Argument"
    )


def completions():
    name = "CompleteMultipartUpload"

    def of(*parts, **more):
        return COMPLETE.but(body=listed(*parts), **more)

    one, two = (1, "$part1"), (2, "$part2")
    also = {"ProposedSize": "4", "MinSizeAllowed": "5242880", "PartNumber": "1", "ETag": SOME}
    yield Row(name, "a small part", of(one, two), 400, "EntityTooSmall", also=also)
    yield Row(name, "parts backwards", of(two, one), 400, "InvalidPartOrder")
    yield Row(name, "a part twice", of(one, one), 400, "InvalidPartOrder")
    for wrong, part, tag in [
        ("a part that was not sent", (3, "$part1"), SOME),
        ("the tag of another part", (1, OTHER), OTHER.strip('"')),
        ("a tag that is invalid", (1, "nonsense"), "nonsense"),
    ]:
        also = {"UploadId": "$upload", "PartNumber": str(part[0]), "ETag": tag}
        yield Row(name, wrong, of(part), 400, "InvalidPart", also=also)
    yield Row(name, "no part", of(), 400, "MalformedXML")
    yield Row(name, "no body", COMPLETE.but(body=b""), 400, "MalformedXML")
    yield Row(name, "no document", COMPLETE.but(body=b"no XML"), 400, "MalformedXML")
    untagged = COMPLETE.but(body=listed(one).replace(b"<ETag>$part1</ETag>", b""))
    yield Row(name, "a part without a tag", untagged, 400, "MalformedXML")
    message = "PartNumber must be >= 1"
    yield argument(name, "the part 0", of((0, "$part1")), "PartNumber", "0", message)
    message = "Part number must be an integer between 1 and 10000, inclusive."
    yield argument(name, "the part 10001", of((10001, "e")), "partNumber", "10001", message)
    bad = of((1, "$part1", "<ChecksumCRC32>x</ChecksumCRC32>"))
    message = "Invalid Base64 or multiple checksums present in request"
    yield argument(name, "a checksum that is invalid", bad, "Checksum", "x", message)
    for value, why in [
        ("x", "is invalid: 'x'"),
        ("-1", "is less than zero: '-1'"),
    ]:
        ask = of(one).more(x_amz_mp_object_size=value)
        message = f"Value for x-amz-mp-object-size header {why}"
        yield Row(name, f"the size {value}", ask, 400, "InvalidRequest", message)
    message = (
        "The provided 'x-amz-mp-object-size' header value 5 does not match what was computed: 4"
    )
    ask = of(one).more(x_amz_mp_object_size="5")
    yield Row(name, "another size", ask, 400, "InvalidRequest", message)
    message = (
        "The upload was created using the null checksum mode. The complete request must use the "
        "same checksum mode."
    )
    ask = of(one).more(x_amz_checksum_type="COMPOSITE")
    yield Row(name, "another checksum mode", ask, 400, "InvalidRequest", message)
    ask = of(one).but(line="POST /$bucket/up?uploadId=$upload").more(if_match=OTHER)
    yield Row(name, "If-Match of no object", ask, 404, "NoSuchKey", also={"Key": "up"})
    long = COMPLETE.but(body=b" " * ((4 << 20) + 1))
    also = {"MaxMessageLengthBytes": "4194304"}
    yield Row(name, "a document too long", long, 400, "MaxMessageLengthExceeded", also=also)


def begun():
    name = "CreateMultipartUpload"
    ask = GOOD[name]
    message = (
        "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
    )
    alone = ask.more(x_amz_checksum_type="COMPOSITE")
    yield Row(name, "a checksum type alone", alone, 400, "InvalidRequest", message)
    message = "Value for x-amz-checksum-type header is invalid."
    strange = ask.more(x_amz_checksum_algorithm="CRC32", x_amz_checksum_type="HALF")
    yield Row(name, "an unknown checksum type", strange, 400, "InvalidRequest", message)
    message = "The FULL_OBJECT checksum type cannot be used with the sha256 checksum algorithm."
    whole = ask.more(x_amz_checksum_algorithm="SHA256", x_amz_checksum_type="FULL_OBJECT")
    yield Row(name, "a type that its algorithm has not", whole, 400, "InvalidRequest", message)
