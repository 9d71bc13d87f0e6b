//! Probes of a bucket: the program writes, reads and lists objects to determine the features of the
//! bucket.
//!
//! Each probe writes a small object and lists the prefix: the bucket must exist, and the keys must
//! give access. The first probe also writes a *block* as real ones are, of 256 KiB with its
//! checksums in its metadata, and reads bytes and checksums back in two ranges. Later probes do so
//! at most every ten seconds. If the bytes come back changed or not at all, the bucket is unusable.
//! If the checksums do not come back, or the bucket refuses them, no block is written bare until a
//! later probe finds them kept.
//!
//! The first probe also asks if the bucket keeps old versions, because then deletes free no space.
//! Such a bucket gets a block once an hour, and a small object only if it has none.
//!
//! For example, a proxy before the bucket begins to drop `x-amz-meta-*` headers. The next probe
//! that writes a block notices it, and from then on new blocks contain their checksums.

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

/// The names of the objects that a probe (a check of the bucket) writes. No session has names like
/// these.
///
/// A start with a mistyped bucket or prefix probes it before it finds no mark of its volume there.
/// So the names contain a random number that no other program uses: the probe overwrites only
/// objects that another probe has written.
const PROBE: &str = "ashlarprobe5b1f6c0e9d7a4832";
const BARE_PROBE: &str = "ashlarprobebare5b1f6c0e9d7a4832";
const SEALED_PROBE: &str = "ashlarprobesealed5b1f6c0e9d7a4832";

/// Content bytes of the block that a probe writes: more than some buckets keep inline with the
/// metadata.
const BLOCK_PROBE_BYTES: u32 = 256 << 10;

/// The timeout of a block's probe, except the first one.
const BLOCK_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

const PROBING: Doing = Doing::Other("probing the block bucket");

impl BucketBlocks {
    /// Determines the features of the bucket: see the top of this file. The parts of the check run
    /// concurrently, because readiness checks have little time.
    pub(super) async fn run_probe(&self) -> Result<(), BlockError> {
        let (small, block) = futures::join!(self.probe_small_object(), self.probe_block_if_due());
        // Without the MD5 of a small object there is none of a block either.
        if !small? {
            self.reports_md5.store(false, Ordering::Relaxed);
        }
        block?;
        if !self.findings.versions_are_known() {
            let versions = self.ask_versions().await;
            self.findings.note_versions(versions);
            let reported = self.warnings();
            // A warning about metadata was logged before.
            for warning in reported.iter().filter(|it| it.contains(" keeps every version ")) {
                warn!("{warning}");
            }
        }
        Ok(())
    }

    /// Writes a small object, and lists. Returns true if the response had the MD5 of the object.
    async fn probe_small_object(&self) -> Result<bool, BlockError> {
        let body = Bytes::from_static(b"probe");
        // In a versioned bucket each overwritten probe would stay as an old version.
        let once = self.supports_conditional_put() && self.findings.keeps_versions();
        let sent = Pieces::from_iter([body.clone()]);
        let reports = match self.put_object(PROBE, sent, once, PROBING).await? {
            ObjectReply::Done(reported) => bare::is_md5_of(reported, &body),
            // An earlier probe has written it.
            ObjectReply::Taken if once => self.reports_md5(),
            answer => return Err(self.unexpected_reply(PROBING, &answer)),
        };
        if !self.supports_conditional_put() {
            // A second PUT of the same key shows if the bucket honours the condition.
            let second = self.put_object(PROBE, Pieces::from_iter([body]), true, PROBING).await;
            // A bucket that does not support conditions may refuse them with any error code.
            let honoured = match second {
                Ok(answer) => matches!(answer, ObjectReply::Taken),
                Err(error) if error.kind() == BlockErrorKind::Refused => false,
                Err(error) => return Err(error),
            };
            self.conditional.store(honoured, Ordering::Relaxed);
        }
        self.list_objects(self.prefix.clone(), true, None, PROBING).await?;
        Ok(reports)
    }

    /// Writes a block and reads it back, if that is due. The first time it must succeed. If the
    /// bucket does not answer a later probe in time, the probe is skipped and the earlier result
    /// remains valid: the small object shows if the bucket answers at all.
    async fn probe_block_if_due(&self) -> Result<(), BlockError> {
        if !self.findings.block_is_due() {
            return Ok(());
        }
        if !self.findings.block_was_tried() {
            return self.probe_bare_block().await;
        }
        match tokio::time::timeout(BLOCK_PROBE_TIMEOUT, self.probe_bare_block()).await {
            Ok(Err(error)) if error.kind() == BlockErrorKind::Unavailable => {
                debug!(%error, "the bucket did not answer the probe of a block");
                Ok(())
            }
            Ok(tried) => tried,
            Err(_late) => {
                debug!("the probe of a block timed out");
                Ok(())
            }
        }
    }

    /// Writes a block with its checksums in its metadata, and reads both back.
    async fn probe_bare_block(&self) -> Result<(), BlockError> {
        let block = probe_block();
        let content: Bytes = block.content().collect::<Vec<_>>().concat().into();
        let sums = bare::sums(&block);
        let sent = Payload { body: Pieces::from_iter([content.clone()]), sums: Some(sums) };
        let reported = match self.put_object(BARE_PROBE, sent, false, PROBING).await {
            Ok(ObjectReply::Done(reported)) => reported,
            Ok(answer) => return Err(self.unexpected_reply(PROBING, &answer)),
            // Find out if only the metadata is refused, or every object.
            Err(error) if error.kind() == BlockErrorKind::Refused => {
                debug!(%error, "the bucket refuses a block with its checksums in the metadata");
                return self.probe_sealed_block(&block).await;
            }
            Err(error) => return Err(error),
        };
        let kept = self.read_back(BARE_PROBE, &content, &block).await?;
        self.record_result(kept && bare::is_md5_of(reported, &content), kept);
        Ok(())
    }

    /// As `probe_bare_block`, with a block that contains its checksums.
    async fn probe_sealed_block(&self, block: &SealedBlock) -> Result<(), BlockError> {
        let sealed = block.to_bytes();
        let sent = Pieces::from_iter([sealed.clone()]);
        match self.put_object(SEALED_PROBE, sent, false, PROBING).await? {
            ObjectReply::Done(_) => {}
            answer => return Err(self.unexpected_reply(PROBING, &answer)),
        }
        self.read_back(SEALED_PROBE, &sealed, block).await?;
        self.record_result(false, false);
        Ok(())
    }

    fn record_result(&self, reports_md5: bool, kept: bool) {
        self.reports_md5.store(reports_md5, Ordering::Relaxed);
        self.findings.note_block(&self.bucket, kept);
    }

    /// Reads a written block as blocks are read: the first sub-block, and then the others. Returns
    /// true if both ranges came with their checksums.
    async fn read_back(
        &self,
        name: &str,
        written: &Bytes,
        block: &SealedBlock,
    ) -> Result<bool, BlockError> {
        let end = u32::try_from(written.len()).unwrap_or(u32::MAX);
        // Two ranges, as blocks are read: from the start, and from a later sub-block on.
        let first = self.read_range(name, written, 0..SUB_BLOCK_BYTES, block);
        let rest = self.read_range(name, written, SUB_BLOCK_BYTES..end, block);
        let (first, rest) = futures::try_join!(first, rest)?;
        Ok(first && rest)
    }

    /// Reads a range of a written block. Returns true if it came with its checksums and the
    /// object's size, without which they cannot be used.
    async fn read_range(
        &self,
        name: &str,
        written: &Bytes,
        range: Range<u32>,
        block: &SealedBlock,
    ) -> Result<bool, BlockError> {
        let changed = |how: &str| {
            let error = format!(
                "bucket {} {how} the {BLOCK_PROBE_BYTES} bytes that were just written: it cannot \
                 hold blocks: correct --blocks",
                self.bucket
            );
            BlockError::with_cause(BlockErrorKind::Refused, PROBING, error)
        };
        let most = u64::from(range.end - range.start);
        let wanted = u64::from(range.start)..u64::from(range.end);
        let found = match self.request_range(name, wanted, PROBING).await? {
            ObjectReply::Done(found) => found,
            ObjectReply::Absent | ObjectReply::PastEnd => {
                return Err(changed("does not find"));
            }
            answer @ ObjectReply::Taken => return Err(self.unexpected_reply(PROBING, &answer)),
        };
        let sums = bare::stored_sums(found.headers());
        let reported = found.whole();
        let collecting = std::pin::pin!(found.collect(most));
        let body = self.within(self.block_timeout, PROBING, collecting).await?;
        let lost = |error| BlockError::with_cause(BlockErrorKind::Unavailable, PROBING, error);
        let body = body.map_err(lost)?;
        let (start, end) = (range.start as usize, range.end as usize);
        let whole = reported.is_none_or(|whole| whole == written.len() as u64);
        if !whole || written.get(start..end) != Some(&body[..]) {
            return Err(changed("gives back other bytes than"));
        }
        // The number of checksums follows from the object's size, which some servers omit in
        // responses to ranges.
        Ok(reported.is_some() && sums.is_some_and(|sums| sums == bare::sum_bytes(block)))
    }

    /// Finds out if deleted objects stay as versions. A bucket that does not answer counts as one
    /// without versions, because not every key is permitted to ask.
    async fn ask_versions(&self) -> Versions {
        let asking = self.client.get_bucket_versioning().bucket(&self.bucket).send();
        let versioned = match self.ask_sdk(PROBING, asking).await {
            Ok(ObjectReply::Done(reported)) => {
                reported.status() == Some(&BucketVersioningStatus::Enabled)
            }
            Ok(_) => false,
            Err(error) => {
                debug!(%error, "the bucket does not say whether it keeps versions");
                false
            }
        };
        if !versioned {
            return Versions::None;
        }
        // Locked versions cannot be removed for a while, which the warning has to say.
        let asking = self.client.get_object_lock_configuration().bucket(&self.bucket).send();
        let locked = match self.ask_sdk(PROBING, asking).await {
            Ok(ObjectReply::Done(reported)) => reported
                .object_lock_configuration()
                .and_then(|lock| lock.object_lock_enabled())
                .is_some_and(|enabled| *enabled == ObjectLockEnabled::Enabled),
            Ok(_) | Err(_) => false,
        };
        if locked { Versions::Locked } else { Versions::Kept }
    }
}

/// Returns the block that a probe (a check of the bucket) writes. No record references it.
fn probe_block() -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::bare(Nonce([0; Nonce::BYTES]), 0), BLOCK_PROBE_BYTES);
    let content: Vec<u8> =
        (0..BLOCK_PROBE_BYTES).map(|at| (at ^ (at >> 8)).to_le_bytes()[0]).collect();
    sealer.push(content.into());
    sealer.finish()
}
