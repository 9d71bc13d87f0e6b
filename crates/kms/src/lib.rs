//! Data keys from a key management service (KMS).
//!
//! A KMS holds named keys that never leave it. [`Kms::generate`] returns a new data key twice: in
//! the clear, and wrapped, that is, encrypted by a named key of the KMS. The caller keeps the
//! wrapped form only, and [`Kms::decrypt`] returns the data key again as long as the KMS permits
//! it. For example, if an operator disables the key `payroll` in Vault, no process can open the
//! objects that are encrypted under it any more.
//!
//! Roles: [`StaticKms`] has its keys in this process. [`VaultKms`] asks the Transit engine of
//! `HashiCorp` Vault or `OpenBao`. [`KesKms`] asks a KES server.
//!
//! Invariants: no plain key is printed, logged or part of an error. Each request has a deadline and
//! a limit of its answer, and follows no redirect.
//!
//! The crate does not know what data keys encrypt, and caches none of them.

mod error;
mod http_client;
mod kes;
mod key_name;
mod service;
mod static_keys;
#[cfg(test)]
mod tests;
mod vault;

pub use error::{KmsError, KmsErrorKind, KmsSettingsError};
pub use http_client::{ANSWER_BYTES_MAX, KmsEndpoint, REQUEST_DEADLINE};
pub use kes::KesKms;
pub use key_name::{KMS_KEY_NAME_BYTES_MAX, KmsKeyName, KmsKeyNameError};
pub use service::{DataKey, Kms, PlainKey, WRAPPED_BYTES_MAX};
pub use static_keys::StaticKms;
pub use vault::{VaultKms, VaultLogin};
