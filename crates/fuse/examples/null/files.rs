//! The operations of the file system, with their replies.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use fuse::{
    AttributeChanges, Errno, FileHandle, FileOperation, FileSystem, FileSystemSpace, Forgotten,
    NodeId, OpenFlags, Reply, Request,
};

use super::content::Content;
use super::locks::Locks;
use super::tree::{Body, DIRECTORY, Directory, KIND, LINK, Making, REGULAR, Tree};

const O_APPEND: u32 = 0o2000;
const O_TRUNC: u32 = 0o1000;
const O_EXCL: u32 = 0o200;

/// The file system.
#[derive(Debug)]
pub(crate) struct NullFiles {
    tree: RwLock<Tree>,
    locks: Arc<Locks>,
    timeout: Duration,
}

impl NullFiles {
    pub(crate) fn new(timeout: Duration) -> NullFiles {
        let (tree, locks) = (RwLock::new(Tree::new()), Arc::default());
        NullFiles { tree, locks, timeout }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().expect("no operation panics")
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().expect("no operation panics")
    }

    /// Replies with an entry or an error.
    fn answer_entry(&self, reply: Reply, made: impl FnOnce(&mut Tree) -> Result<u64, Errno>) {
        let mut tree = self.write();
        match made(&mut tree).and_then(|number| tree.looked_up(number, self.timeout)) {
            Ok(entry) => reply.entry(&entry),
            Err(error) => reply.error(error),
        }
    }

    fn answer(reply: Reply, done: Result<(), Errno>) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn create(&self, request: &Request, reply: Reply, name: Option<&OsStr>, flags: u32, mode: u32) {
        let mut tree = self.write();
        let parent = request.node().0;
        let making = Making {
            mode: REGULAR | (mode & !KIND),
            rdev: 0,
            uid: request.uid(),
            gid: request.gid(),
        };
        let file = Body::File(Content::default());
        let node = match name {
            None => Ok(tree.make(&making, file)),
            Some(name) => match tree.lookup(parent, name) {
                Ok(_) if flags & O_EXCL != 0 => Err(Errno::EEXIST),
                Ok(there) if flags & O_TRUNC != 0 => {
                    tree.content(there).map(|content| content.set_len(0)).map(|()| there)
                }
                Ok(there) => Ok(there),
                Err(Errno::ENOENT) => tree.make_named(parent, name, &making, file),
                Err(error) => Err(error),
            },
        };
        match node.and_then(|number| tree.looked_up(number, self.timeout)) {
            Ok(entry) => reply.created(&entry, FileHandle(entry.node.0), OpenFlags::KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    /// Operations that create a node or a name.
    fn make(&self, request: &Request, reply: Reply) {
        let parent = request.node().0;
        let making = |mode, rdev| Making { mode, rdev, uid: request.uid(), gid: request.gid() };
        self.answer_entry(reply, |tree| match request.operation() {
            FileOperation::Symlink { name, target } => {
                let body = Body::Link(target.to_owned());
                tree.make_named(parent, name, &making(LINK | 0o777, 0), body)
            }
            FileOperation::MkNod { name, mode, rdev, umask } => {
                let is_file = mode & KIND == REGULAR;
                let body = if is_file { Body::File(Content::default()) } else { Body::Other };
                tree.make_named(parent, name, &making(mode & !(umask & 0o777), rdev), body)
            }
            FileOperation::MkDir { name, mode, umask } => {
                let mode = DIRECTORY | (mode & !umask & 0o7777);
                let body = Body::Directory(Directory::new(parent));
                tree.make_named(parent, name, &making(mode, 0), body)
            }
            FileOperation::Link { target, name } => tree.link(parent, name, target.0),
            _ => Err(Errno::ENOSYS),
        });
    }

    /// Operations that read names.
    fn names(&self, node: u64, operation: &FileOperation<'_>, reply: Reply) {
        let names = match *operation {
            FileOperation::ReadDir { offset, size, .. } => self.read().names(node, offset, size),
            FileOperation::ReadDirPlus { offset, size, .. } => {
                self.write().names_plus(node, offset, size, self.timeout)
            }
            FileOperation::Lookup { name } => {
                let mut tree = self.write();
                let found = tree.lookup(node, name);
                return match found.and_then(|it| tree.looked_up(it, self.timeout)) {
                    Ok(entry) => reply.entry(&entry),
                    Err(Errno::ENOENT) => reply.no_entry(self.timeout),
                    Err(error) => reply.error(error),
                };
            }
            FileOperation::ReadLink => {
                return match self.read().get(node).map(|node| &node.body) {
                    Ok(Body::Link(target)) => reply.target(target),
                    Ok(_) => reply.error(Errno::EINVAL),
                    Err(error) => reply.error(error),
                };
            }
            _ => Err(Errno::ENOSYS),
        };
        match names {
            Ok(names) => reply.directory(&names),
            Err(error) => reply.error(error),
        }
    }

    /// Operations that open files.
    fn open(&self, request: &Request, reply: Reply) {
        let handle = FileHandle(request.node().0);
        match request.operation() {
            FileOperation::OpenDir { .. } => reply.opened(handle, OpenFlags::none()),
            FileOperation::Open { flags, kill_suidgid } if flags & O_TRUNC != 0 => {
                let changes =
                    AttributeChanges { size_bytes: Some(0), kill_suidgid, ..Default::default() };
                match self.write().change(request.node().0, &changes) {
                    Ok(()) => reply.opened(handle, OpenFlags::KEEP_CACHE),
                    Err(error) => reply.error(error),
                }
            }
            FileOperation::Open { .. } => reply.opened(handle, OpenFlags::KEEP_CACHE),
            FileOperation::Create { name, flags, mode, umask, .. } => {
                self.create(request, reply, Some(name), flags, mode & !umask);
            }
            FileOperation::TmpFile { flags, mode, umask } => {
                self.create(request, reply, None, flags, mode & !umask);
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn xattrs(&self, node: u64, operation: &FileOperation<'_>, reply: Reply) {
        match *operation {
            FileOperation::SetXattr { name, value, flags, .. } => {
                let mut tree = self.write();
                let done = tree.node(node).and_then(|node| {
                    match (flags, node.xattrs.contains_key(name)) {
                        (1, true) => return Err(Errno::EEXIST),
                        (2, false) => return Err(Errno::ENODATA),
                        _ => {}
                    }
                    node.xattrs.insert(name.to_owned(), value.to_owned());
                    Ok(())
                });
                Self::answer(reply, done);
            }
            FileOperation::GetXattr { name, size } => {
                let tree = self.read();
                let node = tree.get(node);
                match node.and_then(|node| node.xattrs.get(name).ok_or(Errno::ENODATA)) {
                    Ok(value) => answer_bytes(reply, value, size),
                    Err(error) => reply.error(error),
                }
            }
            FileOperation::ListXattr { size } => {
                let tree = self.read();
                let Ok(node) = tree.get(node) else { return reply.error(Errno::ESTALE) };
                let mut names = Vec::new();
                for name in node.xattrs.keys() {
                    names.extend_from_slice(name.as_bytes());
                    names.push(0);
                }
                answer_bytes(reply, &names, size);
            }
            FileOperation::RemoveXattr { name } => {
                let mut tree = self.write();
                let removed = tree.node(node).map(|node| node.xattrs.remove(name));
                let removed = removed.and_then(|before| before.ok_or(Errno::ENODATA));
                Self::answer(reply, removed.map(drop));
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    /// Operations on the content of files.
    fn bytes(&self, node: u64, operation: &FileOperation<'_>, reply: Reply) {
        match *operation {
            FileOperation::Read { offset, size, .. } => {
                let tree = self.read();
                match tree.get(node).map(|node| &node.body) {
                    Ok(Body::File(content)) => reply.data(&content.read(offset, size)),
                    Ok(_) => reply.error(Errno::EINVAL),
                    Err(error) => reply.error(error),
                }
            }
            FileOperation::Write { offset, data, flags, kill_suidgid, from_page_cache, .. } => {
                let mut tree = self.write();
                let end = tree.content(node).map(|content| content.len());
                let appends = flags & O_APPEND != 0 && !from_page_cache;
                let offset = end.map(|end| if appends { end } else { offset });
                let done = offset.and_then(|at| tree.write(node, at, data, kill_suidgid));
                drop(tree);
                match done {
                    Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
                    Err(error) => reply.error(error),
                }
            }
            FileOperation::FAllocate { offset, length, mode, .. } => {
                Self::answer(reply, self.write().allocate(node, offset, length, mode));
            }
            FileOperation::LSeek { offset, whence, .. } => {
                let found = self.write().content(node).map(|it| it.seek(offset, whence == 3));
                match found.and_then(|found| found.ok_or(Errno::ENXIO)) {
                    Ok(offset) => reply.seeked(offset),
                    Err(error) => reply.error(error),
                }
            }
            FileOperation::CopyFileRange { offset, target, target_offset, length, .. } => {
                let mut tree = self.write();
                let size = u32::try_from(length).unwrap_or(1 << 30).min(1 << 30);
                let slices = tree.content(node).map(|content| content.read(offset, size));
                let bytes = slices
                    .map(|slices| slices.iter().flat_map(|it| it.to_vec()).collect::<Vec<u8>>());
                match bytes.and_then(|bytes| {
                    tree.write(target.0, target_offset, &bytes, false).map(|()| bytes.len())
                }) {
                    Ok(copied) => reply.copied(copied as u64),
                    Err(error) => reply.error(error),
                }
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    /// Operations on locks, and closes, which end locks.
    fn lock(&self, node: NodeId, operation: &FileOperation<'_>, reply: Reply) {
        match *operation {
            FileOperation::GetLk(asked) => self.locks.get(node, &asked, reply),
            FileOperation::SetLk(asked) => self.locks.set(node, asked, reply),
            FileOperation::SetLkW(asked) => self.locks.set_and_wait(node, asked, reply),
            FileOperation::Flush { lock_owner, .. } => {
                self.locks.release(node, lock_owner, false);
                reply.ok();
            }
            FileOperation::Release { lock_owner, flock_unlock, .. } => {
                if flock_unlock {
                    self.locks.release(node, lock_owner, true);
                }
                reply.ok();
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    /// Operations on attributes and on the whole mount.
    fn attributes(&self, node: u64, operation: &FileOperation<'_>, reply: Reply) {
        match operation {
            FileOperation::GetAttr { .. } => match self.read().attributes(node) {
                Ok(attributes) => reply.attributes(&attributes, self.timeout),
                Err(error) => reply.error(error),
            },
            FileOperation::StatX { .. } => {
                let tree = self.read();
                let birth = tree.get(node).map(|node| node.birth);
                match birth.and_then(|birth| Ok((birth, tree.attributes(node)?))) {
                    Ok((birth, it)) => reply.statx(&it, Some(birth), self.timeout),
                    Err(error) => reply.error(error),
                }
            }
            FileOperation::SetAttr(changes) => {
                let mut tree = self.write();
                match tree.change(node, changes).and_then(|()| tree.attributes(node)) {
                    Ok(attributes) => reply.attributes(&attributes, self.timeout),
                    Err(error) => reply.error(error),
                }
            }
            FileOperation::StatFs => reply.statfs(&FileSystemSpace {
                blocks: 1 << 30,
                blocks_free: 1 << 29,
                blocks_available: 1 << 29,
                nodes: 1 << 40,
                nodes_free: (1 << 40) - self.read().nodes.len() as u64,
                block_bytes: 4096,
                fragment_bytes: 4096,
                name_bytes_max: 255,
            }),
            _ => reply.error(Errno::ENOSYS),
        }
    }
}

fn answer_bytes(reply: Reply, bytes: &[u8], size: u32) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    match size {
        0 => reply.xattr_size(length),
        size if size < length => reply.error(Errno::ERANGE),
        _ => reply.xattr(bytes),
    }
}

impl FileSystem for NullFiles {
    fn handle(&self, request: Request, reply: Reply) {
        let (node, operation) = (request.node().0, request.operation());
        match operation {
            FileOperation::Unlink { name } => {
                Self::answer(reply, self.write().remove(node, name, false));
            }
            FileOperation::RmDir { name } => {
                Self::answer(reply, self.write().remove(node, name, true));
            }
            FileOperation::Rename { name, new_parent, new_name, flags } => {
                let to = (new_parent.0, new_name);
                Self::answer(reply, self.write().rename((node, name), to, flags));
            }
            FileOperation::FSync { .. }
            | FileOperation::FSyncDir { .. }
            | FileOperation::ReleaseDir { .. }
            | FileOperation::Access { .. } => reply.ok(),
            FileOperation::Open { .. }
            | FileOperation::Create { .. }
            | FileOperation::TmpFile { .. }
            | FileOperation::OpenDir { .. } => self.open(&request, reply),
            FileOperation::Lookup { .. }
            | FileOperation::ReadLink
            | FileOperation::ReadDir { .. }
            | FileOperation::ReadDirPlus { .. } => self.names(node, &operation, reply),
            FileOperation::MkNod { .. }
            | FileOperation::MkDir { .. }
            | FileOperation::Link { .. }
            | FileOperation::Symlink { .. } => self.make(&request, reply),
            FileOperation::SetXattr { .. }
            | FileOperation::GetXattr { .. }
            | FileOperation::ListXattr { .. }
            | FileOperation::RemoveXattr { .. } => self.xattrs(node, &operation, reply),
            FileOperation::GetLk(_)
            | FileOperation::SetLk(_)
            | FileOperation::SetLkW(_)
            | FileOperation::Flush { .. }
            | FileOperation::Release { .. } => self.lock(request.node(), &operation, reply),
            FileOperation::Read { .. }
            | FileOperation::Write { .. }
            | FileOperation::FAllocate { .. }
            | FileOperation::LSeek { .. }
            | FileOperation::CopyFileRange { .. } => self.bytes(node, &operation, reply),
            _ => self.attributes(node, &operation, reply),
        }
    }

    fn forget(&self, nodes: Forgotten<'_>) {
        let mut tree = self.write();
        for (NodeId(number), lookups) in nodes {
            if let Some(node) = tree.nodes.get_mut(&number) {
                node.lookups = node.lookups.saturating_sub(lookups);
                tree.bury(number);
            }
        }
    }

    fn destroyed(&self) {}
}
