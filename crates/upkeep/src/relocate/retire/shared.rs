//! Blocks of several owners under a ring key that is retired: packs, and blocks of files that were
//! copied or forked by reference.
//!
//! All owners whose content maps are in their records move together, so that the copy is shared as
//! the origin was. For example, a fork shares a block of 16 MiB with its origin, and both reference
//! the one new block afterwards. An owner with a content map in pages moves by itself; see
//! [`super`].

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Content, Inode, Slice, key};
use session::scan::{ino_of, slices_of};
use session::{ReaderGuard, VolumeError};
use store::Key;
use tracing::warn;

use super::Walk;
use crate::relocate::batch::{Batch, Owner, place};
use crate::relocate::packs::{OWNERS_MAX, PackOwner, Source};
use crate::relocate::protect::protection;
use crate::upkeep::Upkeep;

/// The most owners that one step reads.
const OWNERS_AT_ONCE: u32 = 1_024;
const _: () = assert!(OWNERS_AT_ONCE <= OWNERS_MAX);

/// Live bytes of blocks that go into one new block.
struct Gathered {
    batch: Batch,
    bytes: u32,
    /// Pinned from before the owners were read until their plans have settled, so that no block or
    /// page that was found is deleted.
    reading: ReaderGuard,
}

impl Upkeep {
    /// Moves the owners of the blocks of several owners that the walk found.
    pub(super) async fn move_shared(&self, walk: &mut Walk<'_>) -> Result<(), VolumeError> {
        let mut gathered: Option<Gathered> = None;
        for block in std::mem::take(&mut walk.shared) {
            let (mut start, end) = key::shares(block);
            loop {
                self.check_open()?;
                let mut gathering = gathered.take().unwrap_or_else(|| Gathered {
                    batch: Batch::for_pack(),
                    bytes: 0,
                    reading: self.session.reading(),
                });
                let (source, next) =
                    self.shared_source(block, start.clone(), end.clone(), walk).await?;
                let added = match source {
                    None => true,
                    Some(source) => gathering.add(source, self.pack_bytes),
                };
                if !added {
                    // These owners are read again, because this move changes some of them.
                    self.move_gathered(gathering, walk).await?;
                    continue;
                }
                gathered = Some(gathering);
                match next {
                    Some(next) => start = next,
                    None => break,
                }
            }
        }
        match gathered {
            Some(gathering) => self.move_gathered(gathering, walk).await,
            None => Ok(()),
        }
    }

    /// Reads owners of a block, from the share `start`. Returns those that can move, and the share
    /// at which to continue.
    async fn shared_source(
        &self,
        block: BlockId,
        start: Key,
        end: Key,
        walk: &mut Walk<'_>,
    ) -> Result<(Option<Source>, Option<Key>), VolumeError> {
        let limit = OWNERS_AT_ONCE.min(self.session.limits().range_records);
        let shares = self.read_range(start, end, limit).await?;
        let after = |last: &store::Entry| Key::from_bytes([last.key.as_bytes(), &[0]].concat());
        let next = shares.last().filter(|_| shares.len() >= limit as usize).map(after);
        let inos = shares.iter().map(|share| ino_of(&share.key)).collect::<Result<Vec<_>, _>>()?;
        let found = self.read_owners(&inos).await?;
        Ok((source(block, found, walk), next))
    }

    async fn move_gathered(
        &self,
        gathering: Gathered,
        walk: &mut Walk<'_>,
    ) -> Result<(), VolumeError> {
        let Gathered { mut batch, reading, .. } = gathering;
        let settled = self.relocate(&mut batch, &reading).await?;
        walk.progress.moved(settled.step.done.bytes);
        walk.found.moved += settled.step.done;
        walk.found.busy_files += settled.stayed.len() as u64;
        walk.found.unreadable += settled.damaged.len() as u64;
        Ok(())
    }
}

impl Gathered {
    /// Adds the live bytes of a block. Returns false if they do not fit, or if an owner is already
    /// in the batch with an older record. A single block always fits.
    fn add(&mut self, source: Source, pack_bytes: u32) -> bool {
        let bytes = self.bytes.saturating_add(source.bytes);
        let owners = self.batch.owners.len() + source.owners.len();
        let fits = bytes <= pack_bytes && owners <= OWNERS_MAX as usize;
        if !(self.batch.owners.is_empty() || fits) || !self.batch.add(source) {
            return false;
        }
        self.bytes = bytes;
        true
    }
}

/// Returns those of the owners of a block that can move together; `None` without any. The others
/// are parts of uploads, files with pages, and files with a client's key, which the walk treats;
/// or they have lost their names or do not name the block any more.
fn source(block: BlockId, found: Vec<PackOwner>, walk: &mut Walk<'_>) -> Option<Source> {
    let (mut owners, mut chosen) = (BTreeMap::new(), None);
    for PackOwner { ino, record, leaving } in found {
        let Some(record) = record.filter(|_| !leaving) else { continue };
        let inode = match Inode::decode(&key::inode(ino), &record) {
            Ok(inode) => inode,
            Err(error) => {
                warn!(%block, ino = ino.0, %error, "an owner of a block cannot be read; run fsck");
                walk.found.unreadable += 1;
                continue;
            }
        };
        let Some(file) = inode.file() else { continue };
        if matches!(file.content, Content::Pages(_)) {
            continue;
        }
        let named = slices_of(&inode).iter().filter(|slice| slice.block == block);
        let slices: Vec<Slice> = named.copied().collect();
        let Some(protection) = protection(file.encryption.as_ref(), true) else { continue };
        if slices.is_empty() {
            continue;
        }
        walk.see(&BTreeSet::from([block]));
        // One block has one ring key. An owner of another mode moves in the next pass.
        if *chosen.get_or_insert_with(|| protection.clone()) != protection {
            walk.found.busy_files += 1;
            continue;
        }
        owners.insert(ino, Owner { record: Some(record), body: None, slices });
    }
    let slices = owners.values().flat_map(|owner: &Owner| &owner.slices);
    let bytes = place(slices).1;
    let protection = chosen.filter(|_| !owners.is_empty())?;
    Some(Source { bytes, protection, owners })
}
