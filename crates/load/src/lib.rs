//! A light load generator: S3 requests to any endpoint, or system calls on any folder.
//!
//! It often runs on the same machine as the gateway that it measures, so a request must cost little
//! CPU time here. Each client keeps one connection open, and one thread serves all clients. All
//! objects of a size have the same body, from one shared buffer whose hash is computed once.
//! Received bodies are counted and dropped frame by frame. Each response is verified: its status,
//! its length and its ETag. A wrong response counts as an error, and the run fails.
//!
//! The crate shares no code with the gateway except the arithmetic of signatures, so that a defect
//! of the gateway cannot hide behind the same defect here. Keys and the order of requests follow
//! from a seed. For example, two endpoints get the same requests if their runs have the same seed.

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
pub use tree::{PACKAGE_FILES, package_folder, plant, plant_directories};
pub use trouble::Trouble;
pub use workload::{Verb, Workload};
