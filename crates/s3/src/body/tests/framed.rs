//! Framing and signing as a client does it, implemented independently.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::auth::tests::sent_request::{KEY, SECRET, SentRequest};

pub(super) const TRAILER_EXAMPLE: &str = "sOO8/Q==";

/// A request and the bytes of its body on the wire.
#[derive(Debug)]
pub(super) struct Framed {
    pub(super) sent: SentRequest,
    pub(super) wire: Vec<u8>,
    pub(super) content: Vec<u8>,
}

/// A PUT signed in its headers.
pub(super) fn signed_put(payload: &str, headers: &[(&str, &str)]) -> SentRequest {
    let base = [("host", "localhost:9700"), ("x-amz-content-sha256", payload)];
    SentRequest::new("PUT", "/b/k", &[&base, headers].concat()).signed()
}

fn content(sizes: &[usize]) -> Vec<u8> {
    (0..sizes.iter().sum()).map(|place: usize| b'a' + u8::try_from(place % 23).unwrap()).collect()
}

fn split<'a>(content: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = content;
    sizes.iter().chain(&[0]).map(move |size| {
        let (chunk, after) = rest.split_at(*size);
        rest = after;
        chunk
    })
}

impl Framed {
    pub(super) fn plain(content: &[u8]) -> Framed {
        let length = content.len().to_string();
        let sent = signed_put("UNSIGNED-PAYLOAD", &[("content-length", &length)]);
        Framed { sent, wire: content.to_vec(), content: content.to_vec() }
    }

    /// Frames content as boto3 does over TLS, with or without credentials.
    pub(super) fn unsigned(sizes: &[usize], anonymous: bool) -> Framed {
        let content = content(sizes);
        let length = content.len().to_string();
        let payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
        let headers = [
            ("content-encoding", "aws-chunked"),
            ("transfer-encoding", "chunked"),
            ("x-amz-decoded-content-length", &length),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
        ];
        let sent = if anonymous {
            let base = [("host", "localhost:9700"), ("x-amz-content-sha256", payload)];
            SentRequest::new("PUT", "/b/k", &[&base[..], &headers].concat())
        } else {
            signed_put(payload, &headers)
        };
        let mut wire = Vec::new();
        for chunk in split(&content, sizes) {
            wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            if !chunk.is_empty() {
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
        }
        wire.extend_from_slice(b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        Framed { sent, wire, content }
    }

    /// Frames content as mc does over plain TCP, or with a signed trailer as the Java SDK does.
    pub(super) fn signed(sizes: &[usize], trailer: bool) -> Framed {
        let content = content(sizes);
        let length = content.len().to_string();
        let mut headers = vec![("x-amz-decoded-content-length", length.as_str())];
        let mut payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        if trailer {
            headers.push(("x-amz-trailer", "x-amz-checksum-crc32c"));
            payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
        }
        let sent = signed_put(payload, &headers);
        let authorization = sent.headers["authorization"].to_str().unwrap();
        let seed = authorization.rsplit('=').next().unwrap().to_owned();
        let trailer = trailer.then_some(("x-amz-checksum-crc32c", "yZRlqg=="));
        let wire = sign_body(&seed, &content, sizes, trailer);
        Framed { sent, wire, content }
    }
}

fn sign_body(
    seed: &str,
    content: &[u8],
    sizes: &[usize],
    trailer: Option<(&str, &str)>,
) -> Vec<u8> {
    let mut previous = seed.to_owned();
    let mut wire = Vec::new();
    for chunk in split(content, sizes) {
        let rest = format!("{}\n{}", hex(b""), hex(chunk));
        previous = sign("AWS4-HMAC-SHA256-PAYLOAD", &previous, &rest);
        let header = format!("{:x};chunk-signature={previous}\r\n", chunk.len());
        wire.extend_from_slice(header.as_bytes());
        wire.extend_from_slice(chunk);
        if !chunk.is_empty() || trailer.is_none() {
            wire.extend_from_slice(b"\r\n");
        }
    }
    if let Some((name, value)) = trailer {
        let rest = hex(format!("{name}:{value}\n").as_bytes());
        let signature = sign("AWS4-HMAC-SHA256-TRAILER", &previous, &rest);
        let lines = format!("{name}:{value}\r\nx-amz-trailer-signature:{signature}\r\n\r\n");
        wire.extend_from_slice(lines.as_bytes());
    }
    wire
}

fn sign(algorithm: &str, previous: &str, rest: &str) -> String {
    let scope = "20130524/us-east-1/s3/aws4_request";
    let text = format!("{algorithm}\n20130524T000000Z\n{scope}\n{previous}\n{rest}");
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in scope.split('/').chain([text.as_str()]) {
        let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        key = mac.chain_update(part).finalize().into_bytes().to_vec();
    }
    hex::encode(key)
}

fn hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The two chunked uploads in AWS's documentation, with their signatures.
pub(super) fn example(trailer: bool) -> Framed {
    let mut sent = SentRequest::new(
        "PUT",
        "/examplebucket/chunkObject.txt",
        &[
            ("content-encoding", "aws-chunked"),
            ("host", "s3.amazonaws.com"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
    );
    let (signed, seed, chunks);
    if trailer {
        sent = sent
            .with("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")
            .with("x-amz-trailer", "x-amz-checksum-crc32c");
        signed = "content-encoding;host;x-amz-content-sha256;x-amz-date;\
                  x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer";
        seed = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
        chunks = [
            "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
        ];
    } else {
        sent = sent
            .with("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
            .with("content-length", "66824");
        signed = "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;\
                  x-amz-decoded-content-length;x-amz-storage-class";
        seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
        chunks = [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ];
    }
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={KEY}/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={signed},Signature={seed}"
    );
    sent = sent.with("authorization", &authorization);
    let mut wire = Vec::new();
    for (size, signature) in [65_536, 1024, 0].into_iter().zip(chunks) {
        let header = format!("{size:x};chunk-signature={signature}\r\n");
        wire.extend_from_slice(header.as_bytes());
        wire.resize(wire.len() + size, b'a');
        if size > 0 || !trailer {
            wire.extend_from_slice(b"\r\n");
        }
    }
    if trailer {
        let signature = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";
        let lines = format!(
            "x-amz-checksum-crc32c:{TRAILER_EXAMPLE}\r\nx-amz-trailer-signature:{signature}\r\n\r\n"
        );
        wire.extend_from_slice(lines.as_bytes());
    }
    Framed { sent, wire, content: vec![b'a'; 66_560] }
}
