//! What a plan counts: each counter is written once, however many names change.

use std::collections::{BTreeMap, BTreeSet};

use record::key::{self, CounterKind};
use record::{Ino, Kind};
use store::{Plan, Write};

use crate::run::Env;

/// Counters that a plan adds to, and directories in which names change.
#[derive(Debug, Default)]
pub(super) struct Counts {
    added: BTreeMap<(Ino, u8), (CounterKind, i64)>,
    changed: BTreeSet<Ino>,
}

impl Counts {
    /// Adds to a counter.
    pub(super) fn add(&mut self, ino: Ino, kind: CounterKind, by: i64) {
        self.added.entry((ino, kind as u8)).or_insert((kind, 0)).1 += by;
    }

    /// A name of this kind has come to a directory of a bucket, or has gone from it.
    pub(super) fn name(&mut self, directory: Ino, bucket: Ino, kind: Kind, by: i64) {
        self.changed.insert(directory);
        self.count(directory, bucket, kind, by);
    }

    /// As [`Counts::name`] of one that comes, where the directory's times stay as they are.
    pub(super) fn arrives(&mut self, directory: Ino, bucket: Ino, kind: Kind) {
        self.count(directory, bucket, kind, 1);
    }

    fn count(&mut self, directory: Ino, bucket: Ino, kind: Kind, by: i64) {
        self.add(directory, CounterKind::Entries, by);
        match kind {
            Kind::Directory => self.add(directory, CounterKind::Directories, by),
            Kind::File => self.add(bucket, CounterKind::Objects, by),
            Kind::Symlink | Kind::Special => {}
        }
    }

    /// Adds all of it to a plan.
    pub(super) fn finish(self, env: &Env, plan: &mut Plan) {
        for ((ino, _), (kind, by)) in self.added {
            if by != 0 {
                plan.writes.push(Write::Add(key::counter(ino, kind), by));
            }
        }
        for ino in self.changed {
            let modified = key::counter(ino, CounterKind::Modified);
            plan.writes.push(Write::Max(modified, env.now.micros()));
        }
    }
}

/// Clears the counters of a directory that goes.
pub(super) fn clear(directory: Ino, plan: &mut Plan) {
    let kinds = [CounterKind::Entries, CounterKind::Modified, CounterKind::Directories];
    plan.writes.extend(kinds.map(|kind| Write::Clear(key::counter(directory, kind))));
}
