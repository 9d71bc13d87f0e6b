//! Bodies in `aws-chunked` encoding, split into pieces that a test can change before it sends them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::{Client, Request};

/// The checksums and signatures of a chunked body, as `x-amz-content-sha256` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Signed,
    SignedTrailer,
    UnsignedTrailer,
}

impl Mode {
    pub(crate) fn claim(self) -> &'static str {
        match self {
            Mode::Signed => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            Mode::SignedTrailer => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            Mode::UnsignedTrailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        }
    }

    fn has_trailer(self) -> bool {
        self != Mode::Signed
    }

    fn is_signed(self) -> bool {
        self != Mode::UnsignedTrailer
    }
}

/// A chunked body and the head of its request. All signatures are correct when it is built; changes
/// that a test then makes to the pieces are not signed.
#[derive(Clone, Debug)]
pub(crate) struct Chunked {
    head: Vec<u8>,
    /// The chunks with content, each with its header and the CRLF after it.
    pub(crate) chunks: Vec<Vec<u8>>,
    /// The final chunk of length 0; with a trailer, without the empty line that ends the body.
    pub(crate) last: Vec<u8>,
    /// The lines of the trailer.
    pub(crate) trailer: Vec<u8>,
    /// The empty line after the trailer; empty in a mode without a trailer.
    pub(crate) end: Vec<u8>,
}

const CHUNK_BYTES: usize = 64 << 10;

impl Chunked {
    /// Builds a PUT of `content` whose `x-amz-decoded-content-length` is `decoded`. An empty
    /// `decoded` leaves the header out.
    pub(crate) fn new(
        client: &Client,
        path: &str,
        mode: Mode,
        content: &[u8],
        decoded: &str,
    ) -> Chunked {
        let chunks = content.chunks(CHUNK_BYTES).chain([&[][..]]);
        let header = |size: usize| {
            if mode.is_signed() {
                format!("{size:x};chunk-signature={}\r\n", "0".repeat(64))
            } else {
                format!("{size:x}\r\n")
            }
        };
        let trailer_line =
            format!("x-amz-checksum-sha256:{}", STANDARD.encode(Sha256::digest(content)));
        let mut request = Request::new("PUT", path)
            .claim(mode.claim())
            .header("content-encoding", "aws-chunked")
            .length("");
        if !decoded.is_empty() {
            request = request.header("x-amz-decoded-content-length", decoded);
        }
        if mode.has_trailer() {
            request = request.header("x-amz-trailer", "x-amz-checksum-sha256");
        }
        let sealed = request.sealed(client.signature());
        let mut previous = sealed.signature.clone();
        let mut framed = Vec::new();
        for chunk in chunks {
            let mut header = header(chunk.len());
            if mode.is_signed() {
                previous = sealed.signer.chunk(&previous, chunk);
                header = header.replace(&"0".repeat(64), &previous);
            }
            framed.push([header.as_bytes(), chunk, b"\r\n"].concat());
        }
        let mut last = framed.pop().expect("the empty chunk is always there");
        let mut trailer = Vec::new();
        if mode.has_trailer() {
            last.truncate(last.len() - 2);
            trailer = format!("{trailer_line}\r\n").into_bytes();
        }
        if mode == Mode::SignedTrailer {
            let signature = sealed.signer.trailer(&previous, &format!("{trailer_line}\n"));
            trailer.extend(format!("x-amz-trailer-signature:{signature}\r\n").into_bytes());
        }
        let end = if mode.has_trailer() { b"\r\n".to_vec() } else { Vec::new() };
        Chunked { head: sealed.head, chunks: framed, last, trailer, end }
    }

    /// Returns the bytes of the request, with the `Content-Length` of the pieces as they are now.
    pub(crate) fn wire(&self) -> Vec<u8> {
        let mut body = self.chunks.concat();
        body.extend_from_slice(&self.last);
        body.extend_from_slice(&self.trailer);
        body.extend_from_slice(&self.end);
        let mut wire = self.head.clone();
        wire.truncate(wire.len() - 2);
        wire.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
        wire.append(&mut body);
        wire
    }
}
