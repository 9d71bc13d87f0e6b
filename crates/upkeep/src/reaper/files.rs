//! Reaps files, and other inodes, that lost their last name.
//!
//! Symbolic links and special files are reaped in the same way, but have no blocks. A file whose
//! blocks fit into one plan is removed in one plan, together with its inode's record. A plan that
//! would add another owner to its blocks guards that record, so it is refused afterwards.
//!
//! A larger file is *detached* first: its inode's record moves into the orphan, so that no lookup
//! finds it any more. Then its content map is removed page by page. It releases packs before its
//! pages are removed, because the pages say how many bytes it has in each pack. Long extended
//! attributes, which have records of their own, are removed with the inode.
//!
//! For example, a file of 1 TiB has some thousand map pages. If the process is killed after half of
//! them, the next pass finds the detached inode in the orphan and continues with the other half.

use block::SUB_BLOCK_BYTES;
use futures::StreamExt;
use futures::stream;
use record::{
    Content, File, InlineBytes, Ino, Inode, InodeBody, Kind, MapPage, Orphan, PART_SUMS_PAGE,
    Slice, Xattr, XattrPlace, key, key::CounterKind,
};
use session::{Priority, VolumeError, closing, corrupt, value};
use store::{Guard, Key, Plan, Read, Value, Write};

use super::owners::{Owners, Reference};
use super::release::{BLOCKS_PER_PLAN, ITEMS_PER_BLOCK, add_release, references};
use super::{Dead, committed_steps};
use crate::upkeep::Upkeep;

/// Files whose records and owners are read together.
const FILES_AT_ONCE: usize = 64;

/// Pages of a content map that one round trip reads.
pub(super) const PAGES_AT_ONCE: usize = 16;

/// The most pages of part checksums that one plan removes.
const SUM_PAGES_MAX: u32 = 64;

/// The most long extended attributes that one plan removes from a detached inode.
const XATTRS_PER_PLAN: usize = 256;

/// A dead file, or another dead inode.
#[derive(Debug)]
struct DeadFile<'a> {
    dead: &'a Dead,
    bucket: Ino,
    record: Value,
    inode: Inode,
}

impl Upkeep {
    /// Reaps dead files (those without a name): releases their blocks and removes their records.
    /// Returns the number of plans that were committed.
    pub(super) async fn reap_files(
        &self,
        dead: &[Dead],
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        let mut reaped = 0;
        let files: Vec<&Dead> = dead
            .iter()
            .filter(|dead| matches!(dead.orphan, Orphan::File { .. } | Orphan::Detached { .. }))
            .collect();
        for files in files.chunks(FILES_AT_ONCE) {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            reaped += match self.reap_some(files, priority).await {
                // One of the files is damaged. Each is reaped by itself, so that the others are
                // removed.
                Err(VolumeError::Corrupt(_)) => self.reap_each(files, priority).await?,
                some => some?,
            };
        }
        Ok(reaped)
    }

    /// Reaps dead files (without a name) one by one, because they cannot be read together. Those
    /// whose records cannot be decoded are kept. Returns the number of reaped files.
    async fn reap_each(&self, files: &[&Dead], priority: Priority) -> Result<u64, VolumeError> {
        let mut reaped = 0;
        for dead in files {
            match self.reap_some(&[dead], priority).await {
                Err(why @ VolumeError::Corrupt(_)) => self.report_damaged(&dead.key, &why),
                one => reaped += one?,
            }
        }
        Ok(reaped)
    }

    async fn reap_some(&self, files: &[&Dead], priority: Priority) -> Result<u64, VolumeError> {
        let mut reaped = 0;
        let step = self.session.throttle().begin_step(priority);
        let (small, large, gone) = self.load(files).await?;
        for dead in gone {
            // The inode is gone: another reaper removed it, or this is the last step of a detached
            // file.
            let plan = Plan {
                guards: vec![dead.guard(), Guard::Absent(key::inode(dead.ino))],
                writes: vec![Write::Delete(dead.key.clone())],
            };
            reaped += committed_steps(self.session.commit_plan(plan).await)?;
        }
        reaped += self.reap_small(small).await?;
        self.session.throttle().pause_after(step).await;
        for file in large {
            let step = self.session.throttle().begin_step(priority);
            reaped += self.reap_large(file).await?;
            self.session.throttle().pause_after(step).await;
        }
        Ok(reaped)
    }

    /// Reads the inodes of dead files. Returns the files that fit into one plan, those that do not,
    /// and the orphans (records of dead files) whose inode does not exist.
    async fn load<'a>(
        &self,
        files: &[&'a Dead],
    ) -> Result<(Vec<DeadFile<'a>>, Vec<DeadFile<'a>>, Vec<&'a Dead>), VolumeError> {
        let inode = |dead: &&Dead| Read::Record { key: key::inode(dead.ino), follow: None };
        let reads: Vec<Read> = files.iter().map(inode).collect();
        let found = self.session.store().read(&reads).await?;
        let (mut small, mut large, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (dead, found) in files.iter().zip(&found) {
            let at = key::inode(dead.ino);
            let (bucket, record) = match (&dead.orphan, value(Some(found))) {
                (Orphan::Detached { bucket, inode }, _) => (*bucket, inode.clone()),
                (Orphan::File { bucket }, Some(record)) => (*bucket, record),
                _ => {
                    gone.push(*dead);
                    continue;
                }
            };
            let inode = Inode::decode(&at, &record).map_err(|error| corrupt(&at, &error))?;
            let file = DeadFile { dead, bucket, record, inode };
            if file.is_small(&self.session.limits()) { small.push(file) } else { large.push(file) }
        }
        Ok((small, large, gone))
    }

    /// Reaps dead files that fit into one plan each: removes their records and releases their
    /// blocks. Returns the number of committed plans.
    async fn reap_small(&self, files: Vec<DeadFile<'_>>) -> Result<u64, VolumeError> {
        let by_file: Vec<Vec<Reference>> = files.iter().map(DeadFile::references).collect();
        let references = by_file.concat();
        // One lookup for all files shows owners that are reaped together as well as owners that
        // stay.
        let owners = self.owners(&references).await?;
        let mut rest = owners.as_slice();
        let mut plans = Vec::with_capacity(files.len());
        for (file, references) in files.iter().zip(&by_file) {
            let (own, others) = rest.split_at_checked(references.len()).unwrap_or_default();
            plans.push(file.end(references, own));
            rest = others;
        }
        let outcomes: Vec<_> = stream::iter(plans)
            .map(|plan| self.session.commit_plan(plan))
            .buffered(FILES_AT_ONCE)
            .collect()
            .await;
        // Queued even if a plan was refused: the relocator reads the present state of the pack
        // anyway.
        self.note_sparse(&references, &owners);
        let (mut reaped, mut rest) = (0, owners.as_slice());
        for ((file, references), outcome) in files.iter().zip(&by_file).zip(outcomes) {
            reaped += committed_steps(outcome)?;
            let (own, others) = rest.split_at_checked(references.len()).unwrap_or_default();
            self.evict(file, references, own);
            rest = others;
        }
        Ok(reaped)
    }

    /// Removes a dead file's content from the cache. Blocks with another owner stay, because they
    /// may be read again. In a pack, other owners usually own other bytes. If not, they have to
    /// read their bytes from the block store again.
    fn evict(&self, file: &DeadFile<'_>, references: &[Reference], owners: &[Owners]) {
        let Some(Content::Slices(slices)) = file.content() else { return };
        for slice in slices {
            let place = references.binary_search_by_key(&slice.block, |reference| reference.block);
            let last = place.ok().and_then(|place| owners.get(place)).is_some_and(Owners::is_last);
            if last || slice.block.is_pack() {
                let mut end = slice.offset.saturating_add(slice.length);
                if end >= slice.block_length {
                    // The last sub-block of a block is cached under its full length.
                    end = end.div_ceil(SUB_BLOCK_BYTES).saturating_mul(SUB_BLOCK_BYTES);
                }
                self.staging.reader.forget(slice.block, slice.offset..end);
            }
        }
    }

    /// Reaps a dead file whose content map is too large for one plan. Returns 1 if the last
    /// plan was committed, and 0 if another reaper is working on it.
    async fn reap_large(&self, file: DeadFile<'_>) -> Result<u64, VolumeError> {
        let (bucket, ino) = (file.bucket, file.dead.ino);
        // Inline content is dead, and an orphan's record is not encrypted.
        let record = match file.file() {
            Some(kept) if matches!(kept.content, Content::Inline(_)) => {
                let content = Content::Inline(InlineBytes::empty());
                let body = InodeBody::File(Box::new(File { content, ..kept.clone() }));
                Inode { body, ..file.inode.clone() }.encode(&key::inode(ino))
            }
            _ => file.record.clone(),
        };
        let detached = Orphan::Detached { bucket, inode: record };
        // Every later plan guards these exact bytes, so only one reaper at a time removes the file.
        let detached = detached.encode(&file.dead.key);
        let guard = Guard::Equals(file.dead.key.clone(), detached.clone());
        // Detach the inode first: after this plan no reader, writer or copy can find the file by
        // its number.
        if !matches!(file.dead.orphan, Orphan::Detached { .. }) {
            let plan = Plan {
                guards: file.guards(),
                writes: vec![
                    Write::Delete(key::inode(ino)),
                    Write::Put(file.dead.key.clone(), detached.clone()),
                ],
            };
            if committed_steps(self.session.commit_plan(plan).await)? == 0 {
                return Ok(0);
            }
        }
        match file.content() {
            None | Some(Content::Inline(_)) => {}
            Some(Content::Slices(slices)) => {
                self.release(&guard, &references(slices, ino), None).await?;
            }
            Some(Content::Pages(pages)) => {
                let pages: Vec<Key> =
                    pages.iter().map(|page| key::map_page(ino, page.page)).collect();
                self.release_packs(&guard, &pages, ino).await?;
                for page in pages {
                    self.reap_page(&guard, page, ino).await?;
                }
            }
        }
        // Attributes go before the orphan, which is the only record that lists them.
        let xattrs: Vec<Write> = file.xattrs().collect();
        for xattrs in xattrs.chunks(XATTRS_PER_PLAN) {
            let plan = Plan { guards: vec![guard.clone()], writes: xattrs.to_vec() };
            if committed_steps(self.session.commit_plan(plan).await)? == 0 {
                return Ok(0);
            }
        }
        let mut plan = Plan { guards: vec![guard], writes: file.last_writes() };
        plan.writes.push(Write::Delete(file.dead.key.clone()));
        committed_steps(self.session.commit_plan(plan).await)
    }

    /// Releases the owner's share of the packs (blocks of several files) that pages of its content
    /// map reference, in plans under `guard`.
    pub(crate) async fn release_packs(
        &self,
        guard: &Guard,
        pages: &[Key],
        owner: Ino,
    ) -> Result<(), VolumeError> {
        let mut slices: Vec<Slice> = Vec::new();
        for pages in pages.chunks(PAGES_AT_ONCE) {
            let record = |page: &Key| Read::Record { key: page.clone(), follow: None };
            let reads: Vec<Read> = pages.iter().map(record).collect();
            let found = self.session.store().read(&reads).await?;
            for (page, found) in pages.iter().zip(&found) {
                let Some(record) = value(Some(found)) else { continue };
                let page = MapPage::decode(page, &record).map_err(|error| corrupt(page, &error))?;
                slices.extend(page.0.into_iter().filter(|slice| slice.block.is_pack()));
            }
        }
        self.release(guard, &references(&slices, owner), None).await
    }

    async fn reap_page(&self, guard: &Guard, page: Key, ino: Ino) -> Result<(), VolumeError> {
        let found =
            self.session.store().read(&[Read::Record { key: page.clone(), follow: None }]).await?;
        // If the page is gone, an earlier pass had come this far.
        let Some(record) = value(found.first()) else { return Ok(()) };
        let slices = MapPage::decode(&page, &record).map_err(|error| corrupt(&page, &error))?.0;
        let references = references(slices.iter().filter(|slice| !slice.block.is_pack()), ino);
        self.release(guard, &references, Some(Write::Delete(page))).await
    }

    /// Lets owners release their blocks in plans under `guard`. A block without another owner is
    /// listed for deletion. The plan of the last blocks also contains the write `last`.
    pub(super) async fn release(
        &self,
        guard: &Guard,
        references: &[Reference],
        last: Option<Write>,
    ) -> Result<(), VolumeError> {
        let room = self.session.limits().plan_items.saturating_sub(16) / ITEMS_PER_BLOCK;
        // 16 items are reserved for the guard and the last writes of the plan.
        let chunks: Vec<&[Reference]> =
            references.chunks(BLOCKS_PER_PLAN.min(room.max(1))).collect();
        for (index, references) in chunks.iter().enumerate() {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            let owners = self.owners(references).await?;
            let mut plan = Plan { guards: vec![guard.clone()], writes: Vec::new() };
            for (reference, owners) in references.iter().zip(&owners) {
                add_release(&mut plan, *reference, owners);
            }
            if index + 1 == chunks.len() {
                plan.writes.extend(last.clone());
            }
            // All these references were released by an earlier pass.
            if plan.writes.is_empty() {
                continue;
            }
            if committed_steps(self.session.commit_plan(plan).await)? == 0 {
                return Err(VolumeError::Unavailable(
                    "an owner of a block changed meanwhile; the next pass retries".into(),
                ));
            }
            self.note_sparse(references, &owners);
        }
        if chunks.is_empty()
            && let Some(last) = last
        {
            let plan = Plan { guards: vec![guard.clone()], writes: vec![last] };
            committed_steps(self.session.commit_plan(plan).await)?;
        }
        Ok(())
    }
}

impl DeadFile<'_> {
    /// Returns true if the file can be removed in one plan.
    fn is_small(&self, limits: &store::Limits) -> bool {
        let blocks = match self.content() {
            None | Some(Content::Inline(_)) => 0,
            Some(Content::Slices(slices)) => slices.len(),
            Some(Content::Pages(_)) => return false,
        };
        let others = self.sum_pages() as usize + self.xattrs().count();
        let items = blocks * ITEMS_PER_BLOCK + others + 16;
        !matches!(self.dead.orphan, Orphan::Detached { .. }) && items <= limits.plan_items
    }

    fn references(&self) -> Vec<Reference> {
        match self.content() {
            Some(Content::Slices(slices)) => references(slices, self.dead.ino),
            None | Some(Content::Inline(_) | Content::Pages(_)) => Vec::new(),
        }
    }

    fn file(&self) -> Option<&File> {
        self.inode.file()
    }

    fn content(&self) -> Option<&Content> {
        self.file().map(|file| &file.content)
    }

    /// Returns the deletions of the file's long extended attributes, which have records of their
    /// own.
    fn xattrs(&self) -> impl Iterator<Item = Write> {
        let is_apart = |xattr: &&Xattr| matches!(xattr.value, XattrPlace::Apart(_));
        self.inode
            .xattrs
            .iter()
            .filter(is_apart)
            .map(|xattr| Write::Delete(key::xattr(self.dead.ino, &xattr.name)))
    }

    fn sum_pages(&self) -> u32 {
        let runs = self.file().map_or(&[][..], |file| &file.parts);
        let parts: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        let pages = parts.div_ceil(u64::from(PART_SUMS_PAGE));
        u32::try_from(pages).unwrap_or(u32::MAX).min(SUM_PAGES_MAX)
    }

    /// Returns the last writes of the file's removal: the deletion of part checksums, and the
    /// subtraction of its bytes from the bucket's counter.
    fn last_writes(&self) -> Vec<Write> {
        let page = |page| Write::Delete(key::part_sums(self.dead.ino, page));
        let mut writes: Vec<Write> = (0..self.sum_pages()).map(page).collect();
        if self.inode.kind() == Kind::Directory {
            let counts = [CounterKind::Entries, CounterKind::Modified, CounterKind::Directories];
            writes.extend(counts.map(|count| Write::Clear(key::counter(self.dead.ino, count))));
        }
        if let Ok(size @ 1..) = i64::try_from(self.file().map_or(0, |file| file.size)) {
            writes.push(Write::Add(key::counter(self.bucket, key::CounterKind::Bytes), -size));
        }
        writes
    }

    /// Guards that the file has not changed since it was read, and that a directory is empty. A
    /// plan that adds a name to a directory guards the directory's inode, so it is refused
    /// afterwards.
    fn guards(&self) -> Vec<Guard> {
        let inode = Guard::Equals(key::inode(self.dead.ino), self.record.clone());
        let mut guards = vec![self.dead.guard(), inode];
        if self.inode.kind() == Kind::Directory {
            let (start, end) = key::dentries(self.dead.ino);
            guards.push(Guard::Empty(start, end));
        }
        guards
    }

    /// Returns the only plan that removes a dead file that fits into one plan. `owners` are the
    /// other owners of its blocks.
    fn end(&self, references: &[Reference], owners: &[Owners]) -> Plan {
        let inode = key::inode(self.dead.ino);
        let mut plan = Plan {
            guards: self.guards(),
            writes: vec![Write::Delete(inode), Write::Delete(self.dead.key.clone())],
        };
        for (reference, owners) in references.iter().zip(owners) {
            add_release(&mut plan, *reference, owners);
        }
        plan.writes.extend(self.xattrs());
        plan.writes.extend(self.last_writes());
        plan
    }
}
