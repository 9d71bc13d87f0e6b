//! Reads all records and blocks once, into summaries.
//!
//! The order matters: for example, blocks are listed before records are read, so that a block that
//! is put meanwhile is not reported as missing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use block::{BlockStore, sealed};
use bytes::Bytes;
use namespace::self_contained;
use record::key::{self, space};
use record::{
    Account, BlockId, Bucket, BucketConfig, BucketConfigKind, Content, DecodeError, Dentry, Expiry,
    File, FileLocks, Group, HeartbeatRecord, HiddenBlock, Hold, Ino, Inode, InodeBody, JobRecord,
    Kind, LastUse, LockKeeping, MapPage, Mark, Nonce, NullVersion, Orphan, PageRef, Part, PartSums,
    PolicyRecord, RewrapRecord, RingKeyRecord, RingNumber, RingState, Sequence, SessionRecord,
    Slice, SlotRecord, Superseded, SweptRecord, Upload, UploadState, User, Version, VersionStamp,
    VolumeRecord, XattrPlace, XattrValue,
};
use session::scan::{block_of, blocks_of, ino_of, nonce_of, walk};
use session::{VolumeError, session_in_key};
use store::{CounterKey, Key, MetaStore, Space, Value};

use super::finding::Finding;
use super::progress::Progress;

/// Counters of one page of a walk.
const WALK_COUNTERS: u32 = 1_000;

/// The summary of an inode's record.
#[derive(Debug)]
pub(super) struct InodeSummary {
    pub(super) kind: Kind,
    /// The bucket in the record.
    pub(super) bucket: Ino,
    /// For a directory: the parent in the record.
    pub(super) parent: Ino,
    /// For a directory: its name in the record.
    pub(super) name: Vec<u8>,
    pub(super) links: u64,
    pub(super) size: u64,
    /// The pages of its content map that the record lists.
    pub(super) pages: Vec<PageRef>,
    /// Its long extended attributes, and their lengths.
    pub(super) xattrs: Vec<(Key, u32)>,
    /// True if it has checksums of parts.
    pub(super) parts: bool,
    /// True if its bytes are staged inline.
    pub(super) is_staged_inline: bool,
    /// The file's size in bytes, if its inode's record is all its data; `None` otherwise.
    pub(super) self_contained: Option<u64>,
    /// True if the record says that its name contains this size.
    pub(super) marked_in_dentry: bool,
}

/// A name in a directory, and the inode to which it is bound.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) key: Key,
    pub(super) dentry: Dentry,
}

/// The references of all records to one block.
#[derive(Debug, Default)]
pub(super) struct BlockReferences {
    /// The sealed sizes in bytes: one, unless records disagree.
    pub(super) sizes: BTreeSet<u64>,
    pub(super) owners: BTreeSet<Ino>,
}

/// A part of an upload.
#[derive(Debug)]
pub(super) struct PartSummary {
    pub(super) key: Key,
    pub(super) ino: Ino,
    pub(super) shared: bool,
    pub(super) slices: Vec<Slice>,
}

/// The summary of a page (part) of a content map.
#[derive(Debug)]
pub(super) struct PageSummary {
    pub(super) page: u32,
    pub(super) key: Key,
    /// The start of its first slice and the end of its last one in the file; `None` without slices.
    pub(super) span: Option<(u64, u64)>,
    /// The total length of its slices.
    pub(super) bytes: u64,
    /// Its slices, if the inode does not list the page.
    pub(super) unnamed: Vec<Slice>,
}

/// The summary of a volume's records and blocks, as one pass of a check has read them.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(super) findings: BTreeSet<Finding>,
    pub(super) records: u64,
    pub(super) names: Vec<Name>,
    /// Noncurrent versions of objects. Each is a name of its inode, too.
    pub(super) versions: Vec<(Key, Version)>,
    /// The key of each null version (S3's version without an id of its own), by the key of the
    /// record that points to it.
    pub(super) null_versions: BTreeMap<Key, Key>,
    /// The versions of objects that bind each inode, as the inode's state record lists them.
    pub(super) superseded: BTreeMap<Ino, BTreeSet<(Vec<u8>, VersionStamp)>>,
    pub(super) inodes: BTreeMap<Ino, InodeSummary>,
    pub(super) named: HashMap<BlockId, BlockReferences>,
    /// The pages of content maps that exist, by file.
    pub(super) pages: HashMap<Ino, Vec<PageSummary>>,
    /// The pages that inodes list.
    pub(super) listed_pages: HashSet<(Ino, u32)>,
    pub(super) sum_pages: Vec<Key>,
    /// The long extended attributes that exist, and their lengths.
    pub(super) xattrs: BTreeMap<Key, usize>,
    pub(super) buckets: BTreeSet<Ino>,
    pub(super) bucket_configs: Vec<Key>,
    pub(super) uploads: Vec<(Key, Ino, UploadState)>,
    pub(super) parts: Vec<PartSummary>,
    pub(super) orphans: BTreeMap<Ino, Orphan>,
    /// Completed uploads that only wait to answer: the key of the expiry record, and the key of the
    /// upload.
    pub(super) expiries: BTreeMap<Ino, (Key, Key)>,
    /// The sizes in bytes of detached files: dead files whose inodes were moved to their orphans.
    pub(super) detached: HashMap<Ino, u64>,
    pub(super) pending: HashSet<BlockId>,
    /// Blocks that are referenced by records which the reaper is removing.
    pub(super) releasing: HashSet<BlockId>,
    pub(super) shares: BTreeSet<(BlockId, Ino)>,
    pub(super) staged: HashSet<Ino>,
    /// Files that have a mark which says that their body waits in their record to be moved into a
    /// block.
    pub(super) staged_inline: HashSet<Ino>,
    pub(super) sessions: HashSet<Nonce>,
    pub(super) ended: HashSet<Nonce>,
    /// Records that belong to a session, and the session.
    pub(super) of_sessions: Vec<(Key, Nonce)>,
    pub(super) counters: HashMap<(Ino, u8), i64>,
    /// Directories and buckets whose counters changed while names were read.
    pub(super) changing: HashSet<Ino>,
    /// The bytes of each pack that each owner references, including owners that are being removed.
    pub(super) in_packs: HashMap<(BlockId, Ino), i64>,
    /// Blocks that writes have hidden, and the files that have not released them.
    pub(super) hidden: HashSet<(BlockId, Ino)>,
    /// Pages of content maps that were replaced.
    pub(super) replaced_pages: HashSet<(Ino, u32)>,
    /// The live bytes of each pack, by its counter.
    pub(super) live: HashMap<BlockId, i64>,
    /// Packs whose counters changed while owners were read.
    pub(super) changing_packs: HashSet<BlockId>,
    pub(super) blocks: HashMap<BlockId, u64>,
}

impl Inventory {
    /// Reads all records and blocks of a volume once.
    pub(super) async fn read(
        store: &dyn MetaStore,
        blocks: &dyn BlockStore,
        progress: &dyn Progress,
    ) -> Result<Inventory, VolumeError> {
        let mut all = Inventory::default();
        // Counters are read before and after the records. One that changed in between is not
        // compared.
        let before = all.read_counters(store, progress).await?;
        let lived = all.read_live(store, progress).await?;
        // Blocks are listed before references, because a block is durable before a record
        // references it. So a referenced block that was not listed is missing, or was put in
        // between. The records of live sessions are read after both.
        for session in blocks.sessions().await? {
            let listed = blocks_of(blocks, session).await?;
            progress.read("blocks", listed.get().len() as u64);
            all.blocks.extend(listed.get().iter().copied());
        }
        for space in space::ALL {
            let found = walk(store, space, |key, value| {
                all.add(&key, &value);
                Ok(())
            });
            let found = *found.await?.get();
            progress.read(space_name(space), found);
            all.records += found;
        }
        all.live = all.read_live(store, progress).await?;
        let changed = |pack: &&BlockId| lived.get(pack) != all.live.get(pack);
        all.changing_packs = lived.keys().chain(all.live.keys()).filter(changed).copied().collect();
        all.counters = all.read_counters(store, progress).await?;
        let changed = |at: &&(Ino, u8)| before.get(at) != all.counters.get(at);
        all.changing =
            before.keys().chain(all.counters.keys()).filter(changed).map(|(ino, _)| *ino).collect();
        Ok(all)
    }

    async fn read_counters(
        &mut self,
        store: &dyn MetaStore,
        progress: &dyn Progress,
    ) -> Result<HashMap<(Ino, u8), i64>, VolumeError> {
        let mut counters = HashMap::new();
        walk_counters(store, space::COUNTER, progress, |key, value| match *key.suffix() {
            [count] => {
                counters.insert((Ino(key.partition()), count), value);
            }
            _ => {
                self.findings.insert(Finding::Undecodable(key, "not the key of a counter".into()));
            }
        })
        .await?;
        Ok(counters)
    }

    /// Reads the counters of the live bytes of packs.
    async fn read_live(
        &mut self,
        store: &dyn MetaStore,
        progress: &dyn Progress,
    ) -> Result<HashMap<BlockId, i64>, VolumeError> {
        let mut counters = HashMap::new();
        walk_counters(store, space::LIVE, progress, |key, value| {
            let pack = key.suffix().try_into().map(BlockId);
            match pack {
                Ok(pack) if key::live(pack).0 == key && pack.is_pack() => {
                    counters.insert(pack, value);
                }
                _ => {
                    let why = "not the key of a pack's counter".into();
                    self.findings.insert(Finding::Undecodable(key, why));
                }
            }
        })
        .await?;
        Ok(counters)
    }

    /// Adds a record to the summary. A record that does not decode is a finding.
    fn add(&mut self, key: &Key, value: &Value) {
        if let Err(why) = self.try_add(key, value) {
            self.findings.insert(Finding::Undecodable(key.clone(), why));
        }
    }

    fn try_add(&mut self, key: &Key, value: &Value) -> Result<(), String> {
        let failed = |error: DecodeError| error.to_string();
        let shape = |error: VolumeError| error.to_string();
        match key.space() {
            space::DENTRY => {
                let dentry = Dentry::decode(key, value).map_err(failed)?;
                self.names.push(Name { key: key.clone(), dentry });
            }
            space::VERSION => {
                let version = Version::decode(key, value).map_err(failed)?;
                key::version_parts(key).ok_or("not the key of a version")?;
                self.versions.push((key.clone(), version));
            }
            space::NULL_VERSION => {
                let NullVersion(id) = NullVersion::decode(key, value).map_err(failed)?;
                let at = key::version(Ino(key.partition()), key.suffix(), id);
                self.null_versions.insert(key.clone(), at);
            }
            space::SUPERSEDED => {
                let record = Superseded::decode(key, value).map_err(failed)?;
                let listed = record.versions.into_iter().map(|bound| (bound.object, bound.id));
                self.superseded.insert(Ino(key.partition()), listed.collect());
            }
            space::INODE => {
                let inode = Inode::decode(key, value).map_err(failed)?;
                self.add_inode(Ino(key.partition()), &inode);
            }
            space::MAP => {
                let slices = MapPage::decode(key, value).map_err(failed)?.0;
                let ino = Ino(key.partition());
                let page: [u8; 4] = key.suffix().try_into().map_err(|_| "not the key of a page")?;
                self.add_page(ino, u32::from_be_bytes(page), key, slices);
            }
            space::XATTR => {
                let XattrValue(bytes) = XattrValue::decode(key, value).map_err(failed)?;
                self.xattrs.insert(key.clone(), bytes.len());
            }
            space::PART_SUMS => {
                PartSums::decode(key, value).map_err(failed)?;
                self.sum_pages.push(key.clone());
            }
            space::ORPHAN => {
                let ino = ino_of(key).map_err(shape)?;
                let orphan = Orphan::decode(key, value).map_err(failed)?;
                self.add_orphan(ino, orphan).map_err(failed)?;
            }
            space::PART => {
                let part = Part::decode(key, value).map_err(failed)?;
                let Part { owner: ino, shared, slices, .. } = part;
                self.count_in_packs(ino, &slices);
                self.parts.push(PartSummary { key: key.clone(), ino, shared, slices });
            }
            space::UPLOAD => {
                let upload = Upload::decode(key, value).map_err(failed)?;
                self.uploads.push((key.clone(), upload.ino, upload.state));
            }
            _ => self.add_other(key, value)?,
        }
        Ok(())
    }

    fn add_other(&mut self, key: &Key, value: &Value) -> Result<(), String> {
        let failed = |error: DecodeError| error.to_string();
        let named = |error: VolumeError| error.to_string();
        match key.space() {
            space::BUCKET => {
                Bucket::decode(key, value).map_err(failed)?;
                self.buckets.insert(Ino(key.partition()));
            }
            space::BUCKET_CONFIG => {
                let config = BucketConfig::decode(key, value).map_err(failed)?;
                let kind = BucketConfigKind::of(key).map_err(failed)?;
                kind.check(&config).map_err(failed)?;
                self.bucket_configs.push(key.clone());
            }
            space::PENDING => {
                Mark::decode(key, value).map_err(failed)?;
                self.pending.insert(block_of(key).map_err(named)?);
            }
            space::SHARE => {
                Mark::decode(key, value).map_err(failed)?;
                let share = (block_of(key).map_err(named)?, ino_of(key).map_err(named)?);
                self.shares.insert(share);
            }
            space::STAGED => {
                Mark::decode(key, value).map_err(failed)?;
                self.staged.insert(ino_of(key).map_err(named)?);
                self.of_sessions.push((key.clone(), nonce_of(key).map_err(named)?));
            }
            space::STAGED_INLINE => {
                Mark::decode(key, value).map_err(failed)?;
                self.staged_inline.insert(ino_of(key).map_err(named)?);
            }
            space::EXPIRY => {
                let Expiry { upload } = Expiry::decode(key, value).map_err(failed)?;
                if upload.len() < Key::PREFIX_BYTES {
                    return Err("the expiry names no upload".to_owned());
                }
                let of = (key.clone(), Key::from_bytes(upload));
                self.expiries.insert(ino_of(key).map_err(named)?, of);
            }
            space::VOLUME => {
                VolumeRecord::decode(key, value).map_err(failed)?;
            }
            space::LEASE | space::EPOCH => {
                Sequence::decode(key, value).map_err(failed)?;
            }
            space::ACCOUNT => {
                Account::decode(key, value).map_err(failed)?;
            }
            space::USER if key.partition() == key::GROUPS => {
                Group::decode(key, value).map_err(failed)?;
            }
            space::LAST_USE => {
                LastUse::decode(key, value).map_err(failed)?;
            }
            space::USER => {
                User::decode(key, value).map_err(failed)?;
            }
            space::RING => check_ring(key, value)?,
            space::JOB => {
                JobRecord::decode(key, value).map_err(failed)?;
            }
            space::POLICY => {
                PolicyRecord::decode(key, value).map_err(failed)?;
            }
            _ => self.add_session(key, value)?,
        }
        Ok(())
    }

    /// Adds the records that sessions write about themselves.
    fn add_session(&mut self, key: &Key, value: &Value) -> Result<(), String> {
        let failed = |error: DecodeError| error.to_string();
        let named = |error: VolumeError| error.to_string();
        let session = || session_in_key(key).ok_or("not the key of a session");
        match key.space() {
            space::HOLD => {
                Hold::decode(key, value).map_err(failed)?;
                nonce_of(key).map_err(named)?;
            }
            // A lock of an ended session has no effect, and a lock of a deleted file is released
            // when the file is closed.
            space::LOCKS => {
                FileLocks::decode(key, value).map_err(failed)?;
            }
            space::LOCK_KEEPING => {
                LockKeeping::decode(key, value).map_err(failed)?;
            }
            space::SESSION => {
                SessionRecord::decode(key, value).map_err(failed)?;
                self.sessions.insert(session()?);
            }
            space::HEARTBEAT => {
                HeartbeatRecord::decode(key, value).map_err(failed)?;
                self.of_sessions.push((key.clone(), session()?));
            }
            space::FENCED => {
                Mark::decode(key, value).map_err(failed)?;
                self.ended.insert(session()?);
            }
            space::SWEPT => {
                SweptRecord::decode(key, value).map_err(failed)?;
                session()?;
            }
            space::IDEMPOTENCY_SLOT => {
                SlotRecord::decode(key, value).map_err(failed)?;
                self.of_sessions.push((key.clone(), nonce_of(key).map_err(named)?));
            }
            _ => return Err("the record space is unknown to this release".to_owned()),
        }
        Ok(())
    }

    fn add_inode(&mut self, ino: Ino, inode: &Inode) {
        let apart = inode.xattrs.iter().filter_map(|xattr| match xattr.value {
            XattrPlace::Apart(length) => Some((key::xattr(ino, &xattr.name), length)),
            XattrPlace::Inline(_) => None,
        });
        let mut summary = InodeSummary {
            kind: inode.kind(),
            bucket: inode.bucket,
            parent: ino,
            name: Vec::new(),
            links: u64::from(inode.links()),
            size: 0,
            pages: Vec::new(),
            xattrs: apart.collect(),
            parts: false,
            is_staged_inline: false,
            self_contained: self_contained(inode),
            marked_in_dentry: false,
        };
        match &inode.body {
            InodeBody::Directory(directory) => {
                (summary.parent, summary.name) = (directory.parent, directory.name.clone());
            }
            InodeBody::Symlink(_) | InodeBody::Special(_) => {}
            InodeBody::File(file) => self.add_file(ino, file, &mut summary),
        }
        self.inodes.insert(ino, summary);
    }

    fn add_file(&mut self, ino: Ino, file: &File, summary: &mut InodeSummary) {
        (summary.size, summary.marked_in_dentry) = (file.size, file.marked_in_dentry);
        summary.parts = !file.parts.is_empty();
        summary.is_staged_inline = file.content.is_staged_inline();
        match &file.content {
            Content::Inline(_) => {}
            Content::Slices(slices) => {
                if !in_order(slices) {
                    self.findings.insert(Finding::Disorder(ino));
                }
                self.add_slices(ino, slices);
            }
            Content::Pages(pages) => {
                self.listed_pages.extend(pages.iter().map(|page| (ino, page.page)));
                summary.pages.clone_from(pages);
            }
        }
    }

    /// Adds a page of a file's content map. Inodes were read before. A page that its inode does not
    /// list is examined once all orphans are known.
    fn add_page(&mut self, ino: Ino, page: u32, key: &Key, slices: Vec<Slice>) {
        if !in_order(&slices) {
            self.findings.insert(Finding::Disorder(ino));
        }
        let span = slices.first().zip(slices.last());
        let span = span.map(|(first, last)| (first.position, last.end()));
        let bytes = record::bytes_of(&slices);
        let unnamed = if self.listed_pages.contains(&(ino, page)) {
            self.add_slices(ino, &slices);
            Vec::new()
        } else {
            slices
        };
        let summary = PageSummary { page, key: key.clone(), span, bytes, unnamed };
        self.pages.entry(ino).or_default().push(summary);
    }

    fn add_orphan(&mut self, ino: Ino, orphan: Orphan) -> Result<(), DecodeError> {
        if let Orphan::Detached { inode, .. } = &orphan {
            let inode = Inode::decode(&key::inode(ino), inode)?;
            self.detached.insert(ino, inode.file().map_or(0, |file| file.size));
            // Some of its blocks may be deleted already, and none of them is leaked.
            let slices = session::scan::slices_of(&inode);
            self.releasing.extend(slices.iter().map(|slice| slice.block));
            self.count_in_packs(ino, slices);
        }
        if let Orphan::Hidden { owner, blocks, pages } = &orphan {
            for HiddenBlock { block, .. } in blocks {
                self.releasing.insert(*block);
                self.hidden.insert((*block, *owner));
            }
            self.replaced_pages.extend(pages.iter().map(|page| (*owner, *page)));
        }
        self.orphans.insert(ino, orphan);
        Ok(())
    }

    pub(super) fn add_slices(&mut self, owner: Ino, slices: &[Slice]) {
        self.count_in_packs(owner, slices);
        self.add_references(owner, slices);
    }

    fn count_in_packs(&mut self, owner: Ino, slices: &[Slice]) {
        for slice in slices.iter().filter(|slice| slice.block.is_pack()) {
            let named = self.in_packs.entry((slice.block, owner)).or_default();
            *named = named.saturating_add(i64::from(slice.length));
        }
    }

    pub(super) fn add_references(&mut self, owner: Ino, slices: &[Slice]) {
        for slice in slices {
            let named = self.named.entry(slice.block).or_default();
            named.owners.insert(owner);
            named.sizes.insert(sealed::sealed_bytes(slice.block_length));
        }
    }
}

/// Returns true if the slices are sorted by position and do not overlap.
fn in_order(slices: &[Slice]) -> bool {
    let apart = |pair: &[Slice]| matches!(pair, [one, next] if one.end() <= next.position);
    slices.windows(2).all(apart)
}

/// Calls `visit` for every counter of a space.
async fn walk_counters(
    store: &dyn MetaStore,
    space: Space,
    progress: &dyn Progress,
    mut visit: impl FnMut(Key, i64) + Send,
) -> Result<(), VolumeError> {
    let mut resume: Option<Bytes> = None;
    loop {
        let page = store.walk_counters(space, resume, WALK_COUNTERS).await?;
        progress.read("counters", page.counters.len() as u64);
        for (CounterKey(key), value) in page.counters {
            visit(key, value);
        }
        match page.resume {
            Some(next) => resume = Some(next),
            None => return Ok(()),
        }
    }
}

/// Checks a record of the ring.
fn check_ring(key: &Key, value: &Value) -> Result<(), String> {
    let number = key.suffix().try_into().map(|bytes| RingNumber(u32::from_be_bytes(bytes)));
    let checked = if *key == key::ring_state() {
        RingState::decode(key, value).map(|_| ())
    } else if *key == key::rewrap() {
        RewrapRecord::decode(key, value).map(|_| ())
    } else if number.is_ok_and(|number| *key == key::ring_key(number)) {
        RingKeyRecord::decode(key, value).map(|_| ())
    } else {
        return Err("not the key of a record of the ring".to_owned());
    };
    checked.map_err(|error| error.to_string())
}

fn space_name(space: Space) -> &'static str {
    match space {
        space::INODE => "inodes",
        space::DENTRY => "names",
        space::MAP => "content map pages",
        space::PART => "parts",
        space::SHARE => "shares",
        space::ORPHAN => "orphans",
        space::XATTR => "extended attributes",
        _ => "other records",
    }
}
