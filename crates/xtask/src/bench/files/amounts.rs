//! The amounts of work in each row, for a full run and for `--quick`.

/// Amounts of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts {
    /// The size of the large file in MiB.
    pub(super) large_mib: u64,
    /// The size in MiB of the file that is read from the cache. It fits into the cache.
    pub(super) cached_mib: u64,
    /// The number of reads of 4 KiB at random offsets.
    pub(super) random_reads: usize,
    /// The number of files that tar unpacks.
    pub(super) unpacked: u64,
    /// The number of files that tar unpacks on s3fs-fuse, which is slow, and while requests are
    /// counted.
    pub(super) unpacked_few: u64,
    /// The number of files that are cloned, copied and removed.
    pub(super) cloned: u64,
    /// The number of files that each thread creates and removes.
    pub(super) entries: u64,
    /// The number of files that ls lists.
    pub(super) listed: u64,
    /// The number of overwrites of a CSV file in a round.
    pub(super) overwrites: usize,
}

/// The amounts of a full run: long enough for stable figures.
const WHOLE: Amounts = Amounts {
    large_mib: 4096,
    cached_mib: 768,
    random_reads: 100_000,
    unpacked: 50_000,
    unpacked_few: 5_000,
    cloned: 10_000,
    entries: 5_000,
    listed: 100_000,
    overwrites: 30,
};

/// The amounts of `--quick`: enough to see that the benchmark works.
const QUICK: Amounts = Amounts {
    large_mib: 512,
    cached_mib: 256,
    random_reads: 20_000,
    unpacked: 3_000,
    unpacked_few: 300,
    cloned: 1_000,
    entries: 1_000,
    listed: 5_000,
    overwrites: 10,
};

impl Amounts {
    pub(super) fn of(quick: bool) -> Self {
        if quick { QUICK } else { WHOLE }
    }
}

#[cfg(test)]
mod tests;
