//! The sealed bytes of a secret block, decrypted unit by unit as its object arrives.
//!
//! **Memory.** A stream holds one unit of 64 KiB and one frame of the store. For example, a range
//! of 16 MiB needs no more memory than one of 64 KiB.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::object::{self, UnitSpan};
use super::units::Units;
use crate::{BlockError, BlockErrorKind, ByteSource};

/// The units of an object as they arrive, still encrypted.
pub(super) struct RawUnits {
    source: Box<dyn ByteSource>,
    /// The index of the unit that is arriving.
    index: u32,
    /// The part of that unit that has arrived.
    unit: BytesMut,
    /// The rest of the last frame, which belongs to later units.
    frame: Bytes,
    ended: bool,
}

impl RawUnits {
    pub(super) fn new(source: Box<dyn ByteSource>, first: u32) -> RawUnits {
        let (unit, frame) = (BytesMut::new(), Bytes::new());
        RawUnits { source, index: first, unit, frame, ended: false }
    }

    /// Waits for the next unit. Returns its index and its bytes with the tag; `None` at the end of
    /// the object or of the requested range. The last unit may be shorter than the others.
    pub(super) async fn next(&mut self) -> Result<Option<(u32, BytesMut)>, BlockError> {
        while !self.fill() {
            if self.ended {
                return Ok((!self.unit.is_empty()).then(|| self.take()));
            }
            // The part that has arrived is kept in `self`, so a dropped call loses no bytes.
            match self.source.next().await? {
                Some(frame) => self.frame = frame,
                None => self.ended = true,
            }
        }
        Ok(Some(self.take()))
    }

    /// Returns the next unit if all of it has arrived.
    pub(super) fn arrived(&mut self) -> Option<(u32, BytesMut)> {
        while !self.fill() {
            if self.ended {
                return None;
            }
            self.frame = self.source.arrived()?;
        }
        Some(self.take())
    }

    /// Moves bytes from the last frame to the unit. Returns true if the unit is complete.
    fn fill(&mut self) -> bool {
        let full = object::unit_bytes(self.index);
        let part = self.frame.split_to(self.frame.len().min(full - self.unit.len()));
        // The only unit of a small block usually comes in one frame, and then takes no more memory
        // than its bytes. A cache may keep them for long.
        self.unit.reserve(if self.unit.is_empty() { part.len() } else { full - self.unit.len() });
        self.unit.extend_from_slice(&part);
        self.unit.len() == full
    }

    fn take(&mut self) -> (u32, BytesMut) {
        let index = self.index;
        self.index = index.saturating_add(1);
        (index, std::mem::take(&mut self.unit))
    }
}

/// A range of a secret block's sealed bytes, decrypted as its object arrives.
pub(super) struct Decrypted {
    raw: RawUnits,
    units: Units,
    /// The first unit of the range. It was decrypted to find the ring key.
    first: Option<BytesMut>,
    /// The bytes of the first unit that are before the range.
    skip: u64,
    /// The bytes of the range that have not been returned.
    left: u64,
    /// The error of a damaged unit that `arrived` read. The next call of `next` returns it.
    failed: Option<BlockError>,
}

impl Decrypted {
    /// Creates the stream of a range, of which the first unit is decrypted already.
    pub(super) fn new(raw: RawUnits, units: Units, first: BytesMut, span: &UnitSpan) -> Decrypted {
        let UnitSpan { skip, length, .. } = *span;
        Decrypted { raw, units, first: Some(first), skip, left: length, failed: None }
    }

    /// Decrypts a unit and returns all of its sealed bytes. Fails with `Corrupt` if the unit is
    /// damaged.
    fn open(&self, index: u32, mut unit: BytesMut) -> Result<BytesMut, BlockError> {
        self.units.open(index, &mut unit).map_err(|why| {
            BlockError::with_cause(BlockErrorKind::Corrupt, self.units.decrypting(), why)
        })?;
        Ok(unit)
    }

    /// Returns the part of a decrypted unit that is in the range.
    fn cut(&mut self, mut unit: BytesMut) -> Bytes {
        let before = usize::try_from(self.skip).unwrap_or(usize::MAX).min(unit.len());
        self.skip -= before as u64;
        let mut part = unit.split_off(before);
        part.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= part.len() as u64;
        part.freeze()
    }
}

#[async_trait]
impl ByteSource for Decrypted {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            let unit = match self.first.take() {
                Some(first) => first,
                // Also after the last byte of the range: the end of the source is read, so that its
                // connection can be reused.
                None => match self.raw.next().await? {
                    Some((index, unit)) => self.open(index, unit)?,
                    None => return Ok(None),
                },
            };
            let part = self.cut(unit);
            if !part.is_empty() {
                return Ok(Some(part));
            }
        }
    }

    fn arrived(&mut self) -> Option<Bytes> {
        if self.first.is_some() || self.failed.is_some() {
            return None;
        }
        let (index, unit) = self.raw.arrived()?;
        match self.open(index, unit) {
            Ok(unit) => Some(self.cut(unit)).filter(|part| !part.is_empty()),
            // `arrived` cannot return an error, so `next` returns it.
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }
}
