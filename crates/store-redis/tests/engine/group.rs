//! A master with a replica, and Sentinels that watch them.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use databases::{Database, Engine};
use redis::Connection;
use tempfile::TempDir;

use crate::server;
use crate::settings::run;

/// The name of the master at the Sentinels.
pub(crate) const GROUP: &str = "main";

/// How long a test waits for a state of the group, such as the end of a failover.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A server that is silent for this time has failed.
const DOWN_AFTER: Duration = Duration::from_secs(1);

/// Number of Sentinels that must agree that a master has failed.
const QUORUM: usize = 2;

/// A running Sentinel.
#[derive(Debug)]
pub(crate) struct Sentinel {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: TempDir,
}

impl Sentinel {
    /// Starts a Sentinel that watches a master. `settings` are additional lines of its file.
    pub(crate) fn start(master: SocketAddr, quorum: usize, settings: &str) -> Sentinel {
        let folder = TempDir::with_prefix("ashlar-sentinel-").expect("a folder");
        let address = ports::reserve();
        let file = folder.path().join("sentinel.conf");
        let lines = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nprotected-mode no\n\
             sentinel monitor {GROUP} {} {} {quorum}\n\
             sentinel down-after-milliseconds {GROUP} {}\n\
             sentinel failover-timeout {GROUP} 3000\n{settings}\n",
            address.port(),
            folder.path().display(),
            master.ip(),
            master.port(),
            DOWN_AFTER.as_millis(),
        );
        std::fs::write(&file, lines).expect("a file");
        let log = File::create(folder.path().join("log")).expect("a log");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "redis-sentinel"]).arg(&file);
        command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
        let child = command.spawn().expect("redis-sentinel starts");
        Sentinel { address, child, folder }
    }

    fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Returns a field of its configuration of the master; `None` before it has started.
    fn field(&self, name: &str) -> Option<String> {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1)).ok()?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("MASTER").arg(GROUP);
        let fields: std::collections::HashMap<String, String> =
            question.query(&mut connection).ok()?;
        fields.get(name).cloned()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until it answers.
    pub(crate) fn await_start(&self) {
        wait_until("a Sentinel starts", || {
            if server_answers(&self.url()) { Ok(()) } else { Err(self.log()) }
        });
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }
}

/// Returns true if a server answers, be it with an error.
fn server_answers(url: &str) -> bool {
    let client = redis::Client::open(url).expect("an address");
    let Ok(mut connection) = client.get_connection_with_timeout(Duration::from_secs(1)) else {
        return false;
    };
    match redis::cmd("PING").query::<redis::Value>(&mut connection) {
        Ok(_) => true,
        Err(error) => error.code().is_some(),
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `state` returns `Ok`.
pub(crate) fn wait_until(what: &str, mut state: impl FnMut() -> Result<(), String>) {
    let limit = Instant::now() + PATIENCE;
    while let Err(state) = state() {
        assert!(Instant::now() < limit, "{what}: not within {PATIENCE:?}\n{state}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns a fact of a server, or an empty text.
pub(crate) fn fact(connection: &mut Connection, name: &str) -> String {
    let facts: String = redis::cmd("INFO").arg("replication").query(connection).unwrap_or_default();
    let facts = facts.lines().filter_map(|line| line.trim_end().split_once(':'));
    let mut found = facts.filter(|(of, _)| *of == name).map(|(_, value)| value.to_owned());
    found.next().unwrap_or_default()
}

/// A master with a replica, and Sentinels that watch them.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) master: Database,
    pub(crate) replica: Database,
    pub(crate) sentinels: Vec<Sentinel>,
}

/// Returns true if this machine has the programs of a group.
pub(crate) fn is_installed() -> bool {
    let found = Command::new("redis-sentinel").arg("--version").stdout(Stdio::null()).status();
    if found.is_ok() && Database::installed(Engine::Redis) {
        return true;
    }
    assert!(!server::required(), "redis-sentinel must be installed");
    let notice = b"NOT RUN with Sentinels: there is no redis-sentinel\n";
    std::io::stderr().write_all(notice).expect("standard error is open");
    false
}

impl Group {
    /// Starts a group with three Sentinels, and waits until a failover is possible. Returns `None`
    /// if the programs are not installed.
    pub(crate) fn start() -> Option<Group> {
        if !is_installed() {
            return None;
        }
        let master = Database::start(Engine::Redis);
        let replica = Database::replica(&master);
        // A replica that returns need not wait for others.
        for server in [&master, &replica] {
            let mut connection = server::connection(&server.url());
            run(&mut connection, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        }
        let sentinels = (0..3).map(|_| Sentinel::start(master.address(), QUORUM, ""));
        let group = Group { sentinels: sentinels.collect(), master, replica };
        group.await_readiness();
        Some(group)
    }

    fn await_readiness(&self) {
        wait_until("a failover is possible", || {
            let fields = ["num-other-sentinels", "num-slaves", "flags"];
            let state = |sentinel: &Sentinel| fields.map(|name| sentinel.field(name));
            let found: Vec<_> = self.sentinels.iter().map(state).collect();
            let ready = ["2", "1", "master"].map(|value| Some(value.to_owned()));
            let is_ready = found.iter().all(|found| *found == ready);
            if is_ready { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }

    /// Returns the URL of the volume `ashlar` of this group.
    pub(crate) fn url(&self) -> String {
        let sentinels = self.sentinels.iter().map(|sentinel| sentinel.address.to_string());
        format!("redis+sentinel://{}/{GROUP}", sentinels.collect::<Vec<_>>().join(","))
    }
}
