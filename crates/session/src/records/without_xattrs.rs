//! Inodes that certainly have no extended attributes.
//!
//! A program that lists a directory, for example `ls -l`, asks for the access control list and the
//! label of each file, and hardly any file has one. The listing has read only the heads of
//! the inodes. A head shows if there are extended attributes, so this set answers without a read.
//! Other facts of a head are not kept, because the kernel of the mount caches them.
//!
//! An inode is in the set for the generation in which its head was current, until a batch that
//! writes the inode is sent.

use std::fmt;
use std::sync::OnceLock;

use quick_cache::sync::Cache;
use record::{Ino, InodeHead};
use store::Key;

use super::currency::Generation;

/// Most inodes in the set.
const INODES_MAX: usize = 1 << 17;

/// The inodes that are known to have no extended attributes. Nothing is recorded before
/// [`InodesWithoutXattrs::begin`], since only mounts ask.
#[derive(Default)]
pub(super) struct InodesWithoutXattrs(OnceLock<Cache<Ino, Generation>>);

impl fmt::Debug for InodesWithoutXattrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InodesWithoutXattrs").field(&self.0.get().map(Cache::len)).finish()
    }
}

impl InodesWithoutXattrs {
    /// Begins to record inodes.
    pub(super) fn begin(&self) {
        self.0.get_or_init(|| Cache::new(INODES_MAX));
    }

    /// Returns true if the inode certainly has no extended attributes in `generation`, a period
    /// without other sessions.
    pub(super) fn has_no_xattrs(&self, ino: Ino, generation: Generation) -> bool {
        self.0.get().and_then(|inodes| inodes.get(&ino)) == Some(generation)
    }

    /// Records the inode if `begin`, the first bytes of its record, shows no extended attributes.
    /// `current_in` returns the generation in which the record is certainly as it was read.
    pub(super) fn learn(&self, inode: &Key, begin: &[u8], current_in: impl Fn() -> Generation) {
        let Some(inodes) = self.0.get() else { return };
        if InodeHead::decode(inode, begin).is_ok_and(|head| !head.has_xattrs) {
            let current_in = current_in();
            if current_in != Generation::NONE {
                inodes.insert(Ino(inode.partition()), current_in);
            }
        }
    }

    /// Removes the inode of a record that changes or has changed.
    pub(super) fn forget(&self, key: &Key) {
        if let Some(inodes) = self.0.get()
            && key.space() == record::key::space::INODE
        {
            inodes.remove(&Ino(key.partition()));
        }
    }

    /// Removes everything.
    pub(super) fn clear(&self) {
        if let Some(inodes) = self.0.get() {
            inodes.clear();
        }
    }
}
