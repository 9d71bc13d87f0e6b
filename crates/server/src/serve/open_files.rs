//! The limit of open files, which also limits connections.
//!
//! Shells and containers often start a process with a soft limit of 1,024 and a much higher hard
//! one. For example, with 1,024 the listener could not accept the 4,096 connections of the default.

use edge::HostLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The open files that are left for stores, logs, blocks and the other listeners.
const OTHER_FILES: u64 = 256;

/// The minimum of connections, also if the limit of open files is lower.
const CONNECTIONS_MIN: usize = 16;

/// Raises the soft limit of open files to the hard one. Returns the limit, `None` if there is none.
pub(super) fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            current
        }
    }
}

/// Lowers the limits of connections to those that `open_files` allows, and warns if it does.
pub(super) fn clamp(connections_max: &mut usize, hosts: &mut HostLimits, open_files: Option<u64>) {
    let Some(open_files) = open_files else { return };
    let most = usize::try_from(open_files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    let most = most.max(CONNECTIONS_MIN);
    if *connections_max <= most {
        return;
    }
    tracing::warn!(
        open_files,
        configured = *connections_max,
        connections_max = most,
        "the limit of open files allows fewer connections than connections_max; raise it \
         (LimitNOFILE of systemd, ulimit -n of a shell)"
    );
    *connections_max = most;
    // Without this, one host could take all connections.
    hosts.connections_max = hosts.connections_max.min(most / 2);
}

#[cfg(test)]
mod tests;
