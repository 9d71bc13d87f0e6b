//! The limit of failed logins for each client address.
//!
//! For example, after ten wrong secrets within a minute, the address must wait until the minute is
//! over. Right logins are not counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The failed logins that one address may have within [`WINDOW`].
const FAILURES_MAX: u32 = 10;

/// The time for which failures are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// The limit of addresses in memory. If more fail at once, the oldest half is forgotten.
const ADDRESSES_MAX: usize = 4_096;

/// The failed logins of an address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

/// Counts failed logins.
#[derive(Debug)]
pub(crate) struct LoginThrottle(Mutex<HashMap<IpAddr, Failures>>);

impl LoginThrottle {
    pub(crate) fn new() -> LoginThrottle {
        LoginThrottle(Mutex::new(HashMap::new()))
    }

    /// Returns true if the address may try a login now.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&network(address))
            .is_none_or(|failed| failed.since.elapsed() >= WINDOW || failed.count < FAILURES_MAX)
    }

    /// Counts a failed login.
    pub(crate) fn failed(&self, address: IpAddr) {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES_MAX {
            known.retain(|_, failed| now.duration_since(failed.since) < WINDOW);
        }
        if known.len() >= ADDRESSES_MAX {
            // The older half is forgotten at once, so that this happens once in many failures.
            let mut ages: Vec<Instant> = known.values().map(|failed| failed.since).collect();
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let median = *median;
            known.retain(|_, failed| failed.since > median);
        }
        let failed = known.entry(network(address)).or_insert(Failures { since: now, count: 0 });
        if now.duration_since(failed.since) >= WINDOW {
            *failed = Failures { since: now, count: 0 };
        }
        failed.count = failed.count.saturating_add(1);
    }
}

/// Returns the address of which failures are counted: one client has a whole /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let prefix = u128::from(v6) & !u128::from(u64::MAX);
            IpAddr::V6(prefix.into())
        }
    }
}

#[cfg(test)]
mod tests;
