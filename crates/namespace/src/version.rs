//! Versions: what becomes of the object that a key was bound to, in a bucket that keeps versions.
//!
//! The current version is what the key's dentry binds. Others, and delete markers, stand in records of
//! their own, newest first ([`key::version`]). All of them are older than the current one, and where
//! there is no current one the newest says whether the key was deleted. So a write or a read of the
//! current version looks at no older one, however many there are.
//!
//! Whoever changes the versions of a key guards its dentry, or that there is none. A plan that adds one
//! guards besides that there is no newer one. It mostly has not looked: clocks that differ by more than
//! the time between two writes cost a round trip, not the order.

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

/// A version that is not the current one, as found.
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

    /// The guard that it still stands.
    pub(crate) fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.value.clone())
    }

    /// How clients name it.
    pub(crate) fn named(&self) -> VersionRef {
        if self.version.is_null { VersionRef::Null } else { VersionRef::Id(self.id) }
    }

    /// What its key's dentry said of it, and says if it is the current one again.
    pub(crate) fn dentry(&self) -> Option<Dentry> {
        let VersionBody::Object { ino, self_contained, linked } = self.version.body else {
            return None;
        };
        let version = (!self.version.is_null).then_some(self.id);
        Some(Dentry { self_contained, linked, version, ..Dentry::file(ino) })
    }
}

/// The versions of a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyVersions {
    bucket: Ino,
    versioning: Versioning,
    /// The key; empty in a bucket that never kept versions.
    object: Vec<u8>,
}

impl KeyVersions {
    /// Those of a key of a bucket.
    pub(crate) fn new(bucket: &Dentry, object: impl FnOnce() -> Vec<u8>) -> KeyVersions {
        let versioning = bucket.versioning;
        let object = if versioning == Versioning::Off { Vec::new() } else { object() };
        KeyVersions { bucket: bucket.ino, versioning, object }
    }

    /// Where a version stands.
    fn at(&self, id: VersionStamp) -> Key {
        key::version(self.bucket, &self.object, id)
    }

    /// Where it stands which one is the null version.
    fn null_at(&self) -> Key {
        key::null_version(self.bucket, &self.object)
    }

    /// Where all of them stand.
    fn range(&self) -> (Key, Key) {
        key::versions_of(self.bucket, &self.object)
    }

    /// The newest versions that are not the current one, at most so many.
    pub(crate) fn newest(&self, view: &mut View<'_>, limit: u32) -> Result<Vec<Noncurrent>, Halt> {
        let (start, end) = self.range();
        let found = view.range(start, end, limit)?;
        found.into_iter().map(|found| Noncurrent::of(found.key, found.value)).collect()
    }

    /// The version of this name, if it is not the current one. The id of its place names the null version
    /// too: a directory that was moved may bring a current null version, and then `null` names that one.
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

    /// Guards that no version is newer than this one, which is about to come.
    fn guard_newest(&self, id: VersionStamp, plan: &mut Plan) {
        plan.guards.push(Guard::Empty(self.range().0, after(&self.at(id))));
    }

    /// The id of a version that is made now: it is newer than the one that it takes the place of, and
    /// leaves room for that one's place, if it has no id.
    pub(crate) fn fresh(
        &self,
        view: &mut View<'_>,
        env: &Env,
        current: Option<&Dentry>,
    ) -> Result<VersionStamp, Halt> {
        let mut newest = current.and_then(|dentry| dentry.version).map(VersionStamp::time);
        // A guess was wrong, maybe that there is none newer.
        if view.was_refused() {
            newest = newest.max(self.newest(view, 1)?.first().map(|found| found.id.time()));
        }
        let least = newest.map_or(0, |newest| newest.0.saturating_add(2));
        Ok(VersionStamp::new(Timestamp(env.now.0.max(least)), env.random))
    }

    /// Adds to a plan that the current version becomes one of those before; `next` takes its place.
    fn put_aside(
        &self,
        view: &mut View<'_>,
        env: &Env,
        current: &Dentry,
        next: VersionStamp,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let before = Timestamp(next.time().0.saturating_sub(1));
        let null_at = self.null_at();
        let (id, is_null) = match current.version {
            Some(id) => (id, false),
            None if self.versioning == Versioning::Trash => {
                (VersionStamp::new(before, env.random), false)
            }
            None if view.guess(&null_at, None).is_none() => (VersionStamp::new(before, 0), true),
            // A program has made the file while versioning was being enabled. There can be only one
            // null version, so this one gets an id after all.
            None => (VersionStamp::new(before, env.random), false),
        };
        if is_null {
            plan.guards.push(Guard::Absent(null_at.clone()));
            plan.writes.push(Write::Put(null_at.clone(), NullVersion(id).encode(&null_at)));
        }
        let Dentry { ino, self_contained, linked, .. } = *current;
        let body = VersionBody::Object { ino, self_contained, linked };
        // A directory that was moved brings versions whose ids may be older than the newest record here.
        // Only the version that comes must be the newest: this one takes its place among the others.
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

    /// Adds to a plan that the null version goes, if there is one besides the current version.
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

    /// Adds to a plan what becomes of the object that a new one takes the place of, if there is one;
    /// answers the new one's id, if it is to have one. The guards of the key's dentry are the
    /// planner's.
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
            (Versioning::Trash, current) => {
                if let Some(current) = current {
                    let next = self.fresh(view, env, Some(current))?;
                    self.put_aside(view, env, current, next, plan)?;
                }
                Ok(None)
            }
            (Versioning::Suspended, current) => {
                match current {
                    Some(current @ Dentry { version: Some(_), .. }) => {
                        let next = self.fresh(view, env, Some(current))?;
                        self.put_aside(view, env, current, next, plan)?;
                    }
                    Some(null) => unbinding.take(null),
                    None => {}
                }
                // A directory that was moved here may have brought a second null version.
                self.remove_null(view, plan, unbinding)?;
                Ok(None)
            }
            (Versioning::Enabled, current) => {
                let next = self.fresh(view, env, current)?;
                match current {
                    Some(current) => self.put_aside(view, env, current, next, plan)?,
                    None => self.guard_newest(next, plan),
                }
                Ok(Some(next))
            }
        }
    }

    /// Adds to a plan that the key is deleted; answers how clients name the marker that says so, if
    /// the bucket keeps versions. The guards of the key's dentry are the planner's.
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
                    Some(current) => self.put_aside(view, env, current, id, plan)?,
                    None => self.guard_newest(id, plan),
                }
                if is_null {
                    self.remove_null(view, plan, unbinding)?;
                }
            }
        }
        self.mark(env, id, plan);
        Ok(Some(named))
    }

    /// Adds to a plan that an object comes to the key which was bound to something else, and that what
    /// has the key, if anything, goes elsewhere; answers the id that it has here, if it is to have one.
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

    /// Adds to a plan that the object that has the key goes elsewhere: a marker says that it was
    /// deleted.
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
        self.mark(env, id, plan);
        Ok(())
    }

    /// Adds to a plan the marker of this id.
    fn mark(&self, env: &Env, id: VersionStamp, plan: &mut Plan) {
        let is_null = self.versioning == Versioning::Suspended;
        let at = self.at(id);
        let body = VersionBody::Marker;
        let marker = Version { body, is_null, since: env.now, seen: None };
        plan.writes.push(Write::Put(at.clone(), marker.encode(&at)));
        if is_null {
            let null_at = self.null_at();
            plan.writes.retain(|write| *write != Write::Delete(null_at.clone()));
            plan.writes.push(Write::Put(null_at.clone(), NullVersion(id).encode(&null_at)));
        }
    }

    /// Adds to a plan that a version goes which is not the current one. Its content is the planner's.
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

    /// Adds to a plan that a version record no longer binds its inode.
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

    /// Adds to a plan that the newest version becomes the current one, and does not stand among the
    /// others any more. Answers what the key's dentry says then; nothing if there is none, or it is a
    /// marker. `gone`, the newest one, goes with this plan.
    pub(crate) fn bring_back(
        &self,
        view: &mut View<'_>,
        gone: Option<&Noncurrent>,
        plan: &mut Plan,
    ) -> Result<Option<Dentry>, Halt> {
        let mut newest = self.newest(view, 1 + u32::from(gone.is_some()))?.into_iter();
        // Markers come without the key's dentry being written. So none may have come since.
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
        Ok(Some(bound_again(view, dentry, plan)?))
    }
}

/// Adds to a plan that a file no longer relies on the name by which programs have found it. Returns the
/// dentry that binds the file again.
///
/// The key of a version can lead through another directory than before. For example, a client deletes the
/// only key below a directory, a program removes the directory, and the client removes the marker. A
/// program that has the file open knows the old directory only, and its writes must not depend on it.
pub(crate) fn bound_again(
    view: &mut View<'_>,
    dentry: Dentry,
    plan: &mut Plan,
) -> Result<Dentry, Halt> {
    if dentry.self_contained.is_none() {
        return Ok(dentry);
    }
    let at = key::inode(dentry.ino);
    let record = view.record(&at)?.ok_or(FsError::Contended)?;
    let mut inode = decode(&at, &record, Inode::decode)?;
    if let InodeBody::File(file) = &mut inode.body {
        file.told_by_name = false;
    }
    plan.guards.push(Guard::Equals(at.clone(), record));
    plan.writes.push(Write::Put(at.clone(), inode.encode(&at)));
    Ok(Dentry { self_contained: None, ..dentry })
}

/// What a file's dentry says.
pub(crate) fn file_of(bound: &Bound) -> Option<&Dentry> {
    bound.is_file().then_some(&bound.dentry)
}
