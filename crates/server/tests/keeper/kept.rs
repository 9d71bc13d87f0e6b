//! A mount with its keeper and its successive workers.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use databases::{Database, Engine};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The limit of time of each step, for a debug build on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Returns the program without the `ASHLAR_` variables of the tester's environment.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").stdin(Stdio::null());
    command
}

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if this environment can mount. Otherwise prints that the test is skipped.
pub(crate) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        assert!(
            std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_none(),
            "nothing can be mounted"
        );
        eprintln!("left out: only root can mount for this, and where there is /dev/fuse");
    }
    can
}

/// Returns a Redis server, if one is installed.
pub(crate) fn redis() -> Option<Database> {
    if Database::installed(Engine::Redis) {
        return Some(Database::start(Engine::Redis));
    }
    assert!(std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_none(), "there is no Redis");
    eprintln!("left out: there is no Redis");
    None
}

/// Creates the volume of a data directory with a gateway that is stopped again, because a mount
/// creates none.
pub(crate) fn make_volume(data: &Path, meta: Option<&str>, options: &[&str]) {
    if data.join("volume.place").exists() {
        return;
    }
    let mut command = program();
    command.args(["serve", "--create", "--listen", "127.0.0.1:0", "--admin-listen", "off"]);
    command.arg("--data-dir").arg(data).args(options);
    if let Some(meta) = meta {
        command.args(["--meta", meta]);
    }
    let mut gateway = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(gateway.stderr.take().unwrap()).lines();
    let serving = lines.any(|line| line.unwrap().contains(" serving "));
    assert!(serving, "the gateway has ended");
    signal(gateway.id(), Signal::TERM);
    lines.for_each(drop);
    assert!(gateway.wait().unwrap().success());
}

/// A mount and its keeper. Both end with the drop.
pub(crate) struct Kept {
    pub(crate) folder: TempDir,
    keeper: Child,
    meta: Option<String>,
    options: Vec<String>,
    /// The process ids of the workers so far.
    workers: Vec<u32>,
}

impl Kept {
    /// Mounts a new volume with this metadata store, or with SQLite.
    pub(crate) fn new(meta: Option<&str>) -> Kept {
        Kept::over(tempfile::tempdir().unwrap(), meta)
    }

    /// Mounts the volume of a folder.
    pub(crate) fn over(folder: TempDir, meta: Option<&str>) -> Kept {
        Kept::mounted(folder, meta, &[])
    }

    fn mounted(folder: TempDir, meta: Option<&str>, options: &[&str]) -> Kept {
        let at = folder.path().join("mount");
        fs::create_dir_all(&at).unwrap();
        make_volume(&folder.path().join("data"), meta, options);
        let log = OpenOptions::new().append(true).create(true).open(log_of(&folder)).unwrap();
        let before = read_log(&folder).matches("mounted folder").count();
        let mut command = program();
        command.arg("mount").arg(&at).arg("--foreground").arg("--data-dir");
        command.arg(folder.path().join("data")).args(["--log", "info,mountd=debug"]);
        if let Some(meta) = meta {
            command.args(["--meta", meta]);
        }
        command.args(options);
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let keeper = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let meta = meta.map(str::to_owned);
        let mut kept = Kept { folder, keeper, meta, options, workers: Vec::new() };
        eventually("it is mounted", || {
            assert!(kept.keeper.try_wait().unwrap().is_none(), "it ended: {}", kept.log());
            read_log(&kept.folder).matches("mounted folder").count() > before
        });
        let worker = kept.worker().expect("there is a worker");
        kept.workers.push(worker);
        kept
    }

    /// Mounts the same volume a second time, on another directory and with another keeper.
    pub(crate) fn beside(&self) -> Kept {
        let blocks = format!("file:{}", self.folder.path().join("data/blocks").display());
        let meta = self.meta.as_deref();
        Kept::mounted(tempfile::tempdir().unwrap(), meta, &["--blocks", &blocks])
    }

    /// Returns a path on the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mount").join(name)
    }

    pub(crate) fn log(&self) -> String {
        read_log(&self.folder)
    }

    pub(crate) fn keeper(&self) -> u32 {
        self.keeper.id()
    }

    /// Returns the process id of the current worker.
    pub(crate) fn worker(&self) -> Option<u32> {
        let keeper = self.keeper.id();
        let children = format!("/proc/{keeper}/task/{keeper}/children");
        // A killed worker that hangs in the kernel is listed before the next one.
        fs::read_to_string(children).ok()?.split_whitespace().last()?.parse().ok()
    }

    /// Kills the worker, and waits until another one has been started.
    pub(crate) fn kill_worker(&mut self) {
        let mut worker = None;
        eventually("there is a worker", || {
            worker = self.worker();
            worker.is_some()
        });
        let worker = worker.unwrap();
        signal(worker, Signal::KILL);
        eventually("another worker", || self.worker().is_some_and(|next| next != worker));
        self.workers.push(self.worker().unwrap_or_default());
    }

    /// Returns the number of workers so far.
    pub(crate) fn workers(&self) -> usize {
        let mut workers = self.workers.clone();
        workers.sort_unstable();
        workers.dedup();
        workers.len()
    }

    /// Asks the keeper to end, as a service manager does, and waits for it.
    pub(crate) fn end(&mut self) -> ExitStatus {
        signal(self.keeper.id(), Signal::TERM);
        self.ended()
    }

    /// Waits until the keeper has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the keeper ends", || {
            status = self.keeper.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn is_mounted(&self) -> bool {
        is_mounted(&self.path(""))
    }

    /// Ends the mount, if it still exists, and mounts the same volume again.
    pub(crate) fn anew(self) -> Kept {
        let options = self.options.clone();
        self.anew_with(&options.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The same with other options.
    pub(crate) fn anew_with(mut self, options: &[&str]) -> Kept {
        if self.keeper.try_wait().unwrap().is_none() {
            assert!(self.end().success(), "{}", self.log());
        }
        assert!(!self.is_mounted(), "{}", self.log());
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Kept::mounted(folder, self.meta.clone().as_deref(), options)
    }
}

pub(crate) fn signal(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

pub(crate) fn is_mounted(folder: &Path) -> bool {
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(folder))
}

fn log_of(folder: &TempDir) -> PathBuf {
    folder.path().join("log")
}

fn read_log(folder: &TempDir) -> String {
    fs::read_to_string(log_of(folder)).unwrap_or_default()
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.keeper.try_wait().is_ok_and(|ended| ended.is_none()) {
            if let Some(worker) = self.worker()
                && thread::panicking()
            {
                signal(self.keeper.id(), Signal::KILL);
                signal(worker, Signal::KILL);
            } else {
                signal(self.keeper.id(), Signal::TERM);
            }
            let deadline = Instant::now() + PATIENCE;
            while self.keeper.try_wait().is_ok_and(|ended| ended.is_none()) {
                if Instant::now() > deadline {
                    let _ended = self.keeper.kill();
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        if is_mounted(&self.path("")) {
            let _taken = Command::new("umount").arg("-f").arg(self.path("")).output();
            let _taken = Command::new("umount").arg("-l").arg(self.path("")).output();
        }
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// A file for writing.
pub(crate) fn make(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
}
