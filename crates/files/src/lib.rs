//! A POSIX file system over a volume.
//!
//! [`Files`] implements the operations that a program can use on a mounted volume: lookups,
//! attributes, directories, locks and open files. Names and attributes are records of the volume,
//! so S3 and each mount see the same ones. Writes to an open file are different: they stay in
//! memory as *dirty* extents, on top of the committed content, until a *flush* commits them. A
//! flush runs at the latest on close(2) and fsync(2).
//!
//! For example, a program writes 3 MiB to a new file and closes it. Until the close, S3 sees an
//! empty object. The close flushes, and one commit replaces the content.
//!
//! Invariant: a flush either commits all dirty data of its file, or the data stays dirty and the
//! next fsync(2) or close(2) of each descriptor returns the error.
//!
//! This crate does not know FUSE or the kernel. `ledger` records the state that must survive a
//! crash of this process; the process that follows calls [`Files::take_over`].

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod access_times;
mod acl;
mod append;
mod apply;
mod attributes;
mod change;
mod change_log;
mod commit;
mod copy;
mod counters;
mod creating;
mod creation;
mod creations;
mod directories;
mod dirty;
mod errno;
mod file_change;
mod file_log;
mod files;
mod flush;
mod life;
mod link_status;
mod locking;
mod locks;
mod map_claim;
mod maps;
mod name_in_use;
mod names;
mod numbers;
mod object;
mod open;
mod opening;
mod own_retention;
mod pending_access_times;
mod punch;
mod quiesce;
mod read;
mod read_ahead;
mod read_directory;
mod removed_directories;
mod resent_requests;
mod retry;
mod seek;
mod seen_directories;
mod sequential;
mod shown;
mod stale_retries;
mod tail;
mod takeover;
mod volatile_names;
mod write;
mod xattr;
mod zeros;

pub use attributes::{NodeKind, NodeStat};
pub use change::{CreateOptions, SetNode};
pub use commit::FULL_REWRITE_BYTES_MAX_DEFAULT;
pub use counters::FilesCounters;
pub use creations::{NameChange, Reach};
pub use directories::DirectoryEntry;
pub use files::{Files, FilesOptions};
pub use locks::Locks;
pub use map_claim::PageAccess;
pub use open::{HandleId, OpenMode, OpenedFile};
pub use record::{RangeLock, RangeLockKind};
pub use write::AcceptedWrite;
pub use xattr::XattrWrite;
