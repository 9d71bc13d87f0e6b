//! Directories that were removed while programs hold them: as their current directory, or open.
//!
//! S3 removes a directory that keys implied with its last key, and another mount knows no program of
//! this one. Such a program gets what a local disk gives it: the attributes of the directory with no
//! links, no names, and `ENOENT` when it makes or looks up a name there.

use record::Ino;
use rustix::io::Errno;
use volume::FoundNode;

use crate::attributes::NodeStat;
use crate::files::Files;
use crate::stale_retries::StaleReply;

impl Files {
    /// Takes note of a directory that was found.
    pub(crate) fn remember_directory(&self, node: &FoundNode) {
        self.seen_directories.note(&NodeStat::of(node));
    }

    /// Returns true if a program saw this directory, and it has been removed.
    pub async fn is_removed_directory(&self, ino: Ino) -> bool {
        self.seen_directories.removed(ino).is_some()
            && self.retry_until_deadline(|| self.volume.find_node(ino)).await.err()
                == Some(Errno::STALE)
    }

    /// The error for a program that asks for a name in a removed directory. If the kernel remembers
    /// names that others may have changed (`names_may_be_old`), the first answer is `ESTALE`, upon
    /// which the kernel looks up the path of the directory: another one may be there.
    pub fn error_in_removed(&self, ino: Ino, names_may_be_old: bool) -> Errno {
        let stale_reply = self.stale_retries.take(self.thread);
        if !names_may_be_old || stale_reply.is_some_and(|stale_reply| stale_reply.ino == ino) {
            return Errno::NOENT;
        }
        self.stale_retries.insert(self.thread, StaleReply::of(ino, std::time::Instant::now()));
        Errno::STALE
    }
}
