//! The last attributes of directories that programs have seen, for directories that are removed
//! later.

use quick_cache::sync::Cache;
use record::{Ino, Timestamp};

use crate::attributes::{NodeKind, NodeStat};

/// The maximum number of directories that are remembered. If one was evicted and is then removed, a
/// program in it gets `ESTALE`.
const SEEN_MAX: usize = 1 << 15;

/// The permission bits that are shown for a directory that was removed while no process served the
/// mount, so that its own are not known: each program may learn that it has no names.
const LOST_MODE: u32 = 0o777;

/// The attributes of each directory as last returned to a program.
#[derive(Debug)]
pub(crate) struct SeenDirectories(Cache<Ino, NodeStat>);

impl Default for SeenDirectories {
    fn default() -> SeenDirectories {
        SeenDirectories(Cache::new(SEEN_MAX))
    }
}

impl SeenDirectories {
    /// Remembers attributes that a program gets, if they are of a directory.
    pub(crate) fn note(&self, stat: &NodeStat) {
        if stat.kind == NodeKind::Directory {
            self.0.insert(stat.ino, *stat);
        }
    }

    /// Remembers an open directory whose record was deleted while no process served the mount. Its
    /// attributes are not known, so programs see empty ones.
    pub(crate) fn note_lost(&self, ino: Ino) {
        let at = Timestamp(0);
        self.note(&NodeStat {
            ino,
            kind: NodeKind::Directory,
            mode: LOST_MODE,
            uid: 0,
            gid: 0,
            device: 0,
            size: 0,
            blocks: 0,
            links: 0,
            accessed: at,
            modified: at,
            changed: at,
            created: at,
            volatile_attributes: true,
            volatile_name: false,
        });
    }

    /// Returns the attributes that programs get for a directory after it was removed: the last seen
    /// ones with 0 links. `None` if no program has seen the directory.
    pub(crate) fn removed(&self, ino: Ino) -> Option<NodeStat> {
        let seen = self.0.get(&ino)?;
        Some(NodeStat { links: 0, volatile_attributes: true, ..seen })
    }
}
