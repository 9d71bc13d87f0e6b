//! Faults: the errors of S3, as they are sent to clients.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $message:literal;)*) => {
        /// An S3 error code, as in the `Code` element of an error document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "a code's meaning is its message")]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// The code's name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => stringify!($name),)* }
            }

            /// The HTTP status that goes with the code.
            pub const fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status,)* }
            }

            /// What the code says when nothing more exact is known.
            pub const fn message(self) -> &'static str {
                match self { $(Code::$name => $message,)* }
            }
        }
    };
}

codes! {
    AccessDenied = FORBIDDEN, "Access denied.";
    AccessForbidden = FORBIDDEN, "The request is not allowed by the bucket's CORS configuration.";
    AuthorizationHeaderMalformed = BAD_REQUEST, "The authorization header is malformed.";
    AuthorizationQueryParametersError = BAD_REQUEST, "The authorization query parameters are malformed.";
    BadDigest = BAD_REQUEST, "The checksum or Content-MD5 sent does not match the body received.";
    BadRequest = BAD_REQUEST, "The request is malformed.";
    BucketAlreadyExists = CONFLICT, "The bucket name is taken.";
    BucketAlreadyOwnedByYou = CONFLICT, "You already own a bucket of this name.";
    BucketNotEmpty = CONFLICT, "The bucket is not empty.";
    ConditionalRequestConflict = CONFLICT, "A concurrent change made the condition undecidable; try again.";
    EntityTooLarge = BAD_REQUEST, "The upload is larger than the largest allowed.";
    EntityTooSmall = BAD_REQUEST, "A part other than the last is smaller than the smallest allowed.";
    ExistingObjectIsDirectory = CONFLICT, "A key below this one exists, and the bucket refuses overlapping keys.";
    ExpiredToken = BAD_REQUEST, "The session token has expired.";
    IncompleteBody = BAD_REQUEST, "The body is not as long as the request said.";
    InternalError = INTERNAL_SERVER_ERROR, "An internal error occurred; try again.";
    InvalidAccessKeyId = FORBIDDEN, "The access key does not exist.";
    InvalidArgument = BAD_REQUEST, "An argument is invalid.";
    InvalidBucketName = BAD_REQUEST, "The bucket name is not valid.";
    InvalidBucketState = CONFLICT, "The request is not valid for the bucket's state.";
    InvalidChunkSizeError = BAD_REQUEST, "A chunk other than the last is smaller than 8192 bytes.";
    InvalidDigest = BAD_REQUEST, "The Content-MD5 is not valid.";
    InvalidLocationConstraint = BAD_REQUEST, "The location constraint is not valid.";
    InvalidObjectState = FORBIDDEN, "The request is not valid for the object's state.";
    InvalidPart = BAD_REQUEST, "A part was not found, or its ETag does not match.";
    InvalidPartNumber = RANGE_NOT_SATISFIABLE, "The object has no such part.";
    InvalidPartOrder = BAD_REQUEST, "The parts are not in ascending order.";
    InvalidRange = RANGE_NOT_SATISFIABLE, "The range cannot be satisfied.";
    InvalidRequest = BAD_REQUEST, "The request is not valid.";
    InvalidTag = BAD_REQUEST, "A tag is not valid.";
    InvalidToken = BAD_REQUEST, "The session token is not valid.";
    InvalidURI = BAD_REQUEST, "The URI cannot be parsed.";
    KeyTooLongError = BAD_REQUEST, "The key is longer than 1024 bytes.";
    MalformedPOSTRequest = BAD_REQUEST, "The body is not well-formed multipart/form-data.";
    MalformedPolicy = BAD_REQUEST, "The policy is malformed.";
    MalformedTrailerError = BAD_REQUEST, "The trailer is malformed.";
    MalformedXML = BAD_REQUEST, "The XML is not well-formed, or not as documented.";
    MaxMessageLengthExceeded = BAD_REQUEST, "The request body is too large.";
    MetadataTooLarge = BAD_REQUEST, "The user metadata is larger than 2 KiB.";
    MethodNotAllowed = METHOD_NOT_ALLOWED, "The method is not allowed on this resource.";
    MissingContentLength = LENGTH_REQUIRED, "The request needs a Content-Length.";
    MissingSecurityHeader = BAD_REQUEST, "A required header is missing.";
    NoSuchBucket = NOT_FOUND, "The bucket does not exist.";
    NoSuchBucketPolicy = NOT_FOUND, "The bucket has no policy.";
    NoSuchCORSConfiguration = NOT_FOUND, "The bucket has no CORS configuration.";
    NoSuchKey = NOT_FOUND, "The key does not exist.";
    NoSuchLifecycleConfiguration = NOT_FOUND, "The bucket has no lifecycle configuration.";
    NoSuchPublicAccessBlockConfiguration = NOT_FOUND, "The bucket has no public access block.";
    NoSuchTagSet = NOT_FOUND, "There are no tags.";
    NoSuchUpload = NOT_FOUND, "The upload does not exist; it may have been completed or aborted.";
    NoSuchVersion = NOT_FOUND, "The version does not exist.";
    NoSuchWebsiteConfiguration = NOT_FOUND, "The bucket has no website configuration.";
    NotImplemented = NOT_IMPLEMENTED, "The operation, or an option of it, is not implemented.";
    ObjectLockConfigurationNotFoundError = NOT_FOUND, "The bucket has no object lock configuration.";
    ObjectParentIsFile = CONFLICT, "A key above this one exists, and the bucket refuses overlapping keys.";
    OperationAborted = CONFLICT, "A conflicting operation is under way; try again.";
    OwnershipControlsNotFoundError = NOT_FOUND, "The bucket has no ownership controls.";
    PreconditionFailed = PRECONDITION_FAILED, "A condition of the request does not hold.";
    QuotaExceeded = FORBIDDEN, "The quota is exceeded.";
    ReplicationConfigurationNotFoundError = NOT_FOUND, "The bucket has no replication configuration.";
    RequestHeaderSectionTooLarge = BAD_REQUEST, "The request's headers are larger than allowed.";
    RequestTimeTooSkewed = FORBIDDEN, "The request's time differs from ours by more than 15 minutes.";
    RequestTimeout = BAD_REQUEST, "The body did not arrive in time.";
    ServerSideEncryptionConfigurationNotFoundError = NOT_FOUND, "The bucket has no encryption configuration.";
    ServiceUnavailable = SERVICE_UNAVAILABLE, "A store behind the gateway is unavailable; try again.";
    SignatureDoesNotMatch = FORBIDDEN, "The signature does not match; check the key and the signing method.";
    SlowDown = SERVICE_UNAVAILABLE, "Too many requests; reduce the rate.";
    XAmzContentSHA256Mismatch = BAD_REQUEST, "The x-amz-content-sha256 sent does not match the body received.";
}

/// An error on the wire: a code, a sentence, and the elements that go with the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code; it decides the status.
    pub code: Code,
    /// A sentence for a person.
    pub message: Cow<'static, str>,
    /// More elements of the error document, in order: name and text.
    pub extra: Vec<(&'static str, String)>,
    /// Headers that go with the code: `Allow`, `Content-Range`, `Retry-After`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Fault {
    /// A fault with the code's own message.
    pub const fn new(code: Code) -> Fault {
        Fault {
            code,
            message: Cow::Borrowed(code.message()),
            extra: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// A fault with a more exact message.
    pub fn because(code: Code, message: impl Into<Cow<'static, str>>) -> Fault {
        Fault { code, message: message.into(), extra: Vec::new(), headers: Vec::new() }
    }

    /// Adds an element to the error document.
    #[must_use]
    pub fn with(mut self, element: &'static str, text: impl Into<String>) -> Fault {
        self.extra.push((element, text.into()));
        self
    }

    /// Adds a header to the response. A value that no header can hold is left out.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Fault {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// The HTTP status.
    pub const fn status(&self) -> StatusCode {
        self.code.status()
    }
}

impl From<Code> for Fault {
    fn from(code: Code) -> Fault {
        Fault::new(code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for Fault {}
