//! Follows the lifecycle rules of buckets, and empties their trash, in the background.
//!
//! [`Lifecycle`] makes a *pass* over each bucket with rules once a day: it lists the versions and
//! removes those that are due. All processes of a volume share the passes through a record of each
//! bucket, so a process can start, stop or fail at any time. For example, a gateway does the first
//! half of a pass and ends; a mount of the same volume does the second half.
//!
//! - `passes` has the loop over buckets and the record of a pass.
//! - `schedule` decides when a pass begins.
//! - `expire` finds and removes the versions and uploads of one page.
//!
//! This crate knows the volume and the rules, but neither requests of S3 nor a mount.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod expire;
mod meters;
mod passes;
mod schedule;

pub use meters::{LifecycleCounters, LifecycleMeters};
pub use passes::{Lifecycle, LifecycleOptions};
