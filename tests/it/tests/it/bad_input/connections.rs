//! Connections that break off, stall, or hide one request inside another.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::Duration;

use super::Scene;
use crate::client::{Chunked, Mode, Request, read_answer};
use crate::content::bytes;
use crate::servers::{Blocks, Setup, wait_for};

/// Several blocks.
const LENGTH: usize = 600_000;

fn overwrite() -> Request {
    Request::new("PUT", "/box/large").body(bytes(9, LENGTH))
}

#[test]
fn vanished_clients_leave_no_blocks() {
    let mut scene = Scene::new();
    let right = Chunked::new(
        &scene.client,
        "/box/large",
        Mode::SignedTrailer,
        &bytes(9, LENGTH),
        &LENGTH.to_string(),
    );
    let upload = scene.client.begin_upload("/box/parts");
    let part = format!("/box/parts?partNumber=1&uploadId={upload}");
    let part = Request::new("PUT", &part).body(bytes(9, LENGTH));
    let wires = [
        overwrite().sealed(scene.client.signature()).wire(),
        part.sealed(scene.client.signature()).wire(),
        right.wire(),
    ];
    let mut staged = 0;
    for round in 0..60_usize {
        let wire = &wires[round % wires.len()];
        // At each place of the request, from its first line to its last byte but one.
        let end = wire.len() * (round + 1) / 61;
        let mut stream = scene.client.connect().expect("a connection");
        stream.write_all(&wire[..end.min(wire.len() - 1)]).expect("part of a request is taken");
        if round > 50 {
            // The last ones have staged blocks before they vanish.
            let more = || scene.setup.block_files().len() > scene.blocks;
            staged += usize::from(wait_for(Duration::from_secs(10), more));
        }
        if round % 2 == 0 {
            stream.shutdown(Shutdown::Both).expect("a connection can be shut down");
        }
        scene.refused += 1;
    }
    assert!(staged > 0, "no request staged a block before its client vanished");
    let parts = scene.client.get(&format!("/box/parts?uploadId={upload}")).expect(200);
    assert_eq!(parts.elements("PartNumber"), Vec::<String>::new());
    scene.client.delete(&format!("/box/parts?uploadId={upload}")).expect(204);
    scene.stays_untouched();
}

#[test]
fn a_stalled_body_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--block-bytes", "64KiB", "--body-timeout-seconds", "1"];
    let setup = Setup::new(folder.path(), Blocks::Folder).options(&options);
    let gateway = setup.start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let sealed = overwrite().sealed(client.signature());
    let mut stream = client.connect().expect("a connection");
    stream.write_all(&sealed.head).expect("the head is taken");
    stream.write_all(&sealed.body[..LENGTH / 2]).expect("half of the body is taken");
    let begun = wait_for(Duration::from_secs(10), || !setup.block_files().is_empty());
    assert!(begun, "no block was staged");
    let answer = read_answer(&mut stream, "PUT").expect("an answer").expect(400);
    assert_eq!(answer.code(), "RequestTimeout");
    assert_eq!(client.get("/box/large").code(), "NoSuchKey");
    let empty = wait_for(Duration::from_secs(20), || setup.block_files().is_empty());
    assert!(empty, "blocks are left over: {:?}", setup.block_files());
    gateway.check_log();
    gateway.stop();
}

/// Two lengths allow two readings of the end of a request. No request of another client may begin
/// there.
#[test]
fn requests_hidden_in_bodies_are_not_executed() {
    let mut scene = Scene::new();
    let hidden = Request::new("DELETE", "/box/small").sealed(scene.client.signature()).wire();
    let head = |request: Request, more: &str| {
        let sealed = request.length("").sealed(scene.client.signature());
        let mut head = sealed.head;
        head.truncate(head.len() - 2);
        head.extend_from_slice(more.as_bytes());
        head.extend_from_slice(b"\r\n");
        head
    };
    let length = hidden.len() + 5;
    let put = || Request::new("PUT", "/box/large").claim("UNSIGNED-PAYLOAD");
    let both = format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n");
    let turned = format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n");
    let two = format!("content-length: 5\r\ncontent-length: {length}\r\n");
    let list = format!("content-length: 5, {length}\r\n");
    let sign = "content-length: +5\r\n".to_owned();
    let spaced = "content-length : 5\r\n".to_owned();
    let folded = "content-length: \r\n 5\r\n".to_owned();
    let coding = "transfer-encoding: chunked, identity\r\n".to_owned();
    let unknown = "transfer-encoding: xchunked\r\n".to_owned();
    for more in [both, turned, two, list, sign, spaced, folded, coding, unknown] {
        // The condition never holds, so even a lenient parser overwrites nothing.
        for request in [put().header("if-none-match", "*"), Request::new("GET", "/box/small")] {
            let mut wire = head(request.clone(), &more);
            wire.extend_from_slice(b"0\r\n\r\n");
            wire.extend_from_slice(&hidden);
            // The parser may close the connection without a response. The test checks only the
            // effect.
            let _ = scene.client.break_off(&request.method, &wire);
            let small = scene.client.get("/box/small");
            assert_eq!(small.status, 200, "{} with {more:?} deleted an object", request.method);
            scene.refused += 1;
        }
    }
    // Sent on its own, the hidden request is executed.
    scene.client.exchange("DELETE", &hidden).expect("an answer").expect(204);
    scene.client.put("/box/small", &bytes(1, 1000)).expect(200);
    scene.stays_untouched();
}

#[test]
fn repeated_single_headers_are_refused() {
    let mut scene = Scene::new();
    let address = scene.client.address.clone();
    for (name, value) in [
        ("host", address.as_str()),
        ("host", "elsewhere.example"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b, Signature=c"),
        ("x-amz-date", "20200101T000000Z"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ] {
        let wire = overwrite().unsigned(name, value).sealed(scene.client.signature()).wire();
        let answer = scene.client.exchange("PUT", &wire).expect("an answer");
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        scene.refused += 1;
    }
    scene.stays_untouched();
}

#[test]
fn parts_are_verified_like_objects() {
    let mut scene = Scene::new();
    let upload = scene.client.begin_upload("/box/parts");
    let path = format!("/box/parts?partNumber=1&uploadId={upload}");
    let content = bytes(9, LENGTH);
    let whole = Request::new("PUT", &path).body(&content[..]);
    scene.refuses(&whole.clone().header("x-amz-checksum-crc32", "AAAAAA=="), 400, "BadDigest");
    let md5 = whole.clone().header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    scene.refuses(&md5, 400, "BadDigest");
    scene.refuses(&whole.claim(&"0".repeat(64)), 400, "XAmzContentSHA256Mismatch");
    for mode in [Mode::Signed, Mode::SignedTrailer] {
        let right = Chunked::new(&scene.client, &path, mode, &content, &content.len().to_string());
        let mut wrong = right.clone();
        wrong.chunks[3][1000] ^= 1;
        scene.refuses_wire("PUT", &wrong.wire(), 403, "SignatureDoesNotMatch");
        let wire = right.wire();
        scene.refuses_broken("PUT", &wire[..wire.len() / 2], 400, "IncompleteBody");
    }
    let parts = scene.client.get(&format!("/box/parts?uploadId={upload}")).expect(200);
    assert_eq!(parts.elements("PartNumber"), Vec::<String>::new());
    scene.client.delete(&format!("/box/parts?uploadId={upload}")).expect(204);
    scene.stays_untouched();
}
