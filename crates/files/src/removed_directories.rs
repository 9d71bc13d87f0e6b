//! Directories that were removed while programs use them, as an open directory or as the current
//! one.
//!
//! S3 removes an implied directory together with its last key, and another mount does not know the
//! programs of this one. A program then gets the results of a local disk: attributes with 0 links,
//! no names, and `ENOENT` when it creates or looks up a name in the directory. For example, a shell
//! in `a/b/` runs `ls` after an S3 client deleted `a/b/c`.

use record::Ino;
use rustix::io::Errno;
use volume::FoundNode;

use crate::attributes::NodeStat;
use crate::files::Files;
use crate::stale_retries::StaleReply;

impl Files {
    /// Remembers the attributes of a directory that a program has seen, for the case that the
    /// directory is removed while the program uses it.
    pub(crate) fn remember_directory(&self, node: &FoundNode) {
        self.seen_directories.note(&NodeStat::of(node));
    }

    /// Returns true if a program has seen this directory and its record does not exist any more.
    pub async fn is_removed_directory(&self, ino: Ino) -> bool {
        self.seen_directories.removed(ino).is_some()
            && self.retry_until_deadline(|| self.volume.find_node(ino)).await.err()
                == Some(Errno::STALE)
    }

    /// Returns the error for an operation on a name in a removed directory. If the kernel may have
    /// old names in its cache (`names_may_be_old`), the first error is `ESTALE`: the kernel then
    /// looks up the path again, where another directory may be. The retry of the same thread gets
    /// `ENOENT`.
    pub fn error_in_removed(&self, ino: Ino, names_may_be_old: bool) -> Errno {
        let stale_reply = self.stale_retries.take(self.thread);
        if !names_may_be_old || stale_reply.is_some_and(|stale_reply| stale_reply.ino == ino) {
            return Errno::NOENT;
        }
        self.stale_retries.insert(self.thread, StaleReply::of(ino, std::time::Instant::now()));
        Errno::STALE
    }
}
