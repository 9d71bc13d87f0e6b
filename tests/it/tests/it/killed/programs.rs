//! Programs that write on a mount until it is killed, and the allowed states of their files
//! afterwards.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::client::Client;
use crate::scale;

/// Prints each operation before it begins, and `ok` after it succeeded. Ends with the mount.
const PROGRAM: &str = r#"
import fcntl, os, random, sys
folder, name, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(folder)
chance = random.Random(seed)

def content(seed, size):
    lines = (b"%015d %015d\n" % (seed, at) for at in range(0, size, 32))
    return b"".join(lines)[:size]

def say(*words):
    print(*words, flush=True)

def write(path, flags, data, pieces=1):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    step = -(-len(data) // pieces) or 1
    for at in range(0, len(data), step):
        os.write(file, data[at:at + step])
    return file

# State of the mount for this program alone: a lock, and an unlinked file.
lock = os.open(f"{name}-lock", os.O_RDWR | os.O_CREAT)
if sys.argv[4] == "lock":
    fcntl.flock(lock, fcntl.LOCK_EX)
gone = write(f"{name}-gone", os.O_TRUNC, content(seed, 200_000))
os.fsync(gone)
os.unlink(f"{name}-gone")
os.write(gone, content(seed, 100_000))

pages = os.open(f"{name}-pages", os.O_RDWR | os.O_CREAT)
log = os.open(f"{name}-log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
line = os.fstat(log).st_size // 16
while True:
    seed += 1
    size = chance.choice([1_000, 20_000, 150_000, 700_000])
    file = f"{name}-{chance.randrange(4)}"
    turn = chance.randrange(12)
    if turn < 3:
        say("write", file, seed, size)
        os.close(write(file, os.O_TRUNC, content(seed, size), chance.choice([1, 3])))
    elif turn < 4:
        say("write", file, seed, size)
        opened = write(file, os.O_TRUNC, content(seed, size), 3)
        os.fsync(opened)
        say("ok")
        # The following write is not synced, so it may be lost.
        say("more", file, seed, size + 64_000)
        os.write(opened, content(seed, size + 64_000)[size:])
        os.close(opened)
    elif turn < 7:
        say("replace", file, seed, size)
        os.close(write(f"{name}-new", os.O_TRUNC, content(seed, size), chance.choice([1, 3])))
        os.rename(f"{name}-new", file)
    elif turn < 8:
        say("unlink", file, 0, 0)
        try:
            os.unlink(file)
        except FileNotFoundError:
            pass
    elif turn < 10:
        page = chance.randrange(16)
        say("page", page, seed, 0)
        os.pwrite(pages, content(seed, 4096), page * 4096)
        os.fdatasync(pages)
    else:
        say("line", line, 0, 0)
        os.write(log, b"%015d\n" % line)
        os.fsync(log)
        line += 1
    say("ok")
"#;

/// Length of a page of the file that is written in place, in bytes.
const PAGE: usize = 4096;

/// Lines of 32 bytes, each of which contains the seed and its position.
fn content(seed: u64, size: usize) -> Vec<u8> {
    let lines = (0..size).step_by(32).flat_map(|at| format!("{seed:015} {at:015}\n").into_bytes());
    lines.take(size).collect()
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    seed: u64,
    size: usize,
}

/// An operation on a file that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// Overwritten in place: the file may contain any prefix of the content.
    Write(Written),
    /// Extended: the file may contain any prefix that is not shorter than the acknowledged content.
    More(Written),
    /// Replaced by another file.
    Replace(Written),
    Unlink,
}

/// The known states of a program's files.
#[derive(Debug)]
pub(crate) struct Notes {
    name: String,
    seed: u64,
    files: BTreeMap<String, (Option<Written>, Option<Attempt>)>,
    /// For each page: the seed of the acknowledged write, and that of the last one that began.
    pages: BTreeMap<usize, (u64, u64)>,
    /// Number of acknowledged lines.
    lines: usize,
    /// Number of lines that were begun.
    begun: usize,
}

/// The progress of a program at a kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) completed: usize,
    /// True if an operation was in flight.
    pub(crate) in_flight: bool,
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    completed: Arc<AtomicUsize>,
    reader: JoinHandle<Vec<String>>,
}

impl Running {
    pub(crate) fn start(folder: &Path, notes: &Notes, round: u64) -> Running {
        let seed = (notes.seed + round) * 1_000_000;
        let mut command = Command::new("python3");
        // A new program would wait for the lock of a dead session, so only the programs of the last
        // round take one.
        let lock = if round + 1 == scale::kills() { "lock" } else { "none" };
        command.args(["-c", PROGRAM]).arg(folder).arg(&notes.name).arg(seed.to_string()).arg(lock);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("python3 runs");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let completed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&completed);
        let listen = move || {
            let lines = output.lines().map_while(Result::ok);
            let count = |line: &String| {
                count.fetch_add(usize::from(line == "ok"), Ordering::Relaxed);
            };
            lines.inspect(count).collect()
        };
        let reader = std::thread::Builder::new().name(notes.name.clone()).spawn(listen);
        let reader = reader.expect("a thread");
        Running { child, completed, reader }
    }

    /// Returns the number of completed operations.
    pub(crate) fn completed(&self) -> usize {
        self.completed.load(Ordering::Relaxed)
    }

    /// Returns true if the program has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_some()
    }

    /// Fails if the program has ended: it must not receive an error here.
    #[track_caller]
    pub(crate) fn is_alive(&mut self, when: &str) {
        if !self.has_ended() {
            return;
        }
        let mut said = String::new();
        let mut output = self.child.stderr.take().expect("its output");
        output.read_to_string(&mut said).expect("its output is readable");
        panic!("{when}: a program has ended:\n{said}");
    }

    /// Kills the program during its work, and records its output.
    pub(crate) fn stop(mut self, notes: &mut Notes) {
        self.is_alive("at the end");
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
        notes.take(&self.reader.join().expect("its output is readable"));
    }

    /// Kills the program and drops its output.
    pub(crate) fn abandon(mut self) {
        // It may have ended with its mount.
        let _ended = self.child.kill();
        self.child.wait().expect("a child can be waited for");
    }

    /// Waits until the program fails because its mount is gone, and records its output.
    pub(crate) fn end(self, notes: &mut Notes) -> Count {
        let output = self.child.wait_with_output().expect("a program ends with its mount");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().last().unwrap_or_default();
        // The errors that the kernel returns for a mount whose process is gone.
        let expected = ["[Errno 103]", "[Errno 107]", "[Errno 5]"];
        let is_expected = expected.iter().any(|error| last.contains(error));
        assert!(is_expected, "a program ended otherwise than with its mount:\n{said}");
        let lines = self.reader.join().expect("its output is readable");
        let in_flight = lines.last().is_some_and(|line| line != "ok");
        let completed = self.completed.load(Ordering::Relaxed);
        notes.take(&lines);
        Count { completed, in_flight }
    }
}

impl Notes {
    pub(crate) fn new(program: usize) -> Notes {
        Notes {
            name: format!("program-{program}"),
            seed: 1 + 1_000 * program as u64,
            files: BTreeMap::new(),
            pages: BTreeMap::new(),
            lines: 0,
            begun: 0,
        }
    }

    /// Returns the name of the file that the program locks.
    pub(crate) fn lock(&self) -> String {
        format!("{}-lock", self.name)
    }

    /// Records the output of a program.
    fn take(&mut self, lines: &[String]) {
        let mut begun: Vec<&str> = Vec::new();
        for line in lines {
            if line == "ok" {
                self.settle(&begun);
                continue;
            }
            begun = line.split(' ').collect();
            let [kind, name, seed, size] = begun[..] else { panic!("{line}") };
            let number = |text: &str| text.parse::<u64>().expect("a number");
            let (seed, size) = (number(seed), usize::try_from(number(size)).expect("a size"));
            let written = Written { seed, size };
            let attempt = match kind {
                "write" => Attempt::Write(written),
                "more" => Attempt::More(written),
                "replace" => Attempt::Replace(written),
                "unlink" => Attempt::Unlink,
                "page" => {
                    let page = usize::try_from(number(name)).expect("a page");
                    self.pages.entry(page).or_default().1 = seed;
                    continue;
                }
                _ => {
                    self.begun = usize::try_from(number(name)).expect("a line") + 1;
                    continue;
                }
            };
            self.files.entry(name.to_owned()).or_default().1 = Some(attempt);
        }
    }

    /// Records that the operation succeeded.
    fn settle(&mut self, begun: &[&str]) {
        match begun[0] {
            "page" => {
                let page = self.pages.get_mut(&begun[1].parse().expect("a page"));
                let page = page.expect("it was begun");
                page.0 = page.1;
            }
            "line" => self.lines = self.begun,
            _ => {
                let file = self.files.get_mut(begun[1]).expect("it was begun");
                *file = match file.1 {
                    Some(Attempt::Write(to) | Attempt::More(to) | Attempt::Replace(to)) => {
                        (Some(to), None)
                    }
                    Some(Attempt::Unlink) => (None, None),
                    None => *file,
                };
            }
        }
    }

    /// Compares all files with their allowed states, and records the ones that were found.
    pub(crate) fn check(&mut self, folder: &Path, client: &Client, round: u64) {
        let read = |name: &str| -> Option<Vec<u8>> {
            // Even rounds read through the mount, odd ones through S3.
            if round.is_multiple_of(2) {
                match std::fs::read(folder.join(name)) {
                    Ok(found) => Some(found),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                    Err(error) => panic!("{name}: {error}"),
                }
            } else {
                let found = client.get(&format!("/box/programs/{name}"));
                assert!(matches!(found.status, 200 | 404), "{name}: {}", found.text());
                (found.status == 200).then_some(found.body)
            }
        };
        for (name, known) in &mut self.files {
            let found = read(name);
            let state = may_be(*known, found.as_deref());
            let Some(state) = state else {
                let found = found.map(|found| describe(&found));
                panic!("{name}, round {round}: {found:?}, and may be {known:?}");
            };
            *known = (state, None);
        }
        let gone = format!("{}-gone", self.name);
        if let Some(found) = read(&gone) {
            // The kill came before the program removed the name. The next run overwrites the file.
            assert!(found.len() <= 200_000, "{gone}: {} bytes", found.len());
        }
        let pages = read(&format!("{}-pages", self.name)).unwrap_or_default();
        for (page, (acknowledged, begun)) in &mut self.pages {
            let found = pages.chunks(PAGE).nth(*page).unwrap_or_default();
            let of = |seed: u64| seed != 0 && found == content(seed, PAGE);
            let none = *acknowledged == 0 && found.iter().all(|byte| *byte == 0);
            if of(*begun) {
                *acknowledged = *begun;
            }
            let is = of(*acknowledged) || none;
            assert!(
                is,
                "page {page} of {}, round {round}: {}, and may be of {acknowledged} or {begun}",
                self.name,
                describe(found)
            );
        }
        let log = read(&format!("{}-log", self.name)).unwrap_or_default();
        let lines = log.len() / 16;
        let line = |line| format!("{line:015}\n").into_bytes();
        let expected: Vec<u8> = (0..lines).flat_map(line).collect();
        assert!(log == expected, "the log of {} is torn: {}", self.name, describe(&log));
        let (least, most) = (self.lines, self.begun.max(self.lines));
        assert!((least..=most).contains(&lines), "{lines} lines of {least} to {most}");
        (self.lines, self.begun) = (lines, lines);
    }
}

/// Returns the state of a file if it is allowed.
fn may_be(
    known: (Option<Written>, Option<Attempt>),
    found: Option<&[u8]>,
) -> Option<Option<Written>> {
    let (acknowledged, attempt) = known;
    let first_of = |written: Written, least: usize| {
        let found = found.filter(|found| (least..=written.size).contains(&found.len()))?;
        let of = Written { seed: written.seed, size: found.len() };
        (content(of.seed, of.size) == found).then_some(Some(of))
    };
    let whole = |written: Option<Written>| match written {
        None => found.is_none().then_some(None),
        Some(written) => first_of(written, written.size),
    };
    whole(acknowledged).or_else(|| match attempt? {
        Attempt::Write(written) => first_of(written, 0),
        Attempt::More(written) => first_of(written, acknowledged?.size),
        Attempt::Replace(written) => whole(Some(written)),
        Attempt::Unlink => whole(None),
    })
}

/// Describes a content in one line.
fn describe(found: &[u8]) -> String {
    let first = String::from_utf8_lossy(&found[..found.len().min(32)]).into_owned();
    let last = String::from_utf8_lossy(&found[found.len().saturating_sub(32)..]).into_owned();
    format!("{} bytes, {first:?} to {last:?}", found.len())
}
