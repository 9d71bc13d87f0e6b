//! Objects: finding, reading, publishing and removing them.

use std::ops::Range;
use std::sync::{Arc, Weak};

use content::{
    ContentStream, ContentWriter, RecordSlices, ReleaseMemory, SliceSource, StagedContent,
};
use namespace::{
    ExpectedObject, FILE_MODE, FoundObject, Lookup, NamedBucket, ObjectChange, Path, Publish,
    SetObject, WriteCondition,
};
use record::{
    Attributes, Content, File, HoldScope, Ino, Inode, InodeBody, InodeHead, ObjectHeaders,
    PART_SUMS_PAGE, PartSums, Slice, Sum, Tag, Timestamp, VersionRef, key,
};
use session::{ReadPin, corrupt};
use store::{Key, Value};

use super::FileOwner;
use super::map_pages::read_records;
use super::staging::{Staged, file_content};
use crate::{Volume, VolumeError};

/// An object as it was found: what a reader of it sees, whatever becomes of its name meanwhile.
#[derive(Clone, Debug)]
pub struct Object {
    /// The bucket it is in.
    pub bucket: Ino,
    /// Its inode's number.
    pub ino: Ino,
    /// Its inode. A directory's for the object that stands for an empty directory somebody made.
    pub inode: Inode,
    pub(super) record: Value,
    /// Which version of its key it is, if the bucket keeps any.
    pub version: Option<VersionRef>,
    /// The dentries that led to it.
    pub(super) dentries: Vec<(Key, Value)>,
    pub(super) file: Arc<File>,
    /// Keeps what the object names from being reaped.
    pin: Arc<ReadPin>,
}

impl Object {
    /// The file. An empty one for an empty directory.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.file.size
    }

    /// The entity tag.
    pub fn tag(&self) -> &Tag {
        &self.file.tag
    }

    /// When content or name binding last changed.
    pub fn changed(&self) -> Timestamp {
        self.inode.attributes.changed
    }
}

/// The MD5 of nothing.
const EMPTY_MD5: [u8; 16] = [
    0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8, 0x42, 0x7e,
];

/// The entity tag of an empty file.
pub(super) const fn empty_tag() -> Tag {
    Tag::Md5(EMPTY_MD5)
}

/// The file that an empty directory is to S3: no bytes, and nothing kept with them.
fn directory_object() -> File {
    let content = Content::Inline(bytes::Bytes::new());
    File { data_version: 0, ..File::new(0, empty_tag(), content) }
}

/// The file that an inode is to S3; an empty one for an empty directory.
pub fn s3_file_of(inode: &Inode) -> File {
    inode.file().cloned().unwrap_or_else(directory_object)
}

/// The size and the entity tag that an inode has to S3, by its head; those of an empty file for an
/// empty directory.
pub fn size_and_tag(inode: &InodeHead) -> (u64, Tag) {
    inode.file().map_or((0, Tag::Md5(EMPTY_MD5)), |file| (file.size, file.tag))
}

/// What is kept with a new object.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// Whom it belongs to.
    pub owner: FileOwner,
    /// Content headers, user metadata and tags.
    pub headers: ObjectHeaders,
    /// Its entity tag.
    pub tag: Tag,
    /// Its checksums.
    pub sums: Vec<Sum>,
}

/// An object that exists now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedObject {
    /// When it came to be: its Last-Modified.
    pub object_changed: Timestamp,
    /// Its entity tag.
    pub tag: Tag,
    /// Its checksums.
    pub sums: Vec<Sum>,
    /// Which version of its key it is, if the bucket keeps any.
    pub version: Option<VersionRef>,
}

impl Volume {
    /// Finds an object, as it stands now.
    pub async fn stat(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
    ) -> Result<Object, VolumeError> {
        self.stat_version(bucket, key, None).await
    }

    /// Finds a version of an object, or the current one.
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
        Ok(Object { bucket, ino, inode, record, version, dentries, file, pin })
    }

    /// The bytes of an object in `range`, verified, in order.
    pub fn read(&self, object: &Object, range: Range<u64>) -> ContentStream {
        let range = range.start.min(object.size())..range.end.min(object.size());
        let slices: Arc<dyn SliceSource> = match &object.file.content {
            // All of it is here, whatever becomes of the file.
            Content::Inline(bytes) => {
                return ContentStream::inline(bytes, range, object.file.sparse);
            }
            Content::Slices(slices) => {
                Arc::new(RecordSlices { slices: slices.clone(), sparse: object.file.sparse })
            }
            Content::Pages(_) => Arc::new(self.map_pages(object.ino, Arc::clone(&object.file))),
        };
        self.session.holds().watch(&object.pin);
        ContentStream::new(&self.streams, slices, range, Box::new(Arc::clone(&object.pin)))
    }

    /// Asks `holder` to let go of what it can while a reader waits for memory.
    pub fn release_memory_for_readers(&self, holder: Weak<dyn ReleaseMemory>) {
        self.streams.budget.register_holder(holder);
    }

    /// Whether readers hold so much memory that others may have to wait for it.
    pub fn is_reader_memory_tight(&self) -> bool {
        self.streams.budget.is_tight()
    }

    /// Begins the bytes of a new file or part. `size_hint` is how many are expected.
    pub fn writer(&self, size_hint: Option<u64>) -> ContentWriter {
        ContentWriter::new(&self.writers, size_hint)
    }

    /// As [`Volume::writer`], for bytes that must lie in blocks even when there are few of them.
    pub fn block_writer(&self, size_hint: Option<u64>) -> ContentWriter {
        ContentWriter::in_blocks(&self.writers, size_hint)
    }

    /// Makes an object of staged bytes, replacing the one of its name.
    pub async fn put(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        mut body: StagedContent,
        new: NewObject,
        condition: WriteCondition,
    ) -> Result<PublishedObject, VolumeError> {
        let path = Path::new(bucket, key);
        let inos = self.session.allocate_inodes(1 + path.directories.len()).await?;
        let (content, extra_writes) = file_content(&body, inos[0]);
        let mut reservation = body.take_reservation();
        reservation.iter_mut().for_each(|reservation| reservation.assign(inos[0]));
        let file = File {
            sums: new.sums,
            object: new.headers,
            ..File::new(body.size(), new.tag, content)
        };
        let inode = new_file(&new.owner, file);
        let staged = self.stage(inos[0], &[], extra_writes).await?;
        let operation = Publish {
            path: &path,
            ino: inos[0],
            fresh: &inos[1..],
            inode: &inode,
            condition: &condition,
            overlap: self.overlap(path.bucket()),
            assumptions: &[],
            writes: staged.writes(),
        };
        let published = self.session.run_publishing(&operation, body).await;
        self.finish_publish(staged, published).await
    }

    /// What a published file answers, and what is left behind by the one it replaced.
    pub(super) async fn finish_publish(
        &self,
        staged: Staged,
        published: Result<namespace::Published, VolumeError>,
    ) -> Result<PublishedObject, VolumeError> {
        let published = match published {
            Ok(published) => published,
            Err(error) => {
                self.unstage(staged, &error).await;
                return Err(error);
            }
        };
        if published.replaced.is_some() {
            self.session.wake_reaper();
        }
        let object_changed = published.inode.attributes.changed;
        let version = published.version;
        match published.inode.body {
            InodeBody::File(file) => {
                Ok(PublishedObject { object_changed, tag: file.tag, sums: file.sums, version })
            }
            _ => unreachable!("only files are published"),
        }
    }

    /// Changes what S3 keeps with an object, or with a version of one. Neither ETag nor Last-Modified
    /// changes. Returns the version, if the bucket keeps any.
    ///
    /// Fails with [`namespace::FsError::OtherObject`] if `expected` is given and the key now has
    /// another object, or the owner, tags, list or lock of that object have changed.
    pub async fn change_object(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        key: &[u8],
        version: Option<VersionRef>,
        expected: Option<&Object>,
        change: ObjectChange<'_>,
    ) -> Result<Option<VersionRef>, VolumeError> {
        let path = Path::new(bucket, key);
        let expected =
            expected.map(|object| ExpectedObject { ino: object.ino, file: &object.file });
        let operation = SetObject { path: &path, version, expected, change };
        self.detaching_object(&path, version, || self.session.run(&operation)).await
    }

    /// The checksums of the parts that an object was completed from; none if none were kept.
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

/// An opaque entity tag: 128 random bits, so that no two contents ever bear the same one.
pub fn opaque_tag() -> Result<[u8; 16], VolumeError> {
    random()
}

/// Random bytes, for what must be unlike all others.
pub(super) fn random<const N: usize>() -> Result<[u8; N], VolumeError> {
    let mut bytes = [0; N];
    let none = |error| VolumeError::Unavailable(format!("there are no random bits: {error}"));
    getrandom::fill(&mut bytes).map_err(none)?;
    Ok(bytes)
}

/// A new file's inode. Its bucket and its times are set when it is published.
pub(super) fn new_file(owner: &FileOwner, file: File) -> Inode {
    let now = Timestamp::default();
    let (uid, gid) = (owner.uid, owner.gid);
    let attributes = Attributes::new(FILE_MODE & !owner.umask, uid, gid, now);
    let body = InodeBody::File(Box::new(File { writer: owner.writer, ..file }));
    Inode { attributes, bucket: Ino::ROOT, xattrs: Vec::new(), body }
}

impl Volume {
    /// All slices of an object.
    pub(crate) async fn slices(&self, object: &Object) -> Result<Vec<Slice>, VolumeError> {
        match &object.file.content {
            Content::Inline(_) => Ok(Vec::new()),
            Content::Slices(slices) => Ok(slices.clone()),
            Content::Pages(all) => {
                self.map_pages(object.ino, Arc::clone(&object.file)).load(all).await
            }
        }
    }

    /// Some numbers for new inodes.
    pub(super) async fn fresh<const N: usize>(&self) -> Result<[Ino; N], VolumeError> {
        let inos = self.session.allocate_inodes(N).await?;
        Ok(std::array::from_fn(|index| inos[index]))
    }

    /// Whether keys of a bucket may overlap, as last seen.
    pub(super) fn overlap(&self, bucket: NamedBucket<'_>) -> namespace::Overlap {
        let operation = namespace::FindBucket { name: bucket.name };
        match self.session.plan_from_hints(&operation) {
            Some(found) if found.settings.refuse_overlap => namespace::Overlap::Refuse,
            _ => namespace::Overlap::Allow,
        }
    }
}
