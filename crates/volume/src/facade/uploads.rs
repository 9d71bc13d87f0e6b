//! Listing the open uploads of a bucket.
//!
//! For example, with the delimiter `/` the uploads of `a/1` and `a/2` are one entry, the prefix
//! `a/`.

use namespace::{ListUploads, NamedBucket, UploadsAfter};
use record::{Upload, UploadState};

use super::multipart::{RECORDS_AT_ONCE, UploadId};
use crate::{Volume, VolumeError};

/// The parameters of a listing of uploads.
#[derive(Clone, Debug)]
pub struct UploadsQuery {
    /// The prefix of the object keys whose uploads are listed.
    pub prefix: Vec<u8>,
    /// The delimiter. Keys that contain it after the prefix are rolled up: the page shows one
    /// common prefix, up to and including the delimiter, in place of all of them.
    pub delimiter: Option<Vec<u8>>,
    /// Lists only keys that sort after this one and, if `id_after` is given, also the uploads of
    /// this key with ids after that one. `None` begins with the first key.
    pub key_after: Option<Vec<u8>>,
    /// The id of the last upload of the page before, if `key_after` is its key. `None` leaves out
    /// all uploads of `key_after`.
    pub id_after: Option<UploadId>,
    /// Most entries of the page.
    pub limit: usize,
}

/// An entry of a listing of uploads.
#[derive(Clone, Debug)]
pub enum UploadsEntry {
    /// An open upload.
    Upload {
        /// The object key of the upload.
        key: Vec<u8>,
        /// The id of the upload.
        id: UploadId,
        /// The record of the upload.
        upload: Box<Upload>,
    },
    /// The common prefix of several keys, including the delimiter.
    Prefix(Vec<u8>),
}

/// A page of a listing of uploads.
#[derive(Clone, Debug)]
pub struct UploadsPage {
    /// Uploads and common prefixes, in order.
    pub entries: Vec<UploadsEntry>,
    /// True if there are more entries.
    pub truncated: bool,
}

impl Volume {
    /// Returns a page of the open uploads of a bucket.
    pub async fn uploads(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        query: UploadsQuery,
    ) -> Result<UploadsPage, VolumeError> {
        let bucket = bucket.into();
        let mut after = query.key_after.clone().map(|key| match query.id_after {
            Some(id) => UploadsAfter::Upload(key, id.0),
            None => UploadsAfter::Object(key),
        });
        let mut entries: Vec<UploadsEntry> = Vec::new();
        loop {
            let operation = ListUploads {
                bucket,
                prefix: &query.prefix,
                after: after.as_ref(),
                limit: RECORDS_AT_ONCE,
            };
            let (uploads, more) = self.session.run(&operation).await?;
            // The common prefix of the last record that was read.
            let mut common_of_last = None;
            for listed in uploads {
                after = Some(UploadsAfter::Upload(listed.object.clone(), listed.id));
                let common = rolled_up(&query, &listed.object);
                // Ended uploads count as well, because their prefix may be skipped all the same.
                common_of_last.clone_from(&common);
                if listed.upload.state != UploadState::Open {
                    continue;
                }
                let entry = match common {
                    Some(common) if query.key_after.as_deref() >= Some(&common[..]) => continue,
                    Some(common) => match entries.last() {
                        Some(UploadsEntry::Prefix(last)) if *last == common => continue,
                        _ => UploadsEntry::Prefix(common),
                    },
                    None => UploadsEntry::Upload {
                        key: listed.object,
                        id: UploadId(listed.id),
                        upload: Box::new(listed.upload),
                    },
                };
                // Checked before the entry is added: one more entry exists, so the page is
                // truncated.
                if entries.len() == query.limit {
                    return Ok(UploadsPage { entries, truncated: true });
                }
                entries.push(entry);
            }
            // The rest of a prefix that is listed already is skipped.
            if let (Some(UploadsEntry::Prefix(listed)), Some(common)) =
                (entries.last(), common_of_last)
                && *listed == common
            {
                after = Some(UploadsAfter::Prefix(common));
            }
            if !more {
                return Ok(UploadsPage { entries, truncated: false });
            }
        }
    }
}

fn rolled_up(query: &UploadsQuery, key: &[u8]) -> Option<Vec<u8>> {
    let delimiter = query.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
    let rest = key.strip_prefix(&query.prefix[..])?;
    let at = rest.windows(delimiter.len()).position(|window| window == delimiter)?;
    Some(key[..query.prefix.len() + at + delimiter.len()].to_vec())
}
