//! One name of a fork: what it binds is made once more in the new bucket.
//!
//! A plan guards that the name binds what it was found to bind, and that this is as it was found. If
//! it is not, the name is looked at again. So each file is copied as of one instant.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use namespace::{
    Assumption, BoundName, DirectoryPage, ForkDirectory, ForkLink, ForkNode, ForkPlace, FsError,
    ReadDirectoryPage, build_content, fork_inode,
};
use record::{Content, File, Ino, Inode, PART_SUMS_PAGE, PartSums, XattrPlace, XattrValue, key};
use session::corrupt;
use store::{Key, Write};

use super::target::Target;
use crate::facade::copy::share;
use crate::facade::map_pages::read_records;
use crate::{Volume, VolumeError};

/// How often a name is looked at again because what it binds has changed meanwhile.
const ATTEMPTS_MAX: u32 = 64;

/// Inodes with several names that are remembered until all of these were met. Names of more become
/// files of their own.
const LINKED_COPIES_MAX: usize = 1 << 20;

/// The most long extended attributes that one plan carries, which is all that something may have to be
/// copied, and the most bytes of them.
const LONG_XATTRS_MAX: usize = 256;
const LONG_XATTRS_BYTES_MAX: u64 = 1 << 20;

/// The new inode that the names of one with several names bind, once one of them is there.
type LinkedCopy = Arc<tokio::sync::Mutex<Option<Ino>>>;

/// What all names of a fork share.
#[derive(Debug)]
pub(super) struct Fork {
    /// That the new bucket is as it was made.
    pub(super) bucket: Assumption,
    /// Directories that were made.
    pub(super) directories: AtomicU64,
    /// By the inode of the other bucket: the new one, and how many names are still to be met.
    linked_copies: Mutex<HashMap<Ino, (LinkedCopy, u32)>>,
}

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForkedEntry {
    /// A directory is there.
    Directory,
    /// It binds a new file of so many bytes.
    File(u64),
    /// It binds something else that is new.
    Other,
    /// It is one more name of something.
    Link,
    /// It has gone, or somebody else had made it in the new bucket.
    Skipped,
    /// What lies there was not copied: this path.
    Omitted(String),
}

/// What a file of another bucket consists of, for one of this number.
pub(in crate::facade) struct FileParts {
    /// `None` if the content is that of the other file.
    pub(in crate::facade) content: Option<Content>,
    /// Records that belong to the new file, and shares of blocks.
    pub(in crate::facade) writes: Vec<Write>,
}

impl Fork {
    /// Nothing is made yet but the bucket.
    pub(super) fn new(bucket: Assumption) -> Fork {
        Fork { bucket, directories: AtomicU64::new(0), linked_copies: Mutex::default() }
    }

    /// Where the names of an inode meet, which has so many; nowhere if too many are remembered.
    fn copy(&self, source: Ino, links: u32) -> Option<LinkedCopy> {
        let mut linked_copies = self.linked_copies.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = linked_copies.len() >= LINKED_COPIES_MAX;
        match linked_copies.entry(source) {
            Entry::Occupied(mut entry) => {
                let (copy, left) = entry.get_mut();
                let copy = Arc::clone(copy);
                *left = left.saturating_sub(1);
                if *left == 0 {
                    entry.remove();
                }
                Some(copy)
            }
            Entry::Vacant(_) if is_full => None,
            Entry::Vacant(entry) => {
                let copy = LinkedCopy::default();
                entry.insert((Arc::clone(&copy), links - 1));
                Some(copy)
            }
        }
    }
}

impl Volume {
    /// Makes a directory of the new bucket.
    pub(super) async fn fork_directory(
        &self,
        fork: &Fork,
        target: &Target,
    ) -> Result<ForkedEntry, VolumeError> {
        let (root, missing) = target.missing_directories();
        let directories: Vec<_> = missing.iter().filter_map(|target| target.directory()).collect();
        let place = ForkPlace { bucket: &fork.bucket, root, directories: &directories };
        match self.session.run(&ForkDirectory { place }).await {
            Ok(inos) => {
                note_inos(fork, &missing, &inos);
                Ok(ForkedEntry::Directory)
            }
            Err(VolumeError::Fs(FsError::Stale)) => Ok(ForkedEntry::Skipped),
            Err(VolumeError::Fs(FsError::Contended)) => {
                Ok(ForkedEntry::Omitted(target.path_of(b"")))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes what a name binds once more, in a directory of the new bucket. It is one of so many
    /// names of that.
    pub(super) async fn fork_name(
        &self,
        fork: &Fork,
        target: &Target,
        mut found: BoundName,
        links: u32,
    ) -> Result<ForkedEntry, VolumeError> {
        let source = found.dentry.ino;
        let copy = if links > 1 { fork.copy(source, links) } else { None };
        for _ in 0..ATTEMPTS_MAX {
            let copy = copy.as_ref().filter(|_| source == found.dentry.ino);
            let tried = match copy {
                Some(copy) => self.fork_linked(fork, target, &found, copy).await,
                None => self.fork_alone(fork, target, &found, false).await.map(|(named, _)| named),
            };
            match tried {
                Err(VolumeError::Fs(FsError::SourceChanged | FsError::Contended)) => {}
                // Somebody else has been in the new bucket.
                Err(VolumeError::Fs(FsError::NameExists | FsError::Stale)) => {
                    return Ok(ForkedEntry::Skipped);
                }
                // It has more attributes than one plan carries.
                Err(VolumeError::Refused(_)) => break,
                tried => return tried,
            }
            match self.reread_name(&found).await? {
                Some(newer) => found = newer,
                None => return Ok(ForkedEntry::Skipped),
            }
        }
        Ok(ForkedEntry::Omitted(target.path_of(found.sort_key())))
    }

    /// A name as it is now, if it is there.
    async fn reread_name(&self, found: &BoundName) -> Result<Option<BoundName>, VolumeError> {
        let directory = Ino(found.key.partition());
        let page = ReadDirectoryPage { directory, from: Some(found.sort_key()), limit: 1 };
        match self.session.run(&page).await {
            Ok(DirectoryPage { names, .. }) => {
                Ok(names.into_iter().next().filter(|name| name.key == found.key))
            }
            Err(VolumeError::Fs(FsError::Stale)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One name of something that has several: the first one makes it, the others are given to it.
    async fn fork_linked(
        &self,
        fork: &Fork,
        target: &Target,
        found: &BoundName,
        copy: &LinkedCopy,
    ) -> Result<ForkedEntry, VolumeError> {
        let mut copy = copy.lock().await;
        if let Some(ino) = *copy {
            let (root, missing) = target.missing_directories();
            let directories: Vec<_> =
                missing.iter().filter_map(|target| target.directory()).collect();
            let link = ForkLink {
                place: ForkPlace { bucket: &fork.bucket, root, directories: &directories },
                name: found.sort_key(),
                ino,
                assumptions: &[unchanged(&found.key, &found.value)],
            };
            match self.session.run(&link).await {
                Ok(inos) => {
                    note_inos(fork, &missing, &inos);
                    return Ok(ForkedEntry::Link);
                }
                // Somebody has removed it from the new bucket: it is made again.
                Err(VolumeError::Fs(FsError::NoSuchKey)) => {}
                Err(error) => return Err(error),
            }
        }
        let (named, ino) = self.fork_alone(fork, target, found, true).await?;
        *copy = Some(ino);
        Ok(named)
    }

    /// Makes something new of what a name binds. Answers with its number, too.
    async fn fork_alone(
        &self,
        fork: &Fork,
        target: &Target,
        found: &BoundName,
        linked: bool,
    ) -> Result<(ForkedEntry, Ino), VolumeError> {
        let (Some(source), Some(record)) = (decode(found)?, &found.inode) else {
            return Err(FsError::SourceChanged.into());
        };
        let [ino] = self.fresh().await?;
        let source_key = key::inode(found.dentry.ino);
        let assumptions = [unchanged(&found.key, &found.value), unchanged(&source_key, record)];
        let FileParts { content, writes } = match source.file() {
            Some(file) => self.file_parts(found.dentry.ino, file, ino).await?,
            None => FileParts { content: None, writes: Vec::new() },
        };
        let Some(long) = self.long_xattrs(found.dentry.ino, &source, ino).await? else {
            return Err(FsError::SourceChanged.into());
        };
        let inode = fork_inode(&source, content);
        let named = inode.file().map_or(ForkedEntry::Other, |file| ForkedEntry::File(file.size));
        let staged = self.stage(ino, &assumptions, writes).await?;
        let writes = [staged.writes(), &long].concat();
        let (root, missing) = target.missing_directories();
        let directories: Vec<_> = missing.iter().filter_map(|target| target.directory()).collect();
        let operation = ForkNode {
            place: ForkPlace { bucket: &fork.bucket, root, directories: &directories },
            name: found.sort_key(),
            ino,
            inode: &inode,
            linked,
            assumptions: &assumptions,
            writes: &writes,
        };
        match self.session.run(&operation).await {
            Ok(inos) => {
                note_inos(fork, &missing, &inos);
                Ok((named, ino))
            }
            Err(error) => {
                self.unstage(staged, &error).await;
                Err(error)
            }
        }
    }

    /// What a file consists of, for another one of the number `ino`. No data moves.
    pub(in crate::facade) async fn file_parts(
        &self,
        source: Ino,
        file: &File,
        ino: Ino,
    ) -> Result<FileParts, VolumeError> {
        let slices = match &file.content {
            Content::Inline(_) => Vec::new(),
            Content::Slices(slices) => slices.clone(),
            Content::Pages(pages) => {
                match self.map_pages(source, Arc::new(file.clone())).load(pages).await {
                    // Others may have in_flight_weight the place of pages that are missing.
                    Err(VolumeError::Corrupt(_)) => return Err(FsError::SourceChanged.into()),
                    loaded => loaded?,
                }
            }
        };
        let sums = self.part_sums_of_copy(source, file, ino).await?;
        if let Content::Inline(_) = &file.content {
            return Ok(FileParts { content: None, writes: sums });
        }
        let shares = share(&slices, Some(source), ino);
        let (content, mut writes) = build_content(ino, slices);
        writes.extend(shares);
        writes.extend(sums);
        Ok(FileParts { content: Some(content), writes })
    }

    /// The checksums of a file's parts, if they are kept, for another file.
    async fn part_sums_of_copy(
        &self,
        source: Ino,
        file: &File,
        ino: Ino,
    ) -> Result<Vec<Write>, VolumeError> {
        let parts: u32 = file.parts.iter().map(|run| run.count).sum();
        let keys: Vec<Key> =
            (0..parts.div_ceil(PART_SUMS_PAGE)).map(|page| key::part_sums(source, page)).collect();
        let found = read_records(&**self.session.store(), &keys).await?;
        let mut writes = Vec::new();
        for ((page, at), value) in (0..).zip(&keys).zip(found) {
            let Some(value) = value else { break };
            let sums = PartSums::decode(at, &value).map_err(|error| corrupt(at, &error))?;
            let to = key::part_sums(ino, page);
            writes.push(Write::Put(to.clone(), sums.encode(&to)));
        }
        Ok(writes)
    }

    /// The records of an inode's long attributes, for another one; nothing if one of them is missing,
    /// because the inode has changed.
    ///
    /// # Errors
    /// [`VolumeError::Refused`] if they are more than one plan carries.
    pub(in crate::facade) async fn long_xattrs(
        &self,
        source: Ino,
        inode: &Inode,
        ino: Ino,
    ) -> Result<Option<Vec<Write>>, VolumeError> {
        let (mut names, mut bytes) = (Vec::new(), 0);
        for xattr in &inode.xattrs {
            if let XattrPlace::Apart(length) = xattr.value {
                bytes += u64::from(length);
                names.push(&xattr.name);
            }
        }
        if names.len() > LONG_XATTRS_MAX || bytes > LONG_XATTRS_BYTES_MAX {
            let why = format!("{bytes} bytes of extended attributes are too many to be copied");
            return Err(VolumeError::Refused(why));
        }
        let keys: Vec<Key> = names.iter().map(|name| key::xattr(source, name)).collect();
        let found = read_records(&**self.session.store(), &keys).await?;
        let mut writes = Vec::with_capacity(keys.len());
        for ((name, at), value) in names.iter().zip(&keys).zip(found) {
            let Some(value) = value else { return Ok(None) };
            let value = XattrValue::decode(at, &value).map_err(|error| corrupt(at, &error))?;
            let to = key::xattr(ino, name);
            writes.push(Write::Put(to.clone(), value.encode(&to)));
        }
        Ok(Some(writes))
    }
}

/// The inode that a name binds, if it was there.
pub(super) fn decode(found: &BoundName) -> Result<Option<Inode>, VolumeError> {
    let at = key::inode(found.dentry.ino);
    let inode = found.inode.as_ref().map(|record| Inode::decode(&at, record));
    inode.transpose().map_err(|error| corrupt(&at, &error))
}

/// That a record of the other bucket is what it was.
fn unchanged(key: &Key, value: &store::Value) -> Assumption {
    Assumption { key: key.clone(), value: value.clone(), otherwise: FsError::SourceChanged }
}

/// Takes note of the numbers that directories have.
fn note_inos(fork: &Fork, targets: &[&Target], inos: &[Ino]) {
    for (target, ino) in targets.iter().zip(inos) {
        target.set_ino(*ino, &fork.directories);
    }
}
