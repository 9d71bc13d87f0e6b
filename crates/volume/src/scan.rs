//! Complete enumerations, which alone may lead to a deletion.
//!
//! An error, a short page or a record that does not decode ends an enumeration with an error.
//! What came through to its end is a [`Complete`], and nothing else makes one. An enumeration may
//! take hours: it pins nothing, and gives way to requests between two pages.

use std::collections::HashSet;

use block::BlockStore;
use bytes::Bytes;
use record::key::{self, space};
use record::{BlockId, Content, Ino, Inode, MapPage, Nonce, Orphan, Part, Slice};
use store::{Found, Key, MetaStore, Read, Space, Value};

use crate::pace::{Pace, Step};
use crate::reaper::{closing, corrupt};
use crate::{Volume, VolumeError};

/// Records of one page of a walk.
const WALK_RECORDS: u32 = 1_000;

/// Blocks that one round trip asks after.
const BLOCKS_AT_ONCE: usize = 256;

/// Pages of a listing that may be empty in a row.
const EMPTY_PAGES_MAX: u32 = 1_000;

/// The result of an enumeration that came to its end without an error.
#[derive(Debug)]
pub(crate) struct Complete<T>(T);

impl<T> Complete<T> {
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

/// Whose enumeration it is, if it gives way to what its gateway serves.
pub(crate) type Beside<'a> = Option<(&'a Volume, Pace)>;

/// Begins a page; an error if the volume closes meanwhile.
fn begin(beside: Beside<'_>) -> Result<Option<Step>, VolumeError> {
    let Some((volume, pace)) = beside else { return Ok(None) };
    if volume.closing.is_cancelled() {
        return Err(closing());
    }
    Ok(Some(volume.begin_step(pace)))
}

async fn rest(beside: Beside<'_>, step: Option<Step>) {
    if let Some(((volume, _), step)) = beside.zip(step) {
        volume.rest_after(step).await;
    }
}

/// Visits every record of a space that exists throughout, at least once. Answers how many.
pub(crate) async fn walk(
    store: &dyn MetaStore,
    space: Space,
    visit: impl FnMut(Key, Value) -> Result<(), VolumeError> + Send,
) -> Result<Complete<u64>, VolumeError> {
    walk_beside(store, None, space, visit).await
}

/// As [`walk`], page by page beside what a gateway serves.
pub(crate) async fn walk_beside(
    store: &dyn MetaStore,
    beside: Beside<'_>,
    space: Space,
    mut visit: impl FnMut(Key, Value) -> Result<(), VolumeError> + Send,
) -> Result<Complete<u64>, VolumeError> {
    let (mut count, mut resume): (u64, Option<Bytes>) = (0, None);
    loop {
        let step = begin(beside)?;
        let page = store.walk(space, resume, WALK_RECORDS).await?;
        for (key, value) in page.records {
            visit(key, value)?;
            count += 1;
        }
        match page.resume {
            Some(next) => resume = Some(next),
            None => return Ok(Complete(count)),
        }
        rest(beside, step).await;
    }
}

/// All blocks of a session and their sealed sizes.
pub(crate) async fn blocks_of(
    blocks: &dyn BlockStore,
    session: Nonce,
) -> Result<Complete<Vec<(BlockId, u64)>>, VolumeError> {
    blocks_beside(blocks, None, session).await
}

/// As [`blocks_of`], page by page beside what a gateway serves.
pub(crate) async fn blocks_beside(
    blocks: &dyn BlockStore,
    beside: Beside<'_>,
    session: Nonce,
) -> Result<Complete<Vec<(BlockId, u64)>>, VolumeError> {
    let (mut all, mut resume, mut empty) = (Vec::new(), None, 0);
    loop {
        let step = begin(beside)?;
        let page = blocks.list(session, resume).await?;
        empty = if page.blocks.is_empty() { empty + 1 } else { 0 };
        all.extend(page.blocks);
        match page.resume {
            None => return Ok(Complete(all)),
            Some(_) if empty > EMPTY_PAGES_MAX => {
                let endless = format!("the blocks of session {session} have no end");
                return Err(VolumeError::Unavailable(endless));
            }
            next => resume = next,
        }
        rest(beside, step).await;
    }
}

/// Which of `candidates`, blocks of sessions that have ended, some record names, but for those whose
/// new names [`shared_or_pending`] finds. What moves meanwhile: see [`crate::sweeper`].
pub(crate) async fn named(
    store: &dyn MetaStore,
    beside: Beside<'_>,
    candidates: &HashSet<BlockId>,
) -> Result<Complete<HashSet<BlockId>>, VolumeError> {
    let mut named = HashSet::new();
    for space in space::NAMING_BLOCKS {
        walk_beside(store, beside, space, |key, value| {
            names(&key, &value, |block| {
                if candidates.contains(&block) {
                    named.insert(block);
                }
            })
        })
        .await?;
    }
    Ok(Complete(named))
}

/// Which of these blocks have a record of an owner's share, or await deletion by the reaper.
pub(crate) async fn shared_or_pending(
    store: &dyn MetaStore,
    blocks: &[BlockId],
) -> Result<HashSet<BlockId>, VolumeError> {
    let mut found = HashSet::new();
    for blocks in blocks.chunks((BLOCKS_AT_ONCE * 2).min(store.limits().reads).max(2) / 2) {
        let reads: Vec<Read> = blocks
            .iter()
            .flat_map(|block| {
                let (start, end) = key::shares(*block);
                let pending = key::pending(*block);
                let shares = Read::Range { start, end, limit: 1, follow: None };
                [shares, Read::Record { key: pending, follow: None }]
            })
            .collect();
        let answers = store.read(&reads).await?;
        if answers.len() != reads.len() {
            return Err(VolumeError::Corrupt("the store answered less than it was asked".into()));
        }
        for (block, answers) in blocks.iter().zip(answers.chunks(2)) {
            let none = |found: &Found| match found {
                Found::Range(entries) => entries.is_empty(),
                Found::Record(record) => record.is_none(),
                Found::Tally(_) => false,
            };
            if !answers.iter().all(none) {
                found.insert(*block);
            }
        }
    }
    Ok(found)
}

/// Visits the blocks that a record names.
fn names(key: &Key, value: &Value, mut visit: impl FnMut(BlockId)) -> Result<(), VolumeError> {
    let failed = |error| corrupt(key, &error);
    let mut slices = |slices: &[Slice]| slices.iter().for_each(|slice| visit(slice.block));
    match key.space() {
        space::INODE => slices(slices_of(&Inode::decode(key, value).map_err(failed)?)),
        space::MAP => slices(&MapPage::decode(key, value).map_err(failed)?.0),
        space::PART => slices(&Part::decode(key, value).map_err(failed)?.slices),
        space::ORPHAN => match Orphan::decode(key, value).map_err(failed)? {
            Orphan::Doomed { inode, .. } => {
                let at = key::inode(ino_of(key)?);
                slices(slices_of(&Inode::decode(&at, &inode).map_err(failed)?));
            }
            // Its owner names another block by now, but readers may not have noticed.
            Orphan::Moved { pack, .. } => visit(pack),
            Orphan::File { .. } | Orphan::Bucket | Orphan::Upload { .. } => {}
        },
        _ => visit(block_of(key)?),
    }
    Ok(())
}

/// The slices in an inode's record.
pub(crate) fn slices_of(inode: &Inode) -> &[Slice] {
    match inode.file().map(|file| &file.content) {
        Some(Content::Slices(slices)) => slices,
        _ => &[],
    }
}

/// The inode's number that an orphan's key ends with.
pub(crate) fn ino_of(key: &Key) -> Result<Ino, VolumeError> {
    let bytes = key.suffix().last_chunk::<8>().copied();
    let bytes = bytes.ok_or_else(|| VolumeError::Corrupt(format!("no number in {key:?}")))?;
    Ok(Ino(u64::from_be_bytes(bytes)))
}

/// The block that a key begins with: of pending blocks and of shares.
pub(crate) fn block_of(key: &Key) -> Result<BlockId, VolumeError> {
    let bytes = key.suffix().first_chunk().copied();
    bytes.map(BlockId).ok_or_else(|| VolumeError::Corrupt(format!("no block in {key:?}")))
}

/// The session that a key begins with: of tokens and of what is staged.
pub(crate) fn nonce_of(key: &Key) -> Result<Nonce, VolumeError> {
    let bytes = key.suffix().first_chunk().copied();
    bytes.map(Nonce).ok_or_else(|| VolumeError::Corrupt(format!("no session in {key:?}")))
}
