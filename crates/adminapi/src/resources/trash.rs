//! The trash of buckets, in which deleted and replaced objects stay for some days.
//!
//! For example, `POST /buckets/photos/trash/restore` with `{"key": "a.jpg"}` restores the object of
//! this key that was deleted last.

use admin::{BucketTrash, Restored};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use policy::AdminAction;
use record::VersionStamp;
use s3::BucketName;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

use super::times;
use crate::etag::IfMatch;
use crate::page::{ListPage, PageQuery, PageRange};
use crate::{Actor, AdminApi, ApiError};

/// The setting of a trash.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[schema(as = Trash)]
pub struct TrashJson {
    /// The number of days for which deleted and replaced objects stay. `null` without a trash.
    pub days: Option<u32>,
}

/// An object in the trash.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct TrashItem {
    /// The key of the object. Bytes that are no UTF-8 are replaced.
    pub key: String,
    /// The id among the items of the key.
    pub id: String,
    /// The time at which the object was deleted or replaced.
    pub deleted: String,
    /// The size of the object in bytes.
    pub bytes: u64,
}

/// The objects to restore: one key, or all keys with a prefix.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrashSelection {
    /// The key of one object. An object that has the key now goes to the trash.
    pub key: Option<String>,
    /// The id of the item. The newest item of the key without it.
    pub id: Option<String>,
    /// The prefix of all keys to restore. Keys that have an object now stay as they are.
    pub prefix: Option<String>,
}

/// The result of a change of the trash.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema, PartialEq, Eq)]
pub struct TrashResult {
    /// The number of objects that were restored.
    pub restored: u64,
    /// The number of keys that already have another object.
    pub taken: u64,
    /// The number of items that were removed permanently.
    pub removed: u64,
}

impl AdminApi {
    /// Returns the setting of the trash of a bucket.
    ///
    /// # Errors
    /// `InvalidBucketName`, `AccessDenied` without `admin:GetBucketTrash` on the bucket,
    /// `NoSuchBucket`.
    pub async fn trash(&self, actor: &Actor<'_>, bucket: &str) -> Result<TrashJson, ApiError> {
        actor.require_on(AdminAction::GetBucketTrash, &BucketName::parse(bucket)?)?;
        Ok(TrashJson { days: self.admin.trash_days(bucket).await? })
    }

    /// Gives a bucket a trash, changes its days, or removes it. A trash that is not empty stays.
    ///
    /// # Errors
    /// `InvalidBucketName`, `AccessDenied` without `admin:SetBucketTrash` on the bucket,
    /// `BadRequest` for 0 days, `NoSuchBucket`, `InvalidState` if the bucket keeps versions or the
    /// removed trash is not empty, `Changed`.
    pub async fn put_trash(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        trash: TrashJson,
        if_match: &IfMatch,
    ) -> Result<TrashJson, ApiError> {
        actor.require_on(AdminAction::SetBucketTrash, &BucketName::parse(bucket)?)?;
        if trash.days == Some(0) {
            return Err(ApiError::bad_request("A trash keeps objects for at least one day."));
        }
        if if_match.is_some() {
            if_match.check(&TrashJson { days: self.admin.trash_days(bucket).await? })?;
        }
        self.admin.set_trash(bucket, trash.days).await?;
        Ok(trash)
    }

    async fn open_trash(&self, bucket: &str) -> Result<BucketTrash, ApiError> {
        // The process has the volume open, so no session is begun.
        Ok(self.admin.trash(Arc::clone(&self.blocks), bucket, false).await?)
    }

    /// Returns a page of the items in the trash of a bucket: by key, the newest item of a key
    /// first.
    ///
    /// # Errors
    /// `InvalidBucketName`, `AccessDenied` without `admin:GetBucketTrash` on the bucket,
    /// `NoSuchBucket`, `InvalidState` without a trash, `BadRequest` for a wrong page.
    pub async fn trash_items(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        query: &PageQuery,
    ) -> Result<ListPage<TrashItem>, ApiError> {
        actor.require_on(AdminAction::GetBucketTrash, &BucketName::parse(bucket)?)?;
        let PageRange { after, limit, prefix } = query.range()?;
        let after = after.as_deref().map(position).transpose()?;
        let mut items = self.open_trash(bucket).await?.page(prefix.as_bytes(), after).await?;
        let next = (items.len() > limit).then(|| items.get(limit - 1)).flatten();
        let next = next.map(|(key, item)| crate::page::token(&text_of((key, item.id))));
        items.truncate(limit);
        let shown = |(key, item): (Vec<u8>, volume::Trashed)| TrashItem {
            key: String::from_utf8_lossy(&key).into_owned(),
            id: item.id.to_string(),
            deleted: times::text(item.since),
            bytes: item.bytes,
        };
        Ok(ListPage { items: items.into_iter().map(shown).collect(), next })
    }

    /// Restores objects of a bucket from its trash.
    ///
    /// # Errors
    /// `InvalidBucketName`, `AccessDenied` without `admin:RestoreTrash` on the bucket,
    /// `NoSuchBucket`, `NotInTrash`, `InvalidState` without a trash, `BadRequest` without a key or
    /// a prefix, or for a wrong id.
    pub async fn restore_trash(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        selection: &TrashSelection,
    ) -> Result<TrashResult, ApiError> {
        actor.require_on(AdminAction::RestoreTrash, &BucketName::parse(bucket)?)?;
        let trash = self.open_trash(bucket).await?;
        match selection {
            TrashSelection { key: Some(key), id, prefix: None } => {
                let id = id.as_deref().map(stamp).transpose()?;
                trash.restore(key.as_bytes(), id).await?;
                Ok(TrashResult { restored: 1, ..TrashResult::default() })
            }
            TrashSelection { key: None, id: None, prefix: Some(prefix) } => {
                let done = trash.restore_all(prefix.as_bytes(), |_| ()).await?;
                let Restored { restored, taken } = done;
                Ok(TrashResult { restored, taken, removed: 0 })
            }
            TrashSelection { .. } => Err(ApiError::bad_request("Give a key, or a prefix.")),
        }
    }

    /// Removes the items of keys with a prefix from the trash of a bucket permanently.
    ///
    /// # Errors
    /// `InvalidBucketName`, `AccessDenied` without `admin:EmptyTrash` on the bucket,
    /// `NoSuchBucket`, `InvalidState` without a trash, `BadRequest` without a prefix; an empty one
    /// removes all items.
    pub async fn empty_trash(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        selection: &TrashSelection,
    ) -> Result<TrashResult, ApiError> {
        actor.require_on(AdminAction::EmptyTrash, &BucketName::parse(bucket)?)?;
        let TrashSelection { key: None, id: None, prefix: Some(prefix) } = selection else {
            return Err(ApiError::bad_request("Give a prefix. An empty one removes all items."));
        };
        let removed = self.open_trash(bucket).await?.empty(prefix.as_bytes()).await?;
        Ok(TrashResult { removed, ..TrashResult::default() })
    }
}

/// Returns the position of an item as the text of a page token.
fn text_of((key, id): (&[u8], VersionStamp)) -> String {
    format!("{id} {}", URL_SAFE_NO_PAD.encode(key))
}

/// Returns the position of the item in a page token.
fn position(text: &str) -> Result<(Vec<u8>, VersionStamp), ApiError> {
    let wrong = || ApiError::bad_request("The page is not the token of a page.");
    let (id, key) = text.split_once(' ').ok_or_else(wrong)?;
    Ok((URL_SAFE_NO_PAD.decode(key).map_err(|_| wrong())?, stamp(id)?))
}

fn stamp(text: &str) -> Result<VersionStamp, ApiError> {
    text.parse().map_err(|_| ApiError::bad_request("The id is not that of an item."))
}
