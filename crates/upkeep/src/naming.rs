//! Which blocks some record names.

use std::collections::HashSet;

use record::key::{self, space};
use record::{BlockId, Inode, MapPage, Orphan, Part, Slice};
use session::scan::{CompleteScan, Throttling, block_of, ino_of, slices_of, walk_throttled};
use session::{VolumeError, corrupt};
use store::{Key, MetaStore, Read, ReadResult, Value};

/// Blocks that one round trip asks after.
const BLOCKS_AT_ONCE: usize = 256;

/// Which of `candidates`, blocks of sessions that have ended, some record names. References that
/// move meanwhile may be missed; [`shared_or_pending`] finds those. See [`crate::sweeper`].
pub(crate) async fn named(
    store: &dyn MetaStore,
    beside: Throttling<'_>,
    candidates: &HashSet<BlockId>,
) -> Result<CompleteScan<HashSet<BlockId>>, VolumeError> {
    let (mut named, mut walks) = (HashSet::new(), Vec::new());
    for space in space::NAMING_BLOCKS {
        let walk = walk_throttled(store, beside, space, |key, value| {
            names(&key, &value, |block| {
                if candidates.contains(&block) {
                    named.insert(block);
                }
            })
        })
        .await?;
        walks.push(walk);
    }
    Ok(CompleteScan::combine(&walks, named))
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

/// Visits the blocks that a record names.
fn names(key: &Key, value: &Value, mut visit: impl FnMut(BlockId)) -> Result<(), VolumeError> {
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
            // Its owner names another block by now, but readers may not have noticed.
            Orphan::Moved { pack, .. } => visit(pack),
            Orphan::Hidden { blocks, .. } => blocks.iter().for_each(|hidden| visit(hidden.block)),
            Orphan::File { .. } | Orphan::Bucket | Orphan::Upload { .. } => {}
        },
        _ => visit(block_of(key)?),
    }
    Ok(())
}
