//! Listing the versions of objects.
//!
//! Current versions are found by a walk over names. Noncurrent versions (earlier versions of
//! objects) and delete markers are found by ranges over records of their own. A page merges the
//! two. Since they are read one after the other, a version that stops being current, or becomes
//! current again, could be missed by both. So the noncurrent entries are read before the walk and
//! once more after it; if they differ, the page is made again. For example, a PUT of `a` between
//! the reads moves the old version of `a`, and the second read shows it.

use std::collections::VecDeque;

use namespace::{
    ListEntry, ListQuery, ListedVersion, NamedBucket, NoncurrentKind, ReadVersions, VersionsFrom,
    successor,
};
use record::{InodeHead, Timestamp, VersionRef, VersionStamp};

use crate::{Volume, VolumeError};

/// The parameters of a listing of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionsQuery {
    /// The prefix of the object keys whose versions are listed.
    pub prefix: Vec<u8>,
    /// The delimiter; never empty. Keys that contain it after the prefix are rolled up: the page
    /// shows one common prefix, up to and including the delimiter, in place of all their versions.
    pub delimiter: Option<Vec<u8>>,
    /// The place after which the page begins. With a version: after this version of this key, so
    /// the page begins with its older versions. Without a version: after all versions of this key.
    /// `None` begins with the first key.
    pub after: Option<(Vec<u8>, Option<VersionRef>)>,
    /// Most versions, markers and common prefixes of the page.
    pub limit: usize,
}

/// An entry of a listing of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionsEntry {
    /// A version or a delete marker.
    Version {
        /// The object key of the version.
        key: Vec<u8>,
        /// The version id that clients use.
        version: VersionRef,
        /// The id of a noncurrent version or marker in its record, which gives its place among
        /// those of its key; `None` for the current version. A caller that removes versions between
        /// two pages continues after this place, because the null version cannot be found by its
        /// name after its removal.
        place: Option<VersionStamp>,
        /// The time at which another version or a marker replaced a noncurrent version; `None` for
        /// the current version and for markers.
        replaced: Option<Timestamp>,
        /// True if a request for the key that names no version finds this entry.
        is_latest: bool,
        /// The object or the delete marker that the entry lists.
        listed_as: ListedAs,
    },
    /// The common prefix of several keys, including the delimiter.
    Prefix(Vec<u8>),
}

/// The kind of an entry in a listing of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedAs {
    /// An object, with the head of its inode; for the object of an empty directory, the head of the
    /// directory's inode.
    Object(Box<InodeHead>),
    /// A delete marker, which is the record of a deletion, and the time of its creation.
    Marker(Timestamp),
}

impl VersionsEntry {
    fn key(&self) -> &[u8] {
        match self {
            VersionsEntry::Version { key, .. } | VersionsEntry::Prefix(key) => key,
        }
    }

    /// Shows a noncurrent null version (written while versioning was not enabled) under its id if
    /// the current version of its key is a null version, too. `null_key` is the last key in the
    /// page with a current null version, which this call updates.
    fn disambiguate_null(&mut self, null_key: &mut Option<Vec<u8>>) {
        let VersionsEntry::Version { key, version, place, .. } = self else { return };
        match place {
            None if *version == VersionRef::Null => *null_key = Some(key.clone()),
            Some(place) if *version == VersionRef::Null && null_key.as_ref() == Some(key) => {
                *version = VersionRef::Id(*place);
            }
            None | Some(_) => {}
        }
    }
}

/// A page of versions: by key, the newest of each key first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionsListing {
    /// Versions, markers and common prefixes.
    pub entries: Vec<VersionsEntry>,
    /// True if there are more entries.
    pub truncated: bool,
}

/// Tries of a page whose noncurrent entries change while it is made. After the last the page is
/// returned although it may mix instants.
const PAGE_ATTEMPTS_MAX: usize = 4;

/// Most round trips for the noncurrent entries of a page. Each common prefix may take one. After
/// this number the page ends early.
const READS_MAX: usize = 64;

/// The noncurrent entries for one page: earlier versions, delete markers and common prefixes.
#[derive(Debug, Default, PartialEq, Eq)]
struct NoncurrentPage {
    /// True if the page begins after a version of a key whose current version is the null version.
    behind_null: bool,
    /// Noncurrent versions, delete markers and common prefixes.
    found: Vec<NoncurrentEntry>,
    /// True if there may be more.
    truncated: bool,
}

#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most of them are versions")]
enum NoncurrentEntry {
    Version(ListedVersion),
    Prefix(Vec<u8>),
}

impl Volume {
    /// Returns a page of the versions of a bucket's objects, in the order of keys, the newest
    /// version of each key first.
    ///
    /// Every page makes progress: if `limit` is not 0 and the page is truncated, it has at least
    /// one entry, and all its entries are behind `query.after`. A page may hold fewer than `limit`
    /// entries, even a single one, because the work for a page is bounded.
    pub async fn list_versions(
        &self,
        bucket: NamedBucket<'_>,
        query: &VersionsQuery,
    ) -> Result<VersionsListing, VolumeError> {
        // Inodes that the first reads name must not be reaped before the later reads.
        let _reading = self.session.reading();
        let mut noncurrent = self.noncurrent(bucket, query).await?;
        for _ in 0..PAGE_ATTEMPTS_MAX {
            let current = self.current(bucket, query).await?;
            let reread = match &noncurrent {
                Some(_) => self.noncurrent(bucket, query).await?,
                None => return Ok(merge(query, current, NoncurrentPage::default())),
            };
            // No version has moved between the two reads, so current and noncurrent entries belong
            // together.
            if reread == noncurrent {
                return Ok(merge(query, current, noncurrent.unwrap_or_default()));
            }
            noncurrent = reread;
        }
        // Other clients write all the time. Each entry of the page existed, at its own instant.
        let current = self.current(bucket, query).await?;
        Ok(merge(query, current, noncurrent.unwrap_or_default()))
    }

    /// Returns the current versions that a page may need.
    async fn current(
        &self,
        bucket: NamedBucket<'_>,
        query: &VersionsQuery,
    ) -> Result<namespace::Listing, VolumeError> {
        let query = ListQuery {
            prefix: query.prefix.clone(),
            delimiter: query.delimiter.clone(),
            after: query.after.as_ref().map(|(key, _)| key.clone()),
            limit: query.limit + 1,
        };
        self.list(bucket, query).await
    }

    /// Returns the noncurrent entries that a page may need; `None` if the bucket never kept
    /// versions.
    async fn noncurrent(
        &self,
        bucket: NamedBucket<'_>,
        query: &VersionsQuery,
    ) -> Result<Option<NoncurrentPage>, VolumeError> {
        let mut noncurrent = NoncurrentPage::default();
        let Some(mut from) = query.start() else { return Ok(Some(noncurrent)) };
        for _ in 0..READS_MAX {
            // One more than the limit shows if the page is truncated.
            let wanted = query.limit + 1 - noncurrent.found.len();
            let limit = u32::try_from(wanted).unwrap_or(u32::MAX);
            let operation = ReadVersions {
                bucket,
                prefix: &query.prefix,
                from: &from,
                limit,
                kind: NoncurrentKind::Versions,
            };
            let page = self.session.run(&operation).await?;
            // Without noncurrent versions the listing of current ones is complete.
            if !page.versioning.is_shown() {
                return Ok(None);
            }
            noncurrent.behind_null |= page.behind_null;
            let is_last = page.versions.len() < wanted;
            let mut skips = None;
            for version in page.versions {
                match query.rolled_up(&version.object) {
                    Some(common) => {
                        // The rest of the prefix is skipped.
                        skips = Some(successor(&common));
                        noncurrent.found.push(NoncurrentEntry::Prefix(common));
                        break;
                    }
                    None => noncurrent.found.push(NoncurrentEntry::Version(version)),
                }
            }
            match skips {
                Some(Some(next)) => from = VersionsFrom::Key(next),
                Some(None) => return Ok(Some(noncurrent)),
                None if is_last => return Ok(Some(noncurrent)),
                None => break,
            }
            if noncurrent.found.len() > query.limit {
                break;
            }
        }
        noncurrent.truncated = true;
        Ok(Some(noncurrent))
    }
}

impl VersionsQuery {
    /// Returns the beginning of the noncurrent entries; `None` if there can be none.
    fn start(&self) -> Option<VersionsFrom> {
        Some(match &self.after {
            None => VersionsFrom::Key(self.prefix.clone()),
            Some((key, _)) if self.rolled_up(key).is_some() => {
                VersionsFrom::Key(successor(&self.rolled_up(key)?)?)
            }
            Some((key, Some(version))) => VersionsFrom::Version(key.clone(), *version),
            // Behind all versions of the key: their records continue the key with a NUL.
            Some((key, None)) => VersionsFrom::Key([key, &b"\x01"[..]].concat()),
        })
    }

    /// Returns the common prefix to which a key is rolled up; `None` if it is listed itself.
    fn rolled_up(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (delimiter, rest) = (self.delimiter.as_ref()?, key.strip_prefix(&self.prefix[..])?);
        let at = rest.windows(delimiter.len().max(1)).position(|window| window == delimiter)?;
        Some(key[..self.prefix.len() + at + delimiter.len()].to_vec())
    }
}

/// Merges current and noncurrent entries, each in the order of keys, into a page of `query.limit`
/// entries at most. Keys that one of the two lists has not reached are left to the next page.
fn merge(
    query: &VersionsQuery,
    current: namespace::Listing,
    noncurrent: NoncurrentPage,
) -> VersionsListing {
    // Keys that one of the two reads has not reached are left to the next page.
    let ends = [
        current.truncated.then(|| current.entries.last().map(|it| it.key().to_vec())).flatten(),
        noncurrent.truncated.then(|| noncurrent.found.last().map(|it| it.key().to_vec())).flatten(),
    ];
    let mut truncated = ends.iter().any(Option::is_some);
    let mut null_key = query.after.clone().map(|(key, _)| key).filter(|_| noncurrent.behind_null);
    let end = ends.into_iter().flatten().min();
    let (mut current, mut noncurrent) =
        (VecDeque::from(current.entries), VecDeque::from(noncurrent.found));
    let mut listing = VersionsListing::default();
    loop {
        let next = match (current.front(), noncurrent.front()) {
            (None, None) => break,
            // The current version of a key comes before its noncurrent ones.
            (Some(now), Some(old)) if now.key() > old.key() => {
                noncurrent.pop_front().map(noncurrent_entry)
            }
            (Some(_), _) => current.pop_front().map(current_entry),
            (None, Some(_)) => noncurrent.pop_front().map(noncurrent_entry),
        };
        let Some(mut entry) = next else { break };
        // Behind this key one of the two lists is incomplete.
        if end.as_deref().is_some_and(|end| entry.key() > end) {
            truncated = true;
            break;
        }
        entry.disambiguate_null(&mut null_key);
        // Both lists may have the same common prefix.
        let last = listing.entries.last();
        if matches!(entry, VersionsEntry::Prefix(_)) && last.is_some_and(|last| *last == entry) {
            continue;
        }
        if let VersionsEntry::Version { key, is_latest, listed_as: ListedAs::Marker(_), .. } =
            &mut entry
        {
            // A marker is the latest entry of its key only if no entry of the key comes before it,
            // on this page or the one before.
            let goes_on = last.is_some_and(|last| last.key() == key.as_slice());
            let began = query.after.as_ref().is_some_and(|(after, _)| after == key);
            *is_latest = !goes_on && !began;
        }
        if listing.entries.len() == query.limit {
            truncated = true;
            break;
        }
        listing.entries.push(entry);
    }
    listing.truncated = truncated && !listing.entries.is_empty();
    listing
}

impl NoncurrentEntry {
    fn key(&self) -> &[u8] {
        match self {
            NoncurrentEntry::Version(version) => &version.object,
            NoncurrentEntry::Prefix(prefix) => prefix,
        }
    }
}

fn current_entry(entry: ListEntry) -> VersionsEntry {
    match entry {
        ListEntry::Prefix(prefix) => VersionsEntry::Prefix(prefix),
        ListEntry::Object { key, inode, version } => VersionsEntry::Version {
            key,
            version: version.map_or(VersionRef::Null, VersionRef::Id),
            place: None,
            replaced: None,
            is_latest: true,
            listed_as: ListedAs::Object(Box::new(inode)),
        },
    }
}

fn noncurrent_entry(old: NoncurrentEntry) -> VersionsEntry {
    match old {
        NoncurrentEntry::Prefix(prefix) => VersionsEntry::Prefix(prefix),
        NoncurrentEntry::Version(ListedVersion { object, version, id, since, inode, .. }) => {
            let replaced = inode.as_ref().map(|_| since);
            let listed_as =
                inode.map_or(ListedAs::Marker(since), |it| ListedAs::Object(Box::new(it)));
            let (key, place) = (object, Some(id));
            VersionsEntry::Version { key, version, place, replaced, is_latest: false, listed_as }
        }
    }
}
