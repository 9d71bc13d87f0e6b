//! Three members of etcd. The leader counts as the primary: without it the others elect a new one.

use std::net::SocketAddr;

use super::nodes::{Fault, Nodes};
use crate::etcd_cluster::EtcdCluster;

/// A cluster of members, one of which is the leader.
#[derive(Debug)]
pub(crate) struct Members {
    cluster: EtcdCluster,
    leader: usize,
    /// The fault of the member that was not brought back.
    fault: Option<Fault>,
}

impl Members {
    pub(crate) fn start() -> Members {
        let cluster = EtcdCluster::start();
        let leader = cluster.leader();
        Members { cluster, leader, fault: None }
    }
}

impl Nodes for Members {
    fn fresh(&self, name: &str) -> String {
        self.cluster.fresh(name)
    }

    fn primary(&self) -> usize {
        self.leader
    }

    fn address(&self, node: usize) -> SocketAddr {
        self.cluster.members()[node].address()
    }

    fn period(&self, node: usize) -> String {
        // Each election begins a new term.
        format!("term {}", self.cluster.field(node, "RaftTerm").unwrap_or_default())
    }

    fn disturb(&mut self, fault: Fault) {
        self.fault = Some(fault);
        match fault {
            Fault::Kill => self.cluster.kill(self.leader),
            Fault::Freeze => self.cluster.freeze(self.leader, true),
        }
    }

    fn hold_back_standbys(&mut self, held: bool) {
        let members = 0..self.cluster.members().len();
        members.filter(|it| *it != self.leader).for_each(|it| self.cluster.freeze(it, held));
    }

    fn await_takeover(&mut self) {
        (self.leader, _) = self.cluster.next_leader(self.leader);
    }

    fn is_silent(&self, node: usize) -> bool {
        self.cluster.members()[node].is_silent()
    }

    fn bring_back(&mut self, node: usize) {
        match self.fault.take().expect("a fault") {
            Fault::Kill => self.cluster.restart(node),
            Fault::Freeze => {
                self.cluster.freeze(node, false);
                self.cluster.wait_for(node);
            }
        }
        // An old leader that continues may begin another election.
        self.leader = self.cluster.leader();
    }
}
