//! What clients do: a verb, sizes, how many at a time, and for how long.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Bytes of all objects that are read again and again; any cache has room for them.
const WARM_BYTES: u64 = 64 << 20;

/// The fewest and the most objects that are read again and again.
const WARM_OBJECTS: (u64, u64) = (4, 128);

/// Keys below the prefix that is listed.
const LISTED_OBJECTS: usize = 5_000;

/// Objects that each client of the mixed load begins with.
const MIXED_OBJECTS: usize = 32;

/// The large objects that ranges are read from.
const RANGED_OBJECTS: usize = 2;

/// The smallest part that S3 accepts, but for the last one.
pub(crate) const PART_BYTES_MIN: u64 = 5 << 20;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// New objects are written.
    Put,
    /// Objects are read whole.
    Get,
    /// Their headers are asked for.
    Head,
    /// All keys below a prefix are listed, in pages of 1,000.
    List,
    /// Objects are deleted, each by a request.
    Delete,
    /// Objects are deleted by requests that name 1,000 keys.
    DeleteBatch,
    /// Of the requests 45 % read, 30 % ask for headers, 15 % write and 10 % delete.
    Mixed,
    /// New objects are written in parts.
    Multipart,
    /// Ranges at random places of large objects are read.
    Range,
}

impl Verb {
    /// All of them.
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

    /// As on the command line.
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

    /// What a rate counts: requests, or the keys or objects that requests are about.
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

/// What every round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Workload {
    /// What is asked.
    pub verb: Verb,
    /// Bytes of each object.
    pub object_bytes: u64,
    /// Clients at a time, each with a connection of its own.
    pub clients: usize,
    /// How long a round lasts; one that runs out of objects ends sooner.
    pub time: Duration,
    /// Objects that are read, listed or begun with, where that is not what was written before;
    /// of the mixed load, for each client.
    pub objects: usize,
    /// Bytes of each range.
    pub range_bytes: u64,
    /// Bytes of each part.
    pub part_bytes: u64,
    /// GET reads this many of the objects that PUT rounds of the same size wrote, each once and
    /// never again: no cache can have them unless it kept what was written.
    pub once: Option<usize>,
}

impl Workload {
    /// The usual form of a workload.
    pub fn new(verb: Verb, object_bytes: u64, clients: usize, time: Duration) -> Self {
        let (fewest, most) = WARM_OBJECTS;
        let warm = (WARM_BYTES / object_bytes.max(1)).clamp(fewest, most);
        let objects = match verb {
            Verb::List => LISTED_OBJECTS,
            Verb::Mixed => MIXED_OBJECTS,
            Verb::Range => RANGED_OBJECTS,
            _ => usize::try_from(warm).expect("the most is a small number"),
        };
        let range_bytes = (128 << 10).min(object_bytes.max(1));
        let part_bytes = (8 << 20_u64).min(object_bytes).max(PART_BYTES_MIN);
        Self { verb, object_bytes, clients, time, objects, range_bytes, part_bytes, once: None }
    }
}

#[cfg(test)]
mod tests;
