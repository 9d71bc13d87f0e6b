//! The gateway is killed by SIGKILL under load. Acknowledged changes stay, other changes are
//! complete or absent, and no block remains once the ended sessions are cleaned up.
//!
//! Clients work until the gateway dies. Each key belongs to one client, which knows the last
//! acknowledged change and the one that it requested after that. So each key has one or two allowed
//! states; any other state is a lost or a torn object.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::client::{Answer, Client, Request, part_list};
use crate::content::{bytes, etag, etag_of_parts};
use crate::scale;
use crate::servers::{Blocks, Minio, Setup, wait_for};

/// Number of clients at work when the gateway is killed.
const CLIENTS: usize = 50;

/// Number of keys of each client.
const KEYS: u64 = 4;

/// Lengths of bodies: inline in a record, in one block, in many blocks.
const SIZES: [usize; 4] = [700, 40_000, 400_000, 1_500_000];

/// The smallest allowed size of a part that is not the last.
const PART: usize = 5 << 20;

/// The time limit of the cleanup after the last kill.
const CLEARED: Duration = Duration::from_mins(1);

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    /// Put in one request.
    Whole {
        seed: u64,
        size: usize,
    },
    /// Uploaded in two parts.
    Parts {
        seed: u64,
    },
}

/// Returns the two parts of an object.
fn parts(seed: u64) -> (Vec<u8>, Vec<u8>) {
    (bytes(seed, PART), bytes(seed + 1, 100_000))
}

impl State {
    /// Returns the content and the entity tag of an object in this state.
    fn object(self) -> Option<(Vec<u8>, String)> {
        match self {
            State::Absent => None,
            State::Whole { seed, size } => {
                let content = bytes(seed, size);
                let tag = etag(&content);
                Some((content, tag))
            }
            State::Parts { seed } => {
                let (first, second) = parts(seed);
                let tag = etag_of_parts(&[&first, &second]);
                Some(([first, second].concat(), tag))
            }
        }
    }
}

/// A client's knowledge of one of its keys.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The last acknowledged state.
    acknowledged: State,
    /// The state that was requested after that, if no response came.
    attempted: Option<State>,
}

/// A client with keys of its own.
#[derive(Debug)]
pub(crate) struct Worker {
    name: usize,
    keys: BTreeMap<String, Known>,
    seed: u64,
}

/// The load at a kill.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) acknowledged: AtomicUsize,
    in_flight: AtomicUsize,
    /// Changes whose connection broke.
    pub(crate) cut_off: AtomicUsize,
}

impl Worker {
    pub(crate) fn new(name: usize) -> Worker {
        Worker { name, keys: BTreeMap::new(), seed: name as u64 * 1_000_000 }
    }

    /// Puts, overwrites and deletes until the gateway no longer responds.
    pub(crate) fn work(&mut self, client: &Client, work: &Work) {
        loop {
            self.seed += 2;
            let seed = self.seed;
            let key = format!("/box/client-{}/key-{}", self.name, seed / 2 % KEYS);
            let turn = (seed / 2 + self.name as u64) % 11;
            let wanted = match turn {
                0 | 1 => State::Absent,
                2 if self.name.is_multiple_of(10) => State::Parts { seed },
                _ => State::Whole { seed, size: SIZES[usize::try_from(turn % 4).unwrap_or(0)] },
            };
            let before = self.keys.get(&key).map_or(State::Absent, |known| known.acknowledged);
            let attempted = Known { acknowledged: before, attempted: Some(wanted) };
            self.keys.insert(key.clone(), attempted);
            work.in_flight.fetch_add(1, Ordering::SeqCst);
            match change(client, &key, wanted) {
                Ok(status @ (200 | 204)) => {
                    let known = Known { acknowledged: wanted, attempted: None };
                    self.keys.insert(key, known);
                    assert!(status == 200 || wanted == State::Absent);
                    work.acknowledged.fetch_add(1, Ordering::SeqCst);
                    work.in_flight.fetch_sub(1, Ordering::SeqCst);
                }
                // The response asks for a later retry, or the outcome is unknown.
                Ok(503) => {
                    work.in_flight.fetch_sub(1, Ordering::SeqCst);
                    // Only one change of a key may have an unknown outcome, so this client sends no
                    // more.
                    return self.idle(client);
                }
                Ok(status) => panic!("{key}: {status}"),
                Err(_) => {
                    work.cut_off.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
    }

    /// Waits until the gateway ends, without further requests.
    fn idle(&self, client: &Client) {
        let gone = || client.connect().is_err();
        assert!(wait_for(Duration::from_mins(1), gone), "client {} waits", self.name);
    }

    /// Compares each key with its allowed states, and records the one that was found.
    pub(crate) fn check(&mut self, client: &Client) {
        for (key, known) in &mut self.keys {
            let found = client.get(key);
            let may_be = [Some(known.acknowledged), known.attempted];
            let is = |state: State| match state.object() {
                None => found.status == 404,
                Some((content, tag)) => {
                    found.status == 200
                        && found.body == content
                        && (found.header("etag") == tag || panic!("{key}: another tag"))
                }
            };
            let state = may_be.into_iter().flatten().find(|state| is(*state));
            let Some(state) = state else {
                let (status, length) = (found.status, found.body.len());
                panic!("{key}: {status} with {length} bytes, but may be {may_be:?}");
            };
            *known = Known { acknowledged: state, attempted: None };
        }
    }
}

/// Requests one change. Returns the status of the request that decides it.
fn change(client: &Client, key: &str, wanted: State) -> io::Result<u16> {
    match wanted {
        State::Absent => status(client.try_send(&Request::new("DELETE", key))),
        State::Whole { seed, size } => {
            status(client.try_send(&Request::new("PUT", key).body(bytes(seed, size))))
        }
        State::Parts { seed } => {
            let begun = client.try_send(&Request::new("POST", &format!("{key}?uploads")))?;
            let upload = begun.element("UploadId");
            let (first, second) = parts(seed);
            let mut tags = Vec::new();
            for (number, part) in [(1, first), (2, second)] {
                let path = format!("{key}?partNumber={number}&uploadId={upload}");
                let sent = client.try_send(&Request::new("PUT", &path).body(part))?;
                if sent.status != 200 {
                    return Ok(sent.status);
                }
                tags.push(sent.header("etag").to_owned());
            }
            let list = part_list(&[(1, &tags[0]), (2, &tags[1])]);
            let path = format!("{key}?uploadId={upload}");
            let completed = client.try_send(&Request::new("POST", &path).body(list))?;
            let refused = completed.status == 200 && completed.element("ETag").is_empty();
            Ok(if refused { 503 } else { completed.status })
        }
    }
}

fn status(answer: io::Result<Answer>) -> io::Result<u16> {
    Ok(answer?.status)
}

/// Kills the gateway repeatedly under load. `stored` returns the number of stored blocks.
fn survives_kills(setup: &Setup, stored: impl Fn() -> usize) {
    let mut workers: Vec<Worker> = (0..CLIENTS).map(Worker::new).collect();
    let mut gateway = setup.start();
    gateway.client.put("/box", b"").expect(200);
    let mut cut_off_in_all = 0;
    for round in 0..scale::kills() {
        let client = gateway.client.clone();
        let work = Work::default();
        std::thread::scope(|scope| {
            for worker in &mut workers {
                let (client, work) = (&client, &work);
                scope.spawn(move || worker.work(client, work));
            }
            // The moment differs in each round, but requests are always in flight and blocks are
            // stored.
            let busy = wait_for(Duration::from_mins(1), || {
                work.acknowledged.load(Ordering::SeqCst) > 20 + 40 * usize::from(round % 2 == 0)
                    && work.in_flight.load(Ordering::SeqCst) > CLIENTS / 5
                    && stored() > 0
            });
            assert!(busy, "round {round}: the load is too small: {work:?}");
            std::thread::sleep(Duration::from_millis(37 * round));
            gateway.child.kill();
        });
        // Many were in flight just before. On a busy machine some got their response before the
        // kill.
        let cut_off = work.cut_off.into_inner();
        assert!(cut_off > 0, "round {round}: nothing was under way");
        cut_off_in_all += cut_off;
        // In every second round `gc` cleans up; in the others the next gateway does.
        if round % 2 == 0 {
            let staged = run_gc(setup);
            assert!(staged > 0, "round {round}: no block was staged at the kill");
            println!("round {round}: {staged} unreferenced blocks were left");
        }
        gateway = setup.start();
        for worker in &mut workers {
            worker.check(&gateway.client);
        }
        let acknowledged = work.acknowledged.into_inner();
        println!("round {round}: {acknowledged} acknowledged, {cut_off} cut off");
    }
    assert!(
        cut_off_in_all > CLIENTS / 2,
        "only {cut_off_in_all} changes were under way at the kills"
    );
    let mut wanted: Vec<String> = workers
        .iter()
        .flat_map(|worker| &worker.keys)
        .filter(|(_, known)| known.acknowledged != State::Absent)
        .map(|(key, _)| key.trim_start_matches("/box/").to_owned())
        .collect();
    wanted.sort();
    assert_eq!(gateway.client.keys("box", "", 1000), wanted, "the listing agrees");
    gateway.stop();
    run_gc(setup);
    check_consistency(setup);
    let gateway = setup.start();
    for worker in &mut workers {
        worker.check(&gateway.client);
    }
    delete_all(&gateway.client, &wanted);
    let empty = wait_for(CLEARED, || stored() == 0);
    assert!(empty, "{} blocks are left over", stored());
    gateway.stop();
    check_consistency(setup);
}

/// Cleans up after all killed gateways. Returns the number of blocks that were staged and never
/// referenced.
fn run_gc(setup: &Setup) -> usize {
    // These kills leave more blocks than `gc` deletes by default.
    let (status, said) = setup.run("gc", &["--delete", "--delete-percent-max", "100"]);
    assert!(status.success(), "{status}\n{said}");
    let count = said.split_once("without a reference: ").map(|(_, rest)| rest);
    let count = count.and_then(|rest| rest.split(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("gc says: {said}"))
}

/// Fails unless `fsck` finds that records and blocks agree.
fn check_consistency(setup: &Setup) {
    let (status, said) = setup.run("fsck", &[]);
    assert!(status.success(), "{status}\n{said}");
}

fn delete_all(client: &Client, keys: &[String]) {
    let uploads = client.get("/box?uploads").expect(200);
    for (key, id) in uploads.elements("Key").iter().zip(uploads.elements("UploadId")) {
        client.delete(&format!("/box/{key}?uploadId={id}")).expect(204);
    }
    for key in keys {
        client.delete(&format!("/box/{key}")).expect(204);
    }
    client.delete("/box").expect(204);
}

#[test]
fn nothing_is_lost_torn_or_leaked_when_the_gateway_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder);
    survives_kills(&setup, || setup.block_files().len());
}

#[test]
fn nothing_is_lost_torn_or_leaked_when_the_gateway_over_minio_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(minio) = Minio::start(folder.path()) else { return };
    let setup = Setup::new(folder.path(), Blocks::Bucket(minio.address.clone()));
    survives_kills(&setup, || minio.blocks().len());
}
