//! A body on its way in.
//!
//! Small bodies stay whole until they are verified. Then they go inline or into a block (see
//! `placement`), which they may share (see `packer`). Larger ones are cut into blocks; a full block
//! leaves in a task of its own while the body goes on arriving.
//!
//! **Memory.** A block takes its permit in steps, each before the bytes that it is for: first
//! [`PERMIT_STEP_BYTES`], then as much again as it has. So a client that sends little holds little.
//! A step beyond the first waits for [`GROWTH_TIMEOUT`] only. After that the block is put as short
//! as it is. So nobody waits long for memory while holding an unfinished block, and writers cannot
//! lock each other out; short memory makes short blocks. The permit is given back when the put has
//! returned. While a writer waits for memory, nothing is read from its client.
//!
//! Memory is not held at the pace of a client. While others wait for memory, a writer whose client is
//! slow is [asked](ContentWriter::memory_wanted) to put what it has as a short block. What is shorter
//! than [`SHORT_BLOCK_BYTES_MIN`] stays, but with no more memory than that.
//!
//! **MD5.** A bucket computes the MD5 of what it is given. So the MD5 of a body that fits into one
//! block need not be computed here: the block is *bare*, and its object is the body's bytes and
//! nothing else (see [`BlockId::is_bare`](record::BlockId::is_bare)). Where memory is short and
//! such a body is cut into more blocks after all, its MD5 is computed here, from what had arrived
//! and from what follows.
//!
//! **Failure.** The first failed put fails the upload. What it has put is deleted when the last
//! put under way has ended.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockRef, SealedBlock, Sealer, Stored};
use bytes::{Bytes, BytesMut};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use hashing::Md5;
use record::{Content, Slice};
use tokio::task::{JoinError, JoinHandle};

use crate::claim::{Claim, StagedBlocks};
use crate::md5::{BodyMd5, Hashing};
use crate::packer::{self, Packer};
use crate::pressure::Pressure;
use crate::put::put;
use crate::staged_inline::Placed;
use crate::staging::Staging;
use crate::{ContentError, Deadlines, MemoryHolder, Permit, StagedContent};

mod release;

/// Blocks that one upload may hold in memory, the unfinished one included.
pub const UPLOAD_BLOCKS_IN_FLIGHT: usize = 8;

/// Bytes of a block's first permit, and what a block has at least when memory is short.
pub const PERMIT_STEP_BYTES: u32 = 256 << 10;

/// How long an unfinished block waits to grow before it is cut as it is.
pub const GROWTH_TIMEOUT: Duration = Duration::from_millis(100);

/// The shortest block that is put because others need its memory. A gateway has memory for this much
/// of every connection.
pub const SHORT_BLOCK_BYTES_MIN: u32 = 16 << 10;

/// The shortest body whose MD5 is left to the block store: that of a shorter one is computed in no
/// time.
const BARE_BYTES_MIN: u64 = 1 << 20;

/// Shorter frames are copied together, so that none of them pins a much larger buffer.
const FRAME_BYTES_MIN: usize = 16 << 10;

/// What the writers of a session share.
#[derive(Debug)]
pub struct Writers {
    /// Where blocks are put.
    pub staging: Arc<Staging>,
    /// Where small bodies wait to share a block.
    pub packer: Arc<Packer>,
    /// Where MD5s are computed.
    pub hashing: Arc<Hashing>,
}

/// When the MD5 of a body has to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Md5Wanted {
    /// Before the body is finished: it is compared with one that was sent.
    BeforeFinish,
    /// With what is staged. Where the block store reports it, it is not computed here.
    AtFinish,
}

/// One upload's body. Dropping it deletes what it has put, in the background.
#[derive(Debug)]
pub struct ContentWriter {
    staging: Arc<Staging>,
    packer: Arc<Packer>,
    hashing: Arc<Hashing>,
    claim: Arc<Claim>,
    size_hint: Option<u64>,
    /// Bytes that have arrived.
    size: u64,
    /// What has arrived, as long as the body may stand in its record or share a block.
    whole: Option<Whole>,
    block: Option<OpenBlock>,
    puts: FuturesUnordered<JoinHandle<Result<StoredBlock, ContentError>>>,
    slices: Vec<Slice>,
    /// The MD5 of what has arrived, if it is computed here.
    md5: Option<BodyMd5>,
    /// Whether the body is to be one bare block, whose MD5 the block store reports.
    bare: bool,
    /// The MD5 of the last bare block that landed.
    stored_md5: Option<[u8; 16]>,
    /// What had arrived when it turned out that there will be more than one block.
    md5_backlog: Option<Vec<Bytes>>,
    failed: bool,
    memory: HeldMemory,
}

/// Whose memory the unfinished block takes.
#[derive(Debug, Default)]
struct HeldMemory {
    holder: MemoryHolder,
    /// What is held while the client is waited for. The budget knows of it from the first permit on.
    pressure: Arc<Pressure>,
    is_known: bool,
    /// Whether a block was put short because the client is slow. The next one takes memory in
    /// smaller steps.
    is_slow: bool,
}

/// A block that was put.
struct StoredBlock {
    slice: Slice,
    /// Its content's MD5, if it is bare.
    md5: Option<[u8; 16]>,
}

/// A body that has not been cut into blocks.
#[derive(Debug, Default)]
struct Whole {
    /// All but the last frames, each as it came or copied together.
    pieces: Vec<Bytes>,
    /// Short frames.
    tail: BytesMut,
    /// Bytes that there is memory for beyond what a record may hold.
    granted: u32,
    permit: Option<Permit>,
}

impl Whole {
    fn push(&mut self, bytes: Bytes) {
        if bytes.len() < FRAME_BYTES_MIN && !(self.pieces.is_empty() && self.tail.is_empty()) {
            self.tail.extend_from_slice(&bytes);
            return;
        }
        self.seal_tail();
        self.pieces.push(bytes);
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.split().freeze());
        }
    }

    fn into_bytes(mut self) -> Bytes {
        self.seal_tail();
        match self.pieces.as_slice() {
            [] => Bytes::new(),
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

/// A block that is not full yet.
#[derive(Debug)]
struct OpenBlock {
    sealer: Sealer,
    /// Where in the body it begins.
    position: u64,
    /// Bytes at which it is full.
    target: u32,
    /// Bytes that it has memory for.
    granted: u32,
    permit: Permit,
}

impl ContentWriter {
    /// Begins a body. `size_hint` is its size as far as it was announced: right, it saves memory;
    /// wrong, it does no harm.
    pub fn new(writers: &Writers, size_hint: Option<u64>) -> ContentWriter {
        let Writers { staging, packer, hashing } = writers;
        let small =
            size_hint.is_none_or(|size| size <= u64::from(whole_bytes_max(staging, packer)));
        ContentWriter {
            staging: Arc::clone(staging),
            packer: Arc::clone(packer),
            hashing: Arc::clone(hashing),
            claim: Claim::new(Arc::clone(staging)),
            size_hint,
            size: 0,
            whole: small.then(Whole::default),
            block: None,
            puts: FuturesUnordered::new(),
            slices: Vec::new(),
            md5: None,
            bare: false,
            stored_md5: None,
            md5_backlog: None,
            failed: false,
            memory: HeldMemory::default(),
        }
    }

    /// Says, before any of the body is written, who holds its memory.
    pub fn set_memory_holder(&mut self, holder: MemoryHolder) {
        self.memory.holder = holder;
    }

    /// As [`ContentWriter::new`], for a body whose bytes must lie in blocks, few as they may be.
    pub fn in_blocks(writers: &Writers, size_hint: Option<u64>) -> ContentWriter {
        ContentWriter { whole: None, ..ContentWriter::new(writers, size_hint) }
    }

    /// Says, before any of the body is written, that its MD5 is wanted. A size that was announced
    /// must be right then.
    pub fn want_md5(&mut self, wanted: Md5Wanted) {
        self.bare = wanted == Md5Wanted::AtFinish && self.may_report_md5();
        self.md5 = (!self.bare).then(|| BodyMd5::new(&self.hashing, self.size_hint));
    }

    /// Whether the body fits into one block, whose MD5 the block store reports.
    fn may_report_md5(&self) -> bool {
        let one = BARE_BYTES_MIN..=u64::from(self.staging.block_bytes());
        let fits = self.size_hint.is_some_and(|size| one.contains(&size));
        fits && self.whole.is_none() && self.staging.blocks.reports_md5()
    }

    /// The MD5 of all that was written, [wanted](ContentWriter::want_md5) before the body is
    /// finished.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be computed, or was not wanted by now.
    pub async fn md5(&mut self) -> Result<[u8; 16], ContentError> {
        let unwanted = || ContentError::Unavailable("no MD5 was computed".to_owned());
        self.md5.as_mut().ok_or_else(unwanted)?.digest().await
    }

    /// Bytes that have arrived.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Takes more of the body. Returns when there is memory for it; blocks upload meanwhile.
    ///
    /// # Errors
    /// `Overloaded` if there was no memory in time, `Unavailable` if a block could not be put.
    /// After any error the body is lost, and every later call fails.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ContentError> {
        if self.failed {
            return Err(ContentError::Unavailable("the upload has failed before".to_owned()));
        }
        // Set for the time of the call, so that a call dropped halfway fails the body too.
        self.failed = true;
        if let Some(md5) = &mut self.md5 {
            md5.take(&bytes).await?;
        }
        self.accept(bytes.clone()).await?;
        if let Some(arrived) = self.md5_backlog.take() {
            self.start_md5_late(arrived, &bytes).await?;
        }
        self.note_held();
        self.failed = false;
        Ok(())
    }

    /// Computes the MD5 of a body that was going to be one block and is not: of what had `arrived`
    /// by then, and of what has since. That is the end of `last`.
    async fn start_md5_late(
        &mut self,
        arrived: Vec<Bytes>,
        last: &Bytes,
    ) -> Result<(), ContentError> {
        let md5 = self.md5.insert(BodyMd5::new(&self.hashing, None));
        let before: u64 = arrived.iter().map(|piece| piece.len() as u64).sum();
        let since = usize::try_from(self.size.saturating_sub(before)).unwrap_or(usize::MAX);
        let rest = last.slice(last.len().saturating_sub(since)..);
        for piece in arrived.iter().chain([&rest]) {
            md5.take(piece).await?;
        }
        Ok(())
    }

    /// Ends the body, and waits until every block of it is durable. Whoever calls this has
    /// verified the body: its length, its signature, and every checksum sent with it.
    ///
    /// # Errors
    /// `Unavailable` if a block could not be put; then nothing of the body remains.
    pub async fn finish(mut self) -> Result<StagedContent, ContentError> {
        if self.failed {
            return Err(ContentError::Unavailable("the upload has failed before".to_owned()));
        }
        let mut md5 = self.md5.take();
        let wanted = self.bare || md5.is_some();
        let computed = async {
            match &mut md5 {
                Some(md5) => md5.digest().await.map(Some),
                None => Ok(None),
            }
        };
        let (computed, staged) = tokio::join!(computed, self.stage());
        let (computed, staged) = (computed?, staged?);
        let md5 = computed.or(staged.md5());
        if wanted && md5.is_none() {
            let why = "the MD5 of a body is not known: it is not as long as was announced";
            return Err(ContentError::Unavailable(why.to_owned()));
        }
        Ok(staged.with_md5(md5))
    }

    /// Puts what has not been put, and waits for all of it.
    async fn stage(&mut self) -> Result<StagedContent, ContentError> {
        self.put_block();
        while let Some(put) = self.puts.next().await {
            self.record_put(put)?;
        }
        let md5 = self.stored_md5.filter(|_| self.bare && self.slices.len() == 1);
        let mut reservation = None;
        let content = match self.whole.take() {
            Some(whole) => {
                match self.staging.staged_inline.place(self.size, !self.packer.is_idle()) {
                    Placed::Inline => Content::Inline(whole.into_bytes()),
                    Placed::StagedInline(reserved) => {
                        reservation = Some(reserved);
                        Content::Inline(whole.into_bytes())
                    }
                    Placed::Block => Content::Slices(vec![self.pack(whole).await?]),
                }
            }
            None if self.slices.is_empty() => Content::Inline(Bytes::new()),
            None => {
                self.slices.sort_unstable_by_key(|slice| slice.position);
                Content::Slices(std::mem::take(&mut self.slices))
            }
        };
        let blocks = StagedBlocks(Arc::clone(&self.claim));
        Ok(StagedContent::new(content, self.size, blocks, reservation).with_md5(md5))
    }

    /// Puts a whole body into a block that it may share.
    async fn pack(&mut self, mut whole: Whole) -> Result<Slice, ContentError> {
        whole.seal_tail();
        let length = u32::try_from(self.size).unwrap_or(u32::MAX);
        let landed = packer::pack(&self.packer, whole.pieces, length, whole.permit).await?;
        self.claim.join(landed.claim);
        Ok(landed.slice)
    }

    async fn accept(&mut self, bytes: Bytes) -> Result<(), ContentError> {
        while let Some(Some(put)) = self.puts.next().now_or_never() {
            self.record_put(put)?;
        }
        let Some(mut whole) = self.whole.take() else { return self.cut(bytes).await };
        let size = self.size + bytes.len() as u64;
        if size <= u64::from(whole_bytes_max(&self.staging, &self.packer))
            && self.grow_permit(&mut whole, size).await?
        {
            self.size = size;
            whole.push(bytes);
            self.whole = Some(whole);
            return Ok(());
        }
        self.spill(whole).await?;
        self.cut(bytes).await
    }

    /// Takes memory for a whole body of so many bytes; false if there is not enough to grow.
    async fn grow_permit(&self, whole: &mut Whole, size: u64) -> Result<bool, ContentError> {
        if size <= u64::from(self.staging.inline_bytes_max) {
            return Ok(true);
        }
        while u64::from(whole.granted) < size {
            let most = u64::from(whole_bytes_max(&self.staging, &self.packer));
            let target = self.size_hint.filter(|hint| (size..=most).contains(hint)).unwrap_or(most);
            let target = u32::try_from(target).unwrap_or(u32::MAX);
            match &mut whole.permit {
                // Only the first step is refused early: a body that was admitted should come to its
                // end.
                None => {
                    whole.granted = target.min(PERMIT_STEP_BYTES);
                    let patience = self.staging.deadlines.budget;
                    let granted = u64::from(whole.granted);
                    let budget = &self.staging.budget;
                    let permit = budget.acquire_for(&self.memory.holder, granted, patience).await?;
                    whole.permit = Some(permit);
                }
                Some(permit) => {
                    let step = whole.granted.min(target - whole.granted);
                    let budget = &self.staging.budget;
                    let more =
                        budget.acquire_for(&self.memory.holder, u64::from(step), GROWTH_TIMEOUT);
                    let Ok(more) = more.await else { return Ok(false) };
                    permit.merge(more);
                    whole.granted += step;
                }
            }
        }
        Ok(true)
    }

    /// Goes on in blocks with what was kept whole, because it is too large or memory is short. If
    /// the announced size would have fitted, it was wrong.
    async fn spill(&mut self, mut whole: Whole) -> Result<(), ContentError> {
        whole.seal_tail();
        let fits = |size: &u64| *size > u64::from(whole_bytes_max(&self.staging, &self.packer));
        self.size_hint = self.size_hint.filter(fits);
        self.size = 0;
        if let Some(permit) = whole.permit.take() {
            let (target, granted) = (self.staging.block_bytes(), whole.granted);
            let sealer = Sealer::new(self.staging.ids.draw(), granted);
            self.block = Some(OpenBlock { sealer, position: 0, target, granted, permit });
        }
        for piece in whole.pieces {
            self.cut(piece).await?;
        }
        Ok(())
    }

    /// Distributes bytes over blocks.
    async fn cut(&mut self, mut bytes: Bytes) -> Result<(), ContentError> {
        while !bytes.is_empty() {
            let block = self.writable_block().await?;
            let available = block.granted - block.sealer.len();
            let piece = bytes.split_to(bytes.len().min(available as usize));
            let length = piece.len() as u64;
            block.sealer.push(piece);
            let full = block.sealer.len() == block.target;
            self.size += length;
            if full {
                self.put_block();
            }
        }
        Ok(())
    }

    /// A block with room for at least one byte.
    async fn writable_block(&mut self) -> Result<&mut OpenBlock, ContentError> {
        let mut block = match self.block.take() {
            Some(block) => block,
            None => self.open_block().await?,
        };
        if block.granted == block.sealer.len() {
            let step = block.granted.min(block.target - block.granted);
            let budget = &self.staging.budget;
            match budget.acquire_for(&self.memory.holder, u64::from(step), GROWTH_TIMEOUT).await {
                Ok(more) => {
                    block.permit.merge(more);
                    block.granted += step;
                }
                Err(_) => {
                    self.block = Some(block);
                    self.put_short_block();
                    block = self.open_block().await?;
                }
            }
        }
        Ok(self.block.insert(block))
    }

    async fn open_block(&mut self) -> Result<OpenBlock, ContentError> {
        while self.puts.len() >= UPLOAD_BLOCKS_IN_FLIGHT {
            if let Some(put) = self.puts.next().await {
                self.record_put(put)?;
            }
        }
        let full = self.staging.block_bytes();
        let announced = self.size_hint.and_then(|size| size.checked_sub(self.size));
        let rest = announced.filter(|rest| *rest > 0);
        let target = rest.map_or(full, |rest| u32::try_from(rest).unwrap_or(full).min(full));
        let granted = target.min(self.first_step());
        // Only the first block is refused early: a body that was admitted should come to its end.
        let Deadlines { budget, block } = self.staging.deadlines;
        let patience = if self.size == 0 { budget } else { block };
        let granting =
            self.staging.budget.acquire_for(&self.memory.holder, u64::from(granted), patience);
        let permit = granting.await?;
        // An announced block is allocated once; another one grows with its permit, by copies.
        let capacity = if rest.is_some() { target } else { granted };
        let ids = &self.staging.ids;
        let id = if self.bare { ids.draw_bare() } else { ids.draw() };
        let sealer = Sealer::new(id, capacity);
        Ok(OpenBlock { sealer, position: self.size, target, granted, permit })
    }

    /// Sends the open block on its way, if there is one.
    fn put_block(&mut self) {
        let Some(OpenBlock { sealer, position, permit, .. }) = self.block.take() else { return };
        let block = sealer.finish();
        let (staging, claim) = (Arc::clone(&self.staging), Arc::clone(&self.claim));
        self.puts.push(self.staging.tasks.spawn("put block", async move {
            let put = put(&staging, &claim, block).await;
            let put = match put {
                Ok((block, stored)) => Ok((block.reference(), md5(&block, stored).await)),
                Err(error) => Err(error),
            };
            drop(permit);
            let (BlockRef { id, length, crc32c }, md5) = put?;
            let slice = Slice {
                position,
                block: id,
                block_length: length,
                block_crc32c: crc32c,
                offset: 0,
                length,
            };
            Ok(StoredBlock { slice, md5 })
        }));
    }

    /// When a put has ended.
    fn record_put(
        &mut self,
        put: Result<Result<StoredBlock, ContentError>, JoinError>,
    ) -> Result<(), ContentError> {
        let lost = |error| ContentError::Unavailable(format!("a block was not put: {error}"));
        let StoredBlock { slice, md5 } = put.map_err(lost)??;
        self.slices.push(slice);
        self.stored_md5 = md5;
        Ok(())
    }
}

/// The longest body that is kept whole.
fn whole_bytes_max(staging: &Staging, packer: &Packer) -> u32 {
    let shared = packer.body_bytes_max().min(staging.block_bytes());
    shared.max(staging.inline_bytes_max)
}

/// The MD5 of a bare block's content: as the store reported it, or computed here if it did not.
async fn md5(block: &SealedBlock, stored: Stored) -> Option<[u8; 16]> {
    if !block.id().is_bare() || stored.content_md5.is_some() {
        return stored.content_md5;
    }
    let mut md5 = Md5::new();
    for piece in block.content() {
        md5.update(&piece);
        tokio::task::consume_budget().await;
    }
    Some(md5.finish())
}
