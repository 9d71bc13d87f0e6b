//! A server as a value: started, killed, stopped and started again.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::descendants::descendants;
use crate::engine::Engine;
use crate::program::{PATIENCE, PAUSE, find};
use crate::replica;

/// A running database server, or one that was killed and can be started again.
#[derive(Debug)]
pub struct Database {
    engine: Engine,
    folder: TempDir,
    address: SocketAddr,
    child: Option<Child>,
    /// What the program is told besides, the next time it starts.
    settings: Vec<String>,
}

impl Database {
    /// Whether this machine has what [`Database::start`] needs.
    pub fn installed(engine: Engine) -> bool {
        engine.programs().iter().all(|program| find(program).is_some())
    }

    /// Starts a server with nothing in it.
    pub fn start(engine: Engine) -> Database {
        let mut database = Database::place(engine);
        engine.prepare(database.folder());
        database.restart();
        database
    }

    /// Starts a server that follows another one, and waits until it has all that is there now. It
    /// answers reads, and takes no writes of its own.
    pub fn replica(primary: &Database) -> Database {
        let mut database = Database::place(primary.engine);
        replica::prepare(primary.engine, database.folder(), primary.address);
        database.restart();
        replica::follow(primary.engine, database.address, primary.address);
        database
    }

    fn place(engine: Engine) -> Database {
        let folder = TempDir::with_prefix("ashlar-database-").expect("a folder for a database");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        Database { engine, folder, address, child: None, settings: Vec::new() }
    }

    /// Has the program told more from its next start on, such as `--appendfsync no`: what is told
    /// last counts.
    pub fn set(&mut self, settings: &[&str]) {
        self.settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    }

    /// Which server this is.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the server's own database, for someone who may do everything.
    pub fn url(&self) -> String {
        self.engine.url(self.address)
    }

    /// Makes an empty database, and says its URL.
    pub fn fresh(&self, name: &str) -> String {
        self.engine.fresh(self.address, name)
    }

    /// Gives a new server the log of one that has run for a while: PostgreSQL makes each file of
    /// 16 MiB before its first use, on slow disks for seconds in which every commit waits, and uses
    /// it again and again from then on.
    pub fn prepare_log(&self) {
        self.engine.prepare_log(self.address);
    }

    /// The same database by way of another address, such as a proxy's.
    pub fn through(url: &str, from: SocketAddr, to: SocketAddr) -> String {
        url.replace(&from.to_string(), &to.to_string())
    }

    /// Starts the server again on the same data and waits until it answers.
    ///
    /// # Panics
    /// If it runs already, or does not answer in time.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        self.child = Some(self.launch());
        let limit = Instant::now() + PATIENCE;
        while !self.engine.ready(self.address) {
            let ended = self.child.as_mut().map(|child| child.try_wait().expect("a child"));
            if let Some(Some(status)) = ended {
                // The port, or the old process's locks, may be let go of late.
                assert!(Instant::now() < limit, "{status}\n{}", self.log());
                std::thread::sleep(PAUSE * 5);
                self.child = Some(self.launch());
            }
            assert!(Instant::now() < limit, "{:?} does not start:\n{}", self.engine, self.log());
            std::thread::sleep(PAUSE);
        }
    }

    /// SIGKILL for the server and all its processes, in the middle of whatever they do.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("what is to be killed runs");
        let ended = child.try_wait().expect("a child can be asked");
        assert_eq!(ended, None, "what is to be killed has ended by itself:\n{}", self.log());
        let workers = descendants(child.id());
        // The server itself first: it would put new workers in the place of dead ones.
        child.kill().expect("it can be killed");
        for worker in workers {
            // It may have noticed already, and ended.
            let _ = kill_process(worker, Signal::KILL);
        }
        child.wait().expect("it can be waited for");
    }

    /// Stops all its processes where they are, or lets them go on.
    ///
    /// # Panics
    /// If it does not run.
    pub fn freeze(&self, frozen: bool) {
        let child = self.child.as_ref().expect("what is to be stopped runs");
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(child), signal).expect("it can be signalled");
        for worker in descendants(child.id()) {
            // Workers come and go.
            let _ = kill_process(worker, signal);
        }
    }

    /// The process ids of the server, its workers included.
    pub fn processes(&self) -> Vec<u32> {
        let Some(child) = &self.child else { return Vec::new() };
        let workers = descendants(child.id());
        let workers = workers.iter().filter_map(|pid| u32::try_from(pid.as_raw_pid()).ok());
        std::iter::once(child.id()).chain(workers).collect()
    }

    /// Where its data is, to see how much there is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has said so far.
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
            // It may have ended by itself, and so may they.
            let _ = child.kill();
            for worker in workers {
                let _ = kill_process(worker, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}
