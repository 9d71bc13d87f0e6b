//! The operations that each kind of cluster has, and the waiting for a cluster.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Number of nodes of each cluster.
pub(crate) const NODES: usize = 3;

/// The pause between two questions to a cluster. Some questions start a program.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The time limit of a failover, and of the return of an old primary, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A fault of the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL of all its processes.
    Kill,
    /// SIGSTOP of all its processes. They continue when the cluster is healed.
    Freeze,
}

/// The operations that each kind of cluster has.
pub(crate) trait Nodes: fmt::Debug + Send {
    /// Creates an empty database and returns a URL that leads to the primary after each failover.
    fn fresh(&self, name: &str) -> String;

    /// Returns the present primary.
    fn primary(&self) -> usize;

    /// Returns the address of a node itself.
    fn address(&self, node: usize) -> SocketAddr;

    /// Returns the database's own name of the period since the last promotion, as the node sees it.
    fn period(&self, node: usize) -> String;

    /// Ends or stops all processes of the primary.
    fn disturb(&mut self, fault: Fault);

    /// Keeps the standbys from getting further writes, or lets them follow again.
    fn hold_back_standbys(&mut self, held: bool);

    /// Waits until another node is the primary and accepts commands.
    fn await_takeover(&mut self);

    /// Returns true if no process of the node runs.
    fn is_silent(&self, node: usize) -> bool;

    /// Brings the node back as a standby, and waits until all standbys have all data.
    fn bring_back(&mut self, node: usize);
}

/// Waits until `done` returns true.
///
/// # Panics
///
/// With the text of `state`, if the time ran out.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool, state: impl Fn() -> String) {
    let limit = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < limit, "{what}: not within {PATIENCE:?}\n{}", state());
        std::thread::sleep(ASK_EVERY);
    }
}
