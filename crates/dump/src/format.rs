//! The bytes of a dump: how each piece is laid out, and what a piece may be.
//!
//! ```text
//! header   "ASHDUMP"  format u8  label length u8  label                          CRC
//! record   1  key length u16  value length u32  key  value                       CRC
//! counter  2  key length u16  key  number i64                                    CRC
//! trailer  3  records u64  counters u64  SHA-256 of all bytes before it
//! ```
//!
//! Integers are big-endian, a CRC is the CRC-32C of its own piece. Keys of records ascend, and
//! then those of counters. A header is laid out like this in every format.

use store::Key;

/// The format that this crate writes, and the only one that it reads.
pub const FORMAT: u8 = 1;

/// Bytes of a label, at most.
pub const LABEL_BYTES_MAX: usize = 255;

/// Bytes of a value, at most: more than any engine takes. A damaged length asks for no more memory
/// than this.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// What a dump begins with.
pub(crate) const MAGIC: &[u8; 7] = b"ASHDUMP";

/// Bytes of a CRC.
pub(crate) const CRC_BYTES: usize = 4;

/// Bytes of the sum over the whole.
pub(crate) const SUM_BYTES: usize = 32;

/// How pieces begin.
pub(crate) mod kind {
    pub(crate) const RECORD: u8 = 1;
    pub(crate) const COUNTER: u8 = 2;
    pub(crate) const TRAILER: u8 = 3;
}

/// Lays out pieces one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) bytes: Vec<u8>,
}

impl Pieces {
    pub(crate) fn header(&mut self, label: &[u8]) -> Result<(), &'static str> {
        let length = u8::try_from(label.len()).map_err(|_| "a label that is too long")?;
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(MAGIC);
        self.bytes.extend_from_slice(&[FORMAT, length]);
        self.bytes.extend_from_slice(label);
        self.close(begin);
        Ok(())
    }

    pub(crate) fn record(&mut self, key: &Key, value: &[u8]) -> Result<(), &'static str> {
        let key_length = key_length(key)?;
        let value_length =
            u32::try_from(value.len()).ok().filter(|_| value.len() <= VALUE_BYTES_MAX);
        let value_length = value_length.ok_or("a value that is too long")?;
        let begin = self.bytes.len();
        self.bytes.push(kind::RECORD);
        self.bytes.extend_from_slice(&key_length.to_be_bytes());
        self.bytes.extend_from_slice(&value_length.to_be_bytes());
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(value);
        self.close(begin);
        Ok(())
    }

    pub(crate) fn counter(&mut self, key: &Key, number: i64) -> Result<(), &'static str> {
        let key_length = key_length(key)?;
        if number == 0 {
            return Err("a counter of 0");
        }
        let begin = self.bytes.len();
        self.bytes.push(kind::COUNTER);
        self.bytes.extend_from_slice(&key_length.to_be_bytes());
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self.close(begin);
        Ok(())
    }

    /// The trailer but for its sum.
    pub(crate) fn trailer(&mut self, records: u64, counters: u64) {
        self.bytes.push(kind::TRAILER);
        self.bytes.extend_from_slice(&records.to_be_bytes());
        self.bytes.extend_from_slice(&counters.to_be_bytes());
    }

    fn close(&mut self, begin: usize) {
        let crc = crc32c::crc32c(self.bytes.get(begin..).unwrap_or_default());
        self.bytes.extend_from_slice(&crc.to_be_bytes());
    }
}

fn key_length(key: &Key) -> Result<u16, &'static str> {
    u16::try_from(key.as_bytes().len()).map_err(|_| "a key that is too long")
}
