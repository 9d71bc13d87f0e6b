//! A database server as a value: started, killed, paused and restarted.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::descendants::{descendants, is_running, pid_of};
use crate::engine::Engine;
use crate::program::{PATIENCE, PAUSE, find};
use crate::replica;

/// A running database server, or one that was killed and can be restarted.
#[derive(Debug)]
pub struct Database {
    engine: Engine,
    folder: TempDir,
    address: SocketAddr,
    child: Option<Child>,
    /// Additional command-line arguments for the next start.
    settings: Vec<String>,
}

impl Database {
    /// Returns true if this machine has the programs that [`Database::start`] needs.
    pub fn installed(engine: Engine) -> bool {
        engine.programs().iter().all(|program| find(program).is_some())
    }

    /// Starts an empty server.
    pub fn start(engine: Engine) -> Database {
        Database::start_in(engine, &std::env::temp_dir())
    }

    /// Starts an empty server whose folder is in `parent`. Each user of the machine must be able to
    /// search `parent`, because some servers do not run as root.
    pub fn start_in(engine: Engine, parent: &Path) -> Database {
        let mut database = Database::place(engine, parent);
        engine.prepare(database.folder());
        database.restart();
        database
    }

    /// Starts an empty server with additional command-line arguments, as [`Database::set`] does.
    pub(crate) fn start_with(engine: Engine, settings: &[&str]) -> Database {
        let mut database = Database::place(engine, &std::env::temp_dir());
        engine.prepare(database.folder());
        database.set(settings);
        database.restart();
        database
    }

    /// Starts a replica and waits until it has all present data of the primary. It serves reads and
    /// accepts no writes of clients.
    pub fn replica(primary: &Database) -> Database {
        Database::replica_with(primary, &[])
    }

    /// The same with additional command-line arguments, as [`Database::set`] does.
    pub(crate) fn replica_with(primary: &Database, settings: &[&str]) -> Database {
        let mut database = Database::place(primary.engine, &std::env::temp_dir());
        database.set(settings);
        replica::prepare(primary.engine, database.folder(), primary.address);
        database.restart();
        replica::follow(primary.engine, database.address, primary.address);
        database
    }

    pub(crate) fn place(engine: Engine, parent: &Path) -> Database {
        let folder = TempDir::with_prefix_in("ashlar-database-", parent);
        let folder = folder.expect("a folder for a database");
        let address = ports::reserve();
        Database { engine, folder, address, child: None, settings: Vec::new() }
    }

    /// Sets additional command-line arguments for the next starts, such as `--appendfsync no`. They
    /// replace those of an earlier call.
    pub fn set(&mut self, settings: &[&str]) {
        self.settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    }

    /// Returns the kind of server.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the server's own database, for a user with all rights.
    pub fn url(&self) -> String {
        self.engine.url(self.address)
    }

    /// Creates an empty database and returns its URL.
    pub fn fresh(&self, name: &str) -> String {
        self.engine.fresh(self.address, name)
    }

    /// Preallocates the log of a new server. PostgreSQL creates each log file of 16 MiB before its
    /// first use, which on slow disks takes seconds in which each commit waits. Later it reuses the
    /// files.
    pub fn prepare_log(&self) {
        self.engine.prepare_log(self.address);
    }

    /// Returns the URL of the same database through another address, such as that of a proxy.
    pub fn through(url: &str, from: SocketAddr, to: SocketAddr) -> String {
        url.replace(&from.to_string(), &to.to_string())
    }

    /// Starts the server again on the same data and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it runs already, or does not answer in time.
    pub fn restart(&mut self) {
        self.restart_without_waiting();
        self.wait_until_ready();
    }

    /// Starts the server again on the same data, and does not wait for it. For settings with which
    /// this crate cannot ask the server.
    ///
    /// # Panics
    ///
    /// If it runs already.
    pub fn restart_without_waiting(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        self.child = Some(self.launch());
    }

    /// Waits until the server answers. Starts it again if it ends before.
    pub(crate) fn wait_until_ready(&mut self) {
        let limit = Instant::now() + PATIENCE;
        while !self.engine.ready(self.address) {
            let ended = self.child.as_mut().map(|child| child.try_wait().expect("a child"));
            if let Some(Some(status)) = ended {
                // The old process may release its port or locks a little later, so try again.
                assert!(Instant::now() < limit, "{status}\n{}", self.log());
                std::thread::sleep(PAUSE * 5);
                self.child = Some(self.launch());
            }
            assert!(Instant::now() < limit, "{:?} does not start:\n{}", self.engine, self.log());
            std::thread::sleep(PAUSE);
        }
    }

    /// Kills the server and all its processes by SIGKILL.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the process to kill is running");
        let ended = child.try_wait().expect("a child can be asked");
        assert_eq!(ended, None, "the process to kill has ended by itself:\n{}", self.log());
        let workers = descendants(child.id());
        // The server comes first, because it would replace killed workers.
        child.kill().expect("it can be killed");
        for worker in workers {
            // The worker may have ended with the server.
            let _ = kill_process(worker, Signal::KILL);
        }
        child.wait().expect("it can be waited for");
    }

    /// Pauses all its processes by SIGSTOP, or continues them.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn freeze(&self, frozen: bool) {
        let child = self.child.as_ref().expect("the process to pause is running");
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(child), signal).expect("it can be signalled");
        for worker in descendants(child.id()) {
            // A worker may have ended since it was listed.
            let _ = kill_process(worker, signal);
        }
    }

    /// Returns the process ids of the server and its workers.
    pub fn processes(&self) -> Vec<u32> {
        let Some(child) = &self.child else { return Vec::new() };
        let workers = descendants(child.id());
        let workers = workers.iter().filter_map(|pid| u32::try_from(pid.as_raw_pid()).ok());
        std::iter::once(child.id()).chain(workers).collect()
    }

    /// Returns true if none of its processes runs: all have ended or are stopped.
    pub(crate) fn is_silent(&self) -> bool {
        !self.processes().into_iter().filter_map(pid_of).any(is_running)
    }

    /// Returns the folder of its data, so that a test can measure it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn launch(&self) -> Child {
        let mut command = self.engine.server(self.folder.path(), self.address);
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = log.expect("a log");
        command.args(&self.settings);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a handle")).stderr(log);
        command.spawn().expect("the server's program starts")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let workers = descendants(child.id());
            // The server and its workers may have ended already.
            let _ = child.kill();
            for worker in workers {
                let _ = kill_process(worker, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}
