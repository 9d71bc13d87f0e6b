//! Bodies as clients frame them: complete, truncated and corrupted.

mod framed;
mod oracle;
mod refusals;

use bytes::Bytes;
use framed::{Framed, TRAILER_EXAMPLE, example, signed_put};
use http::{HeaderMap, Version};

use super::{BodyDecoder, BodyHead, Trailers, UPLOAD_BYTES_MAX};
use crate::auth::tests::sent_request::SentRequest;
use crate::{Code, Fault};

/// Decodes `wire`, arriving in pieces of `step` bytes.
fn decode(sent: &SentRequest, wire: &[u8], step: usize) -> Result<(Vec<u8>, Trailers), Fault> {
    let verified = sent.verify()?;
    let head = BodyHead::parse(Version::HTTP_11, &sent.headers)?;
    let mut decoder = BodyDecoder::new(&verified, &head, UPLOAD_BYTES_MAX)?;
    let mut content = Vec::new();
    for piece in wire.chunks(step) {
        let mut out = Vec::new();
        let outcome = decoder.push(Bytes::copy_from_slice(piece), &mut out);
        content.extend(out.into_iter().flatten());
        outcome?;
    }
    Ok((content, decoder.finish()?))
}

#[track_caller]
fn check_decodes(framed: &Framed, content: &[u8]) -> Trailers {
    let mut trailers = None;
    for step in [1, 2, 7, 1000, usize::MAX] {
        let (decoded, found) = decode(&framed.sent, &framed.wire, step).unwrap();
        assert!(decoded == content, "step {step}");
        trailers = Some(found);
    }
    trailers.unwrap()
}

#[test]
fn s3_u6_documented_signed_chunks_are_decoded() {
    let framed = example(false);
    check_decodes(&framed, &vec![b'a'; 66_560]);
}

#[test]
fn s3_u7_documented_signed_chunks_with_trailer_are_decoded() {
    let framed = example(true);
    let trailers = check_decodes(&framed, &vec![b'a'; 66_560]);
    assert_eq!(trailers.get("x-amz-checksum-crc32c"), Some(TRAILER_EXAMPLE));
    assert_eq!(trailers.content_bytes(), 66_560);
}

#[test]
fn s3_d1_unsigned_chunks_of_any_size_are_decoded() {
    for sizes in [&[100_000][..], &[1, 1, 1], &[5, 8192, 3], &[]] {
        for anonymous in [false, true] {
            let framed = Framed::unsigned(sizes, anonymous);
            let trailers = check_decodes(&framed, &framed.content);
            assert!(trailers.get("x-amz-checksum-crc32").is_some());
        }
    }
}

#[test]
fn s3_u21_an_empty_body_is_decoded_in_each_mode() {
    for framed in [
        Framed::signed(&[], false),
        Framed::signed(&[], true),
        Framed::unsigned(&[], true),
        Framed::plain(b""),
    ] {
        check_decodes(&framed, b"");
    }
    // Its framing still has 86 bytes.
    assert_eq!(Framed::signed(&[], false).wire.len(), 86);
}

#[test]
fn s3_d2_a_large_signed_chunk_is_passed_on_without_buffering() {
    let size = 3 << 20;
    let framed = Framed::signed(&[size], true);
    let verified = framed.sent.verify().unwrap();
    let head = BodyHead::parse(Version::HTTP_11, &framed.sent.headers).unwrap();
    let mut decoder = BodyDecoder::new(&verified, &head, UPLOAD_BYTES_MAX).unwrap();
    assert_eq!(decoder.expected(), Some(size as u64));
    let wire = Bytes::from(framed.wire);
    let mut arrived = 0;
    for start in (0..wire.len()).step_by(65_536) {
        let piece = wire.slice(start..wire.len().min(start + 65_536));
        let mut out = Vec::new();
        decoder.push(piece.clone(), &mut out).unwrap();
        for content in &out {
            // A slice of the pushed bytes, not a copy.
            assert!(piece.as_ptr_range().contains(&content.as_ptr()));
        }
        arrived += out.iter().map(Bytes::len).sum::<usize>();
        let frame = 200;
        assert!(arrived + frame >= (start + piece.len()).min(size), "nothing is held back");
    }
    assert_eq!(decoder.finish().unwrap().content_bytes(), size as u64);
}

#[test]
fn s3_u7_a_trailer_line_may_end_with_an_extra_line_feed() {
    let framed = Framed::signed(&[10], true);
    let text = String::from_utf8(framed.wire.clone()).unwrap();
    let wire = text.replace("==\r\nx-amz-trailer-signature", "==\n\r\nx-amz-trailer-signature");
    assert_ne!(text, wire);
    decode(&framed.sent, wire.as_bytes(), 3).unwrap();
}

#[test]
fn s3_d6_plain_bodies_ignore_the_decoded_length() {
    let headers = [("content-length", "7"), ("x-amz-decoded-content-length", "3")];
    let sent = signed_put("UNSIGNED-PAYLOAD", &headers);
    let (content, _) = decode(&sent, b"Welcome", 2).unwrap();
    assert_eq!(content, b"Welcome");
}

#[test]
fn s3_u16_an_upload_needs_a_length_or_chunked_framing() {
    let head = |version, headers: &[(&str, &str)]| {
        let sent = SentRequest::new("PUT", "/b/k", headers);
        BodyHead::parse(version, &sent.headers).unwrap()
    };
    let bare = head(Version::HTTP_11, &[]).require_length().unwrap_err();
    assert_eq!(bare.code, Code::MissingContentLength);
    head(Version::HTTP_2, &[]).require_length().unwrap();
    head(Version::HTTP_11, &[("content-length", "0")]).require_length().unwrap();
    head(Version::HTTP_11, &[("transfer-encoding", "chunked")]).require_length().unwrap();

    let verified = SentRequest::new("PUT", "/b/k", &[("host", "h")]).verify().unwrap();
    let large = head(Version::HTTP_11, &[("content-length", "5368709121")]);
    let fault = BodyDecoder::new(&verified, &large, UPLOAD_BYTES_MAX).unwrap_err();
    assert_eq!(fault.code, Code::EntityTooLarge);
    let open = head(Version::HTTP_11, &[("transfer-encoding", "chunked")]);
    let mut decoder = BodyDecoder::new(&verified, &open, 3).unwrap();
    decoder.push(Bytes::from_static(b"abc"), &mut Vec::new()).unwrap();
    let fault = decoder.push(Bytes::from_static(b"d"), &mut Vec::new()).unwrap_err();
    assert_eq!(fault.code, Code::EntityTooLarge);
    assert_eq!(decoder.finish().unwrap_err().code, Code::EntityTooLarge);
}

#[test]
fn s3_d10_http_trailers_are_not_body_trailers() {
    // HTTP trailers cannot be passed to the decoder: only bytes of the body can be a trailer.
    let framed = Framed::unsigned(&[5], true);
    let end = framed.wire.windows(3).position(|bytes| bytes == b"0\r\n").unwrap() + 3;
    let wire = [&framed.wire[..end], b"\r\n"].concat();
    let fault = decode(&framed.sent, &wire, 100).unwrap_err();
    assert_eq!(fault.code, Code::MalformedTrailerError);
}

#[test]
fn lengths_are_decimal_numbers() {
    for (text, good) in [
        ("0", true),
        ("12", true),
        ("", false),
        ("+1", false),
        ("-1", false),
        ("1e3", false),
        ("99999999999999999999", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("content-length", text.parse().unwrap());
        assert_eq!(BodyHead::parse(Version::HTTP_11, &headers).is_ok(), good, "{text}");
    }
}

#[test]
fn a_signed_put_without_chunks_has_no_trailer() {
    let sent = signed_put("UNSIGNED-PAYLOAD", &[("x-amz-trailer", "x-amz-checksum-crc32")]);
    assert_eq!(decode(&sent, b"", 1).unwrap_err().code, Code::InvalidRequest);
}
