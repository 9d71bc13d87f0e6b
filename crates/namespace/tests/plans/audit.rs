//! What must hold of every plan, and of every volume at rest.

use std::collections::{BTreeMap, BTreeSet};

use record::key::{self, CounterKind, space};
use record::{Dentry, Ino, Inode, InodeBody, Kind, Origin, Orphan, Upload};
use store::{Guard, Key, Plan, Write};

use crate::world::State;

/// Checks what engines rely on: whoever writes into a directory, an upload or what a bucket is set
/// to do guards the record that stands for it, and whoever relies on emptiness deletes that record.
#[track_caller]
pub(crate) fn contract(plan: &Plan) {
    let (mut guarded, mut made, mut deleted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let dentry = |key: &Key, value| Dentry::decode(key, value).expect("a dentry").ino.0;
    for guard in &plan.guards {
        if let Guard::Equals(key, value) = guard {
            if key.space() == space::DENTRY {
                guarded.insert(dentry(key, value));
            } else if let (space::UPLOAD, Ok(upload)) = (key.space(), Upload::decode(key, value)) {
                guarded.insert(upload.ino.0);
            }
        }
    }
    for write in &plan.writes {
        match write {
            Write::Put(key, value) if key.space() == space::DENTRY => {
                made.insert(dentry(key, value));
            }
            Write::Delete(key) if key.space() == space::DENTRY => {
                let bound = plan.guards.iter().find_map(|guard| match guard {
                    Guard::Equals(guarded, value) if guarded == key => Some(dentry(key, value)),
                    _ => None,
                });
                deleted.insert(bound.expect("a remover guards the full value of what goes"));
            }
            _ => {}
        }
    }
    for write in &plan.writes {
        let (Write::Put(key, _) | Write::Delete(key)) = write else { continue };
        let spaces = [space::DENTRY, space::UPLOAD, space::PART, space::BUCKET_CONFIG];
        if spaces.contains(&key.space()) {
            let owner = key.partition();
            let safe = owner == Ino::ROOT.0 || guarded.contains(&owner) || made.contains(&owner);
            assert!(safe, "{key:?} is written, and its owner is not guarded, in {plan:?}");
        }
    }
    let policy_goes = plan
        .writes
        .iter()
        .any(|write| matches!(write, Write::Delete(key) if key.space() == space::POLICY));
    for guard in &plan.guards {
        if let Guard::Empty(start, _) = guard {
            // Whoever gives a policy to an access key guards the policy.
            if start.space() == space::USER && policy_goes {
                continue;
            }
            let owner = start.partition();
            assert!(deleted.contains(&owner), "{guard:?} without an owner in {plan:?}");
        }
    }
}

/// Checks a volume at rest: one tree, counters as a recount tells, no implied directory empty.
#[track_caller]
pub(crate) fn audit(state: &State) {
    let mut children: BTreeMap<u64, u32> = BTreeMap::new();
    let mut bound: BTreeMap<u64, Dentry> = BTreeMap::new();
    let mut parents: BTreeMap<u64, u64> = BTreeMap::new();
    let (first, end) = (Key::new(space::DENTRY, 0, b""), Key::new(space::DENTRY, u64::MAX, b""));
    for (slot, value) in state.records.range(first..end) {
        let dentry = Dentry::decode(slot, value).expect("a dentry");
        *children.entry(slot.partition()).or_default() += 1;
        assert!(bound.insert(dentry.ino.0, dentry).is_none(), "{slot:?} binds what has a name");
        parents.insert(dentry.ino.0, slot.partition());
        assert_eq!(dentry.kind == Kind::Directory, slot.suffix().ends_with(b"/"), "{slot:?}");
    }
    for (ino, dentry) in &bound {
        let inode_key = key::inode(dentry.ino);
        let inode = Inode::decode(&inode_key, &state.records[&inode_key]).expect("an inode");
        if dentry.kind == Kind::Directory {
            let parent = InodeBody::Directory { parent: Ino(parents[ino]) };
            assert_eq!(inode.body, parent, "{inode_key:?} knows another parent");
            let stays = dentry.origin == Origin::Made || children.contains_key(ino);
            assert!(stays, "implied directory {ino} is empty");
        }
        let parent = parents[ino];
        let known = parent == Ino::ROOT.0 || bound.contains_key(&parent);
        assert!(known, "{ino} stands in {parent}, which has no name");
    }
    for key in state.records.keys().filter(|key| key.space() == space::INODE) {
        let orphan = key::orphan(Ino(key.partition()));
        let reachable = bound.contains_key(&key.partition()) != state.records.contains_key(&orphan);
        assert!(reachable, "{key:?} is neither bound nor an orphan, or both");
    }
    for key in state.records.keys().filter(|key| key.space() == space::BUCKET_CONFIG) {
        let bucket = key::bucket(Ino(key.partition()));
        assert!(state.records.contains_key(&bucket), "{key:?} is of a bucket that is gone");
    }
    counters(state, &children, &bound, &parents);
}

#[track_caller]
fn counters(
    state: &State,
    children: &BTreeMap<u64, u32>,
    bound: &BTreeMap<u64, Dentry>,
    parents: &BTreeMap<u64, u64>,
) {
    let bucket_of = |mut ino: u64| {
        while parents[&ino] != Ino::ROOT.0 {
            ino = parents[&ino];
        }
        ino
    };
    let mut counts: BTreeMap<(u64, u8), i64> = BTreeMap::new();
    for (directory, names) in children {
        counts.insert((*directory, CounterKind::Entries as u8), i64::from(*names));
    }
    let size = |ino: Ino| {
        let key = key::inode(ino);
        let inode = Inode::decode(&key, &state.records[&key]).expect("an inode");
        i64::try_from(inode.file().map_or(0, |file| file.size)).unwrap()
    };
    for (ino, dentry) in bound.iter().filter(|(_, dentry)| dentry.kind == Kind::File) {
        let bucket = bucket_of(*ino);
        *counts.entry((bucket, CounterKind::Objects as u8)).or_default() += 1;
        *counts.entry((bucket, CounterKind::Bytes as u8)).or_default() += size(dentry.ino);
    }
    for (key, value) in state.records.iter().filter(|(key, _)| key.space() == space::ORPHAN) {
        if let Orphan::File { bucket } = Orphan::decode(key, value).expect("an orphan") {
            let ino = u64::from_be_bytes(key.suffix().try_into().unwrap());
            *counts.entry((bucket.0, CounterKind::Bytes as u8)).or_default() += size(Ino(ino));
        }
    }
    counts.retain(|_, count| *count != 0);
    let counted = state.counters.iter().map(|(key, count)| {
        let [kind] = key.0.suffix() else { panic!("{key:?} is no counter") };
        ((key.0.partition(), *kind), *count)
    });
    let (mut found, mut times) = (BTreeMap::new(), BTreeSet::new());
    for ((ino, kind), count) in counted {
        if kind == CounterKind::Modified as u8 {
            times.insert(ino);
        } else {
            found.insert((ino, kind), count);
        }
    }
    assert_eq!(found, counts, "counters differ from a recount");
    for ino in times {
        let stands = ino == Ino::ROOT.0 || bound.contains_key(&ino);
        assert!(stands, "directory {ino} is gone, and its time is not");
    }
}
