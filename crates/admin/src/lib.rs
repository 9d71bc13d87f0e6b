//! The administration of a volume, as values: access keys, policies, settings of buckets, sessions,
//! garbage collection and checks.
//!
//! The command line uses this, and so can any other interface for operators. Every change is an
//! operation of the namespace, whose plan guards the records that it depends on. So it may be made
//! while gateways and other operators make changes, too. If the outcome of a change is not known,
//! the error says so.
//!
//! Nothing here prints, reads the environment, opens a store, or knows a master key.

mod access;
mod account;
mod bucket;
mod drive;
mod error;
mod fork;
mod names;
mod node;
mod order;
mod policy;
mod secret;
mod status;
mod trash;

use std::fmt;
use std::sync::Arc;

use runtime::Clock;
use store::MetaStore;

pub use access::{AccessKey, IssuedKey, NewUser};
pub use bucket::BucketUsage;
pub use error::AdminError;
pub use fork::BucketFork;
pub use names::{NameError, check_access_key, check_account_name, check_policy_name, check_secret};
pub use namespace::{BucketChange, FoundBucket};
pub use node::{BLOCKS_TOLD_MAX, BlockUse, ContentPlace, Holder, NodeReport, PAGES_READ_MAX};
pub use order::Collection;
pub use policy::{BUILT_IN_POLICIES, NamedPolicy, PolicySet};
pub use secret::{NONCE_BYTES, Random, SECRET_CHARS, SecretSealer, random_text};
pub use status::{OpenSession, SESSIONS_LISTED_MAX, Status};
pub use trash::{BucketTrash, Restored};
pub use upkeep::{Collected, Finding, NoProgress, Progress, Report, SweepOptions, SweepScope};
pub use volume::{ForkWatch, Forked};

/// What the calling process provides.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Where the process runs, for people who see its sessions: host and process id.
    pub place: String,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The source of random secrets.
    pub random: Arc<dyn Random>,
}

/// The administration of the volume in a metadata store.
///
/// Nothing is remembered between calls: each one reads the store. The caller opens the store and
/// closes it.
#[derive(Clone)]
pub struct Admin {
    store: Arc<dyn MetaStore>,
    surroundings: Surroundings,
}

impl Admin {
    /// The administration of the volume in a store, which others may be using.
    pub fn over(store: Arc<dyn MetaStore>, surroundings: Surroundings) -> Admin {
        Admin { store, surroundings }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("place", &self.surroundings.place).finish_non_exhaustive()
    }
}
