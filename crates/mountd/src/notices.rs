//! Invalidation of the kernel's caches when another process changes the volume.
//!
//! The volume reports changed names and nodes, and this module queues the FUSE notifications. For
//! example, after a gateway has replaced an object, the kernel drops the pages and attributes of
//! its file.
//!
//! A peer that gives notice of a change waits until the kernel answers no longer from its caches
//! ([`NodeWatch::peer_changes`]):
//!
//! - The invalidation of a name waits for the lock of its directory. A change of this mount may
//!   hold the lock and wait for the same peer. So after [`DIRECTORY_PATIENCE`] a new epoch
//!   invalidates all names, without a lock.
//! - The invalidation of attributes waits for no lock, so it has a queue of its own. The kernel
//!   numbers it, and ignores attributes of replies to earlier requests.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuse::{KernelSession, NodeId, Notice, NoticeQueue, Notifier};
use record::Ino;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use volume::{Acknowledge, NodeChanges, NodeWatch};

use crate::recent_nodes::RecentNodes;

/// The time for which the notice of a peer waits for the locks of directories.
const DIRECTORY_PATIENCE: Duration = Duration::from_millis(5);

/// After this time the kernel's caches have no answer that was given before the wait. It is shorter
/// than `session::LEASE_PROMISE`, after which the waiting peer continues without an
/// acknowledgement.
const EXPIRED_AFTER: Duration = Duration::from_millis(700);

/// An offset that keeps the pages of a node.
const KEEP_PAGES: i64 = -1;

/// The queues of notifications to the kernel of one mount. Each one asks the kernel to drop cached
/// names, attributes or pages.
#[derive(Debug)]
pub(super) struct Notices {
    /// Notifications that may wait for a lock of the kernel.
    queue: NoticeQueue,
    /// Notifications of attributes, which wait for no lock.
    attributes: NoticeQueue,
    /// Writes a new epoch, which waits for no lock.
    notifier: Notifier,
    /// The mounted directory, which the kernel knows as node 1.
    root: Ino,
    recent_nodes: Arc<RecentNodes>,
    runtime: Handle,
    tasks: TaskTracker,
}

/// A receiver of the result of a queued notification: true if the kernel has processed it and all
/// before it.
type Processed = oneshot::Receiver<bool>;

impl Notices {
    /// Starts the threads that write notifications for a session with the kernel.
    pub(super) fn start(
        session: &KernelSession,
        root: Ino,
        recent_nodes: Arc<RecentNodes>,
        tasks: &TaskTracker,
    ) -> io::Result<Notices> {
        let (queue, _thread) = session.notice_queue()?;
        let (attributes, _thread) = session.notice_queue()?;
        let (notifier, runtime) = (session.notifier(), Handle::current());
        let tasks = tasks.clone();
        Ok(Notices { queue, attributes, notifier, root, recent_nodes, runtime, tasks })
    }

    /// Returns the number that the kernel has for an inode of the volume: 1 for the mounted
    /// directory, otherwise the inode's own number.
    fn node(&self, ino: Ino) -> NodeId {
        if ino == self.root { NodeId::ROOT } else { NodeId(ino.0) }
    }

    fn of_name(&self, directory: Ino, name: &[u8]) -> Notice {
        Notice::InvalEntry {
            parent: self.node(directory),
            name: OsString::from_vec(name.to_owned()),
        }
    }
}

impl NodeWatch for Notices {
    fn changed(&self, changes: &NodeChanges, done: Option<oneshot::Sender<()>>) {
        let names = changes.names.iter();
        let names = names.map(|(directory, name)| self.of_name(*directory, name));
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

    fn peer_changes(&self, changes: &NodeChanges, done: Acknowledge) {
        let recent = &self.recent_nodes;
        for (directory, _) in &changes.names {
            recent.peer_changes_names(*directory);
        }
        let names = changes.names.iter().filter(|(directory, _)| recent.may_be_cached(*directory));
        let names: Vec<Notice> =
            names.map(|(directory, name)| self.of_name(*directory, name)).collect();
        let nodes = changes.nodes.iter().filter(|ino| recent.may_be_cached(**ino));
        let nodes = nodes.map(|ino| Notice::InvalInode {
            node: self.node(*ino),
            offset: KEEP_PAGES,
            length: 0,
        });
        let nodes: Vec<Notice> = nodes.collect();
        if names.is_empty() && nodes.is_empty() {
            return done();
        }
        let (names, nodes) = (push_all(&self.queue, names), push_all(&self.attributes, nodes));
        let notifier = self.notifier.clone();
        self.tasks.spawn_on(
            async move {
                let names = drops_names(names, &notifier).await;
                if !(names && nodes.await.unwrap_or(false)) {
                    // A peer that gets no acknowledgement gives no further lease.
                    tokio::time::sleep(EXPIRED_AFTER).await;
                }
                done();
            },
            &self.runtime,
        );
    }

    fn all_changed(&self) {
        // The new epoch invalidates names. Attributes time out within a second.
        let _full_or_gone = self.queue.push(Notice::IncreaseEpoch);
    }
}

/// Waits until the kernel has dropped the queued names. After [`DIRECTORY_PATIENCE`], makes it drop
/// all names. Returns false if the kernel may still have one.
async fn drops_names(names: Processed, notifier: &Notifier) -> bool {
    let processed = tokio::time::timeout(DIRECTORY_PATIENCE, names).await;
    // A kernel before 6.16 has no epochs. Then the peer waits until the names have expired.
    matches!(processed, Ok(Ok(true))) || notifier.increase_epoch().is_ok()
}

/// Queues notifications. If one of them is refused, the result is false.
fn push_all(queue: &NoticeQueue, mut notices: Vec<Notice>) -> Processed {
    let (sender, processed) = oneshot::channel();
    let Some(last) = notices.pop() else {
        let _received = sender.send(true);
        return processed;
    };
    let failed = Arc::new(AtomicBool::new(false));
    let push = |notice| {
        let failed = Arc::clone(&failed);
        queue.push_with(notice, move |taken| {
            failed.fetch_or(taken.is_err(), Ordering::SeqCst);
        })
    };
    if notices.into_iter().all(|notice| push(notice).is_ok()) {
        let _full_or_gone = queue.push_with(last, move |taken| {
            let _waits_no_longer = sender.send(taken.is_ok() && !failed.load(Ordering::SeqCst));
        });
    }
    processed
}
