//! The limits of failed logins: for each access key from one client address, and for the address.
//!
//! For example, after ten wrong secrets for `anna` within a minute, the address cannot log in as
//! `anna` until the minute is over. Other people behind the same proxy still can, until the address
//! has a hundred failures. Right logins are not counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The failed logins that one address may have for one access key within [`WINDOW`].
const FAILURES_OF_KEY_MAX: u32 = 10;

/// The failed logins that one address may have within [`WINDOW`].
const FAILURES_OF_ADDRESS_MAX: u32 = 100;

/// The time for which failures are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// The limit of counts in memory. If there are more at once, the oldest half is forgotten.
const COUNTS_MAX: usize = 8_192;

/// The subject of a count: an address, and the hash of an access key or `None` for all keys.
type Subject = (IpAddr, Option<u64>);

/// The failed logins of a subject.
#[derive(Clone, Copy, Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

/// Counts failed logins.
#[derive(Debug)]
pub(crate) struct LoginThrottle {
    counts: Mutex<HashMap<Subject, Failures>>,
    /// Hashes access keys with a secret of the process, so that no client can choose two keys with
    /// one hash.
    keys: RandomState,
}

impl LoginThrottle {
    pub(crate) fn new() -> LoginThrottle {
        LoginThrottle { counts: Mutex::default(), keys: RandomState::new() }
    }

    /// Returns true if the address may try a login now, with some access key.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        self.is_below((network(address), None), FAILURES_OF_ADDRESS_MAX)
    }

    /// Returns true if the address may try a login with this access key now.
    pub(crate) fn admits_key(&self, address: IpAddr, access_key: &str) -> bool {
        let of_key = (network(address), Some(self.keys.hash_one(access_key)));
        self.admits(address) && self.is_below(of_key, FAILURES_OF_KEY_MAX)
    }

    fn is_below(&self, subject: Subject, max: u32) -> bool {
        let known = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&subject)
            .is_none_or(|failed| failed.since.elapsed() >= WINDOW || failed.count < max)
    }

    /// Counts a failed login.
    pub(crate) fn failed(&self, address: IpAddr, access_key: &str) {
        let (now, network) = (Instant::now(), network(address));
        let mut known = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for subject in [(network, None), (network, Some(self.keys.hash_one(access_key)))] {
            make_room(&mut known, now);
            let failed = known.entry(subject).or_insert(Failures { since: now, count: 0 });
            if now.duration_since(failed.since) >= WINDOW {
                *failed = Failures { since: now, count: 0 };
            }
            failed.count = failed.count.saturating_add(1);
        }
    }
}

/// Forgets counts if there are too many: those whose window is over, then the older half.
fn make_room(known: &mut HashMap<Subject, Failures>, now: Instant) {
    if known.len() >= COUNTS_MAX {
        known.retain(|_, failed| now.duration_since(failed.since) < WINDOW);
    }
    if known.len() >= COUNTS_MAX {
        // The older half is forgotten at once, so that this happens once in many failures.
        let mut ages: Vec<Instant> = known.values().map(|failed| failed.since).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        known.retain(|_, failed| failed.since > median);
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
