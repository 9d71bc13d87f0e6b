//! The clients and programs that work on the files, and their records.

mod program;

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::values;
use crate::client::{Answer, Client, Line, Request};
use crate::history::register::{self, Invocation, Operation, Response};
use crate::history::{Call, SequentialSpec as _, Value};
use crate::load::{Figures, Progress};
use crate::mounted::Mount;
use crate::servers::Gateway;
use program::Program;

/// Number of files that all of them share.
const KEYS: usize = 12;

/// Number of clients of each gateway, and of programs on each mount.
const EACH: usize = 4;

/// The pause of a client after a request that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The caching of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelCache {
    /// No caching: each call reaches the file system.
    Off,
    /// Names and their absence are cached until a change of them is acknowledged.
    UntilAcknowledged,
    /// They are cached for one second, even if a change is acknowledged. Opens reach the file
    /// system.
    Pushed,
}

/// A gateway and a mount of one volume: one process with both views, or two processes.
#[derive(Clone, Debug)]
pub(crate) struct ViewPair {
    client: Client,
    folder: PathBuf,
}

impl ViewPair {
    pub(super) fn new(mount: &Mount) -> ViewPair {
        ViewPair::of(mount.gateway(), &mount.folder)
    }

    /// Returns the views of a gateway and of a mount on `folder`.
    pub(crate) fn of(gateway: &Gateway, folder: &Path) -> ViewPair {
        ViewPair { client: gateway.client.clone(), folder: folder.join("box") }
    }
}

/// The result of a listing: entity tags.
#[derive(Clone, Debug)]
struct Listed {
    tags: Vec<Option<String>>,
    began: u64,
    ended: u64,
}

/// The records of one client or program.
#[derive(Clone, Debug)]
struct Worker {
    name: usize,
    numbers: u64,
    calls: Vec<(usize, Call<Operation>)>,
    /// Calls that a kernel may have answered from its cache.
    cached: Vec<(usize, Call<Operation>)>,
    listed: Vec<Listed>,
    /// The last known value of each file.
    known: Vec<Option<Value>>,
    counts: BTreeMap<&'static str, u64>,
}

/// A load and its history. The load runs several times.
#[derive(Debug)]
pub(crate) struct Load {
    origin: Instant,
    written: AtomicU64,
    /// One lock for each file. If two mounts write to a file that is still empty, both contents
    /// stay. So a program that creates a file excludes those that open it for writing.
    making: Vec<RwLock<()>>,
    /// One lock for each file. A write in place is visible to the programs of the same mount at
    /// once, and readers on another mount may see half of it, as on a local disk. So no program
    /// reads a file that another one writes in place. S3 clients may read it.
    rewriting: Vec<RwLock<()>>,
    workers: Vec<Worker>,
    /// True if gateways may fail while the load runs. Then a request without a response has an
    /// unknown outcome.
    gateways_fail: bool,
}

impl Load {
    pub(crate) fn new(seed: u64) -> Load {
        let worker = |name: usize| Worker {
            name,
            numbers: (seed + name as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            calls: Vec::new(),
            cached: Vec::new(),
            listed: Vec::new(),
            known: vec![None; KEYS],
            counts: BTreeMap::new(),
        };
        let workers = (0..4 * EACH).map(worker).collect();
        let locks = || (0..KEYS).map(|_| RwLock::default()).collect();
        let (making, rewriting) = (locks(), locks());
        let (origin, written) = (Instant::now(), AtomicU64::new(0));
        Load { origin, written, making, rewriting, workers, gateways_fail: false }
    }

    /// The same with gateways that the test stops or kills.
    pub(crate) fn with_failing_gateways(self) -> Load {
        Load { gateways_fail: true, ..self }
    }

    /// Runs clients and programs in these places, whose kernels cache as `kernel_cache` says, while
    /// `meanwhile` runs.
    pub(crate) fn run<T>(
        &mut self,
        places: &[ViewPair],
        kernel_cache: KernelCache,
        meanwhile: impl FnOnce(&Progress) -> T,
    ) -> T {
        let (stop, progress) = (&AtomicBool::new(false), &Progress::default());
        let (written, origin) = (&self.written, self.origin);
        let locks = (&self.making[..], &self.rewriting[..]);
        let may_fail = self.gateways_fail;
        std::thread::scope(|scope| {
            for (at, worker) in self.workers.iter_mut().enumerate() {
                let Some(place) = places.get(at / (2 * EACH)) else { break };
                let notes = Notes { worker, written, origin };
                scope.spawn(move || {
                    if at % 2 == 0 {
                        let line = Line::new(&place.client);
                        let mut client = OfGateway { notes, line, may_fail };
                        client.until(stop, progress);
                    } else {
                        let may_be_killed = may_fail;
                        Program { notes, place, locks, kernel_cache, may_be_killed }
                            .until(stop, progress);
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

    /// Reads each file once more in both views of each place.
    pub(crate) fn read_all(&mut self, places: &[ViewPair]) {
        let (written, origin) = (&self.written, self.origin);
        let locks = (&self.making[..], &self.rewriting[..]);
        for (worker, place) in self.workers.iter_mut().zip(places) {
            let notes = Notes { worker, written, origin };
            let line = Line::new(&place.client);
            let mut client = OfGateway { notes, line, may_fail: false };
            for key in 0..KEYS {
                client.invocation(key, Invocation::Get);
            }
            client.list();
            let mut program = Program {
                notes: client.notes,
                place,
                locks,
                kernel_cache: KernelCache::Off,
                may_be_killed: false,
            };
            for key in 0..KEYS {
                program.read(key);
                program.stat(key);
            }
            program.names();
        }
    }

    /// Fails unless the load did enough and its history is linearizable for each file.
    #[track_caller]
    pub(crate) fn is_linearizable(&self) -> Figures {
        let mut histories: Vec<Vec<Call<Operation>>> = vec![Vec::new(); KEYS];
        for (key, call) in self.workers.iter().flat_map(|worker| &worker.calls) {
            histories[*key].push(*call);
        }
        for (key, call) in self.workers.iter().flat_map(|worker| &worker.cached) {
            let known = &histories[*key];
            if !may_be_of_another_file(known, call) {
                let began = cached_since(known, call.began);
                histories[*key].push(Call { began, ..*call });
            }
        }
        let tags: HashMap<String, Value> = histories
            .iter()
            .flatten()
            .filter_map(|call| call.operation.invocation.writes())
            .map(|value| (values::tag(value), value))
            .collect();
        for listed in self.workers.iter().flat_map(|worker| &worker.listed) {
            for (history, tag) in histories.iter_mut().zip(&listed.tags) {
                let value = tag.as_ref().map(|tag| {
                    *tags.get(tag).unwrap_or_else(|| panic!("an ETag that no client wrote: {tag}"))
                });
                let response = Response::Found(value);
                history.push(Call::new(Invocation::Get, response, listed.began, listed.ended));
            }
        }
        let mut counts = BTreeMap::new();
        for (what, count) in self.workers.iter().flat_map(|worker| &worker.counts) {
            *counts.entry(*what).or_default() += count;
        }
        let figures = Figures::new(counts);
        for (key, history) in histories.iter().enumerate() {
            if let Err(why) = register::check(history) {
                panic!("not linearizable ({figures}): file {key}: {why}");
            }
        }
        for what in ["put", "get", "list", "read", "stat", "names", "replace", "fill", "remove"] {
            assert!(figures.of(what) >= 2, "too few operations: {figures}");
        }
        figures
    }
}

/// Returns true if a result from a kernel's cache may belong to a file that has just lost its name
/// to a change in flight. The kernel of the mount that wrote the file learns of that change before
/// it is acknowledged; until then the name leads to the old file with its current content.
fn may_be_of_another_file(history: &[Call<Operation>], call: &Call<Operation>) -> bool {
    let Response::Found(Some(value)) = call.operation.response else { return false };
    let writes = |invocation: Invocation| matches!(invocation, Invocation::Write(by) | Invocation::Truncate(by) if by == value);
    let is_cut = value == register::EMPTY;
    let in_place = |invocation: Invocation| {
        writes(invocation) || (is_cut && matches!(invocation, Invocation::Truncate(_)))
    };
    let written = history.iter().filter(|other| in_place(other.operation.invocation));
    let binds = |other: &&Call<Operation>| {
        let invocation = other.operation.invocation;
        !other.operation.is_read_only()
            && !matches!(
                invocation,
                Invocation::Open(_) | Invocation::Truncate(_) | Invocation::Write(_)
            )
    };
    written.into_iter().any(|written| {
        let overlaps =
            |other: &Call<Operation>| other.began < call.ended && other.ended > written.began;
        history.iter().filter(binds).any(overlaps)
    })
}

/// Returns the time from which a result of the cache may date. Acknowledged changes must be
/// visible; changes in flight need not be. An acknowledged DELETE counts only if it overlaps no
/// change in flight. For example, one DELETE removes the file and is not answered yet, and a second
/// one finds nothing, changes nothing, and is answered at once.
fn cached_since(history: &[Call<Operation>], at: u64) -> u64 {
    let changes =
        || history.iter().filter(|call| !call.operation.is_read_only() && call.began < at);
    let in_flight = changes().filter(|call| call.ended >= at).map(|call| call.began).min();
    let may_be_without_effect = |call: &Call<Operation>| {
        matches!(call.operation.invocation, Invocation::Delete)
            && in_flight.is_some_and(|began| began < call.ended)
    };
    let acknowledged = changes()
        .filter(|call| call.ended < at && !may_be_without_effect(call))
        .map(|call| call.ended)
        .max();
    in_flight.map_or(at, |began| began.max(acknowledged.unwrap_or(0)))
}

/// The records of a client or a program, and the shared counter of values.
struct Notes<'a> {
    worker: &'a mut Worker,
    written: &'a AtomicU64,
    origin: Instant,
}

impl Notes<'_> {
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

    /// Returns a new value; `None` if all values are used.
    fn value(&self) -> Option<Value> {
        let value = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        Some(value).filter(|value| *value < values::VALUES)
    }

    fn count(&mut self, what: &'static str) {
        *self.worker.counts.entry(what).or_default() += 1;
    }

    fn note(
        &mut self,
        key: usize,
        invocation: Invocation,
        response: Response,
        began: u64,
        ended: u64,
    ) {
        self.worker.calls.push((key, Call::new(invocation, response, began, ended)));
        self.worker.known[key] = match (invocation, response) {
            (_, Response::Found(found)) => found,
            (_, Response::Done) => invocation.writes(),
            _ => None,
        };
    }
}

fn file_name(key: usize) -> String {
    format!("key-{key:02}")
}

fn key_of(name: &str) -> usize {
    let key = name.strip_prefix("key-").and_then(|digits| digits.parse().ok());
    key.filter(|key| *key < KEYS).unwrap_or_else(|| panic!("a name that no client created: {name}"))
}

/// A client of a gateway.
struct OfGateway<'a> {
    notes: Notes<'a>,
    line: Line,
    /// True if the gateway may be killed or stopped meanwhile.
    may_fail: bool,
}

impl OfGateway<'_> {
    fn until(&mut self, stop: &AtomicBool, progress: &Progress) {
        while !stop.load(Ordering::Relaxed) {
            self.once();
            progress.count_response();
        }
    }

    fn once(&mut self) {
        let key = self.notes.key();
        let kind = self.notes.below(100);
        if kind < 4 {
            return self.list();
        }
        let value = if kind < 50 { self.notes.value() } else { None };
        let invocation = match (kind, value, self.notes.worker.known[key]) {
            (4..28, Some(value), _) => Invocation::Put(value),
            (28..38, Some(value), _) => Invocation::PutIfAbsent(value),
            (38..50, Some(value), Some(known)) => Invocation::PutIfMatch(known, value),
            (50..62, ..) => Invocation::Delete,
            _ => Invocation::Get,
        };
        self.invocation(key, invocation);
    }

    fn invocation(&mut self, key: usize, invocation: Invocation) {
        let path = format!("/box/hot/{}", file_name(key));
        let put = |value| Request::new("PUT", &path).body(values::content(value));
        let (what, request) = match invocation {
            Invocation::Put(value) => ("put", put(value)),
            Invocation::PutIfAbsent(value) => {
                ("put if absent", put(value).header("if-none-match", "*"))
            }
            Invocation::PutIfMatch(wanted, value) => {
                ("put if match", put(value).header("if-match", &values::tag(wanted)))
            }
            Invocation::Delete => ("delete", Request::new("DELETE", &path)),
            _ => ("get", Request::new("GET", &path)),
        };
        let began = self.notes.now();
        let answer = self.line.send(&request);
        let ended = self.notes.now();
        let answer = match answer {
            Ok(answer) if self.may_fail && answer.status >= 500 => Err(is_refused(&answer)),
            Ok(answer) => Ok(answer),
            Err(error) if self.may_fail => Err(error.kind() == ErrorKind::ConnectionRefused),
            Err(error) => panic!("the gateway does not answer: {error}"),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(has_no_effect) => {
                if !has_no_effect {
                    self.notes.note(key, invocation, Response::Unknown, began, ended);
                }
                self.notes.count(if has_no_effect { "turned away" } else { "unknown" });
                return std::thread::sleep(PAUSE);
            }
        };
        if answer.status == 409 && answer.code() == "ConditionalRequestConflict" {
            return self.notes.count("conflict");
        }
        let response = response(invocation, &answer, &path);
        self.notes.note(key, invocation, response, began, ended);
        self.notes.count(what);
    }

    fn list(&mut self) {
        let request = Request::new("GET", "/box?list-type=2&prefix=hot/key-");
        let began = self.notes.now();
        let answer = self.line.send(&request);
        if self.may_fail && !answer.as_ref().is_ok_and(|answer| answer.status == 200) {
            self.notes.count("turned away");
            return std::thread::sleep(PAUSE);
        }
        let answer = answer.expect("the gateway answers").expect(200);
        let ended = self.notes.now();
        let mut tags = vec![None; KEYS];
        let sizes = answer.elements("Size");
        let entries = answer.elements("Key").into_iter().zip(answer.elements("ETag")).zip(sizes);
        for ((name, tag), size) in entries {
            let tag = tag.replace("&quot;", "\"");
            let value = values::of_length(size.parse().expect("a number"));
            assert_eq!(tag, values::tag(value), "{name}: a tag of other bytes than the length");
            tags[key_of(name.strip_prefix("hot/").expect("a prefix"))] = Some(tag);
        }
        self.notes.worker.listed.push(Listed { tags, began, ended });
        self.notes.count("list");
    }
}

/// Returns true if an error of the gateway says that the request had no effect.
fn is_refused(answer: &Answer) -> bool {
    answer.status == 503 && !answer.text().contains("outcome of the request is unknown")
}

/// Returns the outcome of a response.
fn response(invocation: Invocation, answer: &Answer, path: &str) -> Response {
    match (invocation, answer.status) {
        (Invocation::Get, 200) => {
            let value = values::of_content(&answer.body, path);
            assert_eq!(answer.header("etag"), values::tag(value), "{path}: a tag of other bytes");
            Response::Found(Some(value))
        }
        (Invocation::Get, 404) if answer.code() == "NoSuchKey" => Response::Found(None),
        (Invocation::Put(_) | Invocation::PutIfAbsent(_) | Invocation::PutIfMatch(..), 200)
        | (Invocation::Delete, 204) => Response::Done,
        (Invocation::PutIfAbsent(_) | Invocation::PutIfMatch(..), 412) => Response::Refused,
        (Invocation::PutIfMatch(..), 404) => Response::Missing,
        (_, status) => panic!("{invocation:?}: {status} {}", answer.text()),
    }
}
