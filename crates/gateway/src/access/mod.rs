//! Who may do what: access keys, their secrets, and the policies that bind them.
//!
//! Nothing here reads a store or a file. Records and keys come in as arguments, and the policies
//! of `s3` decide what they permit.

mod secret;
mod snapshot;

pub use secret::{MasterKey, SealError, Secret};
pub use snapshot::{Access, Identity, UMASK_DEFAULT, Unusable};

#[cfg(test)]
mod tests;
