//! The retirement of a ring key by the program: content of each kind moves to the current key, also
//! if the command is killed, and no header and no record names the old key afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use record::key::space;
use record::{Orphan, SealedInode, is_sealed_inode};
use store::MetaStore;
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use crate::client::{Client, Request, part_list};
use crate::content::bytes;
use crate::scale;
use crate::servers::{Blocks, Gateway, Setup, wait_for};

/// The time limit until the bodies of small objects are in a pack.
const PACKED_WITHIN: Duration = Duration::from_secs(20);

/// The time limit until a command has begun to move content, and until it has moved all of it.
const MOVED_WITHIN: Duration = Duration::from_mins(2);

/// Objects that are put at the start of a test: more blocks than a record lists, several blocks, a
/// body inline, and an empty one.
const OBJECTS: [(&str, usize); 5] =
    [("large", 6 << 20), ("several", 300_000), ("d/inline", 2_000), ("d/one", 150_000), ("d/", 0)];

/// Small objects that share packs.
const PACKED: u64 = 40;
const PACKED_BYTES: usize = 12_000;

/// A volume that encrypts everything, and the content of its objects.
struct Encrypted {
    _folder: TempDir,
    setup: Setup,
    /// Objects by target: path, and maybe the id of a version.
    objects: BTreeMap<String, Vec<u8>>,
    /// The number of the current ring key.
    current: u32,
}

impl Encrypted {
    /// Creates a volume with content of each kind under ring key 1. Returns it with its gateway.
    fn new() -> (Encrypted, Gateway) {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Setup::new(folder.path(), Blocks::Folder);
        let gateway = setup.start();
        let (status, said) = setup.run("volume", &["encrypt", "--on"]);
        assert!(status.success(), "{said}");
        let objects = BTreeMap::new();
        let mut volume = Encrypted { _folder: folder, setup, objects, current: 1 };
        // The gateway follows the switch within a second.
        std::thread::sleep(Duration::from_secs(2));
        let client = gateway.client.clone();
        client.put("/box", b"").expect(200);
        for (seed, (key, length)) in (1..).zip(OBJECTS) {
            volume.put(&client, &format!("/box/{key}"), bytes(seed, length));
        }
        volume.put_upload(&client);
        volume.put_versions(&client);
        volume.put_packed(&client, &gateway);
        for arguments in [["fork", "box", "copy"], ["trash", "box", "--trash-days=3"]] {
            let (status, said) = setup_run(&volume.setup, "bucket", &arguments);
            assert!(status, "{said}");
        }
        let of_box = volume.objects.iter().filter(|(path, _)| path.starts_with("/box/"));
        let copies: Vec<_> = of_box
            .map(|(path, body)| (path.replacen("/box/", "/copy/", 1), body.clone()))
            .collect();
        volume.objects.extend(copies);
        client.delete("/box/several").expect(204);
        volume.objects.remove("/box/several");
        (volume, gateway)
    }

    fn put(&mut self, client: &Client, path: &str, body: Vec<u8>) {
        client.put(path, &body).expect(200);
        self.objects.insert(path.to_owned(), body);
    }

    /// Puts an object in two parts.
    fn put_upload(&mut self, client: &Client) {
        let (path, parts) = ("/box/upload", [bytes(21, 5 << 20), bytes(22, 100_000)]);
        let id = client.begin_upload(path);
        let mut tags = Vec::new();
        for (number, part) in (1..).zip(&parts) {
            let target = format!("{path}?partNumber={number}&uploadId={id}");
            tags.push((number, client.put(&target, part).expect(200).header("etag").to_owned()));
        }
        let tags: Vec<(u32, &str)> = tags.iter().map(|(part, tag)| (*part, tag.as_str())).collect();
        let complete = Request::new("POST", &format!("{path}?uploadId={id}"));
        client.send(&complete.body(part_list(&tags))).expect(200);
        self.objects.insert(path.to_owned(), parts.concat());
    }

    /// Puts two versions of an object.
    fn put_versions(&mut self, client: &Client) {
        client.put("/versions", b"").expect(200);
        let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        client.put("/versions?versioning", enabled.as_bytes()).expect(200);
        for (seed, length) in [(31, 200_000), (32, 1_000), (33, 90_000)] {
            let body = bytes(seed, length);
            let id = client.put("/versions/key", &body).expect(200);
            let target = format!("/versions/key?versionId={}", id.header("x-amz-version-id"));
            self.objects.insert(target, body);
        }
    }

    /// Puts small objects, and waits until they are in packs.
    fn put_packed(&mut self, client: &Client, gateway: &Gateway) {
        for number in 0..PACKED {
            self.put(client, &format!("/box/packed/{number}"), bytes(100 + number, PACKED_BYTES));
        }
        let count = "ashlar_relocator_moved_sources_total{policy=\"destage\"} ";
        let packed = || gateway.counter(count) >= PACKED;
        assert!(wait_for(PACKED_WITHIN, packed), "the bodies stay in their records");
        // Two more bodies that wait in their records.
        for number in 0..2 {
            self.put(client, &format!("/box/staged/{number}"), bytes(200 + number, PACKED_BYTES));
        }
    }

    /// Makes a new ring key, and returns the number of the key before.
    fn rotate(&mut self) -> u32 {
        let (status, said) = self.setup.run("ring", &["rotate"]);
        assert!(status.success(), "{said}");
        self.current += 1;
        assert_eq!(said, format!("ring key {} is in use for new content\n", self.current));
        self.current - 1
    }

    fn retire(&self, number: u32) -> (bool, String) {
        setup_run(&self.setup, "ring", &["retire", &number.to_string()])
    }

    /// Returns the state of a key in the list; `None` if the key is not in it.
    fn state(&self, number: u32) -> Option<String> {
        let (status, said) = setup_run(&self.setup, "ring", &["list"]);
        assert!(status, "{said}");
        let number = number.to_string();
        let mut rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.first().is_some_and(|first| *first == number))?;
        row.last().map(|state| (*state).to_owned())
    }

    /// Fails unless a client reads each object.
    #[track_caller]
    fn check_readable(&self, client: &Client) {
        for (target, body) in &self.objects {
            assert!(client.get(target).expect(200).body == *body, "{target} has other bytes");
        }
    }

    /// Fails unless the only ring key in headers of blocks and in records is the current one. No
    /// gateway runs.
    #[track_caller]
    fn check_only_current(&self) {
        let current = BTreeSet::from([self.current]);
        assert_eq!(keys_of_blocks(&self.setup), current, "keys in the headers of blocks");
        assert_eq!(keys_of_records(&self.setup.meta_file()), current, "keys in records");
        for number in 1..self.current {
            assert_eq!(self.state(number), None, "key {number} is in the list");
        }
        let (status, said) = setup_run(&self.setup, "fsck", &[]);
        assert!(status, "{said}");
    }
}

fn setup_run(setup: &Setup, command: &str, arguments: &[&str]) -> (bool, String) {
    let (status, said) = setup.run(command, arguments);
    (status.success(), said)
}

/// Returns the ring keys in the headers of all blocks.
pub(crate) fn keys_of_blocks(setup: &Setup) -> BTreeSet<u32> {
    setup.block_files().iter().filter_map(|path| key_of_block(path)).collect()
}

/// Returns the ring key in the header of a block's file; `None` if the file is gone, or has no
/// whole header yet.
fn key_of_block(path: &Path) -> Option<u32> {
    let object = std::fs::read(path).ok()?;
    let number = object.get(24..28)?.try_into().ok()?;
    object.starts_with(b"ASHE").then(|| u32::from_be_bytes(number))
}

/// Returns the ring keys in the records of all inodes, dead ones included.
fn keys_of_records(file: &Path) -> BTreeSet<u32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let options = SqliteOptions { exclusive: true, spared: &[] };
        let store = SqliteStore::open(file, options).await.expect("the store opens");
        let mut keys = BTreeSet::new();
        for at in [space::INODE, space::ORPHAN] {
            let mut resume = None;
            loop {
                let page = store.walk(at, resume, 100).await.expect("a page");
                for (key, value) in &page.records {
                    if at == space::INODE {
                        keys.extend(SealedInode::of(key, value).ok().map(|sealed| sealed.ring.0));
                    } else if let Ok(Orphan::Detached { inode, .. }) = Orphan::decode(key, value) {
                        assert!(!is_sealed_inode(&inode), "an orphan's record is sealed");
                    }
                }
                match page.resume {
                    Some(next) => resume = Some(next),
                    None => break,
                }
            }
        }
        store.close().await;
        keys
    })
}

#[test]
fn content_of_each_kind_moves_and_the_key_is_removed() {
    let (mut volume, gateway) = Encrypted::new();
    let refused = volume.retire(1);
    assert!(!refused.0 && refused.1.contains("rotate it first"), "{}", refused.1);
    assert!(volume.retire(7).1.contains("there is no ring key 7"));
    gateway.stop();
    assert_eq!(keys_of_blocks(&volume.setup), BTreeSet::from([1]));
    assert_eq!(keys_of_records(&volume.setup.meta_file()), BTreeSet::from([1]));
    let blocks = volume.setup.block_files().len();

    let old = volume.rotate();
    let (done, said) = volume.retire(old);
    assert!(done && said.contains("ring key 1 is removed"), "{said}");
    volume.check_only_current();
    // A fork still shares the blocks of its origin. Content maps in pages move for themselves.
    let after = volume.setup.block_files().len();
    assert!(after < blocks * 2, "{blocks} blocks became {after}");
    assert!(volume.retire(old).0, "a removed key is retired");

    let gateway = volume.setup.start();
    volume.check_readable(&gateway.client);
    let (done, said) = setup_run(&volume.setup, "trash", &["restore", "box", "several"]);
    assert!(done, "{said}");
    let restored = gateway.client.get("/box/several").expect(200).body;
    assert!(restored == bytes(2, 300_000), "the trash kept other bytes");
    gateway.check_log();
    gateway.stop();
}

#[test]
fn parts_of_an_open_upload_keep_the_key() {
    let (mut volume, gateway) = Encrypted::new();
    let client = gateway.client.clone();
    let id = client.begin_upload("/box/open");
    let part = bytes(41, 5 << 20);
    let target = format!("/box/open?partNumber=1&uploadId={id}");
    let tag = client.put(&target, &part).expect(200).header("etag").to_owned();
    gateway.stop();
    let old = volume.rotate();
    let (done, said) = volume.retire(old);
    assert!(!done && said.contains("1 parts of uploads that are not complete"), "{said}");
    assert_eq!(volume.state(old).as_deref(), Some("retired"));

    let gateway = volume.setup.start();
    let complete = Request::new("POST", &format!("/box/open?uploadId={id}"));
    gateway.client.send(&complete.body(part_list(&[(1, &tag)]))).expect(200);
    volume.objects.insert("/box/open".to_owned(), part);
    volume.check_readable(&gateway.client);
    gateway.stop();
    let (done, said) = volume.retire(old);
    assert!(done, "{said}");
    volume.check_only_current();
    let gateway = volume.setup.start();
    volume.check_readable(&gateway.client);
    gateway.stop();
}

#[test]
fn a_key_is_closed_and_stays_while_a_gateway_may_write_under_it() {
    let (mut volume, gateway) = Encrypted::new();
    let client = gateway.client.clone();
    let old = volume.rotate();
    let number = old.to_string();
    let mut command = volume.setup.begin("ring", &["retire", &number]);
    let closed = || volume.state(old).as_deref() == Some("closed");
    assert!(wait_for(MOVED_WITHIN, closed), "the key is not closed");
    assert_eq!(command.ended(), None, "it waits for the gateway");
    // The gateway follows: new content is under the new key, and all content is readable.
    volume.put(&client, "/box/after", bytes(51, 100_000));
    volume.put(&client, "/box/after_inline", bytes(52, 1_000));
    volume.check_readable(&client);
    gateway.check_log();
    gateway.stop();
    // No other session is left, so the command need not wait longer.
    assert!(command.wait().success());
    volume.check_only_current();
    let gateway = volume.setup.start();
    volume.check_readable(&gateway.client);
    gateway.stop();
}

#[test]
fn a_killed_command_is_continued() {
    let (mut volume, gateway) = Encrypted::new();
    gateway.stop();
    let kills = scale::retire_kills();
    for kill in 0..kills {
        let old = volume.rotate();
        let number = old.to_string();
        let blocks = volume.setup.block_files().len() as u64;
        // From the first new block to the last third of all.
        let target = 1 + blocks * 2 / 3 * kill / kills;
        let mut command = volume.setup.begin("ring", &["retire", &number]);
        let begun = Instant::now();
        let new_blocks = || {
            let keys = volume.setup.block_files();
            keys.iter().filter(|path| key_of_block(path) == Some(old + 1)).count() as u64
        };
        while new_blocks() < target {
            assert!(begun.elapsed() < MOVED_WITHIN, "it moves no content");
        }
        // Fails if the command has ended by itself.
        command.kill();
        let both = BTreeSet::from([old, old + 1]);
        assert_eq!(keys_of_blocks(&volume.setup), both, "kill {kill} was not midway");
        assert_eq!(volume.state(old).as_deref(), Some("retired"));

        let gateway = volume.setup.start();
        volume.check_readable(&gateway.client);
        gateway.stop();
        let (done, said) = volume.retire(old);
        assert!(done, "after kill {kill}: {said}");
        // New blocks that the killed command put, and that no record names yet.
        let collect = ["--delete", "--delete-percent-max", "100"];
        let (done, said) = setup_run(&volume.setup, "gc", &collect);
        assert!(done, "{said}");
        volume.check_only_current();
    }
    let gateway = volume.setup.start();
    volume.check_readable(&gateway.client);
    gateway.check_log();
    gateway.stop();
}
