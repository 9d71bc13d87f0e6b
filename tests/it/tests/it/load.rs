//! Clients that put, delete, conditionally put, read and list the same few keys through several
//! gateways, and record the responses.
//!
//! Each write has its own value, from which its body is made. So a body or an entity tag identifies
//! its write, and a torn body matches no write.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Answer, Client, Line, Request};
use crate::content::{bytes, etag};
use crate::history::register::{self, Invocation, Operation, Response};
use crate::history::{Call, Value};
use crate::servers::wait_for;

/// Number of concurrent clients.
pub(crate) const CLIENTS: usize = 16;

/// Number of keys that all clients share.
const KEYS: usize = 64;

/// The pause of a client after a response that asks for a later retry.
const PAUSE: Duration = Duration::from_millis(100);

/// A fault that the test adds to the responses. The check of the history must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    None,
    /// Some reads return the first value that the client ever read, as a stale cache might.
    StaleReads,
    /// Some conditions are not sent, as if the gateway had ignored them.
    DroppedConditions,
}

/// The result of a listing: the entity tag of each key.
#[derive(Clone, Debug)]
struct Listed {
    tags: Vec<Option<String>>,
    began: u64,
    ended: u64,
}

/// The records of one client.
#[derive(Clone, Debug)]
struct Worker {
    name: u64,
    writes: u64,
    numbers: u64,
    calls: Vec<(usize, Call<Operation>)>,
    listed: Vec<Listed>,
    /// The last known value of each key.
    known: Vec<Option<Value>>,
    /// The first value that this client read from each key.
    first: Vec<Option<Value>>,
    counts: BTreeMap<&'static str, u64>,
}

/// A load and its history. The load may run several times.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    prefix: String,
    planted: Planted,
    origin: Instant,
    workers: Vec<Worker>,
}

/// Counts of the results of a load.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    counts: BTreeMap<&'static str, u64>,
}

impl Figures {
    pub(crate) fn new(counts: BTreeMap<&'static str, u64>) -> Figures {
        Figures { counts }
    }

    /// Returns the number of results of one kind: `done`, `refused`, `read`, `listed`, `unknown`,
    /// `later`, `cut`.
    pub(crate) fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> =
            self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&parts.join(", "))
    }
}

/// A part of each body, which identifies commits of inline bodies on the wire.
pub(crate) const MARK: &[u8] = b"this is what somebody wrote";

/// The body of a value. Most are short and inline in a record. One in four goes into a block, which
/// concurrent bodies share.
fn body(value: Value) -> Vec<u8> {
    let size = if value.is_multiple_of(4) { 20_000 } else { 60 };
    [format!("{value} ").as_bytes(), MARK, &bytes(value, size)].concat()
}

/// Returns the value of a body. Panics if no client wrote the body.
#[track_caller]
fn value_of(found: &[u8]) -> Value {
    let digits = found.split(|&byte| byte == b' ').next().unwrap_or_default();
    let value = String::from_utf8_lossy(digits).parse().ok();
    let value = value.filter(|&value| found == body(value));
    value.unwrap_or_else(|| panic!("a body of {} bytes that no client put", found.len()))
}

impl Load {
    pub(crate) fn new(prefix: &str, planted: Planted) -> Load {
        let worker = |name| Worker {
            name: name as u64 + 1,
            writes: 0,
            numbers: (name as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            calls: Vec::new(),
            listed: Vec::new(),
            known: vec![None; KEYS],
            first: vec![None; KEYS],
            counts: BTreeMap::new(),
        };
        let workers = (0..CLIENTS).map(worker).collect();
        Load { prefix: prefix.to_owned(), planted, origin: Instant::now(), workers }
    }

    /// Runs the load while `meanwhile` runs. The clients are divided among the gateways.
    pub(crate) fn run<T>(
        &mut self,
        clients: &[Client],
        meanwhile: impl FnOnce(&Progress) -> T,
    ) -> T {
        let (stop, progress) = (&AtomicBool::new(false), &Progress::default());
        let (prefix, planted, origin) = (&self.prefix, self.planted, self.origin);
        std::thread::scope(|scope| {
            for (worker, client) in self.workers.iter_mut().zip(clients.iter().cycle()) {
                let line = Line::new(client);
                let mut turn = Turn { worker, line, prefix, planted, origin, progress };
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        turn.once();
                    }
                });
            }
            // Stop the clients even if `meanwhile` panics; otherwise the scope would wait for them
            // forever.
            let done =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| meanwhile(progress)));
            stop.store(true, Ordering::Relaxed);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Reads each key once more through each gateway.
    pub(crate) fn read_all(&mut self, clients: &[Client]) {
        let progress = &Progress::default();
        let (prefix, planted, origin) = (&self.prefix, Planted::None, self.origin);
        for (worker, client) in self.workers.iter_mut().zip(clients) {
            let line = Line::new(client);
            let mut turn = Turn { worker, line, prefix, planted, origin, progress };
            for key in 0..KEYS {
                let (_, response) = turn.call(key, Invocation::Get);
                assert_ne!(response, Response::Unknown, "{} cannot be read", turn.path(key));
            }
            turn.list();
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut counts = BTreeMap::new();
        for (what, count) in self.workers.iter().flat_map(|worker| &worker.counts) {
            *counts.entry(*what).or_default() += count;
        }
        Figures { counts }
    }

    /// Returns the longest time between two acknowledged writes of the clients of each of the
    /// `gateways` among which [`Load::run`] has divided the clients.
    pub(crate) fn longest_gaps(&self, gateways: usize) -> Vec<Duration> {
        let gap = |gateway| {
            let workers = self.workers.iter().skip(gateway).step_by(gateways);
            let calls = workers.flat_map(|worker| &worker.calls).map(|(_, call)| call);
            let done = calls.filter(|call| call.operation.response == Response::Done);
            let mut times: Vec<u64> = done.map(|call| call.ended).collect();
            times.sort_unstable();
            let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
            Duration::from_nanos(longest.unwrap_or(0))
        };
        (0..gateways).map(gap).collect()
    }

    /// Fails unless the responses are linearizable for each key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut histories: Vec<Vec<Call<Operation>>> = vec![Vec::new(); KEYS];
        for (key, call) in self.workers.iter().flat_map(|worker| &worker.calls) {
            histories[*key].push(*call);
        }
        let values: HashMap<String, Value> = histories
            .iter()
            .flatten()
            .filter_map(|call| call.operation.invocation.writes())
            .map(|value| (etag(&body(value)), value))
            .collect();
        for listed in self.workers.iter().flat_map(|worker| &worker.listed) {
            let &Listed { began, ended, .. } = listed;
            for (history, tag) in histories.iter_mut().zip(&listed.tags) {
                let value = tag.as_ref().map(|tag| {
                    *values.get(tag).unwrap_or_else(|| panic!("an ETag that no client put: {tag}"))
                });
                history.push(Call::new(Invocation::Get, Response::Found(value), began, ended));
            }
        }
        for (key, history) in histories.iter().enumerate() {
            register::check(history).map_err(|why| format!("key {key}: {why}"))?;
        }
        Ok(())
    }

    /// Fails unless the load did enough and its history is linearizable.
    #[track_caller]
    pub(crate) fn is_linearizable(&self) -> Figures {
        let figures = self.figures();
        for (what, least) in [("done", 100), ("refused", 10), ("read", 100), ("listed", 5)] {
            assert!(figures.of(what) >= least, "too few operations: {figures}");
        }
        if let Err(why) = self.check() {
            panic!("not linearizable: {why}");
        }
        figures
    }
}

/// The progress of a load, for the code that disturbs it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    answers: AtomicU64,
    slow: AtomicBool,
}

impl Progress {
    /// Makes the clients pause between requests, while the test waits for something else.
    pub(crate) fn slow_down(&self) {
        self.slow.store(true, Ordering::Relaxed);
    }

    /// Waits for this many further responses.
    #[track_caller]
    pub(crate) fn wait_for_more(&self, answers: u64) {
        self.wait_for_at_least(self.answers() + answers);
    }

    /// Waits until there were this many responses in total.
    #[track_caller]
    pub(crate) fn wait_for_at_least(&self, wanted: u64) {
        let came = wait_for(Duration::from_mins(1), || self.answers() >= wanted);
        assert!(came, "clients are not served: {} answers of {wanted}", self.answers());
    }

    /// Counts a response.
    pub(crate) fn count_response(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of responses so far, without those of status 500 and above.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

/// One running client.
struct Turn<'a> {
    worker: &'a mut Worker,
    line: Line,
    prefix: &'a str,
    planted: Planted,
    origin: Instant,
    progress: &'a Progress,
}

impl Turn<'_> {
    fn path(&self, key: usize) -> String {
        format!("/box/{}/key-{key:02}", self.prefix)
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

    fn count(&mut self, what: &'static str) {
        *self.worker.counts.entry(what).or_default() += 1;
    }

    fn value(&mut self) -> Value {
        self.worker.writes += 1;
        self.worker.name * 1_000_000_000 + self.worker.writes
    }

    /// Sends one random request.
    fn once(&mut self) {
        let key = usize::try_from(self.below(KEYS as u64)).expect("few keys");
        let invocation = match self.below(100) {
            0 | 1 => return self.list(),
            2..30 => Invocation::Put(self.value()),
            30..42 => Invocation::Delete,
            42..54 => Invocation::PutIfAbsent(self.value()),
            54..70 => match self.worker.known[key] {
                Some(known) => Invocation::PutIfMatch(known, self.value()),
                None => Invocation::Get,
            },
            _ => Invocation::Get,
        };
        let stale = invocation == Invocation::Get
            && self.planted == Planted::StaleReads
            && self.below(5) == 0;
        if let Some(first) = self.worker.first[key].filter(|_| stale) {
            let (began, ended) = (self.now(), self.now());
            let call = Call::new(invocation, Response::Found(Some(first)), began, ended);
            return self.worker.calls.push((key, call));
        }
        if self.progress.slow.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
        }
        let (status, response) = self.call(key, invocation);
        if status.is_none_or(|status| status >= 500) {
            std::thread::sleep(PAUSE);
        } else {
            self.progress.count_response();
        }
        let known = match (invocation, response) {
            (_, Response::Found(found)) => found,
            (_, Response::Done) => invocation.writes(),
            _ => None,
        };
        self.worker.known[key] = known;
        if self.worker.first[key].is_none() {
            self.worker.first[key] = known;
        }
    }

    /// Sends a request and records the response. Returns the status, if a response arrived.
    fn call(&mut self, key: usize, invocation: Invocation) -> (Option<u16>, Response) {
        let request = self.request(key, invocation);
        let began = self.now();
        let answer = self.line.send(&request);
        let ended = self.now();
        let status = answer.as_ref().ok().map(|answer| answer.status);
        match self.response(invocation, answer) {
            Some(response) => {
                self.worker.calls.push((key, Call::new(invocation, response, began, ended)));
                (status, response)
            }
            None => (status, Response::Unknown),
        }
    }

    fn request(&mut self, key: usize, invocation: Invocation) -> Request {
        let path = self.path(key);
        let put = |value| Request::new("PUT", &path).body(body(value));
        match invocation {
            Invocation::Get
            | Invocation::Remove
            | Invocation::Open(_)
            | Invocation::Create(_)
            | Invocation::Truncate(_)
            | Invocation::Write(_) => Request::new("GET", &path),
            Invocation::Delete => Request::new("DELETE", &path),
            Invocation::Put(value) => put(value),
            Invocation::PutIfAbsent(value) => put(value).header("if-none-match", "*"),
            Invocation::PutIfMatch(_, value)
                if self.planted == Planted::DroppedConditions && self.below(3) == 0 =>
            {
                put(value)
            }
            Invocation::PutIfMatch(wanted, value) => {
                put(value).header("if-match", &etag(&body(wanted)))
            }
        }
    }

    /// Returns the meaning of a response for the key; `None` if the request certainly had no
    /// effect.
    fn response(
        &mut self,
        invocation: Invocation,
        answer: std::io::Result<Answer>,
    ) -> Option<Response> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.count("turned away");
                return None;
            }
            Err(_) => {
                self.count("cut");
                return Some(Response::Unknown);
            }
        };
        let response = match (invocation, answer.status) {
            (Invocation::Get, 200) => Response::Found(Some(value_of(&answer.body))),
            (Invocation::Get, 404) if answer.code() == "NoSuchKey" => Response::Found(None),
            (Invocation::Put(_) | Invocation::PutIfAbsent(_) | Invocation::PutIfMatch(..), 200)
            | (Invocation::Delete, 204) => Response::Done,
            (Invocation::PutIfAbsent(_) | Invocation::PutIfMatch(..), 412) => Response::Refused,
            (Invocation::PutIfMatch(..), 404) => Response::Missing,
            (_, 503) if !answer.text().contains("outcome of the request is unknown") => {
                self.count("later");
                return None;
            }
            (_, 500..) => Response::Unknown,
            (_, 409) if answer.code() == "ConditionalRequestConflict" => {
                self.count("conflict");
                return None;
            }
            // A gateway that was paused while a body arrived finds that the body took too long.
            (_, 400) if answer.code() == "RequestTimeout" => {
                self.count("too late");
                return None;
            }
            (_, status) => panic!("{invocation:?}: {status} {}", answer.text()),
        };
        self.count(match response {
            Response::Done => "done",
            Response::Found(_) => "read",
            Response::Refused | Response::Missing => "refused",
            Response::Unknown => "unknown",
        });
        Some(response)
    }

    fn list(&mut self) {
        let target = format!("/box?list-type=2&max-keys=1000&prefix={}/", self.prefix);
        let began = self.now();
        let answer = self.line.send(&Request::new("GET", &target));
        let ended = self.now();
        let Some(answer) = answer.ok().filter(|answer| answer.status == 200) else {
            std::thread::sleep(PAUSE);
            return;
        };
        let mut tags = vec![None; KEYS];
        for (key, tag) in answer.elements("Key").iter().zip(answer.elements("ETag")) {
            let at = key.rsplit_once('-').and_then(|(_, digits)| digits.parse::<usize>().ok());
            let at = at.unwrap_or_else(|| panic!("a key that no client put: {key}"));
            tags[at] = Some(tag.replace("&quot;", "\""));
        }
        self.worker.listed.push(Listed { tags, began, ended });
        self.count("listed");
    }
}
