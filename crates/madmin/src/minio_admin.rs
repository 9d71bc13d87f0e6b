//! The state that all requests share.

use std::fmt;
use std::sync::Arc;

use admin::Random;
use adminapi::AdminApi;
use audit::AuditEntry;
use futures::future::BoxFuture;
use runtime::Tasks;
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use crate::sealing::Sealing;
use crate::trace::TRACES_MAX;

/// Returns the metrics of the process in the text format of Prometheus, or an error for the log.
pub type MetricsText =
    Box<dyn Fn() -> BoxFuture<'static, Result<String, fmt::Error>> + Send + Sync>;

/// The parts of a process on which the protocol works.
pub struct MinioParts {
    /// The administration API, which checks all permissions.
    pub api: Arc<AdminApi>,
    /// The randomness for salts and nonces.
    pub random: Arc<dyn Random>,
    /// Returns a stream of the requests to the endpoint from now on. A late receiver loses
    /// requests.
    pub subscribe: Box<dyn Fn() -> broadcast::Receiver<Arc<AuditEntry>> + Send + Sync>,
    /// Makes the metrics.
    pub metrics: MetricsText,
    /// Is cancelled when the process stops, which ends all traces.
    pub stopping: CancellationToken,
}

impl fmt::Debug for MinioParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinioParts").field("api", &self.api).finish_non_exhaustive()
    }
}

/// The protocol over the administration of a volume.
pub struct MinioAdmin {
    pub(crate) parts: MinioParts,
    pub(crate) sealing: Sealing,
    pub(crate) traces: Arc<Semaphore>,
    pub(crate) calls: Tasks,
}

impl fmt::Debug for MinioAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinioAdmin").field("sealing", &self.sealing).finish_non_exhaustive()
    }
}

impl MinioAdmin {
    /// Returns the protocol over the parts of a process.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(parts: MinioParts) -> Arc<MinioAdmin> {
        let sealing = Sealing::new(Arc::clone(&parts.random));
        let traces = Arc::new(Semaphore::new(TRACES_MAX));
        Arc::new(MinioAdmin { parts, sealing, traces, calls: Tasks::new() })
    }
}
