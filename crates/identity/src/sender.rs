//! Decides if the sender of a request has a permission.
//!
//! The decision combines the sender's policies, the session policy, the bucket policy, the access
//! control lists (ACLs) and the public access block. `policy::authorise` has the rules of this
//! combination; this module gives it the sources. `question` supplies the values of condition keys.
//!
//! For example, if a bucket policy allows `s3:GetObject` under the condition
//! `s3:ExistingObjectTag/public`, the decision needs the object's tags, and
//! [`Sender::has_permission`] looks the object up. If no policy and no ACL depends on the object,
//! there is no lookup.

use std::sync::Arc;

use policy::{
    BucketSide, ConditionKey, KeySource, Policy, Principal, Question, ResolvedPatterns, Ruling,
    Source, Sources, authorise,
};
use record::{AccountId, CanonicalId, Grantee, S3Acl};
use rules::BucketRules;
use s3::S3Resource;
use s3::acl::{AclPermission, AclScope, required_acl};
use s3::auth::Verified;
use s3::operation::Permission;
use volume::{FsError, NamedBucket, Object, Volume, VolumeError};

use self::question::PermissionQuestion;
use crate::access::{Access, Identity};
use crate::authenticate::Authenticated;
use crate::origin::RequestOrigin;

/// The sender of a request, with the values that conditions of policies may use.
#[derive(Debug)]
pub struct Sender<'a> {
    /// The accounts, access keys and policies in force.
    pub access: &'a Access,
    /// The volume in which the sender's objects are looked up.
    pub volume: &'a Arc<Volume>,
    /// The identity of the sender; `None` if the request is anonymous.
    pub identity: Option<Arc<Identity>>,
    /// The facts of the signature.
    pub verified: &'a Verified,
    /// The origin of the request.
    pub origin: RequestOrigin<'a>,
    principal: Principal,
    /// Patterns of policies after variable substitution, cached for all permissions of the request.
    resolved: ResolvedPatterns,
}

impl<'a> Sender<'a> {
    /// Returns the sender of an authenticated request. It is valid for this request only, because
    /// it caches values of the request.
    pub fn new(
        access: &'a Access,
        volume: &'a Arc<Volume>,
        authenticated: &'a Authenticated,
        origin: RequestOrigin<'a>,
    ) -> Sender<'a> {
        let Authenticated { verified, identity } = authenticated;
        let (principal, identity) = (access.principal(identity.as_deref()), identity.clone());
        let resolved = ResolvedPatterns::default();
        Sender { access, volume, identity, verified, origin, principal, resolved }
    }

    /// Returns the account of the sender; the anonymous account if the request is not signed.
    pub fn account(&self) -> AccountId {
        self.identity.as_ref().map_or(AccountId::ANONYMOUS, |identity| identity.account)
    }

    /// Returns true if a policy depends on a value that the body of the request may contain.
    pub fn depends_on_body(&self, rules: Option<&BucketRules>) -> bool {
        self.uses_key(rules, ConditionKey::may_be_in_body)
    }

    /// Returns true if a policy depends on a value that a step of a multipart upload takes from the
    /// request that created the upload.
    pub fn depends_on_upload(&self, rules: Option<&BucketRules>) -> bool {
        self.uses_key(rules, ConditionKey::is_of_upload)
    }

    /// Returns true if a policy of the sender, its session or the bucket has a condition with a key
    /// for which `matches` is true. `rules` are those of the bucket, `None` without a bucket.
    fn uses_key(
        &self,
        rules: Option<&BucketRules>,
        matches: impl Fn(&ConditionKey) -> bool,
    ) -> bool {
        let bucket_policy = rules.and_then(|rules| rules.policy.as_ref());
        let mut policies = self.own_policies().chain(bucket_policy);
        policies.any(|policy| policy.keys().any(&matches))
    }

    /// Returns the sender's own policies and its session policy.
    fn own_policies(&self) -> impl Iterator<Item = &Policy> {
        self.identity.iter().flat_map(|identity| {
            let session = identity.session.as_ref().and_then(|session| session.policy.as_deref());
            identity.policies.iter().map(Arc::as_ref).chain(session)
        })
    }

    /// Returns true if the sender has a permission. `rules` are the rules of the permission's
    /// bucket; `None` if the permission is not about a bucket, or about a bucket that does not
    /// exist yet.
    ///
    /// Fails if the decision depends on an object and the lookup fails.
    pub async fn has_permission(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
    ) -> Result<bool, VolumeError> {
        Ok(self.explain(permission, rules).await?.is_allowed())
    }

    /// Returns the decision of [`Sender::has_permission`] with the kind of policy that refuses the
    /// permission. A refusal by the public access block counts as one of the bucket.
    ///
    /// Fails if the decision depends on an object and the lookup fails.
    pub async fn explain(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
    ) -> Result<Ruling, VolumeError> {
        let object = self.object_of(permission, rules).await?;
        let ruling = self.ruling(permission, rules, object.as_ref());
        Ok(self.within_access_block(ruling, rules))
    }

    /// As [`Sender::has_permission`], for an object that the caller has looked up. An operation on
    /// an object must use this with the same object: after a lookup of its own, the check could see
    /// another object, because a client can replace the object between the two lookups.
    pub fn is_allowed(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
        object: Option<&Object>,
    ) -> bool {
        let ruling = self.ruling(permission, rules, object);
        self.within_access_block(ruling, rules).is_allowed()
    }

    /// Returns true if the sender has a permission on all objects of the bucket, also on those that
    /// do not exist yet: the Allow statements cover each key, and do not depend on the object. A
    /// Deny for some of the keys is not seen. `permission` is that on the key `*`, which the
    /// patterns for all keys cover, too.
    pub fn is_allowed_on_all(&self, permission: &Permission, rules: &BucketRules) -> bool {
        let Some(bucket) = permission.resource.bucket() else { return false };
        let below = format!("{}/", bucket.as_str());
        let ruling = self.ruling_below(permission, Some(rules), None, Some(&below));
        self.within_access_block(ruling, Some(rules)).is_allowed()
    }

    /// Returns the combined decision of all policies and ACLs about a permission. The public access
    /// block of the bucket is not part of it.
    fn ruling(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
        object: Option<&Object>,
    ) -> Ruling {
        self.ruling_below(permission, rules, object, None)
    }

    /// As [`Sender::ruling`]. With a beginning of resource names, Allow statements that could leave
    /// out one of these resources do not count.
    fn ruling_below(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
        object: Option<&Object>,
        below: Option<&str>,
    ) -> Ruling {
        let facts = PermissionQuestion {
            identity: self.identity.as_deref(),
            verified: self.verified,
            origin: self.origin,
            resolved: &self.resolved,
            permission,
            object,
        };
        let resource = permission.resource_name();
        let question = Question {
            principal: &self.principal,
            action: permission.action,
            resource: &resource,
            conditions: &facts,
        };
        let narrowed =
            |policy: &Policy| below.map(|below| policy.allowing_all_below(below, &question));
        let policies = self.identity.as_ref().map_or(&[][..], |identity| &identity.policies);
        let narrow: Vec<Policy> = policies.iter().filter_map(|policy| narrowed(policy)).collect();
        let policies: Vec<&Policy> = match below {
            Some(_) => narrow.iter().collect(),
            None => policies.iter().map(Arc::as_ref).collect(),
        };
        let of_bucket = rules.and_then(|rules| rules.policy.as_ref());
        let narrow = of_bucket.and_then(narrowed);
        let of_bucket = narrow.as_ref().or(of_bucket);
        let writer = object.and_then(|object| foreign_writer(permission, rules?, object));
        let writer = writer.map(|writer| writer.to_string());
        let bucket = rules.map(|rules| match &writer {
            Some(writer) => BucketSide { account: writer, policy: of_bucket, policy_allows: false },
            None => BucketSide { account: &rules.account, policy: of_bucket, policy_allows: true },
        });
        let by_acl = || rules.is_some_and(|rules| self.acl_permits(permission, rules, object));
        let session = self.identity.as_ref().and_then(|identity| identity.session.as_ref());
        let session = session.and_then(|session| session.policy.as_deref());
        let narrow = session.and_then(narrowed);
        let session = narrow.as_ref().or(session);
        let sources = Sources { identity: &policies, session, bucket, acl: &by_acl };
        authorise(&question, &sources)
    }

    /// Returns a decision of policies and ACLs within the public access block of the bucket.
    fn within_access_block(&self, ruling: Ruling, rules: Option<&BucketRules>) -> Ruling {
        let is_kept_out = ruling.is_allowed() && self.is_restricted(rules);
        if is_kept_out { Ruling::NotAllowed(Source::Bucket) } else { ruling }
    }

    /// Returns true if the public access block of the bucket keeps the sender out. It does so if
    /// the bucket policy is public and the sender is of another account.
    fn is_restricted(&self, rules: Option<&BucketRules>) -> bool {
        let Some(rules) = rules else { return false };
        rules.public_access().restrict_public_buckets
            && rules.settings.owner != self.account()
            && rules.policy.as_ref().is_some_and(Policy::is_public)
    }

    /// Returns the object of a permission, in the version that it names, if the decision depends on
    /// the object: a policy uses its tags or its lock, or ACLs are enabled in the bucket. Returns
    /// `None` if the decision does not depend on the object, and if the key has no object, the
    /// version does not exist or is a delete marker. The bucket alone decides then.
    async fn object_of(
        &self,
        permission: &Permission,
        rules: Option<&BucketRules>,
    ) -> Result<Option<Object>, VolumeError> {
        let (S3Resource::Object(bucket, key), Some(rules)) = (&permission.resource, rules) else {
            return Ok(None);
        };
        // Most permissions need no lookup. This saves a round trip for each request.
        if !self.depends_on_object(permission, rules) {
            return Ok(None);
        }
        let version = match &permission.version {
            None => None,
            Some(named) => match rules::version(named) {
                Some(version) => Some(version),
                // A malformed version id names no version.
                None => return Ok(None),
            },
        };
        let name = NamedBucket { name: bucket.as_str().as_bytes(), ino: Some(rules.ino) };
        match self.volume.stat_version(name, key.as_str().as_bytes(), version).await {
            Ok(object) => Ok(Some(object)),
            Err(VolumeError::Fs(
                FsError::NoSuchKey
                | FsError::NoSuchVersion
                | FsError::Deleted(_)
                | FsError::IsMarker(..),
            )) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if a permission for an object depends on the object: a policy uses its tags or
    /// its lock, or ACLs are enabled in the bucket.
    pub fn depends_on_object(&self, permission: &Permission, rules: &BucketRules) -> bool {
        let is_object_action =
            required_acl(permission.action).is_none_or(|(of, _)| of == AclScope::Object);
        (rules.acls_enabled() && is_object_action)
            || self.uses_key(Some(rules), |key| match key.source() {
                KeySource::Object => true,
                // The lock of a new object is that of the request alone.
                KeySource::Lock => permission.facts.creates_object.is_none(),
                KeySource::Principal(_)
                | KeySource::Sender
                | KeySource::Service
                | KeySource::Header(_)
                | KeySource::Transport(_)
                | KeySource::Request
                | KeySource::Unsupported => false,
            })
    }

    /// Returns true if an ACL gives the sender a permission.
    ///
    /// If the sender's account owns the object or bucket, grants to this account have no effect:
    /// within an account, policies decide which users have a permission. Grants to all users and to
    /// signed users also count within the owner's account.
    fn acl_permits(
        &self,
        permission: &Permission,
        rules: &BucketRules,
        object: Option<&Object>,
    ) -> bool {
        let Some((of, required)) = required_acl(permission.action).filter(|_| rules.acls_enabled())
        else {
            return false;
        };
        let (owner, acl) = match of {
            AclScope::Bucket => (rules.settings.owner, rules.acl.as_ref()),
            AclScope::Object => {
                let Some(object) = object else { return false };
                let file = object.file();
                (file.writer.unwrap_or(rules.settings.owner), file.object.acl.as_ref())
            }
        };
        // The owner's grant to its own account would give each of its users the permission.
        let own_account = owner == self.account();
        let Some(acl) = acl else { return false };
        let id = self.access.canonical_id(self.account()).filter(|_| !own_account);
        let public = !rules.public_access().ignore_public_acls;
        grants(acl, required, id, self.identity.is_some(), public)
    }
}

/// Returns the account that owns an object, if it is not the bucket's owner and the action concerns
/// the object itself: its content, tags or ACL. For all other actions, for example replacement,
/// deletion and uploads, the bucket's owner decides.
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
    object.file().writer.filter(|_| own && rules.acls_enabled())
}

/// Returns true if an ACL grants a permission to the sender: to `account`, to all users, or to all
/// users with a signature if `signed` is true. Grants to all users count only if `public` is true.
fn grants(
    acl: &S3Acl,
    required: AclPermission,
    account: Option<CanonicalId>,
    signed: bool,
    public: bool,
) -> bool {
    acl.grants.iter().any(|grant| {
        rules::acl_permission(grant.permission).covers(required)
            && match grant.grantee {
                Grantee::Account(id) => account == Some(id),
                Grantee::AllUsers => public,
                Grantee::AuthenticatedUsers => public && signed,
                Grantee::LogDelivery => false,
            }
    })
}

mod administration;
mod question;
#[cfg(test)]
mod tests;
