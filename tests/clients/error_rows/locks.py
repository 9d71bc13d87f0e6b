"""Locks: of buckets, of versions, and in the headers of a write."""

from raw import Ask

from . import Row, argument
from .every import GOOD, elsewhere
from .objects import another
from .versions import ON_LOCKS

PAST, TO_COME = "2001-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
MODE, UNTIL = "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"
HOLD, BYPASS = "x-amz-object-lock-legal-hold", "x-amz-bypass-governance-retention"
KEEP = ((MODE, "GOVERNANCE"), (UNTIL, TO_COME))

MISSING = "Bucket is missing Object Lock Configuration"
# The sentence of S3 for writes only.
MISSING_TO_WRITES = "Bucket is missing ObjectLockConfiguration"
NOT_FUTURE = "The retain until date must be in the future!"
PROTECTED = "Access Denied because object protected by object lock."
NO_BYPASS = "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets."


def rows():
    yield from configurations()
    yield from retentions()
    yield from holds()
    yield from none_there()
    yield from bypasses()
    yield from writes()
    yield from deletions()


def configurations():
    name = "PutObjectLockConfiguration"
    ask = GOOD[name]
    message = "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"
    plain = elsewhere(ask, "$bucket")
    yield Row(name, "a bucket without versions", plain, 409, "InvalidBucketState", message)
    versions = elsewhere(GOOD["GetObjectLockConfiguration"], "$versions")
    also = {"BucketName": "$versions"}
    code = "ObjectLockConfigurationNotFoundError"
    yield Row("GetObjectLockConfiguration", "versions alone", versions, 404, code, also=also)

    def of(content, enabled="<ObjectLockEnabled>Enabled</ObjectLockEnabled>"):
        root = f"<ObjectLockConfiguration>{enabled}{content}</ObjectLockConfiguration>"
        return ask.but(body=root.encode())

    def default(content):
        return of(f"<Rule><DefaultRetention>{content}</DefaultRetention></Rule>")

    mode, day = "<Mode>GOVERNANCE</Mode>", "<Days>1</Days>"
    for wrong, bad in [
        ("no status", of("", "")),
        ("a status that is invalid", of("", "<ObjectLockEnabled>Disabled</ObjectLockEnabled>")),
        ("a rule of nothing", of("<Rule/>")),
        ("a default of nothing", default("")),
        ("a default without a mode", default(day)),
        ("a mode alone", default(mode)),
        ("an unknown mode", default(f"<Mode>governance</Mode>{day}")),
        ("days and years", default(f"{mode}{day}<Years>1</Years>")),
        ("days that are no number", default(f"{mode}<Days>one</Days>")),
    ]:
        yield Row(name, wrong, bad, 400, "MalformedXML")
    short = "Default retention period must be a positive integer value."
    long = "Default retention period too large."
    for unit, number, message in [
        ("Days", 0, short),
        ("Days", -1, short),
        ("Days", 36501, long),
        ("Years", 0, short),
        ("Years", 101, long),
    ]:
        bad = default(f"{mode}<{unit}>{number}</{unit}>")
        yield argument(name, f"{number} {unit}", bad, unit, None, message)
    events = default(f"{mode}{day}<DefaultEventHold>ON</DefaultEventHold>")
    also = {"Element": "DefaultEventHold"}
    yield Row(name, "a hold that begins with an event", events, 501, "NotImplemented", also=also)


def retentions():
    name = "PutObjectRetention"
    ask = GOOD[name]

    def of(mode, until, more=""):
        mode = f"<Mode>{mode}</Mode>" if mode else ""
        until = f"<RetainUntilDate>{until}</RetainUntilDate>" if until else ""
        return ask.but(body=f"<Retention>{mode}{until}{more}</Retention>".encode())

    for wrong, bad in [
        ("an unknown mode", of("governance", TO_COME)),
        ("a mode without a date", of("GOVERNANCE", None)),
        ("a date without a mode", of(None, TO_COME)),
        ("a date that is invalid", of("GOVERNANCE", "tomorrow")),
    ]:
        yield Row(name, wrong, bad, 400, "MalformedXML")
    past = of("GOVERNANCE", PAST)
    yield argument(name, "a date that is past", past, "RetainUntilDate", PAST, NOT_FUTURE)
    events = of(None, None, "<EventHold>ON</EventHold>")
    also = {"Element": "EventHold"}
    yield Row(name, "a hold that ends with an event", events, 501, "NotImplemented", also=also)
    for wrong, bad in [
        ("an earlier date", of("GOVERNANCE", "2099-01-01T00:00:00Z")),
        ("an end", of(None, None)),
    ]:
        yield Row(name, wrong, another(bad, "kept"), 403, "AccessDenied", PROTECTED)


def holds():
    name = "PutObjectLegalHold"
    for wrong, content in [
        ("no status", ""),
        ("an unknown status", "<Status>MAYBE</Status>"),
        ("a status in lower case", "<Status>on</Status>"),
    ]:
        body = f"<LegalHold>{content}</LegalHold>".encode()
        yield Row(name, wrong, GOOD[name].but(body=body), 400, "MalformedXML")


def none_there():
    """A missing key, a version without a lock, and a bucket without locks."""
    for name, ask in ON_LOCKS.items():
        yield Row(name, "no key", another(ask), 404, "NoSuchKey", also={"Key": "none"})
        for wrong, bucket in [("no locks", "$bucket"), ("versions alone", "$versions")]:
            yield Row(name, wrong, elsewhere(ask, bucket), 400, "InvalidRequest", MISSING)
    code = "NoSuchObjectLockConfiguration"
    for name, key in [
        ("GetObjectRetention", "small"),
        ("GetObjectRetention", "hold"),
        ("GetObjectLegalHold", "small"),
        ("GetObjectLegalHold", "kept"),
    ]:
        ask = another(GOOD[name], key)
        yield Row(name, f"no lock of {key}", ask, 404, code, also={"Key": key})


def bypasses():
    for name in ("DeleteObject", "DeleteObjects", "PutObjectRetention"):
        without = elsewhere(GOOD[name], "$bucket").more(x_amz_bypass_governance_retention="true")
        yield argument(name, "a bypass and no locks", without, BYPASS, None, NO_BYPASS)
        bad = elsewhere(GOOD[name], "$locks").more(x_amz_bypass_governance_retention="perhaps")
        yield argument(name, "perhaps a bypass", bad, BYPASS, "perhaps", "Invalid Argument")


def writes():
    both = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
    date = "The retain until date must be provided in ISO 8601 format"
    for name in ("PutObject", "CopyObject", "CreateMultipartUpload"):
        ask = elsewhere(GOOD[name], "$locks")

        def of(*headers):
            return ask.but(headers=(*ask.headers, *headers))

        for wrong, headers, bucket in [
            ("a hold, and no locks", ((HOLD, "ON"),), "$bucket"),
            ("a retention, and versions alone", KEEP, "$versions"),
        ]:
            without = elsewhere(of(*headers), bucket)
            yield Row(name, wrong, without, 400, "InvalidRequest", MISSING_TO_WRITES)
        yield argument(name, "a mode without a date", of(KEEP[0]), UNTIL, None, both)
        yield argument(name, "a date without a mode", of(KEEP[1]), MODE, None, both)
        bad = of((MODE, "governance"), KEEP[1])
        message = "Unknown wormMode directive."
        yield argument(name, "an unknown mode", bad, MODE, "governance", message)
        bad = of(KEEP[0], (UNTIL, "tomorrow"))
        yield argument(name, "a date that is invalid", bad, UNTIL, "tomorrow", date)
        bad = of(KEEP[0], (UNTIL, PAST))
        yield argument(name, "a date that is past", bad, UNTIL, PAST, NOT_FUTURE)
        message = "Legal Hold must be either of 'ON' or 'OFF'"
        yield argument(name, "perhaps a hold", of((HOLD, "MAYBE")), HOLD, "MAYBE", message)
        header = "x-amz-object-lock-event-hold"
        events = of((header, "ON"))
        also = {"Header": header}
        yield Row(name, "an unknown lock", events, 501, "NotImplemented", also=also)
    for wrong, headers in [("a hold", ((HOLD, "ON"),)), ("a retention", KEEP)]:
        ask = Ask("PUT /$locks/new", headers, body=b"x", by="writer")
        yield Row("PutObject", f"no right to {wrong}", ask, 403, "AccessDenied")


def deletions():
    name = "DeleteObject"
    held = "DELETE /$locks/hold?versionId=$hold"
    for wrong, ask in [
        ("a retention", Ask("DELETE /$locks/kept?versionId=$kept")),
        ("a hold", Ask(held)),
        ("a hold and a bypass", Ask(held, ((BYPASS, "true"),))),
    ]:
        yield Row(name, wrong, ask, 403, "AccessDenied", PROTECTED)
    for key in ("kept", "hold"):
        content = f"<Delete><Object><Key>{key}</Key><VersionId>${key}</VersionId></Object></Delete>"
        ask = Ask("POST /$locks?delete", body=content.encode())
        also = {"Key": key, "VersionId": f"${key}"}
        yield Row("DeleteObjects", f"a lock of {key}", ask, 200, "AccessDenied", PROTECTED, also)
