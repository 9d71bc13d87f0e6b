//! A light load generator: S3 requests against any endpoint, or system calls on any folder.
//!
//! It often runs on the machine of what it measures, so a request costs it as little as possible.
//! Each client has one connection, which stays open, and one thread serves all clients. Bodies are
//! sent from one shared buffer and hashed once; received bodies are counted and dropped frame by
//! frame. Responses are verified all the same: status, number of bytes, ETag. A wrong one is
//! counted, and the run has failed.
//!
//! But for the arithmetic of signatures it shares no code with the gateway, so that a mistake there
//! cannot hide behind the same mistake here. Keys and the order of requests follow from a seed, so
//! two endpoints get the same requests.

mod client;
mod connection;
mod entries;
mod folder;
mod keys;
mod large;
mod round;
mod runner;
mod sign;
mod steps;
mod target;
mod tree;
mod trouble;
mod workload;
mod xml;

pub use entries::{EntryVerb, Pass, SmallFiles};
pub use folder::{FileLoad, FileVerb, Folder};
pub use large::{copy_file, forget_pages, read_file, read_randomly};
pub use round::{Gauge, Round, median};
pub use runner::Runner;
pub use sign::KeyPair;
pub use target::TargetBucket;
pub use tree::{PACKAGE_FILES, package_folder, plant};
pub use trouble::Trouble;
pub use workload::{Verb, Workload};
