//! Who may do what: access keys, their secrets, and the policies that bind them.
//!
//! Nothing here reads a store or a file. Records and keys come in as arguments, and the policies
//! of `policy` decide what they permit. What a web identity is comes in as verified by `openid`.

mod secret;
mod session;
mod snapshot;
mod web;

pub use secret::{MasterKey, SealError, Secret};
pub(crate) use session::NewSession;
pub(crate) use snapshot::Session;
pub use snapshot::{Access, AccessRecords, Identity, UMASK_DEFAULT, Unusable};
pub use web::WebRole;
pub(crate) use web::{CLAIMED_POLICIES_MAX, WebIdentity};

#[cfg(test)]
mod tests;
