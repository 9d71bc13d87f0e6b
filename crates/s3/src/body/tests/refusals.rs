//! Bodies that the decoder must refuse, and the code of each refusal.

use super::decode;
use super::framed::{Framed, signed_put};
use crate::Code;

/// Replaces `from` by `to` on the wire and expects `code`, in pieces of any size.
#[track_caller]
fn check(framed: &Framed, from: &str, to: &str, code: Code) {
    let wire = String::from_utf8(framed.wire.clone()).unwrap();
    assert!(wire.contains(from), "{from:?} is not on the wire");
    check_wire(framed, wire.replacen(from, to, 1).as_bytes(), code);
}

#[track_caller]
fn check_wire(framed: &Framed, wire: &[u8], code: Code) {
    for step in [1, 13, usize::MAX] {
        let fault = decode(&framed.sent, wire, step).map(|_| "decoded").unwrap_err();
        assert_eq!(fault.code, code, "step {step}: {fault}");
    }
}

/// Returns the wire bytes with one byte changed, counted from the end.
fn flipped(framed: &Framed, from_end: usize) -> Vec<u8> {
    let mut wire = framed.wire.clone();
    let place = wire.len() - from_end;
    wire[place] ^= 1;
    wire
}

#[test]
fn s3_d3_every_signature_of_the_chain_is_checked() {
    let framed = Framed::signed(&[8192, 9000, 10], true);
    let wire = String::from_utf8(framed.wire.clone()).unwrap();
    let found: Vec<usize> = wire.match_indices("signature").map(|(place, _)| place).collect();
    assert_eq!(found.len(), 5);
    for place in found {
        let mut wire = framed.wire.clone();
        let digit = &mut wire[place + "signature=".len()];
        *digit = if *digit == b'0' { b'1' } else { b'0' };
        check_wire(&framed, &wire, Code::SignatureDoesNotMatch);
    }
}

#[test]
fn s3_d3_content_of_a_signed_chunk_is_checked() {
    let framed = Framed::signed(&[8192, 10], false);
    let content = 86 + 4;
    check_wire(&framed, &flipped(&framed, content), Code::SignatureDoesNotMatch);
    check_wire(&framed, &flipped(&framed, framed.wire.len() - 4000), Code::SignatureDoesNotMatch);
}

#[test]
fn s3_d3_chunks_of_another_request_are_refused() {
    let framed = Framed::signed(&[10], false);
    let other = Framed::signed(&[10], true);
    let mut spliced = framed.wire.clone();
    spliced[..100].copy_from_slice(&other.wire[..100]);
    check_wire(&framed, &spliced, Code::SignatureDoesNotMatch);
}

#[test]
fn s3_d4_trailer_names_must_equal_the_announced_names() {
    let code = Code::MalformedTrailerError;
    let framed = Framed::unsigned(&[5], false);
    check(&framed, "x-amz-checksum-crc32:", "x-amz-checksum-crc32c:", code);
    check(&framed, "x-amz-checksum-crc32:AAAAAA==\r\n", "", code);
    check(&framed, "AAAAAA==\r\n", "AAAAAA==\r\nx-amz-meta-a:1\r\n", code);
    check(&framed, "AAAAAA==\r\n", "AAAAAA==\r\nx-amz-checksum-crc32:AAAAAA==\r\n", code);
    check(&framed, "AAAAAA==\r\n", "AAAAAA==\r\nx-amz-trailer-signature:00\r\n", code);
    let signed = Framed::signed(&[5], true);
    check(&signed, "x-amz-checksum-crc32c:", "x-amz-other:", code);
    check(&signed, "x-amz-trailer-signature:", "x-amz-other:", Code::IncompleteBody);
}

#[test]
fn s3_u12_malformed_trailer_lines_are_refused() {
    let framed = Framed::unsigned(&[5], true);
    for line in ["x-amz-checksum-crc32 AAAAAA==", ":AAAAAA==", "a b:c", "a:\u{1}", "\u{e9}:a", "\n"]
    {
        check(&framed, "x-amz-checksum-crc32:AAAAAA==", line, Code::MalformedTrailerError);
    }
    check(&framed, "==\r\n\r\n", "==\r\n\n\r\n", Code::MalformedTrailerError);
    check(&framed, "==\r\n\r\n", "==\r\n\r\n0", Code::MalformedTrailerError);
    let signed = Framed::signed(&[5], true);
    let late = format!("x-amz-trailer-signature:{}\r\nx-amz-checksum-crc32c:", "0".repeat(64));
    check(&signed, "x-amz-checksum-crc32c:", &late, Code::MalformedTrailerError);
    check(&signed, "yZRlqg==", "yZRlqw==", Code::SignatureDoesNotMatch);
}

#[test]
fn s3_d5_the_decoded_length_is_required_and_checked() {
    for payload in ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"] {
        let sent = signed_put(payload, &[("content-length", "100")]);
        let fault = decode(&sent, b"", 1).unwrap_err();
        assert_eq!(fault.code, Code::MissingContentLength);
        assert_eq!(fault.status(), 411);
    }
    for length in ["4", "6"] {
        let mut framed = Framed::unsigned(&[2, 3], true);
        framed.sent.headers.insert("x-amz-decoded-content-length", length.parse().unwrap());
        check_wire(&framed, &framed.wire, Code::IncompleteBody);
    }
}

#[test]
fn a_wrong_length_and_broken_framing_have_different_messages() {
    let message = |expected: &str, wire: &str| {
        let mut framed = Framed::unsigned(&[10], true);
        framed.sent.headers.insert("x-amz-decoded-content-length", expected.parse().unwrap());
        decode(&framed.sent, wire.as_bytes(), 1).unwrap_err().message
    };
    let whole = "a\r\ndummy data\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
    for length in ["5", "9", "11", "2000"] {
        assert_eq!(message(length, whole), Code::IncompleteBody.message(), "{length}");
    }
    for from_to in [("a\r\n", "b\r\n"), ("a\r\n", "a\n"), ("data\r\n", "data")] {
        let broken = whole.replacen(from_to.0, from_to.1, 1);
        assert_eq!(message("10", &broken), "The request body terminated unexpectedly");
    }
    for text in ["", "abc", "12x"] {
        let mut framed = Framed::unsigned(&[10], true);
        framed.sent.headers.insert("x-amz-decoded-content-length", text.parse().unwrap());
        check_wire(&framed, &framed.wire, Code::MissingContentLength);
    }
}

#[test]
fn s3_s14_an_unframed_body_must_have_its_announced_length() {
    let framed = Framed::plain(b"Welcome");
    for wire in [&b"Welcom"[..], b"Welcome!", b""] {
        check_wire(&framed, wire, Code::IncompleteBody);
    }
    // Without a length and without chunks, the body is empty.
    let sent = signed_put("UNSIGNED-PAYLOAD", &[]);
    assert!(decode(&sent, b"", 1).is_ok());
    assert_eq!(decode(&sent, b"a", 1).unwrap_err().code, Code::IncompleteBody);
}

#[test]
fn s3_d5_a_body_cut_anywhere_is_incomplete() {
    for framed in
        [Framed::signed(&[20], false), Framed::signed(&[20], true), Framed::unsigned(&[20], false)]
    {
        for end in 0..framed.wire.len() {
            let fault = decode(&framed.sent, &framed.wire[..end], 1000).unwrap_err();
            assert_eq!(fault.code, Code::IncompleteBody, "cut at {end}");
        }
    }
}

#[test]
fn s3_d7_chunk_headers_have_limits() {
    let code = Code::IncompleteBody;
    let framed = Framed::unsigned(&[5], true);
    for header in [
        "",
        "5 ",
        " 5",
        "+5",
        "-5",
        "0x5",
        "g",
        "00000000000000005",
        "ffffffffffffffff",
        "5;chunk-signature=00",
        &"5".repeat(1025),
    ] {
        check(&framed, "5\r\n", &format!("{header}\r\n"), code);
    }
    check(&framed, "5\r\n", "5\n", code);
    check(&framed, "5\r\n", &"0".repeat(100_000), code);
    // Sixteen digits are allowed.
    let wire = String::from_utf8(framed.wire.clone()).unwrap();
    let padded = wire.replacen("5\r\n", "0000000000000005\r\n", 1);
    decode(&framed.sent, padded.as_bytes(), 1).unwrap();

    let signed = Framed::signed(&[5], false);
    check(&signed, "5;chunk-signature=", "5;", code);
    check(&signed, "5;chunk-signature=", "5;signature=", code);
    check(&signed, "5;chunk-signature=", "5,chunk-signature=", code);
    check(&signed, "5;chunk-signature=", "5;chunk-signature=00", code);
    check_wire(&signed, b"5\r\nabcde\r\n0\r\n\r\n", code);
}

#[test]
fn s3_d7_misplaced_line_ends_are_refused() {
    let framed = Framed::unsigned(&[5, 5], true);
    check(&framed, "abcde\r\n", "abcde", Code::IncompleteBody);
    check(&framed, "abcde\r\n", "abcde\n\r", Code::IncompleteBody);
    check(&framed, "abcde\r\n", "abcdef\r\n", Code::IncompleteBody);
    let signed = Framed::signed(&[5], false);
    let longer = [&signed.wire[..], b"0"].concat();
    check_wire(&signed, &longer, Code::IncompleteBody);
}

#[test]
fn s3_d7_trailers_have_limits() {
    let framed = Framed::unsigned(&[5], true);
    let lines = "x-amz-meta-a:1\r\n".repeat(101);
    check(&framed, "x-amz-checksum-crc32:", &lines, Code::MalformedTrailerError);
    let long = format!("{}:", "a".repeat(16 * 1024));
    check(&framed, "x-amz-checksum-crc32:", &long, Code::MalformedTrailerError);
}

#[test]
fn s3_d7_only_the_last_signed_chunk_may_be_undersized() {
    for trailer in [false, true] {
        for sizes in [&[8191, 1][..], &[8192, 1, 1], &[1, 8192]] {
            let framed = Framed::signed(sizes, trailer);
            check_wire(&framed, &framed.wire, Code::InvalidChunkSizeError);
        }
        let framed = Framed::signed(&[8192, 1], trailer);
        decode(&framed.sent, &framed.wire, 1000).unwrap();
    }
}

#[test]
fn a_fault_is_final() {
    let framed = Framed::unsigned(&[5], true);
    let verified = framed.sent.verify().unwrap();
    let head = super::BodyHead::parse(http::Version::HTTP_11, &framed.sent.headers).unwrap();
    let mut decoder = super::BodyDecoder::new(&verified, &head, 100).unwrap();
    let mut out = Vec::new();
    decoder.push(bytes::Bytes::from_static(b"zz\r\n"), &mut out).unwrap_err();
    let again = decoder.push(bytes::Bytes::from(framed.wire.clone()), &mut out);
    assert_eq!(again.unwrap_err().code, Code::IncompleteBody);
    assert!(out.is_empty());
    assert_eq!(decoder.finish().unwrap_err().code, Code::IncompleteBody);
}
