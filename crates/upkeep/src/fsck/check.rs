//! Compares the summaries of all records and blocks.
//!
//! For example, a name whose inode does not exist becomes a `Dangling` finding. Files that are
//! being reaped are excused where the reaper removes their records in several steps.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use record::key::CounterKind;
use record::{
    BlockId, Dentry, Ino, Kind, Orphan, PageRef, Slice, UploadState, VersionBody, VersionStamp, key,
};
use store::Key;

use super::collect::{InodeSummary, Inventory, PartSummary};
use super::finding::Finding;

/// The numbers of records, files and blocks that a check has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records of all spaces.
    pub records: u64,
    /// Names of files, links and special files, that is, of everything but directories.
    pub directories: u64,
    /// Names of everything but directories.
    pub files: u64,
    /// Orphans: records of dead data, which await the reaper.
    pub orphans: u64,
    /// Total size of files in bytes, including those that await the reaper.
    pub bytes: u64,
    /// Blocks in the block store.
    pub blocks: u64,
    /// The total sealed size (content, header and checksums) of the blocks, in bytes.
    pub block_bytes: u64,
}

/// Returns all findings, and the numbers of records, files and blocks.
pub(super) fn check(mut all: Inventory) -> (BTreeSet<Finding>, Counts) {
    let tree = Tree::new(&all);
    // Uploads and pages come before blocks: they add the references of parts and of unlisted pages.
    names(&mut all, &tree);
    buckets(&mut all, &tree);
    uploads(&mut all);
    pages(&mut all);
    xattrs(&mut all);
    blocks(&mut all);
    shares(&mut all);
    packs(&mut all);
    counters(&mut all, &tree);
    sessions(&mut all);
    let counts = Counts {
        records: all.records,
        directories: tree.names_in.len() as u64,
        files: tree.files,
        orphans: all.orphans.len() as u64,
        bytes: all.inodes.values().map(|inode| inode.size).sum::<u64>()
            + all.detached.values().sum::<u64>(),
        blocks: all.blocks.len() as u64,
        block_bytes: all.blocks.values().sum(),
    };
    (all.findings, counts)
}

/// The tree of names.
struct Tree {
    /// The number of names of each inode.
    names_of: HashMap<Ino, u64>,
    /// For each existing directory, the number of its names and how many of them are directories.
    names_in: BTreeMap<Ino, (i64, i64)>,
    /// For each directory, the directory that contains its name.
    parent: HashMap<Ino, Ino>,
    /// The number of names of files below each bucket.
    below: BTreeMap<Ino, i64>,
    /// Names of everything but directories.
    files: u64,
}

impl Tree {
    fn new(all: &Inventory) -> Tree {
        let mut tree = Tree {
            names_of: HashMap::new(),
            names_in: BTreeMap::new(),
            parent: HashMap::new(),
            below: BTreeMap::new(),
            files: 0,
        };
        for (ino, inode) in &all.inodes {
            if inode.kind == Kind::Directory {
                tree.names_in.insert(*ino, (0, 0));
            }
        }
        for name in &all.names {
            let directory = Ino(name.key.partition());
            *tree.names_of.entry(name.dentry.ino).or_default() += 1;
            if let Some((entries, directories)) = tree.names_in.get_mut(&directory) {
                *entries += 1;
                *directories += i64::from(name.dentry.kind == Kind::Directory);
            }
            if name.dentry.kind == Kind::Directory {
                tree.parent.insert(name.dentry.ino, directory);
            }
            if directory == Ino::ROOT {
                tree.below.insert(name.dentry.ino, 0);
            }
        }
        // Noncurrent versions count as names, because links count them.
        for ino in all.versions.iter().filter_map(|(_, version)| version.ino()) {
            *tree.names_of.entry(ino).or_default() += 1;
        }
        // This needs all parents, so it is a second pass over the names.
        for name in all.names.iter().filter(|name| name.dentry.kind != Kind::Directory) {
            tree.files += 1;
            let Some(bucket) = tree.bucket(Ino(name.key.partition())) else { continue };
            if name.dentry.kind == Kind::File {
                *tree.below.entry(bucket).or_default() += 1;
            }
        }
        tree
    }

    /// Returns the bucket that contains a directory; `None` if the directory is in a cycle or not
    /// connected to the root.
    fn bucket(&self, mut directory: Ino) -> Option<Ino> {
        // The number of steps is bounded, because damaged parents may form a cycle.
        for _ in 0..=self.parent.len() {
            match self.parent.get(&directory) {
                Some(parent) if *parent == Ino::ROOT => return Some(directory),
                Some(parent) => directory = *parent,
                None => return None,
            }
        }
        None
    }
}

fn names(all: &mut Inventory, tree: &Tree) {
    let findings = &mut all.findings;
    for name in &all.names {
        let Dentry { ino, kind, self_contained: recorded, linked, .. } = name.dentry;
        let bound = all.inodes.get(&ino);
        let directory = all.inodes.get(&Ino(name.key.partition()));
        let holds = directory.is_some_and(|directory| directory.kind == Kind::Directory);
        if !holds || bound.is_none_or(|inode| inode.kind != kind) {
            findings.insert(Finding::Dangling(name.key.clone(), ino));
        }
        if !linked && tree.names_of.get(&ino).is_some_and(|names| *names > 1) {
            findings.insert(Finding::Unlinked(name.key.clone(), ino));
        }
        let Some(bound) = bound else { continue };
        if recorded.is_some() && bound.self_contained != recorded {
            findings.insert(Finding::NotSelfContained(name.key.clone(), ino));
        }
        if recorded.is_some() != bound.marked_in_dentry {
            findings.insert(Finding::SelfContainedMismatch(name.key.clone(), ino));
        }
        let place = if kind == Kind::Directory { ino } else { Ino(name.key.partition()) };
        if let Some(found) = tree.bucket(place).filter(|found| *found != bound.bucket) {
            findings.insert(Finding::ForeignBucket { ino, recorded: bound.bucket, found });
        }
        if kind == Kind::Directory && name.key.suffix() != [&bound.name[..], b"/"].concat() {
            findings.insert(Finding::Parent(ino));
        }
    }
    versions(all, tree);
    inodes(all, tree);
}

/// Checks the noncurrent (earlier) versions of objects: each is a name of a file and belongs to an
/// existing bucket.
fn versions(all: &mut Inventory, tree: &Tree) {
    let findings = &mut all.findings;
    let recorded: HashSet<&Key> = all.null_versions.values().collect();
    for (at, version) in &all.versions {
        let bucket = Ino(at.partition());
        let is_named = recorded.contains(at);
        if !tree.below.contains_key(&bucket) || version.is_null != is_named {
            findings.insert(Finding::StrayVersion(at.clone()));
        }
        let VersionBody::Object { ino, self_contained: recorded, linked } = version.body else {
            continue;
        };
        let bound = all.inodes.get(&ino).filter(|inode| inode.kind == Kind::File);
        let Some(bound) = bound else {
            findings.insert(Finding::Dangling(at.clone(), ino));
            continue;
        };
        if !linked && tree.names_of.get(&ino).is_some_and(|names| *names > 1) {
            findings.insert(Finding::Unlinked(at.clone(), ino));
        }
        if recorded.is_some() && bound.self_contained != recorded {
            findings.insert(Finding::NotSelfContained(at.clone(), ino));
        }
        if bound.bucket != bucket {
            findings.insert(Finding::ForeignBucket { ino, recorded: bound.bucket, found: bucket });
        }
    }
    let mut bound: BTreeMap<Ino, BTreeSet<(Vec<u8>, VersionStamp)>> = BTreeMap::new();
    for (at, version) in &all.versions {
        if let (Some(ino), Some((object, id))) = (version.ino(), key::version_parts(at)) {
            bound.entry(ino).or_default().insert((object.to_vec(), id));
        }
    }
    let inos: BTreeSet<Ino> = bound.keys().chain(all.superseded.keys()).copied().collect();
    let differ = inos.into_iter().filter(|ino| bound.get(ino) != all.superseded.get(ino));
    findings.extend(differ.map(Finding::VersionState));
    let nulls = all.versions.iter().filter(|(_, version)| version.is_null);
    let nulls: HashSet<&Key> = nulls.map(|(at, _)| at).collect();
    let stray = all.null_versions.iter().filter(|(_, at)| !nulls.contains(at));
    findings.extend(stray.map(|(says, _)| Finding::StrayVersion(says.clone())));
}

fn inodes(all: &mut Inventory, tree: &Tree) {
    let findings = &mut all.findings;
    for (ino, inode) in all.inodes.iter().filter(|(ino, _)| **ino != Ino::ROOT) {
        let found = tree.names_of.get(ino).copied().unwrap_or(0);
        if found == 0 {
            if !matches!(all.orphans.get(ino), Some(Orphan::File { .. })) {
                findings.insert(Finding::Nameless(*ino));
            }
        } else if found != inode.links {
            findings.insert(Finding::Links { ino: *ino, recorded: inode.links, found });
        }
        if inode.kind == Kind::Directory && found > 0 {
            if tree.parent.get(ino) != Some(&inode.parent) {
                findings.insert(Finding::Parent(*ino));
            }
            if tree.bucket(*ino).is_none() {
                findings.insert(Finding::Unreachable(*ino));
            }
        }
    }
    // An orphaned file needs no mark, because the reaper removes it.
    let unmarked = |(ino, inode): &(&Ino, &InodeSummary)| {
        inode.is_staged_inline
            && !all.staged_inline.contains(*ino)
            && !all.orphans.contains_key(*ino)
    };
    let unmarked = all.inodes.iter().filter(unmarked).map(|(ino, _)| Finding::Unmarked(*ino));
    findings.extend(unmarked);
    if !all.inodes.contains_key(&Ino::ROOT) {
        findings.insert(Finding::Nameless(Ino::ROOT));
    }
    for (ino, orphan) in &all.orphans {
        if matches!(orphan, Orphan::File { .. }) && !all.inodes.contains_key(ino) {
            findings.insert(Finding::StrayOrphan(*ino));
        }
    }
}

fn buckets(all: &mut Inventory, tree: &Tree) {
    let named: BTreeSet<Ino> = tree.below.keys().copied().collect();
    for ino in named.symmetric_difference(&all.buckets) {
        all.findings.insert(Finding::Bucket(*ino));
    }
    let of_none = |key: &&Key| !all.buckets.contains(&Ino(key.partition()));
    let stray = all.bucket_configs.iter().filter(of_none).cloned();
    all.findings.extend(stray.map(Finding::StrayBucketConfig));
}

fn uploads(all: &mut Inventory) {
    let mut used: HashSet<Ino> = HashSet::new();
    let mut known: HashSet<Ino> = HashSet::new();
    for (key, ino, state) in &all.uploads {
        let bucket = Ino(key.partition());
        let going = all.orphans.get(&bucket) == Some(&Orphan::Bucket);
        let ended = *state != UploadState::Open;
        let orphan = matches!(all.orphans.get(ino), Some(Orphan::Upload { .. }));
        let answers = matches!(state, UploadState::Done { .. })
            && all.expiries.get(ino).is_some_and(|(_, upload)| upload == key);
        if (!all.inodes.contains_key(&bucket) && !going) || ended != (orphan || answers) {
            all.findings.insert(Finding::StrayUpload(key.clone()));
        }
        known.insert(*ino);
        if let UploadState::Done { used: parts, .. } = state {
            used.extend(parts);
        }
    }
    for (ino, orphan) in &all.orphans {
        if matches!(orphan, Orphan::Upload { .. }) && !known.contains(ino) {
            all.findings.insert(Finding::StrayOrphan(*ino));
        }
    }
    for (ino, (at, _)) in &all.expiries {
        if !known.contains(ino) {
            all.findings.insert(Finding::StrayExpiry(at.clone()));
        }
    }
    let ended = |ino: &Ino| matches!(all.orphans.get(ino), Some(Orphan::Upload { .. }));
    let mut living: Vec<PartSummary> = Vec::new();
    for part in std::mem::take(&mut all.parts) {
        let upload = Ino(part.key.partition());
        let answers = all.expiries.contains_key(&upload) && !ended(&upload);
        if !known.contains(&upload) || answers {
            all.findings.insert(Finding::StrayPart(part.key));
        } else if used.contains(&part.ino) && !part.shared {
            // The file that took over the part owns its blocks. The reaper releases the part's
            // packs step by step.
            all.staged.insert(part.ino);
        } else if ended(&upload) {
            // The reaper removes the part's blocks in several steps.
            all.releasing.extend(part.slices.iter().map(|slice| slice.block));
            all.staged.insert(part.ino);
        } else {
            living.push(part);
        }
    }
    for part in living {
        all.add_references(part.ino, &part.slices);
    }
}

fn pages(all: &mut Inventory) {
    let mut stray = Vec::new();
    let mut unnamed: Vec<(Ino, Vec<Slice>)> = Vec::new();
    for (ino, pages) in &mut all.pages {
        let excused = all.detached.contains_key(ino) || all.staged.contains(ino);
        for page in pages.iter_mut().filter(|page| !all.listed_pages.contains(&(*ino, page.page))) {
            let slices = std::mem::take(&mut page.unnamed);
            if all.replaced_pages.contains(&(*ino, page.page)) {
                // The blocks that the file no longer references are listed by the same orphan.
                all.releasing.extend(slices.iter().map(|slice| slice.block));
                continue;
            }
            if !excused {
                stray.push(Finding::StrayPage(page.key.clone()));
            }
            unnamed.push((*ino, slices));
        }
    }
    for (ino, slices) in unnamed {
        all.add_slices(ino, &slices);
    }
    for key in &all.sum_pages {
        let ino = Ino(key.partition());
        let excused = all.detached.contains_key(&ino) || all.staged.contains(&ino);
        if !excused && !all.inodes.get(&ino).is_some_and(|inode| inode.parts) {
            stray.push(Finding::StrayPage(key.clone()));
        }
    }
    for (ino, inode) in &all.inodes {
        let found = all.pages.get(ino).into_iter().flatten();
        let found: HashMap<u32, (Option<(u64, u64)>, u64)> =
            found.map(|page| (page.page, (page.span, page.bytes))).collect();
        let (mut behind, mut in_order) = (0, true);
        for PageRef { start, page, bytes } in &inode.pages {
            match found.get(page) {
                None => {
                    stray.push(Finding::MissingPage(*ino, *page));
                }
                Some((Some((first, end)), held)) => {
                    in_order &= behind <= *start && start <= first && held == bytes;
                    behind = *end;
                }
                Some((None, held)) => in_order &= held == bytes,
            }
        }
        if !in_order {
            stray.push(Finding::Disorder(*ino));
        }
    }
    all.findings.extend(stray);
}

fn xattrs(all: &mut Inventory) {
    let mut known: HashSet<&Key> = HashSet::new();
    for (key, length) in all.inodes.values().flat_map(|inode| &inode.xattrs) {
        if all.xattrs.get(key).is_none_or(|found| *found as u64 != u64::from(*length)) {
            all.findings.insert(Finding::MissingXattr(key.clone()));
        }
        known.insert(key);
    }
    for key in all.xattrs.keys() {
        // A detached inode loses its attributes in several steps.
        if !known.contains(key) && !all.detached.contains_key(&Ino(key.partition())) {
            all.findings.insert(Finding::StrayXattr(key.clone()));
        }
    }
}

fn blocks(all: &mut Inventory) {
    let findings = &mut all.findings;
    for (block, named) in &all.named {
        // A detached file loses its blocks before its last page.
        let mut owners = named.owners.iter();
        let owner = owners.find(|owner| !all.detached.contains_key(owner));
        match (all.blocks.get(block), owner) {
            (Some(found), _) => {
                for recorded in named.sizes.iter().filter(|size| *size != found) {
                    let (block, recorded, found) = (*block, *recorded, *found);
                    findings.insert(Finding::BlockSize { block, recorded, found });
                }
            }
            (None, Some(owner)) => {
                findings.insert(Finding::MissingBlock(*block, *owner));
            }
            (None, None) => {}
        }
    }
    for block in all.blocks.keys() {
        let kept = all.named.contains_key(block)
            || all.pending.contains(block)
            || all.releasing.contains(block)
            || all.sessions.contains(&block.session());
        if !kept {
            findings.insert(Finding::Leaked(*block));
        }
    }
}

fn shares(all: &mut Inventory) {
    let mut unshared = Vec::new();
    for (block, named) in &all.named {
        let alive = |owner: &&Ino| !all.detached.contains_key(owner) && !all.staged.contains(owner);
        let owners: Vec<&Ino> = named.owners.iter().filter(alive).collect();
        if owners.len() > 1 || block.is_pack() {
            let unknown =
                owners.into_iter().filter(|owner| !all.shares.contains(&(*block, **owner)));
            unshared.extend(unknown.map(|owner| Finding::Unshared(*block, *owner)));
        }
    }
    let findings = &mut all.findings;
    findings.extend(unshared);
    for (block, owner) in &all.shares {
        let names = all.named.get(block).is_some_and(|named| named.owners.contains(owner));
        let excused = all.detached.contains_key(owner)
            || all.staged.contains(owner)
            || all.hidden.contains(&(*block, *owner));
        if !names && !excused {
            findings.insert(Finding::StrayShare(*block, *owner));
        }
    }
}

/// Checks the counters of packs (blocks of several files): each must be the sum of the bytes that
/// owners with a share record reference. A share and its bytes are added and removed by one plan.
fn packs(all: &mut Inventory) {
    let mut found: BTreeMap<BlockId, i64> = BTreeMap::new();
    for (pack, owner) in all.shares.iter().filter(|(block, _)| block.is_pack()) {
        let named = all.in_packs.get(&(*pack, *owner)).copied().unwrap_or(0);
        let bytes = found.entry(*pack).or_default();
        *bytes = bytes.saturating_add(named);
    }
    for pack in all.live.keys() {
        found.entry(*pack).or_insert(0);
    }
    for (pack, found) in found.into_iter().filter(|(pack, _)| !all.changing_packs.contains(pack)) {
        let recorded = all.live.get(&pack).copied().unwrap_or(0);
        if recorded != found {
            all.findings.insert(Finding::Live { pack, recorded, found });
        }
    }
}

fn counters(all: &mut Inventory, tree: &Tree) {
    let mut bytes: BTreeMap<Ino, i64> = tree.below.keys().map(|bucket| (*bucket, 0)).collect();
    // Each file counts once, however many names it has, and files that await the reaper count, too.
    let files = all.inodes.values().filter(|inode| inode.kind == Kind::File);
    let files = files.map(|inode| (inode.bucket, inode.size));
    let detached = all.orphans.iter().filter_map(|(ino, orphan)| match orphan {
        Orphan::Detached { bucket, .. } => Some((*bucket, *all.detached.get(ino)?)),
        Orphan::File { .. } | Orphan::Bucket | Orphan::Upload { .. } | Orphan::Hidden { .. } => {
            None
        }
    });
    for (bucket, size) in files.chain(detached) {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let bytes = bytes.entry(bucket).or_default();
        *bytes = bytes.saturating_add(size);
    }
    let mut expected: BTreeMap<(Ino, u8), i64> = BTreeMap::new();
    for (ino, (entries, directories)) in &tree.names_in {
        expected.insert((*ino, CounterKind::Entries as u8), *entries);
        expected.insert((*ino, CounterKind::Directories as u8), *directories);
    }
    for (bucket, objects) in &tree.below {
        expected.insert((*bucket, CounterKind::Objects as u8), *objects);
    }
    for (bucket, bytes) in bytes {
        expected.insert((bucket, CounterKind::Bytes as u8), bytes);
    }
    let recorded =
        all.counters.iter().filter(|((_, count), _)| *count != CounterKind::Modified as u8);
    for (at, _) in recorded {
        expected.entry(*at).or_insert(0);
    }
    // If names were added or removed while they were read, the recount proves nothing.
    let changing: HashSet<Ino> = all.changing.iter().filter_map(|ino| tree.bucket(*ino)).collect();
    for ((ino, count), found) in expected {
        let of_bucket =
            ![CounterKind::Entries as u8, CounterKind::Directories as u8].contains(&count);
        if all.changing.contains(&ino) || of_bucket && changing.contains(&ino) {
            continue;
        }
        let recorded = all.counters.get(&(ino, count)).copied().unwrap_or(0);
        if recorded != found {
            let what = counter_name(count);
            all.findings.insert(Finding::Counter { ino, what, recorded, found });
        }
    }
}

fn counter_name(count: u8) -> &'static str {
    match count {
        c if c == CounterKind::Entries as u8 => "names",
        c if c == CounterKind::Objects as u8 => "objects",
        c if c == CounterKind::Bytes as u8 => "bytes",
        c if c == CounterKind::Directories as u8 => "directories",
        _ => "unknown counter",
    }
}

fn sessions(all: &mut Inventory) {
    for (key, nonce) in &all.of_sessions {
        if !all.sessions.contains(nonce) && !all.ended.contains(nonce) {
            all.findings.insert(Finding::StraySession(key.clone(), *nonce));
        }
    }
}
