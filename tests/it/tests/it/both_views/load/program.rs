//! A program that reads, writes and renames files on a mount.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{KEYS, KernelCache, Notes, ViewPair, file_name, key_of};
use crate::both_views::values;
use crate::history::register::{Invocation, Response};
use crate::history::{Call, Value};
use crate::load::Progress;

/// A program on a mount.
pub(super) struct Program<'a> {
    pub(super) notes: Notes<'a>,
    pub(super) place: &'a ViewPair,
    /// The locks of each file: during its creation, and during a write in place.
    pub(super) locks: (&'a [RwLock<()>], &'a [RwLock<()>]),
    pub(super) kernel_cache: KernelCache,
    /// True if the process of the mount is killed. Then an open that is under way may fail with
    /// `ESTALE`, because the next process does not know that the kernel has tried before.
    pub(super) may_be_killed: bool,
}

/// The way in which a program publishes a file that it has written under another name.
#[derive(Clone, Copy)]
enum Publication {
    Rename,
    RenameIfAbsent,
    Link,
}

impl Program<'_> {
    pub(super) fn until(&mut self, stop: &AtomicBool, progress: &Progress) {
        while !stop.load(Ordering::Relaxed) {
            self.once();
            progress.count_response();
        }
    }

    fn once(&mut self) {
        let key = self.notes.key();
        match self.notes.below(100) {
            0..26 => self.read(key),
            26..38 => self.stat(key),
            38..41 => self.names(),
            41..56 => self.replace(key, Publication::Rename),
            56..60 => self.replace(key, Publication::RenameIfAbsent),
            60..64 => self.replace(key, Publication::Link),
            64..82 => self.fill(key),
            82..88 => self.create(key),
            88..94 => self.unlink(key),
            _ => self.take(key),
        }
    }

    fn path(&self, key: usize) -> PathBuf {
        self.place.folder.join("hot").join(file_name(key))
    }

    /// Returns a name that only this program uses.
    fn own(&mut self) -> PathBuf {
        let folder = if self.notes.below(2) == 0 { "aside" } else { "hot" };
        self.place.folder.join(folder).join(format!("own-{}", self.notes.worker.name))
    }

    pub(super) fn read(&mut self, key: usize) {
        let path = self.path(key);
        let _shared = self.locks.1[key].read().unwrap_or_else(PoisonError::into_inner);
        let began = self.notes.now();
        let found = fs::read(&path);
        if self.may_be_killed && found.as_ref().is_err_and(is_stale) {
            return self.notes.count("read, stale");
        }
        let found = if_there(found, &path);
        let ended = self.notes.now();
        let value = found.map(|found| values::of_content(&found, &shown(&path)));
        // Each open verifies the content of the file with the gateway, so only an absence can be
        // cached.
        self.note(key, (Invocation::Get, Response::Found(value)), value.is_none(), (began, ended));
        self.notes.count("read");
    }

    pub(super) fn stat(&mut self, key: usize) {
        let path = self.path(key);
        let _shared = self.locks.1[key].read().unwrap_or_else(PoisonError::into_inner);
        let began = self.notes.now();
        let found = if_there(fs::metadata(&path), &path);
        let ended = self.notes.now();
        let value = found.map(|found| values::of_length(found.len()));
        self.note(key, (Invocation::Get, Response::Found(value)), true, (began, ended));
        self.notes.count("stat");
    }

    /// Records a call and its outcome. `by_kernel` is true if the kernel may have answered from its
    /// cache.
    fn note(
        &mut self,
        key: usize,
        (invocation, response): (Invocation, Response),
        by_kernel: bool,
        times: (u64, u64),
    ) {
        let (began, ended) = times;
        match self.kernel_cache {
            KernelCache::UntilAcknowledged if by_kernel => {
                self.notes.worker.cached.push((key, Call::new(invocation, response, began, ended)));
            }
            // The result may be outdated, so it proves nothing.
            KernelCache::Pushed if by_kernel => {}
            _ => self.notes.note(key, invocation, response, began, ended),
        }
    }

    pub(super) fn names(&mut self) {
        let folder = self.place.folder.join("hot");
        let began = self.notes.now();
        let entries = fs::read_dir(&folder).expect("a directory can be read");
        let names: Vec<String> = entries
            .map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned())
            .collect();
        let ended = self.notes.now();
        let mut response = vec![Response::Missing; KEYS];
        for name in names.iter().filter(|name| !name.starts_with("own-")) {
            let was = std::mem::replace(&mut response[key_of(name)], Response::Refused);
            assert_eq!(was, Response::Missing, "{name} is twice in {names:?}");
        }
        for (key, response) in response.into_iter().enumerate() {
            self.notes.worker.calls.push((key, Call::new(Invocation::Get, response, began, ended)));
        }
        self.notes.count("names");
    }

    /// Writes a file under another name, then publishes it under the shared name.
    fn replace(&mut self, key: usize, publication: Publication) {
        let Some(value) = self.notes.value() else { return };
        let (own, path) = (self.own(), self.path(key));
        let written = OpenOptions::new().write(true).create_new(true).open(&own);
        let written = written.and_then(|file| self.write(file, value));
        written.unwrap_or_else(|error| panic!("{}: {error}", shown(&own)));
        let began = self.notes.now();
        let (what, invocation, named) = match publication {
            Publication::Rename => ("replace", Invocation::Put(value), fs::rename(&own, &path)),
            Publication::RenameIfAbsent => {
                let named = renameat_with(CWD, &own, CWD, &path, RenameFlags::NOREPLACE);
                (
                    "replace if absent",
                    Invocation::PutIfAbsent(value),
                    named.map_err(io::Error::from),
                )
            }
            Publication::Link => {
                ("link", Invocation::PutIfAbsent(value), fs::hard_link(&own, &path))
            }
        };
        let ended = self.notes.now();
        let response = match named {
            Ok(()) => Response::Done,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Response::Refused,
            Err(error) => panic!("{what} {}: {error}", shown(&path)),
        };
        self.note(key, (invocation, response), response == Response::Refused, (began, ended));
        self.notes.count(what);
        if response == Response::Refused || what == "link" {
            fs::remove_file(&own).unwrap_or_else(|error| panic!("{}: {error}", shown(&own)));
        }
    }

    /// Writes the whole content and closes the file.
    fn write(&mut self, mut file: fs::File, value: Value) -> io::Result<()> {
        file.write_all(&values::content(value))?;
        if self.notes.below(3) == 0 { file.sync_all() } else { Ok(()) }
    }

    /// Overwrites the existing file in place.
    fn fill(&mut self, key: usize) {
        let Some(value) = self.notes.value() else { return };
        let path = self.path(key);
        let _alone = self.locks.1[key].write().unwrap_or_else(PoisonError::into_inner);
        let _not_made = self.locks.0[key].read().unwrap_or_else(PoisonError::into_inner);
        let began = self.notes.now();
        let file = OpenOptions::new().write(true).truncate(true).open(&path);
        let opened = self.notes.now();
        if self.may_be_killed && file.as_ref().is_err_and(is_stale) {
            return self.notes.count("fill, stale");
        }
        let Some(file) = if_there(file, &path) else {
            self.note(key, (Invocation::Open(value), Response::Missing), true, (began, opened));
            return self.notes.count("fill, absent");
        };
        self.write(file, value).unwrap_or_else(|error| panic!("{}: {error}", shown(&path)));
        let ended = self.notes.now();
        self.notes.note(key, Invocation::Open(value), Response::Done, began, opened);
        self.notes.note(key, Invocation::Truncate(value), Response::Done, began, ended);
        self.notes.note(key, Invocation::Write(value), Response::Done, began, ended);
        self.notes.count("fill");
    }

    /// Creates the file and writes into it.
    fn create(&mut self, key: usize) {
        let Some(value) = self.notes.value() else { return };
        let path = self.path(key);
        let _alone = self.locks.1[key].write().unwrap_or_else(PoisonError::into_inner);
        let _not_filled = self.locks.0[key].write().unwrap_or_else(PoisonError::into_inner);
        let began = self.notes.now();
        let opened = OpenOptions::new().write(true).create_new(true).open(&path);
        let made = self.notes.now();
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.note(key, (Invocation::Create(value), Response::Refused), true, (began, made));
                return self.notes.count("create, there");
            }
            Err(error) => panic!("create {}: {error}", shown(&path)),
        };
        self.write(file, value).unwrap_or_else(|error| panic!("{}: {error}", shown(&path)));
        let ended = self.notes.now();
        self.notes.note(key, Invocation::Create(value), Response::Done, began, made);
        self.notes.note(key, Invocation::Write(value), Response::Done, began, ended);
        self.notes.count("create");
    }

    fn unlink(&mut self, key: usize) {
        let path = self.path(key);
        let began = self.notes.now();
        let removed = if_there(fs::remove_file(&path), &path);
        self.removed(key, removed.is_some(), began);
    }

    /// Renames the file to a private name.
    fn take(&mut self, key: usize) {
        let (path, own) = (self.path(key), self.own());
        let began = self.notes.now();
        let taken = if_there(fs::rename(&path, &own), &path);
        self.removed(key, taken.is_some(), began);
        if taken.is_some() {
            // Another program may still write to it.
            let removed = fs::remove_file(&own);
            removed.unwrap_or_else(|error| panic!("{}: {error}", shown(&own)));
        }
    }

    fn removed(&mut self, key: usize, was_there: bool, began: u64) {
        let ended = self.notes.now();
        let response = if was_there { Response::Done } else { Response::Missing };
        self.note(key, (Invocation::Remove, response), !was_there, (began, ended));
        self.notes.count(if was_there { "remove" } else { "remove, absent" });
    }
}

/// Returns the result of a call; `None` if the file does not exist.
#[track_caller]
fn if_there<T>(found: io::Result<T>, path: &Path) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", shown(path)),
    }
}

fn is_stale(error: &io::Error) -> bool {
    error.kind() == ErrorKind::StaleNetworkFileHandle
}

/// Returns the end of a path: the mount and the file.
fn shown(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts[parts.len().saturating_sub(4)..].join("/")
}
