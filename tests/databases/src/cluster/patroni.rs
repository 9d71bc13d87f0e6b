//! PostgreSQL with two standbys, managed by Patroni with etcd.
//!
//! Replication is synchronous and strict: the primary acknowledges a commit only after a standby
//! has it, and Patroni promotes no other standby. Patroni starts PostgreSQL as a process of its own
//! session, so both have to be ended or stopped.
//!
//! Patroni uses version 2 of etcd's interface. Over version 3, Patroni 3.0.2 renews a lease that
//! has expired and writes the leader key without a condition. So a primary that was stopped between
//! these steps takes the role back from its successor, and the commits of the successor are lost.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::nodes::{Fault, NODES, Nodes, wait_until};
use crate::descendants::{descendants, is_running, pid_of};
use crate::engine::{CONNECTIONS_MAX, Engine, postgres};
use crate::program::{find, output_of, program, run};

/// Seconds until a silent primary loses its role. Patroni renews the role each second.
const TTL: u32 = 10;

/// Limit of the commits, in bytes, that a standby may lack when it takes over. A synchronous
/// standby lacks no acknowledged commit.
const LAG_MAX: u32 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Patroni {
    nodes: Vec<Node>,
    primary: usize,
    fault: Option<Fault>,
    _etcd: Etcd,
}

/// An etcd of one member.
#[derive(Debug)]
struct Etcd {
    client: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Etcd {
    fn start() -> Etcd {
        let folder = TempDir::with_prefix("ashlar-etcd-").expect("a folder for etcd");
        let (client, peer) = (ports::reserve(), ports::reserve());
        Engine::Postgres.own(folder.path());
        let mut command = Engine::Postgres.as_user("etcd");
        command.args(["--name", "only", "--data-dir"]).arg(folder.path().join("data"));
        for (option, address) in [
            ("--listen-client-urls", client),
            ("--advertise-client-urls", client),
            ("--listen-peer-urls", peer),
            ("--initial-advertise-peer-urls", peer),
        ] {
            command.arg(option).arg(format!("http://{address}"));
        }
        command.arg("--initial-cluster").arg(format!("only=http://{peer}")).arg("--enable-v2");
        let log = File::create(folder.path().join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("etcd starts");
        Etcd { client, child, _folder: folder }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A PostgreSQL server with its Patroni.
#[derive(Debug)]
struct Node {
    name: String,
    folder: TempDir,
    address: SocketAddr,
    patroni: Option<Child>,
    /// Ends PostgreSQL if this process ends without dropping the value.
    guard: Child,
}

/// A shell script that waits for the end of its input, which comes with the end of this process,
/// and kills the server whose data is in the folder `$0`, with its workers, which may be stopped.
const GUARD: &str = r#"
read -r _
pid=$(head -n 1 "$0/postmaster.pid") && grep -aqF "$0" "/proc/$pid/cmdline" &&
    kill -KILL "$pid" $(cat "/proc/$pid/task/$pid/children")
"#;

impl Node {
    fn start(name: String, etcd: SocketAddr) -> Node {
        let folder = TempDir::with_prefix("ashlar-patroni-").expect("a folder for a node");
        let address = ports::reserve();
        Engine::Postgres.own(folder.path());
        let config = settings(&name, folder.path(), address, etcd);
        std::fs::write(folder.path().join("patroni.yml"), config).expect("a file");
        // Not by `as_user`, which would end it at once with this process.
        let mut command = program("sh");
        command.args(["-c", GUARD]).arg(folder.path().join("data")).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let guard = command.spawn().expect("a shell starts");
        let mut node = Node { name, folder, address, patroni: None, guard };
        node.launch();
        node
    }

    fn launch(&mut self) {
        assert!(self.patroni.is_none(), "it runs already");
        let mut command = Engine::Postgres.as_user("patroni");
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = log.expect("a log");
        command.arg(self.folder.path().join("patroni.yml")).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a handle")).stderr(log);
        self.patroni = Some(command.spawn().expect("patroni starts"));
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the first process of PostgreSQL, if it runs.
    fn postmaster(&self) -> Option<Pid> {
        let data = self.folder.path().join("data");
        let file = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let pid = file.lines().next()?.parse().ok()?;
        // The file of a killed server contains the id of a process that is another one by now.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let is_ours = String::from_utf8_lossy(&line).contains(&*data.to_string_lossy());
        is_ours.then(|| pid_of(pid))?
    }

    /// Returns all processes: first Patroni, then the one that would replace its workers, then
    /// these.
    fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        let patroni = self.patroni.as_ref().map(Pid::from_child);
        for root in [patroni, self.postmaster()].into_iter().flatten() {
            found.push(root);
            found.extend(descendants(root.as_raw_pid().unsigned_abs()));
        }
        found
    }

    fn signal(&self, signal: Signal) {
        let patroni = self.patroni.as_ref().expect("the processes to signal are running");
        kill_process(Pid::from_child(patroni), signal).expect("it can be signalled");
        if let Some(postmaster) = self.postmaster() {
            kill_process(postmaster, signal).expect("it can be signalled");
        }
        for process in self.processes() {
            // It may have ended since it was listed.
            let _ = kill_process(process, signal);
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        let mut patroni = self.patroni.take().expect("it is running");
        patroni.wait().expect("it can be waited for");
    }

    /// Asks the server. Returns `None` if it does not answer.
    fn ask(&self, question: &str) -> Option<String> {
        let mut command = postgres(self.address, question);
        command.args(["-A", "-t"]);
        output_of(command)
    }

    fn is_primary(&self) -> bool {
        self.ask("select pg_is_in_recovery()").as_deref() == Some("f")
    }

    fn log(&self) -> String {
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        format!("{}:\n{log}", self.name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for process in self.processes() {
            // It may have ended already.
            let _ = kill_process(process, Signal::KILL);
        }
        if let Some(mut patroni) = self.patroni.take() {
            let _ = patroni.wait();
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}

/// Returns the configuration of a node. The first node creates the cluster with the settings below
/// `bootstrap`.
fn settings(name: &str, folder: &Path, address: SocketAddr, etcd: SocketAddr) -> String {
    let api = ports::reserve();
    let (data, passwords) = (folder.join("data"), folder.join("pgpass"));
    let (data, passwords) = (data.display(), passwords.display());
    let postgres = find("postgres").expect("PostgreSQL is installed");
    let programs = postgres.parent().expect("it is in a folder").display();
    // Patroni gives up the role if etcd does not answer for `retry_timeout` twice, before the role
    // is given to another node: loop_wait + 2 * retry_timeout <= ttl.
    format!(
        r#"scope: volume
name: {name}
restapi: {{listen: "{api}", connect_address: "{api}"}}
etcd: {{hosts: "{etcd}"}}
bootstrap:
  dcs:
    ttl: {TTL}
    loop_wait: 1
    retry_timeout: 4
    maximum_lag_on_failover: {LAG_MAX}
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters: {{max_connections: {CONNECTIONS_MAX}, wal_keep_size: 1GB}}
  initdb: [{{encoding: UTF8}}, {{auth-host: trust}}, {{auth-local: trust}}, no-sync]
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
postgresql:
  listen: "{address}"
  connect_address: "{address}"
  bin_dir: "{programs}"
  data_dir: "{data}"
  pgpass: "{passwords}"
  authentication:
    superuser: {{username: postgres}}
    replication: {{username: postgres}}
    rewind: {{username: postgres}}
  parameters: {{unix_socket_directories: "", shared_buffers: 128MB, min_wal_size: 1GB}}
watchdog: {{mode: "off"}}
"#
    )
}

impl Patroni {
    pub(crate) fn start() -> Patroni {
        let etcd = Etcd::start();
        let mut nodes = vec![Node::start("node-1".to_owned(), etcd.client)];
        wait_until("Patroni creates a cluster", || nodes[0].is_primary(), || nodes[0].log());
        for number in 2..=NODES {
            nodes.push(Node::start(format!("node-{number}"), etcd.client));
        }
        let cluster = Patroni { nodes, primary: 0, fault: None, _etcd: etcd };
        cluster.await_standbys();
        cluster
    }

    /// Waits until all standbys stream from the primary, and a synchronous one has all commits.
    fn await_standbys(&self) {
        const QUESTION: &str = "select count(*) filter (where state = 'streaming') || '/' || \
             count(*) filter (where sync_state = 'sync' and sent_lsn = replay_lsn) \
             from pg_stat_replication";
        let expected = format!("{}/1", self.nodes.len() - 1);
        let found = || self.nodes[self.primary].ask(QUESTION);
        let done = || {
            let standbys = self.nodes.iter().filter(|node| !node.is_primary()).count();
            standbys == self.nodes.len() - 1 && found().as_deref() == Some(&expected)
        };
        wait_until("the standbys of PostgreSQL follow", done, || format!("{:?}", self.logs()));
    }

    fn logs(&self) -> Vec<String> {
        self.nodes.iter().map(Node::log).collect()
    }
}

impl Nodes for Patroni {
    fn fresh(&self, name: &str) -> String {
        run(postgres(self.nodes[self.primary].address, &format!("create database \"{name}\"")));
        let hosts: Vec<String> = self.nodes.iter().map(|node| node.address.to_string()).collect();
        format!("postgres://postgres@{}/{name}", hosts.join(","))
    }

    fn primary(&self) -> usize {
        self.primary
    }

    fn address(&self, node: usize) -> SocketAddr {
        self.nodes[node].address
    }

    fn period(&self, node: usize) -> String {
        // The first eight digits of the name of the log file that the primary writes.
        let question = "select left(pg_walfile_name(pg_current_wal_lsn()), 8)";
        let timeline = self.nodes[node].ask(question).unwrap_or_default();
        format!("timeline {timeline}")
    }

    fn disturb(&mut self, fault: Fault) {
        self.fault = Some(fault);
        let node = &mut self.nodes[self.primary];
        assert!(node.postmaster().is_some(), "PostgreSQL runs before the fault");
        match fault {
            Fault::Kill => node.kill(),
            Fault::Freeze => node.signal(Signal::STOP),
        }
    }

    fn hold_back_standbys(&mut self, held: bool) {
        let signal = if held { Signal::STOP } else { Signal::CONT };
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(it, _)| *it != self.primary).for_each(|(_, node)| node.signal(signal));
    }

    fn await_takeover(&mut self) {
        let old = self.primary;
        let mut promoted = None;
        let others = || self.nodes.iter().enumerate().filter(|(number, _)| *number != old);
        let find = || {
            promoted = others().find(|(_, node)| node.is_primary()).map(|(number, _)| number);
            promoted.is_some()
        };
        wait_until("a standby of PostgreSQL takes over", find, || format!("{:?}", self.logs()));
        self.primary = promoted.expect("it was found");
    }

    fn is_silent(&self, node: usize) -> bool {
        !self.nodes[node].processes().into_iter().any(is_running)
    }

    fn bring_back(&mut self, node: usize) {
        match self.fault.take().expect("a fault") {
            Fault::Kill => self.nodes[node].launch(),
            Fault::Freeze => self.nodes[node].signal(Signal::CONT),
        }
        self.await_standbys();
    }
}
