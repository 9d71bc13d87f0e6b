"""Versions: the versioning of a bucket, ids, and delete markers."""

from raw import Ask

from . import SOME, Row, argument
from .every import GOOD, elsewhere
from .objects import ON_KEYS, another

# A well-formed id that no version has.
NO_VERSION = "0" * 32
MARKER = "versionId=$versions_marker"
NAMED_MARKER = {"x-amz-delete-marker": "true", "x-amz-version-id": "$versions_marker"}
INVALID = "Invalid version id specified"

ON_LOCKS = {
    name: GOOD[name]
    for name in (
        "GetObjectLegalHold",
        "PutObjectLegalHold",
        "GetObjectRetention",
        "PutObjectRetention",
    )
}


def rows():
    yield from states()
    yield from ids()
    yield from sources()
    yield from markers()
    yield from locked_markers()
    yield from kept()


def states():
    name = "PutBucketVersioning"
    ask = GOOD[name]

    def of(content):
        root = f"<VersioningConfiguration>{content}</VersioningConfiguration>"
        return ask.but(body=root.encode())

    code = "IllegalVersioningConfigurationException"
    yield Row(name, "no status", of(""), 400, code)
    yield Row(name, "an empty status", of("<Status/>"), 400, code)
    on = "<Status>Enabled</Status>"
    for wrong, content in [
        ("an unknown status", "<Status>Disabled</Status>"),
        ("a status in lower case", "<Status>enabled</Status>"),
        ("two statuses", on * 2),
        ("an unknown element", f"{on}<Colour>red</Colour>"),
        ("an unknown switch", f"{on}<MfaDelete>Perhaps</MfaDelete>"),
    ]:
        yield Row(name, wrong, of(content), 400, "MalformedXML")
    message = "Mfa Authentication must be used for this request"
    device = of(f"{on}<MfaDelete>Enabled</MfaDelete>")
    yield Row(name, "two factors", device, 403, "AccessDenied", message)
    message = (
        "An Object Lock configuration is present on this bucket, so the versioning state cannot be "
        "changed."
    )
    suspended = elsewhere(of("<Status>Suspended</Status>"), "$locks")
    yield Row(name, "a bucket with locks", suspended, 409, "InvalidBucketState", message)


def ids():
    for name, ask in {**ON_KEYS, **ON_LOCKS, "DeleteObject": GOOD["DeleteObject"]}.items():
        bad = another(ask, "small", "versionId=1.00")
        gone = another(ask, "small", f"versionId={NO_VERSION}")
        if name == "HeadObject":
            yield Row(name, "an id that is invalid", bad, 400, "InvalidArgument")
            yield Row(name, "no such version", gone, 404, "NoSuchVersion")
            continue
        yield argument(name, "an id that is invalid", bad, "versionId", "1.00", INVALID)
        if name != "DeleteObject":
            also = {"Key": "small", "VersionId": NO_VERSION}
            yield Row(name, "no such version", gone, 404, "NoSuchVersion", also=also)
    read = GOOD["GetObject"]
    for sent, meant in [("%20", " "), ("NULL", "NULL"), ("F" * 32, "F" * 32), ("0" * 31, "0" * 31)]:
        ask = another(read, "small", f"versionId={sent}")
        yield argument("GetObject", f"the id {sent}", ask, "versionId", meant, INVALID)
    message = "Version id cannot be the empty string"
    for name in ("GetObject", "DeleteObject"):
        ask = another(GOOD[name], "small", "versionId=")
        yield argument(name, "an empty id", ask, "versionId", "", message)
    ask = elsewhere(another(read, "small", "versionId=null"), "$versions")
    also = {"Key": "small", "VersionId": "null"}
    yield Row("GetObject", "no version null", ask, 404, "NoSuchVersion", also=also)


def sources():
    """Sources of copies."""
    marker = (
        "The source of a copy request may not specifically refer to a delete marker by version id."
    )
    for name in ("CopyObject", "UploadPartCopy"):

        def of(source):
            return GOOD[name].but(headers=(("x-amz-copy-source", source),))

        bad = of("/$bucket/small?versionId=1.00")
        yield argument(name, "an id that is invalid", bad, "versionId", "1.00", INVALID)
        gone = of(f"/$bucket/small?versionId={NO_VERSION}")
        also = {"Key": "small", "VersionId": NO_VERSION}
        yield Row(name, "no version of the source", gone, 404, "NoSuchVersion", also=also)
        named = of(f"/$versions/deleted?{MARKER}")
        yield Row(name, "a marker by its id", named, 400, "InvalidRequest", marker)
        hidden = of("/$versions/deleted")
        also = {"Key": "deleted"}
        yield Row(name, "a deleted source", hidden, 404, "NoSuchKey", None, also, NAMED_MARKER)


def markers():
    allow = {"Allow": "DELETE", **NAMED_MARKER}
    for name, ask in ON_KEYS.items():
        ask = elsewhere(another(ask, "deleted"), "$versions")
        named = another(ask, query=MARKER)
        also = {"Method": ask.method, "ResourceType": "DeleteMarker"}
        code = "MethodNotAllowed"
        headers = {"Last-Modified": SOME, **allow} if name in ("GetObject", "HeadObject") else allow
        yield Row(name, "a marker by its id", named, 405, code, None, also, headers)
        # The errors for a key with a current delete marker differ by operation.
        if "Tagging" in name or name == "PutObjectAcl":
            yield Row(name, "a deleted key", ask, 405, code, also=also)
        else:
            also = {"Key": "deleted"}
            yield Row(name, "a deleted key", ask, 404, "NoSuchKey", None, also, NAMED_MARKER)


def locked_markers():
    for name, ask in ON_LOCKS.items():
        named = another(ask, "deleted", "versionId=$locks_marker")
        also = {"Method": ask.method, "ResourceType": "DeleteMarker"}
        yield Row(name, "a marker by its id", named, 405, "MethodNotAllowed", also=also)


def kept():
    """Operations that fail in buckets with versions."""
    message = (
        "The bucket you tried to delete is not empty. You must delete all versions in the bucket."
    )
    for kind in ("versions", "locks"):
        also = {"BucketName": f"${kind}"}
        ask = Ask(f"DELETE /${kind}")
        wrong = f"versions in a bucket with {kind}"
        yield Row("DeleteBucket", wrong, ask, 409, "BucketNotEmpty", message, also)
    message = "Objects of a bucket that keeps versions are not changed or renamed in place."
    for name, ask in [
        ("RenameObject", GOOD["RenameObject"]),
        ("PutObject", GOOD["PutObject"].more(x_amz_write_offset_bytes="10")),
    ]:
        ask = elsewhere(ask, "$versions")
        yield Row(name, "a bucket with versions", ask, 400, "InvalidRequest", message)
