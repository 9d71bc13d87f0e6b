//! The tree of names and nodes, and its operations.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuse::{
    AttributeChanges, DirectoryBuffer, DirectoryName, Errno, FileTime, NodeAttributes, NodeEntry,
    NodeId, TimeChange,
};

use super::content::Content;

pub(crate) const KIND: u32 = 0o170_000;
pub(crate) const DIRECTORY: u32 = 0o040_000;
pub(crate) const REGULAR: u32 = 0o100_000;
pub(crate) const LINK: u32 = 0o120_000;
const NAME_BYTES_MAX: usize = 255;

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: HashMap<u64, Node>,
    next: u64,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) attributes: NodeAttributes,
    pub(crate) birth: FileTime,
    pub(crate) body: Body,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
    pub(crate) lookups: u64,
}

#[derive(Debug)]
pub(crate) enum Body {
    File(Content),
    Directory(Directory),
    Link(OsString),
    Other,
}

#[derive(Debug)]
pub(crate) struct Directory {
    parent: u64,
    cookies: HashMap<OsString, u64>,
    names: BTreeMap<u64, (OsString, u64)>,
    next: u64,
}

/// Returns the present time.
#[expect(clippy::disallowed_methods, reason = "an example has no clock to be given")]
pub(crate) fn now() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    FileTime { seconds, nanoseconds: since.subsec_nanos() }
}

impl Directory {
    pub(crate) fn new(parent: u64) -> Directory {
        // Cookies 1 and 2 are those of `.` and `..`.
        Directory { parent, cookies: HashMap::new(), names: BTreeMap::new(), next: 3 }
    }

    fn get(&self, name: &OsStr) -> Option<u64> {
        self.cookies.get(name).map(|cookie| self.names[cookie].1)
    }

    pub(crate) fn insert(&mut self, name: &OsStr, node: u64) {
        self.remove(name);
        self.cookies.insert(name.to_owned(), self.next);
        self.names.insert(self.next, (name.to_owned(), node));
        self.next += 1;
    }

    fn remove(&mut self, name: &OsStr) -> Option<u64> {
        let cookie = self.cookies.remove(name)?;
        self.names.remove(&cookie).map(|(_, node)| node)
    }
}

/// The owner and the permissions of a new node.
pub(crate) struct Making {
    pub(crate) mode: u32,
    pub(crate) rdev: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        let mut tree = Tree { nodes: HashMap::new(), next: 1 };
        let making = Making { mode: DIRECTORY | 0o755, rdev: 0, uid: 0, gid: 0 };
        let root = tree.make(&making, Body::Directory(Directory::new(1)));
        tree.node(root).expect("it was just made").attributes.links = 2;
        tree
    }

    pub(crate) fn make(&mut self, making: &Making, body: Body) -> u64 {
        let number = self.next;
        self.next += 1;
        let time = now();
        let attributes = NodeAttributes {
            inode: number,
            atime: time,
            mtime: time,
            ctime: time,
            mode: making.mode,
            uid: making.uid,
            gid: making.gid,
            rdev: making.rdev,
            block_bytes: 4096,
            size_bytes: if let Body::Link(target) = &body { target.len() as u64 } else { 0 },
            ..NodeAttributes::default()
        };
        let xattrs = BTreeMap::new();
        let node = Node { attributes, birth: time, body, xattrs, lookups: 0 };
        self.nodes.insert(number, node);
        number
    }

    pub(crate) fn get(&self, number: u64) -> Result<&Node, Errno> {
        self.nodes.get(&number).ok_or(Errno::ESTALE)
    }

    pub(crate) fn node(&mut self, number: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number).ok_or(Errno::ESTALE)
    }

    pub(crate) fn directory(&self, number: u64) -> Result<&Directory, Errno> {
        match &self.get(number)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn directory_mut(&mut self, number: u64) -> Result<&mut Directory, Errno> {
        let node = self.node(number)?;
        let Body::Directory(directory) = &mut node.body else { return Err(Errno::ENOTDIR) };
        let time = now();
        (node.attributes.mtime, node.attributes.ctime) = (time, time);
        Ok(directory)
    }

    pub(crate) fn content(&mut self, number: u64) -> Result<&mut Content, Errno> {
        match &mut self.node(number)?.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn lookup(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.directory(parent)?.get(name).ok_or(Errno::ENOENT)
    }

    pub(crate) fn attributes(&self, number: u64) -> Result<NodeAttributes, Errno> {
        let node = self.get(number)?;
        let (size_bytes, blocks) = match &node.body {
            Body::File(content) => (content.len(), content.blocks()),
            _ => (node.attributes.size_bytes, 0),
        };
        Ok(NodeAttributes { size_bytes, blocks, ..node.attributes })
    }

    fn is_directory(&self, number: u64) -> bool {
        matches!(self.nodes.get(&number), Some(Node { body: Body::Directory(_), .. }))
    }

    /// Creates a node with a name.
    pub(crate) fn make_named(
        &mut self,
        parent: u64,
        name: &OsStr,
        making: &Making,
        body: Body,
    ) -> Result<u64, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let directory = self.get(parent)?;
        // A directory with the set-group-ID bit passes its group to new nodes.
        let inherits = directory.attributes.mode & 0o2000 != 0;
        let gid = if inherits { directory.attributes.gid } else { making.gid };
        match self.lookup(parent, name) {
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        let is_directory = matches!(body, Body::Directory(_));
        let suffix = if inherits && is_directory { 0o2000 } else { 0 };
        let making = Making { gid, mode: making.mode | suffix, ..*making };
        let number = self.make(&making, body);
        self.directory_mut(parent)?.insert(name, number);
        self.node(number)?.attributes.links = if is_directory { 2 } else { 1 };
        self.node(parent)?.attributes.links += u32::from(is_directory);
        Ok(number)
    }

    /// Adds a name to a node.
    pub(crate) fn link(&mut self, parent: u64, name: &OsStr, target: u64) -> Result<u64, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if self.lookup(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let attributes = &mut self.node(target)?.attributes;
        attributes.links += 1;
        attributes.ctime = now();
        self.directory_mut(parent)?.insert(name, target);
        Ok(target)
    }

    /// Removes a name. The node is removed if it was the last one and the kernel does not cache it.
    fn unbound(&mut self, number: u64, names: u32) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.attributes.links = node.attributes.links.saturating_sub(names);
            node.attributes.ctime = now();
        }
        self.bury(number);
    }

    pub(crate) fn bury(&mut self, number: u64) {
        let dead = |node: &Node| node.attributes.links == 0 && node.lookups == 0;
        if number != NodeId::ROOT.0 && self.nodes.get(&number).is_some_and(dead) {
            self.nodes.remove(&number);
        }
    }

    pub(crate) fn remove(
        &mut self,
        parent: u64,
        name: &OsStr,
        directory: bool,
    ) -> Result<(), Errno> {
        let number = self.lookup(parent, name)?;
        match (directory, &self.get(number)?.body) {
            (true, Body::Directory(inner)) if inner.names.is_empty() => {}
            (true, Body::Directory(_)) => return Err(Errno::ENOTEMPTY),
            (true, _) => return Err(Errno::ENOTDIR),
            (false, Body::Directory(_)) => return Err(Errno::EISDIR),
            (false, _) => {}
        }
        self.directory_mut(parent)?.remove(name);
        if directory {
            self.node(parent)?.attributes.links -= 1;
        }
        self.unbound(number, if directory { 2 } else { 1 });
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        flags: u32,
    ) -> Result<(), Errno> {
        const NOREPLACE: u32 = 1;
        const EXCHANGE: u32 = 2;
        if to.1.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let moved = self.lookup(from.0, from.1)?;
        let target = match self.lookup(to.0, to.1) {
            Ok(target) => Some(target),
            Err(Errno::ENOENT) => None,
            Err(error) => return Err(error),
        };
        match (flags, target) {
            (0 | NOREPLACE, None) => {}
            (0, Some(target)) if target == moved => return Ok(()),
            (0, Some(target)) => match (self.is_directory(moved), self.is_directory(target)) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                (is_directory, _) => self.remove(to.0, to.1, is_directory)?,
            },
            (NOREPLACE, Some(_)) => return Err(Errno::EEXIST),
            (EXCHANGE, Some(target)) => {
                self.directory_mut(from.0)?.remove(from.1);
                self.place(from, target, to.0)?;
            }
            (EXCHANGE, None) => return Err(Errno::ENOENT),
            _ => return Err(Errno::EINVAL),
        }
        if flags != EXCHANGE {
            self.directory_mut(from.0)?.remove(from.1);
        }
        self.place(to, moved, from.0)
    }

    /// Moves a name of a node to another directory.
    fn place(&mut self, to: (u64, &OsStr), number: u64, before: u64) -> Result<(), Errno> {
        self.directory_mut(to.0)?.insert(to.1, number);
        if self.is_directory(number) && to.0 != before {
            self.directory_mut(number)?.parent = to.0;
            self.node(before)?.attributes.links -= 1;
            self.node(to.0)?.attributes.links += 1;
        }
        self.node(number)?.attributes.ctime = now();
        Ok(())
    }

    pub(crate) fn change(&mut self, number: u64, changes: &AttributeChanges) -> Result<(), Errno> {
        let time = now();
        if let Some(size) = changes.size_bytes {
            self.content(number)?.set_len(size);
        }
        let node = self.node(number)?;
        let attributes = &mut node.attributes;
        let at = |change| match change {
            TimeChange::Now => time,
            TimeChange::At(time) => time,
        };
        attributes.ctime = changes.ctime.unwrap_or(time);
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
        attributes.atime = changes.atime.map_or(attributes.atime, at);
        let resized = changes.size_bytes.map(|_| time);
        attributes.mtime = changes.mtime.map(at).or(resized).unwrap_or(attributes.mtime);
        if let Some(mode) = changes.mode {
            attributes.mode = (attributes.mode & KIND) | (mode & !KIND);
        }
        if changes.kill_suidgid {
            kill_suidgid(attributes);
        }
        Ok(())
    }

    pub(crate) fn write(
        &mut self,
        number: u64,
        offset: u64,
        data: &[u8],
        kill: bool,
    ) -> Result<(), Errno> {
        self.content(number)?.write(offset, data);
        let attributes = &mut self.node(number)?.attributes;
        let time = now();
        (attributes.mtime, attributes.ctime) = (time, time);
        if kill {
            kill_suidgid(attributes);
        }
        Ok(())
    }

    pub(crate) fn allocate(
        &mut self,
        number: u64,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        const KEEP_SIZE: u32 = 1;
        const PUNCH_HOLE: u32 = 2;
        const ZERO_RANGE: u32 = 0x10;
        if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let content = self.content(number)?;
        if mode & KEEP_SIZE == 0 && end > content.len() {
            content.set_len(end);
        }
        if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
            content.zero(offset, length);
        }
        Ok(())
    }

    pub(crate) fn names(
        &self,
        number: u64,
        offset: u64,
        size: u32,
    ) -> Result<DirectoryBuffer, Errno> {
        let directory = self.directory(number)?;
        let mut buffer = DirectoryBuffer::new(size);
        for (cookie, inode, name) in dots(number, directory.parent, offset) {
            if !buffer.push(DirectoryName { inode, cookie, kind: 4, name }) {
                return Ok(buffer);
            }
        }
        for (&cookie, (name, inode)) in directory.names.range(offset + 1..) {
            let kind = self.get(*inode)?.attributes.directory_entry_kind();
            if !buffer.push(DirectoryName { inode: *inode, cookie, kind, name }) {
                break;
            }
        }
        Ok(buffer)
    }

    pub(crate) fn names_plus(
        &mut self,
        number: u64,
        offset: u64,
        size: u32,
        timeout: Duration,
    ) -> Result<DirectoryBuffer, Errno> {
        let directory = self.directory(number)?;
        let mut buffer = DirectoryBuffer::new(size);
        let mut looked_up = Vec::new();
        let mut full = false;
        for (cookie, inode, name) in dots(number, directory.parent, offset) {
            full |= !buffer.push_plus(None, DirectoryName { inode, cookie, kind: 4, name });
        }
        for (&cookie, (name, inode)) in directory.names.range(offset + 1..) {
            let entry = self.entry(*inode, timeout)?;
            let kind = entry.attributes.directory_entry_kind();
            let name = DirectoryName { inode: *inode, cookie, kind, name };
            if full || !buffer.push_plus(Some(&entry), name) {
                break;
            }
            looked_up.push(*inode);
        }
        for inode in looked_up {
            self.node(inode)?.lookups += 1;
        }
        Ok(buffer)
    }

    fn entry(&self, number: u64, timeout: Duration) -> Result<NodeEntry, Errno> {
        Ok(NodeEntry {
            node: NodeId(number),
            generation: 0,
            attributes: self.attributes(number)?,
            entry_timeout: timeout,
            attributes_timeout: timeout,
        })
    }

    /// Returns the entry of a node, and counts a lookup.
    pub(crate) fn looked_up(&mut self, number: u64, timeout: Duration) -> Result<NodeEntry, Errno> {
        self.node(number)?.lookups += 1;
        self.entry(number, timeout)
    }
}

fn dots(number: u64, parent: u64, offset: u64) -> impl Iterator<Item = (u64, u64, &'static OsStr)> {
    [(1, number, OsStr::new(".")), (2, parent, OsStr::new(".."))]
        .into_iter()
        .filter(move |(cookie, _, _)| *cookie > offset)
}

fn kill_suidgid(attributes: &mut NodeAttributes) {
    attributes.mode &= !0o4000;
    if attributes.mode & 0o010 != 0 {
        attributes.mode &= !0o2000;
    }
}
