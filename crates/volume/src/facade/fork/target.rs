//! Directories of the new bucket, of which some may not be there yet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use namespace::ForkedDirectory;
use record::Ino;

/// A directory of the new bucket.
#[derive(Debug)]
pub(super) struct Target {
    /// The one that it is in; the bucket's own is in none.
    above: Option<(Arc<Target>, ForkedDirectory)>,
    /// Its number, once it is there.
    ino: OnceLock<Ino>,
}

impl Target {
    /// The bucket's directory.
    pub(super) fn bucket(ino: Ino) -> Arc<Target> {
        Arc::new(Target { above: None, ino: OnceLock::from(ino) })
    }

    /// A directory that is to be made in another one.
    pub(super) fn below(above: &Arc<Target>, directory: ForkedDirectory) -> Arc<Target> {
        let above = Some((Arc::clone(above), directory));
        Arc::new(Target { above, ino: OnceLock::new() })
    }

    /// The deepest directory on the way that is known to be there, and those below it, from there
    /// down.
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

    /// What it is made as; nothing for the bucket's own.
    pub(super) fn directory(&self) -> Option<&ForkedDirectory> {
        self.above.as_ref().map(|(_, directory)| directory)
    }

    /// Takes note of the number that it has, and counts it if the fork has made it.
    pub(super) fn set_ino(&self, ino: Ino, made: &AtomicU64) {
        let is_new = self.ino.set(ino).is_ok();
        if is_new && self.directory().is_some_and(|directory| directory.ino == ino) {
            made.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Where something lies that has this name in it, for people: the path from the bucket on.
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
