//! MariaDB with two semi-synchronous replicas, behind an address that moves to the primary.
//!
//! The primary acknowledges a commit only after a replica has it, and no client sees the commit
//! before. The test plays the operator, or the program of an operator: it waits until the replicas
//! have applied all that they have received, promotes the one with the most commits, and moves the
//! address. The old primary is killed before it returns as a replica.

use std::net::SocketAddr;

use super::moving::Moving;
use super::nodes::{Fault, NODES, Nodes, wait_until};
use crate::database::Database;
use crate::engine::{Engine, mariadb};
use crate::program::{PATIENCE, output_of, run};

#[derive(Debug)]
pub(crate) struct Replicated {
    servers: Vec<Database>,
    primary: usize,
    moving: Moving,
}

/// Returns the settings of a server. Each server starts as a replica that does not replicate yet.
/// With `init-rpl-role` a killed primary drops the commits that no replica has confirmed.
fn settings(id: usize) -> Vec<String> {
    let mut settings: Vec<String> = [
        // Relative, so that a copy of the files does not name those of another server.
        "--log-bin=binlog",
        "--relay-log=relay",
        "--log-slave-updates",
        "--gtid-strict-mode=1",
        "--read-only=1",
        "--skip-slave-start",
        "--rpl-semi-sync-slave-enabled=1",
        "--init-rpl-role=SLAVE",
        // A day: without a replica the primary waits rather than lose a commit.
        "--rpl-semi-sync-master-timeout=86400000",
        "--rpl-semi-sync-master-wait-no-slave=1",
        "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
    ]
    .map(str::to_owned)
    .into();
    settings.push(format!("--server-id={id}"));
    settings
}

fn execute(server: &Database, statements: &str) {
    run(mariadb(server.address(), statements));
}

/// Returns the last line of the answers.
fn ask(server: &Database, statements: &str) -> Option<String> {
    let mut command = mariadb(server.address(), statements);
    command.args(["--skip-column-names", "--batch"]);
    Some(output_of(command)?.lines().last().unwrap_or_default().to_owned())
}

/// Returns a field of the state of a replica; `None` if the server is no replica.
fn state_of(server: &Database, field: &str) -> Option<String> {
    let states = output_of(mariadb(server.address(), "show slave status\\G"))?;
    let mut fields = states.lines().filter_map(|line| line.trim().split_once(": "));
    fields.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
}

/// Returns the number of the last commit in a position of one domain, such as `0-1-17`.
fn number_of(position: &str) -> u64 {
    assert!(!position.contains(','), "one domain, not {position}");
    let number = position.rsplit('-').next().and_then(|number| number.parse().ok());
    number.unwrap_or(0)
}

/// Makes the server a replica of the primary, from the last commit that it has.
fn follow(server: &Database, primary: SocketAddr) {
    let (host, port) = (primary.ip(), primary.port());
    let statements = format!(
        "set global read_only = 1; set global rpl_semi_sync_master_enabled = 0; \
         stop slave; reset slave all; set global gtid_slave_pos = @@gtid_binlog_pos; \
         change master to master_host = '{host}', master_port = {port}, master_user = 'root', \
         master_connect_retry = 1, master_use_gtid = slave_pos; start slave"
    );
    execute(server, &statements);
}

/// Makes the server the primary, without waiting for anything.
fn promote(server: &Database) {
    execute(
        server,
        "stop slave; reset slave all; set global rpl_semi_sync_master_enabled = 1; \
         set global read_only = 0",
    );
}

impl Replicated {
    pub(crate) fn start() -> Replicated {
        let server = |number| {
            let settings = settings(number);
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            Database::start_with(Engine::Mysql, &settings)
        };
        let servers: Vec<Database> = (1..=NODES).map(server).collect();
        // The installation of each server has commits of its own.
        for server in &servers {
            execute(server, "reset master; set global gtid_slave_pos = ''");
        }
        let address = servers[0].address();
        servers.iter().skip(1).for_each(|server| follow(server, address));
        promote(&servers[0]);
        let cluster = Replicated { servers, primary: 0, moving: Moving::start(address) };
        cluster.await_standbys();
        cluster
    }

    /// Returns the numbers of all servers but one.
    fn others(&self, server: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.servers.len()).filter(move |number| *number != server)
    }

    /// Waits until all replicas follow the primary and have all present commits.
    fn await_standbys(&self) {
        let primary = &self.servers[self.primary];
        let connected = "select variable_value from information_schema.global_status \
             where variable_name = 'rpl_semi_sync_master_clients'";
        let expected = (self.servers.len() - 1).to_string();
        let done = || ask(primary, connected).as_deref() == Some(&expected);
        wait_until("the replicas of MariaDB follow", done, || self.states());
        let position = ask(primary, "select @@gtid_binlog_pos").expect("a position");
        for number in self.others(self.primary) {
            await_position(&self.servers[number], &position);
        }
    }

    fn states(&self) -> String {
        let state = |server: &Database| {
            output_of(mariadb(server.address(), "show slave status\\G")).unwrap_or_default()
        };
        let states: Vec<String> = self.servers.iter().map(state).collect();
        let logs: Vec<String> = self.servers.iter().map(Database::log).collect();
        [states, logs].concat().join("\n")
    }

    /// Makes an old primary a replica. Returns false if it has commits that the present primary
    /// does not have.
    fn rejoin(&self, number: usize) -> bool {
        let server = &self.servers[number];
        follow(server, self.servers[self.primary].address());
        let mut refused = false;
        let state = |field: &str| state_of(server, field).unwrap_or_default();
        let settled = || {
            // The primary refuses a position that its log does not have.
            refused = !matches!(&*state("Last_IO_Errno"), "0" | "2003" | "");
            refused || state("Slave_IO_Running") == "Yes" && state("Slave_SQL_Running") == "Yes"
        };
        wait_until("the old primary of MariaDB follows", settled, || self.states());
        !refused
    }
}

/// Waits until a replica has applied its primary's commits up to a position.
fn await_position(server: &Database, position: &str) {
    let wait = format!("select master_gtid_wait('{position}', {})", PATIENCE.as_secs());
    let told = ask(server, &wait);
    assert_eq!(told.as_deref(), Some("0"), "{} has not {position}", server.address());
}

impl Nodes for Replicated {
    fn fresh(&self, name: &str) -> String {
        Engine::Mysql.fresh(self.moving.address(), name)
    }

    fn primary(&self) -> usize {
        self.primary
    }

    fn address(&self, node: usize) -> SocketAddr {
        self.servers[node].address()
    }

    fn period(&self, _node: usize) -> String {
        // Asked through the address for clients.
        let mut command = mariadb(self.moving.address(), "select @@server_id, @@read_only");
        command.args(["--skip-column-names", "--batch"]);
        let told = output_of(command).expect("the primary answers");
        let (id, read_only) = told.split_once('\t').expect("two columns");
        assert_eq!(read_only, "0", "the primary accepts writes");
        format!("the address leads to server {id}")
    }

    fn disturb(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => self.servers[self.primary].kill(),
            Fault::Freeze => self.servers[self.primary].freeze(true),
        }
    }

    fn hold_back_standbys(&mut self, held: bool) {
        self.others(self.primary).for_each(|it| self.servers[it].freeze(held));
    }

    fn await_takeover(&mut self) {
        let replicas: Vec<usize> = self.others(self.primary).collect();
        let mut best = None;
        for &number in &replicas {
            let replica = &self.servers[number];
            execute(replica, "stop slave io_thread");
            let received = state_of(replica, "Gtid_IO_Pos").expect("it is a replica");
            await_position(replica, &received);
            best = best.max(Some((number_of(&received), number)));
        }
        let (_, chosen) = best.expect("there are replicas");
        let address = self.servers[chosen].address();
        promote(&self.servers[chosen]);
        for &number in replicas.iter().filter(|number| **number != chosen) {
            follow(&self.servers[number], address);
        }
        self.moving.move_to(address);
        self.primary = chosen;
    }

    fn is_silent(&self, node: usize) -> bool {
        self.servers[node].is_silent()
    }

    fn bring_back(&mut self, node: usize) {
        if !self.servers[node].processes().is_empty() {
            // A stopped primary must not continue as a primary.
            self.servers[node].kill();
        }
        self.servers[node].restart();
        if !self.rejoin(node) {
            // It has commits that were never acknowledged. Replace it by a copy of a replica.
            let mut donors = self.others(node).filter(|number| *number != self.primary);
            let donor = donors.next().expect("there is another replica");
            drop(donors);
            let copy = self.servers[donor].remember();
            self.servers[node].kill();
            self.servers[node].restore(&copy);
            assert!(self.rejoin(node), "a copy of a replica is refused\n{}", self.states());
        }
        self.await_standbys();
    }
}
