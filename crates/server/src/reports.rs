//! The texts of this process for programs on its mount: metrics, and reports on nodes.

use std::fmt;
use std::sync::Arc;

use admin::Admin;
use futures::FutureExt;
use futures::future::BoxFuture;
use mountd::{MountSource, MountState, Reports};
use record::Ino;

use crate::backend::Backend;
use crate::metrics::Metrics;
use crate::{node_report, operator};

/// The source of the texts.
#[derive(Debug)]
struct ProcessReports {
    metrics: Arc<Metrics>,
    admin: Admin,
}

impl Reports for ProcessReports {
    fn metrics(&self) -> Result<String, fmt::Error> {
        self.metrics.text()
    }

    fn node(&self, ino: Ino, here: MountState) -> BoxFuture<'_, Option<Vec<u8>>> {
        async move {
            let report = self.admin.node(ino).await;
            let report =
                report.inspect_err(|error| tracing::debug!(%error, "cannot report on a node"));
            Some(node_report::json(&report.ok()?, Some(here)).to_string().into_bytes())
        }
        .boxed()
    }
}

/// Returns the volume of a process, for its mount.
pub(crate) fn mount_source(backend: &Backend, metrics: &Arc<Metrics>) -> MountSource {
    let admin = operator::over(Arc::clone(&backend.meta));
    MountSource {
        volume: Arc::clone(&backend.volume),
        blocks_folder: backend.folder.clone(),
        reports: Arc::new(ProcessReports { metrics: Arc::clone(metrics), admin }),
    }
}
