//! The settings of a gateway, in the forms that its parts take.
//!
//! For example, `--host-requests-max 0` is no permit at all, and a value beyond the maximum of a
//! semaphore is that maximum.

use edge::HostLimits;

use crate::config::{MountSettings, OpenSettings, ServeSettings, VolumeSettings};

/// The settings of a gateway.
#[derive(Debug)]
pub(crate) struct GatewaySettings {
    pub(crate) volume: VolumeSettings,
    pub(crate) open: OpenSettings,
    pub(crate) mount: MountSettings,
    pub(crate) serve: ServeSettings,
}

/// Returns the limits of connections and requests that apply to each host, that is, to each client
/// address.
pub(super) fn host_limits(serve: &ServeSettings) -> HostLimits {
    HostLimits {
        connections_max: count(serve.host_connections_max),
        requests_max: count(serve.host_requests_max),
        proxies: serve.trusted_proxies.clone(),
    }
}

/// Returns a limit as a number of semaphore permits.
pub(super) fn count(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).min(tokio::sync::Semaphore::MAX_PERMITS)
}
