//! Blocks that changed on disk cause errors. Their bytes are never served.

use std::path::PathBuf;

use crate::client::Request;
use crate::content::bytes;
use crate::servers::{Blocks, Setup};

/// Five blocks of 64 KiB.
const LENGTH: usize = 5 * 65_536;

/// Damages a block, given another one of the same size.
type Damage = fn(&PathBuf, &PathBuf);

fn flip(at: fn(usize) -> usize, block: &PathBuf) {
    let mut content = std::fs::read(block).expect("a block");
    let at = at(content.len());
    content[at] ^= 1;
    overwrite(block, &content);
}

/// Replaces a block by a new file, because blocks may be read-only and may have other hard links.
fn overwrite(block: &PathBuf, content: &[u8]) {
    std::fs::remove_file(block).expect("a block can be removed");
    std::fs::write(block, content).expect("a block can be written");
}

const DAMAGES: [(&str, Damage); 8] = [
    ("a flipped first byte", |block, _| flip(|_| 0, block)),
    ("a flipped byte in the middle", |block, _| flip(|length| length / 2, block)),
    ("a flipped last byte", |block, _| flip(|length| length - 1, block)),
    ("truncated", |block, _| {
        let content = std::fs::read(block).expect("a block");
        overwrite(block, &content[..content.len() / 2]);
    }),
    ("empty", |block, _| overwrite(block, b"")),
    ("zeros", |block, _| {
        let length = std::fs::read(block).expect("a block").len();
        overwrite(block, &vec![0; length]);
    }),
    ("another block", |block, other| {
        let content = std::fs::read(other).expect("a block");
        overwrite(block, &content);
    }),
    ("gone", |block, _| std::fs::remove_file(block).expect("a block can be removed")),
];

/// Damages that `fsck` finds without reading every block.
const FOUND_BY_FSCK: [&str; 3] = ["truncated", "empty", "gone"];

#[test]
fn damaged_blocks_are_never_served() {
    let folder = tempfile::tempdir().expect("a folder");
    // The test disables the cache, whose content was verified before the damage.
    let setup = Setup::new(folder.path(), Blocks::Folder).options(&[
        "--block-bytes",
        "64KiB",
        "--cache-memory",
        "0B",
    ]);
    let gateway = setup.start();
    let client = gateway.client.clone();
    client.put("/box", b"").expect(200);
    let content = bytes(1, LENGTH);
    client.put("/box/object", &content).expect(200);
    let blocks = setup.block_files();
    assert_eq!(blocks.len(), 5, "{blocks:?}");
    let mut errors = 0;
    for (at, block) in blocks.iter().enumerate() {
        let other = &blocks[(at + 1) % blocks.len()];
        for (what, damage) in DAMAGES {
            let right = std::fs::read(block).expect("a block");
            damage(block, other);
            if FOUND_BY_FSCK.contains(&what) {
                let (status, said) = setup.run("fsck", &[]);
                assert_eq!(status.code(), Some(3), "{what}: fsck says {said}");
            }
            let whole = Request::new("GET", "/box/object");
            let mut requests = vec![(whole, 0..LENGTH)];
            for part in 0..5 {
                let (from, to) = (part * 65_536 + 100, (part + 1) * 65_536 - 100);
                let range = format!("bytes={from}-{}", to - 1);
                let request = Request::new("GET", "/box/object").header("range", &range);
                requests.push((request, from..to));
            }
            let mut failed = 0;
            for (request, range) in requests {
                match client.try_send(&request) {
                    Ok(answer) if answer.status == 500 => {
                        assert_eq!(answer.code(), "InternalError");
                        failed += 1;
                    }
                    // The connection broke after the headers. No client takes such a response as
                    // complete.
                    Err(_) => failed += 1,
                    Ok(answer) => {
                        assert!(matches!(answer.status, 200 | 206), "{what}: {}", answer.status);
                        assert!(answer.body == content[range], "{what}: wrong bytes were served");
                    }
                }
            }
            // At least the request for the whole object fails, and the one for the range of the
            // damaged block.
            assert!(failed >= 1, "{what} in block {at} was not noticed");
            errors += failed;
            let _ = std::fs::remove_file(block);
            std::fs::write(block, right).expect("a block can be put back");
        }
    }
    assert!(errors >= blocks.len() * DAMAGES.len());
    let answer = client.get("/box/object").expect(200);
    assert!(answer.body == content, "with its blocks back the object is as it was");
    assert!(!gateway.log().contains("panic"), "{}", gateway.log());
    gateway.stop();
    let (status, said) = setup.run("fsck", &[]);
    assert!(status.success(), "{status}\n{said}");
}
