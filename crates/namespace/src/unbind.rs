//! What becomes of an inode that loses a name.
//!
//! One plan may take several names, and several of one inode. Each inode is written once. A name
//! that says that it is the only one needs no look at its inode; one that does not is counted.

use std::collections::BTreeMap;

use record::{Dentry, Ino, Inode, Orphan, key};
use store::{Guard, Plan, Write};

use crate::Halt;
use crate::run::Env;
use crate::view::{View, decode};

/// The names that a plan takes away, by what they bind. The guards of the names are the planner's.
#[derive(Debug)]
pub(crate) struct Unbinding {
    bucket: Ino,
    /// What loses its only name, with its bytes if its name said that it is self-contained.
    ending: BTreeMap<Ino, Option<u64>>,
    /// What may have other names, and how many it loses.
    linked: BTreeMap<Ino, u32>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Unbound {
    /// How many of the bytes that the bucket counts are gone at once.
    pub(crate) bytes: i64,
    /// What has lost its last name.
    pub(crate) ended: Vec<Ino>,
}

impl Unbinding {
    /// Nothing is taken yet. What ends counts among the bytes of this bucket.
    pub(crate) fn new(bucket: Ino) -> Unbinding {
        Unbinding { bucket, ending: BTreeMap::new(), linked: BTreeMap::new() }
    }

    /// Takes a name away from anything but a directory.
    pub(crate) fn take(&mut self, name: &Dentry) {
        // Two names of one inode that do not both say that there are others were remembered at
        // different times. One of their guards does not hold, and until then they are two.
        let ended = self.ending.remove(&name.ino).is_some();
        if name.linked || ended || self.linked.contains_key(&name.ino) {
            *self.linked.entry(name.ino).or_default() += 1 + u32::from(ended);
        } else {
            self.ending.insert(name.ino, name.self_contained);
        }
    }

    /// Adds what becomes of the inodes to a plan.
    ///
    /// A file whose name says that it is self-contained goes at once: whoever found it got all of
    /// it with the inode, and does not come back for more. Anything else is left to the reaper,
    /// which reads the inode later; the foreground need not.
    pub(crate) fn finish(
        self,
        view: &mut View<'_>,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<Unbound, Halt> {
        let keys: Vec<_> = self.linked.keys().map(|ino| key::inode(*ino)).collect();
        let records = view.many(&keys)?;
        let (mut bytes, mut ended) = (0_i64, Vec::new());
        for (ino, self_contained) in self.ending {
            ended.push(ino);
            match self_contained {
                Some(size) => {
                    bytes = bytes.saturating_add(i64::try_from(size).unwrap_or(i64::MAX));
                    plan.writes.push(Write::Delete(key::inode(ino)));
                }
                None => plan.writes.push(orphan(ino, self.bucket)),
            }
        }
        for (((ino, taken), at), record) in self.linked.into_iter().zip(keys).zip(records) {
            // Hints may know a name and not yet what it binds. The name is guarded, so that the
            // inode is there: this guard does not hold, and then it is known what stands there.
            let Some(record) = record else {
                plan.guards.push(Guard::Absent(at));
                continue;
            };
            let mut inode = decode(&at, &record, Inode::decode)?;
            let guard = Guard::Equals(at.clone(), record);
            if !plan.guards.contains(&guard) {
                plan.guards.push(guard);
            }
            match inode.links_mut() {
                Some(links) if *links > taken => {
                    *links -= taken;
                    inode.attributes.status_changed = env.now;
                    plan.writes.push(Write::Put(at.clone(), inode.encode(&at)));
                }
                _ => {
                    ended.push(ino);
                    plan.writes.push(orphan(ino, self.bucket));
                }
            }
        }
        Ok(Unbound { bytes, ended })
    }
}

/// Leaves an inode to the reaper.
pub(crate) fn orphan(ino: Ino, bucket: Ino) -> Write {
    let key = key::orphan(ino);
    let value = Orphan::File { bucket }.encode(&key);
    Write::Put(key, value)
}
