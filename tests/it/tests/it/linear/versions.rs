//! The same for keys of a versioned bucket: the current version, each version by its id, and pages
//! of versions.
//!
//! The gateway chooses ids and the test chooses values. Their relation is complete only when every
//! write has its response, so calls are recorded with ids and translated at the end.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::client::{Answer, Client, Request};
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine, on_the_drawn_engine};
use crate::history::versions::{Operation, PAGE, Version, check, newest};
use crate::history::{Call, Value};
use crate::scale;
use crate::servers::Gateway;

on_each_engine!(histories_of_versions_are_linearizable);
on_the_drawn_engine!(planted_faults_are_found);

const KEYS: usize = 6;
const WRITERS: usize = 4;

/// The least number of responses, however long they take.
const ENOUGH: u64 = 600;

/// The result of a call, with version ids.
#[derive(Clone, Debug)]
enum Response {
    Known(Operation),
    /// The key has no current object, because of this delete marker.
    Marked(String),
    Listed(Vec<String>),
}

/// The calls on one key.
#[derive(Debug, Default)]
struct Key {
    calls: Vec<(Response, u64, u64)>,
    /// Known versions and delete markers, the latest last.
    known: Vec<(String, Value)>,
    /// True if the outcome of a request is unknown. Then the history of this key is not checked.
    in_doubt: bool,
}

#[derive(Debug)]
struct Load {
    keys: Vec<Mutex<Key>>,
    next: AtomicU64,
    ended: AtomicBool,
    answers: AtomicU64,
    began: Instant,
    /// True if some reads return another value than the gateway returned.
    planted: bool,
}

/// Pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

impl Load {
    fn new(planted: bool) -> Load {
        Load {
            keys: (0..KEYS).map(|_| Mutex::default()).collect(),
            next: AtomicU64::new(1),
            ended: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            began: Instant::now(),
            planted,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("centuries")
    }

    fn work(&self, client: &Client, seed: u64) {
        let mut numbers = Numbers(seed | 1);
        while !self.ended.load(Ordering::Relaxed) {
            let key = numbers.below(KEYS);
            let (known, many) = {
                let key = self.keys[key].lock().expect("no thread has failed");
                // One of the latest, so that most of the chosen versions still exist.
                let last = key.known.len().min(8);
                let known = (last > 0)
                    .then(|| key.known[key.known.len() - 1 - numbers.below(last)].clone());
                (known, key.known.len())
            };
            match (numbers.below(20), known) {
                (0..4, _) => self.put(client, key),
                (4..6, _) => self.delete(client, key),
                (6..10, Some(known)) => self.remove(client, key, &known),
                (10..13, Some(known)) => self.get_version(client, key, &known),
                (13..15, _) if many > 0 => look_at_list(client, key),
                _ => self.get(client, key, self.planted && numbers.below(6) == 0),
            }
        }
    }

    /// Sends a request, and records the result that `read` takes from its response.
    fn send(
        &self,
        client: &Client,
        key: usize,
        request: &Request,
        read: impl FnOnce(&Answer) -> (Response, Option<(String, Value)>),
    ) {
        let began = self.now();
        let answer = client.send(request);
        let ended = self.now();
        if matches!(answer.status, 409 | 503) {
            self.keys[key].lock().expect("no thread has failed").in_doubt = true;
            return;
        }
        let (response, known) = read(&answer);
        let mut key = self.keys[key].lock().expect("no thread has failed");
        key.calls.push((response, began, ended));
        key.known.extend(known);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    fn put(&self, client: &Client, key: usize) {
        let value = self.next.fetch_add(1, Ordering::Relaxed);
        let request = Request::new("PUT", &format!("/kept/key-{key}")).body(value.to_string());
        self.send(client, key, &request, |answer| {
            assert_eq!(answer.status, 200, "{}", answer.text());
            (Response::Known(Operation::Put(value)), Some((id(answer), value)))
        });
    }

    fn delete(&self, client: &Client, key: usize) {
        let value = self.next.fetch_add(1, Ordering::Relaxed);
        let request = Request::new("DELETE", &format!("/kept/key-{key}"));
        self.send(client, key, &request, |answer| {
            assert_eq!(answer.status, 204, "{}", answer.text());
            assert_eq!(answer.header("x-amz-delete-marker"), "true");
            (Response::Known(Operation::Delete(value)), Some((id(answer), value)))
        });
    }

    fn remove(&self, client: &Client, key: usize, (known, value): &(String, Value)) {
        let request = Request::new("DELETE", &format!("/kept/key-{key}?versionId={known}"));
        self.send(client, key, &request, |answer| {
            assert_eq!(answer.status, 204, "{}", answer.text());
            (Response::Known(Operation::Remove(*value)), None)
        });
    }

    /// Reads the current version. If `stale`, records an older value, as a cache that missed an
    /// invalidation would return.
    fn get(&self, client: &Client, key: usize, stale: bool) {
        let request = Request::new("GET", &format!("/kept/key-{key}"));
        self.send(client, key, &request, |answer| match answer.status {
            200 => {
                let value = value(answer);
                let found = if stale { value.saturating_sub(40).max(1) } else { value };
                (
                    Response::Known(Operation::Get(Some(Version::Object(found)))),
                    Some((id(answer), value)),
                )
            }
            404 if answer.header("x-amz-delete-marker") == "true" => {
                (Response::Marked(id(answer)), None)
            }
            404 => (Response::Known(Operation::Get(None)), None),
            status => panic!("{status}: {}", answer.text()),
        });
    }

    fn get_version(&self, client: &Client, key: usize, (known, wanted): &(String, Value)) {
        let request = Request::new("GET", &format!("/kept/key-{key}?versionId={known}"));
        self.send(client, key, &request, |answer| {
            let found = match answer.status {
                200 => {
                    assert_eq!((value(answer), id(answer)), (*wanted, known.clone()));
                    true
                }
                // The version was removed, or is a delete marker, which has no content.
                404 | 405 => false,
                status => panic!("{status}: {}", answer.text()),
            };
            (Response::Known(Operation::GetVersion(*wanted, found)), None)
        });
    }

    fn list(&self, client: &Client, key: usize) {
        let target = format!("/kept?versions&prefix=key-{key}&max-keys={PAGE}");
        self.send(client, key, &Request::new("GET", &target), |answer| {
            assert_eq!(answer.status, 200, "{}", answer.text());
            (Response::Listed(answer.elements("VersionId")), None)
        });
    }

    /// Fails unless the calls of each key are linearizable. Returns their number.
    fn check(&self) -> Result<usize, String> {
        let mut count = 0;
        for key in &self.keys {
            let key = key.lock().expect("no thread has failed");
            if key.in_doubt {
                continue;
            }
            let values: HashMap<&str, Value> =
                key.known.iter().map(|(id, value)| (id.as_str(), *value)).collect();
            let value = |id: &String| {
                values
                    .get(id.as_str())
                    .copied()
                    .ok_or(format!("version {id} was never returned by a write"))
            };
            let mut calls = Vec::new();
            for (response, began, ended) in &key.calls {
                let operation = match response {
                    Response::Known(operation) => *operation,
                    Response::Marked(id) => Operation::Get(Some(Version::Marker(value(id)?))),
                    Response::Listed(ids) => {
                        let values: Result<Vec<Value>, String> = ids.iter().map(value).collect();
                        Operation::List(newest(values?.into_iter()))
                    }
                };
                calls.push(Call { operation, began: *began, ended: *ended });
            }
            count += calls.len();
            check(&calls)?;
        }
        if count == 0 { Err("nothing is known of any key".to_owned()) } else { Ok(count) }
    }

    fn run(&self, clients: &[Client; 2], enough: u64) {
        clients[0].put("/kept", b"").expect(200);
        let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        clients[0].put("/kept?versioning", enabled.as_bytes()).expect(200);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for worker in 0..WRITERS {
                let client = &clients[worker % 2];
                let seed = (scale::seed() + worker as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                scope.spawn(move || self.work(client, seed));
            }
            while began.elapsed() < scale::load() || self.answers.load(Ordering::Relaxed) < enough {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            self.ended.store(true, Ordering::Relaxed);
        });
        for client in clients {
            for key in 0..KEYS {
                self.list(client, key);
                self.get(client, key, false);
            }
        }
    }
}

/// Lists versions during writes. Such a listing shows each version as of its own instant, so it is
/// not part of the history. It makes both gateways read records that are not in their caches, and
/// checks that the listing succeeds.
fn look_at_list(client: &Client, key: usize) {
    let target = format!("/kept?versions&prefix=key-{key}&max-keys={PAGE}");
    let answer = client.send(&Request::new("GET", &target));
    assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
}

fn id(answer: &Answer) -> String {
    answer.header("x-amz-version-id").to_owned()
}

fn value(answer: &Answer) -> Value {
    answer.text().parse().expect("a body that was put")
}

fn histories_of_versions_are_linearizable(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let load = Load::new(false);
    load.run(&clients(&gateways), ENOUGH);
    let count = load.check().unwrap_or_else(|why| panic!("{}: {why}", engine.name()));
    eprintln!("{}: {count} calls on versions are linearizable", engine.name());
    for gateway in gateways {
        gateway.check_log();
        gateway.stop();
    }
    fleet.run_gc();
    fleet.check_consistency();
}

/// The same load, with reads as from a cache that misses invalidations.
fn planted_faults_are_found(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let load = Load::new(true);
    load.run(&clients(&gateways), ENOUGH);
    let why = load.check().expect_err("stale answers are taken for linearizable");
    assert!(why.contains("has no place"), "{why}");
    gateways.into_iter().for_each(Gateway::stop);
}
