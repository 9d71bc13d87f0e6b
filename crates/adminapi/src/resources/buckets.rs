//! Buckets with their usage and settings.
//!
//! A list has the buckets that the sender may see: those that it may list with `s3:ListBucket`, and
//! all buckets for an operator with `admin:DataUsageInfo`. For example, a user with a policy for
//! the bucket `photos` sees `photos` alone.

use admin::{BucketUsage, FoundBucket};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::Method;
use policy::{AdminAction, Policy};
use record::{Grantee, Versioning};
use rules::BucketRules;
use s3::BucketName;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::bucket_documents::BucketDocumentKind;
use super::quota::QuotaJson;
use super::times;
use crate::etag::IfMatch;
use crate::page::{ListPage, PageQuery, PageRange, token};
use crate::s3_call::S3Call;
use crate::{Actor, AdminApi, ApiError};

/// The number of buckets that one read of a list fetches.
const FETCHED_AT_ONCE: u32 = 500;

/// The number of buckets whose rules a list reads at once.
const RULES_AT_ONCE: usize = 16;

/// The limit of buckets that one list examines. A sender that may see few of very many buckets gets
/// a short page with a token.
const EXAMINED_MAX: usize = 2_000;

/// A bucket.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the JSON document")]
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
#[schema(as = Bucket)]
pub struct BucketJson {
    /// The name.
    pub name: String,
    /// The number of the account that owns the bucket.
    pub account: String,
    /// The time at which the bucket was created.
    pub created: String,
    /// The number of objects and files.
    pub objects: u64,
    /// The bytes of its objects and files.
    pub bytes: u64,
    /// The limits.
    pub quota: QuotaJson,
    /// The versioning state.
    pub versioning: VersioningState,
    /// True if the bucket has object lock.
    pub object_lock: bool,
    /// The number of days for which the trash keeps deleted objects. `null` without a trash.
    pub trash_days: Option<u32>,
    /// True if a policy or an ACL allows something to anonymous clients.
    pub public: bool,
    /// True if the bucket has a policy.
    pub has_policy: bool,
    /// True if the bucket has lifecycle rules.
    pub has_lifecycle: bool,
    /// True if the bucket has CORS rules.
    pub has_cors: bool,
}

/// The versioning state of a bucket.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum VersioningState {
    /// The bucket keeps no versions.
    Off,
    /// The bucket keeps versions.
    Enabled,
    /// The bucket keeps the versions that it has, and makes no new ones.
    Suspended,
    /// The bucket has a trash instead of versions.
    Trash,
}

impl From<Versioning> for VersioningState {
    fn from(versioning: Versioning) -> VersioningState {
        match versioning {
            Versioning::Off => VersioningState::Off,
            Versioning::Enabled => VersioningState::Enabled,
            Versioning::Suspended => VersioningState::Suspended,
            Versioning::Trash => VersioningState::Trash,
        }
    }
}

/// The settings of a new bucket.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBucket)]
pub struct NewBucketJson {
    /// True if the bucket keeps versions.
    #[serde(default)]
    pub versioning: bool,
    /// True if the bucket has object lock, which needs versions. It cannot be turned on later.
    #[serde(default)]
    pub object_lock: bool,
}

/// A change of a bucket's settings. A setting that is absent stays.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketPatch {
    /// The versioning state: `enabled` or `suspended`.
    pub versioning: Option<VersioningState>,
}

impl AdminApi {
    /// Returns a page of the buckets that the sender may see, in order of name.
    ///
    /// # Errors
    /// `BadRequest` for a wrong page or limit.
    pub async fn buckets(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<BucketJson>, ApiError> {
        let PageRange { after, limit, prefix } = query.range()?;
        let (mut visible, mut examined) = (Vec::new(), 0);
        let mut after = after.map(String::into_bytes);
        let mut next = None;
        loop {
            let found =
                self.admin.buckets_after(prefix.as_bytes(), after.as_deref(), FETCHED_AT_ONCE);
            let found = found.await?;
            let is_last = found.len() < FETCHED_AT_ONCE as usize;
            examined += found.len();
            let seen = stream::iter(found).map(|bucket| async {
                let rules = self.seen_rules(actor, &bucket).await;
                rules.map(|rules| (bucket, rules))
            });
            let mut seen = std::pin::pin!(seen.buffered(RULES_AT_ONCE));
            while let Some(found) = seen.next().await {
                let (bucket, rules) = found?;
                if visible.len() == limit {
                    next = visible.last().map(|(bucket, _): &(FoundBucket, _)| name_of(bucket));
                    break;
                }
                after = Some(bucket.name.clone());
                visible.extend(rules.map(|rules| (bucket, rules)));
            }
            if next.is_some() || is_last {
                break;
            }
            if examined >= EXAMINED_MAX {
                next = after.as_ref().map(|name| String::from_utf8_lossy(name).into_owned());
                break;
            }
        }
        let (found, rules): (Vec<_>, Vec<_>) = visible.into_iter().unzip();
        let used = self.admin.usage_of(found).await?;
        let items = used.into_iter().zip(&rules).map(|(used, rules)| shown(used, rules)).collect();
        Ok(ListPage { items, next: next.as_deref().map(token) })
    }

    /// Returns a bucket.
    ///
    /// # Errors
    /// `NoSuchBucket`, also if the sender may not see the bucket.
    pub async fn bucket(&self, actor: &Actor<'_>, name: &str) -> Result<BucketJson, ApiError> {
        let found = self.admin.bucket(name).await?;
        let rules = self.seen_rules(actor, &found).await?;
        let rules = rules.ok_or(s3::Code::NoSuchBucket)?;
        let used = self.admin.usage_of(vec![found]).await?.pop();
        used.map(|used| shown(used, &rules)).ok_or_else(|| s3::Code::NoSuchBucket.into())
    }

    /// Returns the rules of a bucket if the sender may see the bucket.
    async fn seen_rules(
        &self,
        actor: &Actor<'_>,
        bucket: &FoundBucket,
    ) -> Result<Option<std::sync::Arc<BucketRules>>, ApiError> {
        // A directory whose name is no bucket name is visible to file programs alone.
        let Some(name) =
            std::str::from_utf8(&bucket.name).ok().and_then(|name| BucketName::parse(name).ok())
        else {
            return Ok(None);
        };
        // The configurations of most buckets are known to be absent, which saves a round trip.
        let rules = if bucket.settings.configs_version == 0 {
            std::sync::Arc::new(BucketRules::of_settings(bucket.ino, bucket.settings.clone()))
        } else {
            match self.gateway.rules().get_once(&self.volume, &name).await {
                Ok(rules) => rules,
                // Another client has removed the bucket meanwhile, or its configuration cannot be
                // parsed. The list does not fail for one bucket.
                Err(error) => {
                    tracing::debug!(%error, bucket = %name, "a list leaves out a bucket");
                    return Ok(None);
                }
            }
        };
        let list = s3::operation::Permission::on_bucket("s3:ListBucket", &name);
        let sees = actor.may(AdminAction::DataUsageInfo, Some(&name))
            || actor.sender().is_allowed(&list, Some(&rules), None);
        Ok(sees.then_some(rules))
    }

    /// Creates a bucket. A bucket that exists and belongs to the sender's account stays as it is.
    ///
    /// # Errors
    /// Those of `CreateBucket` and `PutBucketVersioning` of S3.
    pub async fn put_bucket(
        &self,
        actor: &Actor<'_>,
        name: &str,
        new: NewBucketJson,
    ) -> Result<BucketJson, ApiError> {
        // A sender that may not see the bucket gets no figures of one that exists.
        let is_known = self.admin.bucket(name).await.is_ok();
        let existing = || async {
            let hidden = s3::Fault::new(s3::Code::BucketAlreadyOwnedByYou);
            self.bucket(actor, name).await.map_err(|_| hidden.into())
        };
        let mut call = S3Call::on_bucket(Method::PUT, name, None);
        if new.object_lock {
            let header = "x-amz-bucket-object-lock-enabled";
            call.headers.insert(header, http::HeaderValue::from_static("true"));
        }
        match self.s3(actor, &call, Bytes::new()).await {
            Ok(_) => {}
            Err(error) if error.code == "BucketAlreadyOwnedByYou" => return existing().await,
            Err(error) => return Err(error),
        }
        if is_known {
            return existing().await;
        }
        if new.versioning && !new.object_lock {
            let patch = BucketPatch { versioning: Some(VersioningState::Enabled) };
            return self.patch_bucket(actor, name, patch, &IfMatch::default()).await;
        }
        self.changed_bucket(name).await
    }

    /// Returns a bucket that the sender has just changed. The sender may have the permission for
    /// the change and none to see the bucket.
    async fn changed_bucket(&self, name: &str) -> Result<BucketJson, ApiError> {
        let (parsed, found) = (BucketName::parse(name)?, self.admin.bucket(name).await?);
        let rules = self.gateway.rules().get(&self.volume, &parsed).await;
        let rules = rules.map_err(|_| s3::Code::NoSuchBucket)?;
        let used = self.admin.usage_of(vec![found]).await?.pop();
        used.map(|used| shown(used, &rules)).ok_or_else(|| s3::Code::NoSuchBucket.into())
    }

    /// Changes settings of a bucket.
    ///
    /// # Errors
    /// Those of `PutBucketVersioning` of S3; `Changed`.
    pub async fn patch_bucket(
        &self,
        actor: &Actor<'_>,
        name: &str,
        patch: BucketPatch,
        if_match: &IfMatch,
    ) -> Result<BucketJson, ApiError> {
        if if_match.is_some() {
            if_match.check(&self.bucket(actor, name).await?)?;
        }
        if let Some(state) = patch.versioning {
            let status = match state {
                VersioningState::Enabled => "Enabled",
                VersioningState::Suspended => "Suspended",
                VersioningState::Off | VersioningState::Trash => {
                    let why = "A change sets versioning to \"enabled\" or \"suspended\".";
                    return Err(ApiError::bad_request(why));
                }
            };
            let (kind, any) = (BucketDocumentKind::Versioning, IfMatch::default());
            self.put_document(actor, name, kind, &json!({ "Status": status }), &any).await?;
            return self.changed_bucket(name).await;
        }
        self.bucket(actor, name).await
    }

    /// Deletes an empty bucket.
    ///
    /// # Errors
    /// Those of `DeleteBucket` of S3; `Changed`.
    pub async fn delete_bucket(
        &self,
        actor: &Actor<'_>,
        name: &str,
        if_match: &IfMatch,
    ) -> Result<(), ApiError> {
        if if_match.is_some() {
            if_match.check(&self.bucket(actor, name).await?)?;
        }
        let call = S3Call::on_bucket(Method::DELETE, name, None);
        self.s3(actor, &call, Bytes::new()).await.map(drop)
    }
}

fn name_of(bucket: &FoundBucket) -> String {
    String::from_utf8_lossy(&bucket.name).into_owned()
}

fn shown(used: BucketUsage, rules: &BucketRules) -> BucketJson {
    let BucketUsage { bucket, objects, bytes } = used;
    let grants_all = rules.acl.as_ref().is_some_and(|acl| {
        rules.acls_enabled()
            && !rules.public_access().ignore_public_acls
            && acl.grants.iter().any(|grant| grant.grantee == Grantee::AllUsers)
    });
    let policy_is_public = rules.policy.as_ref().is_some_and(Policy::is_public)
        && !rules.public_access().restrict_public_buckets;
    BucketJson {
        name: name_of(&bucket),
        account: bucket.settings.owner.to_string(),
        created: times::text(bucket.made),
        objects,
        bytes,
        quota: bucket.quota.into(),
        versioning: bucket.versioning.into(),
        object_lock: rules.object_lock.is_some(),
        trash_days: rules.trash_days,
        public: policy_is_public || grants_all,
        has_policy: rules.policy.is_some(),
        has_lifecycle: rules.lifecycle.is_some(),
        has_cors: rules.cors.is_some(),
    }
}
