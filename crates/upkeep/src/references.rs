//! Finds out which blocks are referenced by a record.
//!
//! For example, the sweeper asks for 10,000 blocks of an ended session, and receives those of them
//! that some file, part, orphan or pending record references.

use std::collections::HashSet;

use record::key::{self, space};
use record::{BlockId, Inode, MapPage, Orphan, Part, Slice};
use session::scan::{CompleteScan, Throttling, block_of, ino_of, slices_of, walk_throttled};
use session::{VolumeError, corrupt};
use store::{Key, MetaStore, Read, ReadResult, Value};

/// Blocks about which one round trip asks.
const BLOCKS_AT_ONCE: usize = 256;

/// Returns those of `candidates` that a record references. All candidates must belong to sessions
/// that have ended. A reference that moves to another record during the scan may be missed;
/// [`find_shared_or_pending`] finds those. See [`crate::sweeper`] for the reasons.
pub(crate) async fn find_referenced(
    store: &dyn MetaStore,
    throttling: Throttling<'_>,
    candidates: &HashSet<BlockId>,
) -> Result<CompleteScan<HashSet<BlockId>>, VolumeError> {
    let (mut referenced, mut walks) = (HashSet::new(), Vec::new());
    for space in space::REFERENCING_BLOCKS {
        let walk = walk_throttled(store, throttling, space, |key, value| {
            visit_blocks(&key, &value, |block| {
                if candidates.contains(&block) {
                    referenced.insert(block);
                }
            })
        })
        .await?;
        walks.push(walk);
    }
    Ok(CompleteScan::combine(&walks, referenced))
}

/// Returns those of `blocks` that have a share record (the record of one owner of a block), or that
/// await deletion by the reaper.
pub(crate) async fn find_shared_or_pending(
    store: &dyn MetaStore,
    blocks: &[BlockId],
) -> Result<HashSet<BlockId>, VolumeError> {
    let mut found = HashSet::new();
    // Each block takes two reads, so a round trip asks about half as many blocks as the store
    // permits reads.
    for blocks in blocks.chunks((BLOCKS_AT_ONCE * 2).min(store.limits().reads).max(2) / 2) {
        let reads: Vec<Read> = blocks
            .iter()
            .flat_map(|block| {
                // One share is enough to show that the block is in use.
                let (start, end) = key::shares(*block);
                let pending = key::pending(*block);
                let shares = Read::Range { start, end, limit: 1, follow: None };
                [shares, Read::Record { key: pending, follow: None }]
            })
            .collect();
        let answers = store.read(&reads).await?;
        if answers.len() != reads.len() {
            return Err(VolumeError::Corrupt(
                "the metadata store returned fewer results than were requested".into(),
            ));
        }
        for (block, answers) in blocks.iter().zip(answers.chunks(2)) {
            let none = |found: &ReadResult| match found {
                ReadResult::Range(entries) => entries.is_empty(),
                ReadResult::Record(record) => record.is_none(),
                ReadResult::Counter(_) => false,
            };
            if !answers.iter().all(none) {
                found.insert(*block);
            }
        }
    }
    Ok(found)
}

/// Visits every block that a record references.
fn visit_blocks(
    key: &Key,
    value: &Value,
    mut visit: impl FnMut(BlockId),
) -> Result<(), VolumeError> {
    let failed = |error| corrupt(key, &error);
    let mut slices = |slices: &[Slice]| slices.iter().for_each(|slice| visit(slice.block));
    match key.space() {
        space::INODE => slices(slices_of(&Inode::decode(key, value).map_err(failed)?)),
        space::MAP => slices(&MapPage::decode(key, value).map_err(failed)?.0),
        space::PART => slices(&Part::decode(key, value).map_err(failed)?.slices),
        space::ORPHAN => match Orphan::decode(key, value).map_err(failed)? {
            Orphan::Detached { inode, .. } => {
                let at = key::inode(ino_of(key)?);
                slices(slices_of(&Inode::decode(&at, &inode).map_err(failed)?));
            }
            // The owner may reference other blocks now, but readers may still use the old ones.
            Orphan::Hidden { blocks, .. } => blocks.iter().for_each(|hidden| visit(hidden.block)),
            Orphan::File { .. } | Orphan::Bucket | Orphan::Upload { .. } => {}
        },
        _ => visit(block_of(key)?),
    }
    Ok(())
}
