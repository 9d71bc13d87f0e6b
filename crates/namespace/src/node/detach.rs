//! Moving the noncurrent versions of a file to an inode of their own.
//!
//! A noncurrent version is an earlier version of an object, and never changes. If the current file
//! shares its inode with versions, it cannot be written to until the versions have a copy. The copy
//! names the same blocks, so no data is copied.

use record::{Ino, Inode, InodeBody, Superseded, Version, VersionBody, key};
use store::{Guard, Key, Plan, Value, Write};

use super::keeping;
use crate::content_map::pages_made;
use crate::inode_state::InodeState;
use crate::object::{self_contained, staged_inline_mark};
use crate::run::{Env, Planner, Step};
use crate::stage::{guard_absent, guard_unused};
use crate::unbind::orphan;
use crate::view::{View, decode};
use crate::{Assumption, FsError, Halt};

/// Moves the versions that bind a file, that is, the records of noncurrent versions and of items of
/// a trash, to a copy of its inode, so that the file may change. One commit if the version records
/// are cached. Does nothing if no version binds the file.
///
/// For example, a program has an object open, and a PUT overwrites the object's key. When the
/// program writes, the noncurrent version moves to the copy. The program's file keeps its inode
/// number. It is unlinked, or has only the hard links that remain.
///
/// # Errors
/// `SourceChanged` if the file's record is not the one from which the copy was made.
/// `QuotaExceeded` if the bytes of the copy exceed the bucket's quota.
#[derive(Clone, Debug)]
pub struct DetachVersions<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// The inode's record from which `copy` was made.
    pub record: &'a Value,
    /// The inode number of the copy.
    pub copy_ino: Ino,
    /// The copy: the same attributes, headers and content.
    pub copy: &'a Inode,
    /// Further writes for the copy: pages of its content map (the list of its runs of blocks),
    /// share records of blocks that it shares with the file, and long extended attributes.
    pub writes: &'a [Write],
}

impl Planner for DetachVersions<'_> {
    /// True if versions were moved; false if no version binds the file.
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<bool>, Halt> {
        let mut plan = Plan::default();
        let inode_key = key::inode(self.ino);
        let unchanged = Assumption {
            key: inode_key.clone(),
            value: self.record.clone(),
            otherwise: FsError::SourceChanged,
        };
        Assumption::guard_all(&[unchanged], view, &mut plan)?;
        let mut inode = decode(&inode_key, self.record, Inode::decode)?;
        let at = key::superseded(self.ino);
        // The answer depends on this record, so a guess is not enough.
        view.record(&at)?;
        let state = InodeState::find(view, env, self.ino, &inode)?;
        state.guard(&mut plan);
        let Some((_, superseded)) = state.superseded() else { return Ok(Step::Done(false)) };

        let copy = self.copy_of(superseded)?;
        let has_mark = copy.file().is_some_and(|file| file.marked_in_dentry);
        let mark = if has_mark { self_contained(&copy) } else { None };
        let linked = superseded.versions.len() > 1;
        self.move_versions(view, (&inode, superseded), (mark, linked), &mut plan)?;

        // The copy and its list of versions are new records. A store that was restored to an
        // earlier state may lease a used number again, so each of them is guarded to be absent.
        let copy_key = key::inode(self.copy_ino);
        guard_absent(&copy_key, view, &mut plan)?;
        guard_unused(self.copy_ino, self.writes, view, &mut plan)?;
        plan.writes.push(Write::Put(copy_key.clone(), copy.encode(&copy_key)));
        let copied = key::superseded(self.copy_ino);
        guard_absent(&copied, view, &mut plan)?;
        plan.writes.push(Write::Put(copied.clone(), superseded.encode(&copied)));
        plan.writes.push(Write::Delete(at));

        let InodeBody::File(file) = &mut inode.body else { return Err(FsError::NoObject.into()) };
        // Inline content that waits for its move into a block needs its mark under the new number,
        // too.
        plan.writes.extend(staged_inline_mark(&file.content, self.copy_ino));
        let bound = u32::try_from(superseded.versions.len()).unwrap_or(u32::MAX);
        let remain = file.links.saturating_sub(bound);
        file.marked_in_dentry = false;
        let (bucket, size) = (inode.bucket, file.size);
        if remain == 0 {
            // The record stays for programs that have the file open. The reaper deletes it when the
            // last of them has closed the file.
            plan.writes.push(orphan(self.ino, bucket));
        } else {
            file.links = remain;
        }
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        let bytes = key::counter(bucket, key::CounterKind::Bytes);
        // Two inodes now have the bytes, so the bucket counts them twice.
        plan.writes.push(Write::Add(bytes, i64::try_from(size).unwrap_or(i64::MAX)));
        plan.writes.extend_from_slice(self.writes);
        keeping::guard_quota(view, bucket, &mut plan)?;
        Ok(Step::Commit(plan, true))
    }
}

impl DetachVersions<'_> {
    /// The copy as it is stored: its link count is the number of versions, its pages are counted
    /// anew, and it is marked as self-contained if it needs no other records.
    fn copy_of(&self, superseded: &Superseded) -> Result<Inode, FsError> {
        let mut copy = self.copy.clone();
        let InodeBody::File(file) = &mut copy.body else { return Err(FsError::NoObject) };
        file.links = u32::try_from(superseded.versions.len()).unwrap_or(u32::MAX);
        file.pages_made = pages_made(&file.content);
        file.marked_in_dentry = false;
        let has_mark = self_contained(&copy).is_some();
        if let InodeBody::File(file) = &mut copy.body {
            file.marked_in_dentry = has_mark;
        }
        Ok(copy)
    }

    /// Adds the rewrite of each version record to a plan: it binds the copy from now on.
    fn move_versions(
        &self,
        view: &mut View<'_>,
        (inode, superseded): (&Inode, &Superseded),
        (self_contained, linked): (Option<u64>, bool),
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let keys: Vec<Key> = superseded
            .versions
            .iter()
            .map(|version| key::version(inode.bucket, &version.object, version.id))
            .collect();
        let found = view.many(&keys)?;
        for (at, value) in keys.into_iter().zip(found) {
            // The list of versions and the records are from one snapshot, or one of them is a stale
            // hint. Then the plan is made again.
            let value = value.ok_or(FsError::Contended)?;
            let version = decode(&at, &value, Version::decode)?;
            let body = VersionBody::Object { ino: self.copy_ino, self_contained, linked };
            plan.guards.push(Guard::Equals(at.clone(), value));
            plan.writes.push(Write::Put(at.clone(), Version { body, ..version }.encode(&at)));
        }
        Ok(())
    }
}
