//! Bodies of unsigned chunks and a trailer. The result equals that of a decoder that reads the
//! whole body at once, independent of the pieces in which the body arrives.

use crate::framing::{self, Decoded, TRAILER, Upload};
use crate::pieces;

const MODE: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// The input: a byte that decides the cuts, a byte for the error of the announced length, then the
/// body.
pub(crate) fn check(input: &[u8]) {
    let [seed, error, wire @ ..] = input else { return };
    let naive = naive(wire);
    let length = naive.as_ref().map_or(0, |decoded| decoded.content.len() as u64);
    // Mostly no error, so that correct bodies are decoded.
    let error = if *error < 0xe0 { 0 } else { u64::from(*error & 0x1f) };
    let upload = Upload::new(MODE, length + error);
    let whole = upload.decode(&pieces::cut(wire, 1));
    assert_eq!(whole.as_ref().ok(), naive.as_ref().filter(|_| error == 0), "two ways to decode");
    for seed in [0, *seed] {
        let cut = upload.decode(&pieces::cut(wire, seed));
        assert_eq!(cut, whole, "cut as {seed} says");
    }
}

fn naive(wire: &[u8]) -> Option<Decoded> {
    let (mut content, mut rest) = (Vec::new(), wire);
    loop {
        let (header, after) = framing::line(rest)?;
        let (size, None) = framing::chunk_header(header)? else { return None };
        if size == 0 {
            return Some(Decoded { content, trailer: Some(trailer(after)?) });
        }
        let chunk = after.get(..size)?;
        content.extend_from_slice(chunk);
        rest = after[size..].strip_prefix(b"\r\n")?;
    }
}

fn trailer(bytes: &[u8]) -> Option<String> {
    let (field, rest) = framing::line(bytes)?;
    let fits = framing::trailer_fits(bytes.len());
    (rest == b"\r\n" && fits)
        .then(|| framing::trailer_line(field, TRAILER).map(str::to_owned))
        .flatten()
}
