//! A light load generator: S3 requests against any endpoint, or system calls on any folder.
//!
//! It shares a machine with what it measures, so a request costs it as little as can be: one
//! connection for each client, kept open; one thread for all clients; bodies sent from one shared
//! buffer, hashed once, and received bodies counted and dropped frame by frame. What comes back is
//! checked all the same: status, number of bytes, ETag. An answer that is wrong is counted, and a
//! run with one has failed.
//!
//! It knows the S3 protocol by itself and nothing of what it measures, so that a mistake of the
//! gateway cannot hide behind the same mistake here. Keys and the order of requests follow from a
//! seed, so two endpoints are asked the same.

mod client;
mod connection;
mod folder;
mod keys;
mod round;
mod runner;
mod sign;
mod steps;
mod target;
mod trouble;
mod workload;
mod xml;

pub use folder::{FileLoad, FileVerb, Folder};
pub use round::{Gauge, Round, median};
pub use runner::Runner;
pub use sign::KeyPair;
pub use target::TargetBucket;
pub use trouble::Trouble;
pub use workload::{Verb, Workload};
