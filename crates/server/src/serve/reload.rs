//! The reload of files by SIGHUP.
//!
//! Each part is loaded independently and logs one line that says what changed or what failed. If a
//! part fails, its previous value stays in force. For example, after a rotation that renamed the
//! access log, SIGHUP creates the new file, also if the certificate cannot be read.

use std::path::PathBuf;
use std::sync::Arc;

use edge::Tls;
use identity::Access;
use problem::Problem;
use tokio::sync::Mutex;

use super::audited::Audited;
use super::settings::GatewaySettings;
use crate::config::{Common, File, OpenIdRole, Serving};
use crate::logging::LogFilter;
use crate::{private, web_roles};

/// The sources of the settings that SIGHUP reads again: the configuration file, and the options
/// that override it, which a running process keeps.
#[derive(Debug)]
pub(crate) struct SettingsSource {
    pub(crate) config: Option<PathBuf>,
    pub(crate) common: Common,
    pub(crate) serving: Serving,
    pub(crate) filter: LogFilter,
}

/// The settings that SIGHUP can change.
#[derive(Clone, Debug, PartialEq)]
struct Reloadable {
    level: String,
    openid: Vec<OpenIdRole>,
}

impl SettingsSource {
    /// Reads the configuration file. Fails if it cannot be read, or if it has an invalid value.
    fn read(&self) -> Result<Reloadable, Problem> {
        let file = self.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let level = self.common.clone().settle(&file)?.log;
        let openid = self.serving.clone().settle(&file)?.openid;
        Ok(Reloadable { level, openid })
    }
}

/// The parts of a gateway that SIGHUP loads again.
#[derive(Debug)]
pub(super) struct Reload {
    source: SettingsSource,
    tls: Option<Tls>,
    access: Arc<Access>,
    audited: Arc<Audited>,
    /// The settings in force. The lock is held during a reload, so that two do not mix.
    in_force: Mutex<Reloadable>,
}

impl Reload {
    /// Returns the parts of a gateway with these settings.
    pub(super) fn new(
        source: SettingsSource,
        settings: &GatewaySettings,
        tls: Option<Tls>,
        access: Arc<Access>,
        audited: &Arc<Audited>,
    ) -> Arc<Reload> {
        let (level, openid) = (settings.volume.log.clone(), settings.serve.openid.clone());
        let in_force = Mutex::new(Reloadable { level, openid });
        Arc::new(Reload { source, tls, access, audited: Arc::clone(audited), in_force })
    }

    /// Loads all parts again.
    pub(super) async fn all(&self) {
        let mut in_force = self.in_force.lock().await;
        self.audited.reopen().await;
        if let Some(tls) = &self.tls {
            reload_tls(tls, true);
        }
        match self.source.read() {
            Ok(new) => {
                self.source.filter.change(&mut in_force.level, new.level);
                self.set_roles(&mut in_force.openid, new.openid);
            }
            Err(problem) => {
                tracing::warn!(%problem, "cannot read the configuration again; the log level and the OpenID roles stay");
            }
        }
    }

    fn set_roles(&self, roles: &mut Vec<OpenIdRole>, new: Vec<OpenIdRole>) {
        if new.is_empty() && roles.is_empty() {
            return;
        }
        // Equal tables are loaded again, too: a file of certificates that they name may have
        // changed.
        match web_roles::from_settings(&new) {
            Ok(web_roles) => {
                let changed = *roles != new;
                tracing::info!(roles = new.len(), changed, "loaded the OpenID roles again");
                self.access.replace_web_roles(web_roles);
                *roles = new;
            }
            Err(problem) => {
                tracing::warn!(%problem, "cannot load the new OpenID roles; the previous ones stay");
            }
        }
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
