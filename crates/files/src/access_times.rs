//! When files and directories were last read.
//!
//! It is noted as with `relatime`: when the time that is kept is no later than the last change, or a day
//! old. What was noted shows on this mount at once, and is kept some time later by commits that nobody
//! waits for. It is a hint for people and for programs that clear up: what was noted last is lost with
//! the process, and of very many files that are read at a time some are noted when they are read next.

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

/// Nodes of which it may be noted at a time that they were read.
const PENDING_MAX: usize = 4_096;

/// How often what was noted is kept.
const PERSIST_INTERVAL: Duration = Duration::from_mins(1);

/// Commits that are under way for that at a time.
const PERSISTS_AT_ONCE: usize = 16;

impl Files {
    /// A node is read now.
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

    /// A file was opened: whether reads are to be noted, and whether it counts as read from now on,
    /// since its pages may be known to whoever asks.
    pub async fn note_opened(&self, opened: &OpenedFile, noted: bool, known: bool) {
        let Ok(handle) = self.open.handle(opened.handle) else { return };
        handle.no_atime.store(!noted, Ordering::Relaxed);
        if noted && known {
            let node = Arc::clone(&handle.file.state.lock().await.node);
            self.note_read(&node);
        }
    }

    /// Attributes with the time of the last read, if that is noted.
    pub(crate) fn with_access_time(&self, stat: NodeStat) -> NodeStat {
        let noted = self.access_times.lock().get(&stat.ino).copied();
        NodeStat { accessed: noted.map_or(stat.accessed, |at| at.max(stat.accessed)), ..stat }
    }

    /// Keeps now and then what was noted, until the end.
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

    /// Keeps what was noted.
    pub async fn persist_access_times(&self) {
        let noted: Vec<(Ino, Timestamp)> =
            self.access_times.lock().iter().map(|(ino, at)| (*ino, *at)).collect();
        let keep = |(ino, at)| async move {
            if let Err(error) = self.volume.update_access_time(ino, at).await {
                debug!(ino = ino.0, %error, "it is not kept that a file was read");
            }
            let mut noted = self.access_times.lock();
            if noted.get(&ino) == Some(&at) {
                noted.remove(&ino);
            }
        };
        stream::iter(noted).for_each_concurrent(PERSISTS_AT_ONCE, keep).await;
    }
}
