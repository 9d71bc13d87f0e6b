//! What a volume or a bucket holds, by its counters.

use record::key::CounterKind;
use record::{Dentry, Ino, key};

use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};

/// The most buckets of a volume that are counted: those with the first names.
pub const BUCKETS_COUNTED_MAX: u32 = 1_000;

/// What a volume or a bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of files, each once however many names it has, those awaiting the reaper included.
    pub bytes: u64,
    /// Names of files, and buckets.
    pub names: u64,
}

/// Adds up counters, without a look at any file: of a bucket one round trip, of a volume two.
#[derive(Clone, Debug)]
pub struct CountUsage {
    /// A bucket, or the root for the whole volume, of which [`BUCKETS_COUNTED_MAX`] are counted.
    pub ino: Ino,
}

impl Planner for CountUsage {
    type Output = Usage;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Usage>, Halt> {
        let mut buckets = Vec::new();
        if self.ino == Ino::ROOT {
            let (first, end) = key::dentries(Ino::ROOT);
            for entry in view.range(first, end, BUCKETS_COUNTED_MAX)? {
                buckets.push(decode(&entry.key, &entry.value, Dentry::decode)?.ino);
            }
        } else {
            buckets.push(self.ino);
        }
        let counted = |bucket: &Ino| {
            [CounterKind::Bytes, CounterKind::Objects].map(|kind| key::counter(*bucket, kind))
        };
        // All are asked for before any is missed.
        let counted: Vec<_> = buckets
            .iter()
            .map(|bucket| counted(bucket).map(|counter| view.counter(&counter)))
            .collect();
        let mut holdings = Usage { bytes: 0, names: buckets.len() as u64 };
        for [bytes, names] in counted {
            holdings.bytes += u64::try_from(bytes?).unwrap_or(0);
            holdings.names += u64::try_from(names?).unwrap_or(0);
        }
        Ok(Step::Done(holdings))
    }
}
