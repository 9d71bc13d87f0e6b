//! How much is done in each row, long and short.

/// Amounts of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts {
    /// MiB of the large file.
    pub(super) large_mib: u64,
    /// MiB of the file that is read from the cache: what a cache in memory holds.
    pub(super) cached_mib: u64,
    /// Reads of 4 KiB at random places.
    pub(super) random_reads: usize,
    /// Files that are unpacked.
    pub(super) unpacked: u64,
    /// Files that are unpacked where it is slow, and where requests are counted.
    pub(super) unpacked_few: u64,
    /// Files that are cloned, copied and removed.
    pub(super) cloned: u64,
    /// Files that each thread makes and removes.
    pub(super) entries: u64,
    /// Files that are listed.
    pub(super) listed: u64,
    /// Overwrites of a frame in a round.
    pub(super) overwrites: usize,
}

/// What a user waits for.
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

/// Enough to see that it runs.
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
