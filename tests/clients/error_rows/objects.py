"""Objects: reads, writes, copies, deletes, tags."""

from raw import Ask, crc32, md5

from . import SOME, Row, argument
from .every import ATTRIBUTES, GOOD, TAGGING, elsewhere

LONG = "k" * 1025
PUT, COPY, READ = GOOD["PutObject"], GOOD["CopyObject"], GOOD["GetObject"]
OTHER = '"00000000000000000000000000000000"'
# The ETag of the small object of the scene.
SMALL = '"781e5e245d69b566979b86e28d23f2c7"'

ON_KEYS = {
    "GetObject": READ,
    "HeadObject": GOOD["HeadObject"],
    "GetObjectAttributes": GOOD["GetObjectAttributes"],
    "GetObjectTagging": GOOD["GetObjectTagging"],
    "PutObjectTagging": GOOD["PutObjectTagging"],
    "DeleteObjectTagging": GOOD["DeleteObjectTagging"],
    "GetObjectAcl": GOOD["GetObjectAcl"],
    "PutObjectAcl": GOOD["PutObjectAcl"],
}


def another(ask, key="none", query=""):
    """Returns the same request for another key, or with a longer query."""
    path, _, own = ask.line.replace("/small", f"/{key}").partition("?")
    query = "&".join(part for part in (own, query) if part)
    return ask.but(line=f"{path}?{query}" if query else path)


def rows():
    yield from keys()
    yield from reads()
    yield from writes()
    yield from refused_headers()
    yield from copies()
    yield from renames()
    yield from appends()
    yield from tags()
    yield from quotas()


def keys():
    for name, ask in ON_KEYS.items():
        yield Row(name, "no key", another(ask), 404, "NoSuchKey", also={"Key": "none"})
    hidden = READ.but(line="GET /$bucket/none", by="writer")
    yield Row("GetObject", "no key, and no right to list", hidden, 403, "AccessDenied")
    for name in ("GetObject", "PutObject", "DeleteObject", "CreateMultipartUpload"):
        ask = GOOD[name]
        line = ask.line.replace("/small", f"/{LONG}").replace("/up?", f"/{LONG}?")
        also = {"Size": "1025", "MaxSizeAllowed": "1024"}
        yield Row(
            name, "the key is too long", ask.but(line=line), 400, "KeyTooLongError", also=also
        )
    broken = READ.but(line="GET /$bucket/a%2")
    yield Row("GetObject", "an escape is cut off", broken, 400, "InvalidURI")


def reads():
    for bounds, shown in [("10-", "bytes=10-"), ("11-20", "bytes=11-20"), ("-0", "bytes=-0")]:
        ask = READ.more(range=f"bytes={bounds}")
        also = {"RangeRequested": shown, "ActualObjectSize": "10"}
        headers = {"Content-Range": "bytes */10"}
        wrong = f"the range {bounds} of ten bytes"
        yield Row("GetObject", wrong, ask, 416, "InvalidRange", None, also, headers)
    part = another(READ, "small", "partNumber=2")
    also = {"ActualPartCount": "1", "PartNumberRequested": "2"}
    yield Row("GetObject", "no such part", part, 416, "InvalidPartNumber", also=also)
    message = "Part number must be an integer between 1 and 10000, inclusive."
    for number in ("0", "10001", "one"):
        part = another(READ, "small", f"partNumber={number}")
        wrong = f"the part number {number}"
        yield argument("GetObject", wrong, part, "partNumber", number, message)
    both = another(READ, "small", "partNumber=1").more(range="bytes=0-1")
    message = "Cannot specify both Range header and partNumber query parameter"
    yield Row("GetObject", "a range and a part", both, 400, "InvalidRequest", message)
    for header, shown in [("if-match", "If-Match"), ("if-unmodified-since", "If-Unmodified-Since")]:
        value = OTHER if header == "if-match" else "Mon, 01 Jan 2001 00:00:00 GMT"
        ask = READ.but(headers=((header, value),))
        yield Row("GetObject", header, ask, 412, "PreconditionFailed", also={"Condition": shown})
    yield Row(
        "HeadObject",
        "if-match",
        READ.but(line="HEAD /$bucket/small").more(if_match=OTHER),
        412,
        "PreconditionFailed",
    )
    attributes = GOOD["GetObjectAttributes"]
    message = (
        "The x-amz-object-attributes header specifying the attributes to be retrieved is either "
        "missing or empty"
    )
    none = attributes.but(headers=())
    yield Row("GetObjectAttributes", "none is asked for", none, 400, "InvalidRequest", message)
    unknown = attributes.but(headers=(("x-amz-object-attributes", "ETag,Colour"),))
    message = "Invalid attribute name specified."
    name = "x-amz-object-attributes"
    yield argument("GetObjectAttributes", "an unknown one", unknown, name, "Colour", message)
    for text, message in [
        ("-1", "Argument -1 must be an integer between 0 and 2147483647"),
        ("x", "Provided x not an integer or within integer range"),
    ]:
        ask = attributes.more(x_amz_max_parts=text)
        wrong = f"as many parts as {text}"
        yield argument("GetObjectAttributes", wrong, ask, "x-amz-max-parts", text, message)


def writes():
    also = {"Size": "2057", "MaxSizeAllowed": "2048"}
    long = PUT.more(x_amz_meta_long="m" * 2053)
    yield Row("PutObject", "too much metadata", long, 400, "MetadataTooLarge", also=also)
    begun = GOOD["CreateMultipartUpload"].more(x_amz_meta_long="m" * 2053)
    yield Row(
        "CreateMultipartUpload", "too much metadata", begun, 400, "MetadataTooLarge", also=also
    )
    also = {"StorageClassRequested": "COLD"}
    for name in ("PutObject", "CopyObject", "CreateMultipartUpload"):
        ask = GOOD[name]
        cold = ask.more(x_amz_storage_class="COLD")
        yield Row(name, "an unknown class", cold, 400, "InvalidStorageClass", also=also)
        away = ask.more(x_amz_website_redirect_location="ftp://example.com/")
        yield Row(name, "a redirect to ftp", away, 400, "InvalidRedirectLocation")
        shared = ask.more(x_amz_acl="public-read")
        code = "AccessControlListNotSupported"
        yield Row(name, "a list where lists do not count", shared, 400, code)
        unknown = ask.more(x_amz_acl="everybody")
        yield argument(
            name, "an unknown list", unknown, "x-amz-acl", "everybody", "Invalid Argument"
        )
    conditions = [
        ("PutObject", PUT.more(if_none_match="*"), "If-None-Match"),
        ("PutObject", PUT.more(if_none_match=SMALL), "If-None-Match"),
        ("PutObject", PUT.more(if_match=OTHER), "If-Match"),
        ("CopyObject", COPY.but(line="PUT /$bucket/small").more(if_match=OTHER), None),
        ("DeleteObject", GOOD["DeleteObject"].more(if_match=OTHER), "If-Match"),
        ("DeleteObject", GOOD["DeleteObject"].more(x_amz_if_match_size="3"), "If-Match-Size"),
    ]
    for name, ask, condition in conditions:
        if condition:
            also = {"Condition": condition}
            yield Row(name, condition, ask, 412, "PreconditionFailed", also=also)
    absent = another(PUT).more(if_match=OTHER)
    yield Row("PutObject", "If-Match of no object", absent, 404, "NoSuchKey", also={"Key": "none"})
    digit = GOOD["DeleteObject"].more(x_amz_if_match_size="x")
    name = "x-amz-if-match-size"
    yield argument("DeleteObject", "a size that is invalid", digit, name, "x", "Invalid Argument")
    without = PUT.but(without_length=True, claim="UNSIGNED-PAYLOAD")
    yield Row("PutObject", "no length", without, 411, "MissingContentLength")
    huge = PUT.but(claim="UNSIGNED-PAYLOAD", unsigned=(("content-length", str((5 << 30) + 1)),))
    also = {"ProposedSize": "5368709121", "MaxSizeAllowed": "5368709120"}
    yield Row("PutObject", "more than 5 GiB", huge, 400, "EntityTooLarge", also=also)
    posted = Ask("POST /$bucket/small", body=b"x")
    also = {"Method": "POST", "ResourceType": "SERVICE"}
    allow = {"Allow": "GET, HEAD, PUT, DELETE, OPTIONS"}
    yield Row("PutObject", "it is posted", posted, 405, "MethodNotAllowed", None, also, allow)
    orphan = another(PUT, "small", "partNumber=1")
    message = "This operation does not accept partNumber without uploadId"
    yield argument("PutObject", "a part of no upload", orphan, "partNumber", "partNumber", message)


def refused_headers():
    mode = "x-amz-server-side-encryption"
    ask = PUT.but(headers=((mode, "aws:kms:dsse"),))
    yield Row("PutObject", mode, ask, 501, "NotImplemented", also={"Header": mode})
    ask = PUT.but(headers=((mode, "aes:kms"),))
    message = "The encryption method specified is not supported"
    yield argument("PutObject", "an unknown encryption", ask, mode, "aes:kms", message)
    ask = PUT.but(headers=((f"{mode}-customer-algorithm", "AES256"),))
    message = (
        "Requests specifying Server Side Encryption with Customer provided keys must provide an "
        "appropriate secret key."
    )
    yield argument("PutObject", "no key of the client", ask, mode, "null", message)
    ask = PUT.but(headers=((f"{mode}-customer-algorithm", "AES192"),))
    also = {"ArgumentName": mode, "ArgumentValue": "AES192"}
    code = "InvalidEncryptionAlgorithmError"
    yield Row("PutObject", "an unknown cipher", ask, 400, code, also=also)
    foreign = READ.more(x_amz_copy_source="/$bucket/small")
    message = "You can only specify a copy source header for copy requests."
    name = "x-amz-copy-source"
    yield argument("GetObject", "a source", foreign, name, "/$bucket/small", message)
    for name, ask in [
        ("GetObject", READ.but(line="GET /$bucket/small?uploads")),
    ]:
        message = "Key is not expected for the GET method ?uploads subresource"
        yield Row(name, "uploads of a key", ask, 400, "InvalidRequest", message)
    listed = READ.but(line="GET /$bucket/small?versions")
    message = "There is no such thing as the ?versions sub-resource for a key"
    yield Row("GetObject", "versions of a key", listed, 400, "InvalidRequest", message)
    for name in ("GetObject", "PutObject", "ListObjectsV2"):
        ask = GOOD[name].more(x_amz_expected_bucket_owner="999999999999")
        yield Row(name, "another owner is expected", ask, 403, "AccessDenied")


def copies():
    name = "x-amz-copy-source"

    def of(source):
        return COPY.but(headers=((name, source),))

    for source, message in [
        ("", "Invalid copy source object key"),
        ("/$bucket", "Invalid copy source object key"),
        ("/$bucket/", "Invalid copy source object key"),
        ("/$bucket/%zz", "Invalid copy source encoding"),
        ("/B/small", "Invalid copy source bucket name"),
    ]:
        wrong = f"the source {source or 'nothing'}"
        yield argument("CopyObject", wrong, of(source), name, source, message)
    also = {"Key": "none"}
    yield Row("CopyObject", "no source", of("/$bucket/none"), 404, "NoSuchKey", also=also)
    gone = of("/none-$bucket/small")
    also = {"BucketName": "none-$bucket"}
    yield Row("CopyObject", "no bucket of the source", gone, 404, "NoSuchBucket", also=also)
    foreign = of("/$theirs/small")
    yield Row("CopyObject", "the source of another account", foreign, 403, "AccessDenied")
    owner = COPY.more(x_amz_source_expected_bucket_owner="999999999999")
    yield Row("CopyObject", "another owner of the source", owner, 403, "AccessDenied")
    itself = COPY.but(line="PUT /$bucket/small")
    message = (
        "This copy request is illegal because it is trying to copy an object to itself without "
        "changing the object's metadata, storage class, website redirect location or encryption "
        "attributes."
    )
    yield Row("CopyObject", "onto itself", itself, 400, "InvalidRequest", message)
    for kind in ("metadata", "tagging"):
        header = f"x-amz-{kind}-directive"
        ask = COPY.but(headers=(*COPY.headers, (header, "MERGE")))
        message = f"Unknown {kind} directive."
        yield argument("CopyObject", f"an unknown {header}", ask, header, "MERGE", message)
    for header, shown in [
        ("if-match", "x-amz-copy-source-If-Match"),
        ("if-unmodified-since", "x-amz-copy-source-If-Unmodified-Since"),
    ]:
        value = OTHER if header == "if-match" else "Mon, 01 Jan 2001 00:00:00 GMT"
        ask = COPY.but(headers=(*COPY.headers, (f"x-amz-copy-source-{header}", value)))
        also = {"Condition": shown}
        yield Row("CopyObject", shown, ask, 412, "PreconditionFailed", also=also)
    algorithm = COPY.more(x_amz_checksum_algorithm="CRC7")
    message = (
        "Checksum algorithm provided is unsupported. Please try again with any of the valid types: "
        "[CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, XXHASH64]"
    )
    yield Row("CopyObject", "an unknown checksum", algorithm, 400, "InvalidRequest", message)


def renames():
    name, rename = "RenameObject", GOOD["RenameObject"]
    source = "x-amz-rename-source"

    def of(key):
        return rename.but(headers=((source, key),))

    message = "Invalid rename source object key"
    yield argument(name, "no source", of(""), source, "", message)
    yield argument(name, "no key of the bucket", of("/$bucket/"), source, "/$bucket/", message)
    gone = of("/$bucket/none")
    yield Row(name, "no such source", gone, 404, "NoSuchKey", also={"Key": "none"})
    message = "RenameObject does not support keys that end with the slash (/) delimiter."
    directory = of("/small/")
    yield Row(name, "a source that is a directory", directory, 400, "InvalidRequest", message)
    directory = rename.but(line="PUT /$bucket/renamed/?renameObject")
    yield Row(name, "a target that is a directory", directory, 400, "InvalidRequest", message)
    itself = rename.but(line="PUT /$bucket/small?renameObject")
    for ask, condition in [
        (rename.more(x_amz_rename_source_if_match=OTHER), "x-amz-rename-source-if-match"),
        (rename.more(x_amz_rename_source_if_none_match=SMALL), "x-amz-rename-source-if-none-match"),
        (rename.more(if_match=OTHER), "If-Match"),
        (itself.more(if_none_match="*"), "If-None-Match"),
    ]:
        also = {"Condition": condition}
        yield Row(name, condition, ask, 412, "PreconditionFailed", also=also)
    for header, value in [
        ("if-none-match", '"*"'),
        ("if-unmodified-since", "yesterday"),
        ("x-amz-rename-source-if-modified-since", ""),
    ]:
        ask = rename.but(headers=(*rename.headers, (header, value)))
        also = {"Header": header}
        yield Row(name, f"an unclear {header}", ask, 501, "NotImplemented", also=also)


def appends():
    name = "x-amz-write-offset-bytes"
    for text in ("-1", "x", ""):
        ask = PUT.more(x_amz_write_offset_bytes=text)
        yield argument("PutObject", f"the offset {text}", ask, name, text, "Invalid Argument")
    behind, also = PUT.more(x_amz_write_offset_bytes="11"), {"ActualObjectSize": "10"}
    yield Row("PutObject", "another offset", behind, 400, "InvalidWriteOffset", also=also)
    absent = another(PUT).more(x_amz_write_offset_bytes="1")
    yield Row("PutObject", "an offset in nothing", absent, 404, "NoSuchKey", also={"Key": "none"})


def tags():
    shape = (
        "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters "
        "without tag name duplicates."
    )
    for text in ("a=1&a=2", "=v"):
        ask = PUT.more(x_amz_tagging=text)
        yield argument("PutObject", f"the tags {text}", ask, "x-amz-tagging", text, shape)
    many = "&".join(f"k{at}=v" for at in range(11))
    message = "Object tags cannot be greater than 10"
    yield Row("PutObject", "eleven tags", PUT.more(x_amz_tagging=many), 400, "BadRequest", message)

    def tagged(*pairs):
        tag = "<Tag><Key>{}</Key><Value>{}</Value></Tag>"
        content = "".join(tag.format(key, value) for key, value in pairs)
        return f"<Tagging><TagSet>{content}</TagSet></Tagging>".encode()

    long, big = "k" * 129, "v" * 257
    twice = "Cannot provide multiple Tags with the same key"
    no_key = "The TagKey you have provided is invalid"
    no_value = "The TagValue you have provided is invalid"
    system = "System tags cannot be added/updated by requester"
    for name in ("PutObjectTagging", "PutBucketTagging"):
        ask = GOOD[name]
        for wrong, pairs, message, also in [
            ("one tag twice", [("k", "1"), ("k", "2")], twice, {"TagKey": "k"}),
            ("a long name", [(long, "v")], no_key, {"TagKey": long}),
            ("a long value", [("k", big)], no_value, {"TagKey": "k", "TagValue": big}),
            ("a name of the system's", [("aws:k", "v")], system, {"TagKey": "aws:k"}),
        ]:
            yield Row(name, wrong, ask.but(body=tagged(*pairs)), 400, "InvalidTag", message, also)
        most = 10 if name == "PutObjectTagging" else 50
        message = {
            10: "Object tags cannot be greater than 10",
            50: "Bucket tag count cannot be greater than 50",
        }[most]
        many = tagged(*((f"k{at}", "v") for at in range(most + 1)))
        yield Row(name, "too many tags", ask.but(body=many), 400, "BadRequest", message)


def quotas():
    there = "$full"
    refusals = [
        ("PutObject", "one object too many", elsewhere(another(PUT), there)),
        ("PutObject", "too many bytes", elsewhere(PUT.but(body=b"x" * 65536), there)),
        ("CopyObject", "one object too many", elsewhere(another(COPY), there)),
    ]
    for name, wrong, ask in refusals:
        yield Row(name, wrong, ask, 403, "QuotaExceeded")
