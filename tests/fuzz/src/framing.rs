//! Chunked bodies: a verified request for a body, our decoder and a naive one.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Version};
use s3::Code;
use s3::auth::{Credentials, RequestHead, SignatureRules, Verified};
use s3::body::{BodyDecoder, BodyHead, CHUNK_HEADER_BYTES_MAX, TRAILER_BYTES_MAX};

use crate::naive_signer::{
    ACCESS_KEY, Head, NOW, REGION, SCOPE, SECRET, TIME, signature, signed_headers,
};

/// Limit of the content of a body, in bytes.
const CONTENT_BYTES_MAX: u64 = 1 << 20;

/// The trailer that is announced in modes with a trailer.
pub(crate) const TRAILER: &str = "x-amz-checksum-crc32";

/// A `PutObject` with a valid signature, before its body arrives.
pub(crate) struct Upload {
    verified: Verified,
    headers: HeaderMap,
    /// The signature of the request, which begins the chain of chunk signatures.
    pub(crate) seed: String,
}

/// A decoded body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) content: Vec<u8>,
    pub(crate) trailer: Option<String>,
}

impl Upload {
    /// Builds a request. `mode` is the value of `x-amz-content-sha256`.
    pub(crate) fn new(mode: &'static str, decoded_length: u64) -> Upload {
        let mut headers = HeaderMap::new();
        let mut set = |name, value: &str| {
            headers.insert(name, HeaderValue::from_str(value).expect("a header of our own"));
        };
        set("host", "localhost");
        set("x-amz-date", TIME);
        set("x-amz-content-sha256", mode);
        set("x-amz-decoded-content-length", &decoded_length.to_string());
        if mode.ends_with("-TRAILER") {
            set("x-amz-trailer", TRAILER);
        }
        let head = Head { method: "PUT", path: "/bucket/key", query: "", headers: &headers };
        let seed = signature(&head, mode).expect("a path without escapes");
        let names = signed_headers(&headers);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{SCOPE}, SignedHeaders={names}, \
             Signature={seed}"
        );
        let value = HeaderValue::from_str(&authorization).expect("a header of our own");
        headers.insert("authorization", value);
        let request = RequestHead {
            method: &Method::PUT,
            path: "/bucket/key",
            query: "",
            headers: &headers,
            authority: None,
            host_bucket: None,
        };
        let credentials = Credentials::parse(&request).expect("credentials of our own");
        let verified = credentials.verify(Some(SECRET), &request, &terms(true));
        Upload { verified: verified.expect("a signature of our own"), headers, seed }
    }

    /// Decodes a body that arrives in these pieces.
    pub(crate) fn decode(&self, pieces: &[Bytes]) -> Result<Decoded, Code> {
        let head = BodyHead::parse(Version::HTTP_11, &self.headers).expect("a head of our own");
        let mut decoder = BodyDecoder::new(&self.verified, &head, CONTENT_BYTES_MAX)
            .map_err(|fault| fault.code)?;
        let mut out = Vec::new();
        let (mut pushed, mut passed) = (0_usize, 0_usize);
        let mut broken = None;
        for piece in pieces {
            pushed += piece.len();
            let outcome = decoder.push(piece.clone(), &mut out).map_err(|fault| fault.code);
            if let Some(first) = broken {
                assert_eq!(outcome, Err(first), "the first fault is final");
            }
            broken = outcome.err().or(broken);
            let now: usize = out.iter().map(Bytes::len).sum();
            assert!(now >= passed && now <= pushed, "no byte is made up");
            assert!(decoder.expected().is_none_or(|expected| now as u64 <= expected));
            assert!(out.iter().all(|slice| !slice.is_empty()));
            // The decoder keeps only an incomplete line back; all else is content or framing.
            passed = now;
        }
        let trailers = decoder.finish().map_err(|fault| fault.code);
        if let Some(first) = broken {
            assert_eq!(trailers.as_ref().err(), Some(&first), "the first fault is final");
        }
        let trailers = trailers?;
        assert_eq!(trailers.content_bytes(), passed as u64);
        let trailer = trailers.get(TRAILER).map(str::to_owned);
        Ok(Decoded { content: out.concat(), trailer })
    }
}

/// The rules with which all targets verify signatures.
pub(crate) fn terms(accepts_aws_chunked: bool) -> SignatureRules<'static> {
    SignatureRules {
        region: REGION,
        service: "s3",
        has_session: false,
        sigv2_presign: true,
        accepts_aws_chunked,
        now: NOW,
    }
}

/// Returns the first line without its CRLF, and the rest.
pub(crate) fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

/// Parses a chunk header naively. Returns the length and the text after the semicolon.
pub(crate) fn chunk_header(line: &[u8]) -> Option<(usize, Option<&str>)> {
    if line.len() + 2 > CHUNK_HEADER_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(line).ok()?;
    let (size, extension) = match text.split_once(';') {
        Some((size, extension)) => (size, Some(extension)),
        None => (text, None),
    };
    if !(1..=16).contains(&size.len()) || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some((usize::from_str_radix(size, 16).ok()?, extension))
}

/// Parses the line of the trailer naively. Returns its value.
pub(crate) fn trailer_line<'a>(line: &'a [u8], wanted: &str) -> Option<&'a str> {
    // Some clients end the line with LF and then with CRLF.
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = std::str::from_utf8(line).ok().filter(|line| !line.contains('\r'))?;
    let (name, value) = line.split_once(':')?;
    let value = value.trim();
    (name.eq_ignore_ascii_case(wanted) && !value.chars().any(char::is_control)).then_some(value)
}

/// Returns true if a trailer of this length in bytes is allowed, with its empty line.
pub(crate) fn trailer_fits(bytes: usize) -> bool {
    bytes <= TRAILER_BYTES_MAX
}
