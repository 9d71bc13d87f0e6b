//! A POSIX file system on a volume.
//!
//! [`Files`] is what a program sees that has the volume mounted: names, attributes, open files. Names
//! and attributes are the volume's own records, so what one view changes the other finds. What is
//! written to an open file is kept in memory first, over what the file had, and becomes the file's
//! content in one commit: at the latest when the file is closed or synced.
//!
//! Nothing here knows how programs are reached: no FUSE, no kernel.

mod access_times;
mod acl;
mod append;
mod attributes;
mod change;
mod change_log;
mod commit;
mod copy;
mod directories;
mod dirty;
mod errno;
mod file_log;
mod files;
mod flush;
mod link_status;
mod locking;
mod locks;
mod map_claim;
mod maps;
mod names;
mod numbers;
mod object;
mod open;
mod opening;
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
pub use directories::DirectoryEntry;
pub use files::{Files, FilesOptions};
pub use locks::Locks;
pub use map_claim::PageAccess;
pub use open::{HandleId, OpenMode, OpenedFile};
pub use record::{RangeLock, RangeLockKind};
pub use write::AcceptedWrite;
pub use xattr::XattrWrite;
