//! A file system in memory: a baseline for the cost of FUSE itself, and a test subject.
//!
//! `null [--timeout-ms N] [--readers N] MOUNTPOINT` serves in the foreground until it is unmounted,
//! or until SIGINT or SIGTERM, which unmount it lazily. All content is lost at the end. For
//! example, `null /mnt/null &` and then `fio --directory=/mnt/null` measures the protocol alone.

mod content;
mod files;
mod locks;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fuse::{KernelOptions, KernelSession, MountOptions, UnmountMode};

use files::NullFiles;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("null: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command line.
struct Arguments {
    folder: PathBuf,
    timeout: Duration,
    options: KernelOptions,
}

fn arguments() -> Result<Arguments, String> {
    let mut folder = None;
    let mut timeout = Duration::from_mins(1);
    // Not supported: the file system would have to update the mode for access control lists.
    let mut options = KernelOptions { posix_acl: false, ..KernelOptions::default() };
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let mut number = |name: &str| -> Result<u64, String> {
            let value = words.next().and_then(|value| value.into_string().ok());
            let value = value.and_then(|value| value.parse().ok());
            value.ok_or_else(|| format!("{name} takes a number"))
        };
        match word.to_str() {
            Some("--timeout-ms") => timeout = Duration::from_millis(number("--timeout-ms")?),
            Some("--readers") => {
                options.readers = usize::try_from(number("--readers")?).unwrap_or(usize::MAX);
            }
            _ => folder = Some(PathBuf::from(word)),
        }
    }
    let folder = folder.ok_or("usage: null [--timeout-ms N] [--readers N] MOUNTPOINT")?;
    Ok(Arguments { folder, timeout, options })
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { folder, timeout, options } = arguments()?;
    let mut how = MountOptions::new("null", "null");
    how.allow_other = true;
    let device = fuse::mount(&folder, &how)
        .map_err(|error| format!("cannot mount on {}: {error}", folder.display()))?;
    let session = KernelSession::start(device, options, Arc::new(NullFiles::new(timeout)))?;
    if let Err(error) = fuse::raise_read_ahead(&folder, 1024) {
        eprintln!("null: the kernel reads ahead no further than usual: {error}");
    }
    let mounted = folder.clone();
    ctrlc::set_handler(move || {
        if let Err(error) = fuse::unmount(&mounted, UnmountMode::Lazy) {
            eprintln!("null: cannot unmount {}: {error}", mounted.display());
        }
    })?;
    eprintln!("null: mounted on {}: {:?}", folder.display(), session.negotiated());
    session.join();
    eprintln!("null: {:?}", session.counters());
    Ok(())
}
