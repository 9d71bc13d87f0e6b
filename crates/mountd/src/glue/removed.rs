//! Requests about removed directories that programs still use. For example, `ls` in a removed
//! directory lists nothing, as on a local disk, instead of failing with `ESTALE`.

use fuse::FileOperation;
use rustix::io::Errno;

use super::answer::{Answer, sized};
use super::{Call, PARENT, THIS};

impl Call {
    /// Returns the reply to an operation that failed with `ESTALE`: if the directory was removed,
    /// the result that a local disk gives.
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
            // Lookups for file handles: `ESTALE` is their correct error.
            FileOperation::Lookup { name } if name == THIS || name == PARENT => Err(Errno::STALE),
            FileOperation::GetXattr { .. } => Err(Errno::NODATA),
            FileOperation::ListXattr { size } => sized(Vec::new(), size),
            _ => Err(self.files.error_in_removed(removed, self.cache_validity.may_be_stale())),
        }
    }
}
