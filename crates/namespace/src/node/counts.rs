//! The counter changes of one plan.
//!
//! A plan may change several names in one directory, and a plan must not write one counter twice.
//! So the changes are summed up first. For example, a rename within one directory adds -1 and +1 to
//! its number of entries, and writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use record::key::{self, CounterKind};
use record::{Ino, Kind};
use store::{Plan, Write};

use crate::run::Env;

/// The changes of counters that a plan collects before it writes them, and the directories whose
/// names change.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The sum of the additions to each counter.
    added: BTreeMap<(Ino, u8), (CounterKind, i64)>,
    /// The directories whose modification time is raised.
    changed: BTreeSet<Ino>,
}

impl Counts {
    /// Adds a number to a counter of a bucket or directory.
    pub(super) fn add(&mut self, ino: Ino, kind: CounterKind, by: i64) {
        self.added.entry((ino, kind as u8)).or_insert((kind, 0)).1 += by;
    }

    /// Counts names of this kind that are added to a directory of a bucket (`by` > 0) or removed
    /// from it (`by` < 0). The modification time of the directory is raised.
    pub(super) fn name(&mut self, directory: Ino, bucket: Ino, kind: Kind, by: i64) {
        self.changed.insert(directory);
        self.count(directory, bucket, kind, by);
    }

    /// Counts a name that is added, without a change of the directory's modification time.
    pub(super) fn count_name_only(&mut self, directory: Ino, bucket: Ino, kind: Kind) {
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

    /// Adds all counter changes to a plan. A sum of zero is left out.
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

/// Adds the removal of the counters of a removed directory to a plan.
pub(super) fn clear(directory: Ino, plan: &mut Plan) {
    let kinds = [CounterKind::Entries, CounterKind::Modified, CounterKind::Directories];
    plan.writes.extend(kinds.map(|kind| Write::Clear(key::counter(directory, kind))));
}
