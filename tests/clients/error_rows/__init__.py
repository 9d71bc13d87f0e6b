"""The errors of S3, row by row: a faulty request and the expected response.

Each row is one request and one response. Texts contain the names of the scene: `$bucket`,
`$upload` and the others of `test_errors.Scene.names`.
"""

from dataclasses import dataclass, field

from raw import Ask


class Some:
    """Equals any text that is not empty, for values that cannot be known before."""

    def __eq__(self, other):
        return isinstance(other, str) and other != ""

    def __repr__(self):
        return "SOME"


SOME = Some()


@dataclass(frozen=True)
class Row:
    """`message` is the standard sentence of the code if it is None; `also` are additional
    elements."""

    operation: str
    wrong: str
    ask: Ask
    status: int
    code: str
    message: object = None
    also: dict = field(default_factory=dict)
    headers: dict = field(default_factory=dict)

    def __str__(self):
        return f"{self.operation}: {self.wrong}"


def argument(operation, wrong, ask, name, value, message, **headers):
    """A row with `InvalidArgument`, which contains the name and the value of the argument."""
    also = {"ArgumentName": name}
    if value is not None:
        also["ArgumentValue"] = value
    return Row(operation, wrong, ask, 400, "InvalidArgument", message, also, headers)


ILL_FORMED = (
    "The XML you provided was not well-formed or did not validate against our published schema."
)

# The sentences that AWS documents or was observed to return.
MESSAGES = {
    "AccessControlListNotSupported": "The bucket does not allow ACLs.",
    "AccessDenied": "Access Denied.",
    "AccessForbidden": "CORSResponse: This CORS request is not allowed. This is usually because "
    "the evalution of Origin, request method / Access-Control-Request-Method or "
    "Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
    "BadDigest": "The Content-MD5 you specified did not match what we received.",
    "BucketAlreadyExists": "The requested bucket name is not available. The bucket namespace is "
    "shared by all users of the system. Please select a different name and try again.",
    "BucketNotEmpty": "The bucket you tried to delete is not empty.",
    "EntityTooLarge": "Your proposed upload exceeds the maximum allowed object size.",
    "EntityTooSmall": "Your proposed upload is smaller than the minimum allowed size",
    "IllegalVersioningConfigurationException": "The Versioning element must be specified",
    "IncompleteBody": "You did not provide the number of bytes specified by the Content-Length "
    "HTTP header",
    "InvalidAccessKeyId": "The AWS Access Key Id you provided does not exist in our records.",
    "InvalidBucketAclWithObjectOwnership": "Bucket cannot have ACLs set with ObjectOwnership's "
    "BucketOwnerEnforced setting",
    "InvalidBucketName": "The specified bucket is not valid.",
    "InvalidChunkSizeError": "Only the last chunk is allowed to have a size less than 8192 bytes",
    "InvalidDigest": "The Content-Md5 you specified is not valid.",
    "InvalidEncryptionAlgorithmError": "The Encryption request you specified is not valid. "
    "Supported value: AES256.",
    "InvalidLocationConstraint": "The specified location-constraint is not valid",
    "InvalidPart": "One or more of the specified parts could not be found.  The part may not have "
    "been uploaded, or the specified entity tag may not match the part's entity tag.",
    "InvalidPartNumber": "The requested partnumber is not satisfiable.",
    "InvalidPartOrder": "The list of parts was not in ascending order. Parts must be ordered by "
    "part number.",
    "InvalidRange": "The requested range is not satisfiable",
    "InvalidRedirectLocation": "The website redirect location must have a prefix of 'http://' or "
    "'https://' or '/'.",
    "InvalidStorageClass": "The storage class you specified is not valid",
    "InvalidToken": "The provided token is malformed or otherwise invalid.",
    "InvalidURI": "Couldn't parse the specified URI.",
    "InvalidWriteOffset": "The write offset value that you specified does not match the current "
    "object size.",
    "KMS.NotFoundException": "The request was rejected because the specified entity or resource "
    "could not be found.",
    "KeyTooLongError": "Your key is too long.",
    "MalformedACLError": ILL_FORMED,
    "MalformedPOSTRequest": "The body of your POST request is not well-formed "
    "multipart/form-data.",
    "MalformedPolicy": "This policy contains invalid Json",
    "MalformedTrailerError": "The request contained trailing data that was not well-formed or did "
    "not conform to our published schema.",
    "MalformedXML": ILL_FORMED,
    "MaxMessageLengthExceeded": "Your request was too big.",
    "MaxPostPreDataLengthExceededError": "Your POST request fields preceding the upload file were "
    "too large.",
    "MetadataTooLarge": "Your metadata headers exceed the maximum allowed metadata size",
    "MethodNotAllowed": "The specified method is not allowed against this resource.",
    "MissingContentLength": "You must provide the Content-Length HTTP header.",
    "MissingRequestBodyError": "Request Body is empty",
    "MissingSecurityHeader": "Your request was missing a required header.",
    "NoSuchBucket": "The specified bucket does not exist.",
    "NoSuchBucketPolicy": "The bucket policy does not exist.",
    "NoSuchCORSConfiguration": "The CORS configuration does not exist",
    "NoSuchKey": "The specified key does not exist.",
    "NoSuchLifecycleConfiguration": "The lifecycle configuration does not exist",
    "NoSuchObjectLockConfiguration": "The specified object does not have a ObjectLock "
    "configuration",
    "NoSuchPublicAccessBlockConfiguration": "The public access block configuration was not found",
    "NoSuchTagSet": "The TagSet does not exist.",
    "NoSuchUpload": "The specified multipart upload does not exist. The upload ID may be invalid, "
    "or the upload may have been aborted or completed.",
    "NoSuchVersion": "The specified version does not exist.",
    "NoSuchWebsiteConfiguration": "The specified bucket does not have a website configuration",
    "NotImplemented": "A header you provided implies functionality that is not implemented.",
    "ObjectLockConfigurationNotFoundError": "Object Lock configuration does not exist for this "
    "bucket.",
    "OwnershipControlsNotFoundError": "The bucket ownership controls were not found.",
    "PreconditionFailed": "At least one of the pre-conditions you specified did not hold.",
    "QuotaExceeded": "The quota of the bucket is exceeded.",
    "ReplicationConfigurationNotFoundError": "The replication configuration was not found",
    "RequestHeaderSectionTooLarge": "Your request header section exceeds the maximum allowed size.",
    "RequestTimeTooSkewed": "The difference between the request time and the current time is too "
    "large.",
    "ServerSideEncryptionConfigurationNotFoundError": "The server side encryption configuration "
    "was not found",
    "SignatureDoesNotMatch": "The request signature we calculated does not match the signature you "
    "provided. Check your key and signing method.",
    "UnexpectedContent": "This request does not support content.",
    "UnresolvableGrantByEmailAddress": "The email address you provided does not match any account "
    "on record.",
    "XAmzContentSHA256Mismatch": "The provided 'x-amz-content-sha256' header does not match what "
    "was computed.",
}
