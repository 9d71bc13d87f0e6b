//! Notifications to the kernel: invalidations of its cache.
//!
//! The kernel may wait for the lock of a node while it processes a notification, and a request in
//! flight may hold that lock. So a request handler never sends one, and neither does code on which
//! a reply depends. For example, a handler of WRITE that invalidated the written node would wait
//! for itself.
//!
//! A thread sends notifications from a bounded queue, through a second thread that may block in the
//! kernel (see `notice_writer`). The only exception is
//! [`Reply::opened_changed`](crate::Reply::opened_changed).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::{io, result};

use thiserror::Error;
use zerocopy::IntoBytes;

use crate::abi::{NotifyDelete, NotifyInvalEntry, NotifyInvalInode, OutHeader, bits, notice};
use crate::device::Device;
use crate::errno::Errno;
use crate::node::NodeId;
use crate::notice_writer::NoticeWriter;

/// The maximum number of notifications that wait in the queue for the kernel. Beyond it,
/// `NoticeQueue::push` fails.
pub const NOTICES_WAITING_MAX: usize = 4096;

/// Sends notifications (invalidations of its cache) to the kernel. Clones belong to the same
/// session.
///
/// Each method may wait for requests in flight: never call one from a request handler, or from code
/// on which a reply depends. If the kernel does not have the node or name in its cache, that is no
/// error.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<Transport>);

/// The way in which a notification is written to the device.
#[derive(Debug)]
enum Transport {
    /// By the calling thread.
    Direct(Device),
    /// By a thread with a file table (set of open descriptors) of its own, so that the process can
    /// end while the thread is blocked.
    Thread(NoticeWriter),
}

impl Notifier {
    /// Returns a notifier for a mount. The calling thread writes; if the kernel blocks it, the
    /// process can be killed only after [`Notifier::resend`] let other requests end.
    pub fn new(device: Device) -> Notifier {
        Notifier(Arc::new(Transport::Direct(device)))
    }

    /// As [`Notifier::new`], but with a writer thread. If that blocks in the kernel and the process
    /// is killed, the files of the process are closed nevertheless.
    fn with_writer_thread(device: &Device) -> io::Result<Notifier> {
        Ok(Notifier(Arc::new(Transport::Thread(NoticeWriter::start(device)?))))
    }

    /// Makes the kernel drop a name of the directory `parent` from its cache.
    pub fn inval_entry(&self, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.entry(parent, name, 0)
    }

    /// Makes the kernel look up a name of the directory `parent` again at its next use. Unlike
    /// [`Notifier::inval_entry`], this keeps mounts below the name.
    pub fn expire_entry(&self, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.entry(parent, name, bits::EXPIRE_ONLY)
    }

    /// Makes the kernel drop the cached attributes and access control lists of a node, and its
    /// pages in the range: `length` bytes from `offset`, or all from `offset` if `length` is 0. A
    /// negative offset keeps the pages.
    pub fn inval_inode(&self, node: NodeId, offset: i64, length: i64) -> Result<(), Errno> {
        let value = NotifyInvalInode { ino: node.0, off: offset, len: length };
        self.send(notice::INVAL_INODE, &[value.as_bytes()])
    }

    /// Reports that a name of the directory `parent` was removed while it was bound to the node
    /// `child`, so that programs that watch the directory get an event.
    pub fn delete(&self, parent: NodeId, child: NodeId, name: &OsStr) -> Result<(), Errno> {
        let namelen = length_of(name)?;
        let value = NotifyDelete { parent: parent.0, child: child.0, namelen, padding: 0 };
        self.named(notice::DELETE, value.as_bytes(), name)
    }

    /// Makes the kernel look up all names of the mount again at their next use.
    ///
    /// # Errors
    /// EINVAL if the kernel's ABI is older than 7.44.
    pub fn increase_epoch(&self) -> Result<(), Errno> {
        self.send(notice::INC_EPOCH, &[])
    }

    /// Makes the kernel send again all requests that were read and not answered, by any process.
    /// Call this once after a takeover, before the first read;
    /// [`KernelSession::resume`](crate::KernelSession::resume) does it.
    ///
    /// # Errors
    /// EINVAL if the kernel's ABI is older than 7.40.
    pub fn resend(&self) -> Result<(), Errno> {
        self.send(notice::RESEND, &[])
    }

    fn entry(&self, parent: NodeId, name: &OsStr, flags: u32) -> Result<(), Errno> {
        let namelen = length_of(name)?;
        let value = NotifyInvalEntry { parent: parent.0, namelen, flags };
        self.named(notice::INVAL_ENTRY, value.as_bytes(), name)
    }

    fn named(&self, code: i32, value: &[u8], name: &OsStr) -> Result<(), Errno> {
        self.send(code, &[value, name.as_bytes(), &[0]])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> Result<(), Errno> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(size_of::<OutHeader>() + bytes).map_err(|_| Errno::E2BIG)?;
        // A notification has the form of a reply with request number 0 and its code as the error.
        let header = OutHeader { len, error: code, unique: 0 };
        let message = [&[header.as_bytes()], parts].concat().concat();
        let sent = match &*self.0 {
            Transport::Direct(device) => device.write(&[IoSlice::new(&message)]),
            Transport::Thread(writer) => writer.write(message),
        };
        match sent {
            // The kernel does not have the node or name in its cache, so nothing is stale.
            Err(Errno::ENOENT) => Ok(()),
            other => other,
        }
    }
}

fn length_of(name: &OsStr) -> Result<u32, Errno> {
    u32::try_from(name.len()).map_err(|_| Errno::ENAMETOOLONG)
}

/// A notification to the kernel, as a value for the queue. Each variant is a method of
/// [`Notifier`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// See [`Notifier::inval_entry`].
    InvalEntry {
        /// The directory.
        parent: NodeId,
        /// The name.
        name: OsString,
    },
    /// See [`Notifier::expire_entry`].
    ExpireEntry {
        /// The directory.
        parent: NodeId,
        /// The name.
        name: OsString,
    },
    /// See [`Notifier::inval_inode`].
    InvalInode {
        /// The node.
        node: NodeId,
        /// The first byte, or a negative number to keep the pages.
        offset: i64,
        /// The number of bytes, 0 for all.
        length: i64,
    },
    /// See [`Notifier::delete`].
    Delete {
        /// The directory.
        parent: NodeId,
        /// The node to which the name was bound.
        child: NodeId,
        /// The name.
        name: OsString,
    },
    /// See [`Notifier::increase_epoch`].
    IncreaseEpoch,
}

/// A function that is called with the result when the kernel has processed a notification.
type Done = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// Calls a [`Done`] exactly once. If the mount ends, the queue is dropped with the notifications in
/// it, and each of them reports `ENODEV`: their callers would otherwise wait for a kernel that has
/// no cache of the mount any more.
struct Completion(Option<Done>);

impl Completion {
    fn call(mut self, sent: Result<(), Errno>) {
        self.0.take().into_iter().for_each(|done| done(sent));
    }

    /// Drops the function without a call, because the notification was refused.
    fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|done| done(Err(Errno::ENODEV)));
    }
}

/// The reason why a notification to the kernel was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoticeRefused {
    /// The queue is full. For names, one [`Notice::IncreaseEpoch`] with
    /// [`NoticeQueue::push_and_wait`] replaces all invalidations that were refused. Nodes must be
    /// invalidated one by one.
    #[error("{NOTICES_WAITING_MAX} notices wait for the kernel")]
    Full,
    /// The mount has ended, and with it the kernel's cache, so there is nothing to invalidate.
    #[error("the mount is gone")]
    Gone,
}

/// A bounded queue of notifications, which a thread sends to the kernel in order. Clones share the
/// queue; the thread ends when all are dropped.
#[derive(Clone)]
pub struct NoticeQueue(SyncSender<(Notice, Option<Completion>)>);

impl NoticeQueue {
    /// Starts the thread that sends the queued notifications. Returns the queue and the thread, to
    /// wait for its end.
    pub(crate) fn start(device: &Device) -> io::Result<(NoticeQueue, JoinHandle<()>)> {
        let notifier = Notifier::with_writer_thread(device)?;
        // Bounded: if the kernel blocks the thread, notifications must not fill the memory.
        let (sender, receiver) = sync_channel(NOTICES_WAITING_MAX);
        let thread = thread::Builder::new().name("fuse-notices".to_owned());
        let thread = thread.spawn(move || send_all(&notifier, &receiver))?;
        Ok((NoticeQueue(sender), thread))
    }

    /// Queues a notification for the kernel. Does not wait; fails with [`NoticeRefused::Full`] if
    /// the queue is full.
    pub fn push(&self, notice: Notice) -> result::Result<(), NoticeRefused> {
        self.queue(notice, None)
    }

    /// Queues a notification for the kernel, and calls `done` after the kernel has processed it and
    /// all before it. The sending thread makes the call, so `done` must not wait. If the mount ends
    /// first, `done` gets `ENODEV`; if the notification is refused, there is no call. Does not wait
    /// itself.
    pub fn push_with(
        &self,
        notice: Notice,
        done: impl FnOnce(Result<(), Errno>) + Send + 'static,
    ) -> result::Result<(), NoticeRefused> {
        self.queue(notice, Some(Completion(Some(Box::new(done)))))
    }

    /// Queues a notification for the kernel. Waits while the queue is full. Fails with
    /// `NoticeRefused::Gone` if the mount has ended.
    pub fn push_and_wait(&self, notice: Notice) -> result::Result<(), NoticeRefused> {
        self.0.send((notice, None)).map_err(|_| NoticeRefused::Gone)
    }

    fn queue(&self, notice: Notice, done: Option<Completion>) -> result::Result<(), NoticeRefused> {
        self.0.try_send((notice, done)).map_err(|error| {
            let (refused, (_notice, done)) = match error {
                TrySendError::Full(message) => (NoticeRefused::Full, message),
                TrySendError::Disconnected(message) => (NoticeRefused::Gone, message),
            };
            done.into_iter().for_each(Completion::cancel);
            refused
        })
    }
}

impl fmt::Debug for NoticeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoticeQueue")
    }
}

/// Sends the queued notifications to the kernel in order, until all clones of the queue are dropped
/// or the mount has ended.
fn send_all(notifier: &Notifier, receiver: &Receiver<(Notice, Option<Completion>)>) {
    for (notice, done) in receiver {
        let sent = match &notice {
            Notice::InvalEntry { parent, name } => notifier.inval_entry(*parent, name),
            Notice::ExpireEntry { parent, name } => notifier.expire_entry(*parent, name),
            Notice::InvalInode { node, offset, length } => {
                notifier.inval_inode(*node, *offset, *length)
            }
            Notice::Delete { parent, child, name } => notifier.delete(*parent, *child, name),
            Notice::IncreaseEpoch => notifier.increase_epoch(),
        };
        match (sent, done) {
            (sent, Some(done)) => done.call(sent),
            (Ok(()), None) => {}
            (Err(error), None) => tracing::warn!(?notice, %error, "the kernel refused a notice"),
        }
        // The mount has ended, and its cache with it. The queued notifications are dropped, and
        // later pushes fail with `Gone`.
        if matches!(sent, Err(Errno::ENODEV | Errno::ENOTCONN)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
