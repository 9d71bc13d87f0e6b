//! Writes an incoming body to blocks.
//!
//! Small bodies stay whole in memory until they are verified. Then they are stored inline or in a
//! block (see `placement`), which they may share (see `packer`). Larger bodies are cut into blocks.
//! Each full block is put by a task of its own while the rest of the body arrives.
//!
//! **Memory.** A block takes its permit in steps, each before the bytes that it is for: first
//! [`PERMIT_STEP_BYTES`], then as much again as it has. So a client that sends little holds little.
//! Each later step waits at most [`GROWTH_TIMEOUT`]; then the block is put at its present length.
//! So no writer waits long for memory while it holds an unfinished block, and writers cannot
//! deadlock. If memory is short, blocks are short. The permit is given back when the put has
//! returned. While a writer waits for memory, nothing is read from its client. For example, a block
//! of 8 MiB takes 256 KiB, then 256 KiB, 512 KiB, 1 MiB and so on.
//!
//! If a client is slow, its writer does not keep memory at the client's pace. While others wait for
//! memory, such a writer is [asked](ContentWriter::memory_wanted) to put the bytes it has as a
//! short block. A body with fewer than [`SHORT_BLOCK_BYTES_MIN`] bytes keeps them, but only this
//! much memory.
//!
//! **MD5.** A bucket computes the MD5 of each object. So the MD5 of a body that fits into one block
//! need not be computed here: the block is *bare*, which means that its object consists of the
//! body's bytes alone (see [`BlockId::is_bare`](record::BlockId::is_bare)). If memory is short and
//! such a body is cut into several blocks after all, its MD5 is computed here, from the bytes that
//! have arrived and those that follow.
//!
//! **Failure.** The first failed put fails the upload. Its blocks are deleted when its last put
//! under way has ended.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockRef, SealedBlock, Sealer, Stored};
use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use hashing::Md5;
use record::{Content, InlineBytes, Slice};
use tokio::task::{JoinError, JoinHandle};

use crate::claim::{BlockClaim, Claim};
use crate::md5::{BodyMd5, Hashing};
use crate::object_cipher::PieceCipher;
use crate::packer::{self, Packer};
use crate::pressure::Pressure;
use crate::put::put;
use crate::staged_inline::Placed;
use crate::staging::Staging;
use crate::writer::whole::{WholeBody, whole_bytes_max};
use crate::{ContentError, ContentKeys, Deadlines, MemoryHolder, Permit, StagedContent};

mod inline;
mod release;
mod whole;

/// The most blocks that one upload holds in memory, the unfinished one included.
pub const UPLOAD_BLOCKS_IN_FLIGHT: usize = 8;

/// The size in bytes of a block's first permit for memory. A block gets at least this much even if
/// memory is short.
pub const PERMIT_STEP_BYTES: u32 = 256 << 10;

/// The time that an unfinished block waits for more memory before it is put at its present length.
pub const GROWTH_TIMEOUT: Duration = Duration::from_millis(100);

/// The shortest block, in bytes, that is put unfinished because other requests need its memory. A
/// gateway has this much memory for each connection.
pub const SHORT_BLOCK_BYTES_MIN: u32 = 16 << 10;

/// The shortest body whose MD5 is left to the block store. Computing the MD5 of a shorter body
/// takes too little time to matter.
const BARE_BYTES_MIN: u64 = 1 << 20;

/// The resources that the writers of a session share.
#[derive(Debug)]
pub struct Writers {
    /// The block store, the budget and the other shared resources of the session.
    pub staging: Arc<Staging>,
    /// The queue of small bodies that wait to share a block.
    pub packer: Arc<Packer>,
    /// The pool that computes MD5s.
    pub hashing: Arc<Hashing>,
}

/// The time at which the MD5 of a body is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Md5Wanted {
    /// Before the body is finished, because it is compared with an MD5 that the client sent.
    BeforeFinish,
    /// With the staged content that `finish` returns. If the block store reports the MD5, it is not
    /// computed here.
    AtFinish,
}

/// The writer of one body. Dropping it deletes the blocks that it has put, in the background.
#[derive(Debug)]
pub struct ContentWriter {
    staging: Arc<Staging>,
    packer: Arc<Packer>,
    hashing: Arc<Hashing>,
    claim: Arc<Claim>,
    size_hint: Option<u64>,
    /// Bytes that have arrived.
    size: u64,
    /// The bytes that have arrived, while the body may still be stored inline or share a block.
    whole: Option<WholeBody>,
    block: Option<OpenBlock>,
    puts: FuturesUnordered<JoinHandle<Result<StoredBlock, ContentError>>>,
    slices: Vec<Slice>,
    /// The running MD5 of the arrived bytes, if it is computed here.
    md5: Option<BodyMd5>,
    /// The keys under which blocks and inline content are encrypted.
    keys: ContentKeys,
    /// True if the body is to be a single bare block, whose object in the bucket is its content
    /// alone, so that the block store reports its MD5.
    bare: bool,
    /// The MD5 of the last bare block (its object is the body alone) that was stored.
    stored_md5: Option<[u8; 16]>,
    /// The bytes that had arrived when a body that was to be one bare block was cut into several.
    /// Their MD5 is still to be computed.
    md5_backlog: Option<Vec<Bytes>>,
    failed: bool,
    memory: HeldMemory,
}

/// The memory of the unfinished block and of the body that is kept whole.
#[derive(Debug, Default)]
struct HeldMemory {
    holder: MemoryHolder,
    /// The bytes that the writer holds while it waits for its client. It is registered with the
    /// budget when the writer first holds bytes.
    pressure: Arc<Pressure>,
    /// True once `pressure` is registered with the budget.
    is_registered: bool,
    /// True after a block was put short because the client is slow. The next block takes memory in
    /// smaller steps.
    is_slow: bool,
}

/// A block that was stored.
struct StoredBlock {
    slice: Slice,
    /// The MD5 of the block's content, if the block is bare.
    md5: Option<[u8; 16]>,
}

/// A block that is not full yet.
#[derive(Debug)]
struct OpenBlock {
    sealer: Sealer,
    /// The cipher of the block's content, if the object has a key.
    cipher: Option<PieceCipher>,
    /// The position in the body of the block's first byte.
    position: u64,
    /// The length in bytes at which the block is full.
    target: u32,
    /// The bytes for which the block's permit has memory.
    granted: u32,
    permit: Permit,
}

impl ContentWriter {
    /// Starts a body. `size_hint` is the announced size, if any. A correct hint saves memory; a
    /// wrong one does no harm.
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
            whole: small.then(WholeBody::default),
            block: None,
            puts: FuturesUnordered::new(),
            slices: Vec::new(),
            md5: None,
            keys: ContentKeys::default(),
            bare: false,
            stored_md5: None,
            md5_backlog: None,
            failed: false,
            memory: HeldMemory::default(),
        }
    }

    /// Sets the keys under which the content is encrypted, in blocks and in its record. To be
    /// called before any of the body is written.
    #[must_use]
    pub fn under(self, keys: &ContentKeys) -> ContentWriter {
        let packer = match keys.ring {
            Some(ring) => self.packer.under(ring),
            None => self.packer,
        };
        let mut writer = ContentWriter { packer, keys: keys.clone(), ..self };
        let is_longer = |size: u64| size > u64::from(writer.whole_bytes_max());
        if writer.size_hint.is_some_and(is_longer) {
            writer.whole = None;
        }
        writer
    }

    /// Sets the holder (such as a host and its access key) to whose share of the budget the body's
    /// memory is counted. To be called before any of the body is written.
    pub fn set_memory_holder(&mut self, holder: MemoryHolder) {
        self.memory.holder = holder;
    }

    /// As [`ContentWriter::new`], for a body that must be stored in blocks even if it is small.
    pub fn in_blocks(writers: &Writers, size_hint: Option<u64>) -> ContentWriter {
        ContentWriter { whole: None, ..ContentWriter::new(writers, size_hint) }
    }

    /// Requests the MD5 of the body. To be called before any of the body is written. An announced
    /// size must then be correct.
    pub fn request_md5(&mut self, wanted: Md5Wanted) {
        // A client that sent an MD5 must learn the result before the object exists, so its MD5 is
        // computed here.
        self.bare = wanted == Md5Wanted::AtFinish && self.may_report_md5();
        self.md5 = (!self.bare).then(|| BodyMd5::new(&self.hashing, self.size_hint));
    }

    /// Returns true if the body fits into one block whose MD5 the block store reports.
    fn may_report_md5(&self) -> bool {
        let one = BARE_BYTES_MIN..=u64::from(self.staging.block_bytes());
        let fits = self.size_hint.is_some_and(|size| one.contains(&size));
        // The store computes the MD5 of the bytes that it gets, and these are encrypted.
        let is_readable = self.keys.ring.is_none() && self.keys.object.is_none();
        fits && is_readable && self.whole.is_none() && self.staging.blocks.reports_md5()
    }

    /// Returns the MD5 of all bytes written so far. It must have been requested as
    /// [`Md5Wanted::BeforeFinish`].
    ///
    /// # Errors
    /// Fails with `Unavailable` if the MD5 cannot be computed or was not requested so.
    pub async fn md5(&mut self) -> Result<[u8; 16], ContentError> {
        let unwanted =
            || ContentError::Unavailable("the MD5 of the body was not requested".to_owned());
        self.md5.as_mut().ok_or_else(unwanted)?.digest().await
    }

    /// Returns the number of bytes that have arrived.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds bytes to the body. Returns when there is memory for them; blocks are put in the
    /// background meanwhile.
    ///
    /// # Errors
    /// Fails with `Overloaded` if no memory was granted in time, and with `Unavailable` or `Full`
    /// if a block could not be put. After any error the body is lost, and every later call fails.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ContentError> {
        if self.failed {
            return Err(ContentError::Unavailable(
                "an earlier error has failed this upload".to_owned(),
            ));
        }
        // Set during the call, so that a call that is dropped halfway fails the body, too.
        self.failed = true;
        if let Some(md5) = &mut self.md5 {
            md5.take(&bytes).await?;
        }
        self.accept(bytes.clone()).await?;
        if let Some(arrived) = self.md5_backlog.take() {
            self.start_md5_late(arrived, &bytes).await?;
        }
        self.record_held();
        self.failed = false;
        Ok(())
    }

    /// Starts the MD5 of a body that was to be a single bare block, whose MD5 the block store
    /// reports, and was cut into several instead. The MD5 covers the bytes that had `arrived` at
    /// the cut and those since then, which are the end of `last`.
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

    /// Ends the body, and waits until all its blocks are durable. The caller must have verified the
    /// body: its length, its signature, and every checksum sent with it.
    ///
    /// # Errors
    /// Fails with `Unavailable` or `Full` if a block could not be put; then the blocks of the body
    /// are deleted.
    pub async fn finish(mut self) -> Result<StagedContent, ContentError> {
        if self.failed {
            return Err(ContentError::Unavailable(
                "an earlier error has failed this upload".to_owned(),
            ));
        }
        let mut md5 = self.md5.take();
        let wanted = self.bare || md5.is_some();
        let computed = async {
            match &mut md5 {
                Some(md5) => md5.digest().await.map(Some),
                None => Ok(None),
            }
        };
        // The rest of the MD5 is computed while the last blocks are put.
        let (computed, staged) = tokio::join!(computed, self.stage());
        let (computed, staged) = (computed?, staged?);
        let md5 = computed.or(staged.md5());
        if wanted && md5.is_none() {
            let why = "the MD5 of the body is unknown: its length differs from the announced one";
            return Err(ContentError::Unavailable(why.to_owned()));
        }
        Ok(staged.with_md5(md5))
    }

    /// Puts the remaining bytes, and waits for all puts.
    async fn stage(&mut self) -> Result<StagedContent, ContentError> {
        self.put_block();
        while let Some(put) = self.puts.next().await {
            self.record_put(put)?;
        }
        let md5 = self.stored_md5.filter(|_| self.bare && self.slices.len() == 1);
        let mut reservation = None;
        // The placement is chosen only now, because only now the size and the concurrent bodies are
        // known.
        let content = match self.whole.take() {
            // Bytes under the key of an object stay where they are written: the key of a block
            // depends on its id. Such a body is short enough for the record.
            Some(whole) if self.keys.object.is_some() => self.inline(whole),
            Some(whole) => {
                match self.staging.staged_inline.place(self.size, !self.packer.is_idle()) {
                    Placed::Inline => self.inline(whole),
                    Placed::StagedInline(reserved) => {
                        reservation = Some(reserved);
                        self.inline(whole)
                    }
                    Placed::Block => Content::Slices(vec![self.pack(whole).await?]),
                }
            }
            None if self.slices.is_empty() => Content::Inline(InlineBytes::empty()),
            None => {
                // Puts run concurrently, so they end in any order.
                self.slices.sort_unstable_by_key(|slice| slice.position);
                Content::Slices(std::mem::take(&mut self.slices))
            }
        };
        let blocks = BlockClaim(Arc::clone(&self.claim));
        Ok(StagedContent::new(content, self.size, blocks, reservation).with_md5(md5))
    }

    /// Puts a body that was kept whole into a block, which it may share with others. Returns its
    /// place in the block.
    async fn pack(&mut self, mut whole: WholeBody) -> Result<Slice, ContentError> {
        whole.seal_tail();
        let length = u32::try_from(self.size).unwrap_or(u32::MAX);
        let landed = packer::pack(&self.packer, whole.pieces, length, whole.permit).await?;
        // From now on this content's claim decides about the pack together with those of its other
        // members.
        self.claim.join(landed.claim);
        Ok(landed.slice)
    }

    /// Adds bytes to the body that is kept whole, or cuts them into blocks.
    async fn accept(&mut self, bytes: Bytes) -> Result<(), ContentError> {
        // Collect the puts that have ended, so that a failed put fails the upload at once.
        while let Some(Some(put)) = self.puts.next().now_or_never() {
            self.record_put(put)?;
        }
        let Some(mut whole) = self.whole.take() else { return self.cut(bytes).await };
        let size = self.size + bytes.len() as u64;
        if size <= u64::from(self.whole_bytes_max()) && self.grow_permit(&mut whole, size).await? {
            self.size = size;
            whole.push(bytes);
            self.whole = Some(whole);
            return Ok(());
        }
        self.spill(whole).await?;
        self.cut(bytes).await
    }

    /// Takes memory for a whole body of `size` bytes. Returns false if the body's memory cannot
    /// grow within [`GROWTH_TIMEOUT`]. Fails with `Overloaded` if the body gets no memory at all.
    async fn grow_permit(&self, whole: &mut WholeBody, size: u64) -> Result<bool, ContentError> {
        // Inline bodies are small and short-lived, so they take no permit.
        if size <= u64::from(self.staging.inline_bytes_max) {
            return Ok(true);
        }
        while u64::from(whole.granted) < size {
            let most = u64::from(self.whole_bytes_max());
            let target = self.size_hint.filter(|hint| (size..=most).contains(hint)).unwrap_or(most);
            let target = u32::try_from(target).unwrap_or(u32::MAX);
            match &mut whole.permit {
                // Only the first step may fail the body, after it has waited for the budget's
                // deadline. If a later step gets no memory soon, the caller cuts the body into
                // blocks: a body that was admitted should be finished.
                None => {
                    whole.granted = target.min(PERMIT_STEP_BYTES);
                    let timeout = self.staging.deadlines.budget;
                    let granted = u64::from(whole.granted);
                    let budget = &self.staging.budget;
                    let permit = budget.acquire_for(&self.memory.holder, granted, timeout).await?;
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

    /// Cuts a body that was kept whole into blocks, because it is too large or memory is short. An
    /// announced size that would fit a whole body was wrong and is dropped.
    async fn spill(&mut self, mut whole: WholeBody) -> Result<(), ContentError> {
        whole.seal_tail();
        let most = u64::from(self.whole_bytes_max());
        self.size_hint = self.size_hint.filter(|size| *size > most);
        self.size = 0;
        // The permit of the whole body becomes the permit of its first block.
        if let Some(permit) = whole.permit.take() {
            let (target, granted) = (self.staging.block_bytes(), whole.granted);
            let sealer = self.staging.sealer(self.keys.ring, granted);
            let cipher = self.cipher(&sealer);
            self.block = Some(OpenBlock { sealer, cipher, position: 0, target, granted, permit });
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
            block.sealer.push(match &mut block.cipher {
                Some(cipher) => cipher.apply(&piece),
                None => piece,
            });
            let full = block.sealer.len() == block.target;
            self.size += length;
            if full {
                self.put_block();
            }
        }
        Ok(())
    }

    /// Returns a block with memory for at least one more byte.
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
                // The block is put short rather than kept waiting: a writer that waits with a block
                // in memory could block all others.
                Err(_) => {
                    self.block = Some(block);
                    self.put_short_block();
                    block = self.open_block().await?;
                }
            }
        }
        Ok(self.block.insert(block))
    }

    /// Starts a block. It waits until fewer than the most permitted puts of this body are in
    /// flight, and for memory.
    async fn open_block(&mut self) -> Result<OpenBlock, ContentError> {
        // A fast client must not fill the memory faster than the store takes blocks.
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
        // Only the first block waits with the short timeout: a body that was admitted should be
        // finished.
        let Deadlines { budget, block } = self.staging.deadlines;
        let timeout = if self.size == 0 { budget } else { block };
        let granting =
            self.staging.budget.acquire_for(&self.memory.holder, u64::from(granted), timeout);
        let permit = granting.await?;
        // If the size was announced, the buffer is allocated once. Otherwise it grows with the
        // permit, by copying.
        let capacity = if rest.is_some() { target } else { granted };
        let sealer = if self.bare {
            Sealer::new(self.staging.ids.allocate_bare(), capacity)
        } else {
            self.staging.sealer(self.keys.ring, capacity)
        };
        let cipher = self.cipher(&sealer);
        Ok(OpenBlock { sealer, cipher, position: self.size, target, granted, permit })
    }

    /// Returns the cipher of a block that is begun; `None` unless the object has a key.
    fn cipher(&self, sealer: &Sealer) -> Option<PieceCipher> {
        self.keys.object.as_ref().map(|key| PieceCipher::of_block(key, sealer.id(), 0))
    }

    /// Puts the unfinished block, if there is one, by a task of its own.
    fn put_block(&mut self) {
        let Some(OpenBlock { sealer, position, permit, .. }) = self.block.take() else { return };
        let block = sealer.finish();
        let (staging, claim) = (Arc::clone(&self.staging), Arc::clone(&self.claim));
        let key = self.keys.object.clone();
        self.puts.push(self.staging.tasks.spawn("put block", async move {
            let put = put(&staging, &claim, block, key.as_deref()).await;
            let put = match put {
                Ok((block, stored)) => Ok((block.reference(), md5(&block, stored).await)),
                Err(error) => Err(error),
            };
            // The MD5 needs the block's bytes, so their memory is given back only here.
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

    /// Records the end of a put. Fails if the put failed.
    fn record_put(
        &mut self,
        put: Result<Result<StoredBlock, ContentError>, JoinError>,
    ) -> Result<(), ContentError> {
        let lost =
            |error| ContentError::Unavailable(format!("the task that puts a block ended: {error}"));
        let StoredBlock { slice, md5 } = put.map_err(lost)??;
        self.slices.push(slice);
        self.stored_md5 = md5;
        Ok(())
    }
}

/// Returns the MD5 of a bare block's content (the block's object in the bucket is that content
/// alone): as the store reported it, or computed here if the store reported none. Returns `None`
/// for other blocks.
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
