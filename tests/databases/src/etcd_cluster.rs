//! A cluster of members of etcd.
//!
//! For example, a test starts three members with `EtcdCluster::start()`, kills the leader, and
//! waits for the next one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::engine::Engine;
use crate::etcd::{etcdctl, initial_cluster};
use crate::program::{PATIENCE, PAUSE};

/// A cluster of three members, each of which can be killed, paused and restarted.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Database>,
}

/// Number of members.
const MEMBERS: usize = 3;

impl EtcdCluster {
    /// Starts three empty members, and waits until they have a leader.
    pub fn start() -> EtcdCluster {
        let place = |_| Database::place(Engine::Etcd, &std::env::temp_dir());
        let mut members: Vec<Database> = (0..MEMBERS).map(place).collect();
        let addresses: Vec<SocketAddr> = members.iter().map(Database::address).collect();
        // The argument comes after the one that names this member alone, and replaces it.
        let cluster = initial_cluster(&addresses);
        for member in &mut members {
            member.set(&[&cluster]);
            member.restart_without_waiting();
        }
        for member in &mut members {
            member.wait_until_ready();
        }
        EtcdCluster { members }
    }

    /// Returns the members.
    pub fn members(&self) -> &[Database] {
        &self.members
    }

    /// Returns the URL of a store with this name, with all members.
    pub fn fresh(&self, name: &str) -> String {
        let members: Vec<String> =
            self.members.iter().map(|member| member.address().to_string()).collect();
        format!("etcd://{}/{name}", members.join(","))
    }

    /// Returns the index of the leader, after an election if necessary.
    ///
    /// # Panics
    ///
    /// If there is none in time.
    pub fn leader(&self) -> usize {
        let limit = Instant::now() + PATIENCE;
        loop {
            let found = (0..self.members.len()).find(|&index| self.is_leader(index));
            if let Some(index) = found {
                return index;
            }
            assert!(Instant::now() < limit, "the cluster has no leader");
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until another member than this one is the leader. Returns its index and the time that
    /// passed.
    ///
    /// # Panics
    ///
    /// If there is none in time.
    pub fn next_leader(&self, before: usize) -> (usize, Duration) {
        let begun = Instant::now();
        loop {
            let others = (0..self.members.len()).filter(|&index| index != before);
            if let Some(index) = others.into_iter().find(|&index| self.is_leader(index)) {
                return (index, begun.elapsed());
            }
            assert!(begun.elapsed() < PATIENCE, "no other member becomes the leader");
            std::thread::sleep(PAUSE);
        }
    }

    fn is_leader(&self, index: usize) -> bool {
        let leader = self.field(index, "Leader");
        leader.is_some() && leader == self.field(index, "MemberID")
    }

    /// Returns a field of the status of a member; `None` if it does not answer.
    pub(crate) fn field(&self, index: usize, name: &str) -> Option<String> {
        let mut command = etcdctl(&[self.members[index].address()]);
        command.args(["--dial-timeout=1s", "--command-timeout=1s", "endpoint", "status"]);
        let output = command.args(["-w", "fields"]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = format!("\"{name}\" : ");
        text.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned))
    }

    /// Kills a member by SIGKILL.
    pub fn kill(&mut self, index: usize) {
        self.members[index].kill();
    }

    /// Starts a killed member on its data, and waits until it answers.
    pub fn restart(&mut self, index: usize) {
        self.members[index].restart();
    }

    /// Pauses a member by SIGSTOP, or continues it.
    pub fn freeze(&self, index: usize, frozen: bool) {
        self.members[index].freeze(frozen);
    }

    /// Waits until a member that runs answers.
    pub(crate) fn wait_for(&mut self, index: usize) {
        self.members[index].wait_until_ready();
    }
}

impl Database {
    /// Runs `etcdctl` for this member of etcd, to its end. Returns its output.
    ///
    /// # Panics
    ///
    /// With the output of the program, if it fails.
    pub fn etcdctl(&self, arguments: &[&str]) -> String {
        let mut command = etcdctl(&[self.address()]);
        let output = command.args(arguments).output().expect("etcdctl starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "etcdctl {arguments:?}: {said}{errors}");
        said
    }
}
