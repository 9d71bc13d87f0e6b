//! Redis with two replicas and three Sentinels.
//!
//! The primary accepts writes only while a replica follows it. Its replication does not wait, so a
//! failover can lose the last acknowledged writes.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use tempfile::TempDir;

use super::nodes::{Fault, NODES, Nodes, wait_until};
use crate::database::Database;
use crate::engine::{Engine, ask};

/// Number of Sentinels.
const SENTINELS: usize = 3;

/// The name of the primary for Sentinels.
const NAME: &str = "volume";

/// Settings of each server.
const SETTINGS: [&str; 6] = [
    "--min-replicas-to-write",
    "1",
    "--min-replicas-max-lag",
    "10",
    // A replica that returns need not wait for others.
    "--repl-diskless-sync-delay",
    "0",
];

#[derive(Debug)]
pub(crate) struct Sentinel {
    servers: Vec<Database>,
    sentinels: Vec<Watcher>,
    primary: usize,
    fault: Option<Fault>,
}

/// A running Sentinel.
#[derive(Debug)]
struct Watcher {
    address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Watcher {
    fn start(primary: SocketAddr) -> Watcher {
        let folder = TempDir::with_prefix("ashlar-sentinel-").expect("a folder for a Sentinel");
        let address = ports::reserve();
        let config = folder.path().join("sentinel.conf");
        std::fs::write(&config, settings(address, primary, folder.path())).expect("a file");
        let mut command = Engine::Redis.as_user("redis-sentinel");
        let log = File::create(folder.path().join("log")).expect("a log");
        command.arg(&config).stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
        let child = command.spawn().expect("redis-sentinel starts");
        Watcher { address, child, _folder: folder }
    }

    /// Returns a field of an answer of one field in each line, such as that of `SENTINEL MASTER`:
    /// names and values alternate, each after a line with its length.
    fn field(&self, question: &str, name: &str) -> Option<String> {
        let answer = ask(self.address, question)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let mut lines = answer.lines().skip_while(|line| *line != name);
        lines.nth(2).map(str::to_owned)
    }

    /// Returns the address of the primary, as this Sentinel knows it.
    fn primary(&self) -> Option<SocketAddr> {
        let question = format!("SENTINEL get-master-addr-by-name {NAME}");
        let answer = ask(self.address, &question)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let lines: Vec<&str> = answer.lines().collect();
        let [_, _, host, _, port] = lines[..] else { return None };
        format!("{host}:{port}").parse().ok()
    }

    /// Returns true if this Sentinel can agree to a failover: it knows all others, and no node is
    /// down.
    fn is_ready(&self, servers: &[Database]) -> bool {
        let of_master = |field| self.field(&format!("SENTINEL MASTER {NAME}"), field);
        let others = of_master("num-other-sentinels");
        let is_up = of_master("flags").as_deref() == Some("master");
        // One row for each replica, each with its name and flags.
        let replicas = ask(self.address, &format!("SENTINEL REPLICAS {NAME}")).unwrap_or_default();
        let replicas = String::from_utf8_lossy(&replicas).into_owned();
        let lines: Vec<&str> = replicas.lines().collect();
        let up = lines.windows(3).filter(|part| part[0] == "flags" && part[2] == "slave").count();
        let expected = (SENTINELS - 1).to_string();
        is_up && others.as_deref() == Some(&expected) && up == servers.len() - 1
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the configuration of a Sentinel. A server is down after three silent seconds.
fn settings(address: SocketAddr, primary: SocketAddr, folder: &Path) -> String {
    let quorum = SENTINELS / 2 + 1;
    format!(
        "port {}\nbind 127.0.0.1\ndir {}\nprotected-mode no\n\
         sentinel monitor {NAME} {} {} {quorum}\n\
         sentinel down-after-milliseconds {NAME} 3000\n\
         sentinel failover-timeout {NAME} 5000\n\
         sentinel parallel-syncs {NAME} 1\n",
        address.port(),
        folder.display(),
        primary.ip(),
        primary.port(),
    )
}

/// Returns a fact of a server about its replication.
fn fact(server: SocketAddr, name: &str) -> Option<String> {
    let answer = ask(server, "INFO replication")?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let mut lines = answer.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
}

/// Gives a command to a server. Returns true if the server has carried it out.
fn is_done(server: SocketAddr, command: &str) -> bool {
    ask(server, command).is_some_and(|answer| answer.starts_with(b"+OK"))
}

impl Sentinel {
    pub(crate) fn start() -> Sentinel {
        let primary = Database::start_with(Engine::Redis, &SETTINGS);
        let replica = |_| Database::replica_with(&primary, &SETTINGS);
        let replicas: Vec<Database> = (1..NODES).map(replica).collect();
        let watchers = (0..SENTINELS).map(|_| Watcher::start(primary.address()));
        let sentinels = watchers.collect();
        let servers: Vec<Database> = std::iter::once(primary).chain(replicas).collect();
        let cluster = Sentinel { servers, sentinels, primary: 0, fault: None };
        cluster.await_standbys();
        cluster
    }

    /// Waits until all standbys follow the primary and all Sentinels know it.
    fn await_standbys(&self) {
        let primary = self.servers[self.primary].address();
        let is = |server: &Database, name, value: &str| {
            fact(server.address(), name).as_deref() == Some(value)
        };
        let follows = |server: &Database| {
            is(server, "master_port", &primary.port().to_string())
                && is(server, "master_link_status", "up")
        };
        let standbys = || self.servers.iter().filter(|server| server.address() != primary);
        let done = || {
            standbys().all(follows)
                && is(
                    &self.servers[self.primary],
                    "connected_slaves",
                    &standbys().count().to_string(),
                )
                && self.sentinels.iter().all(|sentinel| {
                    sentinel.primary() == Some(primary) && sentinel.is_ready(&self.servers)
                })
        };
        let state = || {
            let servers =
                self.servers.iter().map(|server| ask(server.address(), "INFO replication"));
            let watchers = self.sentinels.iter();
            let watchers = watchers
                .map(|sentinel| ask(sentinel.address, &format!("SENTINEL REPLICAS {NAME}")));
            let told = servers.chain(watchers).flatten();
            told.map(|told| String::from_utf8_lossy(&told).into_owned()).collect()
        };
        wait_until("the replicas of Redis follow", done, state);
    }
}

impl Nodes for Sentinel {
    fn fresh(&self, name: &str) -> String {
        let sentinels: Vec<String> =
            self.sentinels.iter().map(|sentinel| sentinel.address.to_string()).collect();
        format!("redis+sentinel://{}/{NAME}?prefix={name}", sentinels.join(","))
    }

    fn primary(&self) -> usize {
        self.primary
    }

    fn address(&self, node: usize) -> SocketAddr {
        self.servers[node].address()
    }

    fn period(&self, node: usize) -> String {
        // A promoted replica draws a new id of its history.
        let id = fact(self.address(node), "master_replid").unwrap_or_default();
        format!("replication id {id}")
    }

    fn disturb(&mut self, fault: Fault) {
        self.fault = Some(fault);
        match fault {
            Fault::Kill => self.servers[self.primary].kill(),
            Fault::Freeze => self.servers[self.primary].freeze(true),
        }
    }

    fn hold_back_standbys(&mut self, held: bool) {
        // A stopped replica would read later what the primary has sent it. A replica with a wrong
        // password gets nothing, and the primary goes on without replicas.
        if held {
            assert!(is_done(self.address(self.primary), "CONFIG SET min-replicas-to-write 0"));
        }
        let password = if held { "wrong" } else { "''" };
        let primary = self.address(self.primary);
        let standbys = self.servers.iter().map(Database::address).filter(|it| *it != primary);
        for standby in standbys {
            assert!(is_done(standby, &format!("CONFIG SET masterauth {password}")));
            if held {
                ask(standby, "CLIENT KILL TYPE master").expect("an answer");
                let is_down = || fact(standby, "master_link_status").as_deref() == Some("down");
                wait_until("the replica has lost the primary", is_down, String::new);
            }
        }
    }

    fn await_takeover(&mut self) {
        let old = self.servers[self.primary].address();
        let mut promoted = None;
        let find = || {
            let mut known = self.sentinels.iter().filter_map(Watcher::primary);
            promoted = known.find(|address| *address != old);
            promoted.is_some_and(|address| {
                let role = fact(address, "role");
                let replicas = fact(address, "connected_slaves");
                // It accepts writes while a replica follows it.
                role.as_deref() == Some("master") && replicas.is_some_and(|count| count != "0")
            })
        };
        wait_until("a replica of Redis takes over", find, String::new);
        let is_it = |server: &Database| Some(server.address()) == promoted;
        self.primary = self.servers.iter().position(is_it).expect("it is one of the servers");
    }

    fn is_silent(&self, node: usize) -> bool {
        self.servers[node].is_silent()
    }

    fn bring_back(&mut self, node: usize) {
        match self.fault.take().expect("a fault") {
            // It starts as a primary. The Sentinels make it a replica.
            Fault::Kill => self.servers[node].restart(),
            Fault::Freeze => self.servers[node].freeze(false),
        }
        self.await_standbys();
    }
}
