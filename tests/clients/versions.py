"""Versions of objects, as boto3 creates, lists and removes them, for several suites."""

import xml.etree.ElementTree
from collections import namedtuple

# An entry of a listing of versions. A common prefix has no version id and is not the latest.
Entry = namedtuple("Entry", "key version kind latest")


def enable(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def suspend(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})


def empty(s3, bucket):
    """Removes all versions and markers."""
    for _ in range(10):
        _, entries = page_of(s3, bucket)
        if not entries:
            return
        these = [{"Key": each.key, "VersionId": each.version} for each in entries]
        assert "Errors" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": these})
    raise AssertionError(f"{bucket} does not become empty")


def put(s3, bucket, key, content=b"x", **arguments):
    """Writes an object and returns its version id, or None."""
    answer = s3.put_object(Bucket=bucket, Key=key, Body=content, **arguments)
    return answer.get("VersionId")


def delete_current(s3, bucket, key):
    """Deletes without a version id, and returns the id of the delete marker."""
    return s3.delete_object(Bucket=bucket, Key=key)["VersionId"]


def read(s3, bucket, key, **which):
    return s3.get_object(Bucket=bucket, Key=key, **which)["Body"].read()


def headers_of(answer):
    return answer["ResponseMetadata"]["HTTPHeaders"]


def page_of(s3, bucket, **arguments):
    """Returns a page: the response, and its versions and markers in the order of the document."""
    documents = []

    def keep(response_dict, **_):
        documents.append(response_dict["body"])

    s3.meta.events.register("before-parse.s3.ListObjectVersions", keep)
    answer = s3.list_object_versions(Bucket=bucket, **arguments)
    s3.meta.events.unregister("before-parse.s3.ListObjectVersions", keep)
    # boto3 separates versions and markers; only the document has their common order.
    entries = {
        "Version": iter(answer.get("Versions", [])),
        "DeleteMarker": iter(answer.get("DeleteMarkers", [])),
    }
    found = []
    for element in xml.etree.ElementTree.fromstring(documents[-1]):
        kind = element.tag.rpartition("}")[2]
        if kind in entries:
            each = next(entries[kind])
            found.append(Entry(each["Key"], each["VersionId"], kind, each["IsLatest"]))
    return answer, found


def listed(s3, bucket, **arguments):
    """Returns all pages: versions, markers and common prefixes."""
    found, start = [], {}
    for _ in range(1000):
        answer, page = page_of(s3, bucket, **arguments, **start)
        prefixes = [each["Prefix"] for each in answer.get("CommonPrefixes", [])]
        assert len(page) + len(prefixes) <= arguments.get("MaxKeys", 1000)
        page += [Entry(prefix, None, "Prefix", None) for prefix in prefixes]
        found += sorted(page, key=lambda each: each.key.encode())
        if not answer["IsTruncated"]:
            return found
        start = {"KeyMarker": answer["NextKeyMarker"]}
        if answer.get("NextVersionIdMarker"):
            start["VersionIdMarker"] = answer["NextVersionIdMarker"]
    raise AssertionError("the listing has no end")


def ids(s3, bucket, key):
    """Returns the ids of a key's versions and markers, newest first."""
    return [each.version for each in listed(s3, bucket, Prefix=key) if each.key == key]


def current_keys(s3, bucket):
    """Returns the result of both listings of objects, which must be equal."""
    second = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    assert [each["Key"] for each in s3.list_objects(Bucket=bucket).get("Contents", [])] == second
    return second
