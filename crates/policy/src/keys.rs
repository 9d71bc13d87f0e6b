//! The keys that conditions and policy variables may name.

/// Which actions a key says something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All.
    Any,
    /// The two listings of objects; not that of uploads.
    Listings,
    /// What sets an ACL.
    Acls,
    /// The actions on versions.
    Versions,
    /// What creates an object.
    Creates,
    /// What sets tags.
    Tags,
    /// Actions on objects.
    Objects,
    /// The creation of a bucket.
    Buckets,
    /// Writes that may be conditional.
    Writes,
}

/// Where a request's value for a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The sender: its identity, its session, its signature and its connection.
    Sender,
    /// A header that the operation uses, or a field of a form in its place.
    Header,
    /// Something else that the request says: a parameter, a document, the time at which it comes.
    Request,
    /// The object that the action is about, in the version that the request names.
    Object,
    /// The object lock that the request sets. For an action that sets none: the lock of the version
    /// that the action is about.
    Lock,
    /// No request ever has a value here, so a policy that names the key is refused.
    Unsupported,
}

macro_rules! keys {
    ($($variant:ident $name:literal $scope:ident $source:ident,)*) => {
        /// A key of conditions and policy variables. Names do not differ by upper and lower case,
        /// except for what follows the slash of a tag and the colon of a claim.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ConditionKey {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// `s3:ExistingObjectTag/<key>`: a tag that the object has.
            ExistingObjectTag(String),
            /// `s3:RequestObjectTag/<key>`: a tag that the request brings.
            RequestObjectTag(String),
            /// `jwt:<claim>`: what the token of a web identity says.
            Jwt(String),
        }

        impl ConditionKey {
            pub(crate) const NAMED: &[(&str, ConditionKey)] = &[$(($name, ConditionKey::$variant),)*];

            /// Its name as AWS writes it.
            pub fn name(&self) -> std::borrow::Cow<'static, str> {
                match self {
                    $(ConditionKey::$variant => $name.into(),)*
                    ConditionKey::ExistingObjectTag(tag) => format!("{EXISTING_TAG}{tag}").into(),
                    ConditionKey::RequestObjectTag(tag) => format!("{REQUEST_TAG}{tag}").into(),
                    ConditionKey::Jwt(claim) => format!("{JWT}{claim}").into(),
                }
            }

            /// Where a request's value for the key comes from.
            pub const fn source(&self) -> KeySource {
                match self {
                    $(ConditionKey::$variant => KeySource::$source,)*
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
    SourceIp "aws:SourceIp" Any Sender,
    SecureTransport "aws:SecureTransport" Any Sender,
    Referer "aws:Referer" Any Header,
    UserAgent "aws:UserAgent" Any Header,
    Username "aws:username" Any Sender,
    UserId "aws:userid" Any Sender,
    PrincipalArn "aws:PrincipalArn" Any Sender,
    PrincipalAccount "aws:PrincipalAccount" Any Sender,
    PrincipalType "aws:PrincipalType" Any Sender,
    PrincipalOrgId "aws:PrincipalOrgID" Any Unsupported,
    CurrentTime "aws:CurrentTime" Any Request,
    EpochTime "aws:EpochTime" Any Request,
    TokenIssueTime "aws:TokenIssueTime" Any Sender,
    FederatedProvider "aws:FederatedProvider" Any Sender,
    MultiFactorAuthAge "aws:MultiFactorAuthAge" Any Unsupported,
    MultiFactorAuthPresent "aws:MultiFactorAuthPresent" Any Unsupported,
    SourceAccount "aws:SourceAccount" Any Unsupported,
    SourceArn "aws:SourceArn" Any Unsupported,
    SourceOwner "aws:SourceOwner" Any Unsupported,
    SourceVpc "aws:SourceVpc" Any Unsupported,
    SourceVpce "aws:SourceVpce" Any Unsupported,
    DataAccessPointArn "s3:DataAccessPointArn" Any Unsupported,
    DataAccessPointAccount "s3:DataAccessPointAccount" Any Unsupported,
    AuthType "s3:authType" Any Sender,
    SignatureVersion "s3:signatureversion" Any Sender,
    SignatureAge "s3:signatureAge" Any Sender,
    TlsVersion "s3:TlsVersion" Any Sender,
    ContentSha256 "s3:x-amz-content-sha256" Any Header,
    Prefix "s3:prefix" Listings Request,
    Delimiter "s3:delimiter" Listings Request,
    MaxKeys "s3:max-keys" Listings Request,
    VersionId "s3:VersionId" Versions Request,
    Acl "s3:x-amz-acl" Acls Header,
    GrantRead "s3:x-amz-grant-read" Acls Header,
    GrantWrite "s3:x-amz-grant-write" Acls Header,
    GrantReadAcp "s3:x-amz-grant-read-acp" Acls Header,
    GrantWriteAcp "s3:x-amz-grant-write-acp" Acls Header,
    GrantFullControl "s3:x-amz-grant-full-control" Acls Header,
    CopySource "s3:x-amz-copy-source" Creates Header,
    MetadataDirective "s3:x-amz-metadata-directive" Creates Header,
    StorageClass "s3:x-amz-storage-class" Creates Header,
    ServerSideEncryption "s3:x-amz-server-side-encryption" Creates Header,
    KmsKeyId "s3:x-amz-server-side-encryption-aws-kms-key-id" Creates Header,
    RequestObjectTagKeys "s3:RequestObjectTagKeys" Tags Request,
    IfMatch "s3:if-match" Writes Header,
    IfNoneMatch "s3:if-none-match" Writes Header,
    ObjectCreationOperation "s3:ObjectCreationOperation" Creates Request,
    LocationConstraint "s3:LocationConstraint" Buckets Request,
    ObjectOwnership "s3:x-amz-object-ownership" Buckets Header,
    ObjectLockRemainingRetentionDays "s3:object-lock-remaining-retention-days" Objects Lock,
    ObjectLockMode "s3:object-lock-mode" Objects Lock,
    ObjectLockLegalHold "s3:object-lock-legal-hold" Objects Lock,
    ObjectLockRetainUntilDate "s3:object-lock-retain-until-date" Objects Lock,
}

impl ConditionKey {
    /// Reads the name of a key; `None` for those that are not known.
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

    /// Whether the value may be in the body of a request, so that it is not known before the body
    /// has been read.
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
                | ConditionKey::RequestObjectTag(_)
                | ConditionKey::RequestObjectTagKeys
                | ConditionKey::ObjectLockMode
                | ConditionKey::ObjectLockRetainUntilDate
                | ConditionKey::ObjectLockRemainingRetentionDays
                | ConditionKey::ObjectLockLegalHold
        )
    }

    /// Whether a request may have several values for it, so that it is no policy variable.
    pub(crate) const fn is_multivalued(&self) -> bool {
        matches!(self, ConditionKey::RequestObjectTagKeys)
    }

    /// Whether all questions of one request get the same value. The value of another key may depend on
    /// the action or on the object that a question is about: a copy asks one question about its
    /// source and another one about its destination.
    pub(crate) const fn is_of_request(&self) -> bool {
        matches!(self.source(), KeySource::Sender)
            || matches!(
                self,
                ConditionKey::Referer
                    | ConditionKey::UserAgent
                    | ConditionKey::CurrentTime
                    | ConditionKey::EpochTime
            )
    }

    /// Whether requests for this action, which is in lower case, may have a value for the key.
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
            Scope::Versions => crate::actions::is_of_objects(action) && name.contains("version"),
            Scope::Creates => matches!(name, "putobject" | "replicateobject"),
            Scope::Tags => {
                matches!(name, "putobject" | "putobjecttagging" | "putobjectversiontagging")
            }
            Scope::Objects => crate::actions::is_of_objects(action),
            Scope::Buckets => matches!(name, "createbucket" | "putbucketownershipcontrols"),
            Scope::Writes => matches!(name, "putobject" | "deleteobject" | "deleteobjectversion"),
        }
    }
}
