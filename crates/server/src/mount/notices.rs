//! Taking back from the kernel what it remembers and is not so any more.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use fuse::{NodeId, Notice, NoticeQueue};
use record::Ino;
use tokio::sync::oneshot;
use volume::{NodeChanges, NodeWatch};

/// Notices to the kernel of one mount.
#[derive(Debug)]
pub(super) struct Notices {
    pub(super) queue: NoticeQueue,
    /// Which directory the kernel calls its root.
    pub(super) root: Ino,
}

impl Notices {
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
        // What the queue has no room for, the kernel forgets by itself in a moment.
        if notices.into_iter().all(|notice| self.queue.push(notice).is_ok()) {
            let _full_or_gone = self.queue.push_with(last, move |_taken| {
                let _nobody_waits = done.map(|done| done.send(()));
            });
        }
    }

    fn all_changed(&self) {
        // Attributes run out by themselves, in a moment.
        let _full_or_gone = self.queue.push(Notice::IncreaseEpoch);
    }
}
