//! One entry of a fork: the copy of the node that a name binds.
//!
//! A fork is a new bucket with the content of another, by reference. The plan of an entry guards
//! that the name still binds the node, and that the node's record is as it was read. If not, the
//! name is read again. So each file is copied as of one instant. For example, a program renames the
//! file in the meantime: the plan is refused, and the entry is skipped, since the name is gone.

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

/// Tries of an entry that changes while it is copied.
const ATTEMPTS_MAX: u32 = 64;

/// Most inodes with several names that a fork tracks until all their names were met, so that their
/// copies have several names, too. Names of further ones become files of their own.
const LINKED_COPIES_MAX: usize = 1 << 20;

/// Most long extended attributes of one plan, and most bytes of them. A node with more cannot be
/// copied.
const LONG_XATTRS_MAX: usize = 256;
const LONG_XATTRS_BYTES_MAX: u64 = 1 << 20;

/// The copy of a node with several names: its inode number, once the first name was copied. The
/// lock lets one name at a time make the copy.
type LinkedCopy = Arc<tokio::sync::Mutex<Option<Ino>>>;

/// The state that all entries of a fork share.
#[derive(Debug)]
pub(super) struct Fork {
    /// The assumption that the new bucket is as it was created.
    pub(super) bucket: Assumption,
    /// Number of directories that were created.
    pub(super) directories: AtomicU64,
    /// Copies of nodes with several names, by the inode number in the source, with the number of
    /// names that were not met yet.
    linked_copies: Mutex<HashMap<Ino, (LinkedCopy, u32)>>,
}

/// The result of copying one entry of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForkedEntry {
    /// A directory exists in the new bucket.
    Directory,
    /// A file of that many bytes was made in the new bucket.
    File(u64),
    /// A symbolic link or special file was made.
    Other,
    /// One more name was made for a node that an earlier name has copied.
    Link,
    /// The name was removed, or another client had made it in the new bucket.
    Skipped,
    /// The entry at this path was not copied.
    Omitted(String),
}

/// The content of a file and its records, for a copy with another inode number.
pub(in crate::facade) struct FileParts {
    /// The content; `None` if it is that of the source.
    pub(in crate::facade) content: Option<Content>,
    /// The writes of the copy's further records: pages of its content map, checksums of parts, and
    /// share records, which name the owners of shared blocks.
    pub(in crate::facade) writes: Vec<Write>,
}

impl Fork {
    /// Creates the state of a fork that has made only the bucket.
    pub(super) fn new(bucket: Assumption) -> Fork {
        Fork { bucket, directories: AtomicU64::new(0), linked_copies: Mutex::default() }
    }

    /// Returns the common copy of an inode with `links` names; `None` if too many are tracked.
    fn copy(&self, source: Ino, links: u32) -> Option<LinkedCopy> {
        let mut linked_copies = self.linked_copies.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = linked_copies.len() >= LINKED_COPIES_MAX;
        // All names of one inode meet at the same copy in any order.
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
    /// Creates a directory of the new bucket.
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

    /// Copies the node that a name binds to a directory of the new bucket. `links` is the number of
    /// its names.
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
            // If the name binds another inode now, the common copy is not the right one.
            let copy = copy.as_ref().filter(|_| source == found.dentry.ino);
            let tried = match copy {
                Some(copy) => self.fork_linked(fork, target, &found, copy).await,
                None => self.fork_alone(fork, target, &found, false).await.map(|(named, _)| named),
            };
            match tried {
                Err(VolumeError::Fs(FsError::SourceChanged | FsError::Contended)) => {}
                // Another client has changed the new bucket. Its change stays.
                Err(VolumeError::Fs(FsError::NameExists | FsError::Stale)) => {
                    return Ok(ForkedEntry::Skipped);
                }
                // The node has more extended attributes than one plan carries.
                Err(VolumeError::Refused(_)) => break,
                tried => return tried,
            }
            // The source has changed. A plan with the newest record is tried.
            match self.reread_name(&found).await? {
                Some(newer) => found = newer,
                None => return Ok(ForkedEntry::Skipped),
            }
        }
        Ok(ForkedEntry::Omitted(target.path_of(found.sort_key())))
    }

    /// Reads a name again; `None` if it is gone.
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

    /// Copies one name of a node with several. The first name makes the node, the others link to
    /// it.
    async fn fork_linked(
        &self,
        fork: &Fork,
        target: &Target,
        found: &BoundName,
        copy: &LinkedCopy,
    ) -> Result<ForkedEntry, VolumeError> {
        // One name at a time makes the node. The other names wait for its inode number.
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
                // Another client has removed the copy from the new bucket, so it is made again.
                Err(VolumeError::Fs(FsError::NoSuchKey)) => {}
                Err(error) => return Err(error),
            }
        }
        let (named, ino) = self.fork_alone(fork, target, found, true).await?;
        *copy = Some(ino);
        Ok(named)
    }

    /// Copies a node under one name. `linked` is true if the copy gets further names later. Returns
    /// the result and the new inode number.
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
        // Both the name and the inode are guarded, so the file is copied as of the commit.
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
        // A large map is committed ahead of the plan. It is deleted again if the plan fails.
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

    /// Returns the content of a file and its records, for a copy with the number `ino`. No data
    /// moves.
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
                    // Missing pages may have been replaced by others, because the file changed.
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

    /// Returns the writes of the source's part checksums for the copy.
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

    /// Returns the writes of an inode's long extended attributes for a copy. Returns `None` if one
    /// is missing, because the inode has changed.
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
        // Checked before the read: one plan could not carry them, and neither could one reply.
        if names.len() > LONG_XATTRS_MAX || bytes > LONG_XATTRS_BYTES_MAX {
            let why = format!("{bytes} bytes of extended attributes do not fit into one plan");
            return Err(VolumeError::Refused(why));
        }
        let keys: Vec<Key> = names.iter().map(|name| key::xattr(source, name)).collect();
        let found = read_records(&**self.session.store(), &keys).await?;
        let mut writes = Vec::with_capacity(keys.len());
        for ((name, at), value) in names.iter().zip(&keys).zip(found) {
            // A missing attribute means that the inode has changed since it was read.
            let Some(value) = value else { return Ok(None) };
            let value = XattrValue::decode(at, &value).map_err(|error| corrupt(at, &error))?;
            let to = key::xattr(ino, name);
            writes.push(Write::Put(to.clone(), value.encode(&to)));
        }
        Ok(Some(writes))
    }
}

/// Decodes the inode that a name binds; `None` if it was not found.
pub(super) fn decode(found: &BoundName) -> Result<Option<Inode>, VolumeError> {
    let at = key::inode(found.dentry.ino);
    let inode = found.inode.as_ref().map(|record| Inode::decode(&at, record));
    inode.transpose().map_err(|error| corrupt(&at, &error))
}

/// Returns the assumption that a record of the source is as it was read.
fn unchanged(key: &Key, value: &store::Value) -> Assumption {
    Assumption { key: key.clone(), value: value.clone(), otherwise: FsError::SourceChanged }
}

/// Sets the inode number of each directory in `targets`, which the commit created or found. Counts
/// the created ones in `fork.directories`.
fn note_inos(fork: &Fork, targets: &[&Target], inos: &[Ino]) {
    for (target, ino) in targets.iter().zip(inos) {
        target.set_ino(*ino, &fork.directories);
    }
}
