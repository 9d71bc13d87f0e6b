//! A live session: threads that read requests and pass each to the file system.
//!
//! Invariant: each request that needs a reply gets one. If a handler panics or drops its reply, the
//! request fails with EIO. A reader calls the handler and then reads the next request, so a handler
//! that must wait moves the request to another thread or task first. For example, with two readers,
//! two handlers that sleep would stop the whole mount.
//!
//! ```text
//!   start / resume ──▶ reading ──stop_reading──▶ Stopped     (the mount stays)
//!                         ├──the mount ends────▶ Unmounted   (calls destroyed)
//!                         └──a read fails──────▶ Failed      (the mount stays, not served)
//! ```

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
use crate::meters::OperationCounters;
use crate::notify::{NoticeQueue, Notifier};
use crate::operation::{FileOperation, Forgotten};
use crate::readiness::{Bell, Watch};
use crate::reply::Reply;
use crate::request::{self, Request};

/// The number of consecutive read errors of the device after which a reader (a thread that reads
/// requests) gives up.
const READ_FAILURES_MAX: u32 = 100;
/// The number of consecutive requests for which a reader waits in `epoll`. After them, requests
/// probably queue up, and it reads without waiting until the device is empty.
const WAITS_BEFORE_POLLING: u32 = 8;

/// The file system that a mount shows.
///
/// Methods are called on the session's threads, concurrently. None may wait for another request of
/// the same mount, or access a file of the mount.
pub trait FileSystem: Send + Sync + 'static {
    /// Handles a request, now or later and from any thread: request and reply can be moved. Until
    /// the request is dropped it holds its buffer: 4 KiB, or one of the limited number of large
    /// ones. The number of requests is limited by the number of waiting programs, plus
    /// [`KernelOptions::background_max`].
    fn handle(&self, request: Request, reply: Reply);

    /// Called when the kernel has dropped these nodes from its cache, each with the number of
    /// lookups that the kernel takes back. Has no reply.
    fn forget(&self, nodes: Forgotten<'_>);

    /// Called once when the mount has ended, after the last request. Not called if reading was
    /// stopped.
    fn destroyed(&self);
}

/// The reason why a session with the kernel did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The kernel's version of the protocol is too old.
    #[error("the kernel speaks FUSE {major}.{minor}; 7.31 (Linux 5.4) or later is needed")]
    Protocol {
        /// The major version of the kernel.
        major: u32,
        /// The minor version of the kernel.
        minor: u32,
    },
    /// The mount has ended.
    #[error("the mount is gone")]
    Unmounted,
    /// The device does not behave like one of a mount.
    #[error("the FUSE device failed")]
    Device(#[source] Errno),
    /// No thread that reads requests could be started.
    #[error("a thread could not be started")]
    Thread(#[source] io::Error),
}

/// The reason why the readers (the session's threads that read requests) ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The mount has ended.
    Unmounted,
    /// `KernelSession::stop_reading` was called. The mount stays, and another process can serve it.
    Stopped,
    /// The device cannot be read although the mount exists. No process serves the mount any more.
    Failed(Errno),
}

/// A live session with the kernel, which serves one mount. Dropping it does not end it: it ends
/// with the mount, or with [`KernelSession::stop_reading`].
pub struct KernelSession {
    server: Arc<Server>,
    negotiated: Negotiated,
}

/// The state that the readers (the session's threads that read requests) share.
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

/// The number of running readers (threads that read requests), and the results of those that have
/// ended.
#[derive(Debug, Default)]
struct Readers {
    at_work: usize,
    unmounted: bool,
    failure: Option<Errno>,
}

impl KernelSession {
    /// Starts the session of a new mount: negotiates with the kernel by answering its INIT, and
    /// starts the readers, that is, the threads that read requests and pass each to `files`.
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

    /// Continues the session of another process: has the kernel send again the requests that the
    /// process read and did not answer, and starts the readers. `negotiated` is the result of the
    /// first session of the mount. No other process may read the device, or requests would be
    /// served twice.
    ///
    /// Requests that are sent again come in no particular order, and some may have been executed
    /// before: see [`Request::is_resent`] and [`Request::original_unique`].
    pub fn resume(
        device: Device,
        negotiated: Negotiated,
        options: KernelOptions,
        files: Arc<dyn FileSystem>,
    ) -> Result<KernelSession, StartError> {
        let options = options.within_limits();
        let server = Server::new(device, options, files, negotiated.write_bytes_max)?;
        // Before the first read: requests that this session has read would be sent twice.
        Notifier::new(server.channel.device.clone()).resend().map_err(StartError::Device)?;
        server.start_readers()?;
        Ok(KernelSession { server, negotiated })
    }

    /// Returns the result of the negotiation with the kernel: the version, sizes and features that
    /// both sides use.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Returns the device of the mount, to hand its descriptor to another process.
    pub fn device(&self) -> Device {
        self.server.channel.device.clone()
    }

    /// Returns a notifier, which sends notifications to the kernel on the calling thread. It must
    /// not be used in a request handler.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.device())
    }

    /// Starts a thread that sends queued notifications to the kernel. Returns the queue and the
    /// thread, to wait for its end.
    pub fn notice_queue(&self) -> io::Result<(NoticeQueue, JoinHandle<()>)> {
        NoticeQueue::start(&self.server.channel.device)
    }

    /// Returns the counters of requests, errors and interrupts of the session.
    pub fn counters(&self) -> SessionCounters {
        self.server.channel.counts.snapshot()
    }

    /// Returns the counters of each operation that has occurred in this process.
    pub fn operations(&self) -> Vec<OperationCounters> {
        self.server.channel.meters.snapshot()
    }

    /// Returns the bytes that READ returned, and those that WRITE took, in this process.
    pub fn bytes(&self) -> (u64, u64) {
        self.server.channel.meters.bytes()
    }

    /// Returns the number of requests that were read from the kernel and not answered yet.
    pub fn in_flight(&self) -> usize {
        self.server.channel.in_flight.count()
    }

    /// Stops reading requests, and waits until all readers (threads that read requests) have ended.
    /// Requests that were read must still be answered; see [`KernelSession::drain`]. Later requests
    /// wait for the next process that reads the device.
    pub fn stop_reading(&self) -> Result<SessionEnd, Errno> {
        self.server.stopping.store(true, Ordering::SeqCst);
        // The flag is set first, so that a reader that the bell wakes sees it.
        self.server.bell.ring()?;
        Ok(self.join())
    }

    /// Waits until all requests that were read are answered, at most for `timeout`. Returns the
    /// number of requests that are still not answered.
    pub fn drain(&self, timeout: Duration) -> usize {
        self.server.channel.in_flight.wait_until_empty(timeout)
    }

    /// Waits until all readers (threads that read requests) have ended, because the mount ended or
    /// reading was stopped or failed. Returns the reason.
    pub fn join(&self) -> SessionEnd {
        let mut readers = self.server.lock();
        while readers.at_work > 0 {
            readers = self.server.ended.wait(readers).unwrap_or_else(PoisonError::into_inner);
        }
        match readers.failure {
            // If one reader saw the end of the mount, the errors of the others follow from it.
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
        // One page more than the data has capacity for the headers of any request.
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

    /// Negotiates version and features with the kernel: reads its INIT, which is the first request
    /// of a mount, and replies.
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
            // The kernel sends no other request before INIT is answered.
            let header = request::header_of(&buffer).filter(|header| header.opcode == opcode::INIT);
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
            // Count the reader before it runs: it may end at once, and the last one to end reports
            // it.
            self.lock().at_work += 1;
            let server = Arc::clone(self);
            let name = format!("fuse-reader-{number}");
            let thread = thread::Builder::new().name(name).spawn(move || server.run_reader(&watch));
            if let Err(error) = thread {
                self.lock().at_work -= 1;
                // With at least one reader the mount works, so only the first failure is an error.
                if number == 0 {
                    return Err(StartError::Thread(error));
                }
                warn!(%error, readers = number, "could not start all reader threads");
                break;
            }
        }
        Ok(())
    }

    /// Runs one reader, that is, reads and serves requests on this thread until the session ends,
    /// and records how it ended.
    fn run_reader(&self, watch: &Watch) {
        let end = self.read_requests(watch);
        let mut readers = self.lock();
        readers.at_work -= 1;
        match end {
            Ok(end) => readers.unmounted |= end == SessionEnd::Unmounted,
            Err(failure) => {
                error!(%failure, readers = readers.at_work, "cannot read the FUSE device");
                readers.failure = Some(failure);
                // The kernel wakes one reader for a request, and that was this one. The others
                // would sleep until the next request and then fail as well.
                self.stopping.store(true, Ordering::SeqCst);
                if let Err(failure) = self.bell.ring() {
                    error!(%failure, "cannot wake the other reader threads");
                }
            }
        }
        // The last reader reports the end of the mount, after all handlers have been called.
        let last = readers.at_work == 0 && readers.unmounted;
        drop(readers);
        // Outside the lock: `destroyed` is code of the file system and may take long.
        if last {
            self.catch_panic("destroyed", || self.files.destroyed());
        }
        self.ended.notify_all();
    }

    fn read_requests(&self, watch: &Watch) -> Result<SessionEnd, Errno> {
        let mut kept = None;
        let mut failures = 0;
        // While requests come one at a time, a reader waits for each. While they queue up, waiting
        // costs a system call for nothing, so it reads until the device is empty.
        let mut waits = 0;
        loop {
            if waits < WAITS_BEFORE_POLLING {
                waits += 1;
                watch.wait()?;
            }
            let mut buffer = kept.take().unwrap_or_else(|| self.pool.large());
            // Checked after the wait, because the bell ends the wait and is never reset.
            if self.stopping.load(Ordering::SeqCst) {
                return Ok(SessionEnd::Stopped);
            }
            match self.channel.device.read(&mut buffer) {
                Ok(ReadOutcome::Request) => {
                    failures = 0;
                    // A small request was copied out of the buffer, which is then free for the next
                    // read.
                    kept = self.dispatch(buffer);
                }
                Ok(ReadOutcome::Nothing) => {
                    waits = 0;
                    kept = Some(buffer);
                }
                Ok(ReadOutcome::Unmounted) => return Ok(SessionEnd::Unmounted),
                // A single error can be transient. An error of each read is not, and retrying for
                // ever would keep a CPU busy.
                Err(failure) if failures == READ_FAILURES_MAX => return Err(failure),
                Err(_) => {
                    failures += 1;
                    kept = Some(buffer);
                }
            }
        }
    }

    /// Serves a request that was read. Returns the buffer if the request does not keep it.
    fn dispatch(&self, buffer: PooledBuffer) -> Option<PooledBuffer> {
        count(&self.channel.counts.requests);
        let Some(header) = request::header_of(&buffer) else {
            count(&self.channel.counts.malformed);
            error!(bytes = buffer.len(), "a message from the kernel has no valid header");
            return Some(buffer);
        };
        if !self.is_for_file_system(&header, &buffer) {
            return Some(buffer);
        }
        // A large request keeps its buffer. Copying it would cost more than another buffer.
        if buffer.len() > SMALL_BYTES {
            self.serve(header, buffer);
            return None;
        }
        self.serve(header, self.pool.small_copy(&buffer));
        Some(buffer)
    }

    /// Handles INIT and DESTROY. Returns true if the request is for the file system.
    fn is_for_file_system(&self, header: &InHeader, message: &[u8]) -> bool {
        match header.opcode {
            // The previous process read INIT and was killed before it answered.
            opcode::INIT => {
                // Decided again with the same options, so the reply is the same.
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
        // The protocol has no reply to these; the kernel would refuse one.
        let has_answer =
            !matches!(header.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT);
        let request = match Request::parse(header, buffer) {
            Ok(request) => request,
            Err(malformed) => {
                count(&self.channel.counts.malformed);
                error!(%malformed, "a request is malformed; it fails with EIO");
                if has_answer {
                    self.channel.reply(header.unique, -Errno::EIO.number(), &[]);
                }
                return;
            }
        };
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the file system answers all other operations"
        )]
        match request.operation() {
            FileOperation::Forget { nodes } => {
                self.catch_panic("forget", || self.files.forget(nodes));
            }
            FileOperation::Interrupt { unique: target } => {
                self.interrupt(header.unique, target);
            }
            // After ENOSYS, the kernel does not send this operation again.
            FileOperation::Unknown { .. } => {
                self.channel.reply(header.unique, -Errno::ENOSYS.number(), &[]);
            }
            _ => {
                // Enter the request before its handler runs: the handler may reply at once, and an
                // interrupt may arrive.
                self.channel.in_flight.begin(header.unique);
                let channel = Arc::clone(&self.channel);
                let reply = Reply::new(channel, header.unique, header.opcode);
                self.catch_panic("handle", || self.files.handle(request, reply));
            }
        }
    }

    fn interrupt(&self, unique: u64, target: u64) {
        count(&self.channel.counts.interrupts);
        // The action is code of the file system, and a panic in it must not end the reader.
        let noted = catch_unwind(AssertUnwindSafe(|| self.channel.in_flight.interrupt(target)));
        match noted {
            Ok(Interruption::Recorded) => {}
            // Another reader has read the request and not entered it yet: the kernel sends the
            // interrupt again. If the request was answered meanwhile, the kernel ignores this reply
            // with ENOENT.
            Ok(Interruption::Unknown) => {
                match self.channel.send(unique, -Errno::EAGAIN.number(), &[]) {
                    Ok(()) | Err(Errno::ENOENT | Errno::ENODEV) => {}
                    Err(failure) => {
                        error!(%failure, "the kernel refused the request to repeat an interrupt");
                    }
                }
            }
            Err(_) => self.count_panic("on_interrupt"),
        }
    }

    /// Runs a method of the file system. If it panics, counts and logs that, and the session
    /// continues.
    fn catch_panic(&self, method: &'static str, part: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(part)).is_err() {
            self.count_panic(method);
        }
    }

    fn count_panic(&self, method: &'static str) {
        count(&self.channel.counts.panics);
        error!(method, "a request handler panicked");
    }

    fn lock(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
