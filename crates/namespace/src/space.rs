//! Usage of a bucket or of a volume, from counters. For example, `df` on a mount shows these
//! numbers.

use record::key::CounterKind;
use record::{Dentry, Ino, key};

use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};

/// The most buckets whose counters are summed up for a volume: those with the first names. The
/// usage of further ones is left out.
pub const BUCKETS_COUNTED_MAX: u32 = 1_000;

/// The usage of a volume or a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of files. A file with several names counts once, and an orphan (a file without a name)
    /// counts until the reaper deletes it.
    pub bytes: u64,
    /// The number of names of files, and of buckets.
    pub names: u64,
}

/// Sums up counters, without reading any inode. One round trip for a bucket, two for a volume.
#[derive(Clone, Debug)]
pub struct CountUsage {
    /// The inode number of a bucket, or the root for the volume.
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
        // All counters are requested before the first is used, so that they take one round trip.
        let counted: Vec<_> = buckets
            .iter()
            .map(|bucket| counted(bucket).map(|counter| view.counter(&counter)))
            .collect();
        let mut usage = Usage { bytes: 0, names: buckets.len() as u64 };
        // A negative counter is wrong, and counts as 0.
        for [bytes, names] in counted {
            usage.bytes += u64::try_from(bytes?).unwrap_or(0);
            usage.names += u64::try_from(names?).unwrap_or(0);
        }
        Ok(Step::Done(usage))
    }
}
