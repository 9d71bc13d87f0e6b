//! Invariants of every plan, and of every volume at rest.

use std::collections::{BTreeMap, BTreeSet};

use namespace::self_contained;
use record::key::{self, CounterKind, space};
use record::{
    Dentry, Ino, Inode, InodeBody, Kind, Origin, Orphan, Upload, Xattr, XattrPlace, XattrValue,
};
use store::{Guard, Key, Plan, Write};

use crate::world::State;

/// Checks the rules on which engines rely: a plan that writes into a directory, an upload or a
/// bucket's configurations guards the record of that owner, and a plan that relies on an empty
/// range deletes that record.
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
            // A plan that gives a policy to an access key guards the record of the policy.
            if start.space() == space::USER && policy_goes {
                continue;
            }
            let owner = start.partition();
            assert!(deleted.contains(&owner), "{guard:?} without an owner in {plan:?}");
        }
    }
}

/// The names of a volume, by inode.
#[derive(Debug, Default)]
struct Names {
    /// For each inode: the keys of its dentries, and the dentries.
    of: BTreeMap<u64, Vec<(Key, Dentry)>>,
    /// For each directory: the number of names in it, and the number of those that bind
    /// directories.
    inside: BTreeMap<u64, (i64, i64)>,
}

impl Names {
    fn read(state: &State) -> Names {
        let mut names = Names::default();
        let (first, end) =
            (Key::new(space::DENTRY, 0, b""), Key::new(space::DENTRY, u64::MAX, b""));
        for (slot, value) in state.records.range(first..end) {
            let dentry = Dentry::decode(slot, value).expect("a dentry");
            let is_directory = dentry.kind == Kind::Directory;
            assert_eq!(is_directory, slot.suffix().ends_with(b"/"), "{slot:?}");
            let inside = names.inside.entry(slot.partition()).or_default();
            inside.0 += 1;
            inside.1 += i64::from(is_directory);
            names.of.entry(dentry.ino.0).or_default().push((slot.clone(), dentry));
        }
        names
    }

    /// The bucket that a directory is in or is.
    fn bucket(&self, mut directory: u64) -> u64 {
        loop {
            let parent = self.of[&directory][0].0.partition();
            if parent == Ino::ROOT.0 {
                return directory;
            }
            directory = parent;
        }
    }
}

fn inode(state: &State, ino: u64) -> Inode {
    let key = key::inode(Ino(ino));
    Inode::decode(&key, &state.records[&key]).expect("an inode")
}

/// Checks a volume at rest: it is one tree, counters equal a recount, and no implied directory is
/// empty.
#[track_caller]
pub(crate) fn audit(state: &State) {
    let names = Names::read(state);
    for (ino, bindings) in &names.of {
        let inode = inode(state, *ino);
        assert_eq!(u64::from(inode.links()), bindings.len() as u64, "names of {ino}");
        for (slot, dentry) in bindings {
            binding(&names, slot, dentry, &inode, bindings.len());
        }
    }
    for key in state.records.keys().filter(|key| key.space() == space::INODE) {
        let orphan = key::orphan(Ino(key.partition()));
        let bound = names.of.contains_key(&key.partition());
        let reachable = bound != state.records.contains_key(&orphan);
        assert!(reachable, "{key:?} is neither bound nor an orphan, or both");
    }
    for key in state.records.keys().filter(|key| key.space() == space::BUCKET_CONFIG) {
        let bucket = key::bucket(Ino(key.partition()));
        assert!(state.records.contains_key(&bucket), "{key:?} is of a bucket that is gone");
    }
    xattrs(state);
    counters(state, &names);
}

/// Checks a dentry against its inode, which has this number of names.
#[track_caller]
fn binding(names: &Names, slot: &Key, dentry: &Dentry, inode: &Inode, count: usize) {
    let (ino, parent) = (dentry.ino.0, slot.partition());
    assert_eq!(dentry.kind, inode.kind(), "{slot:?}");
    let known = parent == Ino::ROOT.0 || names.of.contains_key(&parent);
    assert!(known, "{ino} is in {parent}, which has no name");
    assert!(dentry.linked || count == 1, "{slot:?} does not say that {ino} has other names");
    let marked = inode.file().is_some_and(|file| file.marked_in_dentry);
    assert_eq!(dentry.self_contained.is_some(), marked, "{slot:?} and its file disagree");
    if marked {
        assert_eq!(dentry.self_contained, self_contained(inode), "{slot:?} says what is not so");
    }
    let within = if dentry.kind == Kind::Directory { ino } else { parent };
    assert_eq!(inode.bucket.0, names.bucket(within), "{slot:?} is in another bucket");
    if let InodeBody::Directory(directory) = &inode.body {
        assert_eq!(directory.parent.0, parent, "{slot:?} knows another parent");
        let name = [&directory.name[..], b"/"].concat();
        assert_eq!(slot.suffix(), name, "{slot:?} knows another name");
        // An implied directory with names stays. Here only S3 clients remove names.
        let stays = dentry.origin == Origin::Made || names.inside.contains_key(&ino);
        assert!(stays, "implied directory {ino} is empty");
    }
}

/// Checks that each long extended attribute belongs to an inode, which has its length.
#[track_caller]
fn xattrs(state: &State) {
    let mut known = BTreeSet::new();
    // Each file counts once, even with several names, and orphans count, too.
    for key in state.records.keys().filter(|key| key.space() == space::INODE) {
        for Xattr { name, value } in inode(state, key.partition()).xattrs {
            let XattrPlace::Apart(length) = value else { continue };
            let at = key::xattr(Ino(key.partition()), &name);
            let value = XattrValue::decode(&at, &state.records[&at]).expect("an attribute");
            assert_eq!(value.0.len() as u64, u64::from(length), "{at:?}");
            known.insert(at);
        }
    }
    let found = state.records.keys().filter(|key| key.space() == space::XATTR);
    assert!(found.eq(&known), "long attributes that no inode has");
}

#[track_caller]
fn counters(state: &State, names: &Names) {
    let mut counts: BTreeMap<(u64, u8), i64> = BTreeMap::new();
    for (directory, (entries, directories)) in &names.inside {
        counts.insert((*directory, CounterKind::Entries as u8), *entries);
        counts.insert((*directory, CounterKind::Directories as u8), *directories);
    }
    for (slot, dentry) in names.of.values().flatten() {
        if dentry.kind == Kind::File {
            let objects = (names.bucket(slot.partition()), CounterKind::Objects as u8);
            *counts.entry(objects).or_default() += 1;
        }
    }
    // Each file once, however many names it has, and what awaits the reaper, too.
    for key in state.records.keys().filter(|key| key.space() == space::INODE) {
        let inode = inode(state, key.partition());
        let size = i64::try_from(inode.file().map_or(0, |file| file.size)).unwrap();
        *counts.entry((inode.bucket.0, CounterKind::Bytes as u8)).or_default() += size;
    }
    for (key, value) in state.records.iter().filter(|(key, _)| key.space() == space::ORPHAN) {
        if let Orphan::File { bucket } = Orphan::decode(key, value).expect("an orphan") {
            let ino = u64::from_be_bytes(key.suffix().try_into().unwrap());
            assert_eq!(bucket, inode(state, ino).bucket, "{key:?} is of another bucket");
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
        let stands = ino == Ino::ROOT.0 || names.of.contains_key(&ino);
        assert!(stands, "directory {ino} is gone, and its time is not");
    }
}
