//! Translates attributes and times between the kernel's form and that of `files`.
//!
//! For example, a mount with `--umask 077 --uid 7` shows each file with the owner 7 and the mode
//! 600 or 700.

use files::{NodeKind, NodeStat, SetNode};
use fuse::{AttributeChanges, FileTime, NodeAttributes};
use record::Timestamp;
use volume::{AttributeChange, SetTime};

/// The permission bits of `st_mode`.
pub(super) const PERMISSION_BITS: u32 = 0o7777;

/// The permission of a file's owner to execute it.
const OWNER_EXECUTES: u32 = 0o100;

/// The preferred size in bytes of reads and writes (`st_blksize`).
const PREFERRED_BYTES: u32 = 128 << 10;

/// Returns the changes of a node's attributes that a SETATTR request of the kernel asks for.
pub(super) fn set_node(changes: &AttributeChanges) -> SetNode {
    let time = |time: fuse::TimeChange| match time {
        fuse::TimeChange::Now => SetTime::Now,
        fuse::TimeChange::At(time) => SetTime::At(timestamp(time)),
    };
    // chown(2) clears the set-user-ID and set-group-ID bits, as on a local file system.
    let chowns = changes.uid.is_some() || changes.gid.is_some();
    SetNode {
        attributes: AttributeChange {
            mode: changes.mode.map(|mode| mode & PERMISSION_BITS),
            uid: changes.uid,
            gid: changes.gid,
            accessed: changes.atime.map(time),
            modified: changes.mtime.map(time),
            drop_rights: changes.kill_suidgid || chowns,
        },
        size: changes.size_bytes,
    }
}

const NANOSECONDS: i64 = 1_000_000_000;

/// Returns a timestamp of the volume in the kernel's form.
pub(super) fn file_time(time: Timestamp) -> FileTime {
    let nanoseconds = time.0.rem_euclid(NANOSECONDS);
    FileTime {
        seconds: time.0.div_euclid(NANOSECONDS),
        nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
    }
}

/// Returns a time of the kernel. Times out of range become the nearest timestamp.
pub(super) fn timestamp(time: FileTime) -> Timestamp {
    let nanoseconds = time.seconds.saturating_mul(NANOSECONDS);
    Timestamp(nanoseconds.saturating_add(i64::from(time.nanoseconds)))
}

/// Returns the type bits of `st_mode`.
pub(super) fn kind_bits(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::Fifo => 0o010_000,
        NodeKind::Character => 0o020_000,
        NodeKind::Directory => 0o040_000,
        NodeKind::Block => 0o060_000,
        NodeKind::File => 0o100_000,
        NodeKind::Symlink => 0o120_000,
        NodeKind::Socket => 0o140_000,
    }
}

/// The owner and permissions that a mount shows instead of each file's own. `None` keeps the file's
/// own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownAs {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    /// The permissions that files are shown without. All others are shown for all users, except the
    /// permission to execute a file whose owner does not have it.
    pub(super) umask: Option<u32>,
}

impl ShownAs {
    /// Returns true if files are shown unchanged. Otherwise access control lists have no effect.
    pub(super) fn is_unchanged(&self) -> bool {
        *self == ShownAs::default()
    }

    /// Returns the attributes of a node, as this mount shows them.
    pub(super) fn attributes(&self, stat: &NodeStat) -> NodeAttributes {
        let mut shown = attributes(stat);
        shown.uid = self.uid.unwrap_or(shown.uid);
        shown.gid = self.gid.unwrap_or(shown.gid);
        if let Some(umask) = self.umask {
            let all = match stat.kind {
                NodeKind::Directory => 0o777,
                NodeKind::File if stat.mode & OWNER_EXECUTES != 0 => 0o777,
                // The mode of a symbolic link has no effect.
                NodeKind::Symlink => return shown,
                NodeKind::File
                | NodeKind::Fifo
                | NodeKind::Socket
                | NodeKind::Character
                | NodeKind::Block => 0o666,
            };
            shown.mode = kind_bits(stat.kind) | all & !umask;
        }
        shown
    }
}

/// Returns the attributes of a node with its own owner and mode.
fn attributes(stat: &NodeStat) -> NodeAttributes {
    NodeAttributes {
        inode: stat.ino.0,
        size_bytes: stat.size,
        blocks: stat.blocks,
        atime: file_time(stat.accessed),
        mtime: file_time(stat.modified),
        ctime: file_time(stat.changed),
        mode: kind_bits(stat.kind) | stat.mode,
        links: stat.links,
        uid: stat.uid,
        gid: stat.gid,
        rdev: stat.device,
        block_bytes: PREFERRED_BYTES,
    }
}

#[cfg(test)]
mod tests;
