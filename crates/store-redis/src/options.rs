//! The options of opening a store.
//!
//! For example, more connections let large reads overlap, while one script still runs at a time.

use std::time::Duration;

use store::Space;

/// Default number of connections that calls share.
pub const CONNECTIONS: usize = 3;

/// Default time that a snapshot waits for its reader's next page.
pub const SNAPSHOT_PATIENCE: Duration = Duration::from_mins(1);

/// The options of opening a store.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// Accept a server whose settings may lose acknowledged commits. The store then reports
    /// [`Durability::Relaxed`](store::Durability::Relaxed) while the server has such settings.
    pub relaxed: bool,
    /// Number of connections that all calls share; at least one. Each open snapshot has one more.
    pub connections: usize,
    /// Time after which the server drops a snapshot whose owner has not asked for a page. While one
    /// is open, Redis keeps the old bytes of each record that changes.
    pub snapshot_patience: Duration,
    /// Spaces whose records may be put although the server is out of memory, because sessions and
    /// the reaper need them to free memory. There must be few of these records, or they must be
    /// short-lived.
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
