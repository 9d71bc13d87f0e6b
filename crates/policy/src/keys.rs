//! The table of condition keys: the keys that conditions and policy variables may name.
//!
//! Each row of `keys!` has the name of a key, the actions that it applies to, and the source of its
//! value. The invariant: a key has a value in some request for an action of the statement, or a new
//! policy that names it is refused.
//! For example, `aws:SourceVpc` is `Unsupported` because no request has a VPC here. A Deny by this
//! key would deny nothing, so the parser refuses it.
//!
//! The module does not know requests. The caller of the crate supplies the values, see
//! [`ConditionValues`](crate::ConditionValues).

/// The actions whose requests may have a value for a condition key. S3 refuses a bucket policy that
/// combines the key with another action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The key applies to all actions.
    Any,
    /// The key applies to the two listings of objects; not to the listing of uploads.
    Listings,
    /// The key applies to the actions that set an access control list.
    Acls,
    /// The key applies to the actions on versions of objects.
    Versions,
    /// The key applies to the actions that create an object.
    Creates,
    /// The key applies to the actions that set tags.
    Tags,
    /// The key applies to the actions on objects.
    Objects,
    /// The key applies to the actions by which `CreateBucket` sets the region of a bucket and the
    /// owner of its objects.
    Ownership,
    /// The key applies to the writes that may depend on the absence of an object. A deletion may
    /// not.
    Writes,
    /// The key applies to the writes and deletes that may depend on the entity tag of an object.
    Changes,
}

/// The source of the value that a request has for a condition key, such as `aws:SourceIp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The value follows from the `Principal` of the question, that is, from the sender. This crate
    /// computes the value; for all other sources, the caller supplies it.
    Principal(PrincipalKey),
    /// The value comes from the sender's session (temporary credentials), signature or connection.
    Sender,
    /// The value is that of the S3 header of this name, in lower case, if the operation uses it, or
    /// the form field that replaces it.
    Header(&'static str),
    /// The value is that of the HTTP header of this name, in lower case, which S3 does not
    /// interpret.
    Transport(&'static str),
    /// The value is another property of the request: a parameter, a document, or the time of the
    /// request.
    Request,
    /// The value is a property of the existing object that the action is about, in the version that
    /// the request names.
    Object,
    /// The value is a property of the object lock that the request sets. A property that the
    /// request does not set is that of the version that the action is about, unless it creates an
    /// object.
    Lock,
    /// The value is that of the bucket for which a service acts, for example the bucket whose log
    /// is delivered. Requests of clients have none.
    Service,
    /// No request has a value, so a policy that names the key is refused.
    Unsupported,
}

/// The condition keys whose values follow from the `Principal` of a question, that is, from the
/// sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalKey {
    /// `aws:username`
    Username,
    /// `aws:userid`
    UserId,
    /// `aws:PrincipalArn`
    Arn,
    /// `aws:PrincipalAccount`
    Account,
    /// `aws:PrincipalType`
    Type,
}

macro_rules! keys {
    ($($variant:ident $name:literal $scope:ident $source:expr,)*) => {
        /// A key of conditions and policy variables. Names are compared without regard to case,
        /// except the name of a tag and the name of a claim.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ConditionKey {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// `s3:ExistingObjectTag/<tag>`: the value of a tag of the object.
            ExistingObjectTag(String),
            /// `s3:RequestObjectTag/<tag>`: the value of a tag that the request sets.
            RequestObjectTag(String),
            /// `jwt:<claim>`: a claim in the OpenID token with which the sender got its temporary
            /// credentials.
            Jwt(String),
        }

        impl ConditionKey {
            /// The rows of the table: each key with its name. The keys that contain the name of a
            /// tag or of a claim are not among them.
            pub const NAMED: &[(&str, ConditionKey)] = &[$(($name, ConditionKey::$variant),)*];

            /// Returns the name of the key as AWS writes it, for example `aws:SourceIp`.
            pub fn name(&self) -> std::borrow::Cow<'static, str> {
                match self {
                    $(ConditionKey::$variant => $name.into(),)*
                    ConditionKey::ExistingObjectTag(tag) => format!("{EXISTING_TAG}{tag}").into(),
                    ConditionKey::RequestObjectTag(tag) => format!("{REQUEST_TAG}{tag}").into(),
                    ConditionKey::Jwt(claim) => format!("{JWT}{claim}").into(),
                }
            }

            /// Returns the source of a request's value for the key.
            pub const fn source(&self) -> KeySource {
                use KeySource::{
                    Header, Lock, Principal, Request, Sender, Service, Transport, Unsupported,
                };
                match self {
                    $(ConditionKey::$variant => $source,)*
                    ConditionKey::ExistingObjectTag(_) => KeySource::Object,
                    ConditionKey::RequestObjectTag(_) => KeySource::Request,
                    ConditionKey::Jwt(_) => KeySource::Sender,
                }
            }

            const fn scope(&self) -> Scope {
                match self {
                    $(ConditionKey::$variant => Scope::$scope,)*
                    ConditionKey::ExistingObjectTag(_) => Scope::Objects,
                    ConditionKey::RequestObjectTag(_) => Scope::Tags,
                    ConditionKey::Jwt(_) => Scope::Any,
                }
            }
        }
    };
}

const EXISTING_TAG: &str = "s3:ExistingObjectTag/";
const REQUEST_TAG: &str = "s3:RequestObjectTag/";
const JWT: &str = "jwt:";

keys! {
    // Keys of AWS that apply to all services.
    SourceIp "aws:SourceIp" Any Sender,
    SecureTransport "aws:SecureTransport" Any Sender,
    Referer "aws:Referer" Any Transport("referer"),
    UserAgent "aws:UserAgent" Any Transport("user-agent"),
    Username "aws:username" Any Principal(PrincipalKey::Username),
    UserId "aws:userid" Any Principal(PrincipalKey::UserId),
    PrincipalArn "aws:PrincipalArn" Any Principal(PrincipalKey::Arn),
    PrincipalAccount "aws:PrincipalAccount" Any Principal(PrincipalKey::Account),
    PrincipalType "aws:PrincipalType" Any Principal(PrincipalKey::Type),
    PrincipalOrgId "aws:PrincipalOrgID" Any Unsupported,
    CurrentTime "aws:CurrentTime" Any Request,
    EpochTime "aws:EpochTime" Any Request,
    TokenIssueTime "aws:TokenIssueTime" Any Sender,
    FederatedProvider "aws:FederatedProvider" Any Sender,
    // The bucket whose log is delivered, and the account that owns it.
    SourceAccount "aws:SourceAccount" Any Service,
    SourceArn "aws:SourceArn" Any Service,
    // A volume has no MFA devices and no VPCs.
    MultiFactorAuthAge "aws:MultiFactorAuthAge" Any Unsupported,
    MultiFactorAuthPresent "aws:MultiFactorAuthPresent" Any Unsupported,
    SourceOwner "aws:SourceOwner" Any Unsupported,
    SourceVpc "aws:SourceVpc" Any Unsupported,
    SourceVpce "aws:SourceVpce" Any Unsupported,
    // There are no access points.
    DataAccessPointArn "s3:DataAccessPointArn" Any Unsupported,
    DataAccessPointAccount "s3:DataAccessPointAccount" Any Unsupported,
    // Keys of S3 that apply to all of its actions.
    AuthType "s3:authType" Any Sender,
    SignatureVersion "s3:signatureversion" Any Sender,
    SignatureAge "s3:signatureAge" Any Sender,
    TlsVersion "s3:TlsVersion" Any Sender,
    ContentSha256 "s3:x-amz-content-sha256" Any Request,
    // Keys that apply to some actions.
    Prefix "s3:prefix" Listings Request,
    Delimiter "s3:delimiter" Listings Request,
    MaxKeys "s3:max-keys" Listings Request,
    VersionId "s3:VersionId" Versions Request,
    Acl "s3:x-amz-acl" Acls Header("x-amz-acl"),
    GrantRead "s3:x-amz-grant-read" Acls Header("x-amz-grant-read"),
    GrantWrite "s3:x-amz-grant-write" Acls Header("x-amz-grant-write"),
    GrantReadAcp "s3:x-amz-grant-read-acp" Acls Header("x-amz-grant-read-acp"),
    GrantWriteAcp "s3:x-amz-grant-write-acp" Acls Header("x-amz-grant-write-acp"),
    GrantFullControl "s3:x-amz-grant-full-control" Acls Header("x-amz-grant-full-control"),
    CopySource "s3:x-amz-copy-source" Creates Request,
    MetadataDirective "s3:x-amz-metadata-directive" Creates Header("x-amz-metadata-directive"),
    StorageClass "s3:x-amz-storage-class" Creates Header("x-amz-storage-class"),
    ServerSideEncryption "s3:x-amz-server-side-encryption" Creates Header("x-amz-server-side-encryption"),
    KmsKeyId "s3:x-amz-server-side-encryption-aws-kms-key-id" Creates Header("x-amz-server-side-encryption-aws-kms-key-id"),
    CustomerAlgorithm "s3:x-amz-server-side-encryption-customer-algorithm" Creates Header("x-amz-server-side-encryption-customer-algorithm"),
    RequestObjectTagKeys "s3:RequestObjectTagKeys" Tags Request,
    IfMatch "s3:if-match" Changes Request,
    IfNoneMatch "s3:if-none-match" Writes Request,
    ObjectCreationOperation "s3:ObjectCreationOperation" Creates Request,
    LocationConstraint "s3:LocationConstraint" Ownership Request,
    ObjectOwnership "s3:x-amz-object-ownership" Ownership Header("x-amz-object-ownership"),
    ObjectLockRemainingRetentionDays "s3:object-lock-remaining-retention-days" Objects Lock,
    ObjectLockMode "s3:object-lock-mode" Objects Lock,
    ObjectLockLegalHold "s3:object-lock-legal-hold" Objects Lock,
    ObjectLockRetainUntilDate "s3:object-lock-retain-until-date" Objects Lock,
}

impl ConditionKey {
    /// Parses the name of a condition key. Returns `None` if there is no such key.
    pub fn parse(name: &str) -> Option<ConditionKey> {
        let known = ConditionKey::NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        if let Some((_, key)) = known {
            return Some(key.clone());
        }
        let after = |prefix: &str| {
            let (head, tail) = name.split_at_checked(prefix.len())?;
            let named = head.eq_ignore_ascii_case(prefix) && !tail.is_empty();
            named.then(|| tail.to_owned())
        };
        after(EXISTING_TAG)
            .map(ConditionKey::ExistingObjectTag)
            .or_else(|| after(REQUEST_TAG).map(ConditionKey::RequestObjectTag))
            .or_else(|| after(JWT).map(ConditionKey::Jwt))
    }

    /// Returns true if the body of a request may hold the value of the key. The value is then known
    /// only after the body has been read.
    pub const fn may_be_in_body(&self) -> bool {
        matches!(
            self,
            ConditionKey::RequestObjectTag(_)
                | ConditionKey::RequestObjectTagKeys
                | ConditionKey::LocationConstraint
                | ConditionKey::ObjectOwnership
                | ConditionKey::ObjectLockMode
                | ConditionKey::ObjectLockRetainUntilDate
                | ConditionKey::ObjectLockRemainingRetentionDays
                | ConditionKey::ObjectLockLegalHold
        )
    }

    /// Returns true if a step of a multipart upload gets the value from the request that began the
    /// upload.
    pub const fn is_of_upload(&self) -> bool {
        matches!(
            self,
            ConditionKey::Acl
                | ConditionKey::GrantRead
                | ConditionKey::GrantWrite
                | ConditionKey::GrantReadAcp
                | ConditionKey::GrantWriteAcp
                | ConditionKey::GrantFullControl
                | ConditionKey::StorageClass
                | ConditionKey::ServerSideEncryption
                | ConditionKey::KmsKeyId
                | ConditionKey::CustomerAlgorithm
                | ConditionKey::RequestObjectTag(_)
                | ConditionKey::RequestObjectTagKeys
                | ConditionKey::ObjectLockMode
                | ConditionKey::ObjectLockRetainUntilDate
                | ConditionKey::ObjectLockRemainingRetentionDays
                | ConditionKey::ObjectLockLegalHold
        )
    }

    /// Returns true if a request may have several values for the key. Such a key cannot be a policy
    /// variable, which has exactly one value.
    pub(crate) const fn is_multivalued(&self) -> bool {
        matches!(self, ConditionKey::RequestObjectTagKeys)
    }

    /// Returns true if all questions of one request, each about one action on one resource, get the
    /// same value for the key. The value of another key may depend on the action or on the object
    /// that a question is about. For example, a copy asks one question about its source and another
    /// one about its destination.
    pub(crate) const fn is_of_request(&self) -> bool {
        match self.source() {
            KeySource::Principal(_)
            | KeySource::Sender
            | KeySource::Service
            | KeySource::Transport(_) => true,
            KeySource::Request => {
                matches!(self, ConditionKey::CurrentTime | ConditionKey::EpochTime)
            }
            KeySource::Header(_) | KeySource::Object | KeySource::Lock | KeySource::Unsupported => {
                false
            }
        }
    }

    /// Returns true if the value depends on the object that a question is about.
    pub(crate) const fn is_of_object(&self) -> bool {
        match self.source() {
            KeySource::Object | KeySource::Lock => true,
            KeySource::Principal(_)
            | KeySource::Sender
            | KeySource::Service
            | KeySource::Header(_)
            | KeySource::Transport(_)
            | KeySource::Request
            | KeySource::Unsupported => false,
        }
    }

    /// Returns true if requests for `action`, which is in lower case, may have a value for the key.
    pub(crate) fn applies_to(&self, action: &str) -> bool {
        let name = action.strip_prefix("s3:").unwrap_or(action);
        match self.scope() {
            Scope::Any => true,
            Scope::Listings => matches!(name, "listbucket" | "listbucketversions"),
            Scope::Acls => matches!(
                name,
                "createbucket"
                    | "putbucketacl"
                    | "putobject"
                    | "putobjectacl"
                    | "putobjectversionacl"
            ),
            // `s3:GetObjectVersion` and the like; the listing of versions is an action on the
            // bucket.
            Scope::Versions => crate::actions::is_of_objects(action) && name.contains("version"),
            Scope::Creates => matches!(name, "putobject" | "replicateobject"),
            Scope::Tags => {
                matches!(name, "putobject" | "putobjecttagging" | "putobjectversiontagging")
            }
            Scope::Objects => crate::actions::is_of_objects(action),
            Scope::Ownership => matches!(name, "createbucket" | "putbucketownershipcontrols"),
            Scope::Writes => name == "putobject",
            Scope::Changes => matches!(name, "putobject" | "deleteobject" | "deleteobjectversion"),
        }
    }
}
