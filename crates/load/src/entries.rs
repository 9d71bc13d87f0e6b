//! System calls on many small files: nothing is written to them, so that the names are all that
//! costs.
//!
//! Paths are made beforehand and only whole passes are timed: a call that the kernel answers by
//! itself takes a microsecond.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::folder::wrong;
use crate::{Gauge, Trouble};

/// Calls between two looks at the clock.
const CALLS_A_LOOK: u64 = 64;

/// What is done with each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryVerb {
    /// It is made, empty, and closed.
    Create,
    /// It is asked for its attributes.
    Stat,
    /// A name beside it that is not there is asked for.
    Missing,
    /// It is opened for reading, and closed.
    Open,
    /// It is removed.
    Unlink,
}

impl EntryVerb {
    /// All of them, in an order in which each finds what it needs.
    pub const ALL: [Self; 5] = [Self::Create, Self::Stat, Self::Missing, Self::Open, Self::Unlink];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create and close",
            Self::Stat => "stat",
            Self::Missing => "stat of a missing name",
            Self::Open => "open and close",
            Self::Unlink => "unlink",
        }
    }

    /// Whether it leaves everything as it was, so that a pass may begin again.
    fn repeats(self) -> bool {
        matches!(self, Self::Stat | Self::Missing | Self::Open)
    }
}

impl fmt::Display for EntryVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What was done, and how long it took.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Calls, or what stands for them: opening and closing is one.
    pub calls: u64,
    /// From the first to the end of the last.
    pub took: Duration,
}

impl Pass {
    /// Calls a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate has no use for more than 52 bits")]
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Small files in folders, one folder for each thread.
#[derive(Debug)]
pub struct SmallFiles {
    folders: Vec<PathBuf>,
    files: u64,
}

impl SmallFiles {
    /// Makes folders `entries-0`, `entries-1` and so on in `parent`, for `files` files each.
    ///
    /// # Errors
    ///
    /// If one is there or cannot be made.
    pub fn make(parent: &Path, threads: usize, files: u64) -> Result<Self, Trouble> {
        let folders: Vec<PathBuf> =
            (0..threads).map(|thread| parent.join(format!("entries-{thread}"))).collect();
        for folder in &folders {
            fs::create_dir(folder).map_err(wrong("make the folder", folder))?;
        }
        Ok(Self { folders, files })
    }

    /// Removes the folders, which must be empty.
    ///
    /// # Errors
    ///
    /// If one cannot be removed.
    pub fn clean(&self) -> Result<(), Trouble> {
        let remove = |folder: &PathBuf| fs::remove_dir(folder).map_err(wrong("remove", folder));
        self.folders.iter().try_for_each(remove)
    }

    /// Takes each thread once through its files; if that changes nothing, again until the time is
    /// over.
    ///
    /// # Errors
    ///
    /// If any call fails, or a name that should be missing is there.
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
        let calls = calls.map_err(wrong(verb.name(), &self.folders[0]))?;
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
            if calls % CALLS_A_LOOK == 0 {
                gauge.add(CALLS_A_LOOK, 0);
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
            Ok(()) => Err(io::Error::other("a name is there that nobody has made")),
        },
    }
}

/// As most programs ask. The standard library asks for the time of birth besides, which a kernel
/// does not remember of such files.
fn stat(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::stat(path).map(drop)?)
}

#[cfg(test)]
mod tests;
