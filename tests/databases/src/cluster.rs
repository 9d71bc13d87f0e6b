//! Clusters of servers with one primary and two standbys. Tests end or stop the primary, and a
//! standby takes over.
//!
//! With one standby alone, a primary that waits for a standby could acknowledge no write after a
//! failover, until the old primary returns. So each cluster has three nodes.
//!
//! For example, `cluster.fail_over(Fault::Freeze)` stops all processes of the primary and returns
//! when another node is the primary. `cluster.heal()` lets the old primary return as a standby.

mod members;
mod moving;
mod nodes;
mod patroni;
mod replicated;
mod sentinel;

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::engine::Engine;
use crate::program::find;
use members::Members;
pub use nodes::Fault;
use nodes::Nodes;
use patroni::Patroni;
use replicated::Replicated;
use sentinel::Sentinel;

/// A failover that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailOver {
    /// The fault that caused it.
    pub fault: Fault,
    /// The address of the old primary, whose processes were dead or stopped until the end.
    pub from: SocketAddr,
    /// The address of the new primary.
    pub to: SocketAddr,
    /// The database's own name of the period in which the old primary was the primary.
    pub before: String,
    /// The name of the period that began with the promotion.
    pub after: String,
    /// The time from the fault until the new primary accepts commands.
    pub took: Duration,
}

impl fmt::Display for FailOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailOver { fault, from, to, before, after, took } = self;
        write!(f, "{fault:?} of {from} ({before}): {to} took over in {took:?} ({after})")
    }
}

/// A running cluster. It ends when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    engine: Engine,
    nodes: Box<dyn Nodes>,
    /// The node that has failed and was not brought back.
    failed: Option<usize>,
}

impl Cluster {
    /// Returns true if this machine has the programs that [`Cluster::start`] needs.
    pub fn installed(engine: Engine) -> bool {
        let programs: &[&str] = match engine {
            Engine::Postgres => &["patroni", "etcd"],
            Engine::Mysql | Engine::Etcd => &[],
            Engine::Redis => &["redis-sentinel"],
        };
        Database::installed(engine) && programs.iter().all(|program| find(program).is_some())
    }

    /// Starts an empty cluster and waits until the standbys follow the primary:
    /// - PostgreSQL by Patroni, with `synchronous_mode_strict`;
    /// - MariaDB with semi-synchronous replicas, behind an address that moves to the primary;
    /// - Redis by Sentinel;
    /// - etcd with three members, of which the leader counts as the primary.
    pub fn start(engine: Engine) -> Cluster {
        let nodes: Box<dyn Nodes> = match engine {
            Engine::Postgres => Box::new(Patroni::start()),
            Engine::Mysql => Box::new(Replicated::start()),
            Engine::Redis => Box::new(Sentinel::start()),
            Engine::Etcd => Box::new(Members::start()),
        };
        Cluster { engine, nodes, failed: None }
    }

    /// Returns the kind of server.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Creates an empty database and returns a URL that leads to the primary after each failover.
    pub fn fresh(&self, name: &str) -> String {
        self.nodes.fresh(name)
    }

    /// Returns the address of the present primary itself.
    pub fn primary(&self) -> SocketAddr {
        self.nodes.address(self.nodes.primary())
    }

    /// Ends or stops the primary, and waits until another node is the primary.
    ///
    /// # Panics
    ///
    /// If the cluster was not healed since the last call, if no node takes over in time, or if the
    /// old primary runs meanwhile.
    pub fn fail_over(&mut self, fault: Fault) -> FailOver {
        self.fail_over_by(fault, |nodes| nodes.disturb(fault))
    }

    /// Lets a standby take over that lacks what `write` writes: keeps the standbys from following,
    /// calls `write`, and kills the primary. A primary that waits for a standby acknowledges no
    /// write meanwhile.
    ///
    /// # Panics
    ///
    /// Like [`Cluster::fail_over`].
    pub fn fail_over_behind(&mut self, write: impl FnOnce()) -> FailOver {
        self.fail_over_by(Fault::Kill, |nodes| {
            nodes.hold_back_standbys(true);
            write();
            nodes.disturb(Fault::Kill);
            nodes.hold_back_standbys(false);
        })
    }

    fn fail_over_by(&mut self, fault: Fault, disturb: impl FnOnce(&mut dyn Nodes)) -> FailOver {
        assert_eq!(self.failed, None, "heal it first");
        let old = self.nodes.primary();
        let (from, before) = (self.nodes.address(old), self.nodes.period(old));
        let began = Instant::now();
        disturb(&mut *self.nodes);
        self.failed = Some(old);
        self.nodes.await_takeover();
        let took = began.elapsed();
        assert!(self.nodes.is_silent(old), "{from} runs after {fault:?}");
        let new = self.nodes.primary();
        let (to, after) = (self.nodes.address(new), self.nodes.period(new));
        assert_ne!((from, &before), (to, &after), "nothing has changed");
        assert_ne!(before, after, "{to} was not promoted");
        FailOver { fault, from, to, before, after, took }
    }

    /// Brings the node that failed back as a standby, and waits until the next failover is
    /// possible.
    ///
    /// # Panics
    ///
    /// If no node has failed, or if the node does not follow the primary in time.
    pub fn heal(&mut self) {
        let failed = self.failed.take().expect("a node has failed");
        self.nodes.bring_back(failed);
    }
}
