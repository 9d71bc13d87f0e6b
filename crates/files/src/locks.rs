//! Range locks (fcntl) and whole-file locks (flock) across all mounts of a volume.
//!
//! The locks of this mount's programs are in a table in memory. While no other session of the
//! volume uses locks, this table is authoritative, and a lock takes no round trip. Otherwise each
//! change is a commit of the file's lock record, which the sessions share, and the table mirrors
//! this session's part of the records.
//!
//! **Invariant: at any instant, locks are granted either from one session's memory or from the
//! records, never from both.** The record [`record::LockKeeping`] says which.
//!
//! ```text
//!   Unknown ──begin_locking: this session is the granter──▶ Memory
//!   Unknown ──begin_locking: others share records─────────▶ Records
//!   Memory  ──another session asks, all is published──────▶ Records
//!   Records ──a commit or a change of sessions shows it───▶ Unknown
//! ```
//!
//! - A session grants from memory only after its own commit has entered it in `LockKeeping` as the
//!   granter. Other sessions do not replace the record while the granter is alive: they add
//!   themselves to its askers and wait. The granter stops granting, publishes all its locks, and
//!   sets the record to "in records" in the plan that publishes the last of them.
//! - A lock in a record is granted by a plan that is guarded by "in records, shared by this
//!   session". So the grant happens before `LockKeeping` changes, or not at all.
//! - A plan with an unknown outcome cannot take effect later. The session grants nothing from
//!   memory until it has rewritten the record with other bytes; the guards of the earlier plan
//!   compare the old bytes and fail.
//! - If the granter's session ends, or all other sessions that share the records end, their locks
//!   end too. A session that ended may not know it yet, and may report locks as held. None of its
//!   writes is committed after that, because each plan is guarded by its session.
//!
//! For example, mount A locks files for an hour from memory. Mount B asks for its first lock: it
//! adds itself to the askers, A publishes its locks within one notification, and from then on both
//! commit their locks to records.
//!
//! Waiters of one mount are served in order of arrival. Between mounts, the first one that looks
//! after a change gets the lock. A waiter that gives up leaves no trace.

mod grants;
mod location;
mod state;
mod table;

pub(crate) use grants::LockGrant;
pub use state::Locks;
pub(crate) use state::{BeforeSharing, InheritedLocks, LockLedger};
