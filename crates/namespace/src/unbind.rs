//! Removing names from inodes.
//!
//! One plan may remove several names, and several names of one inode. This module writes each inode
//! once. A dentry that is not marked as linked is the only name, so its inode need not be read. For
//! a linked dentry the link count of the inode is decremented.
//!
//! For example, a DELETE of a 2 KiB object, whose dentry is marked as self-contained, deletes the
//! inode at once. A DELETE of a larger object writes an orphan, and the reaper deletes inode and
//! blocks later.

use std::collections::BTreeMap;

use record::{Dentry, Ino, Inode, Orphan, key};
use store::{Guard, Plan, Write};

use crate::Halt;
use crate::run::Env;
use crate::view::{View, decode};

/// The names that a plan removes, grouped by inode, so that each inode is changed once. The planner
/// adds the guards and deletions of the dentries itself.
#[derive(Debug)]
pub(crate) struct Unbinding {
    bucket: Ino,
    /// Inodes whose only name is removed. The value is the size in bytes if the dentry marks the
    /// file as self-contained: then the inode has no further records and is deleted at once.
    ending: BTreeMap<Ino, Option<u64>>,
    /// Inodes that may have other names, with the number of names that are removed.
    linked: BTreeMap<Ino, u32>,
}

/// The result of an [`Unbinding`].
#[derive(Debug, Default)]
pub(crate) struct Unbound {
    /// The bytes of inodes that are deleted at once, which the bucket must not count any more.
    pub(crate) bytes: i64,
    /// The inodes whose last name was removed.
    pub(crate) ended: Vec<Ino>,
}

impl Unbinding {
    /// No names yet. `bucket` is the inode number of the bucket that counts the bytes of the
    /// inodes.
    pub(crate) fn new(bucket: Ino) -> Unbinding {
        Unbinding { bucket, ending: BTreeMap::new(), linked: BTreeMap::new() }
    }

    /// Adds the removal of a name. Not for directories.
    pub(crate) fn take(&mut self, name: &Dentry) {
        // If two names of one inode are not both marked as linked, they are hints of different
        // times. One of their guards will fail. Until then they count as two names.
        let ended = self.ending.remove(&name.ino).is_some();
        if name.linked || ended || self.linked.contains_key(&name.ino) {
            *self.linked.entry(name.ino).or_default() += 1 + u32::from(ended);
        } else {
            self.ending.insert(name.ino, name.self_contained);
        }
    }

    /// Adds the changes of all inodes to a plan.
    ///
    /// A self-contained file, which has no blocks and no other records, is deleted at once. This is
    /// safe for concurrent readers, because a reader has the complete content when it has the
    /// inode. All other inodes become orphans, and the reaper reads and deletes them later, so that
    /// the foreground need not.
    pub(crate) fn finish(
        self,
        view: &mut View<'_>,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<Unbound, Halt> {
        let keys: Vec<_> = self.linked.keys().map(|ino| key::inode(*ino)).collect();
        let records = view.many(&keys)?;
        let (mut bytes, mut ended) = (0_i64, Vec::new());
        for (ino, self_contained) in self.ending {
            ended.push(ino);
            match self_contained {
                Some(size) => {
                    bytes = bytes.saturating_add(i64::try_from(size).unwrap_or(i64::MAX));
                    plan.writes.push(Write::Delete(key::inode(ino)));
                }
                None => plan.writes.push(orphan(ino, self.bucket)),
            }
        }
        for (((ino, taken), at), record) in self.linked.into_iter().zip(keys).zip(records) {
            // The hints have a dentry but not its inode. The dentry is guarded, so the inode exists
            // and this guard fails. The refusal returns the inode, and the next pass uses it.
            let Some(record) = record else {
                plan.guards.push(Guard::Absent(at));
                continue;
            };
            let mut inode = decode(&at, &record, Inode::decode)?;
            let guard = Guard::Equals(at.clone(), record);
            if !plan.guards.contains(&guard) {
                plan.guards.push(guard);
            }
            match inode.links_mut() {
                Some(links) if *links > taken => {
                    *links -= taken;
                    inode.attributes.status_changed = env.now;
                    plan.writes.push(Write::Put(at.clone(), inode.encode(&at)));
                }
                _ => {
                    ended.push(ino);
                    plan.writes.push(orphan(ino, self.bucket));
                }
            }
        }
        Ok(Unbound { bytes, ended })
    }
}

/// The write of an orphan record: it says that the inode has no name any more, and the reaper
/// deletes the inode with its blocks. `bucket` counts its bytes.
pub(crate) fn orphan(ino: Ino, bucket: Ino) -> Write {
    let key = key::orphan(ino);
    let value = Orphan::File { bucket }.encode(&key);
    Write::Put(key, value)
}
