//! The pieces in which bytes may arrive.

use bytes::Bytes;

/// Cuts bytes at places that follow from `seed`. With 0 each byte is a piece, with 1 all bytes are
/// one.
pub(crate) fn cut(bytes: &[u8], seed: u8) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(bytes);
    let mut state = u32::from(seed) | 0x0100_0000;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let wanted = match seed {
            0 => 1,
            1 => rest.len(),
            // Mostly short, so that lines and delimiters are cut; sometimes empty.
            _ if state.is_multiple_of(4) => (state >> 8) as usize % 600,
            _ => (state >> 8) as usize % 8,
        };
        pieces.push(rest.split_to(wanted.min(rest.len())));
    }
    pieces
}
