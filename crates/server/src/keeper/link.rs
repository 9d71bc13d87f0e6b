//! What keeper and worker say to each other, over a socket that is the worker's standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fuse::{Device, take_over};
use tokio::io::AsyncBufReadExt;
use volume::Ledger;

use crate::mount::KeptMount;
use crate::problem::Problem;

/// The exit status of a worker that has left its mount to the next one.
pub(crate) const EXIT_LEFT: i32 = 10;

/// What goes along with the ledger, to a worker that is to make the mount or to go on with it.
pub(super) const NEW: &[u8] = b"new";
pub(super) const AGAIN: &[u8] = b"again";

/// What a keeper tells its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToWorker {
    /// Leave the mount to the process that follows.
    Leave,
    /// End the mount, as on SIGTERM.
    End,
}

impl ToWorker {
    pub(super) fn line(self) -> &'static str {
        match self {
            ToWorker::Leave => "leave\n",
            ToWorker::End => "end\n",
        }
    }
}

/// What a worker tells its keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FromWorker {
    /// The stores are open: mount.
    Opened,
    /// Programs are served.
    Serving,
    /// Why it is about to end.
    Failed(String),
}

const FAILED: &str = "failed ";

impl FromWorker {
    fn parse(line: &str) -> Option<FromWorker> {
        match line {
            "opened" => Some(FromWorker::Opened),
            "serving" => Some(FromWorker::Serving),
            line => line.strip_prefix(FAILED).map(|why| FromWorker::Failed(why.to_owned())),
        }
    }
}

/// What a worker says, until it says no more.
pub(super) fn listen(socket: UnixStream, mut hear: impl FnMut(FromWorker)) {
    let lines = BufReader::new(socket).lines().map_while(Result::ok);
    lines.filter_map(|line| FromWorker::parse(&line)).for_each(&mut hear);
}

/// A worker's end of the socket.
#[derive(Debug)]
pub(crate) struct KeeperLink {
    socket: UnixStream,
    ledger: Arc<Ledger>,
    is_new: bool,
}

fn failed(error: impl std::fmt::Display) -> Problem {
    Problem::new("serve a mount for its keeper", error)
        .remedy("this is started by ashlar mount, not by hand")
}

impl KeeperLink {
    /// Takes what the keeper has for its worker.
    pub(crate) fn take() -> Result<KeeperLink, Problem> {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        let socket = UnixStream::from(input);
        let (ledger, what) = take_over(&socket).map_err(failed)?;
        let ledger = Arc::new(Ledger::open(ledger).map_err(failed)?);
        Ok(KeeperLink { socket, ledger, is_new: what == NEW })
    }

    /// Where it stands what outlives the worker.
    pub(crate) fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// The mount, which is made now if it is a new one.
    pub(crate) fn mount(&self) -> Result<KeptMount, Problem> {
        if self.is_new {
            self.say("opened\n");
        }
        let (device, _) = Device::receive(&self.socket).map_err(failed)?;
        Ok(KeptMount { ledger: self.ledger(), device })
    }

    /// Programs are served.
    pub(crate) fn serving(&self) {
        self.say("serving\n");
    }

    /// Why the worker is about to end.
    pub(crate) fn failed(&self, problem: &Problem) {
        let why = problem.to_string().replace('\n', " ");
        self.say(&format!("{FAILED}{why}\n"));
    }

    /// A keeper that has gone needs not be told.
    fn say(&self, line: &str) {
        let _gone = (&self.socket).write_all(line.as_bytes());
    }

    /// What the keeper says next. One that is gone says that the mount is to end.
    pub(crate) async fn hear(&self) -> ToWorker {
        let Ok(socket) = self.socket.try_clone() else { return ToWorker::End };
        let listening = socket
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(socket).map(tokio::io::BufReader::new));
        let Ok(listening) = listening else { return ToWorker::End };
        let mut lines = listening.lines();
        match lines.next_line().await {
            Ok(Some(line)) if line == ToWorker::Leave.line().trim_end() => ToWorker::Leave,
            _ => ToWorker::End,
        }
    }
}

#[cfg(test)]
mod tests;
