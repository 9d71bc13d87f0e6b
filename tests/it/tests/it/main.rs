//! Tests of the gateway as a program, with bad input and with faults.
//!
//! No part is simulated. The requests use sockets, the gateway and MinIO are processes that the
//! tests kill and stop by signals, and the tests read the files on disk.
//!
//! Tests of several gateways run on each installed engine. If `ASHLAR_TEST_REQUIRE_SERVICES` is
//! set, a missing engine is a failure. [`scale`] lists the variables for the amount of work and the
//! engines.

mod access_log;
mod admin_log;
mod bad_input;
mod bare;
mod both_views;
mod client;
mod conditions;
mod content;
mod copies;
mod copying;
mod corruption;
mod costs;
mod deep;
mod default_encryption;
mod doubt;
mod durability;
mod encrypted_at_rest;
mod exhaust;
mod expiry;
mod failover;
mod fleet;
mod forgetful;
mod forking;
mod full;
mod full_disk;
mod history;
mod keys;
mod killed;
mod kms_keys;
mod lapse;
mod leased;
mod linear;
mod listing;
mod load;
mod lock_policies;
mod lost_sums;
mod memory;
mod mounted;
mod mounts;
mod opaque;
mod outage;
mod quotas;
mod races;
mod reading;
mod reloads;
mod restarts;
mod retiring;
mod ring_kills;
mod rollback;
mod scale;
mod servers;
mod shutdown;
mod skew;
mod sole;
mod staged_inline;
mod stopped;
mod versions;
mod views;
mod views_model;
