//! The versions of a key, in a bucket with versions or a trash.
//!
//! The dentry of a key binds the current version. Noncurrent versions and delete markers are
//! records of their own, newest first ([`key::version`]).
//!
//! The invariant: the current version is newer than all of these records. If a key has no dentry
//! (no current version), its newest record shows whether it was deleted. So a read or a write of
//! the current version never looks at older ones, however many there are.
//!
//! A plan that changes the versions of a key guards its dentry, or the absence of a dentry. A plan
//! that adds a version also guards that no newer version exists. Usually it guesses this without a
//! read. For example, two gateways whose clocks differ by a second write to one key within that
//! second: the second write is refused, reads the newest version, and uses a later time for its id.
//! A wrong clock costs a round trip, and never the order of versions.

use record::{
    BoundVersion, Dentry, Ino, Inode, InodeBody, NullVersion, Timestamp, Version, VersionBody,
    VersionRef, VersionStamp, Versioning, key,
};
use store::{Guard, Key, Plan, Value, Write};

use crate::path::Bound;
use crate::run::Env;
use crate::unbind::Unbinding;
use crate::view::{View, after, decode};
use crate::{FsError, Halt, inode_state};

/// A version record: a noncurrent version (an earlier version of an object), an item of a trash, or
/// a delete marker.
#[derive(Clone, Debug)]
pub(crate) struct Noncurrent {
    pub(crate) key: Key,
    pub(crate) value: Value,
    pub(crate) id: VersionStamp,
    pub(crate) version: Version,
}

impl Noncurrent {
    pub(crate) fn of(key: Key, value: Value) -> Result<Noncurrent, Halt> {
        let version = decode(&key, &value, Version::decode)?;
        let parts = key::version_parts(&key).map(|(_, id)| id);
        let id = decode(&key, &value, |_, _| parts.ok_or(record::DecodeError::Field("key")))?;
        Ok(Noncurrent { key, value, id, version })
    }

    /// The guard that the record is unchanged.
    pub(crate) fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.value.clone())
    }

    /// The version id that clients use.
    pub(crate) fn named(&self) -> VersionRef {
        if self.version.is_null { VersionRef::Null } else { VersionRef::Id(self.id) }
    }

    /// The dentry that the key gets if this version becomes the current one; `None` for a delete
    /// marker.
    pub(crate) fn dentry(&self) -> Option<Dentry> {
        let VersionBody::Object { ino, self_contained, linked } = self.version.body else {
            return None;
        };
        let version = (!self.version.is_null).then_some(self.id);
        Some(Dentry { self_contained, linked, version, ..Dentry::file(ino) })
    }
}

/// The versions of one key, for plans that add or remove one.
#[derive(Clone, Debug)]
pub(crate) struct KeyVersions {
    bucket: Ino,
    versioning: Versioning,
    /// The key; empty in a bucket without versions and trash.
    object: Vec<u8>,
}

impl KeyVersions {
    /// The versions of a key of this bucket. `object` is called only if the bucket has versions or
    /// a trash.
    pub(crate) fn new(bucket: &Dentry, object: impl FnOnce() -> Vec<u8>) -> KeyVersions {
        let versioning = bucket.versioning;
        let object = if versioning == Versioning::Off { Vec::new() } else { object() };
        KeyVersions { bucket: bucket.ino, versioning, object }
    }

    /// The key of a version's record.
    fn at(&self, id: VersionStamp) -> Key {
        key::version(self.bucket, &self.object, id)
    }

    /// The key of the record with the id of the key's noncurrent null version, which was written
    /// while versioning was not enabled.
    fn null_at(&self) -> Key {
        key::null_version(self.bucket, &self.object)
    }

    /// The range of all version records of the key.
    fn range(&self) -> (Key, Key) {
        key::versions_of(self.bucket, &self.object)
    }

    /// Reads the newest noncurrent versions and markers, at most `limit`.
    pub(crate) fn newest(&self, view: &mut View<'_>, limit: u32) -> Result<Vec<Noncurrent>, Halt> {
        let (start, end) = self.range();
        let found = view.range(start, end, limit)?;
        found.into_iter().map(|found| Noncurrent::of(found.key, found.value)).collect()
    }

    /// Finds a noncurrent version or a marker.
    ///
    /// A noncurrent null version is also found by its id. This matters if a directory with a
    /// current null version was moved here: `null` then means the current version.
    pub(crate) fn find(
        &self,
        view: &mut View<'_>,
        version: VersionRef,
    ) -> Result<Option<Noncurrent>, Halt> {
        let at = match version {
            VersionRef::Id(id) => self.at(id),
            VersionRef::Null => {
                let null_at = self.null_at();
                let Some(value) = view.record(&null_at)? else { return Ok(None) };
                self.at(decode(&null_at, &value, NullVersion::decode)?.0)
            }
        };
        let found = view.record(&at)?.map(|value| Noncurrent::of(at, value)).transpose()?;
        Ok(found.filter(|found| found.version.is_null || version != VersionRef::Null))
    }

    /// Guards that the key has no version record that is newer than this id.
    fn guard_newest(&self, id: VersionStamp, plan: &mut Plan) {
        plan.guards.push(Guard::Empty(self.range().0, after(&self.at(id))));
    }

    /// The id for a new version. It is newer than the current version by at least 2 ns, so that a
    /// null version that becomes noncurrent fits between the two.
    pub(crate) fn fresh(
        &self,
        view: &mut View<'_>,
        env: &Env,
        current: Option<&Dentry>,
    ) -> Result<VersionStamp, Halt> {
        let mut newest = current.and_then(|dentry| dentry.version).map(VersionStamp::time);
        // A refused plan may have guessed wrong that no version is newer. So the newest one is
        // read.
        if view.was_refused() {
            newest = newest.max(self.newest(view, 1)?.first().map(|found| found.id.time()));
        }
        // One nanosecond for the null version between the two, and one for the new version.
        let least = newest.map_or(0, |newest| newest.0.saturating_add(2));
        Ok(VersionStamp::new(Timestamp(env.now.0.max(least)), env.random))
    }

    /// Adds to a plan that the object which `current` binds becomes a noncurrent version (or an
    /// item of the trash), and that a version with the id `next` takes its place. The caller writes
    /// that version.
    fn make_noncurrent(
        &self,
        view: &mut View<'_>,
        env: &Env,
        current: &Dentry,
        next: VersionStamp,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        // A version without an id gets the time directly before that of its successor.
        let before = Timestamp(next.time().0.saturating_sub(1));
        let null_at = self.null_at();
        let (id, is_null) = match current.version {
            Some(id) => (id, false),
            None if self.versioning == Versioning::Trash => {
                (VersionStamp::new(before, env.random), false)
            }
            None => match view.guess(&null_at, None) {
                None => (VersionStamp::new(before, 0), true),
                // A program has created the file while versioning was being enabled. A key has only
                // one noncurrent null version, so this one gets an id. Without the guard, an old
                // hint could make a null version that is the only one lose its name.
                Some(other) => {
                    plan.guards.push(Guard::Equals(null_at.clone(), other));
                    (VersionStamp::new(before, env.random), false)
                }
            },
        };
        if is_null {
            plan.guards.push(Guard::Absent(null_at.clone()));
            plan.writes.push(Write::Put(null_at.clone(), NullVersion(id).encode(&null_at)));
        }
        let Dentry { ino, self_contained, linked, .. } = *current;
        let body = VersionBody::Object { ino, self_contained, linked };
        // A directory that was moved here brings versions whose ids may be older than the newest
        // record. Only the new version must be the newest; the old one takes its place among the
        // others.
        self.guard_newest(VersionStamp::new(before, 0), plan);
        let at = self.at(id);
        if current.version.is_some() {
            plan.guards.push(Guard::Absent(at.clone()));
        }
        let version = Version { body, is_null, since: env.now, seen: None };
        plan.writes.push(Write::Put(at.clone(), version.encode(&at)));
        let bound = BoundVersion { object: self.object.clone(), id };
        inode_state::bind_version(view, (ino, linked), bound, plan)
    }

    /// Adds the removal of the key's noncurrent null version to a plan, if there is one. The null
    /// version is the one that was written while versioning was not enabled; a key has at most one
    /// that is noncurrent.
    fn remove_null(
        &self,
        view: &mut View<'_>,
        plan: &mut Plan,
        unbinding: &mut Unbinding,
    ) -> Result<(), Halt> {
        let null_at = self.null_at();
        let Some(value) = view.guess(&null_at, None) else {
            plan.guards.push(Guard::Absent(null_at));
            return Ok(());
        };
        let at = self.at(decode(&null_at, &value, NullVersion::decode)?.0);
        // The id and the version are from one snapshot, or one of them is a stale hint.
        let found = view.record(&at)?.ok_or(FsError::Contended)?;
        let found = Noncurrent::of(at, found)?;
        plan.guards.push(Guard::Equals(null_at.clone(), value));
        plan.writes.push(Write::Delete(null_at));
        plan.guards.push(found.guard());
        plan.writes.push(Write::Delete(found.key.clone()));
        if let Some(dentry) = found.dentry() {
            self.release(view, &found, &dentry, plan)?;
            unbinding.take(&dentry);
        }
        Ok(())
    }

    /// Adds to a plan that a new object replaces the current one, if any. Returns the id of the new
    /// object, or `None` if it has none. The planner guards the dentry of the key.
    ///
    /// | bucket | the old object | the new object |
    /// |---|---|---|
    /// | no versions | is removed | has no id |
    /// | trash | becomes an item of the trash | has no id |
    /// | suspended | becomes noncurrent, or is removed if it is the null version | is the null version |
    /// | enabled | becomes noncurrent | gets an id |
    pub(crate) fn supersede(
        &self,
        view: &mut View<'_>,
        env: &Env,
        current: Option<&Dentry>,
        plan: &mut Plan,
        unbinding: &mut Unbinding,
    ) -> Result<Option<VersionStamp>, Halt> {
        match (self.versioning, current) {
            (Versioning::Off, current) => {
                current.into_iter().for_each(|dentry| unbinding.take(dentry));
                Ok(None)
            }
            // S3 clients see no versions here, so the new object has no id.
            (Versioning::Trash, current) => {
                if let Some(current) = current {
                    let next = self.fresh(view, env, Some(current))?;
                    self.make_noncurrent(view, env, current, next, plan)?;
                }
                Ok(None)
            }
            (Versioning::Suspended, current) => {
                match current {
                    Some(current @ Dentry { version: Some(_), .. }) => {
                        let next = self.fresh(view, env, Some(current))?;
                        self.make_noncurrent(view, env, current, next, plan)?;
                    }
                    // The current null version is replaced, and not kept.
                    Some(null) => unbinding.take(null),
                    None => {}
                }
                // A directory that was moved here may have brought a current null version, in
                // addition to a noncurrent one.
                self.remove_null(view, plan, unbinding)?;
                Ok(None)
            }
            (Versioning::Enabled, current) => {
                let next = self.fresh(view, env, current)?;
                match current {
                    Some(current) => self.make_noncurrent(view, env, current, next, plan)?,
                    None => self.guard_newest(next, plan),
                }
                Ok(Some(next))
            }
        }
    }

    /// Adds to a plan that the key is deleted. Returns the version id of the delete marker, or
    /// `None` if the bucket does not show versions. The planner guards the dentry of the key.
    pub(crate) fn delete(
        &self,
        view: &mut View<'_>,
        env: &Env,
        current: Option<&Dentry>,
        plan: &mut Plan,
        unbinding: &mut Unbinding,
    ) -> Result<Option<VersionRef>, Halt> {
        if !self.versioning.is_shown() {
            return self.supersede(view, env, current, plan, unbinding).map(|_| None);
        }
        let id = self.fresh(view, env, current)?;
        let (is_null, named) = match self.versioning {
            Versioning::Off | Versioning::Trash => return Ok(None),
            Versioning::Enabled => (false, VersionRef::Id(id)),
            Versioning::Suspended => (true, VersionRef::Null),
        };
        match current {
            Some(current) if is_null && current.version.is_none() => {
                unbinding.take(current);
                self.guard_newest(id, plan);
                self.remove_null(view, plan, unbinding)?;
            }
            current => {
                match current {
                    Some(current) => self.make_noncurrent(view, env, current, id, plan)?,
                    None => self.guard_newest(id, plan),
                }
                if is_null {
                    self.remove_null(view, plan, unbinding)?;
                }
            }
        }
        self.add_marker(env, id, plan);
        Ok(Some(named))
    }

    /// Adds to a plan that an object of another key is moved to this key. `leaving` is the object
    /// that has the key now and moves away, if any. Returns the version id that the moved object
    /// gets here, or `None` if it gets none. In a bucket with suspended versioning, the moved
    /// object replaces a noncurrent null version.
    pub(crate) fn arrive(
        &self,
        view: &mut View<'_>,
        env: &Env,
        leaving: Option<&Dentry>,
        plan: &mut Plan,
        unbinding: &mut Unbinding,
    ) -> Result<Option<VersionStamp>, Halt> {
        match self.versioning {
            Versioning::Off | Versioning::Trash => Ok(None),
            Versioning::Enabled => {
                let id = self.fresh(view, env, leaving)?;
                self.guard_newest(id, plan);
                Ok(Some(id))
            }
            Versioning::Suspended => {
                self.remove_null(view, plan, unbinding)?;
                Ok(None)
            }
        }
    }

    /// Adds to a plan that the object of this key moves to another key: a delete marker, the record
    /// of a deletion, is added here. Does nothing if the bucket does not show versions.
    pub(crate) fn leave(
        &self,
        view: &mut View<'_>,
        env: &Env,
        leaving: &Dentry,
        plan: &mut Plan,
        unbinding: &mut Unbinding,
    ) -> Result<(), Halt> {
        if !self.versioning.is_shown() {
            return Ok(());
        }
        let id = self.fresh(view, env, Some(leaving))?;
        self.guard_newest(id, plan);
        if self.versioning == Versioning::Suspended {
            self.remove_null(view, plan, unbinding)?;
        }
        self.add_marker(env, id, plan);
        Ok(())
    }

    /// Adds a delete marker (the record of a deletion) with this id to a plan. With suspended
    /// versioning it becomes the null version.
    fn add_marker(&self, env: &Env, id: VersionStamp, plan: &mut Plan) {
        let is_null = self.versioning == Versioning::Suspended;
        // The id of a marker is newer than all others, which the caller guards.
        let at = self.at(id);
        let body = VersionBody::Marker;
        let marker = Version { body, is_null, since: env.now, seen: None };
        plan.writes.push(Write::Put(at.clone(), marker.encode(&at)));
        if is_null {
            let null_at = self.null_at();
            // The plan may delete the record of an older null version. One plan must not write a
            // record twice.
            plan.writes.retain(|write| *write != Write::Delete(null_at.clone()));
            plan.writes.push(Write::Put(null_at.clone(), NullVersion(id).encode(&null_at)));
        }
    }

    /// Adds the removal of a version record to a plan. The planner removes the content.
    pub(crate) fn remove(
        &self,
        view: &mut View<'_>,
        found: &Noncurrent,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        plan.guards.push(found.guard());
        plan.writes.push(Write::Delete(found.key.clone()));
        if found.version.is_null {
            plan.writes.push(Write::Delete(self.null_at()));
        }
        match found.dentry() {
            Some(dentry) => self.release(view, found, &dentry, plan),
            None => Ok(()),
        }
    }

    /// Adds to a plan that the version record does not bind its inode any more.
    fn release(
        &self,
        view: &mut View<'_>,
        found: &Noncurrent,
        dentry: &Dentry,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let bound = BoundVersion { object: self.object.clone(), id: found.id };
        inode_state::release_version(view, (dentry.ino, dentry.linked), &bound, plan)
    }

    /// Adds to a plan that the newest version becomes the current one. Returns the new dentry of
    /// the key, or `None` if there is no version or the newest is a delete marker. `gone` is the
    /// newest record if this plan removes it.
    pub(crate) fn restore_newest(
        &self,
        view: &mut View<'_>,
        gone: Option<&Noncurrent>,
        plan: &mut Plan,
    ) -> Result<Option<Dentry>, Halt> {
        // If the newest record is removed, the second newest is needed.
        let mut newest = self.newest(view, 1 + u32::from(gone.is_some()))?.into_iter();
        // A delete marker of a key without a dentry is added without a write to any dentry. So the
        // guard of the dentry does not cover it, and this guard of the range does.
        let (start, end) = self.range();
        let mut next = newest.next();
        let first = next.as_ref().map_or(end, |next| next.key.clone());
        plan.guards.push(Guard::Empty(start, first));
        if gone.is_some() {
            next = newest.next();
        }
        let Some(next) = next else { return Ok(None) };
        let Some(dentry) = next.dentry() else {
            plan.guards.push(next.guard());
            return Ok(None);
        };
        self.remove(view, &next, plan)?;
        Ok(Some(rebind(view, dentry, plan)?))
    }
}

/// Prepares a version's file for a new dentry: clears its mark "self-contained", by which a plan
/// could delete its inode without reading it. Returns the new dentry.
///
/// The key of a version may lead through another directory than before. For example, a client
/// deletes the only key below a directory, a program removes the directory, and the client removes
/// the delete marker. A program that has the file open knows only the old directory, and its writes
/// must not depend on a dentry there.
pub(crate) fn rebind(view: &mut View<'_>, dentry: Dentry, plan: &mut Plan) -> Result<Dentry, Halt> {
    if dentry.self_contained.is_none() {
        return Ok(dentry);
    }
    let at = key::inode(dentry.ino);
    let record = view.record(&at)?.ok_or(FsError::Contended)?;
    let mut inode = decode(&at, &record, Inode::decode)?;
    if let InodeBody::File(file) = &mut inode.body {
        file.marked_in_dentry = false;
    }
    plan.guards.push(Guard::Equals(at.clone(), record));
    plan.writes.push(Write::Put(at.clone(), inode.encode(&at)));
    Ok(Dentry { self_contained: None, ..dentry })
}

/// The dentry, if it binds a file.
pub(crate) fn file_of(bound: &Bound) -> Option<&Dentry> {
    bound.is_file().then_some(&bound.dentry)
}
