//! Who sends a request, and whether it may do what it asks for.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{IF_MATCH, IF_NONE_MATCH, REFERER, USER_AGENT};
use policy::{
    BucketSide, ConditionKey, ConditionValues, Policy, Principal, Question, ResolvedPatterns,
    Ruling, Sources, Values, authorise,
};
use record::{AccountId, CanonicalId, Grantee, S3Acl};
use s3::acl::{AclOf, AclPermission, permits};
use s3::auth::{AuthKind, Verified};
use s3::operation::Permission;
use s3::request::{Fields, Query};
use s3::{Fault, S3Resource, TagSet};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use volume::{FsError, Object, Volume, VolumeError};

use crate::access::{Access, Identity, WebIdentity};
use crate::rules::BucketRules;
use crate::translate;

/// Where a request comes from: an extension of every request, set by the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The client's address, behind any trusted proxies.
    pub address: IpAddr,
    /// Which TLS the client speaks with us: `1.2`, `1.3`. If it speaks with a trusted proxy, what
    /// that proxy says counts, and the number is not known.
    pub tls: Option<Option<&'static str>>,
}

/// Who sends a request, and what policies may ask about it.
#[derive(Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) access: &'a Access,
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) principal: Principal,
    pub(crate) verified: &'a Verified,
    pub(crate) headers: &'a HeaderMap,
    /// What counts as headers of S3: of a form its fields, of all others the headers.
    pub(crate) said: &'a HeaderMap,
    /// The tags that a form brings.
    pub(crate) brings: Option<&'a TagSet>,
    pub(crate) query: &'a Query,
    pub(crate) client: Option<ClientAddress>,
    pub(crate) now: OffsetDateTime,
    /// Patterns of policies with their variables filled in, for all permissions of the request.
    pub(crate) resolved: ResolvedPatterns,
}

/// What conditions may ask about one permission of a request.
struct Facts<'a> {
    sender: &'a Sender<'a>,
    /// The tags that the object has, if they were looked up.
    existing_tags: &'a [(String, String)],
    /// The tags that the request's body brings, if that was read.
    body_tags: Option<&'a TagSet>,
}

impl Sender<'_> {
    /// The account of the sender.
    pub(crate) fn account(&self) -> AccountId {
        self.identity.as_ref().map_or(AccountId::ANONYMOUS, |identity| identity.account)
    }

    /// What the sender's session says about a condition key.
    fn of_session(&self, key: &ConditionKey) -> Values<'_> {
        let session = self.identity.as_ref().and_then(|identity| identity.session.as_ref());
        let web = session.and_then(|session| session.web.as_ref());
        match key {
            ConditionKey::TokenIssueTime => {
                Values::from_owned(session.and_then(|session| session.began.format(&Rfc3339).ok()))
            }
            ConditionKey::FederatedProvider => {
                Values::from_owned(web.map(WebIdentity::provider_arn))
            }
            ConditionKey::Jwt(claim) => web.map_or(Values::Absent, |web| web.claim(claim)),
            _ => Values::Absent,
        }
    }

    fn fields(&self) -> Fields<'_> {
        Fields::new(self.said, self.verified.hoisted())
    }

    /// Whether a policy asks for the tags that the request brings.
    pub(crate) fn tags_decide(&self, rules: &BucketRules) -> bool {
        let asks = |policy: &Policy| {
            policy.keys().any(|key| {
                matches!(
                    key,
                    ConditionKey::RequestObjectTag(_) | ConditionKey::RequestObjectTagKeys
                )
            })
        };
        rules.policy.as_ref().is_some_and(asks) || self.own_policies().any(asks)
    }

    /// The sender's own policies, and that of its session.
    fn own_policies(&self) -> impl Iterator<Item = &Policy> {
        self.identity.iter().flat_map(|identity| {
            let session = identity.session.as_ref().and_then(|session| session.policy.as_deref());
            identity.policies.iter().map(Arc::as_ref).chain(session)
        })
    }

    /// Whether the sender has a permission. `rules` are those of the bucket that it is about, unless
    /// it is about none, or about one that is yet to be made; `body_tags` stand in the request's
    /// body.
    ///
    /// Fault: if an object must be looked at for it, and cannot be.
    pub(crate) async fn may(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
        body_tags: Option<&TagSet>,
    ) -> Result<bool, Fault> {
        let object = self.object_to_ask(permission, rules).await?;
        Ok(self.rule(permission, rules, object.as_ref(), body_tags))
    }

    /// As [`Sender::may`], where the object that the permission is about is at hand. Whoever has
    /// looked an object up to do something with it asks this about that very one: since it was
    /// looked at first, somebody may have put another one in its place.
    pub(crate) fn rule(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
        object: Option<&Object>,
        body_tags: Option<&TagSet>,
    ) -> bool {
        let existing_tags = object.map_or(&[][..], |object| &object.file().object.tags);
        let facts = Facts { sender: self, existing_tags, body_tags };
        let resource = permission.resource_name();
        let question = Question {
            principal: &self.principal,
            action: permission.action,
            resource: &resource,
            conditions: &facts,
        };
        let policies = self.identity.as_ref().map_or(&[][..], |identity| &identity.policies);
        let policies: Vec<&Policy> = policies.iter().map(Arc::as_ref).collect();
        let writer = object.and_then(|object| foreign_writer(permission, rules?, object));
        let writer = writer.map(|writer| writer.to_string());
        let bucket = rules.map(|rules| match &writer {
            Some(writer) => {
                BucketSide { account: writer, policy: rules.policy.as_ref(), policy_allows: false }
            }
            None => BucketSide {
                account: &rules.account,
                policy: rules.policy.as_ref(),
                policy_allows: true,
            },
        });
        let by_acl = || rules.is_some_and(|rules| self.acl_permits(permission, rules, object));
        let session = self.identity.as_ref().and_then(|identity| identity.session.as_ref());
        let session = session.and_then(|session| session.policy.as_deref());
        let sources = Sources { identity: &policies, session, bucket, acl: &by_acl };
        let ruling = authorise(&question, &sources);
        ruling == Ruling::Allowed && !self.is_restricted(rules)
    }

    /// Whether the sender is one whom the bucket keeps out for being public.
    fn is_restricted(&self, rules: Option<&BucketRules>) -> bool {
        let Some(rules) = rules else { return false };
        rules.public_access().restrict_public_buckets
            && rules.settings.owner != self.account()
            && rules.policy.as_ref().is_some_and(Policy::is_public)
    }

    /// The object that a permission is about, if it decides: because a policy asks for its tags, or
    /// because access control lists count in its bucket.
    async fn object_to_ask(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
    ) -> Result<Option<Object>, Fault> {
        let (S3Resource::Object(bucket, key), Some(rules)) = (&permission.resource, rules) else {
            return Ok(None);
        };
        let asks = |policy: &Policy| policy.asks_existing_tags();
        let own = self.own_policies().any(asks);
        let of_object = permits(permission.action).is_none_or(|(of, _)| of == AclOf::Object);
        let tags = own || rules.policy.as_ref().is_some_and(asks);
        let by_acl = rules.acls_count() && of_object;
        if !(tags || by_acl) {
            return Ok(None);
        }
        match self.volume.stat(bucket.as_str(), key.as_str().as_bytes()).await {
            Ok(object) => Ok(Some(object)),
            Err(VolumeError::Fs(FsError::NoSuchKey)) => Ok(None),
            Err(error) => Err(translate::on(bucket, error)),
        }
    }

    /// Whether an access control list gives the sender a permission.
    ///
    /// A row for an account leaves it to the account which of its users may use it, so one for the
    /// sender's own account counts only where the owner is another one.
    fn acl_permits(
        &self,
        permission: &Permission,
        rules: &BucketRules,
        object: Option<&Object>,
    ) -> bool {
        let Some((of, wanted)) = permits(permission.action).filter(|_| rules.acls_count()) else {
            return false;
        };
        let (owner, acl) = match of {
            AclOf::Bucket => (rules.settings.owner, rules.acl.as_ref()),
            AclOf::Object => {
                let Some(object) = object else { return false };
                let file = object.file();
                (file.writer.unwrap_or(rules.settings.owner), file.object.acl.as_ref())
            }
        };
        let own_account = owner == self.account();
        let Some(acl) = acl else { return false };
        let id = self.access.canonical_id(self.account()).filter(|_| !own_account);
        let public = !rules.public_access().ignore_public_acls;
        grants(acl, wanted, id, self.identity.is_some(), public)
    }
}

/// The account that an object belongs to, if that is another one than the bucket's, and the
/// permission is about what the object is itself: its bytes, its tags, its list. Who may replace or
/// remove it, and who may do what with uploads, is the bucket's matter.
fn foreign_writer(
    permission: &Permission,
    rules: &BucketRules,
    object: &Object,
) -> Option<AccountId> {
    let own = matches!(
        permission.action,
        "s3:GetObject"
            | "s3:GetObjectVersion"
            | "s3:GetObjectAttributes"
            | "s3:GetObjectVersionAttributes"
            | "s3:GetObjectTagging"
            | "s3:GetObjectVersionTagging"
            | "s3:PutObjectTagging"
            | "s3:PutObjectVersionTagging"
            | "s3:DeleteObjectTagging"
            | "s3:DeleteObjectVersionTagging"
            | "s3:GetObjectAcl"
            | "s3:GetObjectVersionAcl"
            | "s3:PutObjectAcl"
            | "s3:PutObjectVersionAcl"
    );
    object.file().writer.filter(|_| own && rules.acls_count())
}

/// Whether a list grants something to an account, to everybody, or to all who sign.
fn grants(
    acl: &S3Acl,
    wanted: AclPermission,
    account: Option<CanonicalId>,
    signed: bool,
    public: bool,
) -> bool {
    acl.grants.iter().any(|grant| {
        translate::acl_permission(grant.permission).covers(wanted)
            && match grant.grantee {
                Grantee::Account(id) => account == Some(id),
                Grantee::AllUsers => public,
                Grantee::AuthenticatedUsers => public && signed,
                Grantee::LogDelivery => false,
            }
    })
}

impl ConditionValues for Facts<'_> {
    fn resolved(&self) -> Option<&ResolvedPatterns> {
        Some(&self.sender.resolved)
    }

    fn values(&self, key: &ConditionKey) -> Values<'_> {
        let Facts { sender, existing_tags, .. } = self;
        let header = |name: &str| Values::from_borrowed(sender.fields().get(name).ok().flatten());
        let parameter = |name: &str| Values::from_borrowed(sender.query.get(name).ok().flatten());
        let plain = |name: &http::HeaderName| {
            let value = sender.headers.get(name).and_then(|value| value.to_str().ok());
            Values::from_borrowed(value)
        };
        match key {
            ConditionKey::SourceIp => {
                Values::from_owned(sender.client.map(|client| client.address.to_string()))
            }
            ConditionKey::SecureTransport => {
                let tls = sender.client.is_some_and(|client| client.tls.is_some());
                Values::from_borrowed(Some(if tls { "true" } else { "false" }))
            }
            ConditionKey::TlsVersion => {
                Values::from_borrowed(sender.client.and_then(|client| client.tls.flatten()))
            }
            ConditionKey::Referer => plain(&REFERER),
            ConditionKey::UserAgent => plain(&USER_AGENT),
            ConditionKey::CurrentTime => Values::from_owned(sender.now.format(&Rfc3339).ok()),
            ConditionKey::EpochTime => {
                Values::from_owned(Some(sender.now.unix_timestamp().to_string()))
            }
            ConditionKey::TokenIssueTime
            | ConditionKey::FederatedProvider
            | ConditionKey::Jwt(_) => sender.of_session(key),
            ConditionKey::AuthType => Values::from_borrowed(match sender.verified.kind() {
                AuthKind::Anonymous => None,
                AuthKind::Header => Some("REST-HEADER"),
                AuthKind::Query | AuthKind::QueryV2 => Some("REST-QUERY-STRING"),
                AuthKind::Form | AuthKind::FormV2 => Some("POST"),
            }),
            ConditionKey::SignatureVersion => Values::from_borrowed(match sender.verified.kind() {
                AuthKind::Anonymous => None,
                AuthKind::Header | AuthKind::Query | AuthKind::Form => Some("AWS4-HMAC-SHA256"),
                AuthKind::QueryV2 | AuthKind::FormV2 => Some("AWS"),
            }),
            ConditionKey::SignatureAge => {
                let age = sender.verified.signed_at().map(|at| sender.now - at);
                Values::from_owned(age.map(|age| age.whole_milliseconds().max(0).to_string()))
            }
            ConditionKey::Prefix => parameter("prefix"),
            ConditionKey::Delimiter => parameter("delimiter"),
            ConditionKey::MaxKeys => parameter("max-keys"),
            ConditionKey::VersionId => parameter("versionId"),
            ConditionKey::IfMatch => plain(&IF_MATCH),
            ConditionKey::IfNoneMatch => Values::from_borrowed(star_alone(sender.headers)),
            ConditionKey::ExistingObjectTag(tag) => {
                let found = existing_tags.iter().find(|(name, _)| name == tag);
                Values::from_borrowed(found.map(|(_, value)| value.as_str()))
            }
            ConditionKey::RequestObjectTag(tag) => Values::from_owned(
                self.brought_tags().into_iter().find(|(name, _)| name == tag).map(|(_, v)| v),
            ),
            ConditionKey::RequestObjectTagKeys => {
                let names = self.brought_tags().into_iter().map(|(name, _)| Cow::Owned(name));
                match names.collect::<Vec<_>>() {
                    none if none.is_empty() => Values::Absent,
                    names => Values::Many(names),
                }
            }
            other => match header_of(other) {
                Some(name) => header(name),
                None => Values::Absent,
            },
        }
    }
}

impl Facts<'_> {
    /// The tags that the request brings, in its header or its body.
    fn brought_tags(&self) -> Vec<(String, String)> {
        if let Some(tags) = self.body_tags.or(self.sender.brings) {
            return tags.as_slice().to_vec();
        }
        let header = self.sender.fields().get("x-amz-tagging").ok().flatten();
        let tags = header.and_then(|header| TagSet::parse_header(header).ok());
        tags.map(|tags| tags.as_slice().to_vec()).unwrap_or_default()
    }
}

/// The header that says what a key asks for.
fn header_of(key: &ConditionKey) -> Option<&'static str> {
    Some(match key {
        ConditionKey::ContentSha256 => "x-amz-content-sha256",
        ConditionKey::Acl => "x-amz-acl",
        ConditionKey::GrantRead => "x-amz-grant-read",
        ConditionKey::GrantWrite => "x-amz-grant-write",
        ConditionKey::GrantReadAcp => "x-amz-grant-read-acp",
        ConditionKey::GrantWriteAcp => "x-amz-grant-write-acp",
        ConditionKey::GrantFullControl => "x-amz-grant-full-control",
        ConditionKey::CopySource => "x-amz-copy-source",
        ConditionKey::MetadataDirective => "x-amz-metadata-directive",
        ConditionKey::StorageClass => "x-amz-storage-class",
        ConditionKey::ServerSideEncryption => "x-amz-server-side-encryption",
        ConditionKey::ObjectOwnership => "x-amz-object-ownership",
        _ => return None,
    })
}

/// The star of `If-None-Match`, if it says nothing else. Policies that ask for that header mean
/// "write once", which no tag says.
fn star_alone(headers: &HeaderMap) -> Option<&'static str> {
    let mut values = headers.get_all(&IF_NONE_MATCH).iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    (only.as_bytes().trim_ascii() == b"*").then_some("*")
}

#[cfg(test)]
mod tests;
