//! The planners by inode and name over the in-memory store: the rules of POSIX, both views of one
//! volume against a model, contents against a map of bytes, and what each operation costs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acls;
mod acts;
mod attributes;
mod audit;
mod content;
mod costs;
mod default_modes;
mod interleavings;
mod kept_names;
mod laws;
mod linking;
mod locks;
mod making;
#[path = "../plans/memory.rs"]
mod memory;
mod model;
mod new_files;
mod null_versions;
mod quotas;
mod relocating;
mod removing;
mod renaming;
mod retaining;
mod sharing;
mod versions;
mod world;
mod written;
