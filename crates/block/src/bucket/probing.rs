//! Probes of a bucket: what it can do is found out by trying.
//!
//! Each probe writes a small object, which shows that the bucket exists and that we have access, and
//! lists. The first probe, and later ones every ten seconds at most, also writes a *block* as real ones
//! are, of 256 KiB with its checksums in its metadata, and reads bytes and checksums back, in two ranges.
//! If the bytes come back changed or not at all, the bucket is unusable. If the checksums do not come
//! back, or the bucket refuses them, no block is written bare until a later probe finds them kept.
//!
//! The first probe also asks whether the bucket keeps old versions, in which case deletes free nothing.
//! Such a bucket gets a block every hour, and a small object only if it has none.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_s3::types::{BucketVersioningStatus, ObjectLockEnabled};
use bytes::Bytes;
use record::{BlockId, Nonce};
use tracing::{debug, warn};

use super::BucketBlocks;
use super::bare;
use super::fault::{Doing, ObjectReply};
use super::findings::Versions;
use super::objects::Payload;
use super::pieces::Pieces;
use crate::store::BlockStore as _;
use crate::{BlockError, BlockErrorKind, SUB_BLOCK_BYTES, SealedBlock, Sealer};

/// The objects that a probe writes. No session has names like these.
const PROBE: &str = "probe";
const BARE_PROBE: &str = "probebare";
const SEALED_PROBE: &str = "probesealed";

/// Content of the block that a probe writes: more than what some buckets keep inline with metadata.
const BLOCK_PROBE_BYTES: u32 = 256 << 10;

/// How long a probe waits for a block, except the first one.
const BLOCK_PROBE_PATIENCE: Duration = Duration::from_secs(1);

const PROBING: Doing = Doing::Other("probing the block bucket");

impl BucketBlocks {
    /// A probe: see the top of this file. Its parts run concurrently, because readiness checks have
    /// little time.
    pub(super) async fn try_out(&self) -> Result<(), BlockError> {
        let (small, block) = futures::join!(self.try_small(), self.try_block_now_and_then());
        if !small? {
            self.reports_md5.store(false, Ordering::Relaxed);
        }
        block?;
        if !self.findings.versions_are_known() {
            let versions = self.ask_versions().await;
            self.findings.note_versions(versions);
            let told = self.warnings();
            // What became of metadata was said already.
            for warning in told.iter().filter(|it| it.contains(" keeps every version ")) {
                warn!("{warning}");
            }
        }
        Ok(())
    }

    /// Writes what any bucket takes, and lists; whether the MD5 of it was told.
    async fn try_small(&self) -> Result<bool, BlockError> {
        let body = Bytes::from_static(b"probe");
        let once = self.honours_conditions() && self.findings.keeps_versions();
        let sent = Pieces::from_iter([body.clone()]);
        let tells = match self.put_object(PROBE, sent, once, PROBING).await? {
            ObjectReply::Done(told) => bare::is_md5_of(told, &body),
            // It stands there from before.
            ObjectReply::Taken if once => self.reports_md5(),
            answer => return Err(self.unexpected(PROBING, &answer)),
        };
        if !self.honours_conditions() {
            let second = self.put_object(PROBE, Pieces::from_iter([body]), true, PROBING).await;
            // A bucket that does not know conditions may refuse them in any words it likes.
            let honoured = match second {
                Ok(answer) => matches!(answer, ObjectReply::Taken),
                Err(error) if error.kind() == BlockErrorKind::Refused => false,
                Err(error) => return Err(error),
            };
            self.conditional.store(honoured, Ordering::Relaxed);
        }
        self.list_objects(self.prefix.clone(), true, None, PROBING).await?;
        Ok(tells)
    }

    /// Tries a block if it is time to. At first it must work; later a bucket that is busy is left
    /// alone, and what was found before holds: whether it answers at all the small object tells.
    async fn try_block_now_and_then(&self) -> Result<(), BlockError> {
        if !self.findings.block_is_due() {
            return Ok(());
        }
        if !self.findings.block_was_tried() {
            return self.try_block().await;
        }
        match tokio::time::timeout(BLOCK_PROBE_PATIENCE, self.try_block()).await {
            Ok(Err(error)) if error.kind() == BlockErrorKind::Unavailable => {
                debug!(%error, "a block was not tried");
                Ok(())
            }
            Ok(tried) => tried,
            Err(_late) => {
                debug!("a block was not tried in time");
                Ok(())
            }
        }
    }

    /// Writes a block with its checksums beside it, and reads both back.
    async fn try_block(&self) -> Result<(), BlockError> {
        let block = probe_block();
        let content: Bytes = block.content().collect::<Vec<_>>().concat().into();
        let sums = bare::sums(&block);
        let sent = Payload { body: Pieces::from_iter([content.clone()]), sums: Some(sums) };
        let told = match self.put_object(BARE_PROBE, sent, false, PROBING).await {
            Ok(ObjectReply::Done(told)) => told,
            Ok(answer) => return Err(self.unexpected(PROBING, &answer)),
            // Is it the metadata, or everything?
            Err(error) if error.kind() == BlockErrorKind::Refused => {
                debug!(%error, "a block with its checksums beside it is refused");
                return self.try_sealed(&block).await;
            }
            Err(error) => return Err(error),
        };
        let kept = self.read_back(BARE_PROBE, &content, &block).await?;
        self.settle(kept && bare::is_md5_of(told, &content), kept);
        Ok(())
    }

    /// The same with a block that carries its checksums itself.
    async fn try_sealed(&self, block: &SealedBlock) -> Result<(), BlockError> {
        let sealed = block.to_bytes();
        let sent = Pieces::from_iter([sealed.clone()]);
        match self.put_object(SEALED_PROBE, sent, false, PROBING).await? {
            ObjectReply::Done(_) => {}
            answer => return Err(self.unexpected(PROBING, &answer)),
        }
        self.read_back(SEALED_PROBE, &sealed, block).await?;
        self.settle(false, false);
        Ok(())
    }

    fn settle(&self, reports_md5: bool, kept: bool) {
        self.reports_md5.store(reports_md5, Ordering::Relaxed);
        self.findings.note_block(&self.bucket, kept);
    }

    /// Reads what was just written as blocks are read, the first sub-block and those behind it;
    /// whether both came with their checksums.
    async fn read_back(
        &self,
        name: &str,
        written: &Bytes,
        block: &SealedBlock,
    ) -> Result<bool, BlockError> {
        let end = u32::try_from(written.len()).unwrap_or(u32::MAX);
        let first = self.read_range(name, written, 0..SUB_BLOCK_BYTES, block);
        let rest = self.read_range(name, written, SUB_BLOCK_BYTES..end, block);
        let (first, rest) = futures::try_join!(first, rest)?;
        Ok(first && rest)
    }

    /// Reads a range of what was just written; whether it came with its checksums, and with what it
    /// takes to use them.
    async fn read_range(
        &self,
        name: &str,
        written: &Bytes,
        range: Range<u32>,
        block: &SealedBlock,
    ) -> Result<bool, BlockError> {
        let changed = |how: &str| {
            let error = format!(
                "bucket {} {how} what was just written, of {BLOCK_PROBE_BYTES} bytes: it is no \
                 place for blocks: correct --blocks",
                self.bucket
            );
            BlockError::because(BlockErrorKind::Refused, PROBING, error)
        };
        let most = u64::from(range.end - range.start);
        let wanted = u64::from(range.start)..u64::from(range.end);
        let found = match self.ask_for(name, wanted, PROBING).await? {
            ObjectReply::Done(found) => found,
            ObjectReply::Absent | ObjectReply::BehindTheEnd => {
                return Err(changed("does not find"));
            }
            answer @ ObjectReply::Taken => return Err(self.unexpected(PROBING, &answer)),
        };
        let sums = bare::kept_sums(found.headers());
        let told = found.whole();
        let collecting = std::pin::pin!(found.collect(most));
        let body = self.within(self.block_timeout, PROBING, collecting).await?;
        let lost = |error| BlockError::because(BlockErrorKind::Unavailable, PROBING, error);
        let body = body.map_err(lost)?;
        let (start, end) = (range.start as usize, range.end as usize);
        let whole = told.is_none_or(|whole| whole == written.len() as u64);
        if !whole || written.get(start..end) != Some(&body[..]) {
            return Err(changed("gives back other bytes than"));
        }
        // Checksums are found by the length of the whole, which some do not tell with a range.
        Ok(told.is_some() && sums.is_some_and(|sums| sums == bare::sum_bytes(block)))
    }

    /// Whether deleted objects stay as versions. A bucket that does not say counts as one that has
    /// none: not every key may ask.
    async fn ask_versions(&self) -> Versions {
        let asking = self.client.get_bucket_versioning().bucket(&self.bucket).send();
        let versioned = match self.ask_sdk(PROBING, asking).await {
            Ok(ObjectReply::Done(told)) => told.status() == Some(&BucketVersioningStatus::Enabled),
            Ok(_) => false,
            Err(error) => {
                debug!(%error, "the bucket does not say whether it keeps versions");
                false
            }
        };
        if !versioned {
            return Versions::None;
        }
        let asking = self.client.get_object_lock_configuration().bucket(&self.bucket).send();
        let locked = match self.ask_sdk(PROBING, asking).await {
            Ok(ObjectReply::Done(told)) => told
                .object_lock_configuration()
                .and_then(|lock| lock.object_lock_enabled())
                .is_some_and(|enabled| *enabled == ObjectLockEnabled::Enabled),
            Ok(_) | Err(_) => false,
        };
        if locked { Versions::Locked } else { Versions::Kept }
    }
}

/// A block that nobody names.
fn probe_block() -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::bare(Nonce([0; Nonce::BYTES]), 0), BLOCK_PROBE_BYTES);
    let content: Vec<u8> =
        (0..BLOCK_PROBE_BYTES).map(|at| (at ^ (at >> 8)).to_le_bytes()[0]).collect();
    sealer.push(content.into());
    sealer.finish()
}
