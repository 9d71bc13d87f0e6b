//! The mark of a volume: an object beside its blocks that contains the volume's id.
//!
//! The sweeper deletes blocks that no record names. And a gateway that opened a volume over an
//! empty location would serve none of its objects, and would write new ones where no other gateway
//! finds them. So a volume opens only over a location that has its own mark, and a volume is
//! created only where there are no blocks and no mark.
//!
//! ```text
//! record committed -> location marked -> `marked` committed -> session begins
//! ```
//!
//! A crash after the first step leaves a volume whose record is not `marked`; its next start marks
//! the location. There is never a mark without a volume. If the record says `marked` and the
//! location has no mark, then it is another location, or a disk is not mounted there, or the blocks
//! were restored without the mark. For example, an operator mistypes `--blocks`: the start is
//! refused, and nothing is written.

use std::collections::HashSet;

use block::{BlockErrorKind, BlockStore};
use bytes::Bytes;
use record::{BlockId, Inode, MapPage, VolumeRecord, key};
use store::MetaStore;

use crate::error::{VolumeError, corrupt};
use crate::scan;

/// Most blocks that a start with `--adopt-blocks` checks.
const ADOPTED_BLOCKS_MAX: usize = 16;

/// Most pages of records, and records in a page, that a start with `--adopt-blocks` reads to find
/// the ids of these blocks.
const ADOPTED_PAGES_MAX: usize = 20;
const ADOPTED_PAGE_RECORDS: u32 = 1_000;

/// Text before the volume's id in the mark.
const MARK_PREFIX: &str = "ashlar volume ";

/// Text after the volume's id in the mark: the format of the mark.
const MARK_SUFFIX: &str = " format 1\n";

/// The operator's choices if blocks belong to another volume.
const ADVICE: &str = "give the --meta that belongs to them, or another --blocks";

/// The id of the volume to which blocks belong, as in the mark: the object beside the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockOwner([u8; 16]);

impl BlockOwner {
    fn mark(self) -> Bytes {
        format!("{MARK_PREFIX}{}{MARK_SUFFIX}", hex::encode(self.0)).into()
    }

    fn parse(mark: &[u8]) -> Option<BlockOwner> {
        let id = mark.strip_prefix(MARK_PREFIX.as_bytes())?.strip_suffix(MARK_SUFFIX.as_bytes())?;
        let mut bytes = [0; 16];
        hex::decode_to_slice(id, &mut bytes).ok()?;
        Some(BlockOwner(bytes))
    }
}

/// Reads the mark, the object that names the volume of the blocks; `None` if there is none.
pub(super) async fn read(blocks: &dyn BlockStore) -> Result<Option<BlockOwner>, VolumeError> {
    let Some(mark) = blocks.mark().await? else { return Ok(None) };
    BlockOwner::parse(&mark).map(Some).ok_or_else(|| {
        VolumeError::Refused(
            "the object \"volume\" beside the blocks has a format that this release does not know: \
             use a newer release, or another --blocks"
                .to_owned(),
        )
    })
}

/// Fails unless a new volume may use this block location: it must have no blocks and no mark of a
/// volume (`owner`).
pub(super) async fn check_free(
    blocks: &dyn BlockStore,
    owner: Option<BlockOwner>,
) -> Result<(), VolumeError> {
    let kept = keeps_blocks(blocks).await?;
    let whose = match owner {
        None if !kept => return Ok(()),
        None => "the location has blocks of an unnamed volume already".to_owned(),
        Some(BlockOwner(id)) => format!("the blocks belong to volume {}", hex::encode(id)),
    };
    let or = if kept {
        ""
    } else {
        "; it has no blocks now: if that volume is not used any more, remove the object \"volume\" \
         from their location"
    };
    Err(VolumeError::Refused(format!("{whose}, but the metadata store is new: {ADVICE}{or}")))
}

/// Fails if the volume's block location was marked before and the given location has no mark.
pub(super) fn check_kept(
    owner: Option<BlockOwner>,
    volume: &VolumeRecord,
) -> Result<(), VolumeError> {
    if owner.is_some() || !volume.marked {
        return Ok(());
    }
    Err(VolumeError::Refused(format!(
        "the block location of volume {} has its mark, and this location bears no mark: give the \
         --blocks of this volume, and mount the disk or share that belongs there; if the blocks were \
         restored to this location without the object \"volume\", start once with --adopt-blocks",
        hex::encode(volume.id)
    )))
}

/// Fails if files of the volume name blocks, and none of the first of these blocks is in the
/// location. An operator who adopts an empty or mistyped location would split the volume.
pub(super) async fn check_adoptable(
    store: &dyn MetaStore,
    blocks: &dyn BlockStore,
) -> Result<(), VolumeError> {
    let named = named_blocks(store).await?;
    for &id in &named {
        if blocks.size(id).await?.is_some() {
            return Ok(());
        }
    }
    if named.is_empty() {
        return Ok(());
    }
    Err(VolumeError::Refused(format!(
        "--adopt-blocks is for a location to which the blocks of this volume were restored, and this one \
         has none of {} blocks that files of the volume name: give the --blocks of this volume, mount the \
         disk or share that belongs there, or restore the blocks first",
        named.len()
    )))
}

/// Returns up to [`ADOPTED_BLOCKS_MAX`] blocks that files of the volume name, from the first
/// records.
async fn named_blocks(store: &dyn MetaStore) -> Result<HashSet<BlockId>, VolumeError> {
    let mut named = HashSet::new();
    for space in [key::space::INODE, key::space::MAP] {
        let mut resume = None;
        // A few pages suffice to find blocks in most volumes. A start must not walk a store of
        // millions of records.
        for _ in 0..ADOPTED_PAGES_MAX {
            let page = store.walk(space, resume, ADOPTED_PAGE_RECORDS).await?;
            for (key, value) in &page.records {
                let failed = |error| corrupt(key, &error);
                if space == key::space::MAP {
                    let page = MapPage::decode(key, value).map_err(failed)?;
                    named.extend(page.0.iter().map(|slice| slice.block));
                } else {
                    let inode = Inode::decode(key, value).map_err(failed)?;
                    named.extend(scan::slices_of(&inode).iter().map(|slice| slice.block));
                }
                if named.len() >= ADOPTED_BLOCKS_MAX {
                    return Ok(named.into_iter().take(ADOPTED_BLOCKS_MAX).collect());
                }
            }
            match page.resume {
                Some(next) => resume = Some(next),
                None => break,
            }
        }
    }
    Ok(named)
}

/// Marks the block location with the volume's id if it has no mark. Fails if it has the mark of
/// another volume.
pub(super) async fn claim(
    blocks: &dyn BlockStore,
    owner: Option<BlockOwner>,
    volume: &VolumeRecord,
) -> Result<(), VolumeError> {
    let ours = BlockOwner(volume.id);
    let owner = match owner {
        Some(owner) => owner,
        None => match blocks.set_mark(ours.mark()).await {
            Ok(()) => ours,
            // Another process marked the location at the same time, and was faster.
            Err(error) if error.kind() == BlockErrorKind::Conflict => {
                read(blocks).await?.ok_or_else(|| VolumeError::from(error))?
            }
            Err(error) => return Err(error.into()),
        },
    };
    check_owner(Some(owner), volume)
}

/// Fails if the location has the mark of another volume.
pub(super) fn check_owner(
    owner: Option<BlockOwner>,
    volume: &VolumeRecord,
) -> Result<(), VolumeError> {
    let ours = BlockOwner(volume.id);
    let Some(owner) = owner.filter(|owner| *owner != ours) else { return Ok(()) };
    Err(VolumeError::Refused(format!(
        "the blocks belong to volume {}, but the metadata store belongs to volume {}: {ADVICE}",
        hex::encode(owner.0),
        hex::encode(ours.0)
    )))
}

/// Returns true if the location has at least one block. A session without blocks may be listed,
/// too.
async fn keeps_blocks(blocks: &dyn BlockStore) -> Result<bool, VolumeError> {
    for session in blocks.sessions().await? {
        if !scan::blocks_of(blocks, session).await?.get().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
