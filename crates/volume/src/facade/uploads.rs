//! Listing the open uploads of a bucket.

use namespace::{ListUploads, UploadsAfter};
use record::{Upload, UploadState};

use super::multipart::{RECORDS_AT_ONCE, UploadId};
use crate::{Volume, VolumeError};

/// Which uploads to list.
#[derive(Clone, Debug)]
pub struct UploadsQuery {
    /// What their keys begin with.
    pub prefix: Vec<u8>,
    /// Keys that hold this behind the prefix are rolled up to there.
    pub delimiter: Option<Vec<u8>>,
    /// Only keys behind this one, or uploads of this one behind `id_after`.
    pub key_after: Option<Vec<u8>>,
    /// See `key_after`.
    pub id_after: Option<UploadId>,
    /// The most entries.
    pub limit: usize,
}

/// An entry of a listing of uploads.
#[derive(Clone, Debug)]
pub enum UploadsEntry {
    /// An open upload.
    Upload {
        /// Its object's key.
        key: Vec<u8>,
        /// Its id.
        id: UploadId,
        /// The upload.
        upload: Box<Upload>,
    },
    /// What several keys have in common, up to and with the delimiter.
    Prefix(Vec<u8>),
}

/// A page of a listing of uploads.
#[derive(Clone, Debug)]
pub struct UploadsPage {
    /// Uploads and common prefixes, in order.
    pub entries: Vec<UploadsEntry>,
    /// Whether there is more.
    pub truncated: bool,
}

impl Volume {
    /// A page of the open uploads of a bucket.
    pub async fn uploads(
        &self,
        bucket: &str,
        query: UploadsQuery,
    ) -> Result<UploadsPage, VolumeError> {
        let mut after = query.key_after.clone().map(|key| match query.id_after {
            Some(id) => UploadsAfter::Upload(key, id.0),
            None => UploadsAfter::Object(key),
        });
        let mut entries: Vec<UploadsEntry> = Vec::new();
        loop {
            let operation = ListUploads {
                bucket: bucket.as_bytes(),
                prefix: &query.prefix,
                after: after.as_ref(),
                limit: RECORDS_AT_ONCE,
            };
            let (uploads, more) = self.session.run(&operation).await?;
            // The common prefix of the last record that was looked at.
            let mut common_of_last = None;
            for listed in uploads {
                after = Some(UploadsAfter::Upload(listed.object.clone(), listed.id));
                let common = rolled_up(&query, &listed.object);
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
                if entries.len() == query.limit {
                    return Ok(UploadsPage { entries, truncated: true });
                }
                entries.push(entry);
            }
            // Nothing more below a prefix that is listed already is worth looking at.
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
