//! Content that is encrypted is nowhere on a disk in the clear: not in the block store, the
//! metadata store with its logs, the disk cache, the logs of the gateway, or a dump.
//!
//! Each body repeats a marker, and `grep` searches all files of the gateway and of its servers for
//! it. Objects that are not encrypted have another marker. The same search must find that one in
//! the block store, the metadata store, the disk cache and the dump, so a search that looks at the
//! wrong files fails.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use databases::Database;
use md5::{Digest as _, Md5};

use crate::client::{Client, Request, part_list};
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_engine};
use crate::mounted::{Mount, can_mount};
use crate::restarts::redis;
use crate::servers::{Gateway, Setup};

on_the_drawn_engine!(a_bucket_and_a_database_hold_no_encrypted_content_in_the_clear);

#[test]
fn a_folder_holds_no_encrypted_content_in_the_clear() {
    search_after_all_writes(Engine::Sqlite, BlockKind::Folder);
}

fn a_bucket_and_a_database_hold_no_encrypted_content_in_the_clear(engine: Engine) {
    search_after_all_writes(engine, BlockKind::Bucket);
}

/// The marker of content that is encrypted.
const SECRET: &str = "marker-of-encrypted-content";

/// The marker of content that is not encrypted.
const CONTROL: &str = "marker-of-content-in-the-clear";

/// The key of a client, which must not be stored either. It is text, so that `grep` can search it.
const CLIENT_KEY: &str = "customer-key-of-thirty-two-bytes";

/// The name and the value of the static key of MinIO's variable.
const KMS_KEY: (&str, &str) = ("test-key", "pO3upElrwuEXSoFwCfnZPdSsmt/xWeFa0N9KgDijwVs=");

/// Blocks of several units, a small memory cache in front of a disk, and bodies that are staged
/// inline.
const OPTIONS: [&str; 8] = [
    "--block-bytes",
    "1MiB",
    "--memory-budget",
    "64MiB",
    "--cache-memory",
    "1MiB",
    "--cache-disk",
    "64MiB",
];

/// A gateway, with a mount if this machine can mount.
#[derive(Debug)]
enum Serving {
    Mount(Mount),
    Gateway(Gateway),
}

impl Serving {
    fn start(setup: &Setup, folder: &Path, can_mount: bool) -> Serving {
        if can_mount {
            Serving::Mount(Mount::start_of(setup, folder))
        } else {
            Serving::Gateway(setup.start())
        }
    }

    fn gateway(&self) -> &Gateway {
        match self {
            Serving::Mount(mount) => mount.gateway(),
            Serving::Gateway(gateway) => gateway,
        }
    }

    fn stop(self) {
        match self {
            Serving::Mount(mount) => mount.stop(),
            Serving::Gateway(gateway) => gateway.stop(),
        }
    }
}

/// A bucket whose objects have one marker and one mode of encryption.
struct Bucket<'a> {
    client: Client,
    name: &'a str,
    marker: &'static str,
    /// Headers of each request about an object.
    headers: Vec<(String, String)>,
    /// The folder of the bucket on a mount.
    folder: Option<PathBuf>,
}

impl Bucket<'_> {
    /// Returns a content that consists of the marker.
    fn body(&self, name: &str, length: usize) -> Vec<u8> {
        let line = format!("{} {}/{name}\n", self.marker, self.name).into_bytes();
        let mut body = line.repeat(length.div_ceil(line.len()));
        body.truncate(length);
        body
    }

    fn request(&self, method: &str, name: &str) -> Request {
        let request = Request::new(method, &format!("/{}/{name}", self.name));
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    fn put(&self, name: &str, length: usize) {
        let put = self.request("PUT", name).body(self.body(name, length));
        self.client.send(&put).expect(200);
    }

    /// Fails unless the object has its content. A second read takes its pages from the cache.
    fn check(&self, name: &str, length: usize) {
        for _ in 0..2 {
            let found = self.client.send(&self.request("GET", name)).expect(200).body;
            assert!(found == self.body(name, length), "{}/{name} has other bytes", self.name);
        }
    }

    /// Puts objects of each kind, and writes files of each kind.
    fn fill(&self) {
        self.put("inline", 200);
        self.put("small", 60_000);
        self.put("block", 1 << 20);
        self.put("blocks", 2_500_000);
        self.upload("upload", 300_000);
        for (name, length) in [("overwritten-inline", 900), ("overwritten-block", 200_000)] {
            self.put(name, length);
            self.put(name, length / 2);
            self.check(name, length / 2);
        }
        for (name, length) in [("deleted-inline", 300), ("deleted-block", 700_000)] {
            self.put(name, length);
            self.check(name, length);
            self.client.delete(&format!("/{}/{name}", self.name)).expect(204);
        }
        let all = [("inline", 200), ("small", 60_000), ("block", 1 << 20), ("blocks", 2_500_000)];
        for (name, length) in all.into_iter().chain([("upload", 300_000)]) {
            self.check(name, length);
        }
        if let Some(folder) = &self.folder {
            self.write_files(folder);
        }
    }

    /// Puts an object in one part.
    fn upload(&self, name: &str, length: usize) {
        let begin = self.request("POST", &format!("{name}?uploads"));
        let id = self.client.send(&begin).expect(200).element("UploadId");
        let part = self.request("PUT", &format!("{name}?partNumber=1&uploadId={id}"));
        let part = self.client.send(&part.body(self.body(name, length))).expect(200);
        let complete = Request::new("POST", &format!("/{}/{name}?uploadId={id}", self.name));
        let parts = part_list(&[(1, part.header("etag"))]);
        self.client.send(&complete.body(parts)).expect(200);
    }

    /// Writes files as programs do: at once, in place, under another name first, and deleted later.
    fn write_files(&self, folder: &Path) {
        for (name, length) in [("file-inline", 500), ("file-small", 50_000), ("file", 1_500_000)] {
            let mut body = self.body(name, length);
            std::fs::write(folder.join(name), &body).expect("a file is written");
            let file = File::options().write(true).open(folder.join(name)).expect("it is opened");
            file.sync_all().expect("it is synced");
            // The new bytes are the marker, too, at another position in its line.
            let at = length / 3;
            let part = self.body(name, length / 5);
            file.write_all_at(&part, at as u64).expect("it is written in place");
            file.sync_all().expect("it is synced");
            body[at..at + part.len()].copy_from_slice(&part);
            let found = self.client.send(&self.request("GET", name)).expect(200).body;
            assert!(found == body, "{}/{name} has other bytes", self.name);
        }
        let (draft, last) = (folder.join("draft"), folder.join("file-small"));
        std::fs::write(&draft, self.body("file-small", 40_000)).expect("a draft");
        std::fs::rename(&draft, &last).expect("it replaces a file");
        self.check("file-small", 40_000);
        std::fs::remove_file(folder.join("file-inline")).expect("a file is deleted");
    }
}

/// Returns the headers of a key of a client, for each request about an object.
fn client_key() -> Vec<(String, String)> {
    let header = |name| format!("x-amz-server-side-encryption-customer-{name}");
    vec![
        (header("algorithm"), "AES256".to_owned()),
        (header("key"), BASE64_STANDARD.encode(CLIENT_KEY)),
        (header("key-md5"), BASE64_STANDARD.encode(Md5::digest(CLIENT_KEY))),
    ]
}

/// Returns the files below these folders that have the text.
fn files_with(text: &str, folders: &[&Path]) -> Vec<PathBuf> {
    let mut grep = Command::new("grep");
    // With `-z` a run of zeros is many lines; without it, one line of the length of the run.
    grep.args(["-rlazsF", "-e", text]).args(folders).env("LC_ALL", "C").stdin(Stdio::null());
    let output = grep.output().expect("grep runs");
    // 2 means that a file disappeared before it was read.
    assert!(matches!(output.status.code(), Some(0..=2)), "{}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
}

/// Fails if a file has content that is encrypted, or the key of a client.
#[track_caller]
fn check_nothing_is_found(when: &str, folders: &[&Path]) {
    let encoded = BASE64_STANDARD.encode(CLIENT_KEY);
    for text in [SECRET, CLIENT_KEY, &encoded] {
        let found = files_with(text, folders);
        let Some(first) = found.first() else { continue };
        let content = std::fs::read(first).unwrap_or_default();
        let content = String::from_utf8_lossy(&content);
        let at = content.find(text).unwrap_or_default();
        let shown: String = content[at..].chars().take(100).collect();
        panic!("{when}: {found:?} have {text:?}, the first one in {shown:?}");
    }
}

/// Writes the content that is not encrypted, and that of each mode while the volume does not
/// encrypt everything.
fn fill_by_modes(client: &Client, folder: Option<&Path>) {
    let kms = format!(
        "<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>{}</KMSMasterKeyID>",
        KMS_KEY.0
    );
    let modes = [
        ("clear", CONTROL, None),
        ("sse-s3", SECRET, Some("<SSEAlgorithm>AES256</SSEAlgorithm>")),
        ("sse-kms", SECRET, Some(&*kms)),
        ("sse-c", SECRET, None),
    ];
    for (name, marker, default) in modes {
        client.put(&format!("/{name}"), b"").expect(200);
        if let Some(default) = default {
            let document = format!(
                "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
                 {default}</ApplyServerSideEncryptionByDefault></Rule>\
                 </ServerSideEncryptionConfiguration>"
            );
            client.put(&format!("/{name}?encryption"), document.as_bytes()).expect(200);
        }
        let is_of_client = name == "sse-c";
        let headers = if is_of_client { client_key() } else { Vec::new() };
        // A program has no key of a client.
        let folder = folder.filter(|_| !is_of_client).map(|folder| folder.join(name));
        Bucket { client: client.clone(), name, marker, headers, folder }.fill();
    }
    let copy = Request::new("PUT", "/sse-kms/copy").header("x-amz-copy-source", "/sse-s3/block");
    client.send(&copy).expect(200);
}

fn search_after_all_writes(engine: Engine, block_kind: BlockKind) {
    let Some(fleet) = Fleet::new(engine, block_kind) else { return };
    let folder = fleet.first.folder.clone();
    let path = |name: &str| folder.join(name).display().to_string();
    let (cache, access_log) = (path("cache"), path("access.log"));
    let options = [&OPTIONS[..], &["--cache-dir", &cache, "--access-log", &access_log]].concat();
    let setup = fleet.first.clone().options(&options);
    let setup = setup.environment("MINIO_KMS_SECRET_KEY", &format!("{}:{}", KMS_KEY.0, KMS_KEY.1));
    // Outside of the folder, so that the search reads no file through the mount.
    let mount = tempfile::tempdir().expect("a folder");
    let can_mount = can_mount();
    let mounted = can_mount.then_some(mount.path());
    let database = fleet.database.as_ref().map(Database::folder);
    let folders: Vec<&Path> = std::iter::once(&*folder).chain(database).collect();

    let serving = Serving::start(&setup, mount.path(), can_mount);
    fill_by_modes(&serving.gateway().client, mounted);
    check_nothing_is_found("before the first end", &folders);
    serving.stop();

    let (status, said) = setup.run("volume", &["encrypt", "--on"]);
    assert!(status.success(), "{said}");
    // Bodies are put into packs at once.
    let packing = setup.clone().more_options(&["--staged-inline-bytes", "0"]);
    let serving = Serving::start(&packing, mount.path(), can_mount);
    let client = serving.gateway().client.clone();
    for (name, headers) in [("everything", Vec::new()), ("everything-sse-c", client_key())] {
        client.put(&format!("/{name}"), b"").expect(200);
        let folder = mounted.filter(|_| headers.is_empty()).map(|folder| folder.join(name));
        let client = client.clone();
        Bucket { client, name, marker: SECRET, headers, folder }.fill();
    }
    if let (Engine::Redis, Some(database)) = (engine, &fleet.database) {
        // A snapshot beside the log of commands.
        redis(database, "SAVE");
    }
    check_nothing_is_found("before the second end", &folders);
    serving.gateway().check_log();
    serving.stop();

    let dump = path("volume.dump");
    for (command, arguments) in [("dump", &[&*dump][..]), ("fsck", &[][..])] {
        let (status, said) = setup.run(command, arguments);
        assert!(status.success(), "{command}: {said}");
    }
    check_nothing_is_found("after the end", &folders);

    // The same search finds content that is not encrypted.
    let blocks = folder.join(if block_kind == BlockKind::Folder { "blocks" } else { "minio" });
    let metadata = database.map_or_else(|| folder.join("data"), Path::to_path_buf);
    for place in [blocks, metadata, cache.into(), dump.into()] {
        let found = files_with(CONTROL, &[&place]);
        assert_ne!(found, Vec::<PathBuf>::new(), "the search finds nothing in {}", place.display());
    }
}
