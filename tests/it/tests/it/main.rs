//! Bad input and faults, against the gateway as a program.
//!
//! Nothing here stands in for anything: the requests go over sockets, the gateway and MinIO are
//! processes that are killed and stopped by signals, and what is checked lies on the disk.
//!
//! Tests of many gateways run on each engine that is installed; where services are required
//! (`ASHLAR_TEST_REQUIRE_SERVICES`), one that is not is a failure. How much they do, and on which
//! engines, is told by variables that [`scale`] lists.

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
mod doubt;
mod durability;
mod exhaust;
mod fleet;
mod forgetful;
mod forking;
mod full;
mod full_disk;
mod history;
mod killed;
mod lapse;
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
mod restarts;
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
