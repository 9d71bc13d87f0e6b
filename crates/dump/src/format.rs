//! The format of a dump: the layout and the limits of each piece.
//!
//! ```text
//! header   "ASHDUMP"  format u8  label length u8  label                          CRC
//! record   1  key length u16  value length u32  key  value                       CRC
//! counter  2  key length u16  key  number i64                                    CRC
//! trailer  3  records u64  counters u64  SHA-256 of all bytes before it
//! ```
//!
//! Integers are big-endian. A CRC is the CRC-32C of its own piece. First come the records in
//! ascending order of key, then the counters in ascending order of key. For example, an empty store
//! has a dump of a header and a trailer. All formats have the same layout of the header.

use store::Key;

/// The format that this crate writes, and the only one that it reads.
pub const FORMAT: u8 = 1;

/// The largest label, the bytes that a writer chose for the dump's header, in bytes.
pub const LABEL_BYTES_MAX: usize = 255;

/// The largest value of a record in a dump, in bytes, which is more than an engine accepts. It also
/// limits the memory that a reader allocates for a damaged length.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// The first bytes of a dump.
pub(crate) const MAGIC: &[u8; 7] = b"ASHDUMP";

/// The size of a CRC in bytes.
pub(crate) const CRC_BYTES: usize = 4;

/// The size of the SHA-256 in the trailer, in bytes.
pub(crate) const SUM_BYTES: usize = 32;

/// The first byte of each kind of piece: record, counter or trailer.
pub(crate) mod kind {
    pub(crate) const RECORD: u8 = 1;
    pub(crate) const COUNTER: u8 = 2;
    pub(crate) const TRAILER: u8 = 3;
}

/// A buffer to which the pieces of a dump (header, records, counters, trailer) are appended.
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

    /// Appends the trailer without its SHA-256.
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
