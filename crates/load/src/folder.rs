//! Load on a folder: threads that make system calls.
//!
//! Reads may come from the page cache of the kernel. The figures are those of a program that works
//! on files that it has just written. For example, `Read` after `Write` reads the file that is
//! still in the cache.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::{Gauge, Round, Trouble};

/// The size of a sequential read or write in bytes.
const SEQUENTIAL_BYTES: usize = 1 << 20;

/// The size of a random read and of a small file in bytes.
const SMALL_BYTES: usize = 4 << 10;

/// The number of entries of the listed folder.
const LISTED: u64 = 1_000;

/// An operation that a round measures on the files of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileVerb {
    /// Writes a large file from its beginning to its end in steps of 1 MiB, and syncs it.
    Write,
    /// Reads the large file in steps of 1 MiB.
    Read,
    /// Reads 4 KiB at random positions of the large file.
    RandomRead,
    /// Creates files of 4 KiB.
    Create,
    /// Reads the attributes of the small files.
    Stat,
    /// Deletes the small files. A round ends when they are gone.
    Unlink,
    /// Lists a folder of 1,000 files.
    List,
}

impl FileVerb {
    /// All operations, in an order in which each finds the files that it needs.
    pub const ALL: [Self; 7] = [
        Self::Write,
        Self::Read,
        Self::RandomRead,
        Self::Create,
        Self::Stat,
        Self::Unlink,
        Self::List,
    ];

    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::RandomRead => "random-read",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Unlink => "unlink",
            Self::List => "list",
        }
    }
}

impl fmt::Display for FileVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The size of a round, that is, of one measurement of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileLoad {
    /// The size of the large file in bytes, a multiple of 1 MiB.
    pub file_bytes: u64,
    /// The number of threads. Sequential reads and writes have one.
    pub clients: usize,
    /// The duration of a round. Sequential rounds end with the file instead.
    pub time: Duration,
}

/// A folder in which threads create, read and delete files for a measurement. [`Folder::clean`]
/// deletes it with its content.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    seed: u64,
    /// The number of small files that each thread has created and not deleted.
    made: Vec<AtomicU64>,
}

impl Folder {
    /// Creates the folder, which must not exist.
    ///
    /// # Errors
    ///
    /// If the folder exists or cannot be created.
    pub fn make(path: &Path, seed: u64) -> Result<Self, Trouble> {
        fs::create_dir(path).map_err(system_error("make the folder", path))?;
        Ok(Self { path: path.to_owned(), seed, made: Vec::new() })
    }

    /// Deletes the folder with its content.
    ///
    /// # Errors
    ///
    /// If a file cannot be deleted.
    pub fn clean(self) -> Result<(), Trouble> {
        fs::remove_dir_all(&self.path).map_err(system_error("delete", &self.path))
    }

    /// Runs one round. An operation needs the files of the operations before it in
    /// [`FileVerb::ALL`].
    ///
    /// # Errors
    ///
    /// If a call fails, or a file differs from the written one.
    pub fn round(
        &mut self,
        verb: FileVerb,
        load: FileLoad,
        gauge: &Gauge,
    ) -> Result<Round, Trouble> {
        let begin = Instant::now();
        let done = match verb {
            FileVerb::Write => self.write(load, gauge),
            FileVerb::Read => self.read(load, gauge),
            FileVerb::RandomRead => self.random_read(load, gauge),
            FileVerb::Create | FileVerb::Stat | FileVerb::Unlink => self.small(verb, load, gauge),
            FileVerb::List => return self.list(load, gauge),
        };
        let mut round = done.map_err(system_error(verb.name(), &self.path))?;
        round.took = begin.elapsed();
        if gauge.is_stopped() { Err(Trouble::Stopped) } else { Ok(round) }
    }

    fn large(&self) -> PathBuf {
        self.path.join("large")
    }

    fn small_file(&self, thread: usize, number: u64) -> PathBuf {
        self.path.join(format!("small-{thread}")).join(format!("{number:08}"))
    }

    fn write(&self, load: FileLoad, gauge: &Gauge) -> io::Result<Round> {
        let mut chunk = vec![0; SEQUENTIAL_BYTES];
        SmallRng::seed_from_u64(self.seed).fill_bytes(&mut chunk);
        let (mut round, mut file) = (Round::empty(), File::create(self.large())?);
        for number in 0..load.file_bytes >> 20 {
            // All MiB differ, so that a storage system cannot deduplicate them.
            chunk[..8].copy_from_slice(&number.to_le_bytes());
            timed(&mut round, gauge, SEQUENTIAL_BYTES, || file.write_all(&chunk))?;
        }
        // The sync is part of the duration: without it the figure would be that of the page cache.
        file.sync_all()?;
        Ok(round)
    }

    fn read(&self, load: FileLoad, gauge: &Gauge) -> io::Result<Round> {
        let mut chunk = vec![0; SEQUENTIAL_BYTES];
        let (mut round, mut file) = (Round::empty(), File::open(self.large())?);
        for number in 0..load.file_bytes >> 20 {
            timed(&mut round, gauge, SEQUENTIAL_BYTES, || file.read_exact(&mut chunk))?;
            if chunk[..8] != number.to_le_bytes() {
                return Err(io::Error::other("the file differs from the written one"));
            }
        }
        Ok(round)
    }

    fn random_read(&self, load: FileLoad, gauge: &Gauge) -> io::Result<Round> {
        let pages = (load.file_bytes / SMALL_BYTES as u64).max(1);
        threads(load.clients, |thread| {
            let (file, mut page) = (File::open(self.large())?, vec![0; SMALL_BYTES]);
            // Each thread reads in its own order, which is the same in each run.
            let mut random = SmallRng::seed_from_u64(self.seed.wrapping_add(thread as u64));
            until(load.time, gauge, |round| {
                let place = random.random_range(0..pages) * SMALL_BYTES as u64;
                timed(round, gauge, SMALL_BYTES, || file.read_exact_at(&mut page, place))?;
                Ok(true)
            })
        })
    }

    fn small(&mut self, verb: FileVerb, load: FileLoad, gauge: &Gauge) -> io::Result<Round> {
        self.made.resize_with(load.clients, AtomicU64::default);
        let content = vec![b'x'; SMALL_BYTES];
        threads(load.clients, |thread| {
            let made = &self.made[thread];
            let mut random = SmallRng::seed_from_u64(self.seed.wrapping_add(thread as u64));
            if verb == FileVerb::Create {
                fs::create_dir_all(self.path.join(format!("small-{thread}")))?;
            }
            until(load.time, gauge, |round| {
                let count = made.load(Ordering::Relaxed);
                match verb {
                    FileVerb::Create => {
                        let path = self.small_file(thread, count);
                        timed(round, gauge, SMALL_BYTES, || fs::write(path, &content))?;
                        made.store(count + 1, Ordering::Relaxed);
                    }
                    // All files of this thread are deleted, or none was created.
                    _ if count == 0 => return Ok(false),
                    FileVerb::Stat => {
                        let path = self.small_file(thread, random.random_range(0..count));
                        let found = timed(round, gauge, 0, || fs::metadata(path))?;
                        if found.len() != SMALL_BYTES as u64 {
                            return Err(io::Error::other("a file has another size"));
                        }
                    }
                    _ => {
                        let path = self.small_file(thread, count - 1);
                        timed(round, gauge, 0, || fs::remove_file(path))?;
                        made.store(count - 1, Ordering::Relaxed);
                    }
                }
                Ok(true)
            })
        })
    }

    fn list(&self, load: FileLoad, gauge: &Gauge) -> Result<Round, Trouble> {
        let folder = self.path.join("listed");
        // The files are created in the first round and are not part of its duration.
        if !folder.exists() {
            fs::create_dir(&folder).map_err(system_error("make the folder", &folder))?;
            for number in 0..LISTED {
                let path = folder.join(format!("{number:08}"));
                fs::write(&path, b"x").map_err(system_error("write", &path))?;
            }
        }
        let begin = Instant::now();
        let done = threads(load.clients, |_| {
            until(load.time, gauge, |round| {
                let count = timed(round, gauge, 0, || {
                    fs::read_dir(&folder)?.try_fold(0, |count, entry| entry.map(|_| count + 1))
                })?;
                if count != LISTED {
                    return Err(io::Error::other(format!("{count} entries instead of {LISTED}")));
                }
                Ok(true)
            })
        });
        let mut round = done.map_err(system_error("list", &folder))?;
        round.took = begin.elapsed();
        if gauge.is_stopped() { Err(Trouble::Stopped) } else { Ok(round) }
    }
}

/// Calls `step` until the time is over, the run is stopped, or `step` returns false.
fn until(
    time: Duration,
    gauge: &Gauge,
    mut step: impl FnMut(&mut Round) -> io::Result<bool>,
) -> io::Result<Round> {
    let (mut round, begin) = (Round::empty(), Instant::now());
    while begin.elapsed() < time && !gauge.is_stopped() && step(&mut round)? {}
    Ok(round)
}

/// Makes one call and adds its duration to the round.
fn timed<T>(
    round: &mut Round,
    gauge: &Gauge,
    bytes: usize,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let since = Instant::now();
    let done = call()?;
    let bytes = bytes as u64;
    round.add(1, bytes, since.elapsed());
    gauge.add(1, bytes);
    Ok(done)
}

/// Runs `work` on several threads and returns the merged result.
fn threads(count: usize, work: impl Fn(usize) -> io::Result<Round> + Sync) -> io::Result<Round> {
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..count).map(|thread| scope.spawn(move || work(thread))).collect();
        let mut all = Round::empty();
        for thread in running {
            all.merge(thread.join().expect("a thread of the load does not panic")?);
        }
        Ok(all)
    })
}

pub(crate) fn system_error(doing: &str, path: &Path) -> impl Fn(io::Error) -> Trouble {
    let doing = format!("{doing} {}", path.display());
    move |source| Trouble::System { doing: doing.clone(), source }
}

#[cfg(test)]
mod tests;
