//! `ashlar warmup`: reads files of a mount, so that the process of the mount has them in its cache.
//!
//! The files are read with `O_DIRECT`: the kernel would answer reads of cached pages itself, and
//! new pages would evict others. Each file is read from its end to its start, because the mount
//! answers sequential reads with long read-aheads, which the memory cache does not keep. For
//! example, `ashlar warmup /mnt/models` reads all files below that directory.

use std::fs::{File, Metadata, OpenOptions, ReadDir};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use mountd::REPORT_ATTRIBUTE;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::output::say;
use crate::safe_name::safe_name;
use crate::table::{Cell, Printing, print_properties};
use problem::Problem;

/// The default and the limit of files that are read concurrently.
const JOBS_DEFAULT: u16 = 8;
const JOBS_MAX: u16 = 64;

/// The limit of files that are found and not read yet.
const PENDING_FILES_MAX: usize = 1_024;

/// The bytes of one read.
const PIECE_BYTES: u64 = 1 << 20;

/// The limit of error messages. Further failures are only counted.
const FAILURES_PRINTED_MAX: u64 = 10;

/// The interval between refreshes of the progress bar.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Warmup {
    /// Files and directories on a mount. All files below a directory are read
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The number of files to read concurrently
    #[arg(long, value_name = "COUNT", default_value_t = JOBS_DEFAULT,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(JOBS_MAX)))]
    jobs: u16,
    #[command(flatten)]
    printing: Printing,
}

/// The progress of the command.
#[derive(Debug)]
struct Tally {
    /// Files that were read.
    files: AtomicU64,
    /// Bytes that were read.
    bytes: AtomicU64,
    /// The total size in bytes of the files that were found.
    found_bytes: AtomicU64,
    /// Files and directories that could not be read.
    failed: AtomicU64,
    bar: ProgressBar,
}

impl Warmup {
    /// Reads all files: this thread finds them, and `jobs` threads read them. Fails if any file
    /// failed.
    pub(crate) fn run(self) -> Result<(), Problem> {
        for path in &self.paths {
            on_a_mount(path)?;
        }
        let began = Instant::now();
        let tally = Tally::new();
        // The channel is bounded, so that a tree with millions of files does not fill the memory.
        let (found, next) = sync_channel(PENDING_FILES_MAX);
        let next = Mutex::new(next);
        let started: io::Result<()> = std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                let reader = std::thread::Builder::new().name("warmup".to_owned());
                reader.spawn_scoped(scope, || read_all(&next, &tally))?;
            }
            self.paths.iter().for_each(|path| find(path, &found, &tally));
            // Without a sender, the readers end after the last file.
            drop(found);
            Ok(())
        });
        started.map_err(|error| Problem::new("start a thread", error))?;
        tally.bar.finish_and_clear();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (files, bytes, elapsed) = (count(&tally.files), count(&tally.bytes), began.elapsed());
        if self.printing.is_json() {
            let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            let properties = vec![
                ("files", Cell::Count(files)),
                ("bytes", Cell::Bytes(bytes)),
                ("failed", Cell::Count(count(&tally.failed))),
                ("milliseconds", Cell::Count(milliseconds)),
            ];
            print_properties(&properties, self.printing);
        } else {
            let (bytes, time) = (HumanBytes(bytes), HumanDuration(elapsed));
            say(format_args!("read {files} files, {bytes}, in {time}"));
        }
        match count(&tally.failed) {
            0 => Ok(()),
            failed => Err(Problem::new("read all files", format!("{failed} failed"))
                .remedy("the others are in the cache; run the command again for the rest")),
        }
    }
}

/// Fails if a path is not on a mount of this program.
fn on_a_mount(path: &Path) -> Result<(), Problem> {
    let doing = || format!("warm up {}", safe_name(path.as_os_str().as_bytes()));
    let mut buffer = [0; 0];
    // Only mounts of this program have the attribute.
    match rustix::fs::getxattr(path, REPORT_ATTRIBUTE, &mut buffer[..]) {
        Ok(_) => Ok(()),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => {
            Err(Problem::new(doing(), "it is not on a mount of Ashlar")
                .remedy("mount the volume first, with `ashlar mount`"))
        }
        Err(error) => Err(Problem::new(doing(), error)),
    }
}

/// Sends the files at or below `path` to the readers. Symbolic links below it are not followed.
fn find(path: &Path, found: &SyncSender<PathBuf>, tally: &Tally) {
    let seen = match std::fs::metadata(path) {
        Ok(seen) => seen,
        Err(error) => return tally.failed(path, &error),
    };
    if !seen.is_dir() {
        return tally.found(path.to_owned(), &seen, found);
    }
    // The open directories from `path` down to the current one. A directory is read entry by entry,
    // so memory does not grow with its size.
    let mut stack: Vec<(PathBuf, ReadDir)> = Vec::new();
    let enter = |path: PathBuf, stack: &mut Vec<(PathBuf, ReadDir)>| match std::fs::read_dir(&path)
    {
        Ok(entries) => stack.push((path, entries)),
        Err(error) => tally.failed(&path, &error),
    };
    enter(path.to_owned(), &mut stack);
    while let Some((path, entries)) = stack.last_mut() {
        let entry = match entries.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                tally.failed(path, &error);
                stack.pop();
                continue;
            }
            None => {
                stack.pop();
                continue;
            }
        };
        match entry.metadata() {
            // Another file system is mounted there.
            Ok(below) if below.dev() != seen.dev() => {}
            Ok(below) if below.is_dir() => enter(entry.path(), &mut stack),
            Ok(below) if below.is_file() => tally.found(entry.path(), &below, found),
            Ok(_) => {}
            // It was removed after the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tally.failed(&entry.path(), &error),
        }
    }
}

/// Reads files until the finder has sent all.
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

/// Reads a file from its end to its start, in aligned pieces.
fn read(path: &Path, piece: &mut [u8], tally: &Tally) -> io::Result<()> {
    let file = open(path)?;
    let mut end = file.metadata()?.len();
    // Pieces are aligned, so that each read asks the mount for whole pages of its cache.
    while end > 0 {
        let start = (end - 1) / PIECE_BYTES * PIECE_BYTES;
        let mut at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(piece.len()).min(piece.len());
            match file.read_at(&mut piece[..wanted], at)? {
                // Another program truncated the file.
                0 => break,
                bytes => at += bytes as u64,
            }
        }
        tally.read(at - start);
        end = start;
    }
    Ok(())
}

/// Opens a file for reads that bypass the kernel's page cache, and that do not update the access
/// time if this user may do that.
fn open(path: &Path) -> io::Result<File> {
    // Without blocking, because the file may have been replaced by a FIFO, whose open waits for a
    // writer.
    let flags = OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let with = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    match with(flags | OFlags::NOATIME) {
        // O_NOATIME is for the file's owner and root.
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
        let [files, bytes, found_bytes, failed] = [0; 4].map(AtomicU64::new);
        Tally { files, bytes, found_bytes, failed, bar }
    }

    /// Counts a file, and sends it to the readers.
    fn found(&self, path: PathBuf, seen: &Metadata, found: &SyncSender<PathBuf>) {
        let all = self.found_bytes.fetch_add(seen.len(), Ordering::Relaxed) + seen.len();
        self.bar.set_length(all);
        // Cannot fail: the readers end after this sender is dropped.
        let _gone = found.send(path);
    }

    fn read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bar.inc(bytes);
        self.bar.set_message(format!("{} files", self.files.load(Ordering::Relaxed)));
    }

    /// Counts a failure, and prints the first ones.
    fn failed(&self, path: &Path, error: &io::Error) {
        if self.failed.fetch_add(1, Ordering::Relaxed) < FAILURES_PRINTED_MAX {
            let name = safe_name(path.as_os_str().as_bytes());
            self.bar.suspend(|| eprintln!("ashlar: cannot read {name}: {error}"));
        }
    }
}
