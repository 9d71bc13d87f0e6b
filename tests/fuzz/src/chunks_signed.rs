//! Bodies of signed chunks, with and without a signed trailer, compared with an independent decoder
//! that reads the whole body at once.
//!
//! An input cannot guess a signature. So two bytes that no such body contains otherwise are
//! replaced: [`SIGNATURE`] by the correct signature at its place, and [`RUN`] by enough content for
//! a chunk that another chunk may follow.

use crate::framing::{self, Decoded, TRAILER, Upload};
use crate::naive_signer::{chunk_signature, trailer_signature};
use crate::pieces;

/// Replaced by the correct signature at its place.
const SIGNATURE: u8 = 0xfe;
/// Replaced by 8192 bytes of content.
const RUN: u8 = 0xff;
/// Limit of the runs in one input: 128 KiB of content.
const RUNS_MAX: usize = 16;
/// The least length in bytes of a chunk that another chunk with content may follow.
const SMALL: usize = 8192;

const PLAIN: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
const WITH_TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";

/// The input: a byte that decides the cuts, a byte whose lowest bit announces a trailer and whose
/// other bits are the error of the announced length, then the body.
pub(crate) fn check(input: &[u8]) {
    let [seed, kind, body @ ..] = input else { return };
    if body.split(|byte| *byte == RUN).count() > RUNS_MAX + 1 {
        return;
    }
    let has_trailer = kind & 1 == 1;
    let mode = if has_trailer { WITH_TRAILER } else { PLAIN };
    let wire = expanded(body);
    // As for any client, the length of the content must be known before it is signed.
    let length = content_bytes(&wire);
    let error = if *kind < 0xe0 { 0 } else { u64::from(*kind & 0x1e) };
    let upload = Upload::new(mode, length + error);
    let wire = signed(&wire, &upload.seed);
    let naive = naive(&wire, &upload.seed, has_trailer).filter(|_| error == 0);
    let whole = upload.decode(&pieces::cut(&wire, 1));
    assert_eq!(whole.as_ref().ok(), naive.as_ref(), "two ways to decode");
    let seed = (*seed).max(1);
    assert_eq!(upload.decode(&pieces::cut(&wire, seed)), whole, "cut as {seed} says");
}

fn expanded(body: &[u8]) -> Vec<u8> {
    let mut wire = Vec::with_capacity(body.len());
    for byte in body {
        match *byte {
            RUN => wire.extend_from_slice(&[b'a'; SMALL]),
            byte => wire.push(byte),
        }
    }
    wire
}

/// Returns the sum of the lengths in the chunk headers, as far as they can be parsed.
fn content_bytes(wire: &[u8]) -> u64 {
    let (mut rest, mut bytes) = (wire, 0_u64);
    while let Some((header, after)) = framing::line(rest) {
        let size = size(header);
        let Some(next) = size.and_then(|size| after.get(size..)) else { break };
        bytes += size.unwrap_or_default() as u64;
        rest = next.strip_prefix(b"\r\n").unwrap_or(next);
    }
    bytes
}

/// Returns the length in a chunk header, without its extensions.
fn size(header: &[u8]) -> Option<usize> {
    let digits = header.split(|byte| *byte == b';').next()?;
    framing::chunk_header(digits).map(|(size, _)| size)
}

/// Inserts the signatures, each over the content that follows it.
fn signed(wire: &[u8], seed: &str) -> Vec<u8> {
    let (mut rest, mut out, mut previous) = (wire, Vec::new(), seed.to_owned());
    while let Some((header, after)) = framing::line(rest) {
        let Some(size) = size(header) else { break };
        let Some(content) = after.get(..size) else { break };
        let signature = chunk_signature(&previous, content);
        previous = push_line(&mut out, header, &signature, previous);
        out.extend_from_slice(content);
        rest = &after[size..];
        if size == 0 {
            break;
        }
        let Some(next) = rest.strip_prefix(b"\r\n") else { break };
        out.extend_from_slice(b"\r\n");
        rest = next;
    }
    // The rest is a trailer, or bytes that cannot be signed.
    let mut fields = String::new();
    while let Some((line, after)) = framing::line(rest) {
        if line.contains(&SIGNATURE) {
            let signature = trailer_signature(&previous, &fields);
            previous = push_line(&mut out, line, &signature, previous);
        } else {
            if let Some(value) = framing::trailer_line(line, TRAILER) {
                fields.extend([TRAILER, ":", value, "\n"]);
            }
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

/// Appends a line with its signature. Returns the previous signature for the next line.
fn push_line(out: &mut Vec<u8>, line: &[u8], signature: &str, previous: String) -> String {
    let mut previous = previous;
    for byte in line {
        if *byte == SIGNATURE {
            out.extend_from_slice(signature.as_bytes());
            signature.clone_into(&mut previous);
        } else {
            out.push(*byte);
        }
    }
    out.extend_from_slice(b"\r\n");
    previous
}

fn naive(wire: &[u8], seed: &str, has_trailer: bool) -> Option<Decoded> {
    let (mut content, mut rest, mut previous) = (Vec::new(), wire, seed.to_owned());
    let mut was_small = false;
    loop {
        let (header, after) = framing::line(rest)?;
        let (size, extension) = framing::chunk_header(header)?;
        let signature = extension?.strip_prefix("chunk-signature=")?;
        let chunk = after.get(..size)?;
        if was_small && size > 0 || signature != chunk_signature(&previous, chunk) {
            return None;
        }
        signature.clone_into(&mut previous);
        rest = &after[size..];
        if size == 0 {
            break;
        }
        was_small = size < SMALL;
        content.extend_from_slice(chunk);
        rest = rest.strip_prefix(b"\r\n")?;
    }
    if !has_trailer {
        return (rest == b"\r\n").then_some(Decoded { content, trailer: None });
    }
    let (field, after) = framing::line(rest)?;
    let value = framing::trailer_line(field, TRAILER)?;
    let (line, end) = framing::line(after)?;
    let signature = framing::trailer_line(line, "x-amz-trailer-signature")?;
    let right = trailer_signature(&previous, &format!("{TRAILER}:{value}\n"));
    let fits = framing::trailer_fits(rest.len());
    (signature == right && end == b"\r\n" && fits)
        .then(|| Decoded { content, trailer: Some(value.to_owned()) })
}
