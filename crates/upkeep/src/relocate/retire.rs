//! Moves all content out of one ring key, so that the key can be removed.
//!
//! A *pass* lists all blocks of the volume and reads the ring key of each encrypted one from its
//! header, then it walks over all inodes. It encrypts inline content under the current key of its
//! mode, and copies the bytes of blocks into new blocks. The copies of blocks with several owners
//! ([shared]) have several owners, too. For example, a pack of 300 small objects becomes a part of
//! one new pack, and a file of 1 GiB is copied in steps of one block.
//!
//! A pass keeps no state in the store. If it is killed, the next one finds what is left by the same
//! look: the headers of blocks and the records of inodes.
//!
//! **Invariant.** A pass that finds nothing has looked at every block and every inode that existed
//! during the whole pass. If nothing can be written under the key meanwhile, nothing is left under
//! it: a block is listed as long as it exists, referenced or not, and no other place has bytes
//! under a ring key. So the caller *closes* the key first, and waits for the writers that may not
//! know it ([`Upkeep::wait_for_writers`]).
//!
//! Content with a client's key (SSE-C) cannot move, because its key depends on its block. Parts of
//! open uploads do not move either. A pass counts both.

mod shared;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use block::BlockErrorKind;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use keyring::Protection;
use namespace::{FsError, ReencryptContent};
use record::key::{self, space};
use record::{BlockId, Content, DecodeError, File, Ino, Inode, PageRef, Part, RingNumber, Slice};
use session::{COMMIT_DEADLINE, SESSION_SILENCE, VolumeError, closing, corrupt, other_sessions};
use store::{Key, Read, ReadResult, Value};
use tokio::time::Instant;
use tracing::warn;

use super::files::{FileDone, WALK_INODES};
use super::protect::protection;
use super::select::{FileSelection, PAGES_AT_ONCE};
use super::step::Moves;
use crate::upkeep::Upkeep;

/// The time after which nothing is written under a key that was closed, although other sessions
/// exist. A session that has not read the record of the key by then was fenced; each of its puts
/// and commits that was under way has ended.
pub const WRITERS_GRACE: Duration = Duration::from_mins(2);

/// The timeout for one put of a block, as `content::Deadlines` has it by default.
const PUT_DEADLINE: Duration = Duration::from_secs(30);

const _: () = assert!(
    SESSION_SILENCE.as_millis() + COMMIT_DEADLINE.as_millis() + PUT_DEADLINE.as_millis()
        <= WRITERS_GRACE.as_millis()
);

/// The pause between two looks if other sessions exist.
const WRITERS_PAUSE: Duration = Duration::from_millis(500);

/// Headers of blocks that are read at the same time.
const HEADERS_AT_ONCE: usize = 32;

/// The most blocks under the key that one pass moves. The next pass finds the others.
const BLOCKS_MAX: usize = 1 << 20;

/// The most blocks under other keys that are remembered from one pass to the next. The headers of
/// further ones are read again.
const KNOWN_MAX: usize = 1 << 20;

/// Files that move at the same time.
const FILES_AT_ONCE: usize = 4;

/// Records that are encrypted again at the same time.
const RECORDS_AT_ONCE: usize = 64;

/// Blocks about whose owners one round trip asks.
const SHARES_AT_ONCE: usize = 256;

/// The content that a pass found under a ring key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetirePass {
    /// Blocks that are encrypted under the key, also those that no file references any more.
    pub blocks: u64,
    /// Records of inodes with inline content under the key.
    pub records: u64,
    /// The bytes that the pass moved, and the files (and blocks of several files) out of which it
    /// moved them.
    pub moved: Moves,
    /// Files that stay under the key, because only a client has the key of their content.
    pub customer_files: u64,
    /// Parts of uploads that are not complete. They stay under the key.
    pub upload_parts: u64,
    /// Files that programs changed while the pass moved them. The next pass moves them.
    pub busy_files: u64,
    /// Records and blocks that cannot be read, so that their content stays as it is.
    pub unreadable: u64,
    /// Blocks under the key that no file and no part references: the reaper or the sweeper deletes
    /// them.
    pub unreferenced: u64,
}

impl RetirePass {
    /// Returns true if nothing is left under the key.
    pub fn is_clean(&self) -> bool {
        self.blocks == 0 && self.records == 0 && self.unreadable == 0
    }

    /// Returns true if a later pass may find less, although no client changes the content.
    pub fn may_shrink(&self) -> bool {
        self.moved.sources > 0 || self.busy_files > 0 || self.unreferenced > 0
    }
}

/// A receiver of the progress of passes, for display.
pub trait RetireProgress: Send + Sync {
    /// Records that `blocks` more headers and `inodes` more records were read.
    fn looked_at(&self, blocks: u64, inodes: u64);

    /// Records that `bytes` more bytes were moved.
    fn moved(&self, bytes: u64);
}

/// Blocks of which an earlier pass has read that they are under other ring keys. A block keeps its
/// key for ever.
#[derive(Debug, Default)]
pub struct KnownBlocks(HashSet<BlockId>);

/// The state of one pass.
struct Walk<'a> {
    ring: RingNumber,
    /// The blocks under the key.
    under: HashSet<BlockId>,
    /// Those of them that no file or part was found to reference so far.
    unseen: HashSet<BlockId>,
    /// Those of them that have, or may have, several owners.
    shared: BTreeSet<BlockId>,
    found: RetirePass,
    progress: &'a dyn RetireProgress,
}

/// Inline content to encrypt again: the file, its record, and the protection of its content.
type InlineFile = (Ino, Value, Protection);

/// The files of one page of a walk that have content under the key.
#[derive(Default)]
struct FoundFiles {
    inline: Vec<InlineFile>,
    /// Files whose content maps are in their records, with their blocks under the key.
    mapped: BTreeMap<Ino, BTreeSet<BlockId>>,
    /// Files whose content maps are in pages.
    paged: Vec<Ino>,
}

impl Upkeep {
    /// Moves all content under this ring key to the current keys, as far as it can be moved, and
    /// counts what it found. The caller has retired the key, so that it is not the current one.
    ///
    /// # Errors
    /// If a store cannot be reached, or a current key cannot be used. Content that was moved before
    /// stays moved.
    pub async fn retire_pass(
        &self,
        ring: RingNumber,
        known: &mut KnownBlocks,
        progress: &dyn RetireProgress,
    ) -> Result<RetirePass, VolumeError> {
        let mut walk = Walk {
            ring,
            under: HashSet::new(),
            unseen: HashSet::new(),
            shared: BTreeSet::new(),
            found: RetirePass::default(),
            progress,
        };
        self.find_blocks(&mut walk, known).await?;
        walk.found.blocks = walk.under.len() as u64;
        walk.unseen.clone_from(&walk.under);
        let mut resume: Option<Bytes> = None;
        loop {
            self.check_open()?;
            let page = self.session.store().walk(space::INODE, resume, WALK_INODES).await?;
            progress.looked_at(0, page.records.len() as u64);
            self.retire_page(page.records, &mut walk).await?;
            match page.resume {
                Some(next) => resume = Some(next),
                None => break,
            }
        }
        if !walk.under.is_empty() {
            self.move_shared(&mut walk).await?;
            self.count_parts(&mut walk).await?;
        }
        walk.found.unreferenced = walk.unseen.len() as u64;
        Ok(walk.found)
    }

    /// Waits until no other session can write under a key that was closed before: until there is no
    /// other session, or for [`WRITERS_GRACE`].
    ///
    /// # Errors
    /// If the metadata store cannot be reached, or the volume is closing.
    pub async fn wait_for_writers(&self) -> Result<(), VolumeError> {
        let until = Instant::now() + WRITERS_GRACE;
        while Instant::now() < until {
            self.check_open()?;
            let store = self.session.store();
            if other_sessions(&**store, self.session.nonce()).await?.is_empty() {
                break;
            }
            super::wait(self, WRITERS_PAUSE).await;
        }
        Ok(())
    }

    fn check_open(&self) -> Result<(), VolumeError> {
        if self.session.closing().is_cancelled() { Err(closing()) } else { Ok(()) }
    }

    /// Finds the blocks under the key by the headers of all encrypted blocks.
    async fn find_blocks(
        &self,
        walk: &mut Walk<'_>,
        known: &mut KnownBlocks,
    ) -> Result<(), VolumeError> {
        for session in self.blocks.sessions().await? {
            let mut resume = None;
            loop {
                self.check_open()?;
                let page = self.blocks.list(session, resume).await?;
                let unknown = page.blocks.iter().map(|(id, _)| *id);
                let unknown: Vec<BlockId> =
                    unknown.filter(|id| id.is_secret() && !known.0.contains(id)).collect();
                walk.progress.looked_at(unknown.len() as u64, 0);
                self.read_headers(unknown, walk, known).await?;
                if walk.under.len() >= BLOCKS_MAX {
                    return Ok(());
                }
                match page.resume {
                    Some(next) => resume = Some(next),
                    None => break,
                }
            }
        }
        Ok(())
    }

    async fn read_headers(
        &self,
        blocks: Vec<BlockId>,
        walk: &mut Walk<'_>,
        known: &mut KnownBlocks,
    ) -> Result<(), VolumeError> {
        let read = blocks.into_iter().map(|id| async move { (id, self.blocks.ring_of(id).await) });
        let mut read = stream::iter(read).buffer_unordered(HEADERS_AT_ONCE);
        while let Some((id, ring)) = read.next().await {
            match ring {
                Ok(Some(ring)) if ring == walk.ring => _ = walk.under.insert(id),
                Ok(Some(_)) if known.0.len() < KNOWN_MAX => _ = known.0.insert(id),
                // The block was deleted meanwhile, or there are too many to remember.
                Ok(Some(_) | None) => {}
                Err(error) if error.kind() == BlockErrorKind::Corrupt => {
                    warn!(block = %id, %error, "the ring key of a block cannot be read");
                    walk.found.unreadable += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Moves the content of the files of one page of the walk. Blocks of several owners are moved
    /// later.
    async fn retire_page(
        &self,
        records: Vec<(Key, Value)>,
        walk: &mut Walk<'_>,
    ) -> Result<(), VolumeError> {
        let mut files = FoundFiles::default();
        for (key, record) in records {
            match Inode::decode(&key, &record) {
                Ok(inode) => {
                    if let Some(file) = inode.file() {
                        let ino = Ino(key.partition());
                        walk.add(ino, file, record, &mut files);
                    }
                }
                // Its only content is inline and under another key.
                Err(DecodeError::Sealed(other)) if other != walk.ring => {}
                Err(error) => {
                    warn!(?key, %error, "the record of an inode cannot be read");
                    walk.found.unreadable += 1;
                }
            }
        }
        self.encrypt_again(files.inline, walk).await?;
        let mut moving = self.without_shared(files.mapped, walk).await?;
        for ino in files.paged {
            let blocks = self.paged_blocks(ino, walk).await?;
            if !blocks.is_empty() {
                moving.push((ino, blocks));
            }
        }
        let moving = moving.into_iter().map(|(ino, blocks)| self.move_file(ino, blocks));
        let moved: Vec<_> =
            stream::iter(moving).buffer_unordered(FILES_AT_ONCE).try_collect().await?;
        for (done, unreadable) in moved {
            walk.progress.moved(done.moves.bytes);
            walk.found.moved += done.moves;
            walk.found.busy_files += u64::from(done.again);
            walk.found.unreadable += u64::from(unreadable);
        }
        Ok(())
    }

    /// Moves the bytes of a file out of these blocks. Returns the moves, and if a block cannot be
    /// read.
    async fn move_file(
        &self,
        ino: Ino,
        blocks: BTreeSet<BlockId>,
    ) -> Result<(FileDone, bool), VolumeError> {
        let (mut selection, mut done) = (FileSelection::of(blocks), FileDone::default());
        let mut from = Some(0);
        while let Some(at) = from.filter(|_| !selection.is_done()) {
            from = self.compact_step(ino, &mut selection, at, false, &mut done).await?;
        }
        done.moves.sources = u64::from(done.moves.bytes > 0);
        Ok((done, selection.has_unreadable()))
    }

    /// Encrypts the inline content of these files under the current keys of their modes.
    async fn encrypt_again(
        &self,
        files: Vec<InlineFile>,
        walk: &mut Walk<'_>,
    ) -> Result<(), VolumeError> {
        let changing = files.into_iter().map(|(ino, record, protection)| async move {
            let missing = || VolumeError::Corrupt(format!("{protection:?} has no ring key"));
            let ring = self.rings.current(&protection).await?.ok_or_else(missing)?;
            let reading = self.session.reading();
            let change = ReencryptContent { ino, record: &record, ring };
            Ok::<_, VolumeError>(self.session.run_in_background(&change, &reading, 1).await)
        });
        let mut changing = stream::iter(changing).buffer_unordered(RECORDS_AT_ONCE);
        while let Some(changed) = changing.next().await {
            match changed?.1 {
                Ok(done) => {
                    walk.found.moved.sources += u64::from(done.bytes > 0);
                    walk.found.moved.bytes += done.bytes;
                    walk.progress.moved(done.bytes);
                }
                // The file was changed or removed.
                Err(VolumeError::Fs(FsError::Contended | FsError::Stale)) => {
                    walk.found.busy_files += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes blocks of several owners from the blocks of each file, and notes them. Returns the
    /// files that have others.
    async fn without_shared(
        &self,
        files: BTreeMap<Ino, BTreeSet<BlockId>>,
        walk: &mut Walk<'_>,
    ) -> Result<Vec<(Ino, BTreeSet<BlockId>)>, VolumeError> {
        let blocks: BTreeSet<BlockId> = files.values().flatten().copied().collect();
        walk.shared.extend(blocks.iter().filter(|block| block.is_pack()));
        let asked: Vec<BlockId> = blocks.into_iter().filter(|block| !block.is_pack()).collect();
        let at_once = SHARES_AT_ONCE.min(self.session.limits().reads).max(1);
        for blocks in asked.chunks(at_once) {
            let first_share = |block: &BlockId| {
                let (start, end) = key::shares(*block);
                Read::Range { start, end, limit: 1, follow: None }
            };
            let reads: Vec<Read> = blocks.iter().map(first_share).collect();
            let found = self.session.store().read(&reads).await?;
            for (block, found) in blocks.iter().zip(found) {
                if matches!(found, ReadResult::Range(shares) if !shares.is_empty()) {
                    walk.shared.insert(*block);
                }
            }
        }
        let own = |(ino, mut blocks): (Ino, BTreeSet<BlockId>)| {
            blocks.retain(|block| !walk.shared.contains(block));
            (!blocks.is_empty()).then_some((ino, blocks))
        };
        Ok(files.into_iter().filter_map(own).collect())
    }

    /// Returns the blocks under the key of a file whose content map is in pages. Such a file moves
    /// by itself also out of blocks of several owners.
    async fn paged_blocks(
        &self,
        ino: Ino,
        walk: &mut Walk<'_>,
    ) -> Result<BTreeSet<BlockId>, VolumeError> {
        // The pin keeps pages from being deleted while they are read.
        let _reading = self.session.reading();
        let Some(file) = self.file_now(ino).await? else { return Ok(BTreeSet::new()) };
        let pages: &[PageRef] = match &file.content {
            Content::Pages(pages) => pages,
            // A program has just changed the file. The next pass finds it.
            Content::Slices(_) | Content::Inline(_) => {
                walk.found.busy_files += 1;
                return Ok(BTreeSet::new());
            }
        };
        let mut blocks = BTreeSet::new();
        for pages in pages.chunks(PAGES_AT_ONCE) {
            for slices in self.load_pages(ino, pages).await? {
                blocks.extend(walk.under_key(&slices));
            }
        }
        walk.see(&blocks);
        if protection(file.encryption.as_ref(), true).is_none() {
            walk.found.customer_files += u64::from(!blocks.is_empty());
            blocks.clear();
        }
        Ok(blocks)
    }

    /// Counts the parts of uploads that have content under the key.
    async fn count_parts(&self, walk: &mut Walk<'_>) -> Result<(), VolumeError> {
        let store = self.session.store();
        session::scan::walk(&**store, space::PART, |key, value| {
            let part = Part::decode(&key, &value).map_err(|error| corrupt(&key, &error))?;
            let blocks: BTreeSet<BlockId> = walk.under_key(&part.slices).collect();
            walk.see(&blocks);
            walk.found.upload_parts += u64::from(!blocks.is_empty());
            Ok(())
        })
        .await?;
        Ok(())
    }
}

impl Walk<'_> {
    /// Adds a file with content under the key to those that move.
    fn add(&mut self, ino: Ino, file: &File, record: Value, files: &mut FoundFiles) {
        let protection = protection(file.encryption.as_ref(), true);
        match &file.content {
            Content::Inline(bytes) if bytes.ring() == Some(self.ring) => {
                self.found.records += 1;
                match protection {
                    Some(protection) => files.inline.push((ino, record, protection)),
                    None => self.found.customer_files += 1,
                }
            }
            Content::Slices(slices) => {
                let blocks: BTreeSet<BlockId> = self.under_key(slices).collect();
                self.see(&blocks);
                match protection {
                    _ if blocks.is_empty() => {}
                    Some(_) => _ = files.mapped.insert(ino, blocks),
                    None => self.found.customer_files += 1,
                }
            }
            Content::Pages(_) if !self.under.is_empty() => files.paged.push(ino),
            Content::Inline(_) | Content::Pages(_) => {}
        }
    }

    fn under_key<'a>(&'a self, slices: &'a [Slice]) -> impl Iterator<Item = BlockId> + 'a {
        slices.iter().map(|slice| slice.block).filter(|block| self.under.contains(block))
    }

    /// Notes that a file or a part references these blocks.
    fn see(&mut self, blocks: &BTreeSet<BlockId>) {
        for block in blocks {
            self.unseen.remove(block);
        }
    }
}
