//! The reach of each request: the names and nodes on which its result depends. Creations that it
//! could observe are committed before it.
//!
//! For example, MKDIR reaches all names, and WRITE none, because it uses a file that is open.

use std::os::unix::ffi::OsStrExt;

use files::{NameChange, Reach};
use fuse::FileOperation;

use super::{Call, PARENT, ROOT_TIMEOUT, THIS};

impl Call {
    /// Begins a request with this reach: see [`files::Files::enter`]. The attributes of the root
    /// are answered also if the stores do not answer in time, because df(1) reads the root of each
    /// mount of a machine, and would hang.
    pub(super) async fn enter<'r>(&'r self, reach: Reach<'r>) -> Option<NameChange<'r>> {
        let entering = self.files.enter(reach);
        let root = self.files.root();
        if reach == Reach::Directory(root) || reach == Reach::Node(root) {
            return tokio::time::timeout(ROOT_TIMEOUT, entering).await.ok();
        }
        Some(entering.await)
    }

    /// Returns the reach of an operation.
    pub(super) fn reach<'o>(&self, operation: &FileOperation<'o>) -> Reach<'o> {
        let node = self.node();
        match operation {
            FileOperation::Lookup { name } if *name == THIS || *name == PARENT => Reach::All,
            FileOperation::Lookup { name } | FileOperation::Create { name, .. } => {
                Reach::Name(node, name.as_bytes())
            }
            // truncate(2) opens the file by its number.
            FileOperation::SetAttr(changes)
                if changes.size_bytes.is_some() && changes.handle.is_none() =>
            {
                Reach::Node(node)
            }
            // An open file shows its attributes before they are committed; a directory has to show
            // its last change.
            FileOperation::GetAttr { .. }
            | FileOperation::StatX { .. }
            | FileOperation::SetAttr(_)
            | FileOperation::FSyncDir { .. }
            | FileOperation::GetXattr { .. } => Reach::Directory(node),
            FileOperation::Open { .. }
            | FileOperation::OpenDir { .. }
            | FileOperation::ReadDir { .. }
            | FileOperation::ReadDirPlus { .. }
            | FileOperation::SetXattr { .. }
            | FileOperation::ListXattr { .. }
            | FileOperation::RemoveXattr { .. }
            | FileOperation::GetLk(_)
            | FileOperation::SetLk(_)
            | FileOperation::SetLkW(_) => Reach::Node(node),
            FileOperation::MkNod { .. }
            | FileOperation::MkDir { .. }
            | FileOperation::Symlink { .. }
            | FileOperation::Link { .. }
            | FileOperation::Unlink { .. }
            | FileOperation::RmDir { .. }
            | FileOperation::Rename { .. }
            | FileOperation::TmpFile { .. } => Reach::All,
            // These use a file that is open, or depend on no name.
            FileOperation::Read { .. }
            | FileOperation::Write { .. }
            | FileOperation::Flush { .. }
            | FileOperation::FSync { .. }
            | FileOperation::FAllocate { .. }
            | FileOperation::CopyFileRange { .. }
            | FileOperation::LSeek { .. }
            | FileOperation::Release { .. }
            | FileOperation::ReleaseDir { .. }
            | FileOperation::ReadLink
            | FileOperation::StatFs
            | FileOperation::SyncFs
            | FileOperation::IoCtl { .. }
            | FileOperation::Access { .. }
            | FileOperation::Forget { .. }
            | FileOperation::Init
            | FileOperation::Destroy
            | FileOperation::Interrupt { .. }
            | FileOperation::Unknown { .. } => Reach::Nothing,
        }
    }
}
