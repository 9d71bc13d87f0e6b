//! Clients with keys of their own, which know the allowed states of these keys.

use std::collections::BTreeMap;

use super::look::{Found, found, look};
use super::violations::{Fate, Violation};
use super::*;
use crate::client::part_list;
use crate::content::etag_of_parts;

/// Number of keys of each client.
const KEYS: u64 = 12;

/// The pause of a client after a request that was not served.
const PAUSE: Duration = Duration::from_millis(100);

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Absent,
    /// Put in one request: seed, and length in bytes.
    Whole(u64, usize),
    /// Uploaded as one part: seed, and length in bytes.
    Part(u64, usize),
}

/// Returns the content of a seed and a size. It contains both, so each content is unique.
fn content(seed: u64, size: usize) -> Vec<u8> {
    [format!("{seed} {size} ").as_bytes(), &bytes(seed, size)].concat()
}

impl State {
    /// Returns the state of a body and an entity tag; `None` if no client wrote them.
    fn of(body: &[u8], tag: &str) -> Option<State> {
        let mut words = body.splitn(3, |&byte| byte == b' ');
        let mut number = || String::from_utf8_lossy(words.next()?).parse::<u64>().ok();
        let (seed, size) = (number()?, usize::try_from(number()?).ok()?);
        // Compare the length first, to build no content that is longer than the body.
        let is_so = size <= body.len() && content(seed, size) == body;
        match tag {
            _ if !is_so => None,
            tag if tag == etag(body) => Some(State::Whole(seed, size)),
            tag if tag == etag_of_parts(&[body]) => Some(State::Part(seed, size)),
            _ => None,
        }
    }

    /// Returns the state that a read found, or a violation.
    fn in_view(found: Found) -> Result<State, (Violation, String)> {
        match found {
            Found::Absent => Ok(State::Absent),
            Found::Unreadable(why) => Err((Violation::Unreadable, why)),
            Found::Is(body, tag) => State::of(&body, &tag).ok_or_else(|| {
                let begins = String::from_utf8_lossy(&body[..body.len().min(20)]).into_owned();
                (Violation::Foreign, format!("{} bytes {begins:?}, tag {tag}", body.len()))
            }),
        }
    }

    fn tag(self) -> String {
        match self {
            State::Absent => String::new(),
            State::Whole(seed, size) => etag(&content(seed, size)),
            State::Part(seed, size) => etag_of_parts(&[&content(seed, size)]),
        }
    }
}

/// A change that may have been executed, with its times.
#[derive(Clone, Copy, Debug)]
struct Change {
    wanted: State,
    began: Instant,
    ended: Instant,
    is_done: bool,
}

/// A client's knowledge of a key.
#[derive(Debug)]
struct Key {
    /// The state at the end of the previous round.
    base: State,
    /// The changes of this round.
    changes: Vec<Change>,
    /// All states that were ever requested.
    ever: BTreeSet<State>,
}

impl Key {
    /// Returns the last state and the beginning of its change; `None` if the outcome of the last
    /// change is unknown.
    fn last(&self) -> Option<(State, Option<Instant>)> {
        match self.changes.last() {
            None => Some((self.base, None)),
            Some(change) if change.is_done => Some((change.wanted, Some(change.began))),
            Some(_) => None,
        }
    }

    /// Returns all allowed states after the restore.
    fn may_be(&self, times: &Times) -> BTreeSet<State> {
        let mut may_be = BTreeSet::from([self.base]);
        for change in &self.changes {
            match times.fate(change.began, change.ended) {
                _ if !change.is_done => _ = may_be.insert(change.wanted),
                Fate::Stays => may_be = BTreeSet::from([change.wanted]),
                Fate::MayStay => _ = may_be.insert(change.wanted),
                Fate::TakenBack => {}
            }
        }
        may_be
    }

    fn taken_back(&self, times: &Times) -> usize {
        let is = |change: &&Change| {
            change.is_done && times.fate(change.began, change.ended) == Fate::TakenBack
        };
        self.changes.iter().filter(is).count()
    }
}

/// A client with keys of its own.
#[derive(Debug)]
pub(super) struct Owner {
    name: usize,
    seed: u64,
    keys: BTreeMap<String, Key>,
}

impl Owner {
    pub(super) fn new(name: usize) -> Owner {
        let key = |at| {
            let key = Key { base: State::Absent, changes: Vec::new(), ever: BTreeSet::new() };
            (format!("/box/owner-{name}/{at}"), key)
        };
        Owner { name, seed: (name as u64 + 1) * 1_000_000_000, keys: (0..KEYS).map(key).collect() }
    }

    /// Changes and reads its keys until `stop`. Returns the violations.
    pub(super) fn work(
        &mut self,
        client: &Client,
        times: &Times,
        orders: &Orders,
        done: &AtomicU64,
    ) -> Violations {
        let (mut line, mut violations) = (Line::new(client), Violations::default());
        while !orders.stop.load(Ordering::Relaxed) {
            if orders.pause.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE / 10);
                continue;
            }
            self.seed += 1;
            let path = format!("/box/owner-{}/{}", self.name, self.seed * 7 % 31 % KEYS);
            let Some((now, _)) = self.keys[&path].last() else {
                // The outcome of a change is unknown, and the change may still be executed: skip
                // the key.
                std::thread::sleep(PAUSE / 10);
                continue;
            };
            if self.seed.is_multiple_of(3) {
                self.read(&mut line, &path, times, &mut violations);
                continue;
            }
            let (wanted, request) = self.change(&mut line, &path, now);
            let Some(request) = request else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let key = self.keys.get_mut(&path).expect("a key of its own");
            key.ever.insert(wanted);
            let began = Instant::now();
            let answer = line.send(&request);
            let ended = Instant::now();
            let is_done = match answer {
                Ok(answer) => match (answer.status, answer.code()) {
                    (200 | 204, code) if code.is_empty() => true,
                    // The restore removed the source of the change, or the gateway is busy: the
                    // change was not executed.
                    (404 | 409 | 412, _) => continue,
                    (503, _) if !answer.text().contains("outcome of the request is unknown") => {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    _ => false,
                },
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(_) => false,
            };
            key.changes.push(Change { wanted, began, ended, is_done });
            done.fetch_add(u64::from(is_done), Ordering::Relaxed);
        }
        violations
    }

    /// Returns the next state, and the request that decides it; `None` if its preparation failed.
    fn change(&self, line: &mut Line, path: &str, now: State) -> (State, Option<Request>) {
        let seed = self.seed;
        let size = match seed % 9 {
            0 => 2 << 20,
            1..=3 => 64 << 10,
            _ => 100,
        };
        let copy = |from: &str, tag: &str| {
            Request::new("PUT", path)
                .header("x-amz-copy-source", from)
                .header("x-amz-copy-source-if-match", tag)
        };
        match seed / 3 % 10 {
            0 | 1 => (State::Absent, Some(Request::new("DELETE", path))),
            2 => (State::Part(seed, size), upload(line, path, &content(seed, size))),
            3 | 4 => {
                let others = self.keys.iter().filter(|(other, _)| *other != path);
                let known = others.filter_map(|(other, key)| Some((other, key.last()?.0)));
                let mut known = known.filter(|(_, state)| *state != State::Absent);
                match known.nth(usize::try_from(seed % 3).unwrap_or(0)) {
                    Some((from, state)) => (state, Some(copy(from, &state.tag()))),
                    None => (State::Absent, Some(Request::new("DELETE", path))),
                }
            }
            5 if now != State::Absent => {
                let itself = copy(path, &now.tag());
                let note = seed.to_string();
                let itself = itself.header("x-amz-metadata-directive", "REPLACE");
                (now, Some(itself.header("x-amz-meta-note", &note)))
            }
            _ => {
                let put = Request::new("PUT", path).body(content(seed, size));
                (State::Whole(seed, size), Some(put))
            }
        }
    }

    /// Reads a key. The result must be the last acknowledged state, unless a restore may have taken
    /// it back.
    fn read(&mut self, line: &mut Line, path: &str, times: &Times, violations: &mut Violations) {
        let key = &self.keys[path];
        let Some(found) = found(line, path) else {
            return std::thread::sleep(PAUSE);
        };
        let now = Instant::now();
        let (state, since) = key.last().expect("it is not read while something is in doubt");
        let holds = since.is_none_or(|began| times.holds(began, now));
        match State::in_view(found) {
            Err((kind, why)) => violations.add(kind, format!("{path}: {why}")),
            Ok(other) if holds && other != state => {
                let what = format!("{path}: {other:?} instead of {state:?} while it was at work");
                violations.add(Violation::Lost, what);
            }
            Ok(other) if other != State::Absent && !key.ever.contains(&other) => {
                violations.add(Violation::Foreign, format!("{path}: {other:?}, never put here"));
            }
            Ok(_) => {}
        }
    }

    /// Compares each key with its allowed states after the restore, and records the one that was
    /// found. Returns the number of acknowledged changes that were taken back.
    pub(super) fn settle(
        &mut self,
        clients: &[Client],
        times: &Times,
        violations: &mut Violations,
    ) -> usize {
        let mut taken_back = 0;
        for (path, key) in &mut self.keys {
            taken_back += key.taken_back(times);
            let may_be = key.may_be(times);
            key.changes.clear();
            key.base = is_among(clients, path, may_be, &key.ever, violations);
        }
        taken_back
    }

    /// Compares each key with its state at the end of the last round.
    pub(super) fn check(&mut self, clients: &[Client], violations: &mut Violations) {
        for (path, key) in &mut self.keys {
            let may_be = BTreeSet::from([key.base]);
            key.base = is_among(clients, path, may_be, &key.ever, violations);
        }
    }
}

/// Reads a key through every gateway. After a violation the key is deleted.
fn is_among(
    clients: &[Client],
    path: &str,
    mut may_be: BTreeSet<State>,
    ever: &BTreeSet<State>,
    violations: &mut Violations,
) -> State {
    let mut is = State::Absent;
    for client in clients {
        let (kind, what) = match State::in_view(look(client, path)) {
            Ok(state) if may_be.contains(&state) => {
                (is, may_be) = (state, BTreeSet::from([state]));
                continue;
            }
            Ok(state) if state == State::Absent || ever.contains(&state) => {
                (Violation::Lost, format!("{state:?}"))
            }
            Ok(state) => (Violation::Foreign, format!("{state:?}, never put here")),
            Err(kind) => kind,
        };
        violations.add(kind, format!("{path}: {what}, and may be {may_be:?}"));
        client.delete(path).expect(204);
        return State::Absent;
    }
    is
}

/// Starts an upload and sends its only part. Returns the request that completes it.
fn upload(line: &mut Line, path: &str, content: &[u8]) -> Option<Request> {
    let begin = line.send(&Request::new("POST", &format!("{path}?uploads"))).ok()?;
    let id = begin.element("UploadId");
    let part = Request::new("PUT", &format!("{path}?partNumber=1&uploadId={id}")).body(content);
    let sent = line.send(&part).ok().filter(|sent| sent.status == 200)?;
    let list = part_list(&[(1, sent.header("etag"))]);
    Some(Request::new("POST", &format!("{path}?uploadId={id}")).body(list))
}
