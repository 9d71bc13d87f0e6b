//! Objects: find, read and publish them.
//!
//! Roles. A view (the S3 gateway or a mount) finds an [`Object`], which pins the epoch: as long as
//! the value exists, blocks that the object names are not deleted. The view reads the content from
//! that object alone. For example, a GET that began before an overwrite returns the old bytes to
//! its end. To write, the view streams a body into a [`content::ContentWriter`], which stages its
//! blocks, and [`Volume::put`] publishes the staged content.

use std::ops::Range;
use std::sync::{Arc, Weak};

use content::{
    ContentError, ContentStream, RecordSlices, ReleaseMemory, SliceSource, StagedContent,
};
use keyring::{KEY_BYTES, ObjectEncryptionKey};
use namespace::{
    CheckedObject, FILE_MODE, FoundObject, Lookup, NamedBucket, ObjectChange, Path, Publish,
    SetObject, WriteCondition,
};
use record::{
    Attributes, Content, Encryption, File, HoldScope, InlineBytes, Ino, Inode, InodeBody,
    InodeHead, ObjectHeaders, PART_SUMS_PAGE, PartSums, Slice, Sum, Tag, Timestamp, VersionRef,
    key,
};
use session::{ReadPin, corrupt};
use store::{Key, Value};

use super::FileOwner;
use super::map_pages::read_records;
use super::object_mode::{ObjectMode, WrongCustomerKey};
use super::staging::{Staged, file_content};
use crate::{Volume, VolumeError};

/// An object as it was found. Its blocks are kept while this value exists, also if the key is
/// overwritten or deleted.
#[derive(Clone, Debug)]
pub struct Object {
    /// The bucket's inode number.
    pub bucket: Ino,
    /// The object's inode number.
    pub ino: Ino,
    /// The object's inode. If S3 shows an empty directory as an object, the inode of the directory.
    pub inode: Inode,
    pub(super) record: Value,
    /// The version of the key, if the bucket keeps versions.
    pub version: Option<VersionRef>,
    /// The dentries (bindings of names to inodes) on the path, with keys and bytes. While they are
    /// unchanged, the key leads to this object.
    pub(super) dentries: Vec<(Key, Value)>,
    pub(super) file: Arc<File>,
    /// The key of the object, after [`Object::unlock`].
    pub(super) key: Option<Arc<ObjectEncryptionKey>>,
    /// Pins the epoch at which the object was found, or a hold, which is a record that keeps the
    /// blocks of this file. So the blocks are not deleted.
    pin: Arc<ReadPin>,
}

impl Object {
    /// Returns the file of the object's inode; an empty one for an empty directory.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns true if a copy in this mode may reference the blocks and the inline bytes of the
    /// object.
    pub fn is_shared_by(&self, mode: &ObjectMode) -> bool {
        mode.may_share(self.file.encryption.as_ref(), self.key.as_ref())
    }

    /// Returns the keys of the record that binds the object's name or version, and of its inode.
    /// The directories above it are not among them: all writers below them guard those, so a turn
    /// would wait for every one.
    pub(super) fn records(&self) -> Vec<Key> {
        let binding = self.dentries.last().map(|(key, _)| key.clone());
        binding.into_iter().chain([key::inode(self.ino)]).collect()
    }

    /// Gives the object the key of the client (SSE-C) that the request has, so that its content can
    /// be read and copied. Does nothing for an object in another mode.
    ///
    /// # Errors
    /// Fails with `WrongCustomerKey` if the object needs a key, and it is missing or another one.
    pub fn unlock(&mut self, customer: Option<&[u8; KEY_BYTES]>) -> Result<(), WrongCustomerKey> {
        let mode = ObjectMode::opened(self.file.encryption.as_ref(), customer)?;
        self.key = mode.key().cloned();
        Ok(())
    }

    /// Returns the object key of an object that was unlocked with a key of the client; else `None`.
    pub fn key(&self) -> Option<&Arc<ObjectEncryptionKey>> {
        self.key.as_ref()
    }

    /// Returns true if only a request with the client's key can read the content.
    pub fn needs_customer_key(&self) -> bool {
        self.file.needs_customer_key()
    }

    /// Returns the size of the object in bytes.
    pub fn size(&self) -> u64 {
        self.file.size
    }

    /// Returns the entity tag of the object.
    pub fn tag(&self) -> &Tag {
        &self.file.tag
    }

    /// Returns the time at which the content or the key last changed.
    pub fn changed(&self) -> Timestamp {
        self.inode.attributes.changed
    }
}

/// The MD5 of zero bytes.
const EMPTY_MD5: [u8; 16] = [
    0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8, 0x42, 0x7e,
];

/// Returns the entity tag of an empty file.
pub(super) const fn empty_tag() -> Tag {
    Tag::Md5(EMPTY_MD5)
}

/// Returns the file that S3 shows for an empty directory: no bytes and no headers.
fn directory_object() -> File {
    let content = Content::Inline(InlineBytes::empty());
    File { data_version: 0, ..File::new(0, empty_tag(), content) }
}

/// Returns the file that S3 shows for an inode; an empty one for an empty directory.
fn s3_file_of(inode: &Inode) -> File {
    inode.file().cloned().unwrap_or_else(directory_object)
}

/// Returns the size and the entity tag that S3 shows for the head of an inode; those of an empty
/// file for an empty directory.
pub fn size_and_tag(inode: &InodeHead) -> (u64, Tag) {
    inode.file().map_or((0, Tag::Md5(EMPTY_MD5)), |file| (file.size, file.tag))
}

/// The metadata of a new object.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// The owner of the new object.
    pub owner: FileOwner,
    /// Content headers, user metadata, tags and requested lock of the new object. Without a
    /// retention, the object gets the default retention of its bucket at the commit.
    pub headers: ObjectHeaders,
    /// The entity tag of the new object.
    pub tag: Tag,
    /// The checksums of the new object.
    pub sums: Vec<Sum>,
    /// The mode in which the body was encrypted: that of its writer.
    pub encryption: Option<Encryption>,
}

/// The result of publishing an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedObject {
    /// The time of the commit, which S3 shows as Last-Modified.
    pub object_changed: Timestamp,
    /// The entity tag of the published object.
    pub tag: Tag,
    /// The checksums of the published object.
    pub sums: Vec<Sum>,
    /// The version id of the new object, if the bucket keeps versions.
    pub version: Option<VersionRef>,
}

impl Volume {
    /// Finds the current object of a key. Fails with [`namespace::FsError::NoSuchKey`] if there is
    /// none.
    pub async fn stat(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
    ) -> Result<Object, VolumeError> {
        self.stat_version(bucket, key, None).await
    }

    /// Finds a version of an object; the current one if `version` is `None`.
    pub async fn stat_version(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        version: Option<VersionRef>,
    ) -> Result<Object, VolumeError> {
        let path = Path::new(bucket, key);
        let reading = self.session.reading();
        let FoundObject { bucket, ino, inode, record, path_records: dentries, version } =
            self.session.run(&Lookup { path: &path, version }).await?;
        let file = Arc::new(s3_file_of(&inode));
        let pin = ReadPin::new(ino, HoldScope::Versions, reading);
        Ok(Object { bucket, ino, inode, record, version, dentries, file, key: None, pin })
    }

    /// Returns the bytes of an object in `range`, cut to its size, verified and in order. The
    /// stream keeps the blocks from being deleted, also after the object is dropped. It fails with
    /// [`ContentError::NeedsCustomerKey`] if the object needs a key of the client and was not
    /// unlocked.
    pub fn read(&self, object: &Object, range: Range<u64>) -> ContentStream {
        let range = range.start.min(object.size())..range.end.min(object.size());
        let key = object.key.clone();
        if object.needs_customer_key() && key.is_none() {
            return ContentStream::failed(ContentError::NeedsCustomerKey);
        }
        let slices: Arc<dyn SliceSource> = match &object.file.content {
            // Inline content is in memory already, so no pin is needed.
            Content::Inline(bytes) => {
                return match &key {
                    Some(key) => ContentStream::inline_under(key, bytes, range),
                    None => ContentStream::inline(bytes, range, object.file.sparse),
                };
            }
            Content::Slices(slices) => {
                Arc::new(RecordSlices { slices: slices.clone(), sparse: object.file.sparse })
            }
            Content::Pages(_) => Arc::new(self.map_pages(object.ino, Arc::clone(&object.file))),
        };
        // From here on the client may be slow. A long reader gets a hold in place of its pin.
        self.session.holds().watch(&object.pin);
        let guard = Box::new(Arc::clone(&object.pin));
        ContentStream::under(key, &self.streams, slices, range, guard)
    }

    /// Registers `holder`, which uses memory of the readers' budget and is asked to release some
    /// when a reader waits for memory.
    pub fn release_memory_for_readers(&self, holder: Weak<dyn ReleaseMemory>) {
        self.streams.budget.register_holder(holder);
    }

    /// Returns true if readers hold so much memory of their budget that others may have to wait.
    pub fn is_reader_memory_tight(&self) -> bool {
        self.streams.budget.is_tight()
    }

    /// Publishes a body under a key, atomically. The body is staged: its blocks are durable, and no
    /// record names them yet. Readers see the old object or the new one, never a mixture. Fails
    /// with [`namespace::FsError::PreconditionFailed`] if `condition` does not hold at the commit.
    pub async fn put(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        mut body: StagedContent,
        new: NewObject,
        condition: WriteCondition,
    ) -> Result<PublishedObject, VolumeError> {
        let path = Path::new(bucket, key);
        // The first number is for the file, the others for directories that may be missing on its
        // path.
        let inos = self.session.allocate_inodes(1 + path.directories.len()).await?;
        let (content, extra_writes) = file_content(&body, inos[0]);
        // If the body is staged inline, its capacity counts for this file from here on, also if the
        // plan is refused. The relocator looks at the file.
        let mut reservation = body.take_reservation();
        reservation.iter_mut().for_each(|reservation| reservation.assign(inos[0]));
        let file = File {
            sums: new.sums,
            object: new.headers,
            encryption: new.encryption,
            ..File::new(body.size(), new.tag, content)
        };
        let inode = new_file(&new.owner, file);
        // Only the map of a very large body exceeds one plan and is committed ahead.
        let staged = self.stage(inos[0], &[], extra_writes).await?;
        let operation = Publish {
            path: &path,
            ino: inos[0],
            fresh: &inos[1..],
            inode: &inode,
            condition: &condition,
            assumptions: &[],
            writes: staged.writes(),
        };
        let published = self.session.run_publishing(&operation, body.into_blocks()).await;
        self.finish_publish(staged, published).await
    }

    /// Handles the result of a plan that publishes an object: wakes the reaper if an object was
    /// replaced. After an error, takes back the records that were staged ahead of the plan, that
    /// is, deletes them.
    pub(super) async fn finish_publish(
        &self,
        staged: Staged,
        published: Result<namespace::Published, VolumeError>,
    ) -> Result<PublishedObject, VolumeError> {
        let published = match published {
            Ok(published) => published,
            // Records that were staged for the plan have no owner now. With an unknown outcome they
            // stay.
            Err(error) => {
                self.unstage(staged, &error).await;
                return Err(error);
            }
        };
        // The replaced file is an orphan now.
        if published.replaced.is_some() {
            self.session.wake_reaper();
        }
        let object_changed = published.inode.attributes.changed;
        let version = published.version;
        match published.inode.body {
            InodeBody::File(file) => {
                Ok(PublishedObject { object_changed, tag: file.tag, sums: file.sums, version })
            }
            InodeBody::Directory(_) | InodeBody::Symlink(_) | InodeBody::Special(_) => {
                unreachable!("only files are published")
            }
        }
    }

    /// Changes the metadata that S3 keeps with an object or one of its versions. The ETag and
    /// Last-Modified stay. Returns the version, if the bucket keeps versions.
    ///
    /// Fails with [`namespace::FsError::OtherObject`] if `expected` is given and the key has
    /// another object now, or the object's owner, tags, access control list or lock have changed.
    pub async fn change_object(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        version: Option<VersionRef>,
        expected: Option<&Object>,
        change: ObjectChange<'_>,
    ) -> Result<Option<VersionRef>, VolumeError> {
        let path = Path::new(bucket, key);
        let expected = expected.map(|object| CheckedObject { ino: object.ino, file: &object.file });
        let operation = SetObject { path: &path, version, expected, change };
        self.detaching_object(&path, version, || self.session.run(&operation)).await
    }

    /// Returns the checksums of the parts from which an object was completed; none if none were
    /// kept.
    pub async fn part_sums(&self, object: &Object) -> Result<Vec<Sum>, VolumeError> {
        let parts: u32 = object.file.parts.iter().map(|run| run.count).sum();
        let pages = parts.div_ceil(PART_SUMS_PAGE);
        let keys: Vec<Key> = (0..pages).map(|page| key::part_sums(object.ino, page)).collect();
        let mut sums = Vec::new();
        for (key, value) in keys.iter().zip(read_records(&**self.session.store(), &keys).await?) {
            let Some(value) = value else { break };
            let page = PartSums::decode(key, &value).map_err(|e| corrupt(key, &e))?;
            sums.extend(page.sums);
        }
        Ok(sums)
    }
}

/// Returns the inode of a new file. Its bucket and its times are placeholders, which are set when
/// it is published.
pub(super) fn new_file(owner: &FileOwner, file: File) -> Inode {
    let now = Timestamp::default();
    let (uid, gid) = (owner.uid, owner.gid);
    let attributes = Attributes::new(FILE_MODE & !owner.umask, uid, gid, now);
    let body = InodeBody::File(Box::new(File { writer: owner.writer, ..file }));
    Inode { attributes, bucket: Ino::ROOT, xattrs: Vec::new(), body }
}

impl Volume {
    /// Returns all slices of an object.
    pub(crate) async fn slices(&self, object: &Object) -> Result<Vec<Slice>, VolumeError> {
        match &object.file.content {
            Content::Inline(_) => Ok(Vec::new()),
            Content::Slices(slices) => Ok(slices.clone()),
            Content::Pages(all) => {
                self.map_pages(object.ino, Arc::clone(&object.file)).load(all).await
            }
        }
    }

    /// Returns `N` new inode numbers.
    pub(super) async fn fresh<const N: usize>(&self) -> Result<[Ino; N], VolumeError> {
        let inos = self.session.allocate_inodes(N).await?;
        Ok(std::array::from_fn(|index| inos[index]))
    }
}
