//! Bodies of one block in MinIO, which computes their MD5. The entity tags are right even if memory
//! is short, and content that was changed in the bucket is never served.

use tempfile::TempDir;

use crate::client::{Client, Request, part_list};
use crate::content::{bytes, etag, etag_of_parts};
use crate::servers::{Blocks, Gateway, Minio, Setup, is_bare};

const MIB: usize = 1 << 20;

/// The bucket of the blocks, as a path.
const BUCKET: &str = "/blocks";

/// The header with the checksums of a bare block.
const SUMS: &str = "x-amz-meta-ashlar-sums";

/// Concurrent uploads, which need more memory than the budget.
const UPLOADS: u64 = 12;

struct Scene {
    gateway: Gateway,
    client: Client,
    minio: Minio,
    _folder: TempDir,
}

impl Scene {
    fn new(options: &[&str]) -> Option<Scene> {
        let folder = tempfile::tempdir().expect("a folder");
        let minio = Minio::start(folder.path())?;
        let blocks = Blocks::Bucket(minio.address.clone());
        let gateway = Setup::new(folder.path(), blocks).options(options).start();
        let client = gateway.client.clone();
        client.put("/box", b"").expect(200);
        Some(Scene { gateway, client, minio, _folder: folder })
    }

    /// Returns the names of the bare blocks and of all others.
    fn blocks(&self) -> (Vec<String>, Vec<String>) {
        self.minio.blocks().into_iter().partition(|name| is_bare(name))
    }

    fn end(self) {
        self.gateway.check_log();
        self.gateway.stop();
    }
}

#[test]
fn a_body_of_one_block_is_stored_as_a_bare_object() {
    let Some(scene) = Scene::new(&["--cache-memory", "0B"]) else { return };
    let content = bytes(1, 6 * MIB + 5);
    let put = scene.client.put("/box/one", &content).expect(200);
    assert_eq!(put.header("etag"), etag(&content));
    let (bare, others) = scene.blocks();
    assert_eq!((bare.len(), others), (1, Vec::new()));
    let object = scene.minio.client().get(&format!("{BUCKET}/{}", bare[0])).expect(200);
    assert!(object.body == content, "the object is the body, so that its MD5 is the body's");
    assert_eq!(object.header("etag"), etag(&content));
    let got = scene.client.get("/box/one").expect(200);
    assert!(got.body == content, "it came back changed");
    for range in [0..1, 65_535..65_537, 6 * MIB..6 * MIB + 5, 100_000..5_000_000] {
        let header = format!("bytes={}-{}", range.start, range.end - 1);
        let got = scene.client.send(&Request::new("GET", "/box/one").header("range", &header));
        assert!(got.expect(206).body == content[range], "{header} came back changed");
    }
    scene.end();
}

#[test]
fn parts_of_one_block_have_their_md5_as_etag() {
    let Some(scene) = Scene::new(&[]) else { return };
    let parts = [bytes(1, 16 * MIB), bytes(2, 8 * MIB), bytes(3, 700)];
    let upload = scene.client.begin_upload("/box/parts");
    let tags: Vec<String> = (1..)
        .zip(&parts)
        .map(|(number, part)| {
            let path = format!("/box/parts?partNumber={number}&uploadId={upload}");
            let tag = scene.client.put(&path, part).expect(200).header("etag").to_owned();
            assert_eq!(tag, etag(part));
            tag
        })
        .collect();
    assert_eq!(scene.blocks().0.len(), 2, "the last one is too short to be worth it");
    let list: Vec<(u32, &str)> = (1..).zip(tags.iter().map(String::as_str)).collect();
    let complete = Request::new("POST", &format!("/box/parts?uploadId={upload}"));
    scene.client.send(&complete.body(part_list(&list))).expect(200);
    let got = scene.client.get("/box/parts").expect(200);
    assert_eq!(got.header("etag"), etag_of_parts(&parts.each_ref().map(Vec::as_slice)));
    assert!(got.body == parts.concat(), "it came back changed");
    scene.end();
}

#[test]
fn bodies_divided_under_memory_pressure_have_correct_etags() {
    let Some(scene) = Scene::new(&["--memory-budget", "64MiB"]) else { return };
    let contents: Vec<Vec<u8>> = (0..UPLOADS).map(|seed| bytes(seed, 15 * MIB)).collect();
    std::thread::scope(|scope| {
        for (number, content) in contents.iter().enumerate() {
            let client = &scene.client;
            scope.spawn(move || {
                loop {
                    let put = client.put(&format!("/box/{number}"), content);
                    if put.status == 503 {
                        continue;
                    }
                    assert_eq!(put.expect(200).header("etag"), etag(content), "{number}");
                    return;
                }
            });
        }
    });
    for (number, content) in contents.iter().enumerate() {
        let got = scene.client.get(&format!("/box/{number}")).expect(200);
        assert!(got.body == *content, "{number} came back changed");
        assert_eq!(got.header("etag"), etag(content), "{number}");
    }
    let (bare, others) = scene.blocks();
    assert!(!bare.is_empty() && !others.is_empty(), "memory was short: {bare:?} {others:?}");
    scene.gateway.stop();
}

#[test]
fn content_changed_in_the_bucket_is_not_served() {
    let Some(scene) = Scene::new(&["--cache-memory", "0B"]) else { return };
    let content = bytes(1, 3 * MIB);
    scene.client.put("/box/one", &content).expect(200);
    let (bare, _) = scene.blocks();
    let path = format!("{BUCKET}/{}", bare[0]);
    let minio = scene.minio.client();
    let sums = minio.send(&Request::new("HEAD", &path)).expect(200).header(SUMS).to_owned();
    let mut flipped = content.clone();
    flipped[100] ^= 1;
    let shorter = &content[..content.len() - 65_536];
    let other_first = if sums.starts_with('Q') { "R" } else { "Q" };
    let other_sums = format!("{other_first}{}", &sums[1..]);
    let keep = |body: &[u8], sums: Option<&str>| {
        let put = Request::new("PUT", &path).body(body);
        let put = sums.iter().fold(put, |put, sums| put.header(SUMS, sums));
        minio.send(&put).expect(200);
    };
    for (what, body, sums) in [
        ("a flipped byte", &flipped[..], Some(sums.as_str())),
        ("fewer bytes", shorter, Some(sums.as_str())),
        ("other checksums", &content[..], Some(other_sums.as_str())),
        ("no checksums and a flipped byte", &flipped[..], None),
        ("no checksums and fewer bytes", shorter, None),
    ] {
        keep(body, sums);
        for range in ["bytes=0-", "bytes=50-150"] {
            let request = Request::new("GET", "/box/one").header("range", range);
            let got = scene.client.try_send(&request);
            let served = got.is_ok_and(|answer| answer.status < 300);
            assert!(!served, "{what} was served for {range}");
        }
    }
    keep(&content, Some(&sums));
    assert!(scene.client.get("/box/one").expect(200).body == content, "as it was");
    scene.gateway.stop();
}
