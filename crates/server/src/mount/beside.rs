//! What a mount tells besides its files.

use std::sync::{Mutex, PoisonError};

use admin::Admin;
use files::{Files, NodeStat};
use record::Ino;

use super::shape::ShownAs;
use super::space::Space;
use super::stats::Stats;
use crate::node_report::{self, MountState};

/// What a mount tells besides its files, and how it shows them.
#[derive(Debug)]
pub(super) struct Beside {
    /// What is free.
    pub(super) space: Space,
    pub(super) shown: ShownAs,
    /// What its process has counted.
    pub(super) stats: Stats,
    /// The volume as operators see it.
    pub(super) admin: Admin,
    /// The attributes of the mount's root as they were last found.
    pub(super) root: Mutex<Option<NodeStat>>,
}

impl Beside {
    /// Remembers the attributes of the mount's root, if they were found.
    pub(super) fn remember_root(&self, found: Option<&NodeStat>) {
        if let Some(stat) = found {
            *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(*stat);
        }
    }

    /// The attributes of the mount's root as they were last found.
    pub(super) fn last_root(&self) -> Option<NodeStat> {
        *self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a node, as JSON; nothing if it cannot be found out.
    pub(super) async fn report(&self, files: &Files, ino: Ino) -> Option<Vec<u8>> {
        let stat = files.attributes(ino).await.ok()?;
        let open = files.handle_count(ino);
        let here = MountState { open, unwritten: stat.volatile_attributes, size: stat.size };
        let report = self.admin.node(ino).await;
        let report = report.inspect_err(|error| tracing::debug!(%error, "a node is not told of"));
        Some(node_report::json(&report.ok()?, Some(here)).to_string().into_bytes())
    }
}
