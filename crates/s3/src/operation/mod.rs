//! Which operation a request is, and which permissions it needs.
//!
//! One table has every operation: its method, the kind of resource, the query parameter that
//! selects it, how far it is served, and the action by which policies know it. A request that
//! matches no row is refused; it never falls through to a similar operation. Every row has an
//! action, or says that it needs none.

mod facts;
mod permission;
mod resource;
mod route;
mod stub;

#[cfg(test)]
mod tests;

pub use facts::{ConditionFacts, ListingFacts, LockFacts, RequestFacts};
pub use permission::{Demand, Permission};
pub use resource::S3Resource;
pub use route::route;
pub use stub::Stub;

/// The kind of resource that an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Service,
    Bucket,
    Object,
}

/// How far an operation is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Served in full.
    Served,
    /// Answered as S3 does for a bucket that has never used the feature; see `Operation::stub`.
    Stubbed,
    /// Known, and refused with `NotImplemented`. `route` never returns one of these.
    Refused,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) operation: Operation,
    pub(crate) method: &'static str,
    pub(crate) scope: Scope,
    /// The query parameter that selects the operation; empty for the one without any.
    pub(crate) selector: &'static str,
}

/// The last column: an action, or the word `nothing`.
macro_rules! action {
    (nothing) => {
        None
    };
    ($action:literal) => {
        Some($action)
    };
}

/// The message with which S3 refuses an unsigned request. With the word `anyone` there is none: the bucket
/// decides.
macro_rules! refusal {
    (anyone) => {
        None
    };
    (signed_invoke) => {
        Some("Anonymous users cannot invoke this API. Please authenticate.")
    };
    (signed_denied) => {
        Some("Access Denied.")
    };
    (signed_copy) => {
        Some("Anonymous users cannot copy objects. Please authenticate.")
    };
    (signed_initiate) => {
        Some("Anonymous users cannot initiate multipart uploads. Please authenticate.")
    };
    (signed_get_ownership) => {
        Some("s3:GetBucketOwnershipControls does not support Anonymous requests!")
    };
    (signed_put_ownership) => {
        Some("s3:PutBucketOwnershipControls does not support Anonymous requests!")
    };
}

/// Returns the action for a version that is named: one of its own, or that for the current version.
macro_rules! versioned_action {
    ($action:tt) => {
        action!($action)
    };
    ($action:tt $versioned:literal) => {
        Some($versioned)
    };
}

macro_rules! operations {
    ($($name:ident = $method:ident $scope:ident $selector:literal $support:ident $sender:ident
        $action:tt $($versioned:literal)?;)*)
    => {
        /// Every operation of S3 that we know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are those of S3's API reference")]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// All operations, in the table's order.
            pub const ALL: &'static [Operation] = &[$(Operation::$name,)*];

            /// The operation's name in S3's API reference.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$name => stringify!($name),)* }
            }

            /// How far the operation is served.
            pub const fn support(self) -> Support {
                match self { $(Operation::$name => Support::$support,)* }
            }

            /// The action that policies know the operation by, for an object's current version.
            /// None if it demands nothing: neither a signature nor a right.
            pub const fn action(self) -> Option<&'static str> {
                match self { $(Operation::$name => action!($action),)* }
            }

            /// The action that policies know the operation by if it names a version, or not.
            pub(crate) const fn versioned_action(self, versioned: bool) -> Option<&'static str> {
                match self { $(Operation::$name => {
                    if versioned {
                        versioned_action!($action $($versioned)?)
                    } else {
                        action!($action)
                    }
                })* }
            }

            /// Returns the message with which S3 refuses an unsigned request for this operation, or
            /// none if the bucket decides.
            pub const fn anonymous_refusal(self) -> Option<&'static str> {
                match self { $(Operation::$name => refusal!($sender),)* }
            }

            pub(crate) const fn scope(self) -> Scope {
                match self { $(Operation::$name => Scope::$scope,)* }
            }

            /// Method and target of its requests, for people: `PUT /bucket/key?acl`.
            pub fn request_line(self) -> String {
                let (method, selector) = match self {
                    $(Operation::$name => (stringify!($method), $selector),)*
                };
                let target = match self.scope() {
                    Scope::Service => "/",
                    Scope::Bucket => "/bucket",
                    Scope::Object => "/bucket/key",
                };
                let query = if selector.is_empty() { "" } else { "?" };
                format!("{method} {target}{query}{selector}")
            }
        }

        /// The first row that fits is the operation. Rows that differ from an earlier one only
        /// by a header are chosen by `route` itself.
        pub(crate) const TABLE: &[Row] = &[$(Row {
            operation: Operation::$name,
            method: stringify!($method),
            scope: Scope::$scope,
            selector: $selector,
        },)*];
    };
}

operations! {
    ListBuckets = GET Service "" Served anyone "s3:ListAllMyBuckets";

    ListObjects = GET Bucket "" Served anyone "s3:ListBucket";
    ListObjectsV2 = GET Bucket "list-type" Served anyone "s3:ListBucket";
    ListObjectVersions = GET Bucket "versions" Served anyone "s3:ListBucketVersions";
    ListMultipartUploads = GET Bucket "uploads" Served anyone "s3:ListBucketMultipartUploads";
    HeadBucket = HEAD Bucket "" Served anyone "s3:ListBucket";
    CreateBucket = PUT Bucket "" Served signed_invoke "s3:CreateBucket";
    DeleteBucket = DELETE Bucket "" Served anyone "s3:DeleteBucket";
    DeleteObjects = POST Bucket "delete" Served anyone "s3:DeleteObject";
    PostObject = POST Bucket "" Served anyone "s3:PutObject";
    GetBucketLocation = GET Bucket "location" Served anyone "s3:GetBucketLocation";
    GetBucketTagging = GET Bucket "tagging" Served anyone "s3:GetBucketTagging";
    PutBucketTagging = PUT Bucket "tagging" Served anyone "s3:PutBucketTagging";
    DeleteBucketTagging = DELETE Bucket "tagging" Served anyone "s3:PutBucketTagging";
    GetBucketAcl = GET Bucket "acl" Served anyone "s3:GetBucketAcl";
    PutBucketAcl = PUT Bucket "acl" Served signed_invoke "s3:PutBucketAcl";
    GetBucketVersioning = GET Bucket "versioning" Served anyone "s3:GetBucketVersioning";
    PutBucketVersioning = PUT Bucket "versioning" Served anyone "s3:PutBucketVersioning";
    GetBucketPolicy = GET Bucket "policy" Served anyone "s3:GetBucketPolicy";
    PutBucketPolicy = PUT Bucket "policy" Served anyone "s3:PutBucketPolicy";
    DeleteBucketPolicy = DELETE Bucket "policy" Served anyone "s3:DeleteBucketPolicy";
    GetBucketPolicyStatus = GET Bucket "policyStatus" Served anyone "s3:GetBucketPolicyStatus";
    GetBucketLifecycleConfiguration =
        GET Bucket "lifecycle" Served anyone "s3:GetLifecycleConfiguration";
    PutBucketLifecycleConfiguration =
        PUT Bucket "lifecycle" Served anyone "s3:PutLifecycleConfiguration";
    DeleteBucketLifecycle = DELETE Bucket "lifecycle" Served anyone "s3:PutLifecycleConfiguration";
    GetBucketCors = GET Bucket "cors" Served anyone "s3:GetBucketCORS";
    PutBucketCors = PUT Bucket "cors" Served anyone "s3:PutBucketCORS";
    DeleteBucketCors = DELETE Bucket "cors" Served anyone "s3:PutBucketCORS";
    GetBucketEncryption = GET Bucket "encryption" Stubbed anyone "s3:GetEncryptionConfiguration";
    PutBucketEncryption = PUT Bucket "encryption" Refused anyone "s3:PutEncryptionConfiguration";
    DeleteBucketEncryption =
        DELETE Bucket "encryption" Stubbed anyone "s3:PutEncryptionConfiguration";
    GetBucketReplication = GET Bucket "replication" Stubbed anyone "s3:GetReplicationConfiguration";
    PutBucketReplication = PUT Bucket "replication" Refused anyone "s3:PutReplicationConfiguration";
    DeleteBucketReplication =
        DELETE Bucket "replication" Stubbed anyone "s3:PutReplicationConfiguration";
    GetBucketWebsite = GET Bucket "website" Stubbed anyone "s3:GetBucketWebsite";
    PutBucketWebsite = PUT Bucket "website" Refused anyone "s3:PutBucketWebsite";
    DeleteBucketWebsite = DELETE Bucket "website" Stubbed anyone "s3:DeleteBucketWebsite";
    GetObjectLockConfiguration =
        GET Bucket "object-lock" Served anyone "s3:GetBucketObjectLockConfiguration";
    PutObjectLockConfiguration =
        PUT Bucket "object-lock" Served anyone "s3:PutBucketObjectLockConfiguration";
    GetBucketOwnershipControls =
        GET Bucket "ownershipControls" Served signed_get_ownership "s3:GetBucketOwnershipControls";
    PutBucketOwnershipControls =
        PUT Bucket "ownershipControls" Served signed_put_ownership "s3:PutBucketOwnershipControls";
    DeleteBucketOwnershipControls =
        DELETE Bucket "ownershipControls" Served signed_put_ownership
        "s3:PutBucketOwnershipControls";
    GetPublicAccessBlock =
        GET Bucket "publicAccessBlock" Served anyone "s3:GetBucketPublicAccessBlock";
    PutPublicAccessBlock =
        PUT Bucket "publicAccessBlock" Served anyone "s3:PutBucketPublicAccessBlock";
    DeletePublicAccessBlock =
        DELETE Bucket "publicAccessBlock" Served anyone "s3:PutBucketPublicAccessBlock";
    GetBucketNotificationConfiguration =
        GET Bucket "notification" Stubbed anyone "s3:GetBucketNotification";
    PutBucketNotificationConfiguration =
        PUT Bucket "notification" Refused anyone "s3:PutBucketNotification";
    GetBucketLogging = GET Bucket "logging" Stubbed anyone "s3:GetBucketLogging";
    PutBucketLogging = PUT Bucket "logging" Refused anyone "s3:PutBucketLogging";
    GetBucketAccelerateConfiguration =
        GET Bucket "accelerate" Stubbed anyone "s3:GetAccelerateConfiguration";
    PutBucketAccelerateConfiguration =
        PUT Bucket "accelerate" Refused anyone "s3:PutAccelerateConfiguration";
    GetBucketRequestPayment =
        GET Bucket "requestPayment" Stubbed anyone "s3:GetBucketRequestPayment";
    PutBucketRequestPayment =
        PUT Bucket "requestPayment" Refused anyone "s3:PutBucketRequestPayment";
    ListBucketInventoryConfigurations =
        GET Bucket "inventory" Stubbed anyone "s3:GetInventoryConfiguration";
    PutBucketInventoryConfiguration =
        PUT Bucket "inventory" Refused anyone "s3:PutInventoryConfiguration";
    DeleteBucketInventoryConfiguration =
        DELETE Bucket "inventory" Refused anyone "s3:PutInventoryConfiguration";
    ListBucketAnalyticsConfigurations =
        GET Bucket "analytics" Stubbed anyone "s3:GetAnalyticsConfiguration";
    PutBucketAnalyticsConfiguration =
        PUT Bucket "analytics" Refused anyone "s3:PutAnalyticsConfiguration";
    DeleteBucketAnalyticsConfiguration =
        DELETE Bucket "analytics" Refused anyone "s3:PutAnalyticsConfiguration";
    ListBucketMetricsConfigurations =
        GET Bucket "metrics" Stubbed anyone "s3:GetMetricsConfiguration";
    PutBucketMetricsConfiguration =
        PUT Bucket "metrics" Refused anyone "s3:PutMetricsConfiguration";
    DeleteBucketMetricsConfiguration =
        DELETE Bucket "metrics" Refused anyone "s3:PutMetricsConfiguration";
    ListBucketIntelligentTieringConfigurations =
        GET Bucket "intelligent-tiering" Stubbed anyone "s3:GetIntelligentTieringConfiguration";
    PutBucketIntelligentTieringConfiguration =
        PUT Bucket "intelligent-tiering" Refused anyone "s3:PutIntelligentTieringConfiguration";
    DeleteBucketIntelligentTieringConfiguration =
        DELETE Bucket "intelligent-tiering" Refused anyone "s3:PutIntelligentTieringConfiguration";
    CreateSession = GET Bucket "session" Refused anyone "s3express:CreateSession";

    GetObject = GET Object "" Served anyone "s3:GetObject" "s3:GetObjectVersion";
    HeadObject = HEAD Object "" Served anyone "s3:GetObject" "s3:GetObjectVersion";
    PutObject = PUT Object "" Served anyone "s3:PutObject";
    CopyObject = PUT Object "" Served signed_copy "s3:PutObject";
    DeleteObject = DELETE Object "" Served anyone "s3:DeleteObject" "s3:DeleteObjectVersion";
    GetObjectAttributes = GET Object "attributes" Served anyone "s3:GetObjectAttributes"
        "s3:GetObjectVersionAttributes";
    GetObjectTagging = GET Object "tagging" Served anyone "s3:GetObjectTagging"
        "s3:GetObjectVersionTagging";
    PutObjectTagging = PUT Object "tagging" Served anyone "s3:PutObjectTagging"
        "s3:PutObjectVersionTagging";
    DeleteObjectTagging = DELETE Object "tagging" Served anyone "s3:DeleteObjectTagging"
        "s3:DeleteObjectVersionTagging";
    GetObjectAcl = GET Object "acl" Served anyone "s3:GetObjectAcl" "s3:GetObjectVersionAcl";
    PutObjectAcl = PUT Object "acl" Served signed_invoke "s3:PutObjectAcl" "s3:PutObjectVersionAcl";
    CreateMultipartUpload = POST Object "uploads" Served signed_initiate "s3:PutObject";
    UploadPart = PUT Object "uploadId" Served anyone "s3:PutObject";
    UploadPartCopy = PUT Object "uploadId" Served signed_denied "s3:PutObject";
    CompleteMultipartUpload = POST Object "uploadId" Served anyone "s3:PutObject";
    AbortMultipartUpload = DELETE Object "uploadId" Served anyone "s3:AbortMultipartUpload";
    ListParts = GET Object "uploadId" Served anyone "s3:ListMultipartUploadParts";
    RenameObject = PUT Object "renameObject" Served anyone "s3:PutObject";
    RestoreObject = POST Object "restore" Refused anyone "s3:RestoreObject";
    SelectObjectContent = POST Object "select" Refused anyone "s3:GetObject";
    GetObjectTorrent = GET Object "torrent" Refused anyone "s3:GetObjectTorrent";
    GetObjectLegalHold = GET Object "legal-hold" Served anyone "s3:GetObjectLegalHold";
    PutObjectLegalHold = PUT Object "legal-hold" Served anyone "s3:PutObjectLegalHold";
    GetObjectRetention = GET Object "retention" Served anyone "s3:GetObjectRetention";
    PutObjectRetention = PUT Object "retention" Served anyone "s3:PutObjectRetention";
    UpdateObjectEncryption = PUT Object "encryption" Refused anyone "s3:UpdateObjectEncryption";
    OptionsObject = OPTIONS Object "" Served anyone nothing;
}

impl Operation {
    /// Whether the operation takes what it writes from another object.
    pub const fn copies(self) -> bool {
        matches!(self, Operation::CopyObject | Operation::UploadPartCopy)
    }

    /// Whether the operation's body may come in chunks with signatures or trailers.
    pub const fn accepts_aws_chunked(self) -> bool {
        matches!(self, Operation::PutObject | Operation::UploadPart)
    }
}
