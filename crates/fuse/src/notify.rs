//! What the server tells the kernel unasked: that something it remembers is no longer so.
//!
//! The kernel may wait for locks of nodes while it takes a notice, and a request in flight may hold
//! one. So a notice is never sent from a request's handler, nor by whoever has to answer a request
//! first: a thread of its own sends them from a bounded queue, by way of another one that may be stuck
//! in the kernel (see `notice_writer`). The one exception is
//! [`Reply::opened_changed`](crate::Reply::opened_changed). What changed is not known here.

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

/// Notices that may wait for the thread that sends them.
pub const NOTICES_WAITING_MAX: usize = 4096;

/// Tells the kernel what it may no longer remember. Clones are of the same session.
///
/// Every method may wait for requests in flight: never call one from a request's handler, nor where
/// a request has to be answered before it returns. What the kernel does not know is no error.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<Transport>);

/// Who writes a notice to the device.
#[derive(Debug)]
enum Transport {
    /// Whoever sends it.
    Direct(Device),
    /// A thread that holds nothing but the device.
    Thread(NoticeWriter),
}

impl Notifier {
    /// What tells the kernel something of a mount that nobody serves. As long as requests that were
    /// read are sent again and not read, programs that wait for them can be killed: see
    /// [`Notifier::resend`].
    pub fn new(device: Device) -> Notifier {
        Notifier(Arc::new(Transport::Direct(device)))
    }

    /// As [`Notifier::of`], for many notices: a wait for the kernel does not keep the files of this
    /// process open if it is killed meanwhile.
    fn with_writer_thread(device: &Device) -> io::Result<Notifier> {
        Ok(Notifier(Arc::new(Transport::Thread(NoticeWriter::start(device)?))))
    }

    /// Forget what the name is bound to.
    pub fn inval_entry(&self, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.entry(parent, name, 0)
    }

    /// Ask anew at the next use of the name. Unlike [`Notifier::inval_entry`] it takes nothing
    /// apart, mounts below the name for one.
    pub fn expire_entry(&self, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.entry(parent, name, bits::EXPIRE_ONLY)
    }

    /// Forget the node's attributes, its access control lists, and its pages from `offset` on:
    /// `length` bytes of them, all if it is 0. With a negative offset pages are kept.
    pub fn inval_inode(&self, node: NodeId, offset: i64, length: i64) -> Result<(), Errno> {
        let value = NotifyInvalInode { ino: node.0, off: offset, len: length };
        self.send(notice::INVAL_INODE, &[value.as_bytes()])
    }

    /// The name was removed while it was bound to this node: who watches the directory learns of
    /// it.
    pub fn delete(&self, parent: NodeId, child: NodeId, name: &OsStr) -> Result<(), Errno> {
        let namelen = length_of(name)?;
        let value = NotifyDelete { parent: parent.0, child: child.0, namelen, padding: 0 };
        self.named(notice::DELETE, value.as_bytes(), name)
    }

    /// Ask anew at the next use of every name.
    ///
    /// # Errors
    /// EINVAL if the kernel is older than ABI 7.44.
    pub fn increase_epoch(&self) -> Result<(), Errno> {
        self.send(notice::INC_EPOCH, &[])
    }

    /// Send all requests once more that are read and not answered, by this process too. To be done
    /// once, by who takes a mount over, before the first read:
    /// [`KernelSession::resume`](crate::KernelSession::resume) does it.
    ///
    /// # Errors
    /// EINVAL if the kernel is older than ABI 7.40.
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
        // A notice is an answer to nothing, with its code in place of an error.
        let header = OutHeader { len, error: code, unique: 0 };
        let message = [&[header.as_bytes()], parts].concat().concat();
        let sent = match &*self.0 {
            Transport::Direct(device) => device.write(&[IoSlice::new(&message)]),
            Transport::Thread(writer) => writer.write(message),
        };
        match sent {
            Err(Errno::ENOENT) => Ok(()),
            other => other,
        }
    }
}

fn length_of(name: &OsStr) -> Result<u32, Errno> {
    u32::try_from(name.len()).map_err(|_| Errno::ENAMETOOLONG)
}

/// What the kernel may no longer remember; see the methods of [`Notifier`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// [`Notifier::inval_entry`].
    InvalEntry {
        /// The directory.
        parent: NodeId,
        /// The name.
        name: OsString,
    },
    /// [`Notifier::expire_entry`].
    ExpireEntry {
        /// The directory.
        parent: NodeId,
        /// The name.
        name: OsString,
    },
    /// [`Notifier::inval_inode`].
    InvalInode {
        /// The node.
        node: NodeId,
        /// The first byte, or a negative number.
        offset: i64,
        /// How many bytes, 0 for all.
        length: i64,
    },
    /// [`Notifier::delete`].
    Delete {
        /// The directory.
        parent: NodeId,
        /// What the name was bound to.
        child: NodeId,
        /// The name.
        name: OsString,
    },
    /// [`Notifier::increase_epoch`].
    IncreaseEpoch,
}

/// What is called when a notice was sent.
type Done = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// Why a notice was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoticeRefused {
    /// Too many wait. One [`Notice::IncreaseEpoch`] with [`NoticeQueue::push_and_wait`] makes up
    /// for all names that could not be told; nodes have to be told one by one.
    #[error("{NOTICES_WAITING_MAX} notices wait for the kernel")]
    Full,
    /// The mount is gone, and with it what the kernel remembered.
    #[error("the mount is gone")]
    Gone,
}

/// Notices on their way to the kernel, in order, sent by a thread of their own. Clones are the same
/// queue; the thread ends when all are dropped.
#[derive(Clone)]
pub struct NoticeQueue(SyncSender<(Notice, Option<Done>)>);

impl NoticeQueue {
    /// Starts the thread.
    pub(crate) fn start(device: &Device) -> io::Result<(NoticeQueue, JoinHandle<()>)> {
        let notifier = Notifier::with_writer_thread(device)?;
        let (sender, receiver) = sync_channel(NOTICES_WAITING_MAX);
        let thread = thread::Builder::new().name("fuse-notices".to_owned());
        let thread = thread.spawn(move || send_all(&notifier, &receiver))?;
        Ok((NoticeQueue(sender), thread))
    }

    /// Queues a notice. Does not wait.
    pub fn push(&self, notice: Notice) -> result::Result<(), NoticeRefused> {
        self.queue(notice, None)
    }

    /// Queues a notice and calls back when the kernel has taken it, and all before it. The call
    /// comes from the thread that sends: it must not wait. Does not wait itself.
    pub fn push_with(
        &self,
        notice: Notice,
        done: impl FnOnce(Result<(), Errno>) + Send + 'static,
    ) -> result::Result<(), NoticeRefused> {
        self.queue(notice, Some(Box::new(done)))
    }

    /// Queues a notice, and waits if the queue is full.
    pub fn push_and_wait(&self, notice: Notice) -> result::Result<(), NoticeRefused> {
        self.0.send((notice, None)).map_err(|_| NoticeRefused::Gone)
    }

    fn queue(&self, notice: Notice, done: Option<Done>) -> result::Result<(), NoticeRefused> {
        self.0.try_send((notice, done)).map_err(|error| match error {
            TrySendError::Full(_) => NoticeRefused::Full,
            TrySendError::Disconnected(_) => NoticeRefused::Gone,
        })
    }
}

impl fmt::Debug for NoticeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoticeQueue")
    }
}

/// Sends until there is nobody left to send for, or to.
fn send_all(notifier: &Notifier, receiver: &Receiver<(Notice, Option<Done>)>) {
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
            (sent, Some(done)) => done(sent),
            (Ok(()), None) => {}
            (Err(error), None) => tracing::warn!(?notice, %error, "the kernel refused a notice"),
        }
        if matches!(sent, Err(Errno::ENODEV | Errno::ENOTCONN)) {
            return;
        }
    }
}
