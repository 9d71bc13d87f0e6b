//! Extended attributes.

use std::os::unix::ffi::OsStrExt;

use files::XattrWrite;
use fuse::FileOperation;
use rustix::io::Errno;
use volume::AclKind;

use super::Call;
use super::answer::{Answer, sized};
use crate::node_report;

/// Flags of setxattr(2).
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

impl Call {
    /// Whether an attribute says who may do what, where all is shown as somebody's: it has no say there.
    fn is_hidden(&self, operation: &FileOperation<'_>) -> bool {
        match operation {
            FileOperation::GetXattr { name, .. }
            | FileOperation::SetXattr { name, .. }
            | FileOperation::RemoveXattr { name } => {
                !self.beside.shown.is_unchanged() && AclKind::of(name.as_bytes()).is_some()
            }
            _ => false,
        }
    }

    pub(super) async fn xattr(&self, operation: FileOperation<'_>) -> Result<Answer, Errno> {
        let (files, node) = (&self.files, self.node());
        if self.is_hidden(&operation) {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(match operation {
            FileOperation::GetXattr { name, size } if name == node_report::ATTRIBUTE => {
                let told = self.beside.report(files, node).await.ok_or(Errno::IO)?;
                sized(told, size)?
            }
            FileOperation::GetXattr { name, size } => {
                sized(files.xattr(node, name.as_bytes()).await?.to_vec(), size)?
            }
            FileOperation::ListXattr { size } => {
                let mut names = Vec::new();
                for name in files.xattr_names(node).await? {
                    if !self.beside.shown.is_unchanged() && AclKind::of(&name).is_some() {
                        continue;
                    }
                    names.extend_from_slice(&name);
                    names.push(0);
                }
                sized(names, size)?
            }
            FileOperation::SetXattr { name, value, flags, acl_kill_sgid } => {
                let how = match flags {
                    XATTR_CREATE => XattrWrite::Create,
                    XATTR_REPLACE => XattrWrite::Replace,
                    _ => XattrWrite::Set,
                };
                files.set_xattr(node, name.as_bytes(), value, how, acl_kill_sgid).await?;
                Answer::Ok
            }
            FileOperation::RemoveXattr { name } => {
                files.remove_xattr(node, name.as_bytes()).await?;
                Answer::Ok
            }
            _ => return Err(Errno::NOSYS),
        })
    }
}
