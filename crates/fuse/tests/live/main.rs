//! Real mounts of the null file system, used as any program uses files. Needs root and `/dev/fuse`.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

#[path = "../../examples/null/content.rs"]
mod content;
#[path = "../../examples/null/files.rs"]
mod files;
#[path = "../../examples/null/locks.rs"]
mod locks;
#[path = "../../examples/null/tree.rs"]
mod tree;

mod attributes;
mod bytes;
mod names;
mod notices;
mod sessions;
mod stage;
