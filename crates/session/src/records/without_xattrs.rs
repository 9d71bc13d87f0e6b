//! Inodes that certainly have no extended attributes.
//!
//! A program that lists a directory asks of each file in it for access control lists and labels that
//! hardly any has, and of those files only the heads of their records were read. A head says whether
//! there are any. Of heads nothing else is kept: what else they say, the mount's kernel remembers.
//!
//! An inode is bare in the generation in which its head was current, and until a batch is sent that
//! writes it.

use std::fmt;
use std::sync::OnceLock;

use quick_cache::sync::Cache;
use record::{Ino, InodeHead};
use store::Key;

use super::currency::Generation;

/// Inodes that are remembered as bare.
const INODES_MAX: usize = 1 << 17;

/// The inodes that are known to be bare. Nothing is noted before [`InodesWithoutXattrs::begin`]: where nothing
/// is mounted, nobody asks.
#[derive(Default)]
pub(super) struct InodesWithoutXattrs(OnceLock<Cache<Ino, Generation>>);

impl fmt::Debug for InodesWithoutXattrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InodesWithoutXattrs").field(&self.0.get().map(Cache::len)).finish()
    }
}

impl InodesWithoutXattrs {
    /// Begins to take note of them.
    pub(super) fn begin(&self) {
        self.0.get_or_init(|| Cache::new(INODES_MAX));
    }

    /// Whether an inode certainly has no extended attributes in this generation.
    pub(super) fn has_no_xattrs(&self, ino: Ino, generation: Generation) -> bool {
        self.0.get().and_then(|inodes| inodes.get(&ino)) == Some(generation)
    }

    /// Takes note of what an inode's record begins with, and in which generation it is current.
    pub(super) fn learn(&self, inode: &Key, begin: &[u8], current_in: impl Fn() -> Generation) {
        let Some(inodes) = self.0.get() else { return };
        if InodeHead::decode(inode, begin).is_ok_and(|head| !head.has_xattrs) {
            let current_in = current_in();
            if current_in != Generation::NONE {
                inodes.insert(Ino(inode.partition()), current_in);
            }
        }
    }

    /// A record changes, or has changed.
    pub(super) fn forget(&self, key: &Key) {
        if let Some(inodes) = self.0.get()
            && key.space() == record::key::space::INODE
        {
            inodes.remove(&Ino(key.partition()));
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        if let Some(inodes) = self.0.get() {
            inodes.clear();
        }
    }
}
