//! A model of both views of a volume: a tree in memory, as simple as possible.

use std::collections::BTreeMap;

use namespace::{FsError, NodeName, RenameMode};
use record::{Ino, Kind};

use crate::acts::{Act, LONG, Prepared, What};
use crate::world::{B, C, at};

/// The part of a node that depends on its kind.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Directory(Directory),
    File {
        size: u64,
        /// True if the file is self-contained and is deleted at once with its only name.
        self_contained: bool,
    },
    Symlink,
    Fifo,
}

#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) parent: Ino,
    made: bool,
    /// All nodes but directories.
    files: BTreeMap<Vec<u8>, Ino>,
    pub(crate) directories: BTreeMap<Vec<u8>, Ino>,
}

/// A file or directory.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) body: Body,
    pub(crate) bucket: Ino,
    /// The number of names of a node that is not a directory.
    pub(crate) links: u32,
    /// True if it was created unlinked, and may be linked.
    nameless: bool,
    xattr: bool,
}

impl Node {
    pub(crate) fn kind(&self) -> Kind {
        match self.body {
            Body::Directory(_) => Kind::Directory,
            Body::File { .. } => Kind::File,
            Body::Symlink => Kind::Symlink,
            Body::Fifo => Kind::Special,
        }
    }

    fn is_directory(&self) -> bool {
        self.kind() == Kind::Directory
    }

    pub(crate) fn size(&self) -> u64 {
        if let Body::File { size, .. } = self.body { size } else { 0 }
    }

    fn clear_mark(&mut self) {
        if let Body::File { self_contained, .. } = &mut self.body {
            *self_contained = false;
        }
    }
}

/// A volume.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) nodes: BTreeMap<Ino, Node>,
    /// Inode numbers of removed nodes.
    pub(crate) gone: Vec<Ino>,
}

type Done = Result<(), FsError>;

impl Model {
    pub(crate) fn new() -> Model {
        let mut model = Model { nodes: BTreeMap::new(), gone: Vec::new() };
        for bucket in [B, C] {
            let body = directory(Ino::ROOT, true);
            let node = Node { body, bucket, links: 0, nameless: false, xattr: false };
            model.nodes.insert(bucket, node);
        }
        model
    }

    pub(crate) fn directory(&self, ino: Ino) -> Result<&Directory, FsError> {
        match self.nodes.get(&ino).map(|node| &node.body) {
            Some(Body::Directory(directory)) => Ok(directory),
            Some(_) => Err(FsError::NotADirectory),
            None if ino == Ino::ROOT => Err(FsError::OnlyBuckets),
            None => Err(FsError::Stale),
        }
    }

    fn directory_mut(&mut self, ino: Ino) -> &mut Directory {
        match self.nodes.get_mut(&ino).map(|node| &mut node.body) {
            Some(Body::Directory(directory)) => directory,
            _ => panic!("{ino:?} is no directory"),
        }
    }

    fn node(&mut self, ino: Ino) -> Result<&mut Node, FsError> {
        self.nodes.get_mut(&ino).ok_or(FsError::Stale)
    }

    pub(crate) fn find(&self, name: &NodeName) -> Option<Ino> {
        let directory = self.directory(name.directory).ok()?;
        let found = directory.directories.get(&name.name);
        found.or_else(|| directory.files.get(&name.name)).copied()
    }

    /// The names of a directory for file programs, in the order of their dentries.
    pub(crate) fn names(&self, ino: Ino) -> Vec<(Vec<u8>, Ino, Kind)> {
        let directory = self.directory(ino).unwrap();
        let files = directory
            .files
            .iter()
            .filter(|(name, _)| !directory.directories.contains_key(*name) && !name.is_empty());
        let sorted =
            directory.directories.iter().map(|(name, ino)| ([name, &b"/"[..]].concat(), ino));
        let mut all: BTreeMap<Vec<u8>, Ino> = sorted.map(|(name, ino)| (name, *ino)).collect();
        all.extend(files.map(|(name, ino)| (name.clone(), *ino)));
        let plain = |name: Vec<u8>| name.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(name);
        let all = all.into_iter().map(|(name, ino)| (plain(name), ino, self.nodes[&ino].kind()));
        all.filter(|(name, ..)| !matches!(&name[..], b"" | b"." | b"..")).collect()
    }

    /// The names of a node that is not a directory, including hidden ones.
    fn names_of(&self, ino: Ino) -> Vec<NodeName> {
        let mut names = Vec::new();
        for (directory, node) in &self.nodes {
            if let Body::Directory(names_there) = &node.body {
                let found = names_there.files.iter().filter(|(_, found)| **found == ino);
                names.extend(found.map(|(name, _)| at(*directory, name)));
            }
        }
        names
    }

    pub(crate) fn known_name(&self, ino: Ino) -> Option<NodeName> {
        self.names_of(ino).pop()
    }

    /// The keys below a directory, with their sizes.
    pub(crate) fn objects(&self, ino: Ino) -> Vec<(Vec<u8>, u64)> {
        let mut objects = Vec::new();
        self.collect(ino, b"", &mut objects);
        objects.retain(|(key, _)| std::str::from_utf8(key).is_ok());
        objects.sort();
        objects
    }

    fn collect(&self, ino: Ino, prefix: &[u8], to: &mut Vec<(Vec<u8>, u64)>) {
        let directory = self.directory(ino).unwrap();
        let empty = directory.files.is_empty() && directory.directories.is_empty();
        if empty && !prefix.is_empty() {
            to.push((prefix.to_vec(), 0));
        }
        for (name, ino) in &directory.files {
            let node = &self.nodes[ino];
            if node.kind() == Kind::File {
                to.push(([prefix, name].concat(), node.size()));
            }
        }
        for (name, ino) in &directory.directories {
            self.collect(*ino, &[prefix, name, b"/"].concat(), to);
        }
    }

    /// Applies an operation to the model.
    pub(crate) fn apply(&mut self, prepared: &Prepared) -> Done {
        let ino = prepared.ino;
        match &prepared.act {
            Act::Make { name, what } => self.make(name, *what, ino),
            Act::MakeNameless(directory) => {
                self.directory(*directory)?;
                let bucket = self.nodes[directory].bucket;
                let body = Body::File { size: 7, self_contained: false };
                let node = Node { body, bucket, links: 0, nameless: true, xattr: false };
                self.nodes.insert(ino, node);
                Ok(())
            }
            Act::Unlink(name) => self.unlink(name),
            Act::Rmdir(name) => self.rmdir(name),
            Act::Rename { from, to, mode } => self.rename(from, to, *mode),
            Act::Link { ino, to, .. } => self.link(*ino, to),
            Act::Chmod(ino) | Act::Touch(ino) | Act::Look(ino) => self.node(*ino).map(drop),
            Act::Xattr { ino, length, .. } => self.xattr(*ino, *length),
            Act::Write { ino, size, .. } => self.write(*ino, *size as u64),
            Act::Truncate { ino, size, .. } => self.write(*ino, *size),
            Act::Find(name) => self.find(name).map(drop).ok_or(FsError::NoSuchKey),
            Act::Names(_) => Ok(()),
            Act::Put { object, size } => {
                self.put(object, *size as u64, ino, &prepared.fresh);
                Ok(())
            }
            Act::Delete(objects) => {
                objects.iter().for_each(|object| self.delete(object));
                Ok(())
            }
            Act::DropBucket => panic!("the buckets of a model stay"),
        }
    }

    fn bind(&mut self, name: &NodeName, ino: Ino) {
        let kind = self.nodes[&ino].kind();
        let directory = self.directory_mut(name.directory);
        if kind == Kind::Directory {
            directory.directories.insert(name.name.clone(), ino);
            self.directory_mut(ino).parent = name.directory;
        } else {
            directory.files.insert(name.name.clone(), ino);
        }
    }

    fn unbind(&mut self, name: &NodeName, kind: Kind) {
        let directory = self.directory_mut(name.directory);
        let names =
            if kind == Kind::Directory { &mut directory.directories } else { &mut directory.files };
        names.remove(&name.name).expect("a name that is there");
    }

    /// Removes one name of a node that is already unbound.
    fn release(&mut self, ino: Ino) {
        let node = self.nodes.get_mut(&ino).expect("a node");
        node.links -= 1;
        if matches!(node.body, Body::File { self_contained: true, .. }) {
            self.forget(ino);
        }
    }

    fn forget(&mut self, ino: Ino) {
        self.nodes.remove(&ino);
        self.gone.push(ino);
    }

    fn make(&mut self, name: &NodeName, what: What, ino: Ino) -> Done {
        self.directory(name.directory)?;
        if self.find(name).is_some() {
            return Err(FsError::NameExists);
        }
        let body = match what {
            What::Directory => directory(name.directory, true),
            What::File(size) => Body::File { size: size as u64, self_contained: false },
            What::Symlink => Body::Symlink,
            What::Fifo => Body::Fifo,
        };
        let bucket = self.nodes[&name.directory].bucket;
        self.nodes.insert(ino, Node { body, bucket, links: 1, nameless: false, xattr: false });
        self.bind(name, ino);
        Ok(())
    }

    fn unlink(&mut self, name: &NodeName) -> Done {
        self.directory(name.directory)?;
        let ino = self.find(name).ok_or(FsError::NoSuchKey)?;
        let kind = self.nodes[&ino].kind();
        if kind == Kind::Directory {
            return Err(FsError::IsADirectory);
        }
        self.unbind(name, kind);
        self.release(ino);
        Ok(())
    }

    fn rmdir(&mut self, name: &NodeName) -> Done {
        self.directory(name.directory)?;
        let ino = self.find(name).ok_or(FsError::NoSuchKey)?;
        self.directory(ino)?;
        self.empty(ino)?;
        self.unbind(name, Kind::Directory);
        self.forget(ino);
        Ok(())
    }

    /// Removes the directory object of a directory, if that is its only name.
    fn empty(&mut self, ino: Ino) -> Done {
        let directory = self.directory(ino)?;
        let others = directory.files.keys().any(|name| !name.is_empty());
        if others || !directory.directories.is_empty() {
            return Err(FsError::DirectoryNotEmpty);
        }
        if let Some(marker) = self.directory_mut(ino).files.remove(&b""[..]) {
            self.release(marker);
        }
        Ok(())
    }

    /// Returns true if a directory is another one, or below it.
    fn is_within(&self, mut ino: Ino, other: Ino) -> bool {
        while ino != Ino::ROOT {
            if ino == other {
                return true;
            }
            ino = self.directory(ino).unwrap().parent;
        }
        false
    }

    fn rename(&mut self, from: &NodeName, to: &NodeName, mode: RenameMode) -> Done {
        self.directory(from.directory)?;
        self.directory(to.directory)?;
        let source = self.find(from).ok_or(FsError::NoSuchKey)?;
        let target = self.find(to);
        if self.nodes[&from.directory].bucket != self.nodes[&to.directory].bucket {
            return Err(FsError::OtherBucket);
        }
        match (target, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(FsError::NameExists),
            (Some(target), _) if target == source => return Ok(()),
            (None, RenameMode::Exchange) => return Err(FsError::NoSuchKey),
            _ => {}
        }
        let kind = self.nodes[&source].kind();
        if kind == Kind::Directory && self.is_within(to.directory, source) {
            return Err(FsError::BelowItself);
        }
        let Some(target) = target else {
            self.unbind(from, kind);
            self.move_to(to, source);
            return Ok(());
        };
        let target_kind = self.nodes[&target].kind();
        let directories = [kind, target_kind].map(|kind| kind == Kind::Directory);
        if mode == RenameMode::Exchange {
            if directories[1] && self.is_within(from.directory, target) {
                return Err(FsError::BelowItself);
            }
            let behind = match directories {
                [true, false] => self.directory(from.directory)?.files.contains_key(&from.name),
                [false, true] => self.directory(to.directory)?.files.contains_key(&to.name),
                _ => false,
            };
            if behind {
                return Err(FsError::NameExists);
            }
            self.unbind(from, kind);
            self.unbind(to, target_kind);
            self.move_to(to, source);
            self.move_to(from, target);
            return Ok(());
        }
        match directories {
            [true, false] => return Err(FsError::NotADirectory),
            [false, true] => return Err(FsError::IsADirectory),
            [true, true] => self.empty(target)?,
            [false, false] => {}
        }
        self.unbind(to, target_kind);
        if directories[1] {
            self.forget(target);
        } else {
            self.release(target);
        }
        self.unbind(from, kind);
        self.move_to(to, source);
        Ok(())
    }

    /// Binds a node to a new name, without the mark "self-contained".
    fn move_to(&mut self, name: &NodeName, ino: Ino) {
        self.bind(name, ino);
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.clear_mark();
        }
    }

    fn link(&mut self, ino: Ino, to: &NodeName) -> Done {
        self.directory(to.directory)?;
        let node = self.nodes.get(&ino).ok_or(FsError::Stale)?;
        if node.is_directory() {
            return Err(FsError::LinkedDirectory);
        }
        if node.bucket != self.nodes[&to.directory].bucket {
            return Err(FsError::OtherBucket);
        }
        if self.find(to).is_some() {
            return Err(FsError::NameExists);
        }
        if node.links == 0 && !node.nameless {
            return Err(FsError::NoSuchKey);
        }
        let node = self.node(ino)?;
        node.links += 1;
        node.nameless = false;
        node.clear_mark();
        self.bind(to, ino);
        Ok(())
    }

    fn xattr(&mut self, ino: Ino, length: usize) -> Done {
        let node = self.node(ino)?;
        if length == 0 && !node.xattr {
            return Err(FsError::NoSuchAttribute);
        }
        node.xattr = length > 0;
        if length >= LONG {
            node.clear_mark();
            if let Body::Directory(directory) = &mut node.body {
                directory.made = true;
            }
        }
        Ok(())
    }

    fn write(&mut self, ino: Ino, to: u64) -> Done {
        let node = self.node(ino)?;
        node.clear_mark();
        let Body::File { size, .. } = &mut node.body else { return Err(FsError::IsADirectory) };
        *size = to;
        Ok(())
    }

    fn put(&mut self, object: &[u8], size: u64, ino: Ino, fresh: &[Ino]) {
        let mut parts: Vec<&[u8]> = object.split(|byte| *byte == b'/').collect();
        let name = parts.pop().unwrap();
        let mut parent = B;
        for (part, fresh) in parts.iter().zip(fresh) {
            let found = self.directory(parent).unwrap().directories.get(*part).copied();
            parent = found.unwrap_or_else(|| {
                let body = directory(parent, false);
                let node = Node { body, bucket: B, links: 0, nameless: false, xattr: false };
                self.nodes.insert(*fresh, node);
                self.bind(&at(parent, part), *fresh);
                *fresh
            });
        }
        let body = Body::File { size, self_contained: true };
        self.nodes.insert(ino, Node { body, bucket: B, links: 1, nameless: false, xattr: false });
        if let Some(old) = self.directory_mut(parent).files.insert(name.to_vec(), ino) {
            self.release(old);
        }
    }

    fn delete(&mut self, object: &[u8]) {
        let mut parts: Vec<&[u8]> = object.split(|byte| *byte == b'/').collect();
        let name = parts.pop().unwrap();
        let mut way = vec![B];
        for part in &parts {
            let directory = self.directory(way[way.len() - 1]).unwrap();
            let Some(next) = directory.directories.get(*part) else { return };
            way.push(*next);
        }
        let last = way[way.len() - 1];
        let Some(ino) = self.directory(last).unwrap().files.get(name).copied() else { return };
        if self.nodes[&ino].kind() != Kind::File {
            return;
        }
        self.unbind(&at(last, name), Kind::File);
        self.release(ino);
        while let (Some(ino), Some(part)) = (way.pop(), parts.pop()) {
            let directory = self.directory(ino).unwrap();
            let empty = directory.files.is_empty() && directory.directories.is_empty();
            if directory.made || !empty {
                return;
            }
            let parent = directory.parent;
            self.unbind(&at(parent, part), Kind::Directory);
            self.forget(ino);
        }
    }
}

fn directory(parent: Ino, made: bool) -> Body {
    let (files, directories) = (BTreeMap::new(), BTreeMap::new());
    Body::Directory(Directory { parent, made, files, directories })
}
