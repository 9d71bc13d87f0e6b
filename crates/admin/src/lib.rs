//! The administration of a volume as an API: access keys, accounts, policies, settings of buckets,
//! forks, trash, sessions, garbage collection and checks.
//!
//! The commands of the program use this crate; another interface for operators can use it, too. For
//! example, `ashlar user add anna` calls [`Admin::add_user`] and prints the [`IssuedKey`].
//!
//! The invariant: a change is safe while gateways and other operators make changes. Each change is
//! an operation of the namespace, whose plan guards the records on which it depends. If the outcome
//! of a change is unknown, the error is [`AdminError::Unknown`].
//!
//! The crate prints nothing, reads no environment, opens no store, and does not know the master
//! key.

mod access;
mod account;
mod bucket;
mod change;
mod error;
mod etag;
mod fork;
mod giver;
mod group;
mod job;
mod key;
mod maintenance;
mod names;
mod node;
mod overview;
mod policy;
mod retirement;
mod secret;
mod status;
mod trash;

use std::fmt;
use std::sync::Arc;

use runtime::Clock;
use store::MetaStore;
use volume::Volume;

pub use access::{AccessKey, IssuedKey, NewUser};
pub use bucket::BucketUsage;
pub use error::AdminError;
pub use etag::{Etag, EtagError};
pub use fork::BucketFork;
pub use giver::PolicyGiver;
pub use group::NamedGroup;
pub use job::{JOB_LINES_MAX, NewJob};
pub use key::{DESCRIPTION_BYTES_MAX, IssuedToken, NewKey, NewToken, TOKEN_ACTIONS_MAX};
pub use maintenance::Collection;
pub use names::{
    NameError, check_access_key, check_account_name, check_group_name, check_policy_name,
    check_secret,
};
pub use namespace::{
    BucketChange, BucketConfigs, FoundBucket, JOBS_KEPT_MAX, JOBS_RUNNING_MAX, JobEnd, JobError,
    JobOrder, KeyChange, NumberedJob,
};
pub use node::{BLOCKS_LISTED_MAX, BlockUse, ContentPlace, Holder, NodeReport, PAGES_READ_MAX};
pub use overview::UserOverview;
pub use policy::{BUILT_IN_POLICIES, NamedPolicy, PolicySet, StoredPolicy};
pub use retirement::{Retired, Retirement};
pub use secret::{NONCE_BYTES, Random, SECRET_CHARS, SecretSealer, random_text};
pub use status::{OpenSession, SESSIONS_LISTED_MAX, Status};
pub use trash::{BucketTrash, Restored};
pub use upkeep::{
    Collected, Finding, Moves, NoProgress, Progress, Report, RetirePass, RetireProgress,
    SWEEP_SHARE_PERCENT, SweepOptions, SweepScope,
};
pub use volume::{ForkWatch, Forked};

/// The facilities that the calling process provides.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The host and the process id of the caller. Operators see them in the list of sessions.
    pub place: String,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The source of random secrets.
    pub random: Arc<dyn Random>,
}

/// The administration of the volume in a metadata store.
///
/// Each call reads the store; nothing is cached between calls. The caller opens and closes the
/// store.
#[derive(Clone)]
pub struct Admin {
    store: Arc<dyn MetaStore>,
    surroundings: Surroundings,
    /// The volume of this process, if it has the volume open. Changes then run in its session.
    volume: Option<Arc<Volume>>,
}

impl Admin {
    /// Creates the administration of the volume in `store`. Other processes may use the store
    /// meanwhile.
    pub fn over(store: Arc<dyn MetaStore>, surroundings: Surroundings) -> Admin {
        Admin { store, surroundings, volume: None }
    }

    /// Creates the administration of a volume that this process has open, on its metadata store. A
    /// change then needs no session of its own, which takes round trips and ends the authority of a
    /// sole session.
    pub fn within(
        volume: Arc<Volume>,
        store: Arc<dyn MetaStore>,
        surroundings: Surroundings,
    ) -> Admin {
        Admin { store, surroundings, volume: Some(volume) }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("place", &self.surroundings.place).finish_non_exhaustive()
    }
}
