//! How to open a store.

use std::time::Duration;

use store::Space;

/// Connections that calls are spread over, unless told otherwise.
pub const CONNECTIONS: usize = 3;

/// How long a snapshot waits for its reader to ask for the next page, unless told otherwise.
pub const SNAPSHOT_PATIENCE: Duration = Duration::from_mins(1);

/// How to open a store.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// Accept a server whose settings may lose what was acknowledged. The store then says that it
    /// is [`Durability::Relaxed`](store::Durability::Relaxed), for as long as they do.
    pub relaxed: bool,
    /// Connections that calls are spread over; at least one. A snapshot has one of its own besides.
    pub connections: usize,
    /// How long a snapshot waits for its reader. While one is open, Redis keeps the old bytes of
    /// every record that is changed.
    pub snapshot_patience: Duration,
    /// Spaces whose records may be put although the server is out of memory, because sessions and
    /// the reaper need them to free some. There must be few of them, or they must be gone soon.
    pub spared: Vec<Space>,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions {
            relaxed: false,
            connections: CONNECTIONS,
            snapshot_patience: SNAPSHOT_PATIENCE,
            spared: Vec::new(),
        }
    }
}
