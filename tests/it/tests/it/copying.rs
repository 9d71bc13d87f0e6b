//! Clients that copy, tag, upload in parts, overwrite and delete the same few keys through several
//! gateways, and record the responses.
//!
//! As in `load`, each write has its own value, from which its body is made. The note in an object's
//! metadata and its tags have their own values too, so that a mixture of two writes is visible.
//! Some bodies are inline in records, some share blocks, and some have their own blocks.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Answer, Client, Line, Request};
use crate::content::{bytes, etag};
use crate::history::key_group::{
    self, Condition, Content, Copying, Invocation, KEYS, Object, Operation, Response, Tag,
};
use crate::history::{Call, Value};

mod asking;
mod by_hand;

/// Number of concurrent clients.
const CLIENTS: usize = 8;

/// Number of key groups that all clients share. Each group is one history, and fewer groups make
/// longer histories, which are harder to decide.
const KEY_GROUPS: usize = 3;

/// The pause of a client after a response that asks for a later retry.
const PAUSE: Duration = Duration::from_millis(100);

/// A fault that the test adds. The check of the history must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    None,
    /// A copy of a key onto itself is a read and a later write, which overwrites changes between
    /// them.
    LostWrites,
    /// Some deletes are followed by a late write of the deleted content.
    Resurrections,
    /// The tags of a write are set in a second, later request.
    TornTags,
}

/// A content with its `ETag`, for conditions.
#[derive(Clone, Debug)]
struct Known {
    content: Content,
    etag: String,
}

/// The records of one client.
#[derive(Debug)]
struct Worker {
    name: u64,
    writes: u64,
    numbers: u64,
    calls: Vec<(usize, Call<Operation>)>,
    /// The last known content of each key of each group.
    known: [[Option<Known>; KEYS]; KEY_GROUPS],
    counts: BTreeMap<&'static str, u64>,
}

/// A load and its history. The load may run several times.
#[derive(Debug)]
pub(crate) struct Copies {
    prefix: String,
    planted: Planted,
    origin: Instant,
    workers: Vec<Worker>,
}

/// The length of a body that is inline in a record.
const INLINE: usize = 100;

/// The length of a value's body: inline in a record, in a shared block, or in one or more blocks of
/// its own.
fn length(value: Value) -> usize {
    match value % 16 {
        0 => 2 << 20,
        1..=4 => 64 << 10,
        _ => INLINE,
    }
}

/// The body of a value.
fn body(value: Value) -> Vec<u8> {
    [format!("{value} ").as_bytes(), &bytes(value, length(value))].concat()
}

/// Returns the value of a body. Panics if no client wrote the body.
#[track_caller]
fn value_of(found: &[u8]) -> Value {
    let digits = found.split(|&byte| byte == b' ').next().unwrap_or_default();
    let value = String::from_utf8_lossy(digits).parse().ok();
    let value = value.filter(|&value| found == body(value));
    value.unwrap_or_else(|| panic!("a body of {} bytes that no client put", found.len()))
}

/// Returns an `ETag` as a number: its first digits, and one bit for an upload in parts.
#[track_caller]
fn tag(etag: &str) -> Tag {
    let text = etag.replace("&quot;", "");
    let text = text.trim_matches('"');
    let digits = text.get(..15).and_then(|digits| Tag::from_str_radix(digits, 16).ok());
    let digits = digits.unwrap_or_else(|| panic!("no tag: {etag:?}"));
    digits << 4 | Tag::from(text.contains('-'))
}

/// Returns the content and `ETag` of a value that was put in one request.
fn whole(value: Value) -> Known {
    let etag = etag(&body(value));
    Known { content: Content { value, tag: tag(&etag) }, etag }
}

impl Copies {
    pub(crate) fn new(prefix: &str, planted: Planted) -> Copies {
        let worker = |name| Worker {
            name: name as u64 + 1,
            writes: 0,
            numbers: (name as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            calls: Vec::new(),
            known: Default::default(),
            counts: BTreeMap::new(),
        };
        let workers = (0..CLIENTS).map(worker).collect();
        Copies { prefix: prefix.to_owned(), planted, origin: Instant::now(), workers }
    }

    /// Runs the load for `time`, and until there were this many further responses. The clients are
    /// divided among the gateways.
    pub(crate) fn run(&mut self, clients: &[Client], time: Duration, answers: u64) {
        let stop = &AtomicBool::new(false);
        let (wanted, began) = (self.answers() + answers, Instant::now());
        let done = |so_far: u64| began.elapsed() >= time && so_far >= wanted;
        let (prefix, planted, origin) = (&self.prefix, self.planted, self.origin);
        let before: u64 = self.answers();
        let count = &std::sync::atomic::AtomicU64::new(before);
        std::thread::scope(|scope| {
            for (worker, client) in self.workers.iter_mut().zip(clients.iter().cycle()) {
                let line = Line::new(client);
                let mut turn = Turn { worker, line, prefix, planted, origin };
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let calls = turn.worker.calls.len();
                        turn.once();
                        let calls = turn.worker.calls.len() - calls;
                        let so_far = count.fetch_add(calls as u64, Ordering::Relaxed);
                        if done(so_far) {
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
    }

    /// Reads each key once more through each gateway.
    pub(crate) fn read_all(&mut self, clients: &[Client]) {
        let (prefix, planted, origin) = (&self.prefix, Planted::None, self.origin);
        for (worker, client) in self.workers.iter_mut().zip(clients) {
            let line = Line::new(client);
            let mut turn = Turn { worker, line, prefix, planted, origin };
            for (at, key) in (0..KEY_GROUPS).flat_map(|at| (0..KEYS).map(move |key| (at, key))) {
                turn.get(at, key);
                turn.get_tags(at, key);
            }
        }
    }

    fn answers(&self) -> u64 {
        self.workers.iter().map(|worker| worker.calls.len() as u64).sum()
    }

    /// Returns the number of results of each kind.
    pub(crate) fn figures(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (what, count) in self.workers.iter().flat_map(|worker| &worker.counts) {
            *counts.entry(*what).or_default() += count;
        }
        counts
    }

    /// Fails unless the responses are linearizable for each key group.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut histories: HashMap<usize, Vec<Call<Operation>>> = HashMap::new();
        for (key_group, call) in self.workers.iter().flat_map(|worker| &worker.calls) {
            histories.entry(*key_group).or_default().push(*call);
        }
        for (key_group, history) in &histories {
            key_group::check(history).map_err(|why| format!("key group {key_group}: {why}"))?;
        }
        Ok(())
    }
}

/// One running client.
struct Turn<'a> {
    worker: &'a mut Worker,
    line: Line,
    prefix: &'a str,
    planted: Planted,
    origin: Instant,
}

impl Turn<'_> {
    fn path(&self, at: usize, key: usize) -> String {
        format!("/box/{}/{at}/{key}", self.prefix)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).expect("less than centuries")
    }

    fn below(&mut self, limit: u64) -> u64 {
        let numbers = &mut self.worker.numbers;
        *numbers ^= *numbers << 13;
        *numbers ^= *numbers >> 7;
        *numbers ^= *numbers << 17;
        (*numbers >> 11) % limit
    }

    fn key(&mut self) -> usize {
        usize::try_from(self.below(KEYS as u64)).expect("few keys")
    }

    fn count(&mut self, what: &'static str) {
        *self.worker.counts.entry(what).or_default() += 1;
    }

    /// Returns a new value. The check of a planted fault does not look at blocks, so its bodies are
    /// short.
    fn value(&mut self) -> Value {
        loop {
            self.worker.writes += 1;
            let value = self.worker.name * 1_000_000_000 + self.worker.writes;
            if self.planted == Planted::None || length(value) == INLINE {
                return value;
            }
        }
    }

    /// Sends one random request.
    fn once(&mut self) {
        let at = usize::try_from(self.below(KEY_GROUPS as u64)).expect("few groups");
        let key = self.key();
        match self.below(100) {
            0..22 => self.put(at, key),
            22..32 => self.delete(at, key),
            32..37 => self.put_tags(at, key),
            37..45 => self.upload(at, key),
            45..64 => self.copy_onto_itself(at, key),
            64..75 => self.copy(at, key),
            75..80 => self.get_tags(at, key),
            _ => self.get(at, key),
        }
    }
}
