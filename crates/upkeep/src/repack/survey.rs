//! The survey that finds sparse packs by their counters of live bytes.
//!
//! For example, it finds packs that became sparse while the gateway that wrote them was not
//! running.

use record::{BlockId, Inode, key, key::space};
use session::scan::{ino_of, slices_of};
use session::{VolumeError, closing, value};
use store::{CounterKey, Read, ReadResult};

use crate::repack_queue::is_sparse;
use crate::upkeep::Upkeep;

/// Counters of live bytes on one page of the survey.
const WALK_COUNTERS: u32 = 1_000;

/// Packs about which one round trip asks.
const PACKS_AT_ONCE: usize = 256;

/// At least the default size of packs in every release, so that packs that were written with
/// another setting are found, too.
const PACK_BYTES_USUAL: u32 = 8 << 20;

impl Upkeep {
    /// Queues every pack (block of several files) for the rewriter of which, by its counter, few
    /// bytes are live.
    pub(super) async fn survey_packs(&self) -> Result<(), VolumeError> {
        let longest = self.repacking.pack_bytes.max(PACK_BYTES_USUAL);
        let mut resume = None;
        loop {
            let page =
                self.session.store().walk_counters(space::LIVE, resume, WALK_COUNTERS).await?;
            let suspects = page.counters.iter().filter_map(|(CounterKey(key), live)| {
                let pack = BlockId(key.suffix().try_into().ok()?);
                let live = u64::try_from(*live).ok().filter(|live| *live > 0)?;
                is_sparse(live, longest).then_some((pack, live))
            });
            let suspects: Vec<(BlockId, u64)> = suspects.collect();
            for suspects in suspects.chunks(PACKS_AT_ONCE) {
                if self.session.closing().is_cancelled() {
                    return Err(closing());
                }
                self.note_suspects(suspects).await?;
            }
            resume = page.resume;
            if resume.is_none() {
                return Ok(());
            }
        }
    }

    /// Queues those of the packs for the rewriter that are much longer than their live bytes, given
    /// with each. Every slice of a pack has the length of the pack, so the record of one owner is
    /// enough.
    async fn note_suspects(&self, suspects: &[(BlockId, u64)]) -> Result<(), VolumeError> {
        let first_share = |(pack, _): &(BlockId, u64)| {
            let (start, end) = key::shares(*pack);
            Read::Range { start, end, limit: 1, follow: None }
        };
        let reads: Vec<Read> = suspects.iter().map(first_share).collect();
        let found = self.session.store().read(&reads).await?;
        let mut owned = Vec::with_capacity(suspects.len());
        for ((pack, live), found) in suspects.iter().zip(&found) {
            // A pack without an owner is about to become pending.
            if let ReadResult::Range(shares) = found
                && let Some(share) = shares.first()
            {
                owned.push((*pack, *live, ino_of(&share.key)?));
            }
        }
        let inode = |ino| Read::Record { key: key::inode(ino), follow: None };
        let reads: Vec<Read> = owned.iter().map(|(_, _, ino)| inode(*ino)).collect();
        if reads.is_empty() {
            return Ok(());
        }
        let found = self.session.store().read(&reads).await?;
        let sparse = owned.iter().zip(&found).filter(|((pack, live, ino), found)| {
            let record = value(Some(found));
            let inode = record.and_then(|it| Inode::decode(&key::inode(*ino), &it).ok());
            let slices = inode.as_ref().map(slices_of).unwrap_or_default();
            let length = slices.iter().find(|it| it.block == *pack).map(|it| it.block_length);
            // If that owner has no slice of the pack, the rewriter reads all owners later.
            length.is_none_or(|length| is_sparse(*live, length))
        });
        self.repacking.note(sparse.map(|((pack, _, _), _)| *pack));
        Ok(())
    }
}
