//! What the kernel is told of the folder and the file that a mount has beside its files.

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
use crate::mount::stats::{FILE_NAME, FOLDER_NAME};

/// Their numbers: no node of a volume has one below those that are leased, but the root.
const FOLDER: NodeId = NodeId(2);
const FILE: NodeId = NodeId(3);

const _: () = assert!(FILE.0 < Ino::FIRST_LEASED.0 && FOLDER.0 > Ino::ROOT.0);

/// The handle of the folder: it has nothing to remember.
const FOLDER_HANDLE: FileHandle = FileHandle(u64::MAX);

/// Kinds and permissions, as in `st_mode`.
/// The counters tell of all that goes on in the process, so only its user reads them.
const FOLDER_MODE: u32 = 0o040_500;
const FILE_MODE: u32 = 0o100_400;

impl Call {
    /// Whether a request is about them.
    pub(super) fn is_beside_files(&self) -> bool {
        matches!(self.request.node(), FOLDER | FILE)
    }

    /// Whether a name that leads nowhere is that of the folder.
    pub(super) fn names_folder(&self, name: &std::ffi::OsStr) -> bool {
        self.request.node() == NodeId::ROOT && name.as_bytes() == FOLDER_NAME.as_bytes()
    }

    /// The folder.
    pub(super) fn folder(&self) -> NodeEntry {
        self.entry_beside(FOLDER)
    }

    /// Answers a request about them.
    pub(super) fn answer_beside(&self, reply: Reply) {
        match self.dispatch_beside(&self.request.operation()) {
            Ok(answer) => answer.send(reply),
            Err(error) => reply.error(errno(error)),
        }
    }

    #[expect(
        clippy::too_many_lines,
        reason = "a row for each operation, so that none is forgotten"
    )]
    fn dispatch_beside(&self, operation: &FileOperation<'_>) -> Result<Answer, Errno> {
        let (node, stats) = (self.request.node(), &self.beside.stats);
        Ok(match *operation {
            FileOperation::Lookup { name } if name == THIS => {
                Answer::Entry(self.entry_beside(node))
            }
            FileOperation::Lookup { name } if node == FOLDER => {
                if name.as_bytes() != FILE_NAME.as_bytes() {
                    return Err(Errno::NOENT);
                }
                Answer::Entry(self.entry_beside(FILE))
            }
            FileOperation::GetAttr { .. } => {
                Answer::Attributes(self.attributes_beside(node), Duration::ZERO)
            }
            FileOperation::StatX { .. } => {
                let attributes = self.attributes_beside(node);
                Answer::StatX(attributes, FileTime::default(), Duration::ZERO)
            }
            FileOperation::Open { flags, .. } if node == FILE && flags & ACCESS_MODE == 0 => {
                // How long it is shows when it is read.
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

    fn entry_beside(&self, node: NodeId) -> NodeEntry {
        NodeEntry {
            node,
            generation: 0,
            attributes: self.attributes_beside(node),
            // Something of the volume may come to have the name.
            entry_timeout: Duration::ZERO,
            attributes_timeout: Duration::ZERO,
        }
    }

    fn attributes_beside(&self, node: NodeId) -> NodeAttributes {
        let shown = &self.beside.shown;
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

/// What is in the folder, from a position on.
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
