//! `ashlar warmup`: reads files of a mount, so that what serves the mount has them in its cache.
//!
//! The files are read past the kernel's own cache: pages that are there already would not be asked of
//! the mount, and those that come would take room from others. Each file is read from its end: front to
//! back the mount would read ahead in long runs, and a cache in memory keeps nothing of those.

use std::fs::{File, Metadata, OpenOptions, ReadDir};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::node_report::ATTRIBUTE;
use crate::output::say;
use crate::problem::Problem;

/// Files that are read at a time unless told otherwise, and at most.
const JOBS_DEFAULT: u16 = 8;
const JOBS_MAX: u16 = 64;

/// Files that wait to be read.
const WAITING_MAX: usize = 1_024;

/// What one read asks for.
const PIECE_BYTES: u64 = 1 << 20;

/// Files of which it is told why they could not be read; of more it is told how many.
const FAILURES_TOLD_MAX: u64 = 10;

/// How often the progress bar moves.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Warmup {
    /// Files and directories on a mount; of directories all that is below them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Files that are read at a time
    #[arg(long, value_name = "COUNT", default_value_t = JOBS_DEFAULT,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(JOBS_MAX)))]
    jobs: u16,
}

/// What was done so far.
#[derive(Debug)]
struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of the files that were found.
    found: AtomicU64,
    failed: AtomicU64,
    bar: ProgressBar,
}

impl Warmup {
    /// Reads all of it.
    pub(crate) fn run(self) -> Result<(), Problem> {
        for path in &self.paths {
            on_a_mount(path)?;
        }
        let began = Instant::now();
        let tally = Tally::new();
        let (found, next) = sync_channel(WAITING_MAX);
        let next = Mutex::new(next);
        let started: io::Result<()> = std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                let reader = std::thread::Builder::new().name("warmup".to_owned());
                reader.spawn_scoped(scope, || read_all(&next, &tally))?;
            }
            self.paths.iter().for_each(|path| find(path, &found, &tally));
            drop(found);
            Ok(())
        });
        started.map_err(|error| Problem::new("start reading", error))?;
        tally.bar.finish_and_clear();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (files, bytes) = (count(&tally.files), HumanBytes(count(&tally.bytes)));
        say(format_args!("read {files} files, {bytes}, in {}", HumanDuration(began.elapsed())));
        match count(&tally.failed) {
            0 => Ok(()),
            failed => Err(Problem::new("read all of it", format!("{failed} failed"))
                .remedy("what was read is in the cache; run it again for the rest")),
        }
    }
}

/// Refuses what is on no mount of this program.
fn on_a_mount(path: &Path) -> Result<(), Problem> {
    let doing = || format!("warm up {}", path.display());
    let mut room = [0; 0];
    match rustix::fs::getxattr(path, ATTRIBUTE, &mut room[..]) {
        Ok(_) => Ok(()),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => {
            Err(Problem::new(doing(), "it is on no mount of Ashlar")
                .remedy("mount the volume first, with `ashlar mount`"))
        }
        Err(error) => Err(Problem::new(doing(), error)),
    }
}

/// Finds files: directories are read one entry after the other, and links are not followed.
fn find(path: &Path, found: &SyncSender<PathBuf>, tally: &Tally) {
    let seen = match std::fs::metadata(path) {
        Ok(seen) => seen,
        Err(error) => return tally.failed(path, &error),
    };
    if !seen.is_dir() {
        return tally.found(path.to_owned(), &seen, found);
    }
    // Of each directory on the way down how far it was read.
    let mut way: Vec<(PathBuf, ReadDir)> = Vec::new();
    let enter = |path: PathBuf, way: &mut Vec<(PathBuf, ReadDir)>| match std::fs::read_dir(&path) {
        Ok(entries) => way.push((path, entries)),
        Err(error) => tally.failed(&path, &error),
    };
    enter(path.to_owned(), &mut way);
    while let Some((path, entries)) = way.last_mut() {
        let entry = match entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                tally.failed(path, &error);
                way.pop();
                continue;
            }
            None => {
                way.pop();
                continue;
            }
        };
        match entry.metadata() {
            // What is mounted in it is another's.
            Ok(below) if below.dev() != seen.dev() => {}
            Ok(below) if below.is_dir() => enter(entry.path(), &mut way),
            Ok(below) if below.is_file() => tally.found(entry.path(), &below, found),
            Ok(_) => {}
            // It has gone since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tally.failed(&entry.path(), &error),
        }
    }
}

/// Reads files until there are no more.
fn read_all(next: &Mutex<Receiver<PathBuf>>, tally: &Tally) {
    let mut piece = vec![0; usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX)];
    loop {
        let path = next.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(path) = path else { return };
        match read(&path, &mut piece, tally) {
            Ok(()) => drop(tally.files.fetch_add(1, Ordering::Relaxed)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tally.failed(&path, &error),
        }
    }
}

fn read(path: &Path, piece: &mut [u8], tally: &Tally) -> io::Result<()> {
    let file = open(path)?;
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = (end - 1) / PIECE_BYTES * PIECE_BYTES;
        let mut at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(piece.len()).min(piece.len());
            match file.read_at(&mut piece[..wanted], at)? {
                // It was cut meanwhile.
                0 => break,
                bytes => at += bytes as u64,
            }
        }
        tally.read(at - start);
        end = start;
    }
    Ok(())
}

/// Opens a file past the kernel's cache, and without its being noted that it was read, if it may be.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let with = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    match with(flags | OFlags::NOATIME) {
        // The file is somebody else's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => with(flags),
        opened => opened,
    }
}

impl Tally {
    fn new() -> Tally {
        let bar = ProgressBar::new(0);
        let line = "{bar:30} {bytes} of {total_bytes}  {bytes_per_sec}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(line) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        let [files, bytes, found, failed] = [0; 4].map(AtomicU64::new);
        Tally { files, bytes, found, failed, bar }
    }

    fn found(&self, path: PathBuf, seen: &Metadata, found: &SyncSender<PathBuf>) {
        let all = self.found.fetch_add(seen.len(), Ordering::Relaxed) + seen.len();
        self.bar.set_length(all);
        // Whoever reads is there as long as there is something to send.
        let _gone = found.send(path);
    }

    fn read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bar.inc(bytes);
        self.bar.set_message(format!("{} files", self.files.load(Ordering::Relaxed)));
    }

    fn failed(&self, path: &Path, error: &io::Error) {
        if self.failed.fetch_add(1, Ordering::Relaxed) < FAILURES_TOLD_MAX {
            self.bar.suspend(|| eprintln!("ashlar: cannot read {}: {error}", path.display()));
        }
    }
}
