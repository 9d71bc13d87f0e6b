//! The blocking part of a block folder: each function is a sequence of file system calls.
//!
//! For example, `put` writes a temporary file, syncs it, links it to the block's name, removes the
//! temporary name, and syncs the folder.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use record::{BlockId, Nonce};

use super::private;
use crate::store::{READING_MARK, REMOVING_MARK, SETTING_MARK, check_found_mark, compare_marks};
use crate::{BlockError, BlockErrorKind, BlockPage, MARK_BYTES_MAX, MARK_NAME, place};

/// The folder of temporary files. No session has a name like this.
pub(super) const TEMPORARY: &str = "tmp";

/// The folder that a probe creates and removes. No session has a name like this, and no other
/// program has such a folder.
pub(super) const PROBE: &str = ".ashlar-probe";

/// The most times that a put starts again because a delete removed its folder or an opening process
/// removed its file.
const PUT_TRIES_MAX: u32 = 16;

/// The most group folders (of up to 4,096 blocks each) that are remembered as durable. Forgetting
/// one costs two syncs.
const DURABLE_FOLDERS_MAX: usize = 1_024;

/// A block folder.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    /// Group folders (of up to 4,096 blocks each) that are known to be durable in their parents.
    /// Locked while folders are created or removed, so that the two do not interfere.
    durable: Mutex<HashSet<PathBuf>>,
    next_temporary: AtomicU64,
}

impl Files {
    /// Creates the folder if it is missing, removes unfinished files, and restricts the permissions
    /// of files from earlier releases.
    pub(super) fn open(root: PathBuf) -> Result<Files, BlockError> {
        let files = Files { root, durable: Mutex::default(), next_temporary: AtomicU64::default() };
        let temporary = files.root.join(TEMPORARY);
        let opened = private::make_folders(&temporary).and_then(|()| {
            for entry in fs::read_dir(&temporary)? {
                ignore_not_found(fs::remove_file(entry?.path()))?;
            }
            sync_folder(&files.root)?;
            // A relative path of one component has an empty parent, which is the current folder.
            match files.root.parent() {
                Some(parent) if parent == Path::new("") => sync_folder(Path::new(".")),
                Some(parent) => sync_folder(parent),
                None => Ok(()),
            }
        });
        opened.map_err(|error| files.failed("opening the blocks", error))?;
        files.restrict_to_owner()?;
        Ok(files)
    }

    /// Restricts the files and folders that contain blocks to their owner. Blocks are inside their
    /// session's folder, so its mode is enough.
    fn restrict_to_owner(&self) -> Result<(), BlockError> {
        let sessions = self.sessions()?.into_iter().map(|session| self.session(session));
        let own = [self.root.join(TEMPORARY), self.root.join(MARK_NAME)];
        private::restrict_to_owner(&self.root, own.into_iter().chain(sessions));
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Stores a block. Fails with `Conflict` if other bytes have its name.
    pub(super) fn put(&self, id: BlockId, bytes: &[u8]) -> Result<(), BlockError> {
        let doing = || format!("writing block {id}");
        for _ in 0..PUT_TRIES_MAX {
            match self.try_put(id, bytes) {
                Ok(Put::Done) => return Ok(()),
                Ok(Put::Taken) => {
                    return Err(BlockError::new(BlockErrorKind::Conflict, doing()));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => self.check_present(&doing())?,
                Err(error) => return Err(self.failed(&doing(), error)),
            }
        }
        let error = io::Error::other("its folder was removed at each try");
        Err(self.failed(&doing(), error))
    }

    /// Tries once to store a block. Fails with `NotFound` if a folder or the temporary file was
    /// removed meanwhile.
    fn try_put(&self, id: BlockId, bytes: &[u8]) -> io::Result<Put> {
        let group = self.group(id);
        let path = group.join(id.to_string());
        // This step comes first because it fails if the folder has vanished, for example after an
        // unmount. So no folder is created in its place.
        let temporary = self.write_temporary(bytes)?;
        let linked = self.make_group(id, &group).and_then(|()| fs::hard_link(&temporary, &path));
        // A temporary file that cannot be removed now is removed when the folder is opened next.
        let _ = fs::remove_file(&temporary);
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::read(&path)? != bytes {
                    return Ok(Put::Taken);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.durable().remove(&group);
                return Err(error);
            }
            linked => linked?,
        }
        // Synced even if the name existed, because its writer may not have synced it yet.
        sync_folder(&group)?;
        Ok(Put::Done)
    }

    /// Writes the bytes to a new synced file under a unique name.
    fn write_temporary(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        let (path, mut file) = loop {
            let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", std::process::id());
            let path = self.root.join(TEMPORARY).join(name);
            match private::owner_only(&mut OpenOptions::new()).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // A full disk must not stay full because of unfinished files.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(path)
    }

    /// Creates the folder of the group (up to 4,096 blocks of a session) to which a block belongs,
    /// and makes it durable in its parents.
    fn make_group(&self, id: BlockId, group: &Path) -> io::Result<()> {
        let mut durable = self.durable();
        if !durable.contains(group) {
            let session = self.session(id.session());
            ignore_exists(private::make_folder(&session))?;
            ignore_exists(private::make_folder(group))?;
            sync_folder(&self.root)?;
            sync_folder(&session)?;
            // The limit bounds the memory. Forgotten folders are only synced once more.
            if durable.len() >= DURABLE_FOLDERS_MAX {
                durable.clear();
            }
            durable.insert(group.to_owned());
        }
        Ok(())
    }

    pub(super) fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        let doing = || format!("reading block {id}");
        let mut file = match File::open(self.path(id)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.check_present(&doing())?;
                return Err(BlockError::new(BlockErrorKind::NotFound, doing()));
            }
            Err(error) => return Err(self.failed(&doing(), error)),
        };
        let read = || -> io::Result<Vec<u8>> {
            // Cut at the end of the file, as the contract requires.
            let end = bytes.end.min(file.metadata()?.len());
            let length = end.saturating_sub(bytes.start);
            let mut found = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
            if length > 0 {
                file.seek(SeekFrom::Start(bytes.start))?;
                file.take(length).read_to_end(&mut found)?;
            }
            Ok(found)
        };
        read().map(Bytes::from).map_err(|error| self.failed(&doing(), error))
    }

    pub(super) fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        let doing = format!("looking for block {id}");
        match fs::metadata(self.path(id)) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.check_present(&doing)?;
                Ok(None)
            }
            Err(error) => Err(self.failed(&doing, error)),
        }
    }

    pub(super) fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        let doing = format!("deleting block {id}");
        let path = self.path(id);
        ignore_not_found(fs::remove_file(&path)).map_err(|error| self.failed(&doing, error))?;
        // A missing file may mean that the disk is not mounted, and then the block may exist.
        self.check_present(&doing)?;
        self.prune(id);
        Ok(())
    }

    /// Removes the folders that a delete left empty. A folder that is not empty stays; that is the
    /// usual case and no error.
    fn prune(&self, id: BlockId) {
        let group = self.group(id);
        let mut durable = self.durable();
        // `remove_dir` fails on a folder with blocks, so a concurrent put is not affected.
        if fs::remove_dir(&group).is_ok() {
            durable.remove(&group);
            let _ = fs::remove_dir(self.session(id.session()));
        }
    }

    pub(super) fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        let doing = "listing the sessions";
        self.check_present(doing)?;
        let names = names(&self.root).map_err(|error| self.failed(doing, error))?;
        // Other names in the folder, such as `lost+found`, are not sessions.
        let mut sessions: Vec<Nonce> =
            names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        sessions.sort_unstable();
        Ok(sessions)
    }

    /// Lists one group of a session, a folder of up to 4,096 blocks, which is one page. `resume` is
    /// the value from the page before.
    pub(super) fn list(
        &self,
        session: Nonce,
        resume: Option<&str>,
    ) -> Result<BlockPage, BlockError> {
        let doing = format!("listing the blocks of session {session}");
        if resume.is_some_and(|after| !place::is_group(after)) {
            let error = format!("{resume:?} is not the end of a page");
            return Err(BlockError::with_cause(BlockErrorKind::Refused, doing, error));
        }
        self.check_present(&doing)?;
        let folder = self.session(session);
        let mut groups = Vec::new();
        for name in names(&folder).map_err(|error| self.failed(&doing, error))? {
            match name.to_str() {
                Some(name) if place::is_group(name) => groups.push(name.to_owned()),
                // A foreign name may hide a lost block, so the listing fails instead of skipping
                // it.
                _ => return Err(stray(&doing, &folder, &name)),
            }
        }
        groups.sort_unstable();
        // The resume position is the name of the last group, so groups that were added or removed
        // meanwhile do not shift the pages.
        let mut rest = groups.into_iter().filter(|group| Some(group.as_str()) > resume);
        let Some(group) = rest.next() else {
            return Ok(BlockPage::default());
        };
        let blocks = self.list_group(&doing, session, &folder.join(&group), &group)?;
        let resume = rest.next().map(|_| group);
        Ok(BlockPage { blocks, resume })
    }

    fn list_group(
        &self,
        doing: &str,
        session: Nonce,
        folder: &Path,
        group: &str,
    ) -> Result<Vec<(BlockId, u64)>, BlockError> {
        let mut blocks = Vec::new();
        for name in names(folder).map_err(|error| self.failed(doing, error))? {
            let id = name.to_str().and_then(|name| place::parse(session, group, name));
            let Some(id) = id else {
                return Err(stray(doing, folder, &name));
            };
            match fs::metadata(folder.join(&name)) {
                Ok(found) => blocks.push((id, found.len())),
                // Deleted after its name was read.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(self.failed(doing, error)),
            }
        }
        blocks.sort_unstable();
        Ok(blocks)
    }

    pub(super) fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        let file = match File::open(self.root.join(MARK_NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.check_present(READING_MARK)?;
                return Ok(None);
            }
            Err(error) => return Err(self.failed(READING_MARK, error)),
        };
        let mut found = Vec::new();
        // One byte more than permitted, to detect a mark that is too long.
        let read = file.take(MARK_BYTES_MAX as u64 + 1).read_to_end(&mut found);
        read.map_err(|error| self.failed(READING_MARK, error))?;
        check_found_mark(found.into()).map(Some)
    }

    pub(super) fn set_mark(&self, mark: &[u8]) -> Result<(), BlockError> {
        for _ in 0..PUT_TRIES_MAX {
            match self.try_set_mark(mark) {
                Ok(()) => {
                    // Read back in either case, because it may be another process's mark.
                    if let Some(standing) = self.mark()? {
                        return compare_marks(&standing, mark);
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.check_present(SETTING_MARK)?;
                }
                Err(error) => return Err(self.failed(SETTING_MARK, error)),
            }
        }
        Err(self.failed(SETTING_MARK, io::Error::other("the mark was removed at each try")))
    }

    pub(super) fn remove_mark(&self, mark: &[u8]) -> Result<(), BlockError> {
        if self.mark()?.is_none_or(|standing| standing != mark) {
            return Ok(());
        }
        let removed = ignore_not_found(fs::remove_file(self.root.join(MARK_NAME)));
        let durable = removed.and_then(|()| sync_folder(&self.root));
        durable.map_err(|error| self.failed(REMOVING_MARK, error))
    }

    /// Links the mark (the file that names the blocks' owner) to its name if that is free. Fails
    /// with `NotFound` if the folder or the temporary file was removed meanwhile.
    fn try_set_mark(&self, mark: &[u8]) -> io::Result<()> {
        let temporary = self.write_temporary(mark)?;
        let linked = fs::hard_link(&temporary, self.root.join(MARK_NAME));
        // A temporary file that cannot be removed now is removed when the folder is opened next.
        let _ = fs::remove_file(&temporary);
        ignore_exists(linked)?;
        // Synced even if the name existed, because its writer may not have synced it yet.
        sync_folder(&self.root)
    }

    /// Writes, links, reads and removes a small file. Then creates and removes a folder beside
    /// those of the sessions, because a put does so and the permissions there can differ from those
    /// of `tmp`.
    pub(super) fn probe(&self) -> Result<(), BlockError> {
        let probed = self.write_temporary(b"probe").and_then(|path| {
            // The probe also makes a hard link, because puts need them and some file systems have
            // none.
            let linked = path.with_extension("probe");
            let tried = match fs::hard_link(&path, &linked) {
                Ok(()) => fs::read(&linked),
                // The file could be created in the same folder, so it is the link that is not
                // permitted.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    Err(io::Error::new(ErrorKind::Unsupported, error))
                }
                Err(error) => Err(error),
            };
            ignore_not_found(fs::remove_file(&linked))?;
            ignore_not_found(fs::remove_file(&path))?;
            let read = tried?;
            // Another process may create or remove the same folder now.
            let beside = self.root.join(PROBE);
            ignore_exists(private::make_folder(&beside))?;
            ignore_not_found(fs::remove_dir(&beside))?;
            Ok(read)
        });
        match probed {
            Ok(_) => Ok(()),
            // Another process opened the folder and removed the probe.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.check_present("writing a probe")
            }
            Err(error) => Err(self.failed("writing a probe", error)),
        }
    }

    fn session(&self, session: Nonce) -> PathBuf {
        self.root.join(session.to_string())
    }

    fn group(&self, id: BlockId) -> PathBuf {
        self.session(id.session()).join(place::group(id))
    }

    fn path(&self, id: BlockId) -> PathBuf {
        self.root.join(place::name(id))
    }

    /// Each statement leaves the set consistent, so a poisoned lock is still usable.
    fn durable(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails unless this is a block folder now. An empty mount point is none, and blocks that are
    /// missing there may well exist.
    fn check_present(&self, doing: &str) -> Result<(), BlockError> {
        match fs::metadata(self.root.join(TEMPORARY)) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(doing, error)),
        }
    }

    pub(super) fn failed(&self, doing: &str, error: io::Error) -> BlockError {
        // The advice becomes part of the text that operators read in the log and in `status`.
        let (kind, advice) = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                (BlockErrorKind::Full, "which is full: free space on its file system")
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => (
                BlockErrorKind::Refused,
                "which this user may not use: change its permissions or choose another folder",
            ),
            ErrorKind::Unsupported => (
                BlockErrorKind::Refused,
                "whose file system has no hard links: choose a folder on another one",
            ),
            ErrorKind::NotADirectory => {
                (BlockErrorKind::Refused, "which is not a folder: choose another path")
            }
            ErrorKind::NotFound => {
                (BlockErrorKind::Unavailable, "which is no longer there: is its disk mounted?")
            }
            _ => (BlockErrorKind::Unavailable, "which does not answer as it should"),
        };
        let doing = format!("{doing} in folder {}, {advice}", self.root.display());
        BlockError::with_cause(kind, doing, error)
    }
}

/// The result of the put of a block as a file.
enum Put {
    Done,
    /// Other bytes have the name.
    Taken,
}

/// Returns the error for a name among blocks that is not a block's. A listing that ignored it would
/// look complete without being so.
fn stray(doing: &str, folder: &Path, name: &OsStr) -> BlockError {
    let error = format!("{} is not a block: remove it", folder.join(name).display());
    BlockError::with_cause(BlockErrorKind::Corrupt, doing, error)
}

/// Returns the names in a folder; none if the folder does not exist.
fn names(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn ignore_exists(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
