//! Access control lists, as attributes that programs read and write.
//!
//! A list and the permission bits of its node always agree. So what is not yet the file's, bits that
//! were changed after something was written, becomes so before a list is set, and shows in a list
//! that is read.

use bytes::Bytes;
use record::Ino;
use rustix::io::Errno;
use volume::{Acl, AclKind, NotAnAcl};

use crate::files::Files;

impl Files {
    /// The list of a node, as the attribute of its name says it.
    pub(crate) async fn acl(&self, ino: Ino, kind: AclKind) -> Result<Bytes, Errno> {
        let Some(file) = self.open.get(ino) else {
            return self.retry_until_deadline(|| self.volume.xattr(ino, kind.attribute())).await;
        };
        let node = self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
        let acl = Acl::find(&node.inode.xattrs, kind).ok_or(Errno::NODATA)?;
        Ok(acl.with_mode(file.attributes(Some(&node)).await.mode).to_bytes())
    }

    /// Gives a node the list that the attribute of its name says.
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

    /// Gives a node a list, or takes it away.
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
            // The bits that are shown of it are those of now.
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
