//! The bytes of a record: a format byte, fields, and a CRC that covers them and their key.
//!
//! The layout of a type may change by a new *format*. A record is written in the newest format of
//! its type, and read in all of them: a field of a later format is read after a check of
//! [`Reader::since`], and has a default in records of earlier formats. A record with sections gets
//! a new section without a new format. For example, a type gets a field `limit` in format 2: its
//! reader has `if from.since(2) { … } else { None }`.
//!
//! Integers of fixed width are big-endian. A *varint* is LEB128, least significant group first. A
//! byte string is its length as a varint, and the bytes. The last four bytes are the CRC-32C of the
//! record's key and all bytes before them. So a record with flipped bits, a truncated record, or a
//! record under a wrong key does not decode.

use bytes::Bytes;
use store::{Key, Value};

use crate::RingNumber;

/// The reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes do not match their CRC, or are too short to have one.
    #[error("its checksum does not match")]
    Checksum,
    /// A newer release wrote the record. The number is the format, kind or section that this
    /// release does not know.
    #[error("its format, kind or section is {0}, which this release does not know")]
    Format(u8),
    /// The bytes match their CRC, but the field with this name does not decode.
    #[error("its field `{0}` does not decode")]
    Field(&'static str),
    /// The record is encrypted under this ring key, and the key is not available.
    #[error("it is encrypted under the ring key {0}, which is not available")]
    Sealed(RingNumber),
}

/// The length of the CRC at the end of a record, in bytes.
pub(crate) const CRC_BYTES: usize = 4;

/// The longest varint of 64 bits, in bytes.
const VARINT_BYTES_MAX: usize = 10;

/// The CRC-32C of a record: of its key and all bytes before the CRC.
fn crc(key: &Key, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key.as_bytes()), bytes)
}

/// The checksum of a record's head. It differs from that of a record, so that a record that is cut
/// behind its head does not decode as a complete one.
fn head_crc(key: &Key, bytes: &[u8]) -> u32 {
    !crc(key, bytes)
}

/// Defines the bytes of a record type: its newest format, a closure that writes the fields, and a
/// closure that reads them.
///
/// Records are written in the newest format, and read in each format from 1 to the newest. A field
/// of format 2 is read as `if from.since(2) { … } else { its default }`.
macro_rules! record {
    ($name:ident, $newest:literal, |$this:ident, $to:ident| $write:block, |$from:ident| $read:block) => {
        impl $name {
            /// The newest format.
            const FORMAT: u8 = $newest;

            /// The record's bytes.
            pub fn encode(&self, key: &::store::Key) -> ::store::Value {
                let $this = self;
                let mut $to = $crate::codec::Writer::new($name::FORMAT);
                $write
                $to.finish(key)
            }

            /// The record, if the bytes are one.
            pub fn decode(
                key: &::store::Key,
                value: &::store::Value,
            ) -> Result<$name, $crate::codec::DecodeError> {
                let mut $from = $crate::codec::Reader::new(key, value, $name::FORMAT)?;
                let record = $read;
                $from.finish("end")?;
                Ok(record)
            }
        }
    };
}
pub(crate) use record;

/// Writes the bytes of a record.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(format: u8) -> Writer {
        Writer(vec![format])
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Writer {
        self.0.push(value);
        self
    }

    pub(crate) fn fixed(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn varint(&mut self, mut value: u64) -> &mut Writer {
        // Seven bits in each byte. The high bit is set in all bytes but the last.
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.u8(value.to_le_bytes()[0])
    }

    /// Writes a signed number as a zigzag varint: small magnitudes are short.
    pub(crate) fn signed(&mut self, value: i64) -> &mut Writer {
        // Zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3.
        self.varint((value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        // A long byte string is usually the last field. Space for the CRC behind it avoids a second
        // allocation and copy.
        self.0.reserve(VARINT_BYTES_MAX + bytes.len() + CRC_BYTES);
        self.varint(bytes.len() as u64).fixed(bytes)
    }

    /// Writes the output of `write` as a byte string.
    pub(crate) fn part(&mut self, write: impl FnOnce(&mut Writer)) -> &mut Writer {
        let mut part = Writer(Vec::new());
        write(&mut part);
        self.bytes(&part.0)
    }

    /// Returns the output of `write` without format and CRC: the bytes of a field, and not of a
    /// record.
    pub(crate) fn field(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        write(&mut to);
        to.0
    }

    /// Writes a section, that is, a tag and the output of `write` as a byte string. Writes nothing
    /// if `write` writes nothing.
    pub(crate) fn section(&mut self, tag: u8, write: impl FnOnce(&mut Writer)) -> &mut Writer {
        let mut section = Writer(Vec::new());
        write(&mut section);
        // An absent section reads as an empty one, so most records stay short.
        if section.0.is_empty() { self } else { self.u8(tag).bytes(&section.0) }
    }

    /// Writes the checksum of a record's head, the first fields that can be read without the rest,
    /// after all bytes of the head.
    pub(crate) fn end_head(&mut self, key: &Key) -> &mut Writer {
        let crc = head_crc(key, &self.0);
        self.fixed(&crc.to_be_bytes())
    }

    pub(crate) fn finish(mut self, key: &Key) -> Value {
        // The CRC covers the key, too: a value that an engine returns under a wrong key does not
        // decode.
        let crc = crc(key, &self.0);
        self.0.extend_from_slice(&crc.to_be_bytes());
        // Records are cached, so unused capacity would stay allocated.
        self.0.shrink_to_fit();
        self.0.into()
    }
}

/// Reads the bytes of a record. Each method gets the name of the field, for its error.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// The format of the record. Its sections and parts have the same.
    format: u8,
}

impl<'a> Reader<'a> {
    /// Checks the CRC and the format, and starts at the first field. Accepts formats from 1 to
    /// `newest`.
    pub(crate) fn new(key: &Key, value: &'a [u8], newest: u8) -> Result<Reader<'a>, DecodeError> {
        // The CRC is checked before the format, because the format byte of damaged bytes has no
        // meaning.
        let (bytes, sum) = value.split_last_chunk::<CRC_BYTES>().ok_or(DecodeError::Checksum)?;
        if crc(key, bytes).to_be_bytes() != *sum {
            return Err(DecodeError::Checksum);
        }
        let (format, bytes) = bytes.split_first().ok_or(DecodeError::Field("format"))?;
        Reader { bytes, format: *format }.up_to(newest)
    }

    /// Starts at the first field of the output of [`Writer::field`]. It has no format byte, so its
    /// layout must never change.
    pub(crate) fn field(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, format: 1 }
    }

    /// Fails with `Format` if the record has an unknown format.
    fn up_to(self, newest: u8) -> Result<Reader<'a>, DecodeError> {
        if self.since(1) && self.format <= newest {
            Ok(self)
        } else {
            Err(DecodeError::Format(self.format))
        }
    }

    /// Returns true if the record's format is `format` or later, so that it has the fields of that
    /// format.
    pub(crate) fn since(&self, format: u8) -> bool {
        self.format >= format
    }

    /// Checks a head, which has a CRC of its own, and starts at its first field. `first_bytes` are
    /// the beginning of a record. The head is a byte string behind the format byte, which is from 1
    /// to `newest`.
    pub(crate) fn head(
        key: &Key,
        first_bytes: &'a [u8],
        newest: u8,
    ) -> Result<Reader<'a>, DecodeError> {
        let (format, bytes) = first_bytes.split_first().ok_or(DecodeError::Checksum)?;
        let mut reader = Reader { bytes, format: *format };
        // Before the CRC is checked, the bytes may be damaged, so any error here means a wrong
        // checksum.
        let mut part = || {
            let head = reader.part("head")?;
            let sealed = first_bytes.len() - reader.bytes.len();
            let sum = reader.fixed::<CRC_BYTES>("head")?;
            Ok((head, sealed, sum))
        };
        let (head, sealed, sum) = part().map_err(|_: DecodeError| DecodeError::Checksum)?;
        if head_crc(key, first_bytes.get(..sealed).unwrap_or_default()).to_be_bytes() != sum {
            return Err(DecodeError::Checksum);
        }
        // The checksum is right, so an unknown format means a newer release.
        head.up_to(newest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of unread bytes.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Reads all bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the number of a ring key.
    pub(crate) fn ring_number(&mut self) -> Result<RingNumber, DecodeError> {
        let number = self.fixed("ring key")?;
        match u32::from_be_bytes(number) {
            0 => Err(DecodeError::Field("ring key")),
            number => Ok(RingNumber(number)),
        }
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        let (byte, rest) = self.bytes.split_first().ok_or(DecodeError::Field(field))?;
        self.bytes = rest;
        Ok(*byte)
    }

    pub(crate) fn take(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.bytes.split_at_checked(n).ok_or(DecodeError::Field(field))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn fixed<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Field(field))?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn varint(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(field)?;
            let group = u64::from(byte & 0x7f);
            // The tenth byte has only one bit within 64 bits. A larger value is damage.
            if group << shift >> shift != group {
                break;
            }
            value |= group << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Field(field))
    }

    /// Reads a varint of a narrower type.
    pub(crate) fn narrow<T: TryFrom<u64>>(
        &mut self,
        field: &'static str,
    ) -> Result<T, DecodeError> {
        T::try_from(self.varint(field)?).map_err(|_| DecodeError::Field(field))
    }

    pub(crate) fn signed(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        let zigzag = self.varint(field)?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    pub(crate) fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let n = self.narrow(field)?;
        self.take(n, field)
    }

    /// Reads the output of [`Writer::part`].
    pub(crate) fn part(&mut self, field: &'static str) -> Result<Reader<'a>, DecodeError> {
        let bytes = self.bytes(field)?;
        // A part belongs to its record, so it has the record's format.
        Ok(Reader { bytes, format: self.format })
    }

    /// Reads a byte string without a copy: the result shares the memory of `record`.
    pub(crate) fn shared(
        &mut self,
        record: &Value,
        field: &'static str,
    ) -> Result<Bytes, DecodeError> {
        self.bytes(field).map(|bytes| record.slice_ref(bytes))
    }

    pub(crate) fn string(&mut self, field: &'static str) -> Result<String, DecodeError> {
        let text = std::str::from_utf8(self.bytes(field)?);
        text.map(str::to_owned).map_err(|_| DecodeError::Field(field))
    }

    /// Reads the next section: its tag, and a reader of its bytes. `None` at the end of the record.
    pub(crate) fn section(&mut self) -> Result<Option<(u8, Reader<'a>)>, DecodeError> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.u8("section")?;
        Ok(Some((tag, self.part("section")?)))
    }

    /// Fails if there are unread bytes.
    pub(crate) fn finish(self, field: &'static str) -> Result<(), DecodeError> {
        if self.is_empty() { Ok(()) } else { Err(DecodeError::Field(field)) }
    }
}

#[cfg(test)]
mod tests;
