//! The bytes of every record and key: compared with golden files, decoded again, and damaged.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod generators;
mod golden;
mod heads;
mod kinds;
mod laws;
mod order;
mod samples;
