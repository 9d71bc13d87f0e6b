//! Bad input and faults, against the gateway as a program.
//!
//! Nothing here stands in for anything: the requests go over sockets, the gateway and MinIO are
//! processes that are killed and stopped by signals, and what is checked lies on the disk.

mod bad_input;
mod client;
mod conditions;
mod content;
mod corruption;
mod durability;
mod listing;
mod memory;
mod outage;
mod reading;
mod servers;
mod shutdown;
