//! The keys of a run. They are computed from numbers, so no list of written keys is necessary.
//!
//! For example, object 7 of client 2 in round 0 has the key `put-4096/0/2/00000007` below the
//! prefix.

/// Computes keys below the prefix of a run.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// The objects that one PUT round has written. Each client numbers its objects from 0, so the
/// number of attempts of each client gives all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) object_bytes: u64,
    pub(crate) round: u32,
    pub(crate) counts: Vec<u64>,
}

impl Keys {
    /// Creates the keys below `prefix`, which ends in a slash.
    pub(crate) fn below(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Returns the key of an object that a round writes.
    pub(crate) fn written(&self, bytes: u64, round: u32, client: usize, number: u64) -> String {
        format!("{}put-{bytes}/{round}/{client}/{number:08}", self.prefix)
    }

    /// Returns the key of an object that is read repeatedly.
    pub(crate) fn read(&self, bytes: u64, number: usize) -> String {
        format!("{}read-{bytes}/{number:06}", self.prefix)
    }

    /// Returns the prefix of the objects for listings.
    pub(crate) fn listing(&self, bytes: u64) -> String {
        format!("{}list-{bytes}/", self.prefix)
    }

    /// Returns the key of one of the objects for listings.
    pub(crate) fn listed(&self, bytes: u64, number: usize) -> String {
        format!("{}{number:06}", self.listing(bytes))
    }

    /// Returns the key of an object of one client of the mixed load.
    pub(crate) fn mixed(&self, bytes: u64, client: usize, number: u64) -> String {
        format!("{}mixed-{bytes}/{client}/{number:08}", self.prefix)
    }

    /// Returns the key of an object that is uploaded in parts.
    pub(crate) fn parted(&self, bytes: u64, round: u32, client: usize, number: u64) -> String {
        format!("{}parts-{bytes}/{round}/{client}/{number:08}", self.prefix)
    }

    /// Returns all keys of a round, approximately in the order of writing: the first key of each
    /// client, then the second of each, and so on.
    pub(crate) fn all(&self, written: &Written) -> Vec<String> {
        let most = written.counts.iter().copied().max().unwrap_or(0);
        let mut keys = Vec::new();
        // Clients write at the same time, so their keys alternate.
        for number in 0..most {
            for (client, count) in written.counts.iter().enumerate() {
                if number < *count {
                    let Written { object_bytes, round, .. } = *written;
                    keys.push(self.written(object_bytes, round, client, number));
                }
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests;
