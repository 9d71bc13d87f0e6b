//! What an operator asks of a volume, as values: access keys, policies, settings of buckets, who has
//! it open, collection and checks.
//!
//! The command line stands on this, and so can whatever else operators have before them. Every
//! change is an operation of the namespace, whose plan guards what it rests on, so that it may be made
//! beside gateways and beside other operators. Its outcome is known, or it is said that it is not.
//!
//! Nothing here prints, reads the environment, opens a store, or knows a master key.

mod access;
mod bucket;
mod drive;
mod error;
mod names;
mod order;
mod policy;
mod secret;
mod status;

use std::fmt;
use std::sync::Arc;

use runtime::Clock;
use store::MetaStore;

pub use access::{Account, IssuedKey, NewUser};
pub use error::AdminError;
pub use names::{NameError, check_access_key, check_policy_name, check_secret};
pub use namespace::{BucketChange, FoundBucket};
pub use order::Collection;
pub use policy::{BUILT_IN_POLICIES, NamedPolicy, PolicySet};
pub use secret::{NONCE_BYTES, Random, SECRET_CHARS, SecretSealer, random_text};
pub use status::{OpenSession, SESSIONS_LISTED_MAX, Status};
pub use upkeep::{Collected, Finding, Looking, Progress, Report, SweepOptions, Unwatched};

/// What the process has that asks.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Where it runs, for people who see its sessions: host and process.
    pub place: String,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// What secrets are drawn from.
    pub random: Arc<dyn Random>,
}

/// The administration of the volume in a metadata store.
///
/// It keeps nothing between calls: each answer is of the store as it is then. The store is the
/// caller's, and stays open.
#[derive(Clone)]
pub struct Admin {
    store: Arc<dyn MetaStore>,
    surroundings: Surroundings,
}

impl Admin {
    /// Of the volume in this store, whoever else is using it.
    pub fn over(store: Arc<dyn MetaStore>, surroundings: Surroundings) -> Admin {
        Admin { store, surroundings }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("place", &self.surroundings.place).finish_non_exhaustive()
    }
}
