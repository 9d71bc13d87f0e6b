//! The parts of a mount that its requests share: its space, its metrics, and the view of its files.
//!
//! For example, `ashlar info` on a file of the mount reads an extended attribute whose value comes
//! from [`MountContext::report`].

use std::sync::{Arc, Mutex, PoisonError};

use files::{Files, NodeStat};
use record::Ino;

use crate::recent_nodes::RecentNodes;
use crate::reports::{MountState, Reports};
use crate::shape::ShownAs;
use crate::space::Space;
use crate::stats::Stats;

/// The parts of a mount that all of its requests share.
#[derive(Debug)]
pub(super) struct MountContext {
    /// The space for `df`.
    pub(super) space: Space,
    /// The owner and permissions that files are shown with.
    pub(super) shown: ShownAs,
    /// The file `.ashlar/stats`.
    pub(super) stats: Stats,
    /// The source of reports on nodes.
    pub(super) reports: Arc<dyn Reports>,
    /// The last known attributes of the mount's root, for [`MountContext::last_root`].
    pub(super) root: Mutex<Option<NodeStat>>,
    /// The nodes of which the kernel may have answers in its caches.
    pub(super) recent_nodes: Arc<RecentNodes>,
}

impl MountContext {
    /// Keeps the attributes of the mount's root for `MountContext::last_root`. Does nothing if
    /// `found` is `None`, that is, if they could not be read.
    pub(super) fn remember_root(&self, found: Option<&NodeStat>) {
        if let Some(stat) = found {
            *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(*stat);
        }
    }

    /// Returns the last known attributes of the mount's root, for GETATTR while the stores do not
    /// answer; `None` if they were never read.
    pub(super) fn last_root(&self) -> Option<NodeStat> {
        *self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the report on a node as JSON, or `None` if it cannot be made.
    pub(super) async fn report(&self, files: &Files, ino: Ino) -> Option<Vec<u8>> {
        let stat = files.attributes(ino).await.ok()?;
        let open = files.handle_count(ino);
        let here = MountState { open, unwritten: stat.volatile_attributes, size: stat.size };
        self.reports.node(ino, here).await
    }
}
