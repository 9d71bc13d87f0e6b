"""Errors of every operation: for anonymous clients, for other accounts, and for a missing bucket.
"""

import re

from raw import Ask

from . import Row

TAGGING = b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
DELETE = b"<Delete><Object><Key>small</Key></Object></Delete>"
PARTS = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>"
    b"</CompleteMultipartUpload>"
)
OWNERSHIP = (
    b"<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>"
    b"</OwnershipControls>"
)
ENCRYPTION = (
    b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"
    b"<SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>"
    b"</ServerSideEncryptionConfiguration>"
)
CORS = (
    b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin>"
    b"<AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"
)
BLOCK = b"<PublicAccessBlockConfiguration/>"
POLICY = (
    b'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*",'
    b'"Action":"s3:DeleteBucket","Resource":"arn:aws:s3:::$bucket"}]}'
)
VERSIONING = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
LIFECYCLE = (
    b"<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/>"
    b"<Expiration><Days>1000</Days></Expiration></Rule></LifecycleConfiguration>"
)
LOCKING = (
    b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>"
    b"<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>"
    b"</ObjectLockConfiguration>"
)
RETENTION = (
    b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2100-01-01T00:00:00Z</RetainUntilDate>"
    b"</Retention>"
)
HOLD = b"<LegalHold><Status>ON</Status></LegalHold>"
SOURCE = (("x-amz-copy-source", "/$bucket/small"),)
RENAMED = (("x-amz-rename-source", "/small"),)
PRIVATE = (("x-amz-acl", "private"),)
ATTRIBUTES = (("x-amz-object-attributes", "ETag"),)

# A correct request of each served operation.
GOOD = {
    "ListBuckets": Ask("GET /"),
    "ListObjects": Ask("GET /$bucket"),
    "ListObjectsV2": Ask("GET /$bucket?list-type=2"),
    "ListObjectVersions": Ask("GET /$bucket?versions"),
    "ListMultipartUploads": Ask("GET /$bucket?uploads"),
    "HeadBucket": Ask("HEAD /$bucket"),
    "CreateBucket": Ask("PUT /$bucket"),
    "DeleteBucket": Ask("DELETE /$bucket"),
    "DeleteObjects": Ask("POST /$bucket?delete", body=DELETE),
    "GetBucketLocation": Ask("GET /$bucket?location"),
    "GetBucketTagging": Ask("GET /$bucket?tagging"),
    "PutBucketTagging": Ask("PUT /$bucket?tagging", body=TAGGING),
    "DeleteBucketTagging": Ask("DELETE /$bucket?tagging"),
    "GetBucketAcl": Ask("GET /$bucket?acl"),
    "PutBucketAcl": Ask("PUT /$bucket?acl", PRIVATE),
    "GetBucketPolicy": Ask("GET /$bucket?policy"),
    "PutBucketPolicy": Ask("PUT /$bucket?policy", body=POLICY),
    "DeleteBucketPolicy": Ask("DELETE /$bucket?policy"),
    "GetBucketPolicyStatus": Ask("GET /$bucket?policyStatus"),
    "GetBucketLogging": Ask("GET /$bucket?logging"),
    "PutBucketLogging": Ask("PUT /$bucket?logging", body=b"<BucketLoggingStatus/>"),
    "GetBucketEncryption": Ask("GET /$bucket?encryption"),
    "PutBucketEncryption": Ask("PUT /$bucket?encryption", body=ENCRYPTION),
    "DeleteBucketEncryption": Ask("DELETE /$bucket?encryption"),
    "GetBucketCors": Ask("GET /$bucket?cors"),
    "PutBucketCors": Ask("PUT /$bucket?cors", body=CORS),
    "DeleteBucketCors": Ask("DELETE /$bucket?cors"),
    "GetBucketLifecycleConfiguration": Ask("GET /$bucket?lifecycle"),
    "PutBucketLifecycleConfiguration": Ask("PUT /$bucket?lifecycle", body=LIFECYCLE),
    "DeleteBucketLifecycle": Ask("DELETE /$bucket?lifecycle"),
    "GetBucketVersioning": Ask("GET /$bucket?versioning"),
    "PutBucketVersioning": Ask("PUT /$bucket?versioning", body=VERSIONING),
    "GetObjectLockConfiguration": Ask("GET /$locks?object-lock"),
    "PutObjectLockConfiguration": Ask("PUT /$locks?object-lock", body=LOCKING),
    "GetBucketOwnershipControls": Ask("GET /$bucket?ownershipControls"),
    "PutBucketOwnershipControls": Ask("PUT /$bucket?ownershipControls", body=OWNERSHIP),
    "DeleteBucketOwnershipControls": Ask("DELETE /$bucket?ownershipControls"),
    "GetPublicAccessBlock": Ask("GET /$bucket?publicAccessBlock"),
    "PutPublicAccessBlock": Ask("PUT /$bucket?publicAccessBlock", body=BLOCK),
    "DeletePublicAccessBlock": Ask("DELETE /$bucket?publicAccessBlock"),
    "GetObject": Ask("GET /$bucket/small"),
    "HeadObject": Ask("HEAD /$bucket/small"),
    "PutObject": Ask("PUT /$bucket/small", body=b"x"),
    "CopyObject": Ask("PUT /$bucket/copy", SOURCE),
    "RenameObject": Ask("PUT /$bucket/renamed?renameObject", RENAMED),
    "DeleteObject": Ask("DELETE /$bucket/small"),
    "GetObjectAttributes": Ask("GET /$bucket/small?attributes", ATTRIBUTES),
    "GetObjectTagging": Ask("GET /$bucket/small?tagging"),
    "PutObjectTagging": Ask("PUT /$bucket/small?tagging", body=TAGGING),
    "DeleteObjectTagging": Ask("DELETE /$bucket/small?tagging"),
    "GetObjectAcl": Ask("GET /$bucket/small?acl"),
    "PutObjectAcl": Ask("PUT /$bucket/small?acl", PRIVATE),
    "GetObjectLegalHold": Ask("GET /$locks/small?legal-hold"),
    "PutObjectLegalHold": Ask("PUT /$locks/small?legal-hold", body=HOLD),
    "GetObjectRetention": Ask("GET /$locks/small?retention"),
    "PutObjectRetention": Ask("PUT /$locks/small?retention", body=RETENTION),
    "CreateMultipartUpload": Ask("POST /$bucket/up?uploads"),
    "UploadPart": Ask("PUT /$bucket/up?partNumber=1&uploadId=$upload", body=b"x"),
    "UploadPartCopy": Ask("PUT /$bucket/up?partNumber=1&uploadId=$upload", SOURCE),
    "CompleteMultipartUpload": Ask("POST /$bucket/up?uploadId=$upload", body=PARTS),
    "AbortMultipartUpload": Ask("DELETE /$bucket/up?uploadId=$upload"),
    "ListParts": Ask("GET /$bucket/up?uploadId=$upload"),
}

# Configurations that clients read from new buckets: their errors, and those that are empty.
ABSENT = {
    "GetBucketLifecycleConfiguration": ("lifecycle", "NoSuchLifecycleConfiguration"),
    "GetBucketEncryption": ("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
    "GetBucketReplication": ("replication", "ReplicationConfigurationNotFoundError"),
    "GetBucketWebsite": ("website", "NoSuchWebsiteConfiguration"),
    "GetObjectLockConfiguration": ("object-lock", "ObjectLockConfigurationNotFoundError"),
    "GetBucketTagging": ("tagging", "NoSuchTagSet"),
    "GetBucketPolicy": ("policy", "NoSuchBucketPolicy"),
    "GetBucketPolicyStatus": ("policyStatus", "NoSuchBucketPolicy"),
    "GetBucketCors": ("cors", "NoSuchCORSConfiguration"),
    "GetPublicAccessBlock": ("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
}
EMPTY = {
    "DeleteBucketEncryption": Ask("DELETE /$bucket?encryption"),
    "DeleteBucketReplication": Ask("DELETE /$bucket?replication"),
    "DeleteBucketWebsite": Ask("DELETE /$bucket?website"),
    "GetBucketNotificationConfiguration": Ask("GET /$bucket?notification"),
    "GetBucketAccelerateConfiguration": Ask("GET /$bucket?accelerate"),
    "GetBucketRequestPayment": Ask("GET /$bucket?requestPayment"),
    "ListBucketInventoryConfigurations": Ask("GET /$bucket?inventory"),
    "ListBucketAnalyticsConfigurations": Ask("GET /$bucket?analytics"),
    "ListBucketMetricsConfigurations": Ask("GET /$bucket?metrics"),
    "ListBucketIntelligentTieringConfigurations": Ask("GET /$bucket?intelligent-tiering"),
}
STUBS = {
    **EMPTY,
    **{
        name: Ask(f"GET /$bucket?{parameter}")
        for name, (parameter, _) in ABSENT.items()
        if name not in GOOD
    },
}

# Operations of S3 that Ashlar does not serve.
REFUSED = {
    "PutBucketReplication": "PUT /$bucket?replication",
    "PutBucketWebsite": "PUT /$bucket?website",
    "PutBucketNotificationConfiguration": "PUT /$bucket?notification",
    "PutBucketAccelerateConfiguration": "PUT /$bucket?accelerate",
    "PutBucketRequestPayment": "PUT /$bucket?requestPayment",
    "PutBucketInventoryConfiguration": "PUT /$bucket?inventory",
    "DeleteBucketInventoryConfiguration": "DELETE /$bucket?inventory",
    "PutBucketAnalyticsConfiguration": "PUT /$bucket?analytics",
    "DeleteBucketAnalyticsConfiguration": "DELETE /$bucket?analytics",
    "PutBucketMetricsConfiguration": "PUT /$bucket?metrics",
    "DeleteBucketMetricsConfiguration": "DELETE /$bucket?metrics",
    "PutBucketIntelligentTieringConfiguration": "PUT /$bucket?intelligent-tiering",
    "DeleteBucketIntelligentTieringConfiguration": "DELETE /$bucket?intelligent-tiering",
    "CreateSession": "GET /$bucket?session",
    "RestoreObject": "POST /$bucket/small?restore",
    "SelectObjectContent": "POST /$bucket/small?select",
    "GetObjectTorrent": "GET /$bucket/small?torrent",
    "UpdateObjectEncryption": "PUT /$bucket/small?encryption",
}

# The sentence for some anonymous requests, where S3 says more than that access is denied.
INVOKE = "Anonymous users cannot invoke this API. Please authenticate."
TO_NOBODY = {
    "CreateBucket": INVOKE,
    "PutBucketAcl": INVOKE,
    "PutObjectAcl": INVOKE,
    "CopyObject": "Anonymous users cannot copy objects. Please authenticate.",
    "CreateMultipartUpload": "Anonymous users cannot initiate multipart uploads. "
    "Please authenticate.",
    "GetBucketOwnershipControls": "s3:GetBucketOwnershipControls does not support Anonymous "
    "requests!",
    "PutBucketOwnershipControls": "s3:PutBucketOwnershipControls does not support Anonymous "
    "requests!",
    "DeleteBucketOwnershipControls": "s3:PutBucketOwnershipControls does not support Anonymous "
    "requests!",
}


def elsewhere(ask, bucket):
    """Returns the same request for another bucket."""
    return ask.but(line=re.sub(r"/\$\w+", lambda _: f"/{bucket}", ask.line, count=1))


def rows():
    asked = {**GOOD, **STUBS}
    for name, ask in asked.items():
        if name not in ("ListBuckets", "CreateBucket"):
            also = {} if ask.method == "HEAD" else {"BucketName": "none-$bucket"}
            there_is_none = elsewhere(ask, "none-$bucket")
            yield Row(name, "no bucket", there_is_none, 404, "NoSuchBucket", also=also)
        message = TO_NOBODY.get(name)
        yield Row(name, "nobody asks", ask.but(by=None), 403, "AccessDenied", message)
        if name not in ("ListBuckets", "DeleteObjects"):
            yield Row(name, "nothing is allowed", ask.but(by="powerless"), 403, "AccessDenied")
    for name, (parameter, code) in ABSENT.items():
        ask, also = Ask(f"GET /$bucket?{parameter}"), {"BucketName": "$bucket"}
        yield Row(name, "there is none", ask, 404, code, also=also)
    controls = Ask("GET /$plain?ownershipControls")
    yield Row(
        "GetBucketOwnershipControls",
        "there are none",
        controls,
        404,
        "OwnershipControlsNotFoundError",
        also={"BucketName": "$plain"},
    )
    for name, line in REFUSED.items():
        also = {"Feature": name}
        yield Row(name, "it is not served", Ask(line), 501, "NotImplemented", also=also)
