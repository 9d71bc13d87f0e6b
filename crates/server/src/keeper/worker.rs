//! A worker, as its keeper knows it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fuse::{Device, hand_over};
use rustix::process::{Pid, Signal, kill_process};

use super::link::{AGAIN, FromWorker, NEW, ToWorker, listen};

/// The flag with which this program serves a mount for a keeper.
const FLAG: &str = "--worker";

/// How long a worker that has closed its files may take to be gone, before and after it is killed.
const END_GRACE: Duration = Duration::from_millis(300);
const END_LOOK_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Worker {
    /// Counts the workers of the mount.
    number: u64,
    pid: Pid,
    socket: UnixStream,
}

impl Worker {
    /// Starts a worker, and hands it the ledger, and the device if there is a mount. What it says and
    /// how it ends is told.
    pub(super) fn start(
        number: u64,
        program: &Path,
        arguments: &[OsString],
        (ledger, device): (&File, Option<&Device>),
        (hear, ended): (
            impl FnMut(FromWorker) + Send + 'static,
            impl FnOnce(io::Result<ExitStatus>) + Send + 'static,
        ),
    ) -> io::Result<Worker> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).arg(FLAG).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let child = command.spawn();
        // The command holds the other end of the socket; with it open there would be no end of it.
        drop(command);
        let mut child = child?;
        let worker = Worker { number, pid: Pid::from_child(&child), socket };
        let listening = worker.socket.try_clone()?;
        let watch = move || {
            // Its end of the socket is closed with all its files when it dies.
            listen(listening, hear);
            ended(end_of(&mut child));
            let _reaped = child.wait();
        };
        thread::Builder::new().name("worker".to_owned()).spawn(watch)?;
        // One that dies before it has taken these says so by its end.
        let _died =
            hand_over(&worker.socket, ledger.as_fd(), if device.is_some() { AGAIN } else { NEW })
                .and_then(|()| device.map_or(Ok(()), |device| worker.send_device(device)));
        Ok(worker)
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The number of its process.
    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(super) fn send_device(&self, device: &Device) -> io::Result<()> {
        device.send(&self.socket, &[])
    }

    /// Tells it something. One that has ended says so by itself.
    pub(super) fn say(&self, what: ToWorker) {
        let _ended = (&self.socket).write_all(what.line().as_bytes());
    }

    /// Lets it know that there will be no mount.
    pub(super) fn let_go(&self) {
        let _ended = self.socket.shutdown(Shutdown::Both);
    }

    pub(super) fn kill(&self) {
        if let Err(error) = kill_process(self.pid, Signal::KILL) {
            tracing::warn!(%error, "the worker could not be killed");
        }
    }
}

/// How a worker ends that has closed its files.
///
/// One that was killed while it told the kernel something stays until the next worker has answered
/// the request for which the kernel waits (see `fuse::NoticeQueue`). Nothing of it runs any more: it is
/// taken for dead.
fn end_of(child: &mut Child) -> io::Result<ExitStatus> {
    for is_killed in [false, true] {
        let until = Instant::now() + END_GRACE;
        while Instant::now() < until {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(END_LOOK_INTERVAL);
        }
        if !is_killed {
            child.kill()?;
        }
    }
    tracing::debug!(worker = child.id(), "it is held up in the kernel on its way to its end");
    Ok(ExitStatus::from_raw(Signal::KILL.as_raw()))
}
