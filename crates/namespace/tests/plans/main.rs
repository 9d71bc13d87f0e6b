//! The planners over the in-memory store: answers, costs, laws, and listing against brute force.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod acts;
mod audit;
mod buckets;
mod content;
mod deep;
mod golden;
mod interleavings;
mod laws;
mod listing;
mod memory;
mod objects;
mod old_records;
mod removing;
mod uploads;
mod world;
