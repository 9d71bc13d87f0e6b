//! Scans of record spaces and of lists of blocks. Only a complete scan may lead to deletions.
//!
//! A scan fails on any error of the store, and on any error of the visitor, for example a record
//! that does not decode. Only a scan that has reached the end returns a [`CompleteScan`], and no
//! other code can create one. For example, the sweeper deletes a block only if a complete scan of
//! all references did not find it. A scan may take hours, so it pins no epoch, and it is throttled
//! between two pages while requests are served.

use block::BlockStore;
use bytes::Bytes;
use record::{BlockId, Content, Ino, Inode, Nonce, Slice};
use store::{Key, MetaStore, Space, Value};

use crate::error::VolumeError;
use crate::error::closing;
use crate::throttle::{Priority, Throttle, ThrottledStep};

/// The number of records in one page of a walk over a record space.
const WALK_RECORDS: u32 = 1_000;

/// The limit of consecutive empty pages in a block listing. After more the scan fails, because the
/// list may have no end.
const EMPTY_PAGES_MAX: u32 = 1_000;

/// The result of a scan that reached its end without an error.
#[derive(Debug)]
pub struct CompleteScan<T>(T);

impl<T> CompleteScan<T> {
    /// Returns `result`, which the caller has computed from these complete scans, as the result of
    /// a complete scan.
    pub fn combine(_scans: &[CompleteScan<u64>], result: T) -> CompleteScan<T> {
        CompleteScan(result)
    }

    /// Returns the result of the scan.
    pub fn get(&self) -> &T {
        &self.0
    }
}

/// The throttle of a scan, which pauses it while requests are served, and the scan's priority.
/// `None` for a command that runs alone.
pub type Throttling<'a> = Option<(&'a Throttle, Priority)>;

/// Begins a page of a scan. Returns the step after which `pause_after` pauses; `None` without
/// throttling. Fails if the volume is closing.
fn begin(throttling: Throttling<'_>) -> Result<Option<ThrottledStep>, VolumeError> {
    let Some((throttle, priority)) = throttling else { return Ok(None) };
    if throttle.is_closing() {
        return Err(closing());
    }
    Ok(Some(throttle.begin_step(priority)))
}

async fn pause(throttling: Throttling<'_>, step: Option<ThrottledStep>) {
    if let Some(((throttle, _), step)) = throttling.zip(step) {
        throttle.pause_after(step).await;
    }
}

/// Visits every record of a space (one kind of records) that exists during the whole scan at least
/// once. Returns the number of visits. Fails with the first error of the store or of `visit`.
pub async fn walk(
    store: &dyn MetaStore,
    space: Space,
    visit: impl FnMut(Key, Value) -> Result<(), VolumeError> + Send,
) -> Result<CompleteScan<u64>, VolumeError> {
    walk_throttled(store, None, space, visit).await
}

/// As [`walk`], with pauses between two pages while requests are served. Fails with
/// [`VolumeError::Unavailable`] if the volume is closing.
pub async fn walk_throttled(
    store: &dyn MetaStore,
    throttling: Throttling<'_>,
    space: Space,
    mut visit: impl FnMut(Key, Value) -> Result<(), VolumeError> + Send,
) -> Result<CompleteScan<u64>, VolumeError> {
    let (mut count, mut resume): (u64, Option<Bytes>) = (0, None);
    loop {
        // Checked for each page, because a scan may take hours and must not delay the end of the
        // process.
        let step = begin(throttling)?;
        let page = store.walk(space, resume, WALK_RECORDS).await?;
        // One record that cannot be decoded ends the scan: it might name the block that a caller
        // would delete.
        for (key, value) in page.records {
            visit(key, value)?;
            count += 1;
        }
        match page.resume {
            Some(next) => resume = Some(next),
            None => return Ok(CompleteScan(count)),
        }
        pause(throttling, step).await;
    }
}

/// Returns all blocks of a session with their sealed sizes (content, header and checksums) in
/// bytes. Fails with the errors of the block store, and with [`VolumeError::Unavailable`] if the
/// list has no end.
pub async fn blocks_of(
    blocks: &dyn BlockStore,
    session: Nonce,
) -> Result<CompleteScan<Vec<(BlockId, u64)>>, VolumeError> {
    blocks_throttled(blocks, None, session).await
}

/// As [`blocks_of`], with pauses between two pages while requests are served. Fails also if the
/// volume is closing.
pub async fn blocks_throttled(
    blocks: &dyn BlockStore,
    throttling: Throttling<'_>,
    session: Nonce,
) -> Result<CompleteScan<Vec<(BlockId, u64)>>, VolumeError> {
    let (mut all, mut resume, mut empty) = (Vec::new(), None, 0);
    loop {
        let step = begin(throttling)?;
        let page = blocks.list(session, resume).await?;
        empty = if page.blocks.is_empty() { empty + 1 } else { 0 };
        all.extend(page.blocks);
        match page.resume {
            None => return Ok(CompleteScan(all)),
            Some(_) if empty > EMPTY_PAGES_MAX => {
                let endless = format!("the blocks of session {session} have no end");
                return Err(VolumeError::Unavailable(endless));
            }
            next => resume = next,
        }
        pause(throttling, step).await;
    }
}

/// Returns the slices (runs of bytes of one block) in an inode's record; none if its content is
/// inline or in pages of a content map.
pub fn slices_of(inode: &Inode) -> &[Slice] {
    match inode.file().map(|file| &file.content) {
        Some(Content::Slices(slices)) => slices,
        _ => &[],
    }
}

/// Returns the inode number at the end of a key, for example of an orphan. Fails with `Corrupt` if
/// the key is too short.
pub fn ino_of(key: &Key) -> Result<Ino, VolumeError> {
    let bytes = key.suffix().last_chunk::<8>().copied();
    let bytes = bytes.ok_or_else(|| VolumeError::Corrupt(format!("no number in {key:?}")))?;
    Ok(Ino(u64::from_be_bytes(bytes)))
}

/// Returns the block id at the beginning of a key: of a pending block, which awaits deletion, or of
/// a share, which records one owner of a block. Fails with `Corrupt` if the key is too short.
pub fn block_of(key: &Key) -> Result<BlockId, VolumeError> {
    let bytes = key.suffix().first_chunk().copied();
    bytes.map(BlockId).ok_or_else(|| VolumeError::Corrupt(format!("no block in {key:?}")))
}

/// Returns the session name at the beginning of a key: of an idempotency slot, which proves if a
/// plan was committed, or of a record that a session staged. Fails with `Corrupt` if the key is too
/// short.
pub fn nonce_of(key: &Key) -> Result<Nonce, VolumeError> {
    let bytes = key.suffix().first_chunk().copied();
    bytes.map(Nonce).ok_or_else(|| VolumeError::Corrupt(format!("no session in {key:?}")))
}
