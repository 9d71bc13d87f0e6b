//! A POSIX file system on a volume.
//!
//! [`Files`] is what a program sees that has the volume mounted: names, attributes, open files. Names
//! and attributes are the volume's own records, so what one view changes the other finds. What is
//! written to an open file is kept in memory first, over what the file had, and becomes the file's
//! content in one commit: at the latest when the file is closed or synced.
//!
//! Nothing here knows how programs are reached: no FUSE, no kernel.

mod acl;
mod append;
mod attributes;
mod change;
mod commit;
mod copy;
mod directories;
mod dirty;
mod errno;
mod file_log;
mod files;
mod fleeting;
mod flush;
mod inheritance;
mod inherited;
mod locking;
mod locks;
mod map_share;
mod maps;
mod named;
mod names;
mod noted_reads;
mod numbers;
mod object;
mod open;
mod opening;
mod patience;
mod punch;
mod read;
mod read_ahead;
mod read_directory;
mod reads;
mod removed;
mod rest;
mod seek;
mod seen_directories;
mod sequential;
mod tail;
mod telling;
mod told_stale;
mod write;
mod xattr;
mod zeros;

pub use attributes::{NodeKind, NodeStat};
pub use change::{MadeBy, SetNode};
pub use commit::WHOLE_BYTES_MAX_DEFAULT;
pub use directories::DirectoryEntry;
pub use files::{Files, FilesOptions};
pub use locks::Locks;
pub use map_share::PageAccess;
pub use open::{HandleId, OpenMode, OpenedFile};
pub use record::{RangeLock, RangeLockKind};
pub use write::TakenWrite;
pub use xattr::XattrWrite;
