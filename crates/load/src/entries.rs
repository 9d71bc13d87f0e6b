//! System calls on many empty files, to measure the cost of names.
//!
//! Paths are computed beforehand, and the clock is read for a pass and not for each call, because a
//! call that the kernel answers from its cache takes one microsecond. For example, a pass of `Stat`
//! calls stat(2) once per file.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::folder::system_error;
use crate::{Gauge, Trouble};

/// The number of calls between two checks of the time.
const CALLS_PER_CHECK: u64 = 64;

/// An operation on many empty files, which is applied to one file after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryVerb {
    /// Creates the empty file and closes it.
    Create,
    /// Reads the attributes of the file.
    Stat,
    /// Looks up a name that does not exist in the folder of the files.
    Missing,
    /// Opens the file for reading and closes it.
    Open,
    /// Removes the file.
    Unlink,
}

impl EntryVerb {
    /// All operations, in an order in which each finds the files that it needs.
    pub const ALL: [Self; 5] = [Self::Create, Self::Stat, Self::Missing, Self::Open, Self::Unlink];

    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create and close",
            Self::Stat => "stat",
            Self::Missing => "stat of a missing name",
            Self::Open => "open and close",
            Self::Unlink => "unlink",
        }
    }

    /// Returns true if the operation changes nothing, so that a pass can be repeated.
    fn repeats(self) -> bool {
        matches!(self, Self::Stat | Self::Missing | Self::Open)
    }
}

impl fmt::Display for EntryVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The result of a pass: each thread has applied one operation to each of its files, once or
/// repeatedly.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The number of operations. An open with its close counts as one.
    pub calls: u64,
    /// The time from the begin of the first operation to the end of the last.
    pub took: Duration,
}

impl Pass {
    /// Returns the number of operations per second of all threads together.
    #[expect(clippy::cast_precision_loss, reason = "a rate has no use for more than 52 bits")]
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// The empty files of a measurement, in one folder per thread.
#[derive(Debug)]
pub struct SmallFiles {
    folders: Vec<PathBuf>,
    files: u64,
}

impl SmallFiles {
    /// Creates the folders `entries-0`, `entries-1` and so on in `parent`, for `files` files each.
    ///
    /// # Errors
    ///
    /// If a folder exists or cannot be created.
    pub fn make(parent: &Path, threads: usize, files: u64) -> Result<Self, Trouble> {
        let folders: Vec<PathBuf> =
            (0..threads).map(|thread| parent.join(format!("entries-{thread}"))).collect();
        for folder in &folders {
            fs::create_dir(folder).map_err(system_error("make the folder", folder))?;
        }
        Ok(Self { folders, files })
    }

    /// Removes the folders, which must be empty.
    ///
    /// # Errors
    ///
    /// If a folder cannot be removed.
    pub fn clean(&self) -> Result<(), Trouble> {
        let remove =
            |folder: &PathBuf| fs::remove_dir(folder).map_err(system_error("remove", folder));
        self.folders.iter().try_for_each(remove)
    }

    /// Lets each thread apply the operation to each of its files once. An operation that changes
    /// nothing is repeated until the time is over.
    ///
    /// # Errors
    ///
    /// If a call fails, or a name that should be missing exists.
    pub fn pass(&self, verb: EntryVerb, time: Duration, gauge: &Gauge) -> Result<Pass, Trouble> {
        let paths: Vec<Vec<PathBuf>> =
            self.folders.iter().map(|folder| paths(folder, verb, self.files)).collect();
        let time = if verb.repeats() { time } else { Duration::ZERO };
        let begin = Instant::now();
        let calls: io::Result<u64> = std::thread::scope(|scope| {
            let running: Vec<_> = paths
                .iter()
                .map(|paths| scope.spawn(move || walk(verb, paths, time, gauge)))
                .collect();
            let done = running.into_iter().map(|it| it.join().expect("a walk does not panic"));
            done.sum()
        });
        let took = begin.elapsed();
        let calls = calls.map_err(system_error(verb.name(), &self.folders[0]))?;
        if gauge.is_stopped() { Err(Trouble::Stopped) } else { Ok(Pass { calls, took }) }
    }
}

fn paths(folder: &Path, verb: EntryVerb, files: u64) -> Vec<PathBuf> {
    let word = if verb == EntryVerb::Missing { "missing" } else { "file" };
    (0..files).map(|number| folder.join(format!("{word}-{number:06}"))).collect()
}

fn walk(verb: EntryVerb, paths: &[PathBuf], time: Duration, gauge: &Gauge) -> io::Result<u64> {
    let (begin, mut calls) = (Instant::now(), 0);
    loop {
        for path in paths {
            call(verb, path)?;
            calls += 1;
            // The checks are rare, because a cached call takes only a microsecond.
            if calls % CALLS_PER_CHECK == 0 {
                gauge.add(CALLS_PER_CHECK, 0);
                let over = !time.is_zero() && begin.elapsed() >= time;
                if over || gauge.is_stopped() {
                    return Ok(calls);
                }
            }
        }
        if paths.is_empty() || begin.elapsed() >= time {
            return Ok(calls);
        }
    }
}

fn call(verb: EntryVerb, path: &Path) -> io::Result<()> {
    match verb {
        EntryVerb::Create => File::create_new(path).map(drop),
        EntryVerb::Stat => stat(path),
        EntryVerb::Open => File::open(path).map(drop),
        EntryVerb::Unlink => fs::remove_file(path),
        EntryVerb::Missing => match stat(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(io::Error::other("a name exists that was never created")),
        },
    }
}

/// Calls stat(2), as most programs do. The standard library calls statx(2) and asks for the time of
/// birth, which the kernel does not cache for such files.
fn stat(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::stat(path).map(drop)?)
}

#[cfg(test)]
mod tests;
