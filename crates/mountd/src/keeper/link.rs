//! The protocol between keeper and worker, over a socket that is the worker's standard input.
//!
//! ```text
//! keeper                              worker
//!   ledger, and "new" or "again"  -->
//!                                 <--  opened      (only for a new mount: the volume is open)
//!   device                        -->              (mounted after "opened" if new)
//!                                 <--  serving
//!   leave | end                   -->              (hand over | unmount)
//!                                 <--  failed REASON  (at any time, before the worker exits)
//! ```
//!
//! The two processes may be of different releases, for example after `ashlar mount --replace`, so
//! these words must not change.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fuse::{Device, take_over};
use problem::Problem;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpListener;
use volume::Ledger;

use crate::mounted::KeptMount;

/// The exit status of a worker that has handed its mount over to the next one.
pub const EXIT_HANDED_OVER: i32 = 10;

/// The message that comes with the ledger to a worker that makes a new mount.
pub(super) const NEW_MOUNT: &[u8] = b"new";

/// The message that comes with the ledger to a worker that continues an existing mount.
pub(super) const EXISTING_MOUNT: &[u8] = b"again";

/// A command of the keeper, the process that holds the mount, to its worker, which serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToWorker {
    /// Hand the mount over to the next worker.
    HandOver,
    /// Unmount, as on SIGTERM.
    Unmount,
}

impl ToWorker {
    /// The line of the command on the socket.
    pub(super) fn line(self) -> &'static str {
        match self {
            ToWorker::HandOver => "leave\n",
            ToWorker::Unmount => "end\n",
        }
    }
}

/// A message of a worker, the process that serves a mount, to its keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FromWorker {
    /// The volume is open; the keeper mounts.
    Opened,
    /// The worker serves requests.
    Serving,
    /// The worker exits because of this error.
    Failed(String),
}

/// The start of a line with an error.
const FAILED: &str = "failed ";

impl FromWorker {
    /// Parses a line of a worker. Returns `None` for an unknown one, for example of a later
    /// release.
    fn parse(line: &str) -> Option<FromWorker> {
        match line {
            "opened" => Some(FromWorker::Opened),
            "serving" => Some(FromWorker::Serving),
            line => line.strip_prefix(FAILED).map(|why| FromWorker::Failed(why.to_owned())),
        }
    }
}

/// Calls `on_message` for each message of a worker, until the worker closes its end.
pub(super) fn listen(socket: UnixStream, mut on_message: impl FnMut(FromWorker)) {
    let lines = BufReader::new(socket).lines().map_while(Result::ok);
    lines.filter_map(|line| FromWorker::parse(&line)).for_each(&mut on_message);
}

/// A worker's end of the socket to its keeper, the process that holds the mount.
#[derive(Debug)]
pub struct KeeperLink {
    socket: UnixStream,
    ledger: Arc<Ledger>,
    is_new: bool,
}

/// Returns a problem of a worker without a keeper.
fn failed(error: impl std::fmt::Display) -> Problem {
    Problem::new("serve a mount for its keeper", error)
        .remedy("--worker is for `ashlar mount` only; use `ashlar mount` without it")
}

impl KeeperLink {
    /// Receives the ledger from the keeper. Fails if the standard input is not a keeper's socket.
    pub fn accept() -> Result<KeeperLink, Problem> {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        let socket = UnixStream::from(input);
        let (ledger, kind) = take_over(&socket).map_err(failed)?;
        let ledger = Arc::new(Ledger::open(ledger).map_err(failed)?);
        Ok(KeeperLink { socket, ledger, is_new: kind == NEW_MOUNT })
    }

    /// Returns true if the worker makes the mount, and false if it continues one.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the ledger of the mount, the state that passes from one worker to the next and
    /// outlives this one.
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// Receives the mount, that is, its FUSE device, from the keeper. If the mount is new, first
    /// reports that the volume is open, and the keeper then mounts.
    pub fn mount(&self) -> Result<KeptMount, Problem> {
        if self.is_new {
            self.send("opened\n");
        }
        let (device, _) = Device::receive(&self.socket).map_err(failed)?;
        Ok(KeptMount { ledger: self.ledger(), device })
    }

    /// Returns the socket that the keeper holds for a listener of this worker; `None` if there is
    /// none. Fails if it cannot be used.
    pub fn listener(&self) -> io::Result<Option<TcpListener>> {
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        if !rustix::net::sockopt::socket_acceptconn(&output).unwrap_or(false) {
            return Ok(None);
        }
        let listener = std::net::TcpListener::from(output);
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Some)
    }

    /// Reports that the worker serves requests.
    pub fn report_serving(&self) {
        self.send("serving\n");
    }

    /// Reports the error because of which the worker exits.
    pub fn report_failure(&self, problem: &Problem) {
        let why = problem.to_string().replace('\n', " ");
        self.send(&format!("{FAILED}{why}\n"));
    }

    /// Sends a line. An error means that the keeper has exited, which `next_command` notices.
    fn send(&self, line: &str) {
        let _gone = (&self.socket).write_all(line.as_bytes());
    }

    /// Waits for the next command of the keeper. Returns `Unmount` if the keeper has exited.
    pub async fn next_command(&self) -> ToWorker {
        // The asynchronous reader owns a descriptor, and messages are written to the other one.
        let Ok(socket) = self.socket.try_clone() else { return ToWorker::Unmount };
        let listening = socket
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(socket).map(tokio::io::BufReader::new));
        let Ok(listening) = listening else { return ToWorker::Unmount };
        let mut lines = listening.lines();
        match lines.next_line().await {
            Ok(Some(line)) if line == ToWorker::HandOver.line().trim_end() => ToWorker::HandOver,
            _ => ToWorker::Unmount,
        }
    }
}

#[cfg(test)]
mod tests;
