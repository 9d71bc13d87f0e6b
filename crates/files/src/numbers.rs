//! Lookups by inode number, for NFS servers and file handles.
//!
//! A file handle, from `name_to_handle_at` or of an NFS client, contains an inode number. It
//! outlives the kernel's cache and the mount. To open it, the kernel looks up the names `.` and
//! `..` of that number.
//!
//! For example, an NFS server restarts and a client reads on through its old handle: the kernel
//! asks for `.` of that number, and then opens it without a name.

use record::{Ino, InodeBody, Kind};
use rustix::io::Errno;
use volume::FoundNode;

use crate::attributes::NodeStat;
use crate::files::Files;

/// The maximum number of parent directories that are followed to find out if a node is below the
/// root of the mount. A deeper node counts as not below it.
const ANCESTORS_MAX: usize = 2_048;

impl Files {
    /// Looks up a node by its number, without a name.
    ///
    /// # Errors
    /// `ESTALE` if the node does not exist, if it has no name and is not open, or if it is not
    /// below the root of these files.
    pub async fn look_up_number(&self, ino: Ino) -> Result<NodeStat, Errno> {
        let node = self.named_node(ino).await?;
        if !self.is_below_root(&node).await? {
            return Err(Errno::STALE);
        }
        self.by_number.insert(ino, ());
        Ok(self.visible_stat(&node).await)
    }

    /// Returns the parent of a directory. The root is its own parent.
    ///
    /// # Errors
    /// `ENOTDIR` if the node is not a directory; otherwise as [`Files::look_up_number`].
    pub async fn look_up_parent(&self, ino: Ino) -> Result<NodeStat, Errno> {
        if ino == self.root() {
            return self.attributes(ino).await;
        }
        let node = self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
        let InodeBody::Directory(directory) = &node.inode.body else { return Err(Errno::NOTDIR) };
        self.look_up_number(directory.parent).await
    }

    /// Returns the node for an open by inode number, if the number was looked up without a name
    /// before; otherwise `None`.
    pub(crate) async fn found_by_number(&self, ino: Ino) -> Result<Option<FoundNode>, Errno> {
        if self.by_number.get(&ino).is_none() {
            return Ok(None);
        }
        self.named_node(ino).await.map(Some)
    }

    /// Returns a node that has a name or is open; fails with `ESTALE` for others.
    async fn named_node(&self, ino: Ino) -> Result<FoundNode, Errno> {
        let (node, is_unlinked) =
            self.retry_until_deadline(|| self.volume.find_unlinked(ino)).await?;
        if is_unlinked && self.open.get(ino).is_none() { Err(Errno::STALE) } else { Ok(node) }
    }

    /// Returns true if a node is known to be below the root of these files. A file handle must not
    /// lead out of the mounted part of a volume.
    async fn is_below_root(&self, node: &FoundNode) -> Result<bool, Errno> {
        let root = self.root();
        // The common cases need no round trip.
        if root == Ino::ROOT || node.ino == root || node.inode.bucket == root {
            return Ok(true);
        }
        let above = |node: &FoundNode| match &node.inode.body {
            InodeBody::Directory(directory) => Some(directory.parent),
            InodeBody::File(_) | InodeBody::Symlink(_) | InodeBody::Special(_) => {
                self.names.get(node.ino).map(|name| name.directory)
            }
        };
        let mut at = above(node);
        for _ in 0..ANCESTORS_MAX {
            match at {
                Some(ino) if ino == root => return Ok(true),
                None | Some(Ino::ROOT) => return Ok(false),
                Some(ino) => {
                    let directory =
                        self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
                    at = (directory.inode.kind() == Kind::Directory)
                        .then(|| above(&directory))
                        .flatten();
                }
            }
        }
        Ok(false)
    }
}
