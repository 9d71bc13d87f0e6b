//! Buckets that do not keep metadata, or that have lost it. Acknowledged content is readable,
//! changed content is not served, and the gateway writes only blocks that it can read.

use std::time::Duration;

use tempfile::TempDir;

use crate::client::{Client, Request};
use crate::content::{bytes, etag};
use crate::forgetful::{Forgetful, Metadata};
use crate::servers::{Blocks, Gateway, Minio, Setup, is_bare, wait_for};

const MIB: usize = 1 << 20;

/// The header with the checksums of a bare block.
const SUMS: &str = "x-amz-meta-ashlar-sums";

/// The counter of bytes that the gateway read from the block store.
const GOT: &str = "ashlar_blocks_bytes_total{operation=\"get\"}";

/// The time limit until a gateway notices a change of its bucket, in a debug build.
const NOTICE: Duration = Duration::from_secs(40);

struct Scene {
    gateway: Gateway,
    client: Client,
    minio: Minio,
    between: Forgetful,
    _folder: TempDir,
}

impl Scene {
    fn new(metadata: Metadata, options: &[&str]) -> Option<Scene> {
        let folder = tempfile::tempdir().expect("a folder");
        let minio = Minio::start(folder.path())?;
        let between = Forgetful::start(minio.client(), metadata);
        let blocks = Blocks::Bucket(between.address.clone());
        let gateway = Setup::new(folder.path(), blocks).options(options).start();
        let client = gateway.client.clone();
        client.put("/box", b"").expect(200);
        Some(Scene { gateway, client, minio, between, _folder: folder })
    }

    /// Returns the paths of the bare blocks, and the number of other blocks.
    fn blocks(&self) -> (Vec<String>, usize) {
        let names = self.minio.blocks();
        let all = names.len();
        let bare = names.iter().filter(|name| is_bare(name));
        let bare: Vec<String> = bare.map(|name| format!("/blocks/{name}")).collect();
        let others = all - bare.len();
        (bare, others)
    }

    /// Returns the checksums of a block as stored in MinIO; empty if there are none.
    fn sums(&self, path: &str) -> String {
        let head = self.minio.client().send(&Request::new("HEAD", path)).expect(200);
        head.header(SUMS).to_owned()
    }

    /// Copies a block onto itself like a tool that ignores metadata, after `change` changed its
    /// bytes.
    fn copy_without_metadata(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        assert_ne!(self.sums(path), "", "it had its sums before");
        let mut body = self.minio.client().get(path).expect(200).body;
        change(&mut body);
        self.minio.client().put(path, &body).expect(200);
        assert_eq!(self.sums(path), "", "the copy has lost them");
    }

    fn range(&self, path: &str, range: std::ops::Range<usize>) -> Vec<u8> {
        let header = format!("bytes={}-{}", range.start, range.end - 1);
        let got = self.client.send(&Request::new("GET", path).header("range", &header));
        got.expect(206).body
    }
}

#[track_caller]
fn check_served(scene: &Scene, path: &str, content: &[u8]) {
    let got = scene.client.get(path).expect(200);
    assert!(got.body == content, "{path} came back changed");
    let end = content.len();
    for range in [0..1, 65_535..65_537, end - 5..end, 100_000..end - 100_000] {
        assert!(scene.range(path, range.clone()) == content[range], "{path} came back changed");
    }
}

#[test]
fn a_bucket_that_drops_metadata_gets_sealed_blocks() {
    let Some(scene) = Scene::new(Metadata::Dropped, &["--cache-memory", "0B"]) else { return };
    let content = bytes(1, 6 * MIB + 5);
    let put = scene.client.put("/box/one", &content).expect(200);
    assert_eq!(put.header("etag"), etag(&content));
    assert!(scene.between.dropped() > 0, "metadata was on its way, and was dropped");
    check_served(&scene, "/box/one", &content);
    assert_eq!(scene.blocks(), (Vec::new(), 1));
    let log = scene.gateway.log();
    assert!(log.contains("keeps no user metadata"), "the log has a warning: {log}");
    let status = scene.gateway.admin_page("/status");
    assert!(status.contains("keeps no user metadata"), "the status has a warning: {status}");
    scene.gateway.check_log();
    scene.gateway.stop();
}

#[test]
fn a_bucket_that_refuses_metadata_gets_sealed_blocks() {
    let Some(scene) = Scene::new(Metadata::Refused, &["--cache-memory", "0B"]) else { return };
    let content = bytes(2, 2 * MIB);
    scene.client.put("/box/one", &content).expect(200);
    assert!(scene.between.refused() > 0, "metadata was on its way, and was refused");
    check_served(&scene, "/box/one", &content);
    assert_eq!(scene.blocks(), (Vec::new(), 1));
    scene.gateway.stop();
}

#[test]
fn a_bucket_that_begins_to_drop_metadata_is_detected_without_loss() {
    let Some(scene) = Scene::new(Metadata::Kept, &["--cache-memory", "0B"]) else { return };
    let before = bytes(3, 2 * MIB);
    scene.client.put("/box/before", &before).expect(200);
    scene.between.set(Metadata::Dropped);
    let between = bytes(4, 3 * MIB);
    scene.client.put("/box/between", &between).expect(200);
    let (bare, _) = scene.blocks();
    let lost = bare.iter().filter(|path| scene.sums(path).is_empty()).count();
    assert_eq!((bare.len(), lost), (2, 1), "one was put before the change was detected");
    check_served(&scene, "/box/before", &before);
    check_served(&scene, "/box/between", &between);
    let ready = Request::new("GET", "/-/ready");
    let noticed = wait_for(NOTICE, || {
        assert_eq!(scene.client.send(&ready).status, 200, "the gateway still serves");
        scene.gateway.log().contains("keeps no user metadata")
    });
    assert!(noticed, "readiness finds out");
    let after = bytes(5, 2 * MIB);
    let put = scene.client.put("/box/after", &after).expect(200);
    assert_eq!(put.header("etag"), etag(&after));
    assert_eq!((scene.blocks().0.len(), scene.blocks().1), (2, 1));
    check_served(&scene, "/box/after", &after);
    scene.gateway.stop();
}

#[test]
fn a_bucket_copied_without_metadata_is_read_at_limited_cost() {
    let Some(scene) = Scene::new(Metadata::Kept, &["--cache-memory", "0B"]) else { return };
    let content = bytes(6, 8 * MIB + 7);
    let size = content.len() as u64;
    scene.client.put("/box/one", &content).expect(200);
    let (bare, _) = scene.blocks();
    scene.copy_without_metadata(&bare[0], |_| ());
    let before = scene.gateway.counter(GOT);
    assert!(scene.range("/box/one", 70_000..70_001) == content[70_000..70_001]);
    let first = scene.gateway.counter(GOT) - before;
    assert!((size..size + 200_000).contains(&first), "the block once, and the range: {first}");
    assert!(scene.range("/box/one", 5_000_000..5_000_001) == content[5_000_000..5_000_001]);
    let second = scene.gateway.counter(GOT) - before - first;
    assert!(second < 100_000, "cached checksums were read again: {second}");
    check_served(&scene, "/box/one", &content);
    scene.gateway.check_log();
    scene.gateway.stop();
}

#[test]
fn concurrent_readers_of_a_copy_without_metadata_read_it_once() {
    const READERS: usize = 12;
    let Some(scene) = Scene::new(Metadata::Kept, &["--cache-memory", "64MiB"]) else { return };
    let content = bytes(7, 6 * MIB);
    scene.client.put("/box/one", &content).expect(200);
    let (bare, _) = scene.blocks();
    scene.copy_without_metadata(&bare[0], |_| ());
    let before = scene.gateway.counter(GOT);
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (scene, content) = (&scene, &content);
            scope.spawn(move || {
                let start = reader * 400_000;
                let range = start..start + 1_000;
                assert!(scene.range("/box/one", range.clone()) == content[range]);
            });
        }
    });
    let got = scene.gateway.counter(GOT) - before;
    let most = content.len() as u64 + READERS as u64 * 140_000;
    assert!(got <= most, "the block once, and each range: {got}");
    check_served(&scene, "/box/one", &content);
    scene.gateway.stop();
}

/// A change of a block's bytes.
type Change = fn(&mut Vec<u8>);

#[test]
fn changed_content_without_checksums_is_not_served() {
    let Some(scene) = Scene::new(Metadata::Kept, &["--cache-memory", "0B"]) else { return };
    let content = bytes(8, 3 * MIB);
    scene.client.put("/box/one", &content).expect(200);
    let path = scene.blocks().0[0].clone();
    let good = scene.minio.client().get(&path).expect(200).body;
    let sums = scene.sums(&path);
    let restore = || {
        let put = Request::new("PUT", &path).body(good.clone()).header(SUMS, &sums);
        scene.minio.client().send(&put).expect(200);
    };
    let changes: [(&str, Change); 4] = [
        ("a flipped bit", |body| body[2_000_000] ^= 1),
        ("fewer bytes", |body| body.truncate(body.len() - 65_536)),
        ("more bytes", |body| body.push(0)),
        ("swapped pieces", |body| {
            let (first, second) = body.split_at_mut(65_536);
            first.swap_with_slice(&mut second[..65_536]);
        }),
    ];
    for (what, change) in changes {
        scene.copy_without_metadata(&path, change);
        for range in ["bytes=0-", "bytes=50-150", "bytes=2500000-2500010"] {
            let request = Request::new("GET", "/box/one").header("range", range);
            let served = scene.client.try_send(&request).is_ok_and(|answer| answer.status < 300);
            assert!(!served, "{what} was served for {range}");
        }
        restore();
    }
    check_served(&scene, "/box/one", &content);
    scene.gateway.stop();
}

#[test]
fn a_versioned_block_bucket_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(minio) = Minio::start(folder.path()) else { return };
    let blocks = Blocks::Bucket(minio.address.clone());
    let setup = Setup::new(folder.path(), blocks).options(&[]);
    let told = "every version";
    let gateway = setup.start();
    assert!(!gateway.log().contains(told) && !gateway.admin_page("/status").contains(told));
    gateway.stop();
    let versioned = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                     <Status>Enabled</Status></VersioningConfiguration>";
    let request = Request::new("PUT", "/blocks?versioning=").body(versioned);
    minio.client().send(&request).expect(200);
    let found = minio.client().get("/blocks?versioning=").expect(200);
    assert_eq!(found.element("Status"), "Enabled");
    let gateway = setup.start();
    assert!(gateway.log_of_this_run().contains(told), "{}", gateway.log_of_this_run());
    let status = gateway.admin_page("/status");
    assert!(status.contains(told), "{status}");
    gateway.stop();
}
