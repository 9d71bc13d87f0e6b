//! A worker process, from the keeper's side.
//!
//! A thread of the keeper reads the messages of each worker and waits for its exit. For example,
//! after SIGKILL the worker's end of the socket closes, and the thread reports the exit status.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fuse::{Device, hand_over};
use rustix::process::{Pid, Signal, kill_process};

use super::link::{EXISTING_MOUNT, FromWorker, NEW_MOUNT, ToWorker, listen};

/// The time in which a worker must exit after it has closed its files, and again after SIGKILL.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// The interval at which the exit is polled.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The descriptors that a worker gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handed<'a> {
    /// The ledger, the state that passes from one worker to the next.
    pub(super) ledger: &'a File,
    /// The FUSE device, if the mount exists.
    pub(super) device: Option<&'a Device>,
    /// The socket of the worker's listener, which becomes its standard output: a worker of any
    /// release keeps it open and does not write to it.
    pub(super) listener: Option<&'a TcpListener>,
}

/// A running worker, the process that serves the mount, as its keeper sees it.
#[derive(Debug)]
pub(super) struct Worker {
    /// The number of this worker among those of the mount, from 1.
    number: u64,
    pid: Pid,
    socket: UnixStream,
}

impl Worker {
    /// Starts a worker, and sends it the ledger and the FUSE device. `on_message` gets its
    /// messages, `on_exit` its exit status.
    pub(super) fn start(
        number: u64,
        program: &Path,
        arguments: &[OsString],
        handed: Handed<'_>,
        (on_message, on_exit): (
            impl FnMut(FromWorker) + Send + 'static,
            impl FnOnce(io::Result<ExitStatus>) + Send + 'static,
        ),
    ) -> io::Result<Worker> {
        let (socket, theirs) = UnixStream::pair()?;
        let Handed { ledger, device, listener } = handed;
        let output = match listener {
            Some(listener) => Stdio::from(OwnedFd::from(listener.try_clone()?)),
            None => Stdio::null(),
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(OwnedFd::from(theirs)).stdout(output);
        let child = command.spawn();
        // The command holds the worker's end of the socket. If it stayed open, the exit of the
        // worker would not close the socket.
        drop(command);
        let mut child = child?;
        let worker = Worker { number, pid: Pid::from_child(&child), socket };
        // The thread reads, and this process writes, so each has a descriptor of its own.
        let listening = worker.socket.try_clone()?;
        let watch = move || {
            // The kernel closes the worker's end of the socket when it exits, so this returns then.
            listen(listening, on_message);
            on_exit(exit_status(&mut child));
            let _reaped = child.wait();
        };
        thread::Builder::new().name("worker".to_owned()).spawn(watch)?;
        // If the worker exits before it has received these, `on_exit` reports that.
        let _exited = hand_over(
            &worker.socket,
            ledger.as_fd(),
            if device.is_some() { EXISTING_MOUNT } else { NEW_MOUNT },
        )
        .and_then(|()| device.map_or(Ok(()), |device| worker.send_device(device)));
        Ok(worker)
    }

    /// The number of this worker among those of the mount.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The process id.
    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends the FUSE device.
    pub(super) fn send_device(&self, device: &Device) -> io::Result<()> {
        device.send(&self.socket, &[])
    }

    /// Sends a command. If the worker has exited, `on_exit` reports that.
    pub(super) fn send_command(&self, command: ToWorker) {
        let _exited = (&self.socket).write_all(command.line().as_bytes());
    }

    /// Closes the socket, so that the worker exits: there will be no mount.
    pub(super) fn close_link(&self) {
        let _exited = self.socket.shutdown(Shutdown::Both);
    }

    /// Sends SIGHUP, at which the worker opens its logs again.
    pub(super) fn hang_up(&self) {
        if let Err(error) = kill_process(self.pid, Signal::HUP) {
            tracing::debug!(%error, "the worker has exited before a signal");
        }
    }

    /// Kills the worker.
    pub(super) fn kill(&self) {
        if let Err(error) = kill_process(self.pid, Signal::KILL) {
            tracing::warn!(%error, "cannot kill the worker");
        }
    }
}

/// Returns the exit status of a worker that has closed its files, and kills it if it does not exit.
///
/// A worker that was killed during a notification to the kernel can hang in the kernel, until the
/// next worker has answered the request for which the kernel waits (see `fuse::NoticeQueue`). Its
/// code does not run any more, so it counts as exited.
fn exit_status(child: &mut Child) -> io::Result<ExitStatus> {
    for is_killed in [false, true] {
        let until = Instant::now() + EXIT_GRACE;
        while Instant::now() < until {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(EXIT_POLL_INTERVAL);
        }
        if !is_killed {
            child.kill()?;
        }
    }
    tracing::debug!(
        worker = child.id(),
        "the killed worker hangs in the kernel; it counts as exited"
    );
    Ok(ExitStatus::from_raw(Signal::KILL.as_raw()))
}
