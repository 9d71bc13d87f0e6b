//! Reaping what lost its last name.
//!
//! Most of it are files; symbolic links and what else has an inode go the same way, without blocks.
//! A file whose blocks fit into one plan goes in that plan, together with its inode's record.
//! Whoever would share its blocks guards that record. A larger file is *detached* first: its
//! inode's record moves into the orphan, so that nobody finds it any more. Then its content map
//! goes page by page. It lets go of packs before its pages go, because the pages say how many bytes
//! it has in them. Long extended attributes, which have records of their own, go with the inode.

use block::SUB_BLOCK_BYTES;
use futures::StreamExt;
use futures::stream;
use record::{
    Content, File, Ino, Inode, Kind, MapPage, Orphan, PART_SUMS_PAGE, Slice, Xattr, XattrPlace,
    key, key::CounterKind,
};
use session::{Priority, VolumeError, closing, corrupt, value};
use store::{Guard, Key, Plan, Read, Value, Write};

use super::owners::{Owners, Reference};
use super::release::{BLOCKS_PER_PLAN, ITEMS_PER_BLOCK, let_go, references};
use super::{Dead, progress};
use crate::upkeep::Upkeep;

/// Files whose records and owners are read together.
const FILES_AT_ONCE: usize = 64;

/// Pages of a content map that one round trip reads.
pub(super) const PAGES_AT_ONCE: usize = 16;

/// Pages of part checksums that one plan removes.
const SUM_PAGES_MAX: u32 = 64;

/// Long extended attributes that one plan removes from what does not go in one.
const XATTRS_PER_PLAN: usize = 256;

/// A file that is dead, or something else with an inode.
#[derive(Debug)]
struct DeadFile<'a> {
    dead: &'a Dead,
    bucket: Ino,
    record: Value,
    inode: Inode,
}

impl Upkeep {
    /// Reaps dead files. Answers with how many of them anything was done.
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
                // One of them is damaged. Each is reaped by itself, so that the others go.
                Err(VolumeError::Corrupt(_)) => self.reap_each(files, priority).await?,
                some => some?,
            };
        }
        Ok(reaped)
    }

    /// Reaps dead files one by one; those that cannot be read are kept.
    async fn reap_each(&self, files: &[&Dead], priority: Priority) -> Result<u64, VolumeError> {
        let mut reaped = 0;
        for dead in files {
            match self.reap_some(&[dead], priority).await {
                Err(why @ VolumeError::Corrupt(_)) => self.keep_damaged(&dead.key, &why),
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
            // The inode is gone already: another reaper was faster, or this is the last step.
            let plan = Plan {
                guards: vec![dead.guard(), Guard::Absent(key::inode(dead.ino))],
                writes: vec![Write::Delete(dead.key.clone())],
            };
            reaped += progress(self.session.commit_plan(plan).await)?;
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

    /// Reads the inodes of dead files: those that go in one plan, those that do not, and orphans
    /// without an inode.
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

    /// Reaps files that go in one plan each.
    async fn reap_small(&self, files: Vec<DeadFile<'_>>) -> Result<u64, VolumeError> {
        let of_each: Vec<Vec<Reference>> = files.iter().map(DeadFile::references).collect();
        let references = of_each.concat();
        let owners = self.owners(&references).await?;
        let mut rest = owners.as_slice();
        let mut plans = Vec::with_capacity(files.len());
        for (file, references) in files.iter().zip(&of_each) {
            let (own, others) = rest.split_at_checked(references.len()).unwrap_or_default();
            plans.push(file.end(references, own));
            rest = others;
        }
        let outcomes: Vec<_> = stream::iter(plans)
            .map(|plan| self.session.commit_plan(plan))
            .buffered(FILES_AT_ONCE)
            .collect()
            .await;
        self.note_sparse(&references, &owners);
        let (mut reaped, mut rest) = (0, owners.as_slice());
        for ((file, references), outcome) in files.iter().zip(&of_each).zip(outcomes) {
            reaped += progress(outcome)?;
            let (own, others) = rest.split_at_checked(references.len()).unwrap_or_default();
            self.forget(file, references, own);
            rest = others;
        }
        Ok(reaped)
    }

    /// Frees the memory that a dead file's content takes. Blocks that have another owner may still
    /// be read, so they stay. In a pack the other owners mostly own other bytes; if not, they have
    /// to read them again.
    fn forget(&self, file: &DeadFile<'_>, references: &[Reference], owners: &[Owners]) {
        let Some(Content::Slices(slices)) = file.content() else { return };
        for slice in slices {
            let place = references.binary_search_by_key(&slice.block, |reference| reference.block);
            let last = place.ok().and_then(|place| owners.get(place)).is_some_and(Owners::is_last);
            if last || slice.block.is_pack() {
                let mut end = slice.offset.saturating_add(slice.length);
                if end >= slice.block_length {
                    end = end.div_ceil(SUB_BLOCK_BYTES).saturating_mul(SUB_BLOCK_BYTES);
                }
                self.staging.reader.forget(slice.block, slice.offset..end);
            }
        }
    }

    /// Reaps a file whose content map is too large for one plan. Answers 0 if another reaper is at
    /// it, which then goes on.
    async fn reap_large(&self, file: DeadFile<'_>) -> Result<u64, VolumeError> {
        let (bucket, ino) = (file.bucket, file.dead.ino);
        let detached = Orphan::Detached { bucket, inode: file.record.clone() };
        let detached = detached.encode(&file.dead.key);
        let guard = Guard::Equals(file.dead.key.clone(), detached.clone());
        if !matches!(file.dead.orphan, Orphan::Detached { .. }) {
            let plan = Plan {
                guards: file.guards(),
                writes: vec![
                    Write::Delete(key::inode(ino)),
                    Write::Put(file.dead.key.clone(), detached.clone()),
                ],
            };
            if progress(self.session.commit_plan(plan).await)? == 0 {
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
                self.leave_packs(&guard, &pages, ino).await?;
                for page in pages {
                    self.reap_page(&guard, page, ino).await?;
                }
            }
        }
        let xattrs: Vec<Write> = file.xattrs().collect();
        for xattrs in xattrs.chunks(XATTRS_PER_PLAN) {
            let plan = Plan { guards: vec![guard.clone()], writes: xattrs.to_vec() };
            if progress(self.session.commit_plan(plan).await)? == 0 {
                return Ok(0);
            }
        }
        let mut plan = Plan { guards: vec![guard], writes: file.last_writes() };
        plan.writes.push(Write::Delete(file.dead.key.clone()));
        progress(self.session.commit_plan(plan).await)
    }

    /// Lets `owner` go of the packs that pages of a content map name.
    pub(crate) async fn leave_packs(
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
        // If the page is gone, an earlier pass came as far as this.
        let Some(record) = value(found.first()) else { return Ok(()) };
        let slices = MapPage::decode(&page, &record).map_err(|error| corrupt(&page, &error))?.0;
        let references = references(slices.iter().filter(|slice| !slice.block.is_pack()), ino);
        self.release(guard, &references, Some(Write::Delete(page))).await
    }

    /// Lets owners go of blocks under a guard; `last` happens with the last of them.
    pub(super) async fn release(
        &self,
        guard: &Guard,
        references: &[Reference],
        last: Option<Write>,
    ) -> Result<(), VolumeError> {
        let room = self.session.limits().plan_items.saturating_sub(16) / ITEMS_PER_BLOCK;
        let chunks: Vec<&[Reference]> =
            references.chunks(BLOCKS_PER_PLAN.min(room.max(1))).collect();
        for (index, references) in chunks.iter().enumerate() {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            let owners = self.owners(references).await?;
            let mut plan = Plan { guards: vec![guard.clone()], writes: Vec::new() };
            for (reference, owners) in references.iter().zip(&owners) {
                let_go(&mut plan, *reference, owners);
            }
            if index + 1 == chunks.len() {
                plan.writes.extend(last.clone());
            }
            if plan.writes.is_empty() {
                continue;
            }
            if progress(self.session.commit_plan(plan).await)? == 0 {
                return Err(VolumeError::Unavailable("an owner changed; to be seen again".into()));
            }
            self.note_sparse(references, &owners);
        }
        if chunks.is_empty()
            && let Some(last) = last
        {
            let plan = Plan { guards: vec![guard.clone()], writes: vec![last] };
            progress(self.session.commit_plan(plan).await)?;
        }
        Ok(())
    }
}

impl DeadFile<'_> {
    /// Whether the file goes in one plan.
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

    /// The removal of its long extended attributes.
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

    /// What goes last: checksums of parts, and the bytes that the bucket counts.
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

    /// Guards that it is as it was read, and that a directory is empty: whoever adds a name to one
    /// guards its inode.
    fn guards(&self) -> Vec<Guard> {
        let inode = Guard::Equals(key::inode(self.dead.ino), self.record.clone());
        let mut guards = vec![self.dead.guard(), inode];
        if self.inode.kind() == Kind::Directory {
            let (start, end) = key::dentries(self.dead.ino);
            guards.push(Guard::Empty(start, end));
        }
        guards
    }

    /// The one plan that ends a small file.
    fn end(&self, references: &[Reference], owners: &[Owners]) -> Plan {
        let inode = key::inode(self.dead.ino);
        let mut plan = Plan {
            guards: self.guards(),
            writes: vec![Write::Delete(inode), Write::Delete(self.dead.key.clone())],
        };
        for (reference, owners) in references.iter().zip(owners) {
            let_go(&mut plan, *reference, owners);
        }
        plan.writes.extend(self.xattrs());
        plan.writes.extend(self.last_writes());
        plan
    }
}
