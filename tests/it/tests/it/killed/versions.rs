//! SIGKILL of a gateway with a versioned bucket, while clients write, delete and lock versions and
//! lifecycle rules with days of one second remove noncurrent ones. Acknowledged versions are
//! current, locked versions exist, and no block remains after all versions are removed.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::client::{Client, Request};
use crate::content::bytes;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_engine};
use crate::scale;
use crate::servers::wait_for;

on_the_drawn_engine!(current_and_locked_versions_survive_kills);

const CLIENTS: usize = 6;

/// Number of keys of each client.
const KEYS: u64 = 3;

/// Lengths of versions: inline in a record, in one block, in many blocks.
const SIZES: [usize; 3] = [700, 40_000, 200_000];

/// The least number of acknowledged changes in a round before the kill.
const ENOUGH: usize = 30;

const PATIENCE: Duration = Duration::from_mins(2);

/// Rules that remove versions one day after they became noncurrent, and delete markers that hide
/// none.
const RULES: &str = "<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Filter/>\
    <NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>\
    <Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>\
    </Rule></LifecycleConfiguration>";

const OPTIONS: [&str; 6] =
    ["--block-bytes", "64KiB", "--memory-budget", "16MiB", "--lifecycle-day-seconds", "1"];

/// The content of a version: its seed, and its length in bytes.
type Written = (u64, usize);

/// An acknowledged version.
#[derive(Clone, Debug)]
struct Version {
    id: String,
    written: Written,
}

/// A client's knowledge of one of its keys.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The current content; `None` if the key was deleted or never written.
    current: Option<Written>,
    /// The current content if the last request, which got no response, was executed.
    attempted: Option<Option<Written>>,
    locked: Vec<Version>,
    /// Versions without a lock.
    free: Vec<Version>,
}

#[derive(Debug)]
struct Writer {
    name: usize,
    seed: u64,
    keys: BTreeMap<String, Known>,
}

#[derive(Debug, Default)]
struct Work {
    acknowledged: AtomicUsize,
    cut_off: AtomicUsize,
}

/// Counts of the checks after kills.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    locked: usize,
    /// Versions that lifecycle rules have removed.
    expired: usize,
}

impl Writer {
    fn new(name: usize) -> Writer {
        Writer { name, seed: name as u64 * 1_000_000, keys: BTreeMap::new() }
    }

    /// Writes, locks and deletes until the gateway no longer responds.
    fn work(&mut self, client: &Client, work: &Work) {
        loop {
            self.seed += 1;
            let seed = self.seed;
            let key = format!("/kept/client-{}/key-{}", self.name, seed % KEYS);
            let known = self.keys.entry(key.clone()).or_default();
            if let Ok(done) = known.change(client, &key, seed) {
                if !done {
                    // The response asks for a retry. Only one change of a key may have an unknown
                    // outcome, so this client sends no more.
                    let gone = || client.connect().is_err();
                    assert!(wait_for(PATIENCE, gone), "client {} waits", self.name);
                    return;
                }
                work.acknowledged.fetch_add(1, Ordering::SeqCst);
            } else {
                work.cut_off.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Compares each key with its allowed states, and records the one that was found.
    fn check(&mut self, client: &Client, seen: &mut Seen) {
        for (key, known) in &mut self.keys {
            let found = client.get(key);
            let may_be = [Some(known.current), known.attempted.take()];
            let is = |state: &Option<Written>| match *state {
                None => found.status == 404,
                Some(written) => found.status == 200 && found.body == body_of(written),
            };
            let state = may_be.into_iter().flatten().find(is);
            let length = found.body.len();
            let state = state.unwrap_or_else(|| {
                panic!("{key}: {} with {length} bytes, but may be {may_be:?}", found.status)
            });
            known.current = state;
            for Version { id, written } in &known.locked {
                let found = client.get(&format!("{key}?versionId={id}"));
                let is_whole = found.status == 200 && found.body == body_of(*written);
                assert!(is_whole, "{key}: locked version {id}: {}", found.status);
                seen.locked += 1;
            }
            known.free.retain(|Version { id, written }| {
                let found = client.get(&format!("{key}?versionId={id}"));
                let is_current = known.current == Some(*written);
                match found.status {
                    200 => assert!(found.body == body_of(*written), "{key}: {id} is torn"),
                    404 => assert!(!is_current, "{key}: the current version {id} has gone"),
                    status => panic!("{key}: {id}: {status}"),
                }
                seen.expired += usize::from(found.status == 404);
                found.status == 200
            });
        }
    }
}

impl Known {
    /// Requests one change. Returns true if it succeeded. An error means an unknown outcome.
    fn change(&mut self, client: &Client, key: &str, seed: u64) -> io::Result<bool> {
        match seed % 9 {
            0 | 1 => {
                self.attempted = Some(None);
                let answer = client.try_send(&Request::new("DELETE", key))?;
                Ok(self.end(answer.status, 204))
            }
            // A locked version cannot be removed.
            2 if !self.locked.is_empty() => {
                let version = &self.locked[usize::try_from(seed).unwrap_or(0) % self.locked.len()];
                let target = format!("{key}?versionId={}", version.id);
                let answer = client.try_send(&Request::new("DELETE", &target))?;
                assert!(matches!(answer.status, 403 | 503), "{}", answer.text());
                Ok(answer.status == 403)
            }
            turn => {
                let size = SIZES[usize::try_from(turn % 3).unwrap_or(0)];
                let is_locked = turn == 3 || turn == 7;
                let mut request = Request::new("PUT", key).body(bytes(seed, size));
                if is_locked {
                    request = request
                        .header("x-amz-object-lock-mode", "GOVERNANCE")
                        .header("x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z");
                }
                self.attempted = Some(Some((seed, size)));
                let answer = client.try_send(&request)?;
                if answer.status == 200 {
                    let id = answer.header("x-amz-version-id").to_owned();
                    let of = if is_locked { &mut self.locked } else { &mut self.free };
                    of.push(Version { id, written: (seed, size) });
                }
                Ok(self.end(answer.status, 200))
            }
        }
    }

    /// Returns true if `status` is the expected status `done`, and then records the change.
    fn end(&mut self, status: u16, done: u16) -> bool {
        assert!(status == done || status == 503, "{status}");
        if status == done {
            self.current = self.attempted.take().expect("it was begun");
        }
        status == done
    }
}

/// Returns the body with this seed and length.
fn body_of((seed, size): Written) -> Vec<u8> {
    bytes(seed, size)
}

fn current_and_locked_versions_survive_kills(engine: Engine) {
    let Some(mut fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    fleet.first = fleet.first.clone().options(&OPTIONS);
    let mut gateway = fleet.first.start();
    gateway.client.put("/box", b"").expect(200);
    let make = Request::new("PUT", "/kept").header("x-amz-bucket-object-lock-enabled", "true");
    gateway.client.send(&make).expect(200);
    gateway.client.put("/kept?lifecycle", RULES.as_bytes()).expect(200);
    let mut writers: Vec<Writer> = (0..CLIENTS).map(Writer::new).collect();
    let (mut seen, mut acknowledged) = (Seen::default(), 0);
    for round in 0..scale::kills() {
        let (client, work) = (gateway.client.clone(), Work::default());
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let (client, work) = (&client, &work);
                scope.spawn(move || writer.work(client, work));
            }
            let is_busy = wait_for(PATIENCE, || work.acknowledged.load(Ordering::SeqCst) >= ENOUGH);
            assert!(is_busy, "round {round}: the load is too small: {work:?}");
            // The moment differs in each round, relative to the days of the rules.
            std::thread::sleep(Duration::from_millis(300 + round * 373 % 1_100));
            gateway.child.kill();
        });
        assert!(work.cut_off.load(Ordering::SeqCst) > 0, "round {round}: nothing was under way");
        acknowledged += work.acknowledged.into_inner();
        gateway = fleet.first.start();
        for writer in &mut writers {
            writer.check(&gateway.client, &mut seen);
        }
    }
    // The new gateway continues the lifecycle passes.
    let expires = || {
        writers.iter_mut().for_each(|writer| writer.check(&gateway.client, &mut seen));
        seen.expired > 0
    };
    assert!(wait_for(PATIENCE, expires), "no rule was followed:\n{}", gateway.log());
    assert!(seen.locked > 0, "nothing was locked");
    eprintln!(
        "{}: {} kills, {acknowledged} changes were acknowledged; {seen:?}",
        engine.name(),
        scale::kills()
    );
    remove_all(&gateway.client);
    gateway.stop();
    fleet.stop_and_check(Vec::new());
}

/// Removes every version, locked or not, and the bucket.
fn remove_all(client: &Client) {
    client.delete("/kept?lifecycle").expect(204);
    loop {
        let page = client.get("/kept?versions").expect(200);
        let (keys, ids) = (page.elements("Key"), page.elements("VersionId"));
        assert_eq!(keys.len(), ids.len(), "{}", page.text());
        if ids.is_empty() {
            break;
        }
        for (key, id) in keys.iter().zip(ids) {
            let remove = Request::new("DELETE", &format!("/kept/{key}?versionId={id}"));
            client.send(&remove.header("x-amz-bypass-governance-retention", "true")).expect(204);
        }
    }
    client.delete("/kept").expect(204);
}
