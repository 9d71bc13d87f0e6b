//! A gateway that also mounts its volume.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::servers::{Gateway, Program, Setup, wait_for};

/// The time limit of a mount to appear, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Options of each gateway with a mount: small blocks, as without one.
const OPTIONS: [&str; 4] = ["--block-bytes", "64KiB", "--memory-budget", "16MiB"];

/// A gateway that mounts its volume on a folder. Dropping it unmounts the folder.
#[derive(Debug)]
pub(crate) struct Mount {
    gateway: Option<Gateway>,
    pub(crate) folder: PathBuf,
}

impl Mount {
    #[track_caller]
    pub(crate) fn start(setup: &Setup, folder: &Path) -> Mount {
        Mount::start_with(setup, folder, &[])
    }

    /// The same with more options.
    #[track_caller]
    pub(crate) fn start_with(setup: &Setup, folder: &Path, options: &[&str]) -> Mount {
        Mount::start_of(&setup.clone().options(&[&OPTIONS[..], options].concat()), folder)
    }

    /// The same with the options of the setup.
    #[track_caller]
    pub(crate) fn start_of(setup: &Setup, folder: &Path) -> Mount {
        std::fs::create_dir_all(folder).expect("a folder to mount on");
        let at = folder.to_str().expect("a path of letters");
        let gateway = setup.clone().more_options(&["--mount", at]).start();
        let mount = Mount { gateway: Some(gateway), folder: folder.to_owned() };
        let limit = Instant::now() + PATIENCE;
        while !is_mounted(folder) {
            assert!(Instant::now() < limit, "nothing is mounted:\n{}", mount.gateway().log());
            std::thread::sleep(Duration::from_millis(20));
        }
        mount
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("it runs")
    }

    /// Returns the exit status of the gateway; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.gateway.as_mut().expect("it was started").child.ended()
    }

    /// Stops the gateway, which unmounts the folder.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.gateway.take().expect("it runs").stop();
        assert!(!is_mounted(&self.folder), "its mount is left behind");
    }

    /// Kills the gateway by SIGKILL and unmounts the folder, as an operator would.
    #[track_caller]
    pub(crate) fn kill(mut self) {
        let mut gateway = self.gateway.take().expect("it runs");
        gateway.child.kill();
        self.unmount();
        assert!(!is_mounted(&self.folder), "the mount of a dead process stays");
    }

    fn unmount(&self) {
        let mut command = Command::new("umount");
        let _gone = command.arg("-l").arg(&self.folder).stderr(Stdio::null()).status();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.gateway.take());
        // A killed gateway leaves its mount behind.
        if is_mounted(&self.folder) {
            self.unmount();
        }
    }
}

/// A mount of `ashlar mount`: no process of it serves S3. Dropping it unmounts the folder.
#[derive(Debug)]
pub(crate) struct LoneMount {
    keeper: Program,
    pub(crate) folder: PathBuf,
}

impl LoneMount {
    /// Mounts the volume of a gateway with more options, and waits for the mount.
    #[track_caller]
    pub(crate) fn start(setup: &Setup, folder: &Path, options: &[&str]) -> LoneMount {
        std::fs::create_dir_all(folder).expect("a folder to mount on");
        let mut mount =
            LoneMount { keeper: setup.mount(folder, options), folder: folder.to_owned() };
        let limit = Instant::now() + PATIENCE;
        while !is_mounted(folder) {
            assert_eq!(mount.keeper.ended(), None, "the keeper has ended");
            assert!(Instant::now() < limit, "nothing is mounted");
            std::thread::sleep(Duration::from_millis(20));
        }
        mount
    }

    /// Returns the process that serves the mount, a child of the keeper.
    pub(crate) fn worker(&self) -> Option<Pid> {
        let keeper = self.keeper.pid().as_raw_nonzero();
        let children = format!("/proc/{keeper}/task/{keeper}/children");
        let children = std::fs::read_to_string(children).ok()?;
        // A killed worker that hangs in the kernel is listed before the next one.
        Pid::from_raw(children.split_whitespace().last()?.parse().ok()?)
    }

    /// Kills the worker by SIGKILL, and waits until the keeper has started another one.
    #[track_caller]
    pub(crate) fn kill_worker(&self) {
        let worker = self.worker().expect("the mount is served");
        kill_process(worker, Signal::KILL).expect("a process can be killed");
        let next = || self.worker().is_some_and(|next| next != worker);
        assert!(wait_for(PATIENCE, next), "no other worker follows");
    }

    /// Returns the metrics of the worker.
    pub(crate) fn metrics(&self) -> String {
        let stats = self.folder.join(".ashlar/stats");
        std::fs::read_to_string(stats).expect("the mount has metrics")
    }

    /// Stops the mount by SIGTERM, and fails unless its keeper ends successfully.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.keeper.signal(Signal::TERM);
        let status = self.keeper.wait();
        assert!(status.success(), "{status}");
        assert!(!is_mounted(&self.folder), "its mount is left behind");
    }
}

impl Drop for LoneMount {
    fn drop(&mut self) {
        if is_mounted(&self.folder) {
            let _gone = Command::new("umount").arg("-l").arg(&self.folder).status();
        }
    }
}

fn is_mounted(folder: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").expect("the mounts");
    mounts.lines().any(|line| line.split(' ').nth(1).map(Path::new) == Some(folder))
}

/// Returns true if this machine can mount. If not, prints the reason.
pub(crate) fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    let python = Command::new("python3").arg("--version").output().is_ok();
    if root && python && Path::new("/dev/fuse").exists() {
        return true;
    }
    let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
    assert!(!required, "root, /dev/fuse and python3 are needed");
    eprintln!("not run: root, /dev/fuse and python3 are needed");
    false
}
