//! The master that the answers of several Sentinels name.
//!
//! Sentinels may disagree for a moment, and one that a network failure separates from the others
//! names the old master until it is reachable again. Each Sentinel gives its configuration an
//! epoch, which grows with every failover. Therefore:
//!
//! 1. Most of the Sentinels in the URL must name a master. A gateway that reaches fewer of them may
//!    be in the smaller part of a divided network, with a master that the others have replaced.
//! 2. The highest epoch decides, also if only one Sentinel has it: the one that led the failover
//!    knows the new master first.
//! 3. An epoch lower than one of an earlier lookup is refused. It is accepted only if all Sentinels
//!    agree on it, because then none of them remembers the higher one. For example, the operator
//!    has created all Sentinels anew, so that their epochs begin at 0 again.

use std::fmt;

/// A master, as a Sentinel names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The Sentinel's configuration epoch, which grows with every failover.
    pub(crate) epoch: u64,
}

impl Master {
    fn is_at_address_of(&self, other: &Master) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} (epoch {})", self.host, self.port, self.epoch)
    }
}

/// The answer of one Sentinel, or the reason why it names no master.
pub(crate) type Answer = Result<Master, String>;

/// Returns the master that the answers name. There is one answer for each Sentinel of the URL.
/// `known` is the highest epoch of the lookups that had ended when this one began, and
/// `known_meanwhile` that of all lookups that have ended.
///
/// # Errors
/// Returns a sentence that says why the answers name no master.
pub(crate) fn agree(
    answers: &[Answer],
    known: u64,
    known_meanwhile: u64,
) -> Result<Master, String> {
    let named: Vec<&Master> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    let all = answers.len();
    if named.len() <= all / 2 {
        let count = named.len();
        return Err(format!("{count} of {all} Sentinels name the master, and most of them must"));
    }
    let Some(newest) = named.iter().max_by_key(|master| master.epoch) else {
        return Err("no Sentinel names the master".to_owned());
    };
    let is_other =
        |master: &&&Master| master.epoch == newest.epoch && !master.is_at_address_of(newest);
    if named.iter().any(|master| is_other(&master)) {
        return Err("the Sentinels name different masters with the same epoch".to_owned());
    }
    // Answers of before a failover must not undo a lookup that has seen it.
    let is_unanimous = named.len() == all && named.iter().all(|master| master == newest);
    let lowest = if is_unanimous && known == known_meanwhile { 0 } else { known_meanwhile };
    if newest.epoch < lowest {
        return Err(format!(
            "the Sentinels name a master of epoch {}, and one of epoch {lowest} was named before",
            newest.epoch
        ));
    }
    Ok((*newest).clone())
}

#[cfg(test)]
mod tests;
