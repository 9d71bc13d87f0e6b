//! The table of S3 operations: it maps a request to an operation and to the permissions that the
//! operation needs.
//!
//! Each row has the HTTP method, the kind of resource, the query parameter that selects the
//! operation, the level of support, the rule for anonymous requests, and the IAM action. For
//! example, `GET /bucket?tagging` is `GetBucketTagging` and needs `s3:GetBucketTagging`.
//!
//! Invariants: a request that matches no row is refused and never becomes a similar operation. Each
//! row has an action, or the word `nothing` if the operation needs no permission.
//!
//! The table does not know whether a bucket or object exists, or who may access it.

mod facts;
mod log_resource;
mod permission;
mod resource;
mod route;
pub(crate) mod stub;

#[cfg(test)]
mod tests;

pub use facts::{ConditionFacts, ListingFacts, LockFacts, RequestFacts};
pub use permission::{Demand, Permission};
pub use resource::S3Resource;
pub use route::route;
pub use stub::Stub;

/// The kind of resource on which an S3 operation acts: the service, a bucket or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Service,
    Bucket,
    Object,
}

/// The level of support that the gateway has for an S3 operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The operation is fully implemented.
    Served,
    /// The gateway answers as S3 does for a bucket that has never used the feature; see
    /// `Operation::stub`.
    Stubbed,
    /// The operation is known, and refused with `NotImplemented`. `route` never returns such an
    /// operation.
    Refused,
}

/// A row of the table of S3 operations: the properties of a request that select an operation.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) operation: Operation,
    pub(crate) method: &'static str,
    pub(crate) scope: Scope,
    /// The query parameter that selects the operation; empty for the operation without a selector.
    pub(crate) selector: &'static str,
}

/// The action column: an IAM action, or the word `nothing`.
macro_rules! action {
    (nothing) => {
        None
    };
    ($action:literal) => {
        Some($action)
    };
}

/// The column for anonymous requests: the message with which S3 refuses them. The word `anyone` has
/// no message: the ACL and policy of the bucket decide.
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

/// Returns the response of a stubbed operation. A `Stubbed` row without a response does not
/// compile, and neither does another row with a response.
macro_rules! stub {
    (Served) => {
        None
    };
    (Refused) => {
        None
    };
    (Stubbed $stub:ident) => {
        Some(stub::$stub)
    };
}

/// Returns the action for a request that names a version. Without an action of its own, this is the
/// action for the current version.
macro_rules! versioned_action {
    ($action:tt) => {
        action!($action)
    };
    ($action:tt $versioned:literal) => {
        Some($versioned)
    };
}

macro_rules! operations {
    ($($name:ident = $method:ident $scope:ident $selector:literal $support:ident $(($stub:ident))?
        $sender:ident $action:tt $($versioned:literal)?;)*)
    => {
        /// Each S3 operation that the gateway knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are those of S3's API reference")]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// All operations, in the order of the table.
            pub const ALL: &'static [Operation] = &[$(Operation::$name,)*];

            /// Returns the operation's name in S3's API reference.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$name => stringify!($name),)* }
            }

            /// Returns the gateway's level of support for the operation.
            pub const fn support(self) -> Support {
                match self { $(Operation::$name => Support::$support,)* }
            }

            /// Returns the fixed response to a stubbed operation, that is, one of a feature that
            /// the gateway does not have, for an existing bucket and a client with the permission.
            /// `None` for operations that are served or refused.
            pub const fn stub(self) -> Option<Stub> {
                match self { $(Operation::$name => stub!($support $($stub)?),)* }
            }

            /// Returns the IAM action for the current version of an object. `None` if the operation
            /// needs neither a signature nor a permission.
            pub const fn action(self) -> Option<&'static str> {
                match self { $(Operation::$name => action!($action),)* }
            }

            /// Returns the IAM action of the operation, which policies allow or deny. `versioned`
            /// is true if the request names a version.
            pub(crate) const fn versioned_action(self, versioned: bool) -> Option<&'static str> {
                match self { $(Operation::$name => {
                    if versioned {
                        versioned_action!($action $($versioned)?)
                    } else {
                        action!($action)
                    }
                })* }
            }

            /// Returns the message with which S3 refuses an anonymous request for this operation.
            /// `None` if the bucket's ACL and policy decide.
            pub const fn anonymous_refusal(self) -> Option<&'static str> {
                match self { $(Operation::$name => refusal!($sender),)* }
            }

            pub(crate) const fn scope(self) -> Scope {
                match self { $(Operation::$name => Scope::$scope,)* }
            }

            /// Returns the method and target for people to read: `PUT /bucket/key?acl`.
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

        /// The rows in order. The first row that matches is the operation. `route` itself chooses
        /// between operations that differ only by a header, such as `PutObject` and `CopyObject`.
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

    // Buckets. AWS has one action for setting and deleting a bucket's configuration, except for
    // policies and websites.
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
    GetBucketEncryption =
        GET Bucket "encryption" Served anyone "s3:GetEncryptionConfiguration";
    PutBucketEncryption = PUT Bucket "encryption" Served anyone "s3:PutEncryptionConfiguration";
    DeleteBucketEncryption =
        DELETE Bucket "encryption" Served anyone "s3:PutEncryptionConfiguration";
    // Features that the gateway does not have: reading returns the response of a bucket that has
    // never used the feature, and deleting the only configuration succeeds. Setting is refused,
    // because a client must not believe that the feature is active. Deleting one of several
    // configurations is refused, too.
    GetBucketReplication =
        GET Bucket "replication" Stubbed(NO_REPLICATION) anyone "s3:GetReplicationConfiguration";
    PutBucketReplication = PUT Bucket "replication" Refused anyone "s3:PutReplicationConfiguration";
    DeleteBucketReplication =
        DELETE Bucket "replication" Stubbed(NOTHING_TO_DELETE) anyone
        "s3:PutReplicationConfiguration";
    GetBucketWebsite = GET Bucket "website" Stubbed(NO_WEBSITE) anyone "s3:GetBucketWebsite";
    PutBucketWebsite = PUT Bucket "website" Refused anyone "s3:PutBucketWebsite";
    DeleteBucketWebsite =
        DELETE Bucket "website" Stubbed(NOTHING_TO_DELETE) anyone "s3:DeleteBucketWebsite";
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
        GET Bucket "notification" Stubbed(NO_NOTIFICATIONS) anyone "s3:GetBucketNotification";
    PutBucketNotificationConfiguration =
        PUT Bucket "notification" Refused anyone "s3:PutBucketNotification";
    GetBucketLogging = GET Bucket "logging" Served anyone "s3:GetBucketLogging";
    PutBucketLogging = PUT Bucket "logging" Served anyone "s3:PutBucketLogging";
    GetBucketAccelerateConfiguration =
        GET Bucket "accelerate" Stubbed(NO_ACCELERATION) anyone "s3:GetAccelerateConfiguration";
    PutBucketAccelerateConfiguration =
        PUT Bucket "accelerate" Refused anyone "s3:PutAccelerateConfiguration";
    GetBucketRequestPayment =
        GET Bucket "requestPayment" Stubbed(OWNER_PAYS) anyone "s3:GetBucketRequestPayment";
    PutBucketRequestPayment =
        PUT Bucket "requestPayment" Refused anyone "s3:PutBucketRequestPayment";
    ListBucketInventoryConfigurations =
        GET Bucket "inventory" Stubbed(NO_INVENTORIES) anyone "s3:GetInventoryConfiguration";
    PutBucketInventoryConfiguration =
        PUT Bucket "inventory" Refused anyone "s3:PutInventoryConfiguration";
    DeleteBucketInventoryConfiguration =
        DELETE Bucket "inventory" Refused anyone "s3:PutInventoryConfiguration";
    ListBucketAnalyticsConfigurations =
        GET Bucket "analytics" Stubbed(NO_ANALYTICS) anyone "s3:GetAnalyticsConfiguration";
    PutBucketAnalyticsConfiguration =
        PUT Bucket "analytics" Refused anyone "s3:PutAnalyticsConfiguration";
    DeleteBucketAnalyticsConfiguration =
        DELETE Bucket "analytics" Refused anyone "s3:PutAnalyticsConfiguration";
    ListBucketMetricsConfigurations =
        GET Bucket "metrics" Stubbed(NO_METRICS) anyone "s3:GetMetricsConfiguration";
    PutBucketMetricsConfiguration =
        PUT Bucket "metrics" Refused anyone "s3:PutMetricsConfiguration";
    DeleteBucketMetricsConfiguration =
        DELETE Bucket "metrics" Refused anyone "s3:PutMetricsConfiguration";
    ListBucketIntelligentTieringConfigurations =
        GET Bucket "intelligent-tiering" Stubbed(NO_TIERINGS) anyone
        "s3:GetIntelligentTieringConfiguration";
    PutBucketIntelligentTieringConfiguration =
        PUT Bucket "intelligent-tiering" Refused anyone "s3:PutIntelligentTieringConfiguration";
    DeleteBucketIntelligentTieringConfiguration =
        DELETE Bucket "intelligent-tiering" Refused anyone "s3:PutIntelligentTieringConfiguration";
    CreateSession = GET Bucket "session" Refused anyone "s3express:CreateSession";

    // Objects. Operations on a named version have an action of their own.
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
    /// Returns true if the operation copies its content from another object.
    pub const fn copies(self) -> bool {
        matches!(self, Operation::CopyObject | Operation::UploadPartCopy)
    }

    /// Returns true if the request body may use `aws-chunked` framing, with signatures or a
    /// trailer.
    pub const fn accepts_aws_chunked(self) -> bool {
        matches!(self, Operation::PutObject | Operation::UploadPart)
    }
}
