//! Directories of the new bucket. Some of them may not exist yet.
//!
//! For example, the source has `a/b/c/file`. The plan of `file` creates `a`, `b` and `c`, if no
//! earlier plan has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use namespace::ForkedDirectory;
use record::Ino;

/// A directory of the new bucket of a fork, which may not exist yet.
#[derive(Debug)]
pub(super) struct Target {
    /// The parent and the parameters of its creation; `None` for the bucket's own directory.
    above: Option<(Arc<Target>, ForkedDirectory)>,
    /// The inode number, once the directory exists.
    ino: OnceLock<Ino>,
}

impl Target {
    /// Returns the new bucket's own directory, which exists.
    pub(super) fn bucket(ino: Ino) -> Arc<Target> {
        Arc::new(Target { above: None, ino: OnceLock::from(ino) })
    }

    /// Returns a directory that is missing below `above`, with the parameters of its creation.
    pub(super) fn below(above: &Arc<Target>, directory: ForkedDirectory) -> Arc<Target> {
        let above = Some((Arc::clone(above), directory));
        Arc::new(Target { above, ino: OnceLock::new() })
    }

    /// Returns the inode number of the deepest directory on the path to this one that is known to
    /// exist, and the ones below it, from the top down. These may be missing.
    pub(super) fn missing_directories(&self) -> (Ino, Vec<&Target>) {
        let (mut at, mut missing) = (self, Vec::new());
        loop {
            match (at.ino.get(), &at.above) {
                (Some(ino), _) => {
                    missing.reverse();
                    return (*ino, missing);
                }
                (None, Some((above, _))) => {
                    missing.push(at);
                    at = above;
                }
                (None, None) => unreachable!("the bucket's directory is there"),
            }
        }
    }

    /// Returns the parameters of the creation; `None` for the bucket's own directory.
    pub(super) fn directory(&self) -> Option<&ForkedDirectory> {
        self.above.as_ref().map(|(_, directory)| directory)
    }

    /// Sets the inode number that the directory has, and adds 1 to `made` if the fork has created
    /// it. It has another number than planned if another client has created it.
    pub(super) fn set_ino(&self, ino: Ino, made: &AtomicU64) {
        let is_new = self.ino.set(ino).is_ok();
        if is_new && self.directory().is_some_and(|directory| directory.ino == ino) {
            made.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the path of `name` in this directory, from the bucket on, for reports.
    pub(super) fn path_of(&self, name: &[u8]) -> String {
        let (mut at, mut names) = (self, vec![name]);
        while let Some((above, directory)) = &at.above {
            names.push(&directory.name);
            at = above;
        }
        names.reverse();
        String::from_utf8_lossy(&names.join(&b'/')).into_owned()
    }
}
