//! Access control in memory: accounts, access keys with their secrets, groups, policies, tokens,
//! and temporary sessions.
//!
//! Nothing here reads a store or a file. Records and keys arrive as arguments, and the `policy`
//! crate evaluates policies. `openid` verifies web identities before they arrive here.
//!
//! For example, when an operator disables a user, the records are read again, and the reader calls
//! [`Access::replace`]. The next request of the user, also one with temporary credentials, fails.

mod bearer;
mod current;
mod key_use;
mod last_use;
mod secret;
mod session;
mod snapshot;
mod web;

pub use bearer::BearerError;
pub use secret::{MasterKey, SealError, Secret};
pub(crate) use session::NewSession;
pub(crate) use snapshot::Session;
pub use snapshot::{Access, Bearer, Identity, UMASK_DEFAULT, Unusable};
pub(crate) use web::{CLAIMED_POLICIES_MAX, WebIdentity};
pub use web::{WebLogin, WebRole};

#[cfg(test)]
mod tests;
