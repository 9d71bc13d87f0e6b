//! SIGKILL of the commands that replace the master key and that rotate the ring key. The next run
//! continues, all content stays readable, all access keys are accepted, and the volume needs the
//! new master key alone.
//!
//! The test reads the records of the volume while the first command runs, so it kills the command
//! after a known number of ring keys and secrets. For example, the third of five kills comes after
//! about a third of them. A kill counts if the record of the change is there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adminapi::{PREFIX, SERVICE};
use record::key::{self, space};
use rustix::process::Signal;
use store::{Key, MetaStore, Value};
use store_sqlite::{SqliteOptions, SqliteStore};

use crate::client::{Client, Request};
use crate::content::bytes;
use crate::deep::driver;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_engine};
use crate::retiring::keys_of_blocks;
use crate::scale;
use crate::servers::{Gateway, Setup, wait_for};

on_the_drawn_engine!(
    a_killed_change_of_the_master_key_is_continued,
    a_killed_rotation_makes_one_key_or_none
);

/// Number of ring keys of the volume of which the master key is replaced.
const RING_KEYS: u32 = 6;

/// Length of a body that is put into blocks at once.
const BLOCKS_BYTES: usize = 300_000;

/// Number of users, and of further keys of the first user.
const USERS: usize = 24;
const FURTHER_KEYS: usize = 3;

/// Attempts for each kill. An attempt whose command ends before the kill does not count.
const ATTEMPTS: u32 = 5;

/// The time limit until a gateway uses a new ring key, and until a command has sealed a key.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of records of a page.
const PAGE: u32 = 1_000;

type Records = BTreeMap<Key, Value>;

/// A volume with encrypted objects and with users.
struct Volume {
    fleet: Fleet,
    /// The contents of objects by path.
    objects: BTreeMap<String, Vec<u8>>,
    /// Access keys that may read.
    readers: Vec<Client>,
}

impl Volume {
    /// Creates a volume with its first ring key.
    fn new(engine: Engine) -> Option<(Volume, Gateway)> {
        let fleet = Fleet::new(engine, BlockKind::Folder)?;
        let setup = fleet.first.clone().more_options(&["--console-listen", "127.0.0.1:0"]);
        let gateway = setup.start();
        gateway.client.put("/box", b"").expect(200);
        let mut volume = Volume { fleet, objects: BTreeMap::new(), readers: Vec::new() };
        volume.put(&gateway.client);
        Some((volume, gateway))
    }

    fn setup(&self) -> &Setup {
        &self.fleet.first
    }

    /// Puts an object in blocks and one in a record, with SSE-S3.
    fn put(&mut self, client: &Client) {
        for (kind, length) in [("blocks", BLOCKS_BYTES), ("inline", 1_000)] {
            let number = self.objects.len() as u64;
            let (path, body) = (format!("/box/{kind}-{number}"), bytes(number + 1, length));
            put_encrypted(client, &path, &body);
            self.objects.insert(path, body);
        }
    }

    /// Puts objects under this ring key. A gateway follows a rotation after a moment.
    fn put_under(&mut self, client: &Client, number: u32) {
        let is_used = wait_for(PATIENCE, || {
            put_encrypted(client, "/box/probe", &bytes(0, BLOCKS_BYTES));
            keys_of_blocks(self.setup()).contains(&number)
        });
        assert!(is_used, "the gateway does not use ring key {number}");
        self.put(client);
    }

    /// Creates users, and further keys of the first one.
    fn add_users(&mut self, gateway: &Gateway) {
        let console = gateway.console();
        let issue = |method, path: &str, body: &str| {
            let request = Request::new(method, &format!("{PREFIX}{path}")).service(SERVICE);
            let issued = console.send(&request.body(body)).expect(200).body;
            let issued: serde_json::Value = serde_json::from_slice(&issued).expect("JSON");
            let text = |name: &str| issued[name].as_str().expect("a text").to_owned();
            let address = gateway.client.address.clone();
            Client { address, key: text("access_key"), secret: text("secret") }
        };
        for number in 0..USERS {
            let path = format!("/users/reader-{number}");
            self.readers.push(issue("PUT", &path, r#"{"policies": ["readonly"]}"#));
        }
        for _ in 0..FURTHER_KEYS {
            self.readers.push(issue("POST", "/users/reader-0/keys", "{}"));
        }
    }

    /// Fails unless all objects are readable at this gateway, and all access keys are accepted.
    #[track_caller]
    fn check(&self, gateway: &Gateway) {
        for (path, body) in &self.objects {
            let found = gateway.client.get(path).expect(200).body;
            assert!(found == *body, "{path} has other bytes");
        }
        let path = self.objects.keys().next().expect("an object");
        for reader in &self.readers {
            let reader = Client { address: gateway.client.address.clone(), ..reader.clone() };
            assert_eq!(reader.get(path).status, 200, "the access key {}", reader.key);
        }
    }

    /// Fails unless a gateway with only the current master key serves everything.
    #[track_caller]
    fn check_alone(&self) {
        let gateway = self.setup().start();
        self.check(&gateway);
        gateway.check_log();
        gateway.stop();
    }

    /// Returns the numbers of the ring keys, and the current one.
    #[track_caller]
    fn ring(&self) -> (BTreeSet<u32>, Option<u32>) {
        let (status, said) = self.setup().run("ring", &["list"]);
        assert!(status.success(), "{said}");
        let (mut numbers, mut current) = (BTreeSet::new(), None);
        for line in said.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(number) = words.first().and_then(|number| number.parse().ok()) else {
                continue;
            };
            assert!(numbers.insert(number), "two keys have the number {number}:\n{said}");
            if words.last() == Some(&"current") {
                assert_eq!(current.replace(number), None, "two keys are current:\n{said}");
            }
        }
        (numbers, current)
    }

    fn rotate(&self) -> u32 {
        let (status, said) = self.setup().run("ring", &["rotate"]);
        assert!(status.success(), "{said}");
        let (_, current) = self.ring();
        let current = current.expect("a current key");
        assert_eq!(said, format!("ring key {current} is in use for new content\n"));
        current
    }

    /// Puts a new master key in the place of the present one. Returns the file of the old one.
    fn replace_master_key(&self, seed: u64) -> PathBuf {
        let folder = &self.setup().folder;
        let (place, old) = (folder.join("data/master.key"), folder.join("old.key"));
        std::fs::rename(&place, &old).expect("there is a master key");
        let mut options = std::fs::File::options();
        let mut file =
            options.write(true).create_new(true).mode(0o600).open(&place).expect("a file");
        let text = hex::encode(bytes(seed, 32));
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("a key is written");
        old
    }

    /// Fails if a process starts with only the old master key.
    #[track_caller]
    fn check_refused(&self, old: &Path) {
        let (place, aside) =
            (self.setup().folder.join("data/master.key"), old.with_extension("new"));
        std::fs::rename(&place, &aside).expect("there is a master key");
        std::fs::rename(old, &place).expect("there is an old key");
        let (status, said) = self.setup().run("ring", &["list"]);
        assert!(!status.success() && said.contains("master key"), "{said}");
        std::fs::rename(&aside, &place).expect("the new key is back");
    }

    /// Opens the metadata store beside the processes of the volume.
    async fn store(&self) -> Arc<dyn MetaStore> {
        match self.fleet.engine {
            Engine::Sqlite => {
                let options = SqliteOptions { exclusive: false, spared: &[] };
                let store = SqliteStore::open(&self.setup().meta_file(), options).await;
                Arc::new(store.expect("the store opens"))
            }
            server @ (Engine::Postgres | Engine::Mysql | Engine::Redis | Engine::Etcd) => {
                driver::store(server, self.fleet.url(), &self.setup().folder).await
            }
        }
    }
}

fn put_encrypted(client: &Client, path: &str, body: &[u8]) {
    let put = Request::new("PUT", path).body(body);
    client.send(&put.header("x-amz-server-side-encryption", "AES256")).expect(200);
}

/// Returns the records of all ring keys and all users.
async fn sealed_records(store: &dyn MetaStore) -> Records {
    let others = [key::ring_state(), key::rewrap()];
    let mut records = Records::new();
    for at in [space::RING, space::USER] {
        let mut resume = None;
        loop {
            let page = store.walk(at, resume, PAGE).await.expect("a page");
            let sealed = page.records.into_iter().filter(|(key, _)| !others.contains(key));
            records.extend(sealed);
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
    }
    records
}

/// Returns the number of records that have other bytes.
fn changed(before: &Records, after: &Records) -> usize {
    before.iter().filter(|(key, value)| after.get(*key) != Some(value)).count()
}

/// Returns true if the volume has the record of a change of the master key.
async fn is_rewrapping(store: &dyn MetaStore) -> bool {
    let page = store.walk(space::RING, None, PAGE).await.expect("a page");
    page.records.iter().any(|(found, _)| *found == key::rewrap())
}

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

impl Volume {
    /// Starts the change of the master key, and kills it when `target` records are sealed again.
    /// Returns the number of those after the kill, and of all; `None` if the command was faster.
    fn kill_rewrap(&self, old: &str, target: usize) -> Option<(usize, usize)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let store = self.store().await;
            let before = sealed_records(&*store).await;
            let arguments = ["rewrap", "--old-master-key-file", old];
            let mut command = self.setup().begin("ring", &arguments);
            let begun = Instant::now();
            while changed(&before, &sealed_records(&*store).await) < target
                && command.ended().is_none()
            {
                assert!(begun.elapsed() < PATIENCE, "the command seals no key");
            }
            // After its end another process may have its id.
            if command.ended().is_none() {
                command.signal(Signal::KILL);
            }
            let was_killed = was_killed(command.wait());
            let done = changed(&before, &sealed_records(&*store).await);
            let is_midway = is_rewrapping(&*store).await;
            store.close().await;
            assert!(was_killed || done == before.len(), "the command ended after {done} records");
            (was_killed && is_midway).then_some((done, before.len()))
        })
    }

    /// Continues a killed change beside a gateway that has both keys.
    fn continue_rewrap(&self, old: &str) {
        // With one of the keys no process starts, and the error has the fingerprints of both.
        let (status, said) = self.setup().run("ring", &["list"]);
        let fingerprints = said.split(|c: char| !c.is_ascii_hexdigit());
        let fingerprints: BTreeSet<&str> = fingerprints.filter(|word| word.len() == 16).collect();
        assert!(!status.success() && fingerprints.len() == 2, "{said}");
        let both = ["--old-master-key-file", old];
        let gateway = self.setup().clone().more_options(&both).start();
        self.check(&gateway);
        let (status, said) = self.setup().run("ring", &["rewrap", "--old-master-key-file", old]);
        assert!(status.success(), "{said}");
        self.check(&gateway);
        gateway.check_log();
        gateway.stop();
    }
}

fn a_killed_change_of_the_master_key_is_continued(engine: Engine) {
    let Some((mut volume, gateway)) = Volume::new(engine) else { return };
    volume.add_users(&gateway);
    for number in 2..=RING_KEYS {
        assert_eq!(volume.rotate(), number);
        volume.put_under(&gateway.client, number);
    }
    gateway.stop();
    let records = RING_KEYS as usize + USERS + FURTHER_KEYS;
    let kills = u32::try_from(scale::ring_kills()).expect("few kills");
    let (mut killed, mut attempts) = (Vec::new(), 0);
    while killed.len() < kills as usize {
        attempts += 1;
        assert!(attempts <= kills * ATTEMPTS, "the command is faster than the kills: {killed:?}");
        let old = volume.replace_master_key(1_000 + u64::from(attempts));
        let old_file = old.to_str().expect("a path of letters");
        // From the first ring key to the middle of the users.
        let target = 1 + records * 3 / 4 * killed.len() / kills as usize;
        if let Some((done, all)) = volume.kill_rewrap(old_file, target) {
            assert_eq!(all, records, "sealed records");
            killed.push(done);
            volume.continue_rewrap(old_file);
        }
        // The old key is gone afterwards.
        volume.check_refused(&old);
        volume.check_alone();
    }
    eprintln!("{}: kills after {killed:?} of {records} records", engine.name());
    assert_eq!(volume.ring(), ((1..=RING_KEYS).collect(), Some(RING_KEYS)));
    volume.fleet.check_consistency();
}

fn a_killed_rotation_makes_one_key_or_none(engine: Engine) {
    let Some((mut volume, gateway)) = Volume::new(engine) else { return };
    let begun = Instant::now();
    let mut last = volume.rotate();
    // The list is half of this time. Some kills come after the usual end, because a command that
    // makes its key late ends late.
    let duration = begun.elapsed() * 3 / 5;
    let kills = u32::try_from(scale::ring_kills()).expect("few kills");
    let (mut killed, mut made, mut attempts) = (0, 0, 0);
    while killed < kills {
        attempts += 1;
        assert!(attempts <= kills * ATTEMPTS, "the command is faster than the kills");
        // Evenly over the time of the command, and earlier after each attempt that was too late.
        let mut delay = duration * (2 * killed + 1) / (2 * kills);
        for _ in killed + 1..attempts {
            delay = delay * 4 / 5;
        }
        let mut command = volume.setup().begin("ring", &["rotate"]);
        std::thread::sleep(delay);
        command.signal(Signal::KILL);
        let status = command.wait();
        let (numbers, current) = volume.ring();
        let newest = current.expect("a current key");
        assert!(newest == last || newest == last + 1, "{last} and then {newest}");
        assert_eq!(numbers, (1..=newest).collect(), "all keys are in the list");
        if was_killed(status) {
            killed += 1;
            made += newest - last;
        } else {
            assert!(status.success() && newest == last + 1, "{status}");
        }
        last = volume.rotate();
        assert_eq!(last, newest + 1);
        volume.put(&gateway.client);
    }
    eprintln!("{}: {made} of {killed} killed rotations made a key", engine.name());
    volume.put_under(&gateway.client, last);
    volume.check(&gateway);
    gateway.check_log();
    gateway.stop();
    volume.check_alone();
    volume.fleet.check_consistency();
}
