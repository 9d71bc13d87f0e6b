//! Who may do what: access keys, their secrets, and the policies that bind them.
//!
//! Nothing here reads a store or a file. Records and keys come in as arguments, and what they
//! grant is decided by the policies of `s3`.

mod names;
mod secret;
mod snapshot;

pub use names::{NameError, check_access_key, check_policy_name, check_secret};
pub use secret::{MasterKey, SealError, Secret};
pub use snapshot::{Access, Identity, Unusable};

#[cfg(test)]
mod tests;
