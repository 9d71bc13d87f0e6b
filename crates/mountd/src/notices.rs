//! Invalidation of the kernel's caches when another process changes the volume.
//!
//! The volume reports changed names and nodes, and this module queues the FUSE notifications. For
//! example, after a gateway has replaced an object, the kernel drops the pages and attributes of
//! its file.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use fuse::{NodeId, Notice, NoticeQueue};
use record::Ino;
use tokio::sync::oneshot;
use volume::{NodeChanges, NodeWatch};

/// The queue of notifications to the kernel of one mount. Each one asks the kernel to drop cached
/// names, attributes or pages.
#[derive(Debug)]
pub(super) struct Notices {
    pub(super) queue: NoticeQueue,
    /// The mounted directory, which the kernel knows as node 1.
    pub(super) root: Ino,
}

impl Notices {
    /// Returns the number that the kernel has for an inode of the volume: 1 for the mounted
    /// directory, otherwise the inode's own number.
    fn node(&self, ino: Ino) -> NodeId {
        if ino == self.root { NodeId::ROOT } else { NodeId(ino.0) }
    }
}

impl NodeWatch for Notices {
    fn changed(&self, changes: &NodeChanges, done: Option<oneshot::Sender<()>>) {
        let names = changes.names.iter().map(|(directory, name)| {
            let name = OsString::from_vec(name.clone());
            Notice::InvalEntry { parent: self.node(*directory), name }
        });
        let nodes = changes.nodes.iter();
        let nodes =
            nodes.map(|ino| Notice::InvalInode { node: self.node(*ino), offset: 0, length: 0 });
        let mut notices: Vec<Notice> = names.chain(nodes).collect();
        let Some(last) = notices.pop() else { return };
        // `done` is signalled when the kernel has taken the last notification, or when the mount
        // has ended. If the queue is full, `done` is dropped, so the caller waits until the cached
        // entries have timed out, within a second.
        if notices.into_iter().all(|notice| self.queue.push(notice).is_ok()) {
            let _full_or_gone = self.queue.push_with(last, move |_taken| {
                let _caller_gone = done.map(|done| done.send(()));
            });
        }
    }

    fn all_changed(&self) {
        // The new epoch invalidates names. Attributes time out within a second.
        let _full_or_gone = self.queue.push(Notice::IncreaseEpoch);
    }
}
