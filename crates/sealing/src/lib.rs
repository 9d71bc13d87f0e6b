//! A layer over a metadata store that encrypts the inline content of files.
//!
//! Roles:
//!
//! - [`Sealing`] is a metadata store over another one. Above it, records of inodes are readable.
//!   Below it, those with inline content under a ring key are in the *sealed* form.
//! - [`cipher`] converts one record between the two forms.
//!
//! **Invariant.** The sealed form is a function of the key, the readable record and the ring key.
//! So a guard that compares a whole record still compares bytes, and no planner knows of
//! encryption.
//!
//! For example, a client puts 2 KiB into a bucket that encrypts. The planner writes a record that
//! names ring key 3. The layer encrypts the content, the S3 metadata and the extended attributes.
//! The head with size and entity tag stays readable, so that listings need no key.
//!
//! A record whose key is not available stays sealed in an answer. Its reader gets the error of that
//! record alone, and the other answers of the same round trip are not affected.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unwrap_used)
)]

pub mod cipher;
mod layer;

pub use layer::Sealing;
