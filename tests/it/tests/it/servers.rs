//! The gateway and MinIO as processes that tests start, kill, stop and restart.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, Request};

pub(crate) const USER: &str = "ashlar-test-user";
pub(crate) const PASSWORD: &str = "ashlar-test-secret/with+signs=";

/// The time limit for the start or the end of a program, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The MinIO bucket that holds the blocks.
const BLOCK_BUCKET: &str = "blocks";

/// The block store of a gateway.
#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    /// The folder `blocks` beside its metadata.
    Folder,
    /// A bucket of the MinIO at this address.
    Bucket(String),
}

/// All settings of a gateway, so that a test can start it again.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The folder of this gateway alone: its log, its data folder, and its metadata if that is a
    /// file.
    pub(crate) folder: PathBuf,
    /// The folder that all gateways of the volume share: the master key, and the blocks if they are
    /// in a folder.
    shared: PathBuf,
    /// The URL of the metadata store; `None` for a file in the data folder.
    meta: Option<String>,
    blocks: Blocks,
    /// The address at which it listens; `None` for a new one.
    listen: Option<String>,
    options: Vec<String>,
    /// Environment variables that shift its clock.
    clock: Vec<(&'static str, String)>,
    /// Environment variables of the gateway and of all commands.
    environment: Vec<(&'static str, String)>,
    /// True if no other process sees its data folder, as on another machine.
    is_apart: bool,
    /// True if it gets the file of the master key that all gateways share.
    has_master_key: bool,
}

impl Setup {
    /// A gateway in `folder` with small blocks, so that a small body already has many of them.
    pub(crate) fn new(folder: &Path, blocks: Blocks) -> Setup {
        let options = ["--block-bytes", "64KiB", "--memory-budget", "16MiB"];
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let (folder, shared) = (folder.to_owned(), folder.to_owned());
        let (meta, listen, clock, environment) = (None, None, Vec::new(), Vec::new());
        let (is_apart, has_master_key) = (false, true);
        Setup {
            folder,
            shared,
            meta,
            blocks,
            listen,
            options,
            clock,
            environment,
            is_apart,
            has_master_key,
        }
    }

    /// The same with metadata in the store at this URL.
    pub(crate) fn meta(mut self, url: &str) -> Setup {
        self.meta = Some(url.to_owned());
        self
    }

    /// Another gateway on the same volume.
    pub(crate) fn sibling(&self, name: &str) -> Setup {
        Setup { folder: self.shared.join(name), ..self.clone() }
    }

    /// The same at the address of an earlier gateway.
    pub(crate) fn at(&self, address: &str) -> Setup {
        Setup { listen: Some(address.to_owned()), ..self.clone() }
    }

    /// The same with a clock that is `seconds` late. Returns `None`, and prints the reason, if
    /// libfaketime is not installed; where services are required, that is a failure.
    pub(crate) fn clock_behind(&self, seconds: i64) -> Option<Setup> {
        self.with_clock(&[("FAKETIME", format!("-{seconds}s"))])
    }

    /// The same with a clock that [`set_clock`] of this file sets while the program runs.
    pub(crate) fn clock_in(&self, file: &Path) -> Option<Setup> {
        set_clock(file, 0);
        let file = file.display().to_string();
        self.with_clock(&[
            ("FAKETIME_TIMESTAMP_FILE", file),
            // Otherwise it reads the file again after ten seconds.
            ("FAKETIME_NO_CACHE", "1".to_owned()),
        ])
    }

    fn with_clock(&self, variables: &[(&'static str, String)]) -> Option<Setup> {
        let Some(library) = faketime() else {
            let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
            assert!(!required, "there is no libfaketime: install the package faketime");
            eprintln!("not run: there is no libfaketime, which the package faketime brings");
            return None;
        };
        let mut clock = vec![
            ("LD_PRELOAD", library.display().to_string()),
            // The monotonic clock stays: it measures waiting times, and no two machines share it.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        clock.extend_from_slice(variables);
        Some(Setup { clock, ..self.clone() })
    }

    /// The same with other options.
    pub(crate) fn options(mut self, options: &[&str]) -> Setup {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
        self
    }

    /// The same with more options.
    pub(crate) fn more_options(mut self, options: &[&str]) -> Setup {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// The same with an environment variable.
    pub(crate) fn environment(mut self, name: &'static str, value: &str) -> Setup {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// The same in a mount namespace in which the data folder is empty and its own. So no other
    /// process sees its socket, as if it ran on another machine. Needs root.
    pub(crate) fn apart(self) -> Setup {
        Setup { is_apart: true, ..self }
    }

    /// The same without the master key. Only a mount starts without it.
    pub(crate) fn without_master_key(self) -> Setup {
        Setup { has_master_key: false, ..self }
    }

    /// Returns the command that runs the program, without arguments.
    fn program(&self) -> Command {
        let program = std::env::var_os("ASHLAR_BIN")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_ashlar-under-test").into());
        if !self.is_apart {
            return Command::new(program);
        }
        let data = self.folder.join("data");
        std::fs::create_dir_all(&data).expect("a data folder");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""]);
        command.arg(data).arg(program);
        command
    }

    fn command(&self, command: &str) -> Command {
        let blocks = match &self.blocks {
            Blocks::Folder => format!("file:{}", self.block_folder().display()),
            Blocks::Bucket(address) => {
                format!("s3://{BLOCK_BUCKET}/volume?endpoint=http://{address}&region=us-east-1")
            }
        };
        let mut command_line = self.program();
        command_line
            .args(["--blocks", &blocks, "--data-dir"])
            .arg(self.folder.join("data"))
            .args(self.meta.iter().flat_map(|url| ["--meta", url]))
            .arg(command)
            .env("ASHLAR_ROOT_USER", USER)
            .env("ASHLAR_ROOT_PASSWORD", PASSWORD)
            .env("ASHLAR_BLOCKS_ACCESS_KEY", USER)
            .env("ASHLAR_BLOCKS_SECRET_KEY", PASSWORD)
            .env("NO_COLOR", "1")
            // Tests create several volumes, in folders that do not exist yet.
            .env("ASHLAR_CREATE", "true")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null());
        if self.has_master_key {
            command_line.env("ASHLAR_MASTER_KEY_FILE", self.shared.join("data/master.key"));
        }
        command_line
    }

    /// Starts the gateway and waits until it serves.
    #[track_caller]
    pub(crate) fn start(&self) -> Gateway {
        match self.try_start() {
            Ok(gateway) => gateway,
            Err((ended, said)) => panic!("no gateway ({ended:?}):\n{said}"),
        }
    }

    /// Starts the gateway and waits until it serves. Fails with its exit status, if it ended, and
    /// its output.
    pub(crate) fn try_start(&self) -> Result<Gateway, (Option<ExitStatus>, String)> {
        std::fs::create_dir_all(&self.folder).expect("a folder for the gateway");
        let log = self.folder.join("log");
        let mut command = self.command("serve");
        // Reserved, because a test may start a gateway at this address again.
        let listen = self.listen.clone().unwrap_or_else(|| ports::reserve().to_string());
        command.args(["--listen", &listen, "--admin-listen", "127.0.0.1:0"]);
        command.args(&self.options).envs(self.clock.iter().cloned());
        let begins = std::fs::read(&log).map_or(0, |log| log.len());
        let mut child = spawn(command, &log);
        let limit = Instant::now() + PATIENCE;
        let (address, admin) = loop {
            let said = std::fs::read(&log).expect("the log is there");
            let said = String::from_utf8_lossy(&said[begins..]).into_owned();
            let announced = |what: &str| {
                let (_, url) = said.split_once(&format!("{what}=\"http"))?;
                let (_, address) = url.split_once('"')?.0.split_once("://")?;
                Some(address.to_owned())
            };
            if let (Some(address), Some(admin)) = (announced("endpoint"), announced("admin")) {
                break (address, admin);
            }
            let ended = child.try_wait().expect("the child can be asked");
            if ended.is_some() || Instant::now() > limit {
                drop(Program(child));
                return Err((ended, said));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let client = Client { address, key: USER.to_owned(), secret: PASSWORD.to_owned() };
        Ok(Gateway { child: Program(child), client, admin, log, begins })
    }

    /// Starts `ashlar mount` in the foreground with more options. Returns at once, before the mount
    /// exists.
    pub(crate) fn mount(&self, folder: &Path, options: &[&str]) -> Program {
        let mut command = self.command("mount");
        command.arg(folder).arg("--foreground").args(&self.options).args(options);
        Program(spawn(command, &self.folder.join("mount.log")))
    }

    /// Starts a command of the same program on the same volume, and returns at once. Its output
    /// goes to the file `command.log`.
    pub(crate) fn begin(&self, command: &str, arguments: &[&str]) -> Program {
        let mut command_line = self.command(command);
        command_line.args(arguments);
        Program(spawn(command_line, &self.folder.join("command.log")))
    }

    /// Returns the path of the metadata store that is a file.
    pub(crate) fn meta_file(&self) -> PathBuf {
        self.folder.join("data/meta.db")
    }

    /// Runs a command of the same program on the same volume. Returns the exit status and the
    /// output.
    pub(crate) fn run(&self, command: &str, arguments: &[&str]) -> (ExitStatus, String) {
        let output = self.command(command).args(arguments).output().expect("the program runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&said).into_owned())
    }

    fn block_folder(&self) -> PathBuf {
        self.shared.join("blocks")
    }

    /// Returns the files of all blocks, unfinished ones included.
    pub(crate) fn block_files(&self) -> Vec<PathBuf> {
        let mut found = files(&self.block_folder());
        // This file holds the id of the volume, not a block.
        found.retain(|path| *path != self.block_folder().join("volume"));
        found.sort();
        found
    }
}

/// Returns all files below a folder, which may change meanwhile.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// A child process that is killed at the end of its test.
#[derive(Debug)]
pub(crate) struct Program(Child);

impl Program {
    /// Kills the process by SIGKILL and waits for its end.
    pub(crate) fn kill(&mut self) {
        let ended = self.0.try_wait().expect("the child can be asked");
        assert_eq!(ended, None, "the process to kill has ended by itself");
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("a child can be signalled");
    }

    /// Waits until the process ends.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let limit = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().expect("a child can be asked") {
                return status;
            }
            assert!(Instant::now() < limit, "the program does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the exit status; `None` while the process runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child can be asked")
    }

    /// Returns the process's id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Returns the peak resident memory so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))
            .expect("a running program has a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.expect("the kernel counts in kB") << 10
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) child: Program,
    /// A client of its root user.
    pub(crate) client: Client,
    /// The address of its admin listener.
    admin: String,
    log: PathBuf,
    /// Length of the log in bytes when this run began.
    begins: usize,
}

impl Gateway {
    /// Returns the log of this run and of the earlier runs.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the log of this run.
    pub(crate) fn log_of_this_run(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(log.get(self.begins..).unwrap_or_default()).into_owned()
    }

    /// Returns the body of the admin page at this path.
    #[track_caller]
    pub(crate) fn admin_page(&self, path: &str) -> String {
        let admin = Client { address: self.admin.clone(), ..self.client.clone() };
        let wire = Request::new("GET", path).anonymous(&self.admin);
        admin.exchange("GET", &wire).expect("operators are answered").expect(200).text()
    }

    /// Returns a client of its root user for the console's listener.
    #[track_caller]
    pub(crate) fn console(&self) -> Client {
        let log = self.log_of_this_run();
        let (_, url) = log.split_once("console=\"http://").expect("the console is announced");
        let address = url.split_once('"').expect("an address").0.to_owned();
        Client { address, ..self.client.clone() }
    }

    /// Returns the address of its S3 listener.
    pub(crate) fn address(&self) -> &str {
        &self.client.address
    }

    /// Returns the value of a counter, given as `name{label="value"}`.
    #[track_caller]
    pub(crate) fn counter(&self, name: &str) -> u64 {
        metric(&self.admin_page("/metrics"), name)
    }

    /// Fails if the gateway logged an error or a panic.
    #[track_caller]
    pub(crate) fn check_log(&self) {
        let log = self.log();
        let bad: Vec<&str> =
            log.lines().filter(|line| line.contains(" ERROR ") || line.contains("panic")).collect();
        assert!(bad.is_empty(), "the gateway logged {bad:#?}");
    }

    /// Stops the gateway by SIGTERM, and fails unless it ends successfully.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.child.signal(Signal::TERM);
        let status = self.child.wait();
        assert!(status.success(), "{status}\n{}", self.log());
    }
}

/// Returns the value of a metric, given as `name{label="value"}`, in the metrics of a process.
#[track_caller]
pub(crate) fn metric(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in\n{metrics}"))
}

fn spawn(mut command: Command, log: &Path) -> Child {
    let output = File::options().create(true).append(true).open(log).expect("a log");
    command.stdin(Stdio::null()).stdout(output.try_clone().expect("a handle")).stderr(output);
    command.spawn().expect("the program starts")
}

/// A MinIO of one test, which the test may kill.
#[derive(Debug)]
pub(crate) struct Minio {
    program: PathBuf,
    folder: PathBuf,
    pub(crate) address: String,
    pub(crate) child: Program,
}

impl Minio {
    /// Starts a MinIO with a bucket for blocks. Returns `None`, and prints the reason, if MinIO is
    /// not installed; where services are required, that is a failure.
    pub(crate) fn start(folder: &Path) -> Option<Minio> {
        let Some(program) = minio_program() else {
            let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
            assert!(!required, "there is no minio: put it in PATH, or name it ASHLAR_TEST_MINIO");
            eprintln!("not run: there is no minio in PATH, and ASHLAR_TEST_MINIO names none");
            return None;
        };
        let address = ports::reserve().to_string();
        let folder = folder.join("minio");
        std::fs::create_dir_all(&folder).expect("a folder for MinIO");
        let child = launch(&program, &folder, &address);
        let minio = Minio { program, folder, address, child };
        minio.wait_until_ready();
        // MinIO reports that it is ready before it can create a bucket.
        let bucket = format!("/{BLOCK_BUCKET}");
        let made = wait_for(PATIENCE, || minio.client().put(&bucket, b"").status == 200);
        assert!(made, "MinIO makes no bucket");
        Some(minio)
    }

    /// Starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        self.child = launch(&self.program, &self.folder, &self.address);
        self.wait_until_ready();
    }

    /// Returns the names of the stored blocks.
    pub(crate) fn blocks(&self) -> Vec<String> {
        let mut keys = self.client().keys(BLOCK_BUCKET, "", 1000);
        // The gateway writes the first ones to test the bucket, and the last one holds the id of
        // the volume. Both stay.
        keys.retain(|key| !key.starts_with("volume/ashlarprobe") && key != "volume/volume");
        keys
    }

    /// Returns a client of MinIO itself.
    pub(crate) fn client(&self) -> Client {
        let address = self.address.clone();
        Client { address, key: USER.to_owned(), secret: PASSWORD.to_owned() }
    }

    fn wait_until_ready(&self) {
        let limit = Instant::now() + PATIENCE;
        loop {
            let health = Request::new("GET", "/minio/health/ready");
            if self.client().try_send(&health).is_ok_and(|answer| answer.status == 200) {
                return;
            }
            assert!(Instant::now() < limit, "MinIO does not start; see {}", self.folder.display());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn launch(program: &Path, folder: &Path, address: &str) -> Program {
    let mut command = Command::new(program);
    command
        .args(["server", "--quiet", "--address", address, "--console-address", "127.0.0.1:0"])
        .arg("--certs-dir")
        .arg(folder.join("no-certificates"))
        .arg(folder.join("data"))
        .env("MINIO_ROOT_USER", USER)
        .env("MINIO_ROOT_PASSWORD", PASSWORD)
        .env("MINIO_BROWSER", "off")
        // Without it, MinIO refuses a folder on the root disk.
        .env("MINIO_CI_CD", "1");
    Program(spawn(command, &folder.join("log")))
}

/// Sets the clock of the programs of [`Setup::clock_in`] to this difference from the machine's.
pub(crate) fn set_clock(file: &Path, seconds: i64) {
    // A rename, so that no program reads half of it.
    let next = file.with_extension("next");
    std::fs::write(&next, format!("{seconds:+}s\n")).expect("a file");
    std::fs::rename(next, file).expect("it is renamed");
}

/// Returns the path of libfaketime, which gives a program another wall-clock time, if it is
/// installed.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let files = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    files.into_iter().find(|file| file.is_file())
}

fn minio_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ASHLAR_TEST_MINIO") {
        return Some(named.into());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join("minio")).find(|path| path.is_file())
}

/// Returns true if a block's name marks it as a bare block: one bit of its counter does.
pub(crate) fn is_bare(name: &str) -> bool {
    let counter = &name[name.len() - 12..];
    u64::from_str_radix(counter, 16).expect("a counter") & 1 << 46 != 0
}

/// Waits until `done` returns true, for at most `limit`. Returns false if the time ran out.
pub(crate) fn wait_for(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if done() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
