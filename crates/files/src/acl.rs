//! Access control lists, as extended attributes that programs read and write.
//!
//! Invariant: the list and the permission bits of a node agree. Mode changes that are pending on an
//! open file are therefore flushed before a list is set, and are applied to a list that is read.
//! For example, chmod(2) of a file with dirty data changes the mask entry that getfacl(1) shows.

use bytes::Bytes;
use record::Ino;
use rustix::io::Errno;
use volume::{Acl, AclKind, NotAnAcl};

use crate::files::Files;

impl Files {
    /// Returns an access control list of a node (the access list or, by `kind`, the default list of
    /// a directory) in the format of its extended attribute. Fails with `ENODATA` if the node has
    /// none.
    pub(crate) async fn acl(&self, ino: Ino, kind: AclKind) -> Result<Bytes, Errno> {
        let Some(file) = self.open.get(ino) else {
            return self.retry_until_deadline(|| self.volume.xattr(ino, kind.attribute())).await;
        };
        let node = match self.uncommitted_node(ino).await {
            Some(node) => node,
            None => self.retry_until_deadline(|| self.volume.find_node(ino)).await?,
        };
        let acl = Acl::find(&node.inode.xattrs, kind).ok_or(Errno::NODATA)?;
        Ok(acl.with_mode(file.attributes(Some(&node)).await.mode).to_bytes())
    }

    /// Sets an access control list of a node from the value of its extended attribute. With
    /// `drop_group_id`, the set-group-ID bit is cleared. Fails with `EINVAL`, `EOPNOTSUPP` or
    /// `ENOSPC` if the value is not a list that can be kept.
    pub(crate) async fn set_acl(
        &self,
        ino: Ino,
        kind: AclKind,
        value: &[u8],
        drop_group_id: bool,
    ) -> Result<(), Errno> {
        let acl = Acl::parse(value).map_err(errno)?;
        self.change_acl(ino, kind, acl.as_ref(), drop_group_id).await
    }

    /// Sets an access control list of a node, or removes it if `acl` is `None`. With
    /// `drop_group_id`, the set-group-ID bit is cleared.
    pub(crate) async fn change_acl(
        &self,
        ino: Ino,
        kind: AclKind,
        acl: Option<&Acl>,
        drop_group_id: bool,
    ) -> Result<(), Errno> {
        let open = self.open.get(ino);
        if let Some(file) = &open {
            self.flush_file(file).await?;
        }
        let set = || self.changing().set_acl(ino, kind, acl, drop_group_id);
        let set = self.retry_until_deadline(set).await?;
        if let Some(file) = &open {
            // Setting a list changes the mode: the open file must show the new one.
            file.attributes(Some(&set)).await;
        }
        Ok(())
    }
}

fn errno(error: NotAnAcl) -> Errno {
    match error {
        NotAnAcl::Invalid => Errno::INVAL,
        NotAnAcl::Form => Errno::OPNOTSUPP,
        NotAnAcl::TooLong => Errno::NOSPC,
    }
}
