//! The settings by which operators watch `ashlar mount`.
//!
//! They are not those of `ashlar serve`: for example, a gateway and a mount on one machine can
//! share a configuration file, and cannot share the address of the metrics.

use audit::LogSink;
use problem::Problem;

use super::{AccessLogFormat, File, ListenAt, Watching};

/// The access log and the listener for operators of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchSettings {
    pub(crate) access_log: LogSink,
    pub(crate) access_log_format: AccessLogFormat,
    /// The address of metrics and status; `None` for no listener.
    pub(crate) admin_listen: Option<String>,
    /// Additional host names that the listener accepts.
    pub(crate) admin_hosts: Vec<String>,
}

impl Watching {
    /// Returns the settings in force. Fails if the access log is standard output, which a mount in
    /// the background does not have.
    pub(crate) fn settle(self, file: &File) -> Result<WatchSettings, Problem> {
        let watching = self.or(Watching::from_file(file));
        let access_log = match LogSink::parse(&watching.mount_access_log.unwrap_or_default()) {
            LogSink::Stdout => {
                let wrong = "a mount writes its access log to a file only";
                return Err(Problem::new("use the option mount_access_log", wrong));
            }
            sink @ (LogSink::File(_) | LogSink::Off) => sink,
        };
        let admin_listen = match ListenAt::parse(watching.mount_admin_listen.as_deref()) {
            ListenAt::Default | ListenAt::Off => None,
            ListenAt::At(address) => Some(address),
        };
        let hosts = watching.mount_admin_host.unwrap_or_default().into_iter();
        Ok(WatchSettings {
            access_log,
            access_log_format: watching.mount_access_log_format.unwrap_or_default(),
            admin_listen,
            admin_hosts: hosts.filter(|name| !name.is_empty()).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
