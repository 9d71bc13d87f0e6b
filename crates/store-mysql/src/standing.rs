//! The results of the checks: the primary, its risks, and the servers that were primaries before.
//!
//! MariaDB and MySQL have no number that increases when a replica takes over. So a former primary,
//! which accepts writes until it is stopped, looks like the primary. Three rules keep it out:
//!
//! - If two servers accept writes, none of them is used, until the operator or the failover program
//!   has made one of them read-only.
//! - A server from which this process has moved away is not counted, if another one accepts writes.
//! - If no other one does, it is used again only if it has all transactions that this process has
//!   seen at its successor.
//!
//! For example, `h1` stands still, `h2` is promoted, and the store continues at `h2`. Then `h1`
//! goes on with `read_only = 0`: it is not used while `h2` answers, nor later, unless it has
//! replicated the changes of `h2`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::Durability;
use tokio::time::Instant;

use crate::address::Promises;
use crate::server::{self, Settings};

/// Interval of the checks of the server.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Number of former primaries that are remembered.
const FORMER_MAX: usize = 16;

/// The host name, port, server id and identifier of a server. MariaDB has no identifier.
pub(crate) type Identity = [Option<String>; 4];

/// The last transaction that a server has of each server (MySQL), or of each domain and server
/// (MariaDB).
type Positions = BTreeMap<String, u64>;

/// The result of the last check of the server: the risks of its settings for acknowledged commits,
/// and the number of failed checks.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Accept servers whose settings may lose acknowledged commits, for example after a power
    /// failure. If the operator also promised that all gateways use one node, a node of a cluster
    /// in which all nodes can write is accepted.
    relaxed: bool,
    promises: Promises,
    /// The possible losses of acknowledged commits that the server's settings permit, as a
    /// sentence; empty if there are none.
    risks: Mutex<String>,
    /// Number of failed checks of the server. Connections from before the last failure are not used
    /// any more.
    refusals: AtomicU64,
    /// Time of the last check of the server.
    asked: Mutex<Instant>,
    known: Mutex<Known>,
}

/// The servers that earlier checks found.
#[derive(Debug, Default)]
struct Known {
    /// The primary of the last check; `None` before the first one.
    primary: Option<Identity>,
    /// The transactions that the primary had at the last check.
    positions: Positions,
    /// The servers from which this process has moved away; the last one is the newest.
    former: Vec<Identity>,
}

/// Returns the identity of a server.
pub(crate) fn identity(settings: &Settings) -> Identity {
    ["hostname", "port", "server_id", "server_uuid"].map(|name| settings.get(name).cloned())
}

/// Settings with the last transaction of each domain, and all settings that name transactions.
const LAST: [&str; 2] = ["gtid_current_pos", "gtid_executed"];
const ALL: [&str; 4] = ["gtid_binlog_state", "gtid_current_pos", "gtid_executed", "gtid_slave_pos"];

/// Returns the transactions that some settings of a server name.
fn positions(settings: &Settings, names: &[&str]) -> Positions {
    let mut positions = Positions::new();
    let texts = names.iter().filter_map(|name| settings.get(*name));
    for position in texts.flat_map(|text| text.split(',')) {
        let parsed = match position.trim().split_once(':') {
            // MySQL: `uuid:first-last:first-last`.
            Some((uuid, intervals)) => intervals.rsplit([':', '-']).next().map(|last| (uuid, last)),
            // MariaDB: `domain-server-number`. The number increases with each transaction of the
            // domain, and two servers that both accept writes use the same numbers.
            None => position.trim().rsplit_once('-'),
        };
        if let Some((origin, last)) = parsed
            && let Ok(last) = last.parse::<u64>()
        {
            let known = positions.entry(origin.to_owned()).or_default();
            *known = last.max(*known);
        }
    }
    positions
}

/// Returns true if a server with `has` lacks a transaction of `seen`.
fn lacks(has: &Positions, seen: &Positions) -> bool {
    seen.iter().any(|(name, last)| has.get(name).is_none_or(|found| found < last))
}

impl Standing {
    /// Creates the state before the first check of the server.
    pub(crate) fn new(relaxed: bool, promises: Promises) -> Standing {
        Standing {
            relaxed,
            promises,
            risks: Mutex::default(),
            refusals: AtomicU64::new(0),
            asked: Mutex::new(Instant::now()),
            known: Mutex::default(),
        }
    }

    fn risks(&self) -> MutexGuard<'_, String> {
        self.risks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failures that an acknowledged commit survives at this server.
    pub(crate) fn durability(&self) -> Durability {
        if self.risks().is_empty() { Durability::Strict } else { Durability::Relaxed }
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Acquire)
    }

    /// Counts a failed check of the server, after which no older connection is used any more.
    pub(crate) fn refuse(&self) {
        self.refusals.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns true if a check is due. Only one caller gets true for each interval.
    pub(crate) fn is_due(&self) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let due = asked.elapsed() >= ASK_EVERY;
        if due {
            *asked = Instant::now();
        }
        due
    }

    /// Checks that a server can be used and that the options accept its risks. The error is the
    /// reason.
    pub(crate) fn check(&self, settings: &Settings, follows: bool) -> Result<(), String> {
        server::check(settings, follows, self.relaxed, self.promises)
    }

    /// Compares the servers that passed the check. Returns for each of them the reason why it
    /// cannot be used, or `None`. All servers without a reason are one server.
    pub(crate) fn compare(&self, servers: &[&Settings]) -> Vec<Option<String>> {
        let known = self.known();
        let is_former = |settings: &Settings| known.former.contains(&identity(settings));
        let has_successor = servers.iter().any(|settings| !is_former(settings));
        let mut reasons: Vec<Option<String>> = servers
            .iter()
            .map(|settings| {
                let lacking = lacks(&positions(settings, &ALL), &known.positions);
                let refused = is_former(settings) && (has_successor || lacking);
                refused.then(|| {
                    "it is a former primary, and another server has taken over; make it a replica"
                        .to_owned()
                })
            })
            .collect();
        let remaining = |reasons: &[Option<String>]| {
            let left = servers.iter().zip(reasons).filter(|(_, reason)| reason.is_none());
            left.map(|(settings, _)| identity(settings)).collect::<Vec<_>>()
        };
        let left = remaining(&reasons);
        if left.iter().any(|other| *other != left[0]) {
            for reason in reasons.iter_mut().filter(|reason| reason.is_none()) {
                *reason = Some(
                    "it and another server accept writes; set read_only = 1 on the one that is not \
                     the primary"
                        .to_owned(),
                );
            }
        }
        reasons
    }

    /// Records the primary that a check found, and logs changes. If it is another server than
    /// before, older connections may lead to the previous one, with old data, and are not used any
    /// more.
    pub(crate) fn record(&self, settings: &Settings) {
        let found = identity(settings);
        let mut known = self.known();
        known.positions = positions(settings, &LAST);
        if known.primary.as_ref() != Some(&found) {
            known.former.retain(|former| *former != found);
            if let Some(previous) = known.primary.replace(found) {
                known.former.push(previous);
                if known.former.len() > FORMER_MAX {
                    known.former.remove(0);
                }
                self.refuse();
                tracing::warn!("the address of the metadata store leads to another server now");
            }
        }
        drop(known);
        let found = server::risks(settings, self.promises.never_promoted).join("; ");
        let mut risks = self.risks();
        if *risks != found {
            if found.is_empty() {
                tracing::info!("the metadata store keeps acknowledged commits again");
            } else {
                tracing::warn!(risks = found, "the metadata store may lose acknowledged commits");
            }
            *risks = found;
        }
    }
}

#[cfg(test)]
mod tests;
