//! The Linux kernel's FUSE protocol, and a live session with the kernel.
//!
//! A program calls [`mount`], starts a [`KernelSession`] with its [`FileSystem`], and answers each
//! [`Request`] with its [`Reply`]. With the [`Notifier`] it invalidates entries of the kernel's
//! cache. The descriptor of a mount can be handed to another process, which continues the session:
//! [`Device::send`], [`KernelSession::resume`].
//!
//! For example, a worker reads a WRITE and is killed before it answers. The next worker calls
//! [`KernelSession::resume`], and the kernel sends the WRITE again, with [`Request::is_resent`]
//! true.
//!
//! Invariants: each request is answered exactly once. Bytes from the kernel are validated before
//! they are used. Each queue and table has a limit with a name.
//!
//! This crate does not know volumes or any other crate of this project. It needs no async runtime:
//! the session has threads of its own. Linux only.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod abi;
mod buffer;
mod channel;
mod device;
mod directory;
mod errno;
mod handshake;
mod in_flight;
mod meters;
mod mounting;
mod node;
mod notice_writer;
mod notify;
mod operation;
mod readiness;
mod reply;
mod request;
mod session;

pub use channel::SessionCounters;
pub use device::{Device, HANDOVER_BYTES_MAX, hand_over, take_over};
pub use directory::{DirectoryBuffer, DirectoryName};
pub use errno::Errno;
pub use handshake::{
    BACKGROUND_MAX, BACKGROUND_MIN, KernelOptions, Negotiated, NotNegotiated, WRITE_BYTES_MAX,
};
pub use meters::{LATENCY_SECONDS, OperationCounters};
pub use mounting::{
    MountError, MountOptions, UnmountError, UnmountMode, check_mountable, device_of, mount,
    raise_read_ahead, unmount,
};
pub use node::{FileHandle, FileSystemSpace, FileTime, NodeAttributes, NodeEntry, NodeId};
pub use notify::{NOTICES_WAITING_MAX, Notice, NoticeQueue, NoticeRefused, Notifier};
pub use operation::{
    AttributeChanges, FileLock, FileOperation, Forgotten, LockKind, LockOwner, LockRequest,
    MalformedRequest, TimeChange,
};
pub use reply::{OpenFlags, Reply};
pub use request::{Request, WriteData};
pub use session::{FileSystem, KernelSession, SessionEnd, StartError};
