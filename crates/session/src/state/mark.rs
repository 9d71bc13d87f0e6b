//! The mark of a volume: an object beside its blocks that contains the volume's id, and a random id
//! of this block location.
//!
//! The sweeper deletes blocks that no record names. And a gateway that opened a volume over an
//! empty location would serve none of its objects, and would write new ones where no other gateway
//! finds them. So a volume opens only over the location whose id its record has, and a volume is
//! created only where there are no blocks and no mark.
//!
//! ```text
//! record committed -> location marked -> its id committed as `place` -> session begins
//! ```
//!
//! A crash after the first step leaves a volume whose record has no `place`; its next start marks
//! the location. There is never a mark without a volume. If the record has a `place` and the
//! location has no mark, then it is another location, or a disk is not mounted there, or the blocks
//! were restored without the mark. For example, an operator mistypes `--blocks`: the start is
//! refused, and nothing is written.
//!
//! Several gateways of a new volume can start at the same time, each over a location of its own.
//! Each marks its location with another id. The first commit decides: the others remove the marks
//! that they have written, and are refused. Two gateways over one shared location find one mark,
//! and both start.
//!
//! An adoption draws a new id, so the previous location is refused from then on. A copy of a
//! location with its mark cannot be distinguished from the original until one of both is adopted.

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

/// Text between the volume's id and the location's id in the mark.
const MARK_MIDDLE: &str = " place ";

/// Text after the ids in the mark: the format of the mark.
const MARK_SUFFIX: &str = " format 1\n";

/// The operator's choices if blocks belong to another volume.
const ADVICE: &str = "give the --meta that belongs to them, or another --blocks";

/// The volume to which blocks belong and the id of their location, as in the mark: the object
/// beside the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockOwner {
    volume: [u8; 16],
    /// Random, so that two locations of one volume differ.
    pub(super) place: [u8; 16],
}

/// The mark of a location after [`claim`] or [`replace`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub(super) owner: BlockOwner,
    /// True if this process has written the mark.
    pub(super) is_new: bool,
}

impl BlockOwner {
    pub(super) fn new(volume: &VolumeRecord, place: [u8; 16]) -> BlockOwner {
        BlockOwner { volume: volume.id, place }
    }

    fn mark(self) -> Bytes {
        let (volume, place) = (hex::encode(self.volume), hex::encode(self.place));
        format!("{MARK_PREFIX}{volume}{MARK_MIDDLE}{place}{MARK_SUFFIX}").into()
    }

    fn parse(mark: &[u8]) -> Option<BlockOwner> {
        let mark = std::str::from_utf8(mark).ok()?;
        let ids = mark.strip_prefix(MARK_PREFIX)?.strip_suffix(MARK_SUFFIX)?;
        let (id, location) = ids.split_once(MARK_MIDDLE)?;
        let (mut volume, mut place) = ([0; 16], [0; 16]);
        hex::decode_to_slice(id, &mut volume).ok()?;
        hex::decode_to_slice(location, &mut place).ok()?;
        Some(BlockOwner { volume, place })
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

/// Returns true if these bytes are the mark of a volume in the format that this release knows.
pub fn is_mark(bytes: &[u8]) -> bool {
    BlockOwner::parse(bytes).is_some()
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
        Some(owner) => format!("the blocks belong to volume {}", hex::encode(owner.volume)),
    };
    let or = if kept {
        ""
    } else {
        "; it has no blocks now: if that volume is not used any more, remove the object \"volume\" \
         from their location"
    };
    Err(VolumeError::Refused(format!("{whose}, but the metadata store is new: {ADVICE}{or}")))
}

/// Fails if the volume's block location was marked before, and the given location has no mark or
/// the mark of another location of the volume.
pub(super) fn check_kept(
    owner: Option<BlockOwner>,
    volume: &VolumeRecord,
) -> Result<(), VolumeError> {
    let Some(place) = volume.place else { return Ok(()) };
    match owner {
        Some(owner) if owner.place == place => Ok(()),
        Some(_) => Err(elsewhere(volume)),
        None => Err(VolumeError::Refused(format!(
            "the block location of volume {} has its mark, and this location bears no mark: give the \
             --blocks of this volume, and mount the disk or share that belongs there; if the blocks \
             were restored to this location without the object \"volume\", start once with \
             --adopt-blocks",
            hex::encode(volume.id)
        ))),
    }
}

/// Returns the error for a location that is not the one of the volume's record.
pub(super) fn elsewhere(volume: &VolumeRecord) -> VolumeError {
    VolumeError::Refused(format!(
        "volume {} has its blocks in another location, which another gateway marked first or which \
         was adopted later: give the --blocks of that location to every process of the volume; if the \
         blocks were moved or restored to this location, stop all processes of the volume and start \
         once with --adopt-blocks",
        hex::encode(volume.id)
    ))
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

/// Sets the mark `ours` if the location has none. Returns the mark that it has then, which can be
/// the mark of another process or volume.
pub(super) async fn claim(
    blocks: &dyn BlockStore,
    owner: Option<BlockOwner>,
    ours: BlockOwner,
) -> Result<Claimed, VolumeError> {
    if let Some(owner) = owner {
        return Ok(Claimed { owner, is_new: false });
    }
    let conflict = match blocks.set_mark(ours.mark()).await {
        Ok(()) => None,
        // Another process marked the location at the same time, and was faster.
        Err(error) if error.kind() == BlockErrorKind::Conflict => Some(error),
        Err(error) => return Err(error.into()),
    };
    // Read back after a success, too: a bucket that does not support conditional writes may keep
    // the mark of another process.
    match (read(blocks).await?, conflict) {
        (Some(owner), _) => Ok(Claimed { owner, is_new: owner == ours }),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(VolumeError::Unavailable("the mark was removed meanwhile".to_owned())),
    }
}

/// Replaces the mark of an adopted location by `ours`. After a crash in between the location has no
/// mark, and the operator adopts it again.
pub(super) async fn replace(
    blocks: &dyn BlockStore,
    owner: Option<BlockOwner>,
    ours: BlockOwner,
) -> Result<Claimed, VolumeError> {
    if let Some(owner) = owner {
        remove(blocks, owner).await?;
    }
    claim(blocks, None, ours).await
}

/// Removes a mark. The mark of another location stays.
pub(super) async fn remove(blocks: &dyn BlockStore, owner: BlockOwner) -> Result<(), VolumeError> {
    Ok(blocks.remove_mark(owner.mark()).await?)
}

/// Fails if the location has the mark of another volume.
pub(super) fn check_owner(
    owner: Option<BlockOwner>,
    volume: &VolumeRecord,
) -> Result<(), VolumeError> {
    let Some(owner) = owner.filter(|owner| owner.volume != volume.id) else { return Ok(()) };
    Err(VolumeError::Refused(format!(
        "the blocks belong to volume {}, but the metadata store belongs to volume {}: {ADVICE}",
        hex::encode(owner.volume),
        hex::encode(volume.id)
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
