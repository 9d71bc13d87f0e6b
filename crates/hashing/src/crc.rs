//! The CRC of a message from the CRCs of its pieces, without another read of the bytes.
//!
//! A CRC is the remainder of a polynomial division. If bytes follow a piece, the CRC of the piece
//! is multiplied by a power of x, which depends only on the number of these bytes. The power is
//! computed once per length, in at most two multiplications for each bit of the length, and applied
//! in one multiplication. For
//! example, one [`CrcCombiner`] for 8 MiB joins all equal parts of an upload. The arithmetic is
//! modulo two and modulo the polynomial of the CRC. Bits are reflected: the highest bit of a CRC is
//! the constant term.
//!
//! This is the method of zlib's `crc32_combine_op`. The three CRCs here begin and end with all bits
//! inverted, which cancels out.

/// A CRC algorithm of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crc {
    /// CRC-32 (ISO-HDLC), as in zlib.
    Crc32,
    /// CRC-32C (iSCSI).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
}

/// Combines the CRC of a piece of a message with the CRC of the piece that follows it. The length
/// of the second piece is fixed, so one combiner serves all pairs whose second piece has this
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcCombiner {
    crc: Crc,
    bytes: u64,
    /// The polynomial x to the power of the number of bits of the second piece, modulo the
    /// polynomial of the CRC.
    power: u64,
}

impl Crc {
    /// Returns the polynomial of the CRC without its highest term, in reflected order: the highest
    /// bit is the constant term.
    const fn polynomial(self) -> u64 {
        match self {
            Crc::Crc32 => 0xedb8_8320,
            Crc::Crc32c => 0x82f6_3b78,
            Crc::Crc64Nvme => 0x9a6c_9329_ac4b_c9b5,
        }
    }

    /// Returns the polynomial 1, the neutral element of the multiplication.
    const fn one(self) -> u64 {
        match self {
            Crc::Crc32 | Crc::Crc32c => 1 << 31,
            Crc::Crc64Nvme => 1 << 63,
        }
    }

    /// Returns the product of two polynomials, modulo the polynomial of the CRC.
    const fn times(self, first: u64, second: u64) -> u64 {
        let (polynomial, mut bit) = (self.polynomial(), self.one());
        let (mut product, mut term) = (0, second);
        while bit > 0 {
            product ^= if first & bit == 0 { 0 } else { term };
            // Multiplies by x: a shift, and a reduction if the highest term was shifted out.
            term = (term >> 1) ^ if term & 1 == 0 { 0 } else { polynomial };
            bit >>= 1;
        }
        product
    }
}

impl CrcCombiner {
    /// Creates a combiner for pieces that are followed by a piece of `bytes` bytes.
    pub const fn new(crc: Crc, bytes: u64) -> CrcCombiner {
        let (mut power, mut left) = (crc.one(), bytes);
        // The power is computed by repeated squaring. It begins with x to the power of 8, one byte.
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

    /// Returns the length in bytes that the second of two combined pieces must have.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the CRC of both pieces together. `first` and `second` are the CRCs of the pieces;
    /// the second piece has [`CrcCombiner::bytes`] bytes.
    pub const fn combine(&self, first: u64, second: u64) -> u64 {
        self.crc.times(self.power, first) ^ second
    }
}

#[cfg(test)]
mod tests;
