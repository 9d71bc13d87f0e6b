//! A live session: threads that read requests and hand each to the file system.
//!
//! Every request that has an answer gets one, whatever the handler does: one that panics or drops
//! its reply answers EIO. A reader reads the next request as soon as the handler of the last has
//! returned, so a handler that has to wait moves the request elsewhere first. What the requests mean
//! is the file system's concern.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use std::io;
use thiserror::Error;
use tracing::{error, warn};

use crate::abi::{InHeader, READ_BUFFER_MIN, opcode};
use crate::buffer::{BufferPool, PooledBuffer, SMALL_BYTES};
use crate::channel::{Channel, SessionCounters, count};
use crate::device::{Device, ReadOutcome};
use crate::errno::Errno;
use crate::handshake::{self, Answer, KernelOptions, Negotiated};
use crate::in_flight::Interruption;
use crate::notify::{NoticeQueue, Notifier};
use crate::operation::{FileOperation, Forgotten};
use crate::readiness::{Bell, Watch};
use crate::reply::Reply;
use crate::request::{self, Request};

/// Reads in a row that may fail before a reader gives up.
const READ_FAILURES_MAX: u32 = 100;
/// After this many requests for each of which a reader waited, it looks whether they come faster.
const WAITS_BEFORE_POLLING: u32 = 8;

/// What a mount shows.
///
/// Methods are called on the session's threads, several at a time. None may wait for anything that
/// needs another request of the same mount, and none may touch a file of the mount.
pub trait FileSystem: Send + Sync + 'static {
    /// Answers the request, now or later from any thread: request and reply can be moved there.
    /// While it is not answered it holds its buffer: 4 KiB, or one of the few large ones if it is
    /// larger. There are at most as many requests as programs that wait, and those that the kernel
    /// makes by itself ([`KernelOptions::background_max`]).
    fn handle(&self, request: Request, reply: Reply);

    /// The kernel no longer remembers these nodes.
    fn forget(&self, nodes: Forgotten<'_>);

    /// The mount is gone. Comes once, after the last request; not if reading was stopped.
    fn destroyed(&self);
}

/// Why a session did not begin.
#[derive(Debug, Error)]
pub enum StartError {
    /// The kernel speaks a version that is too old, or another protocol.
    #[error("the kernel speaks FUSE {major}.{minor}; 7.31 (Linux 5.4) or later is needed")]
    Protocol {
        /// The kernel's version.
        major: u32,
        /// The kernel's version.
        minor: u32,
    },
    /// The mount went away.
    #[error("the mount is gone")]
    Unmounted,
    /// The device does not answer as one of a mount does.
    #[error("the FUSE device failed")]
    Device(#[source] Errno),
    /// A thread could not be started.
    #[error("a thread could not be started")]
    Thread(#[source] io::Error),
}

/// How the reading of a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The mount is gone.
    Unmounted,
    /// Reading was stopped; the mount is there.
    Stopped,
    /// The device cannot be read, though the mount is there. Nobody serves it any more.
    Failed(Errno),
}

/// A live session. Dropping it stops nothing: the session ends with the mount or with
/// [`KernelSession::stop_reading`].
pub struct KernelSession {
    server: Arc<Server>,
    negotiated: Negotiated,
}

/// What the readers share.
struct Server {
    channel: Arc<Channel>,
    pool: Arc<BufferPool>,
    options: KernelOptions,
    files: Arc<dyn FileSystem>,
    stopping: AtomicBool,
    bell: Bell,
    readers: Mutex<Readers>,
    ended: Condvar,
}

/// Readers that are at work, and what those have seen that are not.
#[derive(Debug, Default)]
struct Readers {
    at_work: usize,
    unmounted: bool,
    failure: Option<Errno>,
}

impl KernelSession {
    /// Begins the session of a new mount: answers INIT and starts the readers.
    pub fn start(
        device: Device,
        options: KernelOptions,
        files: Arc<dyn FileSystem>,
    ) -> Result<KernelSession, StartError> {
        let options = options.within_limits();
        let server = Server::new(device, options, files, options.write_bytes_max)?;
        let negotiated = server.negotiate()?;
        server.start_readers()?;
        Ok(KernelSession { server, negotiated })
    }

    /// Goes on with a mount that another process served: has the kernel send again what that one
    /// read and did not answer, and starts the readers. `negotiated` is what the first session of
    /// the mount agreed on. Nobody else may be reading the device, or requests are served twice.
    ///
    /// Requests that are sent again come in no order, and some may have been carried out before:
    /// [`Request::is_resent`] and [`Request::unique_once`] tell.
    pub fn resume(
        device: Device,
        negotiated: Negotiated,
        options: KernelOptions,
        files: Arc<dyn FileSystem>,
    ) -> Result<KernelSession, StartError> {
        let options = options.within_limits();
        let server = Server::new(device, options, files, negotiated.write_bytes_max)?;
        Notifier::new(server.channel.device.clone()).resend().map_err(StartError::Device)?;
        server.start_readers()?;
        Ok(KernelSession { server, negotiated })
    }

    /// What was agreed on with the kernel.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// The mount's descriptor, to hand it over.
    pub fn device(&self) -> Device {
        self.server.channel.device.clone()
    }

    /// Tells the kernel what it may no longer remember. Not to be used by a request's handler.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.device())
    }

    /// Starts a thread that tells the kernel what is put into its queue.
    pub fn notice_queue(&self) -> io::Result<(NoticeQueue, JoinHandle<()>)> {
        NoticeQueue::start(&self.server.channel.device)
    }

    /// What happened so far.
    pub fn counters(&self) -> SessionCounters {
        self.server.channel.counts.snapshot()
    }

    /// Requests that are read and not yet answered.
    pub fn in_flight(&self) -> usize {
        self.server.channel.in_flight.count()
    }

    /// Stops reading and waits until every reader has ended. Requests that were read are still to
    /// be answered, see [`KernelSession::drain`]; later ones wait for whoever reads the device next.
    pub fn stop_reading(&self) -> Result<SessionEnd, Errno> {
        self.server.stopping.store(true, Ordering::SeqCst);
        self.server.bell.ring()?;
        Ok(self.join())
    }

    /// Waits until every request that was read is answered, but no longer than this. Returns how
    /// many are left.
    pub fn drain(&self, timeout: Duration) -> usize {
        self.server.channel.in_flight.wait_until_empty(timeout)
    }

    /// Waits until every reader has ended: until the mount is gone or reading was stopped.
    pub fn join(&self) -> SessionEnd {
        let mut readers = self.server.lock();
        while readers.at_work > 0 {
            readers = self.server.ended.wait(readers).unwrap_or_else(PoisonError::into_inner);
        }
        match readers.failure {
            _ if readers.unmounted => SessionEnd::Unmounted,
            Some(failure) => SessionEnd::Failed(failure),
            None => SessionEnd::Stopped,
        }
    }
}

impl fmt::Debug for KernelSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelSession")
            .field("negotiated", &self.negotiated)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl Server {
    fn new(
        device: Device,
        options: KernelOptions,
        files: Arc<dyn FileSystem>,
        write_bytes_max: u32,
    ) -> Result<Arc<Server>, StartError> {
        // A page more than the data holds the headers of any request.
        let bytes = usize::try_from(write_bytes_max).unwrap_or(usize::MAX).saturating_add(4096);
        Ok(Arc::new(Server {
            channel: Arc::new(Channel::new(device)),
            pool: BufferPool::new(bytes.max(READ_BUFFER_MIN), options.large_requests_max),
            options,
            files,
            stopping: AtomicBool::new(false),
            bell: Bell::new().map_err(StartError::Device)?,
            readers: Mutex::default(),
            ended: Condvar::new(),
        }))
    }

    /// Answers INIT, which is the first request of a mount.
    fn negotiate(&self) -> Result<Negotiated, StartError> {
        let mut buffer = self.pool.large();
        let watch = self.watch()?;
        loop {
            watch.wait().map_err(StartError::Device)?;
            match self.channel.device.read(&mut buffer).map_err(StartError::Device)? {
                ReadOutcome::Nothing => continue,
                ReadOutcome::Unmounted => return Err(StartError::Unmounted),
                ReadOutcome::Request => {}
            }
            let header = request::header_of(&buffer).filter(|it| it.opcode == opcode::INIT);
            let header = header.ok_or(StartError::Device(Errno::EPROTO))?;
            let answer = handshake::decide(&buffer[size_of::<InHeader>()..], self.options);
            handshake::send(&self.channel, header.unique, &answer).map_err(StartError::Device)?;
            match answer {
                Answer::Agree(negotiated, _) => return Ok(negotiated),
                Answer::SpeakOlder(_) => {}
                Answer::Refuse { major, minor } => {
                    return Err(StartError::Protocol { major, minor });
                }
            }
        }
    }

    fn watch(&self) -> Result<Watch, StartError> {
        Watch::new(&self.channel.device, &self.bell).map_err(StartError::Device)
    }

    fn start_readers(self: &Arc<Server>) -> Result<(), StartError> {
        for number in 0..self.options.readers {
            let watch = self.watch()?;
            self.lock().at_work += 1;
            let server = Arc::clone(self);
            let name = format!("fuse-reader-{number}");
            let thread = thread::Builder::new().name(name).spawn(move || server.run_reader(&watch));
            if let Err(error) = thread {
                self.lock().at_work -= 1;
                if number == 0 {
                    return Err(StartError::Thread(error));
                }
                warn!(%error, readers = number, "fewer threads read requests than wanted");
                break;
            }
        }
        Ok(())
    }

    /// A reader's life.
    fn run_reader(&self, watch: &Watch) {
        let end = self.read_requests(watch);
        let mut readers = self.lock();
        readers.at_work -= 1;
        match end {
            Ok(end) => readers.unmounted |= end == SessionEnd::Unmounted,
            Err(failure) => {
                error!(%failure, readers = readers.at_work, "the FUSE device cannot be read");
                readers.failure = Some(failure);
                // The kernel wakes one reader for a request, and that was this one. The others would
                // sleep until another request comes, and fail as well.
                self.stopping.store(true, Ordering::SeqCst);
                if let Err(failure) = self.bell.ring() {
                    error!(%failure, "the other readers could not be woken");
                }
            }
        }
        let last = readers.at_work == 0 && readers.unmounted;
        drop(readers);
        if last {
            self.catch_panic("destroyed", || self.files.destroyed());
        }
        self.ended.notify_all();
    }

    fn read_requests(&self, watch: &Watch) -> Result<SessionEnd, Errno> {
        let mut kept = None;
        let mut failures = 0;
        // While requests come one by one, a reader waits for each and finds it. While they queue
        // up, it need not wait, and reads until nothing is left.
        let mut waits = 0;
        loop {
            if waits < WAITS_BEFORE_POLLING {
                waits += 1;
                watch.wait()?;
            }
            let mut buffer = kept.take().unwrap_or_else(|| self.pool.large());
            if self.stopping.load(Ordering::SeqCst) {
                return Ok(SessionEnd::Stopped);
            }
            match self.channel.device.read(&mut buffer) {
                Ok(ReadOutcome::Request) => {
                    failures = 0;
                    kept = self.dispatch(buffer);
                }
                Ok(ReadOutcome::Nothing) => {
                    waits = 0;
                    kept = Some(buffer);
                }
                Ok(ReadOutcome::Unmounted) => return Ok(SessionEnd::Unmounted),
                Err(failure) if failures == READ_FAILURES_MAX => return Err(failure),
                Err(_) => {
                    failures += 1;
                    kept = Some(buffer);
                }
            }
        }
    }

    /// Serves what was read. Gives the buffer back if the request does not need it.
    fn dispatch(&self, buffer: PooledBuffer) -> Option<PooledBuffer> {
        count(&self.channel.counts.requests);
        let Some(header) = request::header_of(&buffer) else {
            count(&self.channel.counts.malformed);
            error!(bytes = buffer.len(), "the kernel's request has no header");
            return Some(buffer);
        };
        if !self.is_for_file_system(&header, &buffer) {
            return Some(buffer);
        }
        if buffer.len() > SMALL_BYTES {
            self.serve(header, buffer);
            return None;
        }
        self.serve(header, self.pool.small_with(&buffer));
        Some(buffer)
    }

    /// Deals with what is between the kernel and the session. Returns whether it is something else.
    fn is_for_file_system(&self, header: &InHeader, message: &[u8]) -> bool {
        match header.opcode {
            // The server that read it first died before it answered.
            opcode::INIT => {
                let answer = handshake::decide(&message[size_of::<InHeader>()..], self.options);
                if let Err(failure) = handshake::send(&self.channel, header.unique, &answer) {
                    error!(%failure, "the kernel refused the answer to INIT");
                }
            }
            opcode::DESTROY => self.channel.reply(header.unique, 0, &[]),
            _ => return true,
        }
        false
    }

    fn serve(&self, header: InHeader, buffer: PooledBuffer) {
        let has_answer =
            !matches!(header.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT);
        let request = match Request::parse(header, buffer) {
            Ok(request) => request,
            Err(malformed) => {
                count(&self.channel.counts.malformed);
                error!(%malformed, "refused");
                if has_answer {
                    self.channel.reply(header.unique, -Errno::EIO.number(), &[]);
                }
                return;
            }
        };
        match request.operation() {
            FileOperation::Forget { nodes } => {
                self.catch_panic("forget", || self.files.forget(nodes));
            }
            FileOperation::Interrupt { unique: target } => {
                self.interrupt(header.unique, target);
            }
            FileOperation::Unknown { .. } => {
                self.channel.reply(header.unique, -Errno::ENOSYS.number(), &[]);
            }
            _ => {
                self.channel.in_flight.begin(header.unique);
                let channel = Arc::clone(&self.channel);
                let reply = Reply::new(channel, header.unique, header.opcode);
                self.catch_panic("handle", || self.files.handle(request, reply));
            }
        }
    }

    fn interrupt(&self, unique: u64, target: u64) {
        count(&self.channel.counts.interrupts);
        let noted = catch_unwind(AssertUnwindSafe(|| self.channel.in_flight.interrupt(target)));
        match noted {
            Ok(Interruption::Recorded) => {}
            // Another reader is about to hand the request on: the kernel says it again. If it was
            // answered meanwhile, the kernel has forgotten it and says so.
            Ok(Interruption::Unknown) => {
                match self.channel.send(unique, -Errno::EAGAIN.number(), &[]) {
                    Ok(()) | Err(Errno::ENOENT | Errno::ENODEV) => {}
                    Err(failure) => error!(%failure, "the kernel refused to interrupt again"),
                }
            }
            Err(_) => self.count_panic("on_interrupt"),
        }
    }

    /// Runs a part of the file system; a panic ends this part only.
    fn catch_panic(&self, what: &'static str, part: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(part)).is_err() {
            self.count_panic(what);
        }
    }

    fn count_panic(&self, what: &'static str) {
        count(&self.channel.counts.panics);
        error!(what, "the file system panicked");
    }

    fn lock(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
