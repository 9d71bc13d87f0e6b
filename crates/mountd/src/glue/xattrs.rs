//! Extended attributes. For example, `getfattr -n user.ashlar.etag FILE` reads the entity tag of
//! the object.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use files::{Reach, XattrWrite};
use rustix::io::Errno;
use volume::AclKind;

use super::Call;
use super::answer::{Answer, sized};
use crate::reports::REPORT_ATTRIBUTE;

/// Flags of setxattr(2).
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

impl Call {
    /// Fails with `EOPNOTSUPP` for an access control list if the mount shows all files with one
    /// owner or mode: the list has no effect there.
    fn check_shown(&self, name: &OsStr) -> Result<(), Errno> {
        let is_hidden =
            !self.context.shown.is_unchanged() && AclKind::of(name.as_bytes()).is_some();
        if is_hidden { Err(Errno::OPNOTSUPP) } else { Ok(()) }
    }

    /// Returns the value of an extended attribute of the node, or its length in bytes if `size`,
    /// the size of the caller's buffer, is 0. Fails with `ERANGE` if the buffer is too small.
    pub(super) async fn xattr(&self, name: &OsStr, size: u32) -> Result<Answer, Errno> {
        self.check_shown(name)?;
        let (files, node) = (&self.files, self.node());
        if name == REPORT_ATTRIBUTE {
            drop(self.enter(Reach::Node(node)).await);
            let report = self.context.report(files, node).await.ok_or(Errno::IO)?;
            return sized(report, size);
        }
        sized(files.xattr(node, name.as_bytes()).await?.to_vec(), size)
    }

    /// Returns the names of all extended attributes of the node, or their total length in bytes if
    /// `size`, the size of the caller's buffer, is 0. Fails with `ERANGE` if the buffer is too
    /// small.
    pub(super) async fn xattr_names(&self, size: u32) -> Result<Answer, Errno> {
        let mut names = Vec::new();
        for name in self.files.xattr_names(self.node()).await? {
            if !self.context.shown.is_unchanged() && AclKind::of(&name).is_some() {
                continue;
            }
            names.extend_from_slice(&name);
            names.push(0);
        }
        sized(names, size)
    }

    /// Sets an extended attribute of the node. `flags` are those of setxattr(2).
    pub(super) async fn set_xattr(
        &self,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        acl_kill_sgid: bool,
    ) -> Result<Answer, Errno> {
        self.check_shown(name)?;
        let how = match flags {
            XATTR_CREATE => XattrWrite::Create,
            XATTR_REPLACE => XattrWrite::Replace,
            _ => XattrWrite::Set,
        };
        let (files, node) = (&self.files, self.node());
        files.set_xattr(node, name.as_bytes(), value, how, acl_kill_sgid).await?;
        Ok(Answer::Ok)
    }

    /// Removes an extended attribute of the node.
    pub(super) async fn remove_xattr(&self, name: &OsStr) -> Result<Answer, Errno> {
        self.check_shown(name)?;
        self.files.remove_xattr(self.node(), name.as_bytes()).await?;
        Ok(Answer::Ok)
    }
}
