//! Whose blocks these are: the volume's id stands beside its blocks.
//!
//! To a sweeper, blocks of sessions that no record knows are leftovers. So a volume is opened only
//! over blocks that bear its own mark or none, and a volume is made only where there are no blocks
//! and no mark. The mark is set once the volume's record is committed and before the first session
//! begins: a crash between the two leaves a volume without a mark, which its next start sets, and
//! never a mark without a volume.
//!
//! Knows nothing of where blocks lie; whoever asked for the volume says so.

use block::{BlockErrorKind, BlockStore};
use bytes::Bytes;
use record::VolumeRecord;

use crate::error::VolumeError;
use crate::scan;

/// What stands before a volume's id in its mark.
const BEFORE: &str = "ashlar volume ";

/// What stands behind it: the format of the mark.
const BEHIND: &str = " format 1\n";

/// What an operator can do about blocks of another volume.
const ADVICE: &str = "give the --meta that belongs to them, or another --blocks";

/// Whose blocks these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockOwner([u8; 16]);

impl BlockOwner {
    fn mark(self) -> Bytes {
        format!("{BEFORE}{}{BEHIND}", hex::encode(self.0)).into()
    }

    fn parse(mark: &[u8]) -> Option<BlockOwner> {
        let id = mark.strip_prefix(BEFORE.as_bytes())?.strip_suffix(BEHIND.as_bytes())?;
        let mut bytes = [0; 16];
        hex::decode_to_slice(id, &mut bytes).ok()?;
        Some(BlockOwner(bytes))
    }
}

/// Whose blocks these are, if it was written down.
pub(super) async fn read(blocks: &dyn BlockStore) -> Result<Option<BlockOwner>, VolumeError> {
    let Some(mark) = blocks.mark().await? else { return Ok(None) };
    BlockOwner::parse(&mark).map(Some).ok_or_else(|| {
        VolumeError::Refused(
            "what is named \"volume\" beside the blocks does not say whose they are in words that \
             this release knows: use a newer release, or another --blocks"
                .to_owned(),
        )
    })
}

/// An error unless a new volume may keep its blocks here.
pub(super) async fn check_free(
    blocks: &dyn BlockStore,
    owner: Option<BlockOwner>,
) -> Result<(), VolumeError> {
    let kept = keeps_blocks(blocks).await?;
    let whose = match owner {
        None if !kept => return Ok(()),
        None => "there are blocks of an unnamed volume already".to_owned(),
        Some(BlockOwner(id)) => format!("the blocks belong to volume {}", hex::encode(id)),
    };
    let or = if kept {
        ""
    } else {
        "; there are none now: if that volume is given up, remove what is named \"volume\" beside \
         them"
    };
    Err(VolumeError::Refused(format!("{whose}, but the metadata store is new: {ADVICE}{or}")))
}

/// Marks the blocks as the volume's, unless they are.
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
            // Another volume was opened over the same blocks at the same time, and was faster.
            Err(error) if error.kind() == BlockErrorKind::Conflict => {
                read(blocks).await?.ok_or_else(|| VolumeError::from(error))?
            }
            Err(error) => return Err(error.into()),
        },
    };
    if owner == ours {
        return Ok(());
    }
    Err(VolumeError::Refused(format!(
        "the blocks belong to volume {}, but the metadata store belongs to volume {}: {ADVICE}",
        hex::encode(owner.0),
        hex::encode(ours.0)
    )))
}

/// Whether a block is here. A session that is named may have none.
async fn keeps_blocks(blocks: &dyn BlockStore) -> Result<bool, VolumeError> {
    for session in blocks.sessions().await? {
        if !scan::blocks_of(blocks, session).await?.get().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
