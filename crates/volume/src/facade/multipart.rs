//! Multipart uploads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use content::StagedContent;
use futures::StreamExt;
use namespace::add_pack_shares;
use namespace::{
    AbortUpload, Assumption, CreateUpload, FindUpload, FoundPart, FoundUpload, FsError,
    NamedBucket, Path, Publish, PutPart, ReadParts, UploadName, WriteCondition, build_content,
    concatenate, cut, end_upload, part_runs,
};
use record::{
    BlockId, Content, File, Ino, ObjectHeaders, PART_SUMS_PAGE, Part, PartSums, PartTag, Slice,
    Sum, SumAlgorithm, SumKind, Tag, Timestamp, Upload, UploadState, VersionRef, key,
};
use store::Write;

use super::copy::{share, unchanged};
use super::object::{new_file, random};
use super::{FileOwner, Object, PublishedObject};
use crate::{Volume, VolumeError};

/// The least bytes of a part that is not the last (S3's limit).
pub const PART_BYTES_MIN: u64 = 5 * 1024 * 1024;

/// The most bytes of an object: 5 TiB (S3's limit).
pub const OBJECT_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024 * 1024;

/// Records that one round trip of a listing of parts or uploads fetches.
pub(super) const RECORDS_AT_ONCE: u32 = 1_000;

/// The id of an upload: when it was begun, so that ids sort by that, then 64 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(pub [u8; 16]);

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Text that is not an upload's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an upload id")]
pub struct UploadIdError;

impl FromStr for UploadId {
    type Err = UploadIdError;

    fn from_str(text: &str) -> Result<UploadId, UploadIdError> {
        // A block's id has the same 128 bits and the same text.
        text.parse::<BlockId>().map(|id| UploadId(id.0)).map_err(|_| UploadIdError)
    }
}

/// What an upload is begun with.
#[derive(Clone, Debug)]
pub struct NewUpload {
    /// Whom the object will belong to.
    pub owner: FileOwner,
    /// What will be kept with it.
    pub headers: ObjectHeaders,
    /// Which checksum the client promised, and how the parts' sums combine.
    pub checksum: Option<(SumAlgorithm, SumKind)>,
    /// Headers of the request that policies may ask for.
    pub asked: Vec<(String, String)>,
}

/// A part that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartStat {
    /// Its number.
    pub number: u16,
    /// The part.
    pub part: Part,
}

/// A page of an upload's parts.
#[derive(Clone, Debug)]
pub struct PartsPage {
    /// The upload.
    pub upload: Upload,
    /// The last transmission of each part, in the order of their numbers.
    pub parts: Vec<PartStat>,
    /// Whether there are more.
    pub truncated: bool,
}

/// A part as the client lists it when it completes an upload.
#[derive(Clone, Debug)]
pub struct CompletePart {
    /// Its number.
    pub number: u16,
    /// Its entity tag.
    pub tag: Tag,
    /// Its checksums, as far as the client names them.
    pub sums: Vec<(SumAlgorithm, Vec<u8>)>,
}

/// What a client asks of an upload's end.
#[derive(Clone, Debug)]
pub struct CompleteUpload<'a> {
    /// The parts, as the client lists them.
    pub parts: &'a [CompletePart],
    /// How many bytes the client believes the object to have.
    pub object_size: Option<u64>,
    /// What must hold of the object that is replaced.
    pub condition: WriteCondition,
}

/// What the view computed of the object from its parts.
#[derive(Clone, Debug)]
pub struct ObjectDigests {
    /// The object's entity tag.
    pub tag: Tag,
    /// Its checksums.
    pub sums: Vec<Sum>,
    /// One checksum of each part, to be kept; or none at all.
    pub part_sums: Vec<Sum>,
}

/// A completed upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The object's entity tag.
    pub tag: Tag,
    /// Its checksums.
    pub sums: Vec<Sum>,
    /// When it came to be.
    pub changed: Timestamp,
    /// Which version of its key it is, if the bucket keeps any; nothing where another request has
    /// completed the upload before.
    pub version: Option<VersionRef>,
}

fn name<'a>(bucket: &'a str, key: &'a [u8], id: UploadId) -> UploadName<'a> {
    UploadName { bucket: bucket.as_bytes(), object: key, id: id.0 }
}

impl Volume {
    /// Begins an upload.
    pub async fn create_upload(
        &self,
        bucket: &str,
        key: &[u8],
        new: NewUpload,
    ) -> Result<UploadId, VolumeError> {
        let random: [u8; 8] = random()?;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.session.now().0.to_be_bytes());
        id[8..].copy_from_slice(&random);
        let upload = Upload {
            ino: Upload::number(u64::from_be_bytes(random)),
            begun: Timestamp::default(),
            uid: new.owner.uid,
            gid: new.owner.gid,
            umask: new.owner.umask,
            initiator: new.owner.access_key,
            account: new.owner.account,
            writer: new.owner.writer,
            checksum: new.checksum,
            object: new.headers,
            asked: new.asked,
            state: UploadState::Open,
        };
        let id = UploadId(id);
        self.session.run(&CreateUpload { name: name(bucket, key, id), upload: &upload }).await?;
        Ok(id)
    }

    /// An open upload, as last seen by this process, and as it stands now if it was not: enough to
    /// refuse a part early.
    pub async fn upload(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
    ) -> Result<Upload, VolumeError> {
        let upload = self.upload_in_any_state(bucket, key, id).await?;
        match upload.state {
            UploadState::Open => Ok(upload),
            UploadState::Done { .. } | UploadState::Aborted => Err(FsError::NoSuchUpload.into()),
        }
    }

    /// As [`Volume::upload`], also for an upload that was completed or aborted a short time ago.
    pub async fn upload_in_any_state(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
    ) -> Result<Upload, VolumeError> {
        let operation = FindUpload { name: name(bucket, key, id) };
        let found = match self.session.plan_from_hints(&operation) {
            Some(found) if found.upload.state == UploadState::Open => found,
            _ => self.session.run(&operation).await?,
        };
        Ok(found.upload)
    }

    /// Lays a part down. Of a part sent twice the upload's end chooses by entity tag.
    #[expect(clippy::too_many_arguments, reason = "each is a part of what UploadPart says")]
    pub async fn put_part(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        number: u16,
        body: StagedContent,
        tag: PartTag,
        sums: Vec<Sum>,
    ) -> Result<PartStat, VolumeError> {
        self.put_part_if(bucket, key, id, number, body, tag, sums, &[]).await
    }

    #[expect(clippy::too_many_arguments, reason = "as `put_part`, and what must hold")]
    async fn put_part_if(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        number: u16,
        body: StagedContent,
        tag: PartTag,
        sums: Vec<Sum>,
        assumptions: &[Assumption],
    ) -> Result<PartStat, VolumeError> {
        let slices = match body.content() {
            Content::Slices(slices) => slices.clone(),
            Content::Inline(bytes) if bytes.is_empty() => Vec::new(),
            Content::Inline(_) | Content::Pages(_) => {
                unreachable!("the bytes of a part lie in blocks")
            }
        };
        let [owner] = self.fresh().await?;
        let arrived = Timestamp::default();
        let joined = add_pack_shares(&slices, owner);
        let part = Part { owner, size: body.size(), arrived, tag, sums, shared: false, slices };
        let operation = PutPart {
            name: name(bucket, key, id),
            number,
            part: &part,
            assumptions,
            writes: &joined,
        };
        let part = self.session.run_publishing(&operation, body).await?;
        Ok(PartStat { number, part })
    }

    /// Makes a part of another object's bytes. No data moves, but for bytes kept in records and
    /// where a sparse file has holes.
    ///
    /// The part's MD5 is the source's where all of a source with an MD5 is copied, and otherwise a
    /// value that stands for the source and the range: nothing is read to hash it. `sum` is a checksum
    /// of the bytes that the caller has computed, besides those that the source has.
    #[expect(clippy::too_many_arguments, reason = "each is a part of what UploadPartCopy says")]
    pub async fn copy_part(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        number: u16,
        source: &Object,
        range: Range<u64>,
        sum: Option<Sum>,
    ) -> Result<PartStat, VolumeError> {
        let whole = range == (0..source.size());
        let tag = PartTag::Md5(part_md5(source.tag(), &range, whole));
        let computed = sum.as_ref().map(|sum| sum.algorithm);
        let full = |sum: &&Sum| {
            whole && sum.kind == SumKind::FullObject && Some(sum.algorithm) != computed
        };
        let kept = source.file().sums.iter().filter(full).cloned();
        let sums: Vec<Sum> = kept.chain(sum).collect();
        let assumptions = unchanged(source);
        let slices = cut(&self.slices(source).await?, range.start, range.end);
        // A part has no holes: those of a sparse file become zeros, which are written.
        let held: u64 = slices.iter().map(|slice| u64::from(slice.length)).sum();
        let inline = matches!(source.file().content, Content::Inline(_));
        if inline || held < range.end - range.start {
            let mut writer = self.block_writer(Some(range.end - range.start));
            let mut bytes = self.read(source, range);
            while let Some(bytes) = bytes.next().await {
                writer.write(bytes?).await?;
            }
            let body = writer.finish().await?;
            let put = self.put_part_if(bucket, key, id, number, body, tag, sums, &assumptions);
            return put.await;
        }
        let [owner] = self.fresh().await?;
        let (size, arrived) = (range.end - range.start, Timestamp::default());
        let shares = share(&slices, Some(source.ino), owner);
        let part = Part { owner, size, arrived, tag, sums, shared: true, slices };
        let operation = PutPart {
            name: name(bucket, key, id),
            number,
            part: &part,
            assumptions: &assumptions,
            writes: &shares,
        };
        let part = self.session.run(&operation).await?;
        Ok(PartStat { number, part })
    }

    /// The parts of an open upload behind `after`, as they were sent last.
    pub async fn parts(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<PartsPage, VolumeError> {
        let (found, parts) = self.all_parts(bucket, key, id, after, limit, |_| true).await?;
        if found.upload.state != UploadState::Open {
            return Err(FsError::NoSuchUpload.into());
        }
        let truncated = parts.len() > limit;
        let stat = |(number, found): (u16, FoundPart)| PartStat { number, part: found.part };
        let parts = parts.into_iter().take(limit).map(stat).collect();
        Ok(PartsPage { upload: found.upload, parts, truncated })
    }

    /// Of each part behind `after` the last transmission, by the order of their commits, that is
    /// `wanted`; more than `limit` of them if there are.
    async fn all_parts(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        after: u16,
        limit: usize,
        wanted: impl Fn(&FoundPart) -> bool,
    ) -> Result<(FoundUpload, BTreeMap<u16, FoundPart>), VolumeError> {
        let mut parts: BTreeMap<u16, FoundPart> = BTreeMap::new();
        let mut resume = None;
        loop {
            let name = name(bucket, key, id);
            let operation = ReadParts { name, after, resume, limit: RECORDS_AT_ONCE };
            let page = self.session.run(&operation).await?;
            resume = page.parts.last().map(|part| (part.number, part.transmission));
            let wanted = page.parts.into_iter().filter(|found| wanted(found));
            parts.extend(wanted.map(|found| (found.number, found)));
            // The last number of a page may have more transmissions on the next.
            if !page.truncated || parts.len() > limit.saturating_add(1) {
                return Ok((page.upload, parts));
            }
        }
    }

    /// Makes an object of an upload's parts. No data moves. A repeated call answers as the first.
    ///
    /// `finish` computes what is kept with the object from the upload and the parts it is made of;
    /// an error of its own leaves the upload open. Once it is computed, the rest goes on if the future
    /// is dropped.
    pub async fn complete<E: From<VolumeError>>(
        self: &Arc<Self>,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        wanted: CompleteUpload<'_>,
        finish: impl FnOnce(&Upload, &[FoundPart]) -> Result<ObjectDigests, E> + Send,
    ) -> Result<Completed, E> {
        let listed: BTreeMap<u16, &CompletePart> =
            wanted.parts.iter().map(|part| (part.number, part)).collect();
        let is_listed = |found: &FoundPart| {
            listed.get(&found.number).is_some_and(|listed| is_listed(listed, &found.part))
        };
        let (found, parts) = self.all_parts(bucket, key, id, 0, usize::MAX, is_listed).await?;
        if let Some(completed) = completed(&found.upload.state)? {
            return Ok(completed);
        }
        let used = choose_parts(wanted.parts, &parts)?;
        let finished = finish(&found.upload, &used)?;
        let (volume, bucket, key) = (Arc::clone(self), bucket.to_owned(), key.to_vec());
        let CompleteUpload { object_size, condition, .. } = wanted;
        let binding = async move {
            let wanted = CompleteUpload { parts: &[], object_size, condition };
            volume.bind_parts(&bucket, &key, id, &found, &used, finished, &wanted).await
        };
        Ok(self.session.run_to_completion("complete", binding).await?)
    }

    #[expect(clippy::too_many_arguments, reason = "what was found, chosen and computed")]
    async fn bind_parts(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        found: &FoundUpload,
        used: &[FoundPart],
        finished: ObjectDigests,
        wanted: &CompleteUpload<'_>,
    ) -> Result<Completed, VolumeError> {
        // Keeps the blocks of parts that somebody gives up meanwhile, until what was staged of them
        // is taken back.
        let _reading = self.session.reading();
        let sizes = used.iter().map(|found| (found.part.size, found.part.slices.as_slice()));
        let (size, slices) = concatenate(sizes);
        if wanted.object_size.is_some_and(|expected| expected != size) || size > OBJECT_BYTES_MAX {
            return Err(FsError::WrongSize.into());
        }
        // The upload's own: another of its name has no such upload.
        let named = NamedBucket { name: bucket.as_bytes(), ino: Some(found.bucket) };
        let path = Path::new(named, key);
        let inos = self.session.allocate_inodes(1 + path.directories.len()).await?;
        let ino = inos[0];
        let (content, mut writes) = build_content(ino, slices);
        writes.extend(part_sum_pages(ino, &finished.part_sums));
        writes.extend(shares_of_parts(ino, used));
        let Upload { account, writer, uid, gid, umask, .. } = found.upload;
        let owner = FileOwner { access_key: String::new(), account, writer, uid, gid, umask };
        let file = File {
            sums: finished.sums.clone(),
            object: found.upload.object.clone(),
            parts: part_runs(used.iter().map(|found| found.part.size)),
            ..File::new(size, finished.tag, content)
        };
        let inode = new_file(&owner, file);
        let assumption = Assumption {
            key: found.key.clone(),
            value: found.record.clone(),
            otherwise: FsError::NoSuchUpload,
        };
        let staged = match self.stage(ino, std::slice::from_ref(&assumption), writes).await {
            Err(VolumeError::Fs(FsError::NoSuchUpload)) => {
                return self.result_of_ended_upload(name(bucket, key, id)).await;
            }
            staged => staged?,
        };
        let taken: BTreeSet<Ino> = used.iter().map(|found| found.part.owner).collect();
        let state = UploadState::Done {
            ino,
            tag: finished.tag,
            sums: finished.sums,
            used: taken.into_iter().collect(),
            at: self.session.now(),
        };
        let mut with = staged.writes().to_vec();
        with.extend(end_upload(&found.key, &Upload { state, ..found.upload.clone() }));
        let operation = Publish {
            path: &path,
            ino,
            fresh: &inos[1..],
            inode: &inode,
            condition: &wanted.condition,
            overlap: self.overlap(path.bucket()),
            assumptions: &[assumption],
            writes: &with,
        };
        let published = self.session.run(&operation).await;
        match self.finish_publish(staged, published).await {
            Ok(published) => {
                self.session.wake_reaper();
                let PublishedObject { object_changed: changed, tag, sums, version } = published;
                Ok(Completed { tag, sums, changed, version })
            }
            Err(VolumeError::Fs(FsError::NoSuchUpload)) => {
                self.result_of_ended_upload(name(bucket, key, id)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Somebody else has ended an upload: if by completing it, that is the answer of whoever was
    /// completing it too.
    async fn result_of_ended_upload(&self, name: UploadName<'_>) -> Result<Completed, VolumeError> {
        let found = self.session.run(&FindUpload { name }).await?;
        completed(&found.upload.state)?.ok_or(FsError::NoSuchUpload.into())
    }

    /// Gives an upload up.
    pub async fn abort(&self, bucket: &str, key: &[u8], id: UploadId) -> Result<(), VolumeError> {
        self.session.run(&AbortUpload { name: name(bucket, key, id) }).await?;
        self.session.wake_reaper();
        Ok(())
    }
}

/// What a repeated Complete answers, if the upload was completed.
fn completed(state: &UploadState) -> Result<Option<Completed>, VolumeError> {
    match state {
        UploadState::Open => Ok(None),
        UploadState::Aborted => Err(FsError::NoSuchUpload.into()),
        UploadState::Done { tag, sums, at, .. } => {
            Ok(Some(Completed { tag: *tag, sums: sums.clone(), changed: *at, version: None }))
        }
    }
}

/// Whether a part is the one that the client listed.
fn is_listed(listed: &CompletePart, part: &Part) -> bool {
    let agrees = |(algorithm, bytes): &(SumAlgorithm, Vec<u8>)| {
        let kept = part.sums.iter().find(|sum| sum.algorithm == *algorithm);
        kept.is_none_or(|sum| sum.bytes == *bytes)
    };
    listed.tag == part.tag.tag() && listed.sums.iter().all(agrees)
}

/// The parts that the client listed, if all are there as listed and may form an object. Of a part
/// that was sent several times it is the last one with the entity tag that the client knows.
fn choose_parts(
    listed: &[CompletePart],
    parts: &BTreeMap<u16, FoundPart>,
) -> Result<Vec<FoundPart>, VolumeError> {
    if listed.is_empty() {
        return Err(FsError::InvalidPart(0).into());
    }
    if !listed.is_sorted_by(|a, b| a.number < b.number) {
        return Err(FsError::InvalidPartOrder.into());
    }
    let mut used = Vec::with_capacity(listed.len());
    for (index, listed_part) in listed.iter().enumerate() {
        let number = listed_part.number;
        let found = parts.get(&number).ok_or(FsError::InvalidPart(number))?;
        let bytes = found.part.size;
        if index + 1 < listed.len() && bytes < PART_BYTES_MIN {
            return Err(FsError::PartTooSmall { number, bytes }.into());
        }
        used.push(found.clone());
    }
    Ok(used)
}

/// Makes the file an owner of what parts do not simply leave to it: the blocks of copied parts, and
/// packs. The parts' own shares go with the upload.
fn shares_of_parts(ino: Ino, used: &[FoundPart]) -> Vec<Write> {
    let mut slices: Vec<Slice> = Vec::new();
    for part in used.iter().map(|found| &found.part) {
        let shared = |slice: &&Slice| part.shared || slice.block.is_pack();
        slices.extend(part.slices.iter().filter(shared));
    }
    share(&slices, None, ino)
}

fn part_sum_pages(ino: Ino, sums: &[Sum]) -> Vec<Write> {
    let page = |(page, sums): (u32, &[Sum])| {
        let key = key::part_sums(ino, page);
        Write::Put(key.clone(), PartSums { sums: sums.to_vec() }.encode(&key))
    };
    (0..).zip(sums.chunks(PART_SUMS_PAGE as usize)).map(page).collect()
}

/// The MD5 of a part that was copied by reference, or a value that stands for it.
fn part_md5(tag: &Tag, range: &Range<u64>, whole: bool) -> [u8; 16] {
    let (Tag::Md5(bytes) | Tag::Multipart(bytes, _) | Tag::Opaque(bytes, _)) = tag;
    if whole && matches!(tag, Tag::Md5(_)) {
        return *bytes;
    }
    let mark = [range.start.to_be_bytes(), range.end.to_be_bytes()].concat();
    std::array::from_fn(|index| bytes[index] ^ mark[index].rotate_left(3))
}
