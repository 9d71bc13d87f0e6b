//! The sockets of a gateway, which are bound before the volume is opened.
//!
//! For example, a second gateway on the machine whose settings name no address for operators gets
//! free ports for them.

use edge::bind;
use problem::Problem;
use tokio::net::TcpListener;

use crate::config::{ADMIN_LISTEN_DEFAULT, CONSOLE_LISTEN_DEFAULT, ServeSettings};
use crate::metrics_listener;

/// The sockets of a gateway.
pub(super) struct Sockets {
    pub(super) s3: TcpListener,
    /// Metrics and the status; `None` if they are off.
    pub(super) admin: Option<TcpListener>,
    /// The console and the administration API; `None` if they are off.
    pub(super) console: Option<TcpListener>,
}

impl Sockets {
    /// Binds the addresses of the settings.
    pub(super) async fn bind(serve: &ServeSettings) -> Result<Sockets, Problem> {
        let s3 = bind(&serve.listen).await?;
        let admin = metrics_listener::socket(&serve.admin_listen, ADMIN_LISTEN_DEFAULT).await?;
        let console =
            metrics_listener::socket(&serve.console_listen, CONSOLE_LISTEN_DEFAULT).await?;
        Ok(Sockets { s3, admin, console })
    }

    /// Returns the URLs at which clients reach the gateway, for the list of sessions.
    pub(super) fn urls(&self, has_tls: bool) -> Vec<String> {
        let scheme = if has_tls { "https" } else { "http" };
        let sockets = std::iter::once(&self.s3).chain(&self.console);
        let addresses = sockets.filter_map(|socket| socket.local_addr().ok());
        addresses.map(|address| format!("{scheme}://{address}")).collect()
    }
}
