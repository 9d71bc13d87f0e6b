//! Access times of files and directories, with the rules of `relatime`.
//!
//! A read updates the access time if the present one is not later than the last change, or is a day
//! old. The new time is visible on this mount at once, and is committed in the background within
//! about a minute. For example, reading a file ten times an hour costs one commit a day.
//!
//! Access times are hints: the latest ones are lost with the process. If more than [`PENDING_MAX`]
//! files are read within a minute, some are noted at their next read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use record::{Ino, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use volume::FoundNode;

use crate::attributes::NodeStat;
use crate::files::Files;
use crate::open::OpenedFile;
use crate::pending_access_times::is_due;

/// The maximum number of files and directories whose new access time waits for its commit. Beyond
/// it, reads of further ones are not noted.
const PENDING_MAX: usize = 4_096;

/// The interval at which the noted access times are committed.
const PERSIST_INTERVAL: Duration = Duration::from_mins(1);

/// The maximum number of commits of access times in flight.
const PERSISTS_AT_ONCE: usize = 16;

impl Files {
    /// Notes that a program read a file or directory. If its access time must be updated by the
    /// rules of `relatime`, the present time is kept for the next commit of access times.
    pub(crate) fn note_read(&self, node: &FoundNode) {
        if !self.options.updates_atime || self.options.read_only {
            return;
        }
        let (attributes, now) = (&node.inode.attributes, self.volume.now());
        if !is_due(attributes.accessed, attributes, now) {
            return;
        }
        let mut noted = self.access_times.lock();
        let has_capacity = noted.len() < PENDING_MAX;
        match noted.get_mut(&node.ino) {
            Some(at) if is_due(*at, attributes, now) => *at = now,
            None if has_capacity => drop(noted.insert(node.ino, now)),
            Some(_) | None => {}
        }
    }

    /// Sets for a new handle if reads through it update the access time of the file (`noted`). If
    /// the kernel may have the file's pages (`known`), the open itself counts as a read, because
    /// later reads may not reach this process.
    pub async fn note_opened(&self, opened: &OpenedFile, noted: bool, known: bool) {
        let Ok(handle) = self.open.handle(opened.handle) else { return };
        handle.no_atime.store(!noted, Ordering::Relaxed);
        if noted && known {
            let node = Arc::clone(&handle.file.state.lock().await.node);
            self.note_read(&node);
        }
    }

    /// Returns the attributes with the access time that is noted for the node and not committed
    /// yet, if there is one and it is later.
    pub(crate) fn with_access_time(&self, stat: NodeStat) -> NodeStat {
        let noted = self.access_times.lock().get(&stat.ino).copied();
        NodeStat { accessed: noted.map_or(stat.accessed, |at| at.max(stat.accessed)), ..stat }
    }

    /// Commits the noted access times every minute, until `end` is cancelled. One task runs this
    /// for the life of a mount.
    pub async fn persist_access_times_until(self: Arc<Self>, end: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                () = tokio::time::sleep(PERSIST_INTERVAL) => {}
            }
            self.persist_access_times().await;
        }
    }

    /// Commits all noted access times. A time that cannot be committed is dropped, and the error is
    /// only logged.
    pub async fn persist_access_times(&self) {
        let noted: Vec<(Ino, Timestamp)> =
            self.access_times.lock().iter().map(|(ino, at)| (*ino, *at)).collect();
        let keep = |(ino, at)| async move {
            if let Err(error) = self.volume.update_access_time(ino, at).await {
                debug!(ino = ino.0, %error, "cannot commit the access time of a file");
            }
            let mut noted = self.access_times.lock();
            // A later read may have replaced the time during the commit.
            if noted.get(&ino) == Some(&at) {
                noted.remove(&ino);
            }
        };
        stream::iter(noted).for_each_concurrent(PERSISTS_AT_ONCE, keep).await;
    }
}
