//! The keys of a run. They are computed from numbers, so no list of written keys is kept.

/// Makes keys below the prefix of a run.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// The objects of one round: for each client, how many it tried to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) object_bytes: u64,
    pub(crate) round: u32,
    pub(crate) counts: Vec<u64>,
}

impl Keys {
    /// `prefix` ends in a slash.
    pub(crate) fn below(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// An object that a round writes.
    pub(crate) fn written(&self, bytes: u64, round: u32, client: usize, number: u64) -> String {
        format!("{}put-{bytes}/{round}/{client}/{number:08}", self.prefix)
    }

    /// An object that is read again and again.
    pub(crate) fn read(&self, bytes: u64, number: usize) -> String {
        format!("{}read-{bytes}/{number:06}", self.prefix)
    }

    /// The prefix that is listed.
    pub(crate) fn listing(&self, bytes: u64) -> String {
        format!("{}list-{bytes}/", self.prefix)
    }

    /// An object below it.
    pub(crate) fn listed(&self, bytes: u64, number: usize) -> String {
        format!("{}{number:06}", self.listing(bytes))
    }

    /// An object of one client of the mixed load.
    pub(crate) fn mixed(&self, bytes: u64, client: usize, number: u64) -> String {
        format!("{}mixed-{bytes}/{client}/{number:08}", self.prefix)
    }

    /// An object that is uploaded in parts.
    pub(crate) fn parted(&self, bytes: u64, round: u32, client: usize, number: u64) -> String {
        format!("{}parts-{bytes}/{round}/{client}/{number:08}", self.prefix)
    }

    /// All keys of a round, about in the order of writing: the first one of each client, then the
    /// second of each, and so on.
    pub(crate) fn all(&self, written: &Written) -> Vec<String> {
        let most = written.counts.iter().copied().max().unwrap_or(0);
        let mut keys = Vec::new();
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
