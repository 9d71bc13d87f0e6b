//! The Linux kernel's FUSE protocol, and a live session with it.
//!
//! A program mounts with [`mount`], begins a [`KernelSession`] with its [`FileSystem`], and answers
//! each [`Request`] by its [`Reply`]. The [`Notifier`] tells the kernel what it may no longer
//! remember. The descriptor of the mount can be handed to another process, which goes on where this
//! one ended: [`Device::send`], [`KernelSession::resume`].
//!
//! Every request is answered exactly once. What the kernel sends is checked before anyone acts on
//! it. What waits has a limit with a name.
//!
//! No volume is known here, nor any other crate of ours, and no runtime: the session's threads are
//! its own. Linux only.

mod abi;
mod buffer;
mod channel;
mod device;
mod directory;
mod errno;
mod handshake;
mod in_flight;
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
