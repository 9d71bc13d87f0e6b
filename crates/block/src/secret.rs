//! A layer that encrypts secret blocks under ring keys.
//!
//! A writer gives a block a [secret](BlockId::is_secret) id and the number of a ring key. The layer
//! stores an object in the format of [`object`], and returns the sealed bytes again. Blocks with
//! other ids pass unchanged.
//!
//! **Invariant.** The key of a block follows from its ring key and its id, and the nonce of a unit
//! is its index. An id names one content for ever, so no nonce encrypts two plaintexts, and a
//! repeated put sends the same bytes.
//!
//! The tag of each unit authenticates the block's id, the ring key and the unit's index. So a
//! changed bit, a swapped unit and a unit of another block are `Corrupt`. An object that is cut at
//! the end of a unit returns fewer sealed bytes; the reader of the block detects that. If a program
//! has encrypted other content under the id of a block, the CRC in the block's record detects it.
//!
//! For example, a read of 100 bytes in the middle of a block requests one unit, guesses its ring
//! key from earlier blocks, and the unit proves the guess. If no guess is right, the layer reads
//! the 32-byte header of the object, which has the number.
//!
//! **Memory.** A put keeps the encrypted bytes beside the sealed ones, for all puts together at
//! most [`ENCRYPTED_KIB_MAX`]. A stream keeps one unit.

mod learned;
mod object;
mod stream;
mod units;

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use keyring::{RingError, RingErrorKind, RingKey, RingKeys};
use record::{BlockId, Nonce, RingNumber};
use tokio::sync::Semaphore;

use self::learned::Learned;
use self::object::{PREFIX_BYTES, UnitSpan, units_of};
use self::stream::{Decrypted, RawUnits};
use self::units::{UNITS_AT_ONCE, Units};
use crate::byte_source::AtOnce;
use crate::{
    BLOCK_BYTES_MAX, BlockError, BlockErrorKind, BlockPage, BlockRef, BlockStore, ByteSource,
    SealedBlock, Stored,
};

/// The most KiB of encrypted bytes that all puts together keep in memory: 256 MiB. Further puts
/// wait; the layer that repeats calls limits their time.
const ENCRYPTED_KIB_MAX: u32 = 256 << 10;

const _: () = assert!(2 * BLOCK_BYTES_MAX / 1024 <= ENCRYPTED_KIB_MAX, "the largest block fits");

/// A block store that encrypts secret blocks under ring keys, over another block store.
#[derive(Debug)]
pub struct Encrypting<B> {
    inner: B,
    keys: Arc<dyn RingKeys>,
    learned: Learned,
    encrypted_kib: Semaphore,
}

impl<B: BlockStore> Encrypting<B> {
    /// Creates a layer over the block store `inner` that takes ring keys from `keys`.
    pub fn new(inner: B, keys: Arc<dyn RingKeys>) -> Encrypting<B> {
        let encrypted_kib = Semaphore::new(ENCRYPTED_KIB_MAX as usize);
        Encrypting { inner, keys, learned: Learned::new(), encrypted_kib }
    }

    /// Returns the block store with the encrypted objects.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    async fn put_secret(
        &self,
        block: &SealedBlock,
        ring: RingNumber,
    ) -> Result<Stored, BlockError> {
        let id = block.id();
        let doing = || format!("writing block {id}");
        let refused = |error| key_error(error, BlockErrorKind::Refused, doing());
        let key = self.keys.key_to_write(ring).await.map_err(refused)?;
        let kib = u32::try_from(block.sealed_bytes() / 1024 + 1).unwrap_or(ENCRYPTED_KIB_MAX);
        let permit = self.encrypted_kib.acquire_many(kib.min(ENCRYPTED_KIB_MAX)).await;
        let _permit = permit
            .map_err(|error| BlockError::with_cause(BlockErrorKind::Unavailable, doing(), error))?;
        let pieces = Units::new(id, ring, &key).encrypted(block).await;
        let stored = self.inner.put(&block.encrypted(pieces)).await?;
        self.learned.learn(id, ring);
        Ok(stored)
    }

    /// Returns the stream of a range, whose encrypted bytes come from `source`; `None` if the block
    /// ends before the range begins.
    async fn decrypted(
        &self,
        id: BlockId,
        span: &UnitSpan,
        source: Box<dyn ByteSource>,
    ) -> Result<Option<Decrypted>, BlockError> {
        let mut raw = RawUnits::new(source, span.first);
        let Some((index, mut first)) = raw.next().await? else { return Ok(None) };
        let (units, first) = if index == 0 {
            let prefix = first.split_to(first.len().min(PREFIX_BYTES));
            self.opened(id, &prefix, index, first).await?
        } else {
            self.guessed(id, index, first).await?
        };
        self.learned.learn(id, units.ring());
        Ok(Some(Decrypted::new(raw, units, first, span)))
    }

    /// Finds the ring key of a block by one of its units, and decrypts the unit.
    async fn guessed(
        &self,
        id: BlockId,
        index: u32,
        unit: BytesMut,
    ) -> Result<(Units, BytesMut), BlockError> {
        for guess in self.learned.guesses(id) {
            // A key that cannot be used may be a wrong guess. If it is the right one, the header
            // leads to the same error.
            let key = match self.keys.key(guess).await {
                Ok(key) => key,
                Err(error) => {
                    // A key that was retired and removed would be asked for with each guess.
                    if error.kind == RingErrorKind::Unknown {
                        self.learned.forget_ring(guess);
                    }
                    continue;
                }
            };
            let units = Units::new(id, guess, &key);
            // A failed attempt destroys the bytes.
            let mut attempt = unit.clone();
            if units.open(index, &mut attempt).is_ok() {
                return Ok((units, attempt));
            }
        }
        let prefix = self.inner.get(id, 0..PREFIX_BYTES as u64).await?;
        self.opened(id, &prefix, index, unit).await
    }

    /// Decrypts a unit of a block under the ring key that is named in the header of the object.
    async fn opened(
        &self,
        id: BlockId,
        prefix: &[u8],
        index: u32,
        mut unit: BytesMut,
    ) -> Result<(Units, BytesMut), BlockError> {
        let doing = || format!("decrypting block {id}");
        let corrupt = |why| BlockError::with_cause(BlockErrorKind::Corrupt, doing(), why);
        let ring = object::ring_of(id, prefix).map_err(corrupt)?;
        let unreadable = |error| key_error(error, BlockErrorKind::Corrupt, doing());
        let key: Arc<RingKey> = self.keys.key(ring).await.map_err(unreadable)?;
        let units = Units::new(id, ring, &key);
        let opened = units.open(index, &mut unit);
        opened.map_err(|why| {
            BlockError::with_cause(BlockErrorKind::Corrupt, units.decrypting(), why)
        })?;
        Ok((units, unit))
    }
}

/// Translates the error of a ring key. `lost` is the kind for a key that does not exist, or that
/// cannot be unwrapped.
fn key_error(error: RingError, lost: BlockErrorKind, doing: String) -> BlockError {
    let kind = match error.kind {
        RingErrorKind::Unknown | RingErrorKind::Foreign => lost,
        RingErrorKind::Refused => BlockErrorKind::Refused,
        RingErrorKind::Unavailable => BlockErrorKind::Unavailable,
    };
    BlockError::with_cause(kind, doing, error)
}

#[async_trait]
impl<B: BlockStore> BlockStore for Encrypting<B> {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        let id = block.id();
        let refused = |why| {
            let doing = format!("writing block {id}");
            Err(BlockError::with_cause(BlockErrorKind::Refused, doing, why))
        };
        match (id.is_secret(), block.ring()) {
            (false, None) => self.inner.put(block).await,
            // The object of a bare block is its content, so it cannot be encrypted.
            (true, Some(_)) if id.is_bare() => refused("a secret block is never bare"),
            (true, Some(ring)) => self.put_secret(block, ring).await,
            (true, None) => refused("its id is secret, and it has no ring key"),
            (false, Some(_)) => refused("it has a ring key, and its id is not secret"),
        }
    }

    fn reports_md5(&self) -> bool {
        self.inner.reports_md5()
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        if !id.is_secret() {
            return self.inner.get(id, bytes).await;
        }
        let span = units_of(bytes);
        let found = self.inner.get(id, span.bytes.clone()).await?;
        let expected = found.len();
        let source = Box::new(AtOnce(Some(found)));
        let Some(mut source) = self.decrypted(id, &span, source).await? else {
            return Ok(Bytes::new());
        };
        let first = source.next().await?.unwrap_or_default();
        let Some(second) = source.next().await? else { return Ok(first) };
        let mut joined = BytesMut::with_capacity(expected);
        joined.extend_from_slice(&first);
        joined.extend_from_slice(&second);
        let mut pieces = 2;
        while let Some(piece) = source.next().await? {
            joined.extend_from_slice(&piece);
            pieces += 1;
            // All bytes are here, so no other call lets other tasks run.
            if pieces % UNITS_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(joined.freeze())
    }

    fn streams(&self) -> bool {
        self.inner.streams()
    }

    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        if !id.is_secret() {
            return self.inner.open(id, bytes).await;
        }
        let span = units_of(bytes);
        let source = self.inner.open(id, span.bytes.clone()).await?;
        Ok(match self.decrypted(id, &span, source).await? {
            Some(decrypted) => Box::new(decrypted),
            None => Box::new(AtOnce(None)),
        })
    }

    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        self.inner.recompute_checksums(block).await
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        let Some(size) = self.inner.size(id).await? else { return Ok(None) };
        if !id.is_secret() {
            return Ok(Some(size));
        }
        let Some(sealed) = object::sealed_size(size) else {
            let (doing, why) =
                (format!("looking for block {id}"), format!("its object has {size} bytes"));
            return Err(BlockError::with_cause(BlockErrorKind::Corrupt, doing, why));
        };
        Ok(Some(sealed))
    }

    async fn ring_of(&self, id: BlockId) -> Result<Option<RingNumber>, BlockError> {
        if !id.is_secret() {
            return Ok(None);
        }
        let prefix = match self.inner.get(id, 0..PREFIX_BYTES as u64).await {
            Ok(prefix) => prefix,
            Err(error) if error.kind() == BlockErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let ring = object::ring_of(id, &prefix).map_err(|why| {
            let doing = format!("reading the ring key of block {id}");
            BlockError::with_cause(BlockErrorKind::Corrupt, doing, why)
        })?;
        Ok(Some(ring))
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.inner.delete(id).await?;
        self.learned.forget(id);
        Ok(())
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.inner.sessions().await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        let mut page = self.inner.list(session, resume).await?;
        for (id, size) in &mut page.blocks {
            if id.is_secret() {
                // An object of an impossible size contains no whole unit. The listing still names
                // it, so that one damaged block does not hide the others from the sweeper.
                *size = object::sealed_size(*size).unwrap_or(0);
            }
        }
        Ok(page)
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.inner.mark().await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.set_mark(mark).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.inner.probe().await
    }
}
