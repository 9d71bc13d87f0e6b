//! S3 errors, as the gateway sends them to clients.
//!
//! The table `codes!` has each error code with its HTTP status and its default message. The
//! messages of codes that AWS defines are AWS's words, because people search for them and programs
//! compare them. For example, `Fault::new(Code::NoSuchKey)` becomes a 404 response with the message
//! "The specified key does not exist."

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};

/// Returns the name of a code in the error document: the name of the variant, or the text after it
/// if the name is not an identifier.
macro_rules! code_name {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $text:literal) => {
        $text
    };
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $(($text:literal))? = $status:ident, $message:literal;)*) => {
        /// An S3 error code, as in the `Code` element of an error document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "a code's meaning is its message")]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// All S3 and STS error codes, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// Returns the name of the error code as the error document has it, for example
            /// `NoSuchKey`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => code_name!($name $($text)?),)* }
            }

            /// Returns the HTTP status of the code.
            pub const fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status,)* }
            }

            /// Returns the default message of the code.
            pub const fn message(self) -> &'static str {
                match self { $(Code::$name => $message,)* }
            }
        }
    };
}

codes! {
    // The codes of S3.
    AccessDenied = FORBIDDEN, "Access Denied.";
    AccessControlListNotSupported = BAD_REQUEST, "The bucket does not allow ACLs.";
    InvalidBucketAclWithObjectOwnership = BAD_REQUEST, "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting";
    MalformedACLError = BAD_REQUEST, "The XML you provided was not well-formed or did not validate against our published schema.";
    MissingRequestBodyError = BAD_REQUEST, "Request Body is empty";
    UnexpectedContent = BAD_REQUEST, "This request does not support content.";
    UnresolvableGrantByEmailAddress = BAD_REQUEST, "The email address you provided does not match any account on record.";
    AccessForbidden = FORBIDDEN, "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.";
    AuthorizationHeaderMalformed = BAD_REQUEST, "The authorization header is malformed.";
    AuthorizationQueryParametersError = BAD_REQUEST, "The authorization query parameters are malformed.";
    BadDigest = BAD_REQUEST, "The Content-MD5 you specified did not match what we received.";
    BadRequest = BAD_REQUEST, "An error occurred when parsing the HTTP request.";
    BucketAlreadyExists = CONFLICT, "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please select a different name and try again.";
    BucketAlreadyOwnedByYou = CONFLICT, "Your previous request to create the named bucket succeeded and you already own it.";
    BucketNotEmpty = CONFLICT, "The bucket you tried to delete is not empty.";
    ConditionalRequestConflict = CONFLICT, "The conditional request cannot succeed due to a conflicting operation against this resource.";
    EntityTooLarge = BAD_REQUEST, "Your proposed upload exceeds the maximum allowed object size.";
    EntityTooSmall = BAD_REQUEST, "Your proposed upload is smaller than the minimum allowed size";
    ExpiredToken = BAD_REQUEST, "The provided token has expired.";
    IllegalVersioningConfigurationException = BAD_REQUEST, "The versioning configuration specified in the request is invalid.";
    IdempotencyParameterMismatch = BAD_REQUEST, "Parameters on this idempotent request are inconsistent with parameters used in previous request(s).";
    IncompleteBody = BAD_REQUEST, "You did not provide the number of bytes specified by the Content-Length HTTP header";
    InternalError = INTERNAL_SERVER_ERROR, "We encountered an internal error. Please try again.";
    InvalidAccessKeyId = FORBIDDEN, "The AWS Access Key Id you provided does not exist in our records.";
    InvalidArgument = BAD_REQUEST, "Invalid Argument";
    InvalidBucketState = CONFLICT, "The request is not valid with the current state of the bucket.";
    InvalidBucketName = BAD_REQUEST, "The specified bucket is not valid.";
    InvalidChunkSizeError = BAD_REQUEST, "Only the last chunk is allowed to have a size less than 8192 bytes";
    InvalidDigest = BAD_REQUEST, "The Content-Md5 you specified is not valid.";
    InvalidEncryptionAlgorithmError = BAD_REQUEST, "The Encryption request you specified is not valid. Supported value: AES256.";
    InvalidLocationConstraint = BAD_REQUEST, "The specified location-constraint is not valid";
    InvalidPart = BAD_REQUEST, "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.";
    InvalidPartNumber = RANGE_NOT_SATISFIABLE, "The requested partnumber is not satisfiable.";
    InvalidPartOrder = BAD_REQUEST, "The list of parts was not in ascending order. Parts must be ordered by part number.";
    InvalidRange = RANGE_NOT_SATISFIABLE, "The requested range is not satisfiable";
    InvalidRequest = BAD_REQUEST, "Invalid Request";
    InvalidRedirectLocation = BAD_REQUEST, "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.";
    InvalidStorageClass = BAD_REQUEST, "The storage class you specified is not valid";
    InvalidTag = BAD_REQUEST, "The tag provided was not a valid tag. This error can occur if the tag did not pass input validation.";
    InvalidToken = BAD_REQUEST, "The provided token is malformed or otherwise invalid.";
    InvalidTargetBucketForLogging = BAD_REQUEST, "The target bucket for logging does not exist, is not owned by you, or does not have the appropriate grants for the log-delivery group.";
    InvalidURI = BAD_REQUEST, "Couldn't parse the specified URI.";
    InvalidWriteOffset = BAD_REQUEST, "The write offset value that you specified does not match the current object size.";
    KmsDisabledException("KMS.DisabledException") = BAD_REQUEST, "The request was rejected because the specified KMS key is not enabled.";
    KmsInvalidStateException("KMS.KMSInvalidStateException") = BAD_REQUEST, "The request was rejected because the state of the specified resource is not valid for this request.";
    KmsNotFoundException("KMS.NotFoundException") = BAD_REQUEST, "The request was rejected because the specified entity or resource could not be found.";
    KeyTooLongError = BAD_REQUEST, "Your key is too long.";
    MalformedPOSTRequest = BAD_REQUEST, "The body of your POST request is not well-formed multipart/form-data.";
    MalformedPolicy = BAD_REQUEST, "This policy contains invalid Json";
    MalformedTrailerError = BAD_REQUEST, "The request contained trailing data that was not well-formed or did not conform to our published schema.";
    MalformedXML = BAD_REQUEST, "The XML you provided was not well-formed or did not validate against our published schema.";
    MaxMessageLengthExceeded = BAD_REQUEST, "Your request was too big.";
    MetadataTooLarge = BAD_REQUEST, "Your metadata headers exceed the maximum allowed metadata size";
    MethodNotAllowed = METHOD_NOT_ALLOWED, "The specified method is not allowed against this resource.";
    MissingContentLength = LENGTH_REQUIRED, "You must provide the Content-Length HTTP header.";
    MissingSecurityHeader = BAD_REQUEST, "Your request was missing a required header.";
    NoSuchBucket = NOT_FOUND, "The specified bucket does not exist.";
    NoSuchBucketPolicy = NOT_FOUND, "The bucket policy does not exist.";
    NoSuchCORSConfiguration = NOT_FOUND, "The CORS configuration does not exist";
    NoSuchKey = NOT_FOUND, "The specified key does not exist.";
    NoSuchLifecycleConfiguration = NOT_FOUND, "The lifecycle configuration does not exist";
    NoSuchObjectLockConfiguration = NOT_FOUND, "The specified object does not have a ObjectLock configuration";
    NoSuchPublicAccessBlockConfiguration = NOT_FOUND, "The public access block configuration was not found";
    NoSuchTagSet = NOT_FOUND, "The TagSet does not exist.";
    NoSuchUpload = NOT_FOUND, "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.";
    NoSuchVersion = NOT_FOUND, "The specified version does not exist.";
    NoSuchWebsiteConfiguration = NOT_FOUND, "The specified bucket does not have a website configuration";
    NotImplemented = NOT_IMPLEMENTED, "A header you provided implies functionality that is not implemented.";
    ObjectLockConfigurationNotFoundError = NOT_FOUND, "Object Lock configuration does not exist for this bucket.";
    OwnershipControlsNotFoundError = NOT_FOUND, "The bucket ownership controls were not found.";
    PreconditionFailed = PRECONDITION_FAILED, "At least one of the pre-conditions you specified did not hold.";
    QuotaExceeded = FORBIDDEN, "The quota of the bucket is exceeded.";
    ReplicationConfigurationNotFoundError = NOT_FOUND, "The replication configuration was not found";
    RequestHeaderSectionTooLarge = BAD_REQUEST, "Your request header section exceeds the maximum allowed size.";
    RequestTimeTooSkewed = FORBIDDEN, "The difference between the request time and the current time is too large.";
    RequestTimeout = BAD_REQUEST, "Your socket connection to the server was not read from or written to within the timeout period. Idle connections will be closed.";
    ServerSideEncryptionConfigurationNotFoundError = NOT_FOUND, "The server side encryption configuration was not found";
    ServiceUnavailable = SERVICE_UNAVAILABLE, "Service is unable to handle request.";
    SignatureDoesNotMatch = FORBIDDEN, "The request signature we calculated does not match the signature you provided. Check your key and signing method.";
    /// The storage is full. MinIO has the same code, so its clients know it.
    XMinioStorageFull = INSUFFICIENT_STORAGE, "Storage backend has reached its minimum free drive threshold. Please delete a few objects to proceed.";
    SlowDown = SERVICE_UNAVAILABLE, "Please reduce your request rate.";
    XAmzContentSHA256Mismatch = BAD_REQUEST, "The provided 'x-amz-content-sha256' header does not match what was computed.";
    // The codes of STS.
    ExpiredTokenException = BAD_REQUEST, "The web identity token that was passed is expired or is not valid.";
    IDPCommunicationError = BAD_REQUEST, "An error occurred communicating with the identity provider.";
    IDPRejectedClaim = FORBIDDEN, "The identity provider (IdP) reported that authentication failed. This might be because the claim is invalid.";
    InvalidIdentityToken = BAD_REQUEST, "The web identity token that was passed could not be validated.";
    InvalidAction = BAD_REQUEST, "The action or operation requested is invalid.";
    MissingAction = BAD_REQUEST, "The request is missing an action or a required parameter.";
    PackedPolicyTooLarge = BAD_REQUEST, "The session policy is larger than allowed.";
    ValidationError = BAD_REQUEST, "The input fails to satisfy the constraints specified by an AWS service.";
    InvalidPolicyDocument = BAD_REQUEST, "The policy of the form is not valid.";
    MaxPostPreDataLengthExceededError = BAD_REQUEST, "Your POST request fields preceding the upload file were too large.";
}

/// An S3 error: a code, a message, and the elements that the code adds to the error document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error code. It determines the HTTP status.
    pub code: Code,
    /// The message. If AWS publishes one, it is exactly AWS's: people search for it, and programs
    /// compare it.
    pub message: Cow<'static, str>,
    /// An additional explanation in our own words, if S3's message is not exact enough. The error
    /// document has it as the element `Detail`.
    pub detail: Option<Cow<'static, str>>,
    /// More elements of the error document, in order: name and text.
    pub extra: Vec<(&'static str, String)>,
    /// Headers that the code adds to the response: `Allow`, `Content-Range`, `Retry-After`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Fault {
    /// Returns the error with this code and the code's default message.
    pub const fn new(code: Code) -> Fault {
        Fault {
            code,
            message: Cow::Borrowed(code.message()),
            detail: None,
            extra: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// Returns the error with this code and a more specific message than the default one.
    pub fn because(code: Code, message: impl Into<Cow<'static, str>>) -> Fault {
        let (extra, headers) = (Vec::new(), Vec::new());
        Fault { code, message: message.into(), detail: None, extra, headers }
    }

    /// Returns the error of a header, or of a value of a header, whose feature the gateway does not
    /// implement.
    pub(crate) fn unserved_header(name: &str) -> Fault {
        Fault::new(Code::NotImplemented).with("Header", name)
    }

    /// Returns the error of a request whose XML document has more than `bytes_max` bytes.
    pub fn too_long(bytes_max: usize) -> Fault {
        let limit = bytes_max.to_string();
        Fault::new(Code::MaxMessageLengthExceeded).with("MaxMessageLengthBytes", limit)
    }

    /// Adds an explanation in our own words to S3's message, as the element `Detail` of the error
    /// document.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Fault {
        self.detail = Some(detail.into());
        self
    }

    /// Adds an element with this name and text to the error document.
    #[must_use]
    pub fn with(mut self, element: &'static str, text: impl Into<String>) -> Fault {
        self.extra.push((element, text.into()));
        self
    }

    /// Adds a header to the error response. A value that is not valid in a header is left out.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Fault {
        // A fault must not fail itself, so an invalid header value is left out.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Returns the HTTP status of the error response.
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
        write!(f, "{}: {}", self.code.as_str(), self.message)?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(f, " ({detail})"))
    }
}

impl std::error::Error for Fault {}
