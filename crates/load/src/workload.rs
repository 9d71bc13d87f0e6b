//! Workloads: an operation, the sizes of objects, the number of clients, and the duration.
//!
//! For example, `Workload::new(Verb::Get, 4096, 16, time)` reads objects of 4 KiB with 16 clients.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The bytes of all objects that are read repeatedly. Each cache has room for them.
const WARM_BYTES: u64 = 64 << 20;

/// The smallest and largest number of objects that are read repeatedly.
const WARM_OBJECTS: (u64, u64) = (4, 128);

/// The number of keys in the listing.
const LISTED_OBJECTS: usize = 5_000;

/// The number of objects with which each client of the mixed load begins.
const MIXED_OBJECTS: usize = 32;

/// The number of large objects for range reads.
const RANGED_OBJECTS: usize = 2;

/// The minimum size of a part in bytes that S3 accepts. The last part may be smaller.
pub(crate) const PART_BYTES_MIN: u64 = 5 << 20;

/// The operation of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Writes new objects.
    Put,
    /// Reads complete objects.
    Get,
    /// Reads the headers of objects.
    Head,
    /// Lists all keys with a prefix, in pages of 1,000.
    List,
    /// Deletes objects, one per request.
    Delete,
    /// Deletes objects, 1,000 per request.
    DeleteBatch,
    /// Reads (45 %), reads headers (30 %), writes (15 %) and deletes (10 %).
    Mixed,
    /// Writes new objects in parts.
    Multipart,
    /// Reads ranges at random positions of large objects.
    Range,
}

impl Verb {
    /// All operations.
    pub const ALL: [Self; 9] = [
        Self::Put,
        Self::Get,
        Self::Head,
        Self::List,
        Self::Delete,
        Self::DeleteBatch,
        Self::Mixed,
        Self::Multipart,
        Self::Range,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::DeleteBatch => "delete-batch",
            Self::Mixed => "mixed",
            Self::Multipart => "multipart",
            Self::Range => "range",
        }
    }

    /// Returns the unit of rates: requests, keys or objects.
    pub fn unit(self) -> &'static str {
        match self {
            Self::List | Self::DeleteBatch => "keys",
            Self::Multipart => "objects",
            _ => "requests",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Verb {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|verb| verb.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{text:?} is not a workload; there are {names}")
        })
    }
}

/// The parameters of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Workload {
    /// The operation.
    pub verb: Verb,
    /// The size of each object in bytes.
    pub object_bytes: u64,
    /// The number of clients, each with its own connection.
    pub clients: usize,
    /// The duration of a round. A round without more objects ends earlier.
    pub time: Duration,
    /// The number of objects that a preparation writes for reads, listings or the mixed load. In
    /// the mixed load it is the number per client.
    pub objects: usize,
    /// The size of each range in bytes.
    pub range_bytes: u64,
    /// The size of each part in bytes.
    pub part_bytes: u64,
    /// If set, GET reads this number of objects that PUT rounds of the same size wrote, each
    /// exactly once. So a cache has them only if it keeps written objects.
    pub once: Option<usize>,
    /// If set, each client begins at most one step in this time, and the clients begin evenly
    /// distributed. For example, 8 clients with 160 ms send at most 50 requests per second.
    pub pace: Option<Duration>,
}

impl Workload {
    /// Limits all clients together to `rate` steps per second.
    #[must_use]
    pub fn at_most(self, rate: u32) -> Self {
        let clients = u32::try_from(self.clients).unwrap_or(u32::MAX);
        Self { pace: Some(Duration::from_secs(1) * clients / rate.max(1)), ..self }
    }

    /// Creates a workload with the usual numbers and sizes.
    pub fn new(verb: Verb, object_bytes: u64, clients: usize, time: Duration) -> Self {
        let (fewest, most) = WARM_OBJECTS;
        let warm = (WARM_BYTES / object_bytes.max(1)).clamp(fewest, most);
        let objects = match verb {
            Verb::List => LISTED_OBJECTS,
            Verb::Mixed => MIXED_OBJECTS,
            Verb::Range => RANGED_OBJECTS,
            _ => usize::try_from(warm).expect("the most is a small number"),
        };
        // Small objects are read as one range of their full size.
        let range_bytes = (128 << 10).min(object_bytes.max(1));
        let part_bytes = (8 << 20_u64).min(object_bytes).max(PART_BYTES_MIN);
        let (once, pace) = (None, None);
        Self { verb, object_bytes, clients, time, objects, range_bytes, part_bytes, once, pace }
    }
}

#[cfg(test)]
mod tests;
