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

macro_rules! keys {
    ($($variant:ident $name:literal $scope:ident,)*) => {
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
            const NAMED: &[(&str, ConditionKey)] = &[$(($name, ConditionKey::$variant),)*];

            /// Its name as AWS writes it.
            pub fn name(&self) -> std::borrow::Cow<'static, str> {
                match self {
                    $(ConditionKey::$variant => $name.into(),)*
                    ConditionKey::ExistingObjectTag(tag) => format!("{EXISTING_TAG}{tag}").into(),
                    ConditionKey::RequestObjectTag(tag) => format!("{REQUEST_TAG}{tag}").into(),
                    ConditionKey::Jwt(claim) => format!("{JWT}{claim}").into(),
                }
            }

            fn scope(&self) -> Scope {
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
    SourceIp "aws:SourceIp" Any,
    SecureTransport "aws:SecureTransport" Any,
    Referer "aws:Referer" Any,
    UserAgent "aws:UserAgent" Any,
    Username "aws:username" Any,
    UserId "aws:userid" Any,
    PrincipalArn "aws:PrincipalArn" Any,
    PrincipalAccount "aws:PrincipalAccount" Any,
    PrincipalType "aws:PrincipalType" Any,
    PrincipalOrgId "aws:PrincipalOrgID" Any,
    CurrentTime "aws:CurrentTime" Any,
    EpochTime "aws:EpochTime" Any,
    TokenIssueTime "aws:TokenIssueTime" Any,
    FederatedProvider "aws:FederatedProvider" Any,
    MultiFactorAuthAge "aws:MultiFactorAuthAge" Any,
    MultiFactorAuthPresent "aws:MultiFactorAuthPresent" Any,
    SourceAccount "aws:SourceAccount" Any,
    SourceArn "aws:SourceArn" Any,
    SourceOwner "aws:SourceOwner" Any,
    SourceVpc "aws:SourceVpc" Any,
    SourceVpce "aws:SourceVpce" Any,
    DataAccessPointArn "s3:DataAccessPointArn" Any,
    DataAccessPointAccount "s3:DataAccessPointAccount" Any,
    AuthType "s3:authType" Any,
    SignatureVersion "s3:signatureversion" Any,
    SignatureAge "s3:signatureAge" Any,
    TlsVersion "s3:TlsVersion" Any,
    ContentSha256 "s3:x-amz-content-sha256" Any,
    Prefix "s3:prefix" Listings,
    Delimiter "s3:delimiter" Listings,
    MaxKeys "s3:max-keys" Listings,
    VersionId "s3:VersionId" Versions,
    Acl "s3:x-amz-acl" Acls,
    GrantRead "s3:x-amz-grant-read" Acls,
    GrantWrite "s3:x-amz-grant-write" Acls,
    GrantReadAcp "s3:x-amz-grant-read-acp" Acls,
    GrantWriteAcp "s3:x-amz-grant-write-acp" Acls,
    GrantFullControl "s3:x-amz-grant-full-control" Acls,
    CopySource "s3:x-amz-copy-source" Creates,
    MetadataDirective "s3:x-amz-metadata-directive" Creates,
    StorageClass "s3:x-amz-storage-class" Creates,
    ServerSideEncryption "s3:x-amz-server-side-encryption" Creates,
    KmsKeyId "s3:x-amz-server-side-encryption-aws-kms-key-id" Any,
    RequestObjectTagKeys "s3:RequestObjectTagKeys" Tags,
    IfMatch "s3:if-match" Writes,
    IfNoneMatch "s3:if-none-match" Writes,
    LocationConstraint "s3:LocationConstraint" Buckets,
    ObjectOwnership "s3:x-amz-object-ownership" Buckets,
    ObjectLockRemainingRetentionDays "s3:object-lock-remaining-retention-days" Objects,
    ObjectLockMode "s3:object-lock-mode" Objects,
    ObjectLockLegalHold "s3:object-lock-legal-hold" Objects,
    ObjectLockRetainUntilDate "s3:object-lock-retain-until-date" Objects,
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

    /// Whether a request may have several values for it, so that it is no policy variable.
    pub(crate) const fn is_multivalued(&self) -> bool {
        matches!(self, ConditionKey::RequestObjectTagKeys)
    }

    /// Whether all questions of one request get the same value. The value of another key may depend on
    /// the action or on the object that a question is about.
    pub(crate) fn is_of_request(&self) -> bool {
        self.scope() == Scope::Any
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
