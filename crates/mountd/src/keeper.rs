//! The keeper of a mount: a process with the lifetime of the mount.
//!
//! The keeper mounts, and holds the descriptor of the FUSE device and the mount's ledger. It starts
//! the *worker*, which opens the volume and serves requests. If the worker exits or must be
//! replaced, the keeper starts the next one with the same device and ledger. Programs wait
//! meanwhile, and continue with their open files and locks. For example, `ashlar mount --replace`
//! starts a worker of a new release.
//!
//! The keeper has no state of the volume. It opens no file on the mount, because it would wait for
//! itself.

mod background;
mod control;
mod link;
mod program;
mod signals;
mod worker;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fuse::{Device, MountOptions, Notifier, UnmountMode};
use problem::Problem;
use volume::Ledger;

use crate::mounted::{ACCESS_TIMES_TIMEOUT, END_TIMEOUT, HANDOVER_TIMEOUT, not_mounted};
use control::{ControlSocket, PREDECESSOR_TIMEOUT, REPLACE_TIMEOUT, ReplaceRequest};
use link::FromWorker;
use program::this_program;
use signals::KeeperSignal;
use worker::{Handed, Worker};

pub use background::{Announcement, detach, reopen_log};
pub use control::replace;
pub use link::{EXIT_HANDED_OVER, KeeperLink, ToWorker};

/// The pause before the next worker starts if the last one served for less than [`STABLE_AFTER`].
/// It doubles with each such worker up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The time of service after which a worker counts as stable: when it exits, the next worker starts
/// without a pause.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// The time after which a worker is killed that was asked to unmount or to hand over.
const STOP_TIMEOUT: Duration = Duration::from_secs(100);

// A worker that stops by its own limits is not killed: it waits for requests, flushes, unmounts or
// ends its tasks, and commits access times.
const _: () = assert!(
    HANDOVER_TIMEOUT.as_secs() + 2 * END_TIMEOUT.as_secs() + ACCESS_TIMES_TIMEOUT.as_secs()
        <= STOP_TIMEOUT.as_secs()
);
// The client of a replacement waits for the end of the old worker and for the start of the new one.
const _: () = assert!(2 * STOP_TIMEOUT.as_secs() <= REPLACE_TIMEOUT.as_secs());
const _: () = assert!(REPLACE_TIMEOUT.as_secs() <= PREDECESSOR_TIMEOUT.as_secs());

/// The interval at which the keeper checks, without a worker, that the mount still exists.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The capacity of the keeper's event queue.
const EVENTS_MAX: usize = 64;

/// The limit of failed workers during an unmount. After it, the keeper unmounts lazily.
const UNMOUNT_ATTEMPTS_MAX: u32 = 3;

/// The parameters of a keeper, the process that holds a mount for its whole life and starts the
/// workers that serve it.
pub struct Keeping {
    /// The directory to mount on.
    pub folder: PathBuf,
    /// The options for mount(2).
    pub options: MountOptions,
    /// The arguments with which the keeper starts each worker, the process that serves the mount.
    pub arguments: Vec<OsString>,
    /// The recipient of the report that the mount exists.
    pub announcement: Announcement,
    /// The socket that workers get as their standard output, for example to serve metrics. The
    /// keeper holds it, so that clients can connect while no worker runs; a worker accepts them
    /// later.
    pub listener: Option<TcpListener>,
    /// Called at SIGHUP: opens the log of the keeper again. The worker gets a SIGHUP, too.
    pub reload: Box<dyn Fn() + Send>,
}

impl fmt::Debug for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// An event that the keeper handles.
#[derive(Debug)]
enum Event {
    /// A signal asks the keeper to unmount.
    Signal,
    /// A signal asks the keeper to open its logs again.
    Reload,
    /// The worker with this number, counted from 1 for each mount, sent a message.
    Message(u64, FromWorker),
    /// The worker with this number exited with this status, or its status could not be read.
    Exited(u64, std::io::Result<ExitStatus>),
    /// `ashlar mount --replace` asks for a worker of another program.
    Replace(ReplaceRequest),
}

/// The phase of the current worker, the process that serves the mount for the keeper.
///
/// ```text
/// Starting --it reports that it serves--> Serving --HandOver or Unmount is sent--> Stopping
///     ^                                      |                                        |
///     +-------------- it exits and the mount still exists: the next worker -----------+
/// ```
#[derive(Debug)]
enum Phase {
    /// The worker opens the volume.
    Starting,
    /// The worker serves requests since this instant.
    Serving(Instant),
    /// The worker was asked to hand over or to unmount.
    Stopping,
}

/// The response to a request for another program while an earlier one is not finished.
const NOT_NOW: &str = "the worker is starting or stopping; try again soon";

/// The state of a keeper, the process that holds a mount and starts its workers.
struct Keeper {
    folder: PathBuf,
    options: MountOptions,
    arguments: Vec<OsString>,
    listener: Option<TcpListener>,
    reload: Box<dyn Fn() + Send>,
    /// True if the worker that starts must get a SIGHUP when it serves.
    must_reload: bool,
    ledger: File,
    /// The FUSE device, once the mount exists.
    device: Option<Device>,
    control: Option<ControlSocket>,
    events: SyncSender<Event>,
    /// The path of the program that the keeper starts as worker.
    program: PathBuf,
    /// During a replacement: the previous program, which is used again if the new one fails, and
    /// the request, which gets the result.
    replacing: Option<(PathBuf, ReplaceRequest)>,
    worker: Worker,
    phase: Phase,
    /// The time at which the worker is killed if it has not exited; `None` unless it was asked to
    /// stop.
    deadline: Option<Instant>,
    /// The next pause before a worker starts.
    pause: Duration,
    /// During an unmount: the number of workers that failed since it was requested. `None` if no
    /// unmount was requested.
    unmounting: Option<u32>,
    /// The error that the worker reported before it exited.
    reported: Option<String>,
}

/// Mounts, and returns when the mount has ended. Fails if the first worker does not serve, if the
/// keeper cannot start workers any more, or if workers fail repeatedly during an unmount.
pub fn keep(keeping: Keeping) -> Result<(), Problem> {
    let Keeping { folder, options, arguments, announcement, listener, reload } = keeping;
    let (sender, events) = sync_channel(EVENTS_MAX);
    let signals = sender.clone();
    let caught = signals::watch(move |signal| {
        let event = match signal {
            KeeperSignal::Unmount => Event::Signal,
            KeeperSignal::Reload => Event::Reload,
        };
        // A full queue already contains signals, so another one may be dropped.
        drop(signals.try_send(event));
    });
    caught.map_err(|error| Problem::new("catch signals", error))?;
    // The keeper owns the ledger, so that it survives each worker.
    let ledger = Ledger::make().map_err(|error| keeping_problem(&folder, error))?;
    let program = this_program()?;
    // The first worker opens the volume before the mount exists: if that fails, no program sees a
    // mount.
    let handed = Handed { ledger: &ledger, device: None, listener: listener.as_ref() };
    let worker = start(1, &program, &arguments, handed, &sender)
        .map_err(|error| keeping_problem(&folder, error))?;
    let mut keeper = Keeper {
        folder,
        options,
        arguments,
        listener,
        reload,
        must_reload: false,
        ledger,
        device: None,
        control: None,
        events: sender,
        program,
        replacing: None,
        worker,
        phase: Phase::Starting,
        deadline: None,
        pause: PAUSE_MIN,
        unmounting: None,
        reported: None,
    };
    // Failures up to here are the failure of the command; later ones are handled by restarts.
    keeper.wait_for_first_worker(&events)?;
    announcement.mounted();
    let ended = keeper.run(&events);
    if let Err(problem) = &ended {
        tracing::error!(%problem, "the keeper ends; the mount has no server any more");
    }
    ended
}

/// Returns a problem of the keeper.
fn keeping_problem(folder: &Path, error: impl std::fmt::Display) -> Problem {
    Problem::new(format!("keep a mount on {}", folder.display()), error)
}

/// Starts a worker, a process that serves the mount. Its messages and its exit become events with
/// its `number`.
fn start(
    number: u64,
    program: &Path,
    arguments: &[OsString],
    handed: Handed<'_>,
    events: &SyncSender<Event>,
) -> std::io::Result<Worker> {
    let (messages, exits) = (events.clone(), events.clone());
    // A send fails only if the keeper is ending.
    let on_message = move |message| drop(messages.send(Event::Message(number, message)));
    let on_exit = move |status| drop(exits.send(Event::Exited(number, status)));
    Worker::start(number, program, arguments, handed, (on_message, on_exit))
}

impl Keeper {
    /// Starts to listen for requests of `ashlar mount --replace` to run workers from another
    /// program. They become events.
    fn listen(&self) -> std::io::Result<ControlSocket> {
        let events = self.events.clone();
        let handle = move |request| events.send(Event::Replace(request)).is_ok();
        ControlSocket::listen(&self.folder, handle)
    }

    /// Waits until the first worker serves, and mounts when it has opened the volume. If the worker
    /// fails, nothing stays mounted.
    fn wait_for_first_worker(&mut self, events: &Receiver<Event>) -> Result<(), Problem> {
        loop {
            match events.recv().map_err(|error| keeping_problem(&self.folder, error))? {
                Event::Message(_, FromWorker::Opened) => self.mount()?,
                Event::Message(_, FromWorker::Serving) => {
                    self.serving();
                    // The mount works without this socket, so a failure is only logged.
                    let control = self.listen();
                    self.control = control
                        .inspect_err(|error| {
                            tracing::warn!(%error, "cannot listen for requests of `ashlar mount --replace`");
                        })
                        .ok();
                    return Ok(());
                }
                Event::Message(_, FromWorker::Failed(why)) => self.reported = Some(why),
                Event::Signal => self.worker.send_command(ToWorker::Unmount),
                Event::Reload => self.reload(),
                Event::Exited(_, status) => {
                    if self.device.is_some() {
                        let _unmounted = fuse::unmount(&self.folder, UnmountMode::Lazy);
                    }
                    return Err(self.failure(&status));
                }
                Event::Replace(request) => {
                    request.refuse("the mount is not ready yet; try again soon");
                }
            }
        }
    }

    /// Mounts the file system, and sends its FUSE device to the first worker, which serves it.
    fn mount(&mut self) -> Result<(), Problem> {
        let mounted = fuse::mount(&self.folder, &self.options);
        let device = mounted.map_err(|error| {
            self.worker.close_link();
            not_mounted(&self.folder, &error)
        })?;
        let sent = self.worker.send_device(&device);
        self.device = Some(device);
        sent.map_err(|error| keeping_problem(&self.folder, error))
    }

    /// Returns the problem of a first worker that exited before the mount existed: the error that
    /// the worker reported, or else its exit status.
    fn failure(&mut self, status: &std::io::Result<ExitStatus>) -> Problem {
        match self.reported.take() {
            Some(why) => Problem::rendered(why),
            None => keeping_problem(
                &self.folder,
                format!("the worker has exited: {}", exit_text(status)),
            ),
        }
    }

    /// Handles events, such as messages and exits of workers, until the mount has ended.
    fn run(&mut self, events: &Receiver<Event>) -> Result<(), Problem> {
        loop {
            let wait = self.deadline.map_or(STOP_TIMEOUT, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            match events.recv_timeout(wait) {
                // Unmounting is asynchronous: the worker unmounts, and its exit ends this loop.
                Ok(Event::Signal) => self.unmount(),
                Ok(Event::Reload) => self.reload(),
                Ok(Event::Replace(request)) => self.replace(request),
                Ok(Event::Message(number, message)) if number == self.worker.number() => {
                    self.handle_message(message);
                }
                Ok(Event::Exited(number, status)) if number == self.worker.number() => {
                    if self.handle_exit(&status, events)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.deadline.take().is_some() => {
                    tracing::error!("killing the worker, which did not stop in time");
                    self.worker.kill();
                }
                // Messages and exits of earlier workers.
                Ok(Event::Message(..) | Event::Exited(..)) | Err(_) => {}
            }
        }
    }

    fn handle_message(&mut self, message: FromWorker) {
        match message {
            FromWorker::Opened => {}
            FromWorker::Failed(why) => self.reported = Some(why),
            FromWorker::Serving => {
                tracing::info!(worker = self.worker.id(), "a new worker serves the mount");
                self.serving();
                if let Some((_, request)) = self.replacing.take() {
                    request.done();
                }
                if self.unmounting.is_some() {
                    self.unmount();
                }
            }
        }
    }

    /// Notes that the worker serves.
    fn serving(&mut self) {
        self.phase = Phase::Serving(Instant::now());
        if std::mem::take(&mut self.must_reload) {
            self.worker.hang_up();
        }
    }

    /// Opens the logs again, in this process and in the worker. A worker that starts gets the
    /// signal when it serves: before that, it may not have a handler, and the signal would end it.
    fn reload(&mut self) {
        (self.reload)();
        match self.phase {
            Phase::Serving(_) => self.worker.hang_up(),
            Phase::Starting | Phase::Stopping => self.must_reload = true,
        }
    }

    /// Asks the worker to unmount. If it is starting, it is asked when it serves.
    fn unmount(&mut self) {
        self.unmounting.get_or_insert(0);
        if let Phase::Serving(_) = self.phase {
            self.worker.send_command(ToWorker::Unmount);
            self.phase = Phase::Stopping;
            self.deadline = Some(Instant::now() + STOP_TIMEOUT);
        }
    }

    /// Asks the worker to hand the mount over, so that the next worker runs the program of the
    /// request. The request gets its response when that worker serves, or when it fails.
    fn replace(&mut self, request: ReplaceRequest) {
        match self.phase {
            Phase::Serving(_) if self.replacing.is_none() && self.unmounting.is_none() => {
                tracing::info!(program = %request.program().display(), "replacing the worker");
                let previous = std::mem::replace(&mut self.program, request.program().to_owned());
                self.replacing = Some((previous, request));
                self.worker.send_command(ToWorker::HandOver);
                self.phase = Phase::Stopping;
                self.deadline = Some(Instant::now() + STOP_TIMEOUT);
            }
            Phase::Starting | Phase::Serving(_) | Phase::Stopping => {
                request.refuse(NOT_NOW);
            }
        }
    }

    /// Handles the exit of the worker: starts the next one if the mount still exists. Returns true
    /// if the mount has ended.
    fn handle_exit(
        &mut self,
        status: &std::io::Result<ExitStatus>,
        events: &Receiver<Event>,
    ) -> Result<bool, Problem> {
        self.deadline = None;
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        // A worker exits with 0 after it has unmounted.
        if code == Some(0) || self.is_unmounted() {
            return Ok(true);
        }
        // After a handover the next worker starts without a pause.
        let handed_over = code == Some(EXIT_HANDED_OVER);
        if !handed_over {
            let why = self.reported.take().unwrap_or_else(|| exit_text(status));
            tracing::error!(
                worker = self.worker.id(),
                why,
                "the worker has failed; starting another one"
            );
            self.resend();
            // A replacement that fails before it serves: the previous program serves again.
            if matches!(self.phase, Phase::Starting)
                && let Some((previous, request)) = self.replacing.take()
            {
                request.refuse(&format!("the new program failed to serve: {why}"));
                self.program = previous;
            }
            if let Some(failed) = &mut self.unmounting {
                *failed += 1;
                if *failed > UNMOUNT_ATTEMPTS_MAX {
                    let _unmounted = fuse::unmount(&self.folder, UnmountMode::Lazy);
                    let wrong =
                        "its workers fail repeatedly during the unmount; dirty data is lost";
                    return Err(keeping_problem(&self.folder, wrong));
                }
            }
            // A worker that fails at once would otherwise be started in a loop without a pause.
            if self.pause(events) {
                return Ok(true);
            }
        }
        self.start_worker(events)
    }

    /// Asks the kernel to queue the requests again that the failed worker has read and not
    /// answered. The next worker reads them, and their callers can be killed meanwhile.
    fn resend(&self) {
        let Some(device) = &self.device else { return };
        if let Err(error) = Notifier::new(device.clone()).resend() {
            tracing::debug!(%error, "the kernel cannot resend requests");
        }
    }

    /// Waits before the next worker starts, unless the last one served for a while. Repeated
    /// failures double the pause. Returns true if the mount has ended meanwhile.
    fn pause(&mut self, events: &Receiver<Event>) -> bool {
        let served = match self.phase {
            Phase::Serving(since) => since.elapsed(),
            Phase::Starting | Phase::Stopping => Duration::ZERO,
        };
        self.phase = Phase::Starting;
        if served >= STABLE_AFTER {
            self.pause = PAUSE_MIN;
            return false;
        }
        // The pause is a limit of restarts, so it may end early: at an unmount, or for a new
        // program.
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if self.is_unmounted() {
                return true;
            }
            if rest.is_zero() || self.unmounting.is_some() {
                return false;
            }
            match events.recv_timeout(rest.min(CHECK_INTERVAL)) {
                Ok(Event::Signal) => self.unmount(),
                Ok(Event::Reload) => self.reload(),
                Ok(Event::Replace(request)) => {
                    if self.replace_between_workers(request) {
                        return false;
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// While no worker serves, chooses the program of the request for the next worker and returns
    /// true. If an earlier request is not finished, refuses this one and returns false. For
    /// example, if a worker failed during a handover, the program of the earlier request starts
    /// next, and its sender still waits.
    fn replace_between_workers(&mut self, request: ReplaceRequest) -> bool {
        if self.replacing.is_some() {
            request.refuse(NOT_NOW);
            return false;
        }
        let previous = std::mem::replace(&mut self.program, request.program().to_owned());
        self.replacing = Some((previous, request));
        true
    }

    /// Starts the next worker, and tries again until it starts. Returns true if the mount has ended
    /// meanwhile.
    fn start_worker(&mut self, events: &Receiver<Event>) -> Result<bool, Problem> {
        self.phase = Phase::Starting;
        loop {
            let handed = Handed {
                ledger: &self.ledger,
                device: self.device.as_ref(),
                listener: self.listener.as_ref(),
            };
            let number = self.worker.number() + 1;
            match start(number, &self.program, &self.arguments, handed, &self.events) {
                Ok(worker) => {
                    self.worker = worker;
                    return Ok(false);
                }
                Err(error) => {
                    tracing::error!(%error, program = %self.program.display(), "cannot start a worker");
                    if let Some((previous, request)) = self.replacing.take() {
                        request.refuse(&format!("the new program does not start: {error}"));
                        self.program = previous;
                    } else {
                        // An update may have deleted the file; the keeper's own program still
                        // exists.
                        self.program = this_program()?;
                    }
                    if self.pause(events) {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Returns true if the mount does not exist any more.
    fn is_unmounted(&self) -> bool {
        self.device.as_ref().is_none_or(Device::is_unmounted)
    }
}

/// Returns the exit status of a process as text.
fn exit_text(status: &std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("its exit status is unknown: {error}"),
    }
}

#[cfg(test)]
mod tests;
