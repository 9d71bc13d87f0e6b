//! Bodies that do not match the headers of their requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha2::{Digest as _, Sha256};

use super::Scene;
use crate::client::{Chunked, Mode, Request, sha256};
use crate::content::bytes;

/// Several chunks and several blocks.
const LENGTH: usize = 200_000;

fn overwrite() -> Request {
    Request::new("PUT", "/box/large").body(bytes(9, LENGTH))
}

fn chunked(scene: &Scene, mode: Mode) -> Chunked {
    Chunked::new(&scene.client, "/box/large", mode, &bytes(9, LENGTH), &LENGTH.to_string())
}

/// Replaces a hexadecimal digit by another one.
fn flip_digit(digit: &mut u8) {
    *digit = if *digit == b'0' { b'1' } else { b'0' };
}

/// Changes the signature of a chunk.
fn flip_signature(chunk: &mut [u8]) {
    let name = b"chunk-signature=";
    let at = chunk.windows(name.len()).position(|window| window == name).expect("a signature");
    flip_digit(&mut chunk[at + name.len() + 5]);
}

const MODES: [Mode; 3] = [Mode::Signed, Mode::SignedTrailer, Mode::UnsignedTrailer];

/// Checks that the correct requests succeed; otherwise the refusals below could have an unrelated
/// cause.
#[test]
fn correct_chunked_bodies_are_stored() {
    let scene = Scene::new();
    for mode in MODES {
        let wire = chunked(&scene, mode).wire();
        scene.client.exchange("PUT", &wire).expect("an answer").expect(200);
        let stored = scene.client.get("/box/large").expect(200);
        assert!(stored.body == bytes(9, LENGTH), "{mode:?}");
    }
}

#[test]
fn tampered_chunks_are_refused() {
    let mut scene = Scene::new();
    for mode in [Mode::Signed, Mode::SignedTrailer] {
        let right = chunked(&scene, mode);
        for which in 0..right.chunks.len() {
            let mut wrong = right.clone();
            let middle = wrong.chunks[which].len() / 2;
            wrong.chunks[which][middle] ^= 1;
            scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");
            let mut wrong = right.clone();
            flip_signature(&mut wrong.chunks[which]);
            scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");
        }
        let mut wrong = right.clone();
        flip_signature(&mut wrong.last);
        scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");
        let mut wrong = right.clone();
        wrong.chunks.swap(0, 1);
        scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");
        let mut wrong = right;
        wrong.chunks.remove(1);
        scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");
    }
    let mut wrong = chunked(&scene, Mode::UnsignedTrailer);
    wrong.chunks[1][100] ^= 1;
    scene.refuses_wire("PUT", &wrong.wire(), 400, "BadDigest");
    scene.stays_untouched();
}

#[test]
fn tampered_and_missing_trailers_are_refused() {
    let mut scene = Scene::new();
    let value = "x-amz-checksum-sha256:".len() + 3;
    let flip = |byte: &mut u8| *byte = if *byte == b'A' { b'B' } else { b'A' };

    let mut wrong = chunked(&scene, Mode::UnsignedTrailer);
    flip(&mut wrong.trailer[value]);
    scene.refuses_wire("PUT", &wrong.wire(), 400, "BadDigest");
    let mut wrong = chunked(&scene, Mode::SignedTrailer);
    flip(&mut wrong.trailer[value]);
    scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");
    let mut wrong = chunked(&scene, Mode::SignedTrailer);
    let end = wrong.trailer.len() - 3;
    flip_digit(&mut wrong.trailer[end]);
    scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");

    for mode in [Mode::SignedTrailer, Mode::UnsignedTrailer] {
        let right = chunked(&scene, mode);
        let mut missing = right.clone();
        missing.trailer.clear();
        scene.refuses_wire("PUT", &missing.wire(), 400, "MalformedTrailerError");
        let mut other = right.clone();
        other.trailer = b"x-amz-checksum-crc32:AAAAAA==\r\n".to_vec();
        scene.refuses_wire("PUT", &other.wire(), 400, "MalformedTrailerError");
        let mut more = right;
        more.end = b"\r\nmore".to_vec();
        scene.refuses_wire("PUT", &more.wire(), 400, "MalformedTrailerError");
    }
    scene.stays_untouched();
}

#[test]
fn decoded_lengths_must_be_right() {
    let mut scene = Scene::new();
    let content = bytes(9, LENGTH);
    for mode in MODES {
        for said in [LENGTH - 1, LENGTH + 1, 0] {
            let wrong =
                Chunked::new(&scene.client, "/box/large", mode, &content, &said.to_string());
            scene.refuses_wire("PUT", &wrong.wire(), 400, "IncompleteBody");
        }
        let silent = Chunked::new(&scene.client, "/box/large", mode, &content, "");
        scene.refuses_wire("PUT", &silent.wire(), 411, "MissingContentLength");
        for said in ["-1", "many", "1 2"] {
            let wrong = Chunked::new(&scene.client, "/box/large", mode, &content, said);
            scene.refuses_wire("PUT", &wrong.wire(), 411, "MissingContentLength");
        }
    }
    scene.stays_untouched();
}

#[test]
fn chunk_framing_must_be_right() {
    let mut scene = Scene::new();
    let small = bytes(9, 100);
    for mode in MODES {
        let right = chunked(&scene, mode);
        for header in [&b"zz\r\n"[..], b"-5\r\n", b"11111111111111111\r\n", b"\r\n", b"\0\r\n"] {
            let mut wrong = right.clone();
            wrong.chunks.insert(0, header.to_vec());
            scene.refuses_wire("PUT", &wrong.wire(), 400, "IncompleteBody");
        }
        let mut cut = right.clone();
        cut.chunks.clear();
        let (status, code) = match mode {
            Mode::Signed | Mode::SignedTrailer => (403, "SignatureDoesNotMatch"),
            Mode::UnsignedTrailer => (400, "IncompleteBody"),
        };
        scene.refuses_wire("PUT", &cut.wire(), status, code);
    }
    // A signed chunk that is not the last must have at least 8 KiB, to limit the cost of hashing.
    let mut wrong = chunked(&scene, Mode::Signed);
    let tiny = Chunked::new(&scene.client, "/box/large", Mode::Signed, &small, "100");
    wrong.chunks.splice(0..1, tiny.chunks);
    let answer = scene.client.exchange("PUT", &wrong.wire()).expect("an answer");
    assert!(matches!(answer.status, 400 | 403), "{}", answer.text());
    scene.stays_untouched();
}

#[test]
fn interrupted_bodies_are_refused() {
    let mut scene = Scene::new();
    let wire = overwrite().sealed(scene.client.signature()).wire();
    for missing in [1, 1000, LENGTH] {
        let cut = &wire[..wire.len() - missing];
        scene.refuses_broken("PUT", cut, 400, "IncompleteBody");
    }
    for mode in MODES {
        let wire = chunked(&scene, mode).wire();
        for missing in [1, 40, 70_000] {
            let cut = &wire[..wire.len() - missing];
            scene.refuses_broken("PUT", cut, 400, "IncompleteBody");
        }
    }
    let unsigned = overwrite().claim("UNSIGNED-PAYLOAD").sealed(scene.client.signature()).wire();
    scene.refuses_broken("PUT", &unsigned[..unsigned.len() - 1], 400, "IncompleteBody");
    scene.stays_untouched();
}

/// Bytes after the body belong to the next request, not to the object.
#[test]
fn bytes_after_a_body_are_not_stored() {
    let mut scene = Scene::new();
    let content = bytes(9, LENGTH);
    let request = overwrite().claim(&sha256(&content)).length(&(LENGTH - 1).to_string());
    scene.refuses(&request, 400, "XAmzContentSHA256Mismatch");
    let mut wire = overwrite().sealed(scene.client.signature()).wire();
    wire.extend_from_slice(b"more than was promised");
    scene.client.exchange("PUT", &wire).expect("an answer").expect(200);
    let stored = scene.client.get("/box/large").expect(200);
    assert!(stored.body == content, "the object has other bytes than were promised");
}

#[test]
fn a_body_without_a_length_is_refused() {
    let mut scene = Scene::new();
    for request in [overwrite(), overwrite().claim("UNSIGNED-PAYLOAD")] {
        let silent = request.body(Vec::new()).length("");
        scene.refuses(&silent, 411, "MissingContentLength");
    }
    let endless = overwrite().length("5368709121");
    scene.refuses(&endless, 400, "EntityTooLarge");
    scene.stays_untouched();
}

#[test]
fn wrong_digests_are_refused() {
    let mut scene = Scene::new();
    let content = bytes(9, LENGTH);
    let md5 = |of: &[u8]| STANDARD.encode(Md5::digest(of));
    let sha = |of: &[u8]| STANDARD.encode(Sha256::digest(of));
    for (name, value, code) in [
        ("content-md5", md5(b"other"), "BadDigest"),
        ("content-md5", "AAAA".to_owned(), "InvalidDigest"),
        ("content-md5", "not base64!".to_owned(), "InvalidDigest"),
        ("content-md5", hex::encode(Md5::digest(&content)), "InvalidDigest"),
        ("x-amz-checksum-sha256", sha(b"other"), "BadDigest"),
        ("x-amz-checksum-crc32", "AAAAAA==".to_owned(), "BadDigest"),
        ("x-amz-checksum-crc32c", "AAAAAA==".to_owned(), "BadDigest"),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=".to_owned(), "BadDigest"),
        ("x-amz-checksum-sha1", STANDARD.encode([0; 20]), "BadDigest"),
        ("x-amz-checksum-sha256", "AAAA".to_owned(), "InvalidRequest"),
        ("x-amz-checksum-crc32", "not base64!".to_owned(), "InvalidRequest"),
        ("x-amz-checksum-crc31", "AAAAAA==".to_owned(), "InvalidRequest"),
        ("x-amz-sdk-checksum-algorithm", "CRC32".to_owned(), "InvalidRequest"),
    ] {
        scene.refuses(&overwrite().header(name, &value), 400, code);
    }
    let two = overwrite()
        .header("x-amz-checksum-sha256", &sha(&content))
        .header("x-amz-checksum-crc32", "AAAAAA==");
    scene.refuses(&two, 400, "InvalidRequest");
    for (claim, code) in [
        (sha256(b"other"), "XAmzContentSHA256Mismatch"),
        ("abc".to_owned(), "InvalidArgument"),
        ("STREAMING-UNSIGNED".to_owned(), "InvalidArgument"),
    ] {
        scene.refuses(&overwrite().claim(&claim), 400, code);
    }
    scene.refuses(&overwrite().no_claim(), 400, "InvalidRequest");
    let sigv4a = overwrite().claim("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD");
    scene.refuses(&sigv4a, 501, "NotImplemented");
    scene.stays_untouched();
}
