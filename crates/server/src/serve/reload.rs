//! The reload of files by SIGHUP.
//!
//! Each part is loaded independently and logs one line that says what changed or what failed. If a
//! part fails, its previous value stays in force. For example, after a rotation that renamed the
//! access log, SIGHUP creates the new file, also if the certificate cannot be read.

use std::sync::Arc;

use edge::Tls;

use super::audited::Audited;
use crate::private;

/// The parts of a gateway that SIGHUP loads again.
#[derive(Debug)]
pub(super) struct Reload {
    pub(super) tls: Option<Tls>,
    pub(super) audited: Arc<Audited>,
}

impl Reload {
    /// Loads all parts again.
    pub(super) async fn all(&self) {
        if let Some(tls) = &self.tls {
            reload_tls(tls, true);
        }
        self.audited.reopen().await;
    }

    /// Loads the certificate again if its files have changed.
    pub(super) fn changed(&self) {
        if let Some(tls) = &self.tls {
            reload_tls(tls, false);
        }
    }
}

/// Loads the certificate again if its files have changed, or in any case if `always` is true.
fn reload_tls(tls: &Tls, always: bool) {
    match tls.reload(always) {
        Ok(true) => {
            // A renewed key with wrong permissions is used nevertheless, because an expired
            // certificate would be worse.
            if let Err(problem) = private::given(&tls.files().key) {
                tracing::warn!(%problem, "using the TLS key although its permissions are wrong");
            }
            tracing::info!("loaded the TLS certificate again");
        }
        Ok(false) => {}
        Err(problem) => {
            tracing::warn!(%problem, "cannot load the new TLS certificate; the previous one stays in use");
        }
    }
}
