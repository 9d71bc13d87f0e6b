//! The choice of the primary among the servers that answered.
//!
//! A promotion increases the *timeline* of a database, which a standby and its primary have in
//! common. So a primary with a lower timeline than another server is a former primary: another
//! server has taken over, and the former one does not have the newest commits. For example, the
//! machine of a primary stands still, a standby is promoted, and the machine goes on. Until the
//! former primary is stopped, it also accepts connections.
//!
//! This module is pure. [`Newest`] is what a process remembers of earlier answers.

use crate::server::Server;

/// The highest timeline that any server has shown, and the database to which it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    system: String,
    timeline: i64,
}

impl Newest {
    /// Returns true if a server of the same database was promoted after `earlier`.
    pub(crate) fn succeeds(&self, earlier: &Newest) -> bool {
        self.system == earlier.system && self.timeline > earlier.timeline
    }

    /// Returns the highest timeline of the same database, with those of these answers.
    pub(crate) fn advanced(&self, answers: &[&Server]) -> Newest {
        let shown = answers.iter().filter(|server| server.system == self.system);
        let highest = shown.map(|server| server.timeline).max();
        Newest { timeline: self.timeline.max(highest.unwrap_or(0)), ..self.clone() }
    }
}

/// The conditions of the options and the URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Accept servers whose settings may lose acknowledged commits.
    pub(crate) relaxed: bool,
    /// No asynchronous standby takes over.
    pub(crate) never_promoted: bool,
    /// The URL names several hosts, which must be servers of one database.
    pub(crate) several_hosts: bool,
}

/// Returns the highest timeline of this server's database that is known or among the answers.
pub(crate) fn newest(server: &Server, known: Option<&Newest>, answers: &[&Server]) -> Newest {
    let known = known.filter(|known| known.system == server.system).map(|known| known.timeline);
    let shown = answers.iter().filter(|other| other.system == server.system);
    let timeline = shown.map(|other| other.timeline).chain(known).max();
    Newest { system: server.system.clone(), timeline: timeline.unwrap_or(server.timeline) }
}

/// Returns the reason why a server that answered cannot be used, or `None`.
pub(crate) fn refused(
    server: &Server,
    known: Option<&Newest>,
    answers: &[&Server],
    terms: Terms,
) -> Option<String> {
    if let Some(why) = server.refused() {
        return Some(why);
    }
    if let Some(known) = known.filter(|known| known.system != server.system)
        && terms.several_hosts
    {
        return Some(format!(
            "it is a server of another database: its system identifier is {} instead of {}",
            server.system, known.system
        ));
    }
    let newest = newest(server, known, answers);
    if server.timeline < newest.timeline {
        return Some(format!(
            "it is a former primary: its timeline is {}, and another server has {}; stop it, and \
             make it a standby",
            server.timeline, newest.timeline
        ));
    }
    let reasons = server.lax(terms.never_promoted);
    if !reasons.is_empty() && !terms.relaxed {
        let reasons = reasons.join("; ");
        return Some(format!("{reasons}; --metadata-durability=relaxed accepts that"));
    }
    None
}

/// Returns the reason why none of several usable servers can be chosen, or `None` if they are one
/// server with several addresses.
pub(crate) fn conflict(usable: &[&Server]) -> Option<&'static str> {
    let (first, others) = usable.split_first()?;
    if others.iter().any(|other| other.system != first.system) {
        return Some("it and another host are servers of different databases");
    }
    // Both have the highest timeline, since servers with a lower one are refused.
    if others.iter().any(|other| other.started != first.started) {
        return Some(
            "it and another host accept writes on the same timeline; stop the one that is not the \
             primary",
        );
    }
    None
}

#[cfg(test)]
mod tests;
