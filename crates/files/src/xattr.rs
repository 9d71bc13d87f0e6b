//! Extended attributes.
//!
//! Most attributes are opaque values of programs. Access control lists and S3 metadata have rules
//! of their own, and are dispatched here by name. Attributes of unknown name spaces are refused.
//! For example, `user.note` is stored as it is, `system.posix_acl_access` changes the mode too, and
//! `user.ashlar.etag` cannot be set.

use bytes::Bytes;
use record::{Ino, XATTR_BYTES_MAX, XATTR_NAME_BYTES_MAX};
use rustix::io::Errno;
use volume::{AclKind, XattrChange};

use crate::creations::Reach;
use crate::files::Files;
use crate::object::{self, ObjectAttribute};

/// The name spaces (the beginnings of the names) of the extended attributes that are stored as they
/// are.
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// The extended attribute with the file capabilities of a program. A write to the file removes it.
const CAPABILITIES: &[u8] = b"security.capability";

/// The condition under which an extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrWrite {
    /// Creates or replaces the attribute.
    Set,
    /// Fails with `EEXIST` if the attribute exists.
    Create,
    /// Fails with `ENODATA` if the attribute does not exist.
    Replace,
}

impl Files {
    /// Returns the value of an extended attribute. Fails with `ENODATA` if the node does not have
    /// it, and with `EOPNOTSUPP` for an unknown name space.
    pub async fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Bytes, Errno> {
        if let Some(kind) = AclKind::of(name) {
            return self.acl(ino, kind).await;
        }
        if let Some(attribute) = ObjectAttribute::of(name) {
            drop(self.enter(Reach::Node(ino)).await);
            return self.object_attribute(ino, &attribute).await;
        }
        check_name(name)?;
        // A new file inherits access control lists alone.
        if self.uncommitted_node(ino).await.is_some() {
            return Err(Errno::NODATA);
        }
        self.retry_until_deadline(|| self.volume.xattr(ino, name)).await
    }

    /// Returns the names of all extended attributes of a node, including those that show S3
    /// metadata. `user.ashlar.etag` is not among them.
    pub async fn xattr_names(&self, ino: Ino) -> Result<Vec<Vec<u8>>, Errno> {
        let node = self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
        let object = node.inode.file().map(|file| object::names(&file.object)).unwrap_or_default();
        Ok(node.inode.xattrs.into_iter().map(|xattr| xattr.name).chain(object).collect())
    }

    /// Sets an extended attribute. If the attribute is an access control list and `drop_group_id`
    /// is true, the set-group-ID bit is cleared. Fails with `EEXIST` or `ENODATA` if `condition`
    /// does not hold, with `E2BIG` if the value is too long, with `ERANGE` if the name is too long,
    /// and with `EOPNOTSUPP` for an unknown name space.
    pub async fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        condition: XattrWrite,
        drop_group_id: bool,
    ) -> Result<(), Errno> {
        self.check_writable()?;
        if let Some(kind) = AclKind::of(name) {
            return self.set_acl(ino, kind, value, drop_group_id).await;
        }
        if let Some(attribute) = ObjectAttribute::of(name) {
            let must_exist = match condition {
                XattrWrite::Set => None,
                XattrWrite::Create => Some(false),
                XattrWrite::Replace => Some(true),
            };
            return self.set_object_attribute(ino, &attribute, Some(value), must_exist).await;
        }
        check_name(name)?;
        if name == CAPABILITIES
            && let Some(file) = self.open.get(ino)
        {
            // Commit earlier writes first: their commit removes capabilities, and would remove the
            // new ones.
            self.flush_file(&file).await?;
        }
        if value.len() > XATTR_BYTES_MAX {
            return Err(Errno::TOOBIG);
        }
        let value = Bytes::copy_from_slice(value);
        let change = match condition {
            XattrWrite::Set => XattrChange::Set(value),
            XattrWrite::Create => XattrChange::Create(value),
            XattrWrite::Replace => XattrChange::Replace(value),
        };
        self.change_xattr(ino, name, &change).await
    }

    /// Commits a change of an extended attribute that is an opaque value.
    async fn change_xattr(&self, ino: Ino, name: &[u8], change: &XattrChange) -> Result<(), Errno> {
        let known_name = self.names.get(ino);
        let set = || self.changing().set_xattr(ino, known_name.as_ref(), name, change);
        self.retry_until_deadline(set).await.map(drop)
    }

    /// Removes an extended attribute. Fails with `ENODATA` if the node does not have it.
    pub async fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), Errno> {
        self.check_writable()?;
        if let Some(kind) = AclKind::of(name) {
            return self.change_acl(ino, kind, None, false).await;
        }
        if let Some(attribute) = ObjectAttribute::of(name) {
            return self.set_object_attribute(ino, &attribute, None, Some(true)).await;
        }
        check_name(name)?;
        self.change_xattr(ino, name, &XattrChange::Remove).await
    }
}

/// Fails with `ERANGE` if an attribute name is too long, and with `EOPNOTSUPP` if its name space is
/// unknown or nothing follows the name space.
fn check_name(name: &[u8]) -> Result<(), Errno> {
    if name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Errno::RANGE);
    }
    let has = |prefix: &&[u8]| name.starts_with(prefix) && name.len() > prefix.len();
    if PREFIXES.iter().any(has) { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}
