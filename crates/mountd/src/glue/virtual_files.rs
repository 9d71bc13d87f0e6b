//! The virtual directory `.ashlar` at the root of a mount, and the file `stats` in it.
//!
//! They exist on the mount only, not in the volume. For example, `ls -a` of the root does not list
//! `.ashlar`, but `cat .ashlar/stats` prints the metrics of the process.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuse::{
    DirectoryBuffer, DirectoryName, FileHandle, FileOperation, FileTime, NodeAttributes, NodeEntry,
    NodeId, OpenFlags, Reply,
};
use record::Ino;
use rustix::io::Errno;

use super::answer::{Answer, sized};
use super::{ACCESS_MODE, Call, THIS, errno};
use crate::stats::{FILE_NAME, FOLDER_NAME};

/// The number of the virtual directory. Except the root, no inode of a volume has a number this
/// low, because inodes get leased numbers.
const FOLDER: NodeId = NodeId(2);

/// The number of the file `stats`, which no inode of a volume has either.
const FILE: NodeId = NodeId(3);

const _: () = assert!(FILE.0 < Ino::FIRST_LEASED.0 && FOLDER.0 > Ino::ROOT.0);

/// The handle of the directory, which has no state.
const FOLDER_HANDLE: FileHandle = FileHandle(u64::MAX);

/// The mode of the virtual directory, as in `st_mode`. Metrics show the activity of all users, so
/// only the user of the process may read them.
const FOLDER_MODE: u32 = 0o040_500;

/// The mode of the file `stats`, for the same user.
const FILE_MODE: u32 = 0o100_400;

impl Call {
    /// Returns true if the request is about one of the virtual nodes.
    pub(super) fn is_virtual_file(&self) -> bool {
        matches!(self.request.node(), FOLDER | FILE)
    }

    /// Returns true if a name, which the volume does not have, is that of the virtual directory.
    pub(super) fn is_virtual_directory(&self, name: &std::ffi::OsStr) -> bool {
        self.request.node() == NodeId::ROOT && name.as_bytes() == FOLDER_NAME.as_bytes()
    }

    /// Returns the entry of the virtual directory.
    pub(super) fn virtual_directory(&self) -> NodeEntry {
        self.virtual_entry(FOLDER)
    }

    /// Replies to a request about a virtual node, that is, the directory `.ashlar` or its file
    /// `stats`.
    pub(super) fn answer_virtual(&self, reply: Reply) {
        match self.dispatch_virtual(&self.request.operation()) {
            Ok(answer) => answer.send(reply),
            Err(error) => reply.error(errno(error)),
        }
    }

    #[expect(
        clippy::too_many_lines,
        reason = "a row for each operation, so that none is forgotten"
    )]
    fn dispatch_virtual(&self, operation: &FileOperation<'_>) -> Result<Answer, Errno> {
        let (node, stats) = (self.request.node(), &self.context.stats);
        Ok(match *operation {
            FileOperation::Lookup { name } if name == THIS => {
                Answer::Entry(self.virtual_entry(node))
            }
            FileOperation::Lookup { name } if node == FOLDER => {
                if name.as_bytes() != FILE_NAME.as_bytes() {
                    return Err(Errno::NOENT);
                }
                Answer::Entry(self.virtual_entry(FILE))
            }
            FileOperation::GetAttr { .. } => {
                Answer::Attributes(self.virtual_attributes(node), Duration::ZERO)
            }
            FileOperation::StatX { .. } => {
                let attributes = self.virtual_attributes(node);
                Answer::StatX(attributes, FileTime::default(), Duration::ZERO)
            }
            FileOperation::Open { flags, .. } if node == FILE && flags & ACCESS_MODE == 0 => {
                // The size in the attributes is 0, so reads must bypass the page cache.
                Answer::Opened(stats.open()?, OpenFlags::DIRECT_IO)
            }
            FileOperation::Open { .. } => return Err(Errno::ACCESS),
            FileOperation::Release { handle, .. } => {
                stats.close(handle);
                Answer::Ok
            }
            FileOperation::OpenDir { .. } => Answer::Opened(FOLDER_HANDLE, OpenFlags::none()),
            FileOperation::ReadDir { offset, size, .. } => {
                Answer::Directory(names(offset, size, false))
            }
            FileOperation::ReadDirPlus { offset, size, .. } => {
                Answer::Directory(names(offset, size, true))
            }
            FileOperation::ReleaseDir { .. }
            | FileOperation::Flush { .. }
            | FileOperation::FSync { .. }
            | FileOperation::FSyncDir { .. } => Answer::Ok,
            FileOperation::ListXattr { size } => sized(Vec::new(), size)?,
            FileOperation::GetXattr { .. } => return Err(Errno::NODATA),
            FileOperation::Lookup { .. }
            | FileOperation::Forget { .. }
            | FileOperation::SetAttr(_)
            | FileOperation::ReadLink
            | FileOperation::Symlink { .. }
            | FileOperation::MkNod { .. }
            | FileOperation::MkDir { .. }
            | FileOperation::Unlink { .. }
            | FileOperation::RmDir { .. }
            | FileOperation::Rename { .. }
            | FileOperation::Link { .. }
            | FileOperation::Read { .. }
            | FileOperation::Write { .. }
            | FileOperation::StatFs
            | FileOperation::SetXattr { .. }
            | FileOperation::RemoveXattr { .. }
            | FileOperation::Init
            | FileOperation::GetLk(_)
            | FileOperation::SetLk(_)
            | FileOperation::SetLkW(_)
            | FileOperation::Access { .. }
            | FileOperation::Create { .. }
            | FileOperation::TmpFile { .. }
            | FileOperation::Interrupt { .. }
            | FileOperation::IoCtl { .. }
            | FileOperation::FAllocate { .. }
            | FileOperation::LSeek { .. }
            | FileOperation::CopyFileRange { .. }
            | FileOperation::SyncFs
            | FileOperation::Destroy
            | FileOperation::Unknown { .. } => return Err(Errno::PERM),
        })
    }

    /// Returns the entry of a virtual node, its number and attributes with the times for which the
    /// kernel may cache them.
    fn virtual_entry(&self, node: NodeId) -> NodeEntry {
        NodeEntry {
            node,
            generation: 0,
            attributes: self.virtual_attributes(node),
            // The volume may get an entry with this name at any time.
            entry_timeout: Duration::ZERO,
            attributes_timeout: Duration::ZERO,
        }
    }

    /// Returns the attributes of a virtual node. Its owner is the user of the process, or the one
    /// that the mount shows.
    fn virtual_attributes(&self, node: NodeId) -> NodeAttributes {
        let shown = &self.context.shown;
        NodeAttributes {
            inode: node.0,
            mode: if node == FOLDER { FOLDER_MODE } else { FILE_MODE },
            links: if node == FOLDER { 2 } else { 1 },
            uid: shown.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            gid: shown.gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
            ..NodeAttributes::default()
        }
    }
}

/// Returns the entries of the virtual directory from the position `offset`, with attributes if
/// `plus`. `size` is the size of the reply in bytes.
fn names(offset: u64, size: u32, plus: bool) -> DirectoryBuffer {
    let mut buffer = DirectoryBuffer::new(size);
    let all = [
        (FOLDER, ".", FOLDER_MODE),
        (NodeId::ROOT, "..", FOLDER_MODE),
        (FILE, FILE_NAME, FILE_MODE),
    ];
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    for ((node, name, mode), cookie) in all.into_iter().zip(1..).skip(skip) {
        let name = DirectoryName { inode: node.0, cookie, kind: mode >> 12, name: name.as_ref() };
        let took = if plus { buffer.push_plus(None, name) } else { buffer.push(name) };
        if !took {
            break;
        }
    }
    buffer
}
