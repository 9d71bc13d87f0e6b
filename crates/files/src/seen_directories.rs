//! Attributes of directories as programs saw them last.

use quick_cache::sync::Cache;
use record::{Ino, Timestamp};

use crate::attributes::{NodeKind, NodeStat};

/// Directories whose attributes are remembered. A program in a directory that many others have pushed
/// out meanwhile gets `ESTALE`.
const SEEN_MAX: usize = 1 << 15;

/// The mode of a directory that was removed while no process served its mount: any program may find out
/// that it has no names.
const LOST_MODE: u32 = 0o777;

/// Attributes of directories as programs saw them last.
#[derive(Debug)]
pub(crate) struct SeenDirectories(Cache<Ino, NodeStat>);

impl Default for SeenDirectories {
    fn default() -> SeenDirectories {
        SeenDirectories(Cache::new(SEEN_MAX))
    }
}

impl SeenDirectories {
    /// Takes note of a node that a program sees, if it is a directory.
    pub(crate) fn note(&self, stat: &NodeStat) {
        if stat.kind == NodeKind::Directory {
            self.0.insert(stat.ino, *stat);
        }
    }

    /// Takes note of a directory that a program has open, and of which nothing is known any more.
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

    /// The attributes of a directory that was removed, if a program saw it before.
    pub(crate) fn removed(&self, ino: Ino) -> Option<NodeStat> {
        let seen = self.0.get(&ino)?;
        Some(NodeStat { links: 0, volatile_attributes: true, ..seen })
    }
}
