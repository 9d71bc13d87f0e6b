//! Quotas of buckets.
//!
//! For example, `PUT /buckets/photos/quota` with `{"bytes": 1000000, "objects": null}` limits the
//! bytes of the bucket and removes the limit of its objects.

use admin::BucketChange;
use policy::AdminAction;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::etag::IfMatch;
use crate::{Actor, AdminApi, ApiError};

/// The limits of a bucket. A limit below the current usage is allowed: the bucket then only
/// shrinks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[schema(as = Quota)]
pub struct QuotaJson {
    /// The limit of bytes of all objects together. `null` for no limit.
    pub bytes: Option<u64>,
    /// The limit of objects. `null` for no limit.
    pub objects: Option<u64>,
}

impl From<record::Quota> for QuotaJson {
    fn from(quota: record::Quota) -> QuotaJson {
        QuotaJson { bytes: quota.bytes, objects: quota.objects }
    }
}

impl AdminApi {
    /// Returns the quota of a bucket.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:GetBucketQuota` on the bucket, `NoSuchBucket`.
    pub async fn quota(&self, actor: &Actor<'_>, bucket: &str) -> Result<QuotaJson, ApiError> {
        let name = s3::BucketName::parse(bucket)?;
        actor.require_on(AdminAction::GetBucketQuota, &name)?;
        Ok(self.admin.bucket(bucket).await?.quota.into())
    }

    /// Replaces the quota of a bucket.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:SetBucketQuota` on the bucket, `NoSuchBucket`, `Changed`.
    pub async fn put_quota(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        quota: QuotaJson,
        if_match: &IfMatch,
    ) -> Result<QuotaJson, ApiError> {
        let name = s3::BucketName::parse(bucket)?;
        actor.require_on(AdminAction::SetBucketQuota, &name)?;
        let _alone = self.lock_bucket(bucket).await;
        let found = self.admin.bucket(bucket).await?;
        if_match.check(&QuotaJson::from(found.quota))?;
        let QuotaJson { bytes, objects } = quota;
        let replaced = record::Quota { bytes, objects };
        self.admin.set_found_bucket(&found, BucketChange::ReplaceQuota(replaced)).await?;
        Ok(quota)
    }

    /// Replaces the limit of bytes of a bucket, `None` for no limit. The limit of objects stays.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:SetBucketQuota` on the bucket, `NoSuchBucket`.
    pub async fn put_quota_bytes(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        bytes: Option<u64>,
    ) -> Result<(), ApiError> {
        let name = s3::BucketName::parse(bucket)?;
        actor.require_on(AdminAction::SetBucketQuota, &name)?;
        let _alone = self.lock_bucket(bucket).await;
        let found = self.admin.bucket(bucket).await?;
        let replaced = record::Quota { bytes, ..found.quota };
        Ok(self.admin.set_found_bucket(&found, BucketChange::ReplaceQuota(replaced)).await?)
    }

    /// Removes all limits of a bucket.
    ///
    /// # Errors
    /// Those of [`AdminApi::put_quota`].
    pub async fn delete_quota(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        if_match: &IfMatch,
    ) -> Result<(), ApiError> {
        self.put_quota(actor, bucket, QuotaJson::default(), if_match).await.map(drop)
    }
}
