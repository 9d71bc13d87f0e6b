//! Locks on ranges of files and on whole ones, which exclude programs of all mounts of a volume.
//!
//! What the programs of this mount hold is in a table here. As long as no other session of the volume
//! wants locks that is all there is, and a lock costs no round trip. Else each change is a commit of
//! the file's record, which the sessions share, and the table is what this one has in it.
//!
//! **No lock is granted by both at any instant.** Where locks are is said by one record of the volume,
//! [`record::LockKeeping`]:
//!
//! - A session grants from memory only after a commit of its own has put its name there as the
//!   granter. Nobody else replaces a record with a living granter's name in it: others add theirs to
//!   those who ask, and wait. The granter stops granting, publishes all that it holds, and only then,
//!   in the plan of the last of it, says that locks are in records.
//! - A lock in a record is granted by a plan that guards that locks are in records which this session
//!   shares. So it happens before the record says otherwise, or not at all.
//! - A plan of which nobody knows whether it happened changes nothing later: whoever does not know
//!   grants nothing from memory before it has written the record once more, in other bytes, and what
//!   was sent before guards the bytes of before.
//! - When the granter's session, or all others that share records, have ended, so have their locks.
//!   Whoever has ended may not know it yet and tell programs that they hold locks; but none of what
//!   these write is ever committed, since each plan guards that its session lives.
//!
//! Who waits here is served in the order of coming; between mounts whoever looks first after a change
//! is. It leaves no trace when it gives up.

mod grants;
mod location;
mod state;
mod table;

pub(crate) use grants::LockGrant;
pub use state::Locks;
pub(crate) use state::{BeforeSharing, InheritedLocks, LockLedger};
