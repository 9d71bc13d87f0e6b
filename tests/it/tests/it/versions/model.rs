//! A model of versions: a list for each key, the newest first. It predicts the results of
//! operations.
//!
//! It is written to be easy to read, not fast, and independently of the code of volumes. The ids of
//! versions come from the results of the volumes.

use std::collections::{BTreeMap, HashSet};

use record::{ObjectLock, RetainUntil, RetentionMode, Timestamp, VersionRef, Versioning};
use volume::{Exempt, FsError};

/// The content of an object: its length in bytes, and the seed of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) seed: u64,
    pub(crate) length: usize,
}

/// The kind of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionKind {
    /// A delete marker, with the time of its creation.
    Marker(Timestamp),
    Object(Content, ObjectLock),
}

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) id: VersionRef,
    pub(crate) what: VersionKind,
}

/// A key of one of the buckets.
pub(crate) type Name = (usize, &'static str);

/// The mode of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    Bypass,
    Sparing(Exempt),
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Set(usize, Versioning),
    Put { to: Name, content: Content, lock: ObjectLock, if_absent: bool },
    Copy { from: Name, version: Option<VersionRef>, to: Name, lock: ObjectLock },
    Delete(Name),
    Remove(Name, VersionRef, How),
    Hold(Name, Option<VersionRef>, bool),
    Retain(Name, Option<VersionRef>, Option<RetainUntil>, bool),
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Set,
    Put(Option<VersionRef>),
    Deleted { existed: bool, marker: Option<VersionRef> },
    Removed { existed: bool, was_marker: bool },
    Changed(Option<VersionRef>),
}

/// The times that a volume uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The time of the clock.
    pub(crate) clock: Timestamp,
    /// The time that has certainly elapsed, even if the clock was set.
    pub(crate) passed: Timestamp,
}

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) versioning: Versioning,
    /// True if its objects may be locked.
    pub(crate) locks: bool,
    pub(crate) keys: BTreeMap<&'static str, Vec<Version>>,
}

/// All buckets.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) buckets: Vec<Bucket>,
    /// Ids that were assigned. Each is unique.
    ids: HashSet<VersionRef>,
}

/// Returns true if a lock forbids the removal of a version.
pub(crate) fn is_locked(lock: &ObjectLock, passed: Timestamp, bypass: bool) -> bool {
    if lock.legal_hold == Some(true) {
        return true;
    }
    match lock.retention {
        None => false,
        Some(RetainUntil { until, .. }) if until <= passed => false,
        Some(RetainUntil { mode: RetentionMode::Compliance, .. }) => true,
        Some(RetainUntil { mode: RetentionMode::Governance, .. }) => !bypass,
    }
}

impl Model {
    pub(crate) fn new(buckets: usize) -> Model {
        let bucket = || Bucket { versioning: Versioning::Off, locks: false, keys: BTreeMap::new() };
        Model { buckets: (0..buckets).map(|_| bucket()).collect(), ids: HashSet::new() }
    }

    pub(crate) fn versions(&self, (bucket, key): Name) -> &[Version] {
        self.buckets[bucket].keys.get(key).map_or(&[], Vec::as_slice)
    }

    fn versions_mut(&mut self, (bucket, key): Name) -> &mut Vec<Version> {
        self.buckets[bucket].keys.entry(key).or_default()
    }

    /// Returns the expected result of a request for a version, or for the current one.
    pub(crate) fn find(
        &self,
        name: Name,
        version: Option<VersionRef>,
    ) -> Result<(VersionRef, Content, ObjectLock), FsError> {
        let versions = self.versions(name);
        let found = match version {
            Some(id) => {
                versions.iter().find(|other| other.id == id).ok_or(FsError::NoSuchVersion)?
            }
            None => versions.first().ok_or(FsError::NoSuchKey)?,
        };
        match (found.what, version) {
            (VersionKind::Object(content, lock), _) => Ok((found.id, content, lock)),
            (VersionKind::Marker(_), None) => Err(FsError::Deleted(found.id)),
            (VersionKind::Marker(at), Some(_)) => Err(FsError::IsMarker(found.id, at)),
        }
    }

    /// Executes an operation and returns its expected result. `fresh` is the version id in the
    /// volume's result, if any; it must be new.
    pub(crate) fn apply(
        &mut self,
        act: &Act,
        fresh: Option<VersionRef>,
        now: Now,
    ) -> Result<Answer, FsError> {
        match *act {
            Act::Set(bucket, versioning) => {
                let bucket = &mut self.buckets[bucket];
                if bucket.locks && versioning != Versioning::Enabled {
                    return Err(FsError::Locked);
                }
                bucket.versioning = versioning;
                Ok(Answer::Set)
            }
            Act::Put { to, content, lock, if_absent } => {
                if if_absent && self.find(to, None).is_ok() {
                    return Err(FsError::PreconditionFailed);
                }
                Ok(Answer::Put(self.add(to, VersionKind::Object(content, lock), fresh)))
            }
            Act::Copy { from, version, to, lock } => {
                let (_, content, _) = self.find(from, version)?;
                Ok(Answer::Put(self.add(to, VersionKind::Object(content, lock), fresh)))
            }
            Act::Delete(name) => {
                let existed = self.find(name, None).is_ok();
                let marker = if self.buckets[name.0].versioning == Versioning::Off {
                    self.versions_mut(name).clear();
                    None
                } else {
                    self.add(name, VersionKind::Marker(now.clock), fresh)
                };
                Ok(Answer::Deleted { existed, marker })
            }
            Act::Remove(name, version, how) => self.remove(name, version, how, now),
            Act::Hold(name, version, hold) => self.change(name, version, |lock| {
                lock.legal_hold = Some(hold);
                Ok(())
            }),
            Act::Retain(name, version, new, bypass) => self.change(name, version, |lock| {
                if !may_retain(lock.retention, new, now.passed, bypass) {
                    return Err(FsError::Locked);
                }
                lock.retention = new;
                Ok(())
            }),
        }
    }

    /// Adds a new current version.
    fn add(
        &mut self,
        name: Name,
        what: VersionKind,
        fresh: Option<VersionRef>,
    ) -> Option<VersionRef> {
        let (id, answer) = match self.buckets[name.0].versioning {
            Versioning::Off | Versioning::Trash => (VersionRef::Null, None),
            Versioning::Suspended => (VersionRef::Null, Some(VersionRef::Null)),
            Versioning::Enabled => {
                let id = fresh.filter(|id| *id != VersionRef::Null && self.ids.insert(*id));
                let id = id.expect("a new version has a new id");
                (id, Some(id))
            }
        };
        let versions = self.versions_mut(name);
        versions.retain(|version| version.id != id);
        versions.insert(0, Version { id, what });
        answer
    }

    fn remove(
        &mut self,
        name: Name,
        version: VersionRef,
        how: How,
        now: Now,
    ) -> Result<Answer, FsError> {
        let versions = self.versions_mut(name);
        let nothing = Ok(Answer::Removed { existed: false, was_marker: false });
        let Some(place) = versions.iter().position(|other| other.id == version) else {
            return nothing;
        };
        let was_marker = matches!(versions[place].what, VersionKind::Marker(_));
        let is_latest = place == 0;
        let hides_an_object = is_latest
            && was_marker
            && versions.get(1).is_some_and(|next| matches!(next.what, VersionKind::Object(..)));
        let stays = match how {
            How::Sparing(Exempt::Current) => is_latest,
            How::Sparing(Exempt::Objects) => !was_marker || hides_an_object,
            How::Sparing(Exempt::Nothing) | How::Plain | How::Bypass => false,
        };
        if stays {
            return nothing;
        }
        if let VersionKind::Object(_, lock) = versions[place].what
            && is_locked(&lock, now.passed, how == How::Bypass)
        {
            return Err(FsError::Locked);
        }
        versions.remove(place);
        Ok(Answer::Removed { existed: true, was_marker })
    }

    fn change(
        &mut self,
        name: Name,
        version: Option<VersionRef>,
        change: impl FnOnce(&mut ObjectLock) -> Result<(), FsError>,
    ) -> Result<Answer, FsError> {
        let (id, ..) = self.find(name, version)?;
        let keeps = self.buckets[name.0].versioning != Versioning::Off;
        for other in self.versions_mut(name) {
            if let VersionKind::Object(_, lock) = &mut other.what
                && other.id == id
            {
                change(lock)?;
                break;
            }
        }
        Ok(Answer::Changed(keeps.then_some(id)))
    }

    /// Returns all versions in the order of a listing, each with its key and true if it is the
    /// latest.
    pub(crate) fn all(&self, bucket: usize) -> Vec<(&'static str, bool, Version)> {
        let mut all = Vec::new();
        for (key, versions) in &self.buckets[bucket].keys {
            for (place, version) in versions.iter().enumerate() {
                all.push((*key, place == 0, *version));
            }
        }
        all
    }
}

fn may_retain(
    old: Option<RetainUntil>,
    new: Option<RetainUntil>,
    passed: Timestamp,
    bypass: bool,
) -> bool {
    let old = match old {
        Some(old) if passed < old.until => old,
        _ => return true,
    };
    if old.mode == RetentionMode::Governance && bypass {
        return true;
    }
    match new {
        None => false,
        Some(new) => new.mode == old.mode && new.until >= old.until,
    }
}
