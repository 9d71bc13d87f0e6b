//! Programs in directories that were removed.

use fuse::FileOperation;
use rustix::io::Errno;

use super::answer::{Answer, sized};
use super::{Call, PARENT, THIS};

impl Call {
    /// The answer to an operation that failed with `ESTALE`. A program that holds a removed directory
    /// gets what a local disk gives it.
    pub(super) async fn answer_stale(&self) -> Result<Answer, Errno> {
        let operation = self.request.operation();
        let node = self.node();
        let other = if let FileOperation::Rename { new_parent, .. } = operation {
            self.ino(new_parent)
        } else {
            node
        };
        let removed = if self.files.is_removed_directory(node).await {
            node
        } else if other != node && self.files.is_removed_directory(other).await {
            other
        } else {
            return Err(Errno::STALE);
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other operations fail alike")]
        match operation {
            // The kernel asks for these for file handles alone.
            FileOperation::Lookup { name } if name == THIS || name == PARENT => Err(Errno::STALE),
            FileOperation::GetXattr { .. } => Err(Errno::NODATA),
            FileOperation::ListXattr { size } => sized(Vec::new(), size),
            _ => Err(self.files.error_in_removed(removed, self.cache_validity.may_be_stale())),
        }
    }
}
