//! Invariants of every plan, and of every volume at rest.

use std::collections::{BTreeMap, BTreeSet};

use record::key::{self, CounterKind, space};
use record::{
    Content, Dentry, File, Ino, Inode, InodeBody, Kind, MapPage, Orphan, Slice, Superseded,
    Version, VersionBody, XattrPlace, XattrValue,
};
use store::{CounterKey, Guard, Key, Plan, Write};

use crate::world::State;

/// Checks the rules on which engines rely: a plan that adds a name guards the inode or the dentry
/// of the directory, a plan that relies on an empty directory deletes both, and each write to a
/// record is guarded.
#[track_caller]
pub(crate) fn contract(plan: &Plan) {
    let (mut owners, mut exact, mut absent) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for guard in &plan.guards {
        match guard {
            Guard::Equals(at, value) => {
                exact.insert(at);
                if at.space() == space::DENTRY {
                    owners.insert(Dentry::decode(at, value).expect("a dentry").ino.0);
                }
            }
            Guard::Absent(at) => {
                absent.insert(at);
            }
            Guard::Present(_) | Guard::Empty(..) | Guard::AtMost(..) => {}
        }
        if let Guard::Equals(at, _) | Guard::Present(at) = guard
            && at.space() == space::INODE
        {
            owners.insert(at.partition());
        }
    }
    let mut deleted = BTreeSet::new();
    for write in &plan.writes {
        match write {
            Write::Put(at, _) => match at.space() {
                space::DENTRY => {
                    let owner = at.partition();
                    let made = absent.contains(&key::inode(Ino(owner)));
                    let added = absent.contains(at) && owners.contains(&owner);
                    let known = exact.contains(at) || added || made || owner == Ino::ROOT.0;
                    assert!(
                        known,
                        "{at:?} is written, and it or its directory not guarded: {plan:?}"
                    );
                }
                space::INODE | space::ORPHAN | space::MAP => {
                    let named = plan.guards.iter().any(|guard| match guard {
                        Guard::Equals(slot, _) => {
                            slot.space() == space::DENTRY || slot.space() == space::VERSION
                        }
                        _ => false,
                    });
                    let known = exact.contains(at) || absent.contains(at);
                    // An inode that loses its last name becomes an orphan, and the name is guarded.
                    let known = known || at.space() == space::ORPHAN && named;
                    assert!(known, "{at:?} is written blindly in {plan:?}");
                }
                _ => {}
            },
            Write::Delete(at) => {
                deleted.insert(at.clone());
                let known = exact.contains(at);
                assert!(known || at.space() != space::DENTRY, "{at:?} goes blindly in {plan:?}");
            }
            _ => {}
        }
    }
    for guard in &plan.guards {
        if let Guard::Empty(start, _) = guard
            && start.space() == space::DENTRY
        {
            let gone = deleted.contains(&key::inode(Ino(start.partition())));
            assert!(gone, "{guard:?} without an owner in {plan:?}");
        }
    }
}

/// The records of a volume, by inode number.
#[derive(Debug, Default)]
struct Contents {
    inodes: BTreeMap<Ino, Inode>,
    /// The dentries of each inode.
    names: BTreeMap<Ino, Vec<(Key, Dentry)>>,
    orphans: BTreeMap<Ino, Ino>,
    /// The version records that bind each inode.
    versions: BTreeMap<Ino, Vec<(Key, Version)>>,
    /// Pages that writes have hidden, by file.
    hidden_pages: BTreeSet<(Ino, u32)>,
}

/// Checks a volume at rest: it is one tree, the marks in dentries are true, counters equal a
/// recount, contents do not overlap, and each record has an owner.
#[track_caller]
pub(crate) fn audit(state: &State) {
    let contents = Contents::of(state);
    for (ino, inode) in &contents.inodes {
        let names = contents.names.get(ino).map_or(&[][..], Vec::as_slice);
        let orphan = contents.orphans.get(ino);
        let versions = contents.versions.get(ino).map_or(&[][..], Vec::as_slice);
        let is_bound = !names.is_empty() || !versions.is_empty();
        assert!(is_bound == orphan.is_none(), "{ino:?} has a name and is an orphan");
        check_versions(state, *ino, inode, versions, names.len());
        assert!(orphan.is_none_or(|bucket| *bucket == inode.bucket), "{ino:?}: its bucket");
        match &inode.body {
            InodeBody::Directory(_) => contents.check_directory(*ino, inode, names),
            _ => check_names(*ino, inode, names, versions),
        }
        if let Some(file) = inode.file() {
            check_content(state, *ino, file);
        }
        for xattr in &inode.xattrs {
            if let XattrPlace::Apart(length) = xattr.value {
                let at = key::xattr(*ino, &xattr.name);
                let value = XattrValue::decode(&at, &state.records[&at]).expect("a value").0;
                assert_eq!(value.len(), usize::try_from(length).unwrap(), "{at:?}");
            }
        }
    }
    let bound = contents.names.keys().chain(contents.versions.keys());
    for ino in bound.chain(contents.orphans.keys()) {
        assert!(contents.inodes.contains_key(ino), "{ino:?} is named, and not there");
    }
    contents.check_belongings(state);
    assert_eq!(counters(state), contents.recount(state), "counters differ from a recount");
}

impl Contents {
    fn of(state: &State) -> Contents {
        let mut contents = Contents::default();
        for (at, value) in &state.records {
            match at.space() {
                space::INODE => {
                    let ino = Ino(at.partition());
                    contents.inodes.insert(ino, Inode::decode(at, value).expect("an inode"));
                }
                space::DENTRY => {
                    let dentry = Dentry::decode(at, value).expect("a dentry");
                    contents.names.entry(dentry.ino).or_default().push((at.clone(), dentry));
                }
                space::VERSION => {
                    let version = Version::decode(at, value).expect("a version");
                    if let Some(ino) = version.ino() {
                        contents.versions.entry(ino).or_default().push((at.clone(), version));
                    }
                }
                space::ORPHAN => {
                    let ino = Ino(u64::from_be_bytes(at.suffix().try_into().unwrap()));
                    match Orphan::decode(at, value).expect("an orphan") {
                        Orphan::File { bucket } => {
                            contents.orphans.insert(ino, bucket);
                        }
                        Orphan::Hidden { owner, pages, .. } => {
                            let pages = pages.into_iter().map(|page| (owner, page));
                            contents.hidden_pages.extend(pages);
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        contents
    }

    /// Checks that a directory has one name and knows it, and that it is in the bucket of its
    /// parent.
    fn check_directory(&self, ino: Ino, inode: &Inode, names: &[(Key, Dentry)]) {
        let InodeBody::Directory(directory) = &inode.body else { unreachable!("looked at before") };
        let [(slot, dentry)] = names else { panic!("{ino:?} has names {names:?}") };
        assert_eq!(dentry.kind, Kind::Directory, "{slot:?}");
        let expected = key::dentry(directory.parent, &[&directory.name[..], b"/"].concat());
        assert_eq!(*slot, expected, "{ino:?} knows another name");
        assert!(!dentry.linked && dentry.self_contained.is_none(), "{slot:?} {dentry:?}");
        let (mut above, mut at) = (directory.parent, ino);
        for _ in 0..1_000 {
            if above == Ino::ROOT {
                assert_eq!(inode.bucket, at, "{ino:?} is in another bucket");
                return;
            }
            let InodeBody::Directory(directory) = &self.inodes[&above].body else {
                panic!("{above:?} has names below it and is no directory");
            };
            (above, at) = (directory.parent, above);
        }
        panic!("{ino:?} is below itself");
    }

    /// Checks that a name and its inode are in the same bucket, and that the records of an inode
    /// have one.
    fn check_belongings(&self, state: &State) {
        for (ino, names) in &self.names {
            for (slot, _) in names {
                let directory = Ino(slot.partition());
                let bucket = self.inodes.get(&directory).map_or(*ino, |inode| inode.bucket);
                assert_eq!(self.inodes[ino].bucket, bucket, "{slot:?} leads to another bucket");
            }
        }
        for at in state.keys(space::XATTR) {
            let xattrs = &self.inodes[&Ino(at.partition())].xattrs;
            let apart = xattrs.iter().any(|xattr| {
                xattr.name == at.suffix() && matches!(xattr.value, XattrPlace::Apart(_))
            });
            assert!(apart, "{at:?} has no owner");
        }
        for at in state.keys(space::MAP) {
            let (ino, page) = (Ino(at.partition()), at.suffix().try_into().unwrap());
            let page = u32::from_be_bytes(page);
            let content = self.inodes.get(&ino).and_then(Inode::file).map(|file| &file.content);
            let named = matches!(content, Some(Content::Pages(pages))
                if pages.iter().any(|named| named.page == page));
            let hidden = self.hidden_pages.contains(&(ino, page));
            assert!(named != hidden, "page {page} of {ino:?} is hidden and named, or neither");
        }
        for at in state.keys(space::STAGED_INLINE) {
            let ino = Ino(u64::from_be_bytes(at.suffix().try_into().unwrap()));
            let file = self.inodes.get(&ino).and_then(Inode::file);
            assert!(file.is_some_and(|file| file.content.is_staged_inline()), "{at:?}");
        }
        for at in state.keys(space::BUCKET) {
            assert!(self.inodes.contains_key(&Ino(at.partition())), "{at:?} has no directory");
        }
    }

    /// The expected values of all counters but times.
    fn recount(&self, state: &State) -> BTreeMap<CounterKey, i64> {
        let mut counts: BTreeMap<CounterKey, i64> = BTreeMap::new();
        let mut count = |ino, kind, by| *counts.entry(key::counter(ino, kind)).or_default() += by;
        for (slot, dentry) in self.names.values().flatten() {
            let directory = Ino(slot.partition());
            count(directory, CounterKind::Entries, 1);
            match dentry.kind {
                Kind::Directory => count(directory, CounterKind::Directories, 1),
                Kind::File => count(self.inodes[&dentry.ino].bucket, CounterKind::Objects, 1),
                Kind::Symlink | Kind::Special => {}
            }
        }
        let mut live: BTreeMap<CounterKey, i64> = BTreeMap::new();
        for (ino, inode) in &self.inodes {
            let Some(file) = inode.file() else { continue };
            count(inode.bucket, CounterKind::Bytes, i64::try_from(file.size).unwrap());
            for slice in slices_of(state, *ino, file) {
                if slice.block.is_pack() {
                    let bytes = i64::from(slice.length);
                    *live.entry(key::live(slice.block)).or_default() += bytes;
                    let share = key::share(slice.block, *ino);
                    assert!(state.records.contains_key(&share), "{ino:?} has no {share:?}");
                }
            }
        }
        counts.extend(live);
        counts.retain(|_, count| *count != 0);
        counts
    }
}

/// The stored values of all counters but times. Times must be those of existing directories.
fn counters(state: &State) -> BTreeMap<CounterKey, i64> {
    let mut counters = state.counters.clone();
    counters.retain(|CounterKey(at), _| {
        let time = at.space() == space::COUNTER && at.suffix() == [CounterKind::Modified as u8];
        let directory = Ino(at.partition());
        let stands = directory == Ino::ROOT || state.records.contains_key(&key::inode(directory));
        assert!(!time || stands, "{directory:?} is gone, and its time is not");
        !time
    });
    counters
}

/// Checks that the inode's record lists the versions that bind it, and that these are marked as
/// linked if there are other names.
fn check_versions(
    state: &State,
    ino: Ino,
    inode: &Inode,
    versions: &[(Key, Version)],
    names: usize,
) {
    let at = key::superseded(ino);
    let listed = state.records.get(&at).map(|value| Superseded::decode(&at, value).unwrap());
    let listed: BTreeSet<Key> = listed
        .into_iter()
        .flat_map(|record| record.versions)
        .map(|bound| key::version(inode.bucket, &bound.object, bound.id))
        .collect();
    let bound: BTreeSet<Key> = versions.iter().map(|(at, _)| at.clone()).collect();
    assert_eq!(listed, bound, "{ino:?}: its state lists other versions");
    for (at, version) in versions {
        let VersionBody::Object { linked, .. } = version.body else { continue };
        assert!(linked || names + versions.len() == 1, "{at:?} does not know of other names");
    }
}

/// Checks that the marks in the dentries of a file are true.
fn check_names(ino: Ino, inode: &Inode, names: &[(Key, Dentry)], versions: &[(Key, Version)]) {
    let bound = names.len() + versions.len();
    if bound > 0 {
        assert_eq!(inode.links() as usize, bound, "{ino:?} counts other names");
    }
    let mut marked = versions.iter().find_map(|(_, version)| match version.body {
        VersionBody::Object { self_contained, .. } => self_contained,
        VersionBody::Marker => None,
    });
    for (slot, dentry) in names {
        assert!(!slot.suffix().ends_with(b"/"), "{slot:?} is a directory's");
        assert_eq!(dentry.kind, inode.kind(), "{slot:?}");
        assert!(dentry.linked || bound == 1, "{slot:?} does not know of others");
        marked = marked.or(dentry.self_contained);
    }
    let Some(file) = inode.file() else { return };
    if bound > 0 {
        assert_eq!(
            file.marked_in_dentry,
            marked.is_some(),
            "{ino:?} does not know what its name says"
        );
    }
    if let Some(size) = marked {
        let is_inline = matches!(file.content, Content::Inline(_));
        let apart = inode.xattrs.iter().any(|x| matches!(x.value, XattrPlace::Apart(_)));
        let alone = file.links == 1 && file.parts.is_empty() && !apart;
        assert!(is_inline && !file.content.is_staged_inline() && alone, "{ino:?} is more");
        assert_eq!(size, file.size, "{ino:?} has another size");
    }
}

/// Checks that slices are sorted, do not overlap, and end within the file.
fn check_content(state: &State, ino: Ino, file: &File) {
    let slices = slices_of(state, ino, file);
    let mut end = 0;
    for slice in &slices {
        assert!(slice.position >= end, "{ino:?}: slices overlap");
        assert!(slice.offset + slice.length <= slice.block_length, "{ino:?}: {slice:?}");
        end = slice.end();
    }
    assert!(end <= file.size, "{ino:?} has bytes behind its end");
    let staged = state.records.contains_key(&key::staged_inline(ino));
    assert_eq!(staged, file.content.is_staged_inline(), "{ino:?}: the mark of staged bytes");
}

/// The slices of a file, sorted.
pub(crate) fn slices_of(state: &State, ino: Ino, file: &File) -> Vec<Slice> {
    match &file.content {
        Content::Inline(_) => Vec::new(),
        Content::Slices(slices) => slices.clone(),
        Content::Pages(pages) => {
            let page = |page: &record::PageRef| {
                let at = key::map_page(ino, page.page);
                let slices = MapPage::decode(&at, &state.records[&at]).expect("a page").0;
                assert_eq!(slices.first().map(|slice| slice.position), Some(page.start), "{at:?}");
                slices
            };
            pages.iter().flat_map(page).collect()
        }
    }
}
