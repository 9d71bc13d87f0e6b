//! Random choices of operations, which follow from a seed alone.

use record::{ObjectLock, RetainUntil, RetentionMode, Timestamp, VersionRef, Versioning};
use volume::Exempt;

use super::model::{Act, Content, How, Model, Name};

pub(crate) const KEYS: [&str; 6] = ["a", "a/b", "a/b/c", "a/d/e", "a0", "k"];

/// Buckets: the first changes between versioned and suspended, the second has object locks.
pub(crate) const BUCKETS: [&str; 2] = ["free", "held"];

/// If a bucket has more versions than this, removals become more frequent.
const VERSIONS_MANY: usize = 60;

/// Pseudo-random numbers.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        // A seed of zero would give only zeros.
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn name(&mut self) -> Name {
        (self.below(BUCKETS.len()), self.of(&KEYS))
    }

    /// Mostly a version of a key; else one of another key, or a removed one.
    pub(crate) fn version(&mut self, model: &Model, name: Name, gone: &[VersionRef]) -> VersionRef {
        let versions = model.versions(name);
        if !versions.is_empty() && !self.one_in(10) {
            return versions[self.below(versions.len())].id;
        }
        if !gone.is_empty() && self.one_in(2) { self.of(gone) } else { VersionRef::Null }
    }

    fn maybe(&mut self, model: &Model, name: Name, gone: &[VersionRef]) -> Option<VersionRef> {
        (!self.one_in(4)).then(|| self.version(model, name, gone))
    }

    fn retention(&mut self, passed: Timestamp) -> RetainUntil {
        let mode = self.of(&[RetentionMode::Governance, RetentionMode::Compliance]);
        let hours = i64::try_from(self.below(40)).expect("few");
        RetainUntil { mode, until: Timestamp(passed.0 + hours * HOUR) }
    }

    fn lock(&mut self, model: &Model, to: Name, passed: Timestamp) -> ObjectLock {
        if !model.buckets[to.0].locks || !self.one_in(3) {
            return ObjectLock::default();
        }
        let retention = (!self.one_in(4)).then(|| self.retention(passed));
        ObjectLock { retention, legal_hold: self.of(&[None, None, Some(false), Some(true)]) }
    }

    fn put(&mut self, model: &Model, step: u64, passed: Timestamp) -> Act {
        let to = self.name();
        // Inline in a record, staged inline or in a shared block, in one block, in two blocks.
        let length = match self.below(20) {
            0..8 => 9,
            8..14 => 300,
            14..18 => 6_000,
            18 => 40_000,
            _ => 80_000,
        };
        let lock = self.lock(model, to, passed);
        let content = Content { seed: step, length };
        Act::Put { to, content, lock, if_absent: self.one_in(8) }
    }

    fn remove(&mut self, model: &Model, gone: &[VersionRef]) -> Act {
        let name = self.name();
        let how = match self.below(10) {
            0..4 => How::Plain,
            4..6 => How::Bypass,
            6..8 => How::Sparing(Exempt::Current),
            8 => How::Sparing(Exempt::Objects),
            _ => How::Sparing(Exempt::Nothing),
        };
        Act::Remove(name, self.version(model, name, gone), how)
    }

    /// Chooses the next operation.
    pub(crate) fn act(
        &mut self,
        model: &Model,
        gone: &[VersionRef],
        step: u64,
        passed: Timestamp,
    ) -> Act {
        let many = (0..BUCKETS.len()).any(|bucket| model.all(bucket).len() > VERSIONS_MANY);
        if many && self.one_in(2) {
            return self.remove(model, gone);
        }
        match self.below(100) {
            0..3 => {
                let versioning = self.of(&[Versioning::Enabled, Versioning::Suspended]);
                Act::Set(self.below(BUCKETS.len()), versioning)
            }
            3..33 => self.put(model, step, passed),
            33..43 => {
                let (from, to) = (self.name(), self.name());
                let to = if self.one_in(3) { from } else { to };
                let version = self.maybe(model, from, gone);
                Act::Copy { from, version, to, lock: self.lock(model, to, passed) }
            }
            43..55 => Act::Delete(self.name()),
            55..82 => self.remove(model, gone),
            82..91 => {
                let name = (1, self.of(&KEYS));
                Act::Hold(name, self.maybe(model, name, gone), self.one_in(3))
            }
            _ => {
                let name = (1, self.of(&KEYS));
                let version = self.maybe(model, name, gone);
                let retention = (!self.one_in(3)).then(|| self.retention(passed));
                Act::Retain(name, version, retention, self.one_in(3))
            }
        }
    }
}

pub(crate) const HOUR: i64 = 3_600_000_000_000;
