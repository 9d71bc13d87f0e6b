//! Finding nodes by their numbers alone, as servers of NFS do.
//!
//! A file handle that `name_to_handle_at` gave, or one of an NFS client, holds the number of a node.
//! It outlives what the kernel remembers, and the mount. The kernel then asks for the names `.` and
//! `..` of that number.

use record::{Ino, InodeBody, Kind};
use rustix::io::Errno;
use volume::FoundNode;

use crate::attributes::NodeStat;
use crate::files::Files;

/// The most directories above a node that are looked at.
const ANCESTORS_MAX: usize = 2_048;

impl Files {
    /// Finds a node by its number, for a caller that has no name of it.
    ///
    /// # Errors
    /// `ESTALE` if there is none, if its last name is gone and no program has it open, or if it is not
    /// below the root of these files.
    pub async fn look_up_number(&self, ino: Ino) -> Result<NodeStat, Errno> {
        let node = self.named_node(ino).await?;
        if !self.is_below_root(&node).await? {
            return Err(Errno::STALE);
        }
        self.by_number.insert(ino, ());
        Ok(self.visible_stat(&node).await)
    }

    /// Finds the directory that a directory is in. The root is in itself.
    ///
    /// # Errors
    /// `ENOTDIR` if it is no directory; else as [`Files::look_up_number`].
    pub async fn look_up_parent(&self, ino: Ino) -> Result<NodeStat, Errno> {
        if ino == self.root() {
            return self.attributes(ino).await;
        }
        let node = self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
        let InodeBody::Directory(directory) = &node.inode.body else { return Err(Errno::NOTDIR) };
        self.look_up_number(directory.parent).await
    }

    /// The node that is to be opened, if it was found by its number before.
    pub(crate) async fn found_by_number(&self, ino: Ino) -> Result<Option<FoundNode>, Errno> {
        if self.by_number.get(&ino).is_none() {
            return Ok(None);
        }
        self.named_node(ino).await.map(Some)
    }

    /// A node that has a name, or that a program has open.
    async fn named_node(&self, ino: Ino) -> Result<FoundNode, Errno> {
        let (node, is_left) = self.retry_until_deadline(|| self.volume.find_unlinked(ino)).await?;
        if is_left && self.open.get(ino).is_none() { Err(Errno::STALE) } else { Ok(node) }
    }

    /// Returns true if a node is below the root of these files, as far as that is known: a handle must
    /// not lead out of the part of a volume that is mounted.
    async fn is_below_root(&self, node: &FoundNode) -> Result<bool, Errno> {
        let root = self.root();
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
