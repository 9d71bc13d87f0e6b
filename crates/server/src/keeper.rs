//! The keeper of a mount: the process that lives as long as the mount does.
//!
//! It opens the device and mounts, keeps both the descriptor and the mount's ledger, and starts the
//! *worker*, which serves. When the worker dies, or is to be replaced, programs wait until the next one
//! serves, and go on. The keeper holds no state of the volume, and no file on the mount: it would wait
//! for itself.

mod background;
mod control;
mod link;
mod program;
mod worker;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fuse::{Device, MountOptions, Notifier, UnmountMode};
use volume::Ledger;

use crate::mount::not_mounted;
use crate::problem::Problem;
use control::{ControlSocket, ReplaceRequest};
use link::FromWorker;
use program::this_program;
use worker::Worker;

pub(crate) use background::{Announcement, detach};
pub(crate) use control::replace;
pub(crate) use link::{EXIT_LEFT, KeeperLink, ToWorker};

/// The pause before a worker is started that follows one that died soon; it doubles up to
/// [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A worker that served for so long did not die soon.
const SERVED_LONG: Duration = Duration::from_secs(1);

/// How long a worker may take to end, or to leave the mount to the next one, before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(100);

/// How often the keeper looks whether there still is a mount while nobody serves it.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Events that may wait for the keeper.
const EVENTS_MAX: usize = 64;

/// How often workers may die in a row while the mount is being ended.
const END_TRIES: u32 = 3;

/// What a keeper is started with.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(crate) folder: PathBuf,
    pub(crate) options: MountOptions,
    /// What workers are started with.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) announcement: Announcement,
}

/// What a keeper waits for.
#[derive(Debug)]
enum Event {
    /// The mount is to be ended.
    Signal,
    /// A worker says something.
    Said(u64, FromWorker),
    /// A worker has ended.
    Ended(u64, std::io::Result<ExitStatus>),
    /// Somebody wants another program to serve.
    Replace(ReplaceRequest),
}

/// Where the keeper is with its worker.
#[derive(Debug)]
enum Phase {
    /// It is being started, for the first time or again.
    Starting,
    /// It serves, since then.
    Serving(Instant),
    /// It was told to leave the mount to another one, or to end it.
    Leaving,
}

#[derive(Debug)]
struct Keeper {
    folder: PathBuf,
    options: MountOptions,
    arguments: Vec<OsString>,
    ledger: File,
    device: Option<Device>,
    control: Option<ControlSocket>,
    events: SyncSender<Event>,
    /// What workers run; another one while it is tried out.
    program: PathBuf,
    before: Option<(PathBuf, ReplaceRequest)>,
    worker: Worker,
    phase: Phase,
    /// When the worker is killed.
    deadline: Option<Instant>,
    pause: Duration,
    /// Whether the mount is to be ended, and how many workers have died since.
    ending: Option<u32>,
    /// What the worker said before it failed.
    said: Option<String>,
}

/// Mounts, and keeps the mount until it ends.
pub(crate) fn keep(keeping: Keeping) -> Result<(), Problem> {
    let Keeping { folder, options, arguments, announcement } = keeping;
    let (sender, events) = sync_channel(EVENTS_MAX);
    let signals = sender.clone();
    // An event that finds no room comes after many others that say the same.
    let caught = ctrlc::set_handler(move || drop(signals.try_send(Event::Signal)));
    caught.map_err(|error| Problem::new("catch signals", error))?;
    let ledger = Ledger::make().map_err(|error| keeping_problem(&folder, error))?;
    let program = this_program()?;
    let worker = start(1, &program, &arguments, (&ledger, None), &sender)
        .map_err(|error| keeping_problem(&folder, error))?;
    let mut keeper = Keeper {
        folder,
        options,
        arguments,
        ledger,
        device: None,
        control: None,
        events: sender,
        program,
        before: None,
        worker,
        phase: Phase::Starting,
        deadline: None,
        pause: PAUSE_MIN,
        ending: None,
        said: None,
    };
    keeper.begin(&events)?;
    announcement.mounted();
    let kept = keeper.keep_on(&events);
    if let Err(problem) = &kept {
        tracing::error!(%problem, "the mount is given up");
    }
    kept
}

fn keeping_problem(folder: &Path, error: impl std::fmt::Display) -> Problem {
    Problem::new(format!("keep a mount on {}", folder.display()), error)
}

/// Starts a worker, whose words and end are events.
fn start(
    number: u64,
    program: &Path,
    arguments: &[OsString],
    handed: (&File, Option<&Device>),
    events: &SyncSender<Event>,
) -> std::io::Result<Worker> {
    let (said, ended) = (events.clone(), events.clone());
    // A keeper that is at its end hears no more.
    let hear = move |what| drop(said.send(Event::Said(number, what)));
    let end = move |status| drop(ended.send(Event::Ended(number, status)));
    Worker::start(number, program, arguments, handed, (hear, end))
}

impl Keeper {
    /// Listens for those who want something of the mount.
    fn listen(&self) -> std::io::Result<ControlSocket> {
        let events = self.events.clone();
        let hear = move |request| events.send(Event::Replace(request)).is_ok();
        ControlSocket::listen(&self.folder, hear)
    }

    /// Waits until the first worker serves. If it does not, nothing is mounted.
    fn begin(&mut self, events: &Receiver<Event>) -> Result<(), Problem> {
        loop {
            match events.recv().map_err(|error| keeping_problem(&self.folder, error))? {
                Event::Said(_, FromWorker::Opened) => self.mount()?,
                Event::Said(_, FromWorker::Serving) => {
                    self.phase = Phase::Serving(Instant::now());
                    let control = self.listen();
                    self.control = control
                        .inspect_err(|error| {
                            tracing::warn!(%error, "this mount's program cannot be replaced");
                        })
                        .ok();
                    return Ok(());
                }
                Event::Said(_, FromWorker::Failed(why)) => self.said = Some(why),
                Event::Signal => self.worker.say(ToWorker::End),
                Event::Ended(_, status) => {
                    if self.device.is_some() {
                        let _unmounted = fuse::unmount(&self.folder, UnmountMode::Lazy);
                    }
                    return Err(self.failure(&status));
                }
                Event::Replace(request) => request.refuse("the mount is being made"),
            }
        }
    }

    fn mount(&mut self) -> Result<(), Problem> {
        let mounted = fuse::mount(&self.folder, &self.options);
        let device = mounted.map_err(|error| {
            self.worker.let_go();
            not_mounted(&self.folder, &error)
        })?;
        let sent = self.worker.send_device(&device);
        self.device = Some(device);
        sent.map_err(|error| keeping_problem(&self.folder, error))
    }

    fn failure(&mut self, status: &std::io::Result<ExitStatus>) -> Problem {
        match self.said.take() {
            Some(why) => Problem::said(why),
            None => keeping_problem(&self.folder, format!("its server has ended: {}", how(status))),
        }
    }

    /// Keeps the mount until it ends.
    fn keep_on(&mut self, events: &Receiver<Event>) -> Result<(), Problem> {
        loop {
            let wait = self.deadline.map_or(END_PATIENCE, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            match events.recv_timeout(wait) {
                Ok(Event::Signal) => self.end(),
                Ok(Event::Replace(request)) => self.replace(request),
                Ok(Event::Said(number, said)) if number == self.worker.number() => self.hear(said),
                Ok(Event::Ended(number, status)) if number == self.worker.number() => {
                    if self.followed(&status, events)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.deadline.take().is_some() => {
                    tracing::error!("the worker does not end; it is killed");
                    self.worker.kill();
                }
                Ok(Event::Said(..) | Event::Ended(..)) | Err(_) => {}
            }
        }
    }

    fn hear(&mut self, said: FromWorker) {
        match said {
            FromWorker::Opened => {}
            FromWorker::Failed(why) => self.said = Some(why),
            FromWorker::Serving => {
                tracing::info!(worker = self.worker.id(), "the mount is served again");
                self.phase = Phase::Serving(Instant::now());
                if let Some((_, request)) = self.before.take() {
                    request.done();
                }
                if self.ending.is_some() {
                    self.end();
                }
            }
        }
    }

    /// Has the worker end the mount. While there is none, the next one does.
    fn end(&mut self) {
        self.ending.get_or_insert(0);
        if let Phase::Serving(_) = self.phase {
            self.worker.say(ToWorker::End);
            self.phase = Phase::Leaving;
            self.deadline = Some(Instant::now() + END_PATIENCE);
        }
    }

    /// Has the worker leave the mount to one that runs another program.
    fn replace(&mut self, request: ReplaceRequest) {
        match self.phase {
            Phase::Serving(_) if self.before.is_none() && self.ending.is_none() => {
                tracing::info!(program = %request.program().display(), "the worker is replaced");
                let before = std::mem::replace(&mut self.program, request.program().to_owned());
                self.before = Some((before, request));
                self.worker.say(ToWorker::Leave);
                self.phase = Phase::Leaving;
                self.deadline = Some(Instant::now() + END_PATIENCE);
            }
            _ => request.refuse("its worker is being started or ended; try again soon"),
        }
    }

    /// Starts the worker that follows one that has ended. Answers whether the mount has ended, too.
    fn followed(
        &mut self,
        status: &std::io::Result<ExitStatus>,
        events: &Receiver<Event>,
    ) -> Result<bool, Problem> {
        self.deadline = None;
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        if code == Some(0) || self.is_gone() {
            return Ok(true);
        }
        let left = code == Some(EXIT_LEFT);
        if !left {
            let why = self.said.take().unwrap_or_else(|| how(status));
            tracing::error!(worker = self.worker.id(), why, "the worker has died; another follows");
            self.resend();
            if matches!(self.phase, Phase::Starting)
                && let Some((before, request)) = self.before.take()
            {
                request.refuse(&format!("the program that was to serve does not: {why}"));
                self.program = before;
            }
            if let Some(died) = &mut self.ending {
                *died += 1;
                if *died > END_TRIES {
                    let _unmounted = fuse::unmount(&self.folder, UnmountMode::Lazy);
                    let wrong = "its worker dies again and again; what programs wrote last is lost";
                    return Err(keeping_problem(&self.folder, wrong));
                }
            }
            if self.pause(events) {
                return Ok(true);
            }
        }
        self.start_worker(events)
    }

    /// Requests that nobody has answered wait for the next worker, and who made them can be killed
    /// meanwhile.
    fn resend(&self) {
        let Some(device) = &self.device else { return };
        if let Err(error) = Notifier::new(device.clone()).resend() {
            tracing::debug!(%error, "the kernel does not send requests again");
        }
    }

    /// Waits before the next worker is started, the longer the more often one has died soon. Answers
    /// whether the mount has ended meanwhile.
    fn pause(&mut self, events: &Receiver<Event>) -> bool {
        let served = match self.phase {
            Phase::Serving(since) => since.elapsed(),
            Phase::Starting | Phase::Leaving => Duration::ZERO,
        };
        self.phase = Phase::Starting;
        if served >= SERVED_LONG {
            self.pause = PAUSE_MIN;
            return false;
        }
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_gone() {
                return true;
            }
            if left.is_zero() || self.ending.is_some() {
                return false;
            }
            match events.recv_timeout(left.min(LOOK_INTERVAL)) {
                Ok(Event::Signal) => self.end(),
                Ok(Event::Replace(request)) => {
                    // Nobody serves: it is the one that is started next.
                    self.before = Some((self.program.clone(), request));
                    if let Some((_, request)) = &self.before {
                        self.program = request.program().to_owned();
                    }
                    return false;
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn start_worker(&mut self, events: &Receiver<Event>) -> Result<bool, Problem> {
        self.phase = Phase::Starting;
        loop {
            let ledger = (&self.ledger, self.device.as_ref());
            let number = self.worker.number() + 1;
            match start(number, &self.program, &self.arguments, ledger, &self.events) {
                Ok(worker) => {
                    self.worker = worker;
                    return Ok(false);
                }
                Err(error) => {
                    tracing::error!(%error, program = %self.program.display(), "no worker starts");
                    if let Some((before, request)) = self.before.take() {
                        request.refuse(&format!("the program does not start: {error}"));
                        self.program = before;
                    } else {
                        // The file may have been replaced: the keeper's own program is there.
                        self.program = this_program()?;
                    }
                    if self.pause(events) {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.device.as_ref().is_none_or(Device::is_unmounted)
    }
}

/// How a process has ended, in words.
fn how(status: &std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("it cannot be waited for: {error}"),
    }
}
