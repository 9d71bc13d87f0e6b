//! One page of a pass: finds the versions and uploads that lifecycle rules expire, and removes
//! them.
//!
//! The listing and the removal are separate commits, so a removal carries the facts of its decision
//! as a condition. For example, a rule expires objects with the tag `tmp=yes`. If a client changes
//! the tags between listing and removal, the object stays.

use futures::StreamExt as _;
use record::{InodeHead, Timestamp, VersionRef};
use runtime::MetricCounter;
use s3::BucketName;
use s3::lifecycle::{Rule, RuleExpiration};
use time::{Duration, OffsetDateTime};
use tracing::warn;
use volume::{
    Exempt, FsError, ListedAs, NamedBucket, RemoveCondition, UploadsEntry, UploadsQuery,
    VersionsEntry, VersionsQuery, Volume, VolumeError,
};

use crate::meters::{LifecycleMeters, count};

/// The number of versions that are removed concurrently.
const VERSIONS_AT_ONCE: usize = 16;

/// The position of a lifecycle pass among the versions of a bucket. A pass is a listing of all
/// versions, page by page, which removes the expired ones.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The last key of which the pass has seen all versions.
    pub(crate) complete_key: Option<Vec<u8>>,
    /// The last version that the pass has seen. Each page moves it forward; see [`Page::expire`].
    pub(crate) after: Option<(Vec<u8>, Option<VersionRef>)>,
    /// The key of the last version that the pass has seen; empty before the first one.
    key: Vec<u8>,
    /// The number of noncurrent versions of `key` that the pass has seen.
    noncurrent: u32,
    /// The creation time of the last seen version of `key`; `None` before its first version. The
    /// listing has newer versions first, so the next version is noncurrent since this time.
    newer: Option<Timestamp>,
    /// True if one of the seen versions of `key` stays after this pass, so no older marker becomes
    /// the latest version.
    newer_stays: bool,
}

impl Walk {
    /// Returns a walk that begins after all versions of `complete_key`; at the first key if it is
    /// `None`.
    pub(crate) fn after_key(complete_key: Option<Vec<u8>>) -> Walk {
        Walk { after: complete_key.clone().map(|key| (key, None)), complete_key, ..Walk::default() }
    }

    /// Moves this position to a version with the creation time `made`. Returns the facts about the
    /// newer versions of its key, which the listing has shown before.
    fn advance(&mut self, key: &[u8], is_latest: bool, made: Timestamp) -> Newer {
        // A new key begins, so the pass has seen all versions of the last one.
        if self.key != key {
            let last = std::mem::replace(&mut self.key, key.to_vec());
            if self.newer.take().is_some() {
                self.complete_key = Some(last);
            }
            self.noncurrent = 0;
            self.newer_stays = false;
        }
        let newer = Newer {
            noncurrent: self.noncurrent,
            made: self.newer.replace(made),
            stays: self.newer_stays,
        };
        self.noncurrent += u32::from(!is_latest);
        // If the latest version is an object and expires, a delete marker takes its place.
        self.newer_stays |= is_latest;
        newer
    }
}

/// The newer versions of the same key, as facts about one version.
struct Newer {
    /// The number of noncurrent versions among the newer versions of the key.
    noncurrent: u32,
    /// The time at which the next newer version replaced this one; `None` if there is none.
    made: Option<Timestamp>,
    /// True if one of the newer versions stays after this pass.
    stays: bool,
}

/// A lifecycle rule that applies to a version and whose date has come, with the facts on which this
/// decision depends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Due {
    /// The tags of the version; `None` if the rule does not filter by tags. The removal checks them
    /// again.
    tags: Option<Vec<(String, String)>>,
}

/// The versions that one page of a pass has found to be expired, in three groups that are removed
/// in different ways.
#[derive(Debug, Default)]
pub(crate) struct Expired {
    /// The keys of current objects, each with the condition that the object has not changed since
    /// the listing; `None` if there is no such condition.
    current: Vec<(Vec<u8>, Option<RemoveCondition>)>,
    /// Noncurrent versions, each with its key and the facts on which its rule depends.
    noncurrent: Vec<(Vec<u8>, VersionRef, Due)>,
    /// Delete markers that hide no version, each with its key and the facts on which its rule
    /// depends.
    markers: Vec<(Vec<u8>, VersionRef, Due)>,
}

/// The inputs of one page of a lifecycle pass: the bucket, its rules, and the limits.
pub(crate) struct Page<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) bucket: NamedBucket<'a>,
    pub(crate) rules: &'a [Rule],
    /// The length of a day in lifecycle rules: 24 hours, shorter in tests.
    pub(crate) day: Duration,
    /// The limit of versions or uploads that one page reads.
    pub(crate) limit: usize,
    pub(crate) meters: &'a LifecycleMeters,
}

impl Page<'_> {
    /// Aborts the multipart uploads of the bucket that a lifecycle rule aborts now.
    pub(crate) async fn abort_uploads(&self, name: &BucketName) -> Result<(), VolumeError> {
        let now = rules::time(self.volume.passed());
        let mut after = None;
        if !self.enabled().any(|rule| rule.abort_uploads_after_days.is_some()) {
            return Ok(());
        }
        loop {
            let (key_after, id_after) = after.take().unzip();
            let (prefix, limit) = (self.prefix(), self.limit);
            let query = UploadsQuery { prefix, delimiter: None, key_after, id_after, limit };
            let page = self.volume.uploads(name.as_str(), query).await?;
            for entry in page.entries {
                let UploadsEntry::Upload { key, id, upload } = entry else { continue };
                let text = String::from_utf8_lossy(&key);
                let begun = rules::time(upload.begun);
                let is_due = self.enabled().filter(|rule| rule.covers_key(&text)).any(|rule| {
                    rule.aborts_upload_at(begun, self.day).is_some_and(|due| due <= now)
                });
                if is_due {
                    match self.volume.abort(name.as_str(), &key, id).await {
                        Ok(()) => count(&self.meters.uploads, 1),
                        Err(error) => self.log_failure(&key, &error),
                    }
                }
                after = Some((key, id));
            }
            if !page.truncated {
                return Ok(());
            }
        }
    }

    /// Removes the due versions of the next page. Returns true if more versions follow.
    ///
    /// The walk moves past each entry of the page, even past the only one. For example, one key
    /// below 100 directories may use up the cost limit of a page. A pass therefore has at most as
    /// many pages as there are versions.
    pub(crate) async fn expire(&self, walk: &mut Walk) -> Result<bool, VolumeError> {
        let (expired, more) = self.find_due(walk).await?;
        self.remove(expired).await?;
        Ok(more)
    }

    /// Finds the due versions of the next page, that is, those that a rule expires now, with the
    /// conditions for their removal. Moves `walk` past the page. The second value is true if more
    /// versions follow.
    pub(crate) async fn find_due(&self, walk: &mut Walk) -> Result<(Expired, bool), VolumeError> {
        let (prefix, limit) = (self.prefix(), self.limit);
        let query = VersionsQuery { prefix, delimiter: None, after: walk.after.clone(), limit };
        let listing = self.volume.list_versions(self.bucket, &query).await?;
        let entries = &listing.entries;
        let mut expired = Expired::default();
        for (index, entry) in entries.iter().enumerate() {
            let VersionsEntry::Version { key, version, place, replaced, is_latest, listed_as } =
                entry
            else {
                continue;
            };
            // The null version has no id, and `remove` may remove it before the next page is read.
            // The next page therefore continues after its place in the order.
            let seen = place.map_or(*version, VersionRef::Id);
            walk.after = Some((key.clone(), Some(seen)));
            let made = match listed_as {
                ListedAs::Marker(made) => *made,
                ListedAs::Object(inode) => inode.attributes.changed,
            };
            let newer = walk.advance(key, *is_latest, made);
            match listed_as {
                _ if !is_latest => {
                    // A delete marker was replaced when the newer version was created. If a
                    // directory with older files was moved there, the newer version can be older
                    // than the marker; then the time of the marker counts.
                    let replaced = replaced.or(newer.made.map(|newer| newer.max(made)));
                    let newer = Newer { made: replaced, ..newer };
                    let due = self.noncurrent_is_due(key, *version, listed_as, &newer).await?;
                    walk.newer_stays |= due.is_none();
                    expired.noncurrent.extend(due.map(|due| (key.clone(), *version, due)));
                }
                ListedAs::Marker(made) if self.marker_is_due(key, *made) => {
                    let next = match entries.get(index + 1) {
                        None if listing.truncated => self.version_after(key, seen).await?,
                        next => next.cloned(),
                    };
                    let hides = matches!(&next, Some(VersionsEntry::Version { key: other, .. }) if other == key);
                    if !hides {
                        expired.markers.push((key.clone(), *version, Due { tags: None }));
                    }
                }
                ListedAs::Marker(_) => {}
                ListedAs::Object(inode) => {
                    let due = self.current_is_due(key, inode).await?;
                    expired.current.extend(due.map(|due| (key.clone(), condition(inode, due))));
                }
            }
        }
        Ok((expired, listing.truncated))
    }

    /// Returns the entry after the last version of a page: the next version of the key, or the
    /// first version of the next key with this key as a prefix; `None` if there is neither.
    async fn version_after(
        &self,
        key: &[u8],
        version: VersionRef,
    ) -> Result<Option<VersionsEntry>, VolumeError> {
        let (prefix, after) = (key.to_vec(), Some((key.to_vec(), Some(version))));
        let query = VersionsQuery { prefix, delimiter: None, after, limit: 1 };
        Ok(self.volume.list_versions(self.bucket, &query).await?.entries.into_iter().next())
    }

    fn enabled(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.enabled)
    }

    /// Returns the common prefix of all keys to which a rule may apply.
    fn prefix(&self) -> Vec<u8> {
        let mut prefixes = self.enabled().map(|rule| rule.prefix().as_bytes());
        let mut common = prefixes.next().unwrap_or_default();
        for prefix in prefixes {
            let shared = common.iter().zip(prefix).take_while(|(a, b)| a == b).count();
            common = &common[..shared];
        }
        common.to_vec()
    }

    async fn current_is_due(
        &self,
        key: &[u8],
        inode: &InodeHead,
    ) -> Result<Option<Due>, VolumeError> {
        let now = rules::time(self.volume.passed());
        let changed = rules::time(inode.attributes.changed);
        let is_due = |rule: &Rule| rule.expires_at(changed, self.day).is_some_and(|due| due <= now);
        self.due_rule(key, None, Some(inode), is_due).await
    }

    async fn noncurrent_is_due(
        &self,
        key: &[u8],
        version: VersionRef,
        listed_as: &ListedAs,
        newer: &Newer,
    ) -> Result<Option<Due>, VolumeError> {
        // Without a newer version the time of the replacement is unknown. The version stays.
        let Some(replaced) = newer.made.map(rules::time) else { return Ok(None) };
        // If a directory was moved away, a key can have a noncurrent object above its markers and
        // no current object. When the object expires, the next marker becomes the latest version.
        // The rules for noncurrent versions do not apply to it, and its removal would make an
        // older object current.
        if matches!(listed_as, ListedAs::Marker(_)) && !newer.stays {
            return Ok(None);
        }
        let now = rules::time(self.volume.passed());
        let inode = match listed_as {
            ListedAs::Object(inode) => Some(&**inode),
            ListedAs::Marker(_) => None,
        };
        let is_due = |rule: &Rule| {
            let spared = rule.noncurrent_expiration.and_then(|action| action.newer_versions);
            let due = rule.noncurrent_expires_at(replaced, self.day);
            newer.noncurrent >= spared.unwrap_or_default() && due.is_some_and(|due| due <= now)
        };
        self.due_rule(key, Some(version), inode, is_due).await
    }

    /// Returns true if a rule removes a delete marker that hides no version. Such a rule applies to
    /// all of these markers, or to those that are old enough by its days or its date (user guide,
    /// "Removing expired object delete markers").
    fn marker_is_due(&self, key: &[u8], made: Timestamp) -> bool {
        let now = rules::time(self.volume.passed());
        let key = String::from_utf8_lossy(key);
        let rules =
            self.enabled().filter(|rule| rule.covers_key(&key) && rule.filters_by_prefix_only());
        let is_due = |rule: &Rule| match rule.expiration {
            Some(RuleExpiration::ExpiredObjectDeleteMarker(goes)) => goes,
            Some(RuleExpiration::Days(_) | RuleExpiration::Date(_)) | None => {
                is_past(rule.expires_at(rules::time(made), self.day), now)
            }
        };
        rules.into_iter().any(is_due)
    }

    /// Returns the facts if a due rule applies to an object or marker. Looks up tags only if the
    /// result depends on them.
    async fn due_rule(
        &self,
        key: &[u8],
        version: Option<VersionRef>,
        inode: Option<&InodeHead>,
        is_due: impl Fn(&Rule) -> bool,
    ) -> Result<Option<Due>, VolumeError> {
        let text = String::from_utf8_lossy(key);
        let size = inode.map(|inode| volume::size_and_tag(inode).0);
        let due: Vec<&Rule> =
            self.enabled().filter(|rule| rule.covers_key(&text) && is_due(rule)).collect();
        let plain = |rule: &&&Rule| !rule.filters_by_tags();
        let holds = |rule: &Rule, tags: &[(String, String)]| match size {
            Some(size) => rule.matches(&text, size, tags),
            None => rule.filters_by_prefix_only(),
        };
        if due.iter().filter(plain).any(|rule| holds(rule, &[])) {
            return Ok(Some(Due { tags: None }));
        }
        // A delete marker has no tags, so no rule with tags applies to it.
        if size.is_none() || due.iter().all(|rule| !rule.filters_by_tags()) {
            return Ok(None);
        }
        match self.volume.stat_version(self.bucket, key, version).await {
            Ok(object) => {
                let tags = &object.file().object.tags;
                let is_due = due.iter().any(|rule| holds(rule, tags));
                Ok(is_due.then(|| Due { tags: Some(tags.clone()) }))
            }
            // It was removed meanwhile, or it is a directory, which has no tags.
            Err(VolumeError::Fs(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes expired versions that have not changed since the listing.
    pub(crate) async fn remove(&self, expired: Expired) -> Result<(), VolumeError> {
        let Expired { current, noncurrent, markers } = expired;
        if !current.is_empty() {
            let keys: Vec<Vec<u8>> = current.iter().map(|(key, _)| key.clone()).collect();
            let removed = self.volume.delete(self.bucket, current).await?;
            for (key, removed) in keys.iter().zip(removed) {
                match removed {
                    Ok(removed) => count(&self.meters.expired, u64::from(removed.existed)),
                    Err(error) => self.log_failure(key, &error),
                }
            }
        }
        self.remove_versions(noncurrent, Exempt::Current, &self.meters.noncurrent).await;
        self.remove_versions(markers, Exempt::Objects, &self.meters.markers).await;
        Ok(())
    }

    async fn remove_versions(
        &self,
        versions: Vec<(Vec<u8>, VersionRef, Due)>,
        exempt: Exempt,
        meter: &MetricCounter,
    ) {
        let remove = async |(key, version, due): (Vec<u8>, VersionRef, Due)| {
            let (volume, bucket) = (self.volume, self.bucket);
            let removed = match &due.tags {
                Some(tags) => {
                    volume.delete_version_with_tags(bucket, &key, version, exempt, tags).await
                }
                None => volume.delete_version_sparing(bucket, &key, version, exempt).await,
            };
            (removed, key)
        };
        let mut removals =
            futures::stream::iter(versions).map(remove).buffer_unordered(VERSIONS_AT_ONCE);
        while let Some((removed, key)) = removals.next().await {
            match removed {
                Ok(removed) => count(meter, u64::from(removed.existed)),
                Err(error) => self.log_failure(&key, &error),
            }
        }
    }

    /// Logs and counts a failed removal. A locked version, and one that has changed since the
    /// listing, is not a failure.
    fn log_failure(&self, key: &[u8], error: &VolumeError) {
        use FsError::{
            Deleted, Locked, NoSuchKey, NoSuchUpload, NoSuchVersion, PreconditionFailed,
        };
        if let VolumeError::Fs(
            Locked | PreconditionFailed | NoSuchKey | NoSuchVersion | NoSuchUpload | Deleted(_),
        ) = error
        {
            return;
        }
        count(&self.meters.failures, 1);
        let (bucket, key) = (self.bucket.name.escape_ascii(), key.escape_ascii());
        warn!(%bucket, %key, %error, "cannot apply a lifecycle rule");
    }
}

fn is_past(due: Option<OffsetDateTime>, now: OffsetDateTime) -> bool {
    due.is_some_and(|due| due <= now)
}

/// Returns the condition that an object has not changed since the listing. An empty directory needs
/// none, because it has no content.
fn condition(inode: &InodeHead, due: Due) -> Option<RemoveCondition> {
    let file = inode.file()?;
    let changed = inode.attributes.changed.0.div_euclid(1_000_000_000);
    Some(RemoveCondition {
        tags: None,
        size: Some(file.size),
        changed_seconds: Some(changed),
        object_tags: due.tags,
    })
}
