//! The CRC of a run of bytes from those of its pieces; nothing is read again.
//!
//! A CRC is the remainder of a polynomial. Bytes that follow a piece multiply the piece's CRC by a
//! power of x, which depends on their number only. So that power is computed once for each length,
//! in some sixty multiplications, and applied in one. All arithmetic is modulo two and modulo the
//! CRC's polynomial. Bits are reflected: the highest bit of a CRC is the constant term.
//!
//! This is the method of zlib's `crc32_combine_op`. The three CRCs here begin and end with all bits
//! inverted, which cancels out.

/// A CRC that S3 knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crc {
    /// CRC-32 (ISO-HDLC), as in zlib.
    Crc32,
    /// CRC-32C (iSCSI).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
}

/// Combines the CRC of a run with that of a second run of a fixed length that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcCombiner {
    crc: Crc,
    bytes: u64,
    /// x to the power of the second run's bits.
    power: u64,
}

impl Crc {
    /// The polynomial without its highest term.
    const fn polynomial(self) -> u64 {
        match self {
            Crc::Crc32 => 0xedb8_8320,
            Crc::Crc32c => 0x82f6_3b78,
            Crc::Crc64Nvme => 0x9a6c_9329_ac4b_c9b5,
        }
    }

    /// The constant term: the number 1.
    const fn one(self) -> u64 {
        match self {
            Crc::Crc32 | Crc::Crc32c => 1 << 31,
            Crc::Crc64Nvme => 1 << 63,
        }
    }

    const fn times(self, first: u64, second: u64) -> u64 {
        let (polynomial, mut bit) = (self.polynomial(), self.one());
        let (mut product, mut term) = (0, second);
        while bit > 0 {
            product ^= if first & bit == 0 { 0 } else { term };
            // Times x.
            term = (term >> 1) ^ if term & 1 == 0 { 0 } else { polynomial };
            bit >>= 1;
        }
        product
    }
}

impl CrcCombiner {
    /// For a second run of so many bytes.
    pub const fn new(crc: Crc, bytes: u64) -> CrcCombiner {
        let (mut power, mut left) = (crc.one(), bytes);
        // x to the power of eight, squared once for each bit of the number of bytes.
        let mut square = crc.one() >> 8;
        while left > 0 {
            if left & 1 == 1 {
                power = crc.times(square, power);
            }
            square = crc.times(square, square);
            left >>= 1;
        }
        CrcCombiner { crc, bytes, power }
    }

    /// How many bytes the second run has.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The CRC of both runs, from that of each.
    pub const fn combine(&self, first: u64, second: u64) -> u64 {
        self.crc.times(self.power, first) ^ second
    }
}

#[cfg(test)]
mod tests;
