//! Multipart uploads.
//!
//! Roles. The client begins an upload, sends parts in any order, and completes or aborts the
//! upload. Each part's blocks are staged first, then one plan records the part. Completing
//! concatenates the content maps of the parts; no data moves. For example, 1,000 parts of 5 MiB
//! become one object of 5,000 MiB: most of its records are staged, and one commit publishes it.
//!
//! ```text
//! open -> done     (the object exists; a repeated Complete gets the same answer)
//!      \-> aborted (the reaper deletes the parts)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use content::StagedContent;
use namespace::add_pack_shares;
use namespace::{
    AbortUpload, Assumption, CreateUpload, FindUpload, FoundPart, FoundUpload, FsError,
    NamedBucket, Path, Publish, PutPart, ReadParts, UploadName, WriteCondition, build_content,
    concatenate, end_upload, part_runs,
};
use record::{
    BlockId, Content, Encryption, File, Ino, ObjectHeaders, PART_SUMS_PAGE, Part, PartSums,
    PartTag, Slice, Sum, SumAlgorithm, SumKind, Tag, Timestamp, Upload, UploadState, VersionRef,
    key,
};
use store::Write;

use super::copy::share;
use super::object::new_file;
use super::randomness::random;
use super::{FileOwner, PublishedObject};
use crate::{Volume, VolumeError};

/// Least bytes of a part that is not the last, by S3's rules.
pub const PART_BYTES_MIN: u64 = 5 * 1024 * 1024;

/// Most bytes of an object: 5 TiB, by S3's rules.
pub const OBJECT_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024 * 1024;

/// Records that one round trip of a listing of parts or uploads fetches.
pub(super) const RECORDS_AT_ONCE: u32 = 1_000;

/// The id of an upload: its time, so that ids sort by age, then 64 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(pub [u8; 16]);

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The error for a text that is not an upload id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an upload id")]
pub struct UploadIdError;

impl FromStr for UploadId {
    type Err = UploadIdError;

    fn from_str(text: &str) -> Result<UploadId, UploadIdError> {
        // A block id has the same 128 bits and the same text form.
        text.parse::<BlockId>().map(|id| UploadId(id.0)).map_err(|_| UploadIdError)
    }
}

/// The parameters of a new upload.
#[derive(Clone, Debug)]
pub struct NewUpload {
    /// The owner of the object that the upload will become.
    pub owner: FileOwner,
    /// The headers, metadata, tags and requested lock of the object that the upload will become.
    /// Without a retention, the object gets the default retention of its bucket at the commit that
    /// completes the upload.
    pub headers: ObjectHeaders,
    /// The checksum algorithm that the client has announced, and how the parts' checksums are
    /// combined.
    pub checksum: Option<(SumAlgorithm, SumKind)>,
    /// Headers that policies may check, also for each part: names and values.
    pub asked: Vec<(String, String)>,
    /// The mode in which the parts and the object are encrypted.
    pub encryption: Option<Encryption>,
}

/// A part of an upload that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartStat {
    /// The number of the part.
    pub number: u16,
    /// The record of the part.
    pub part: Part,
}

/// A page of an upload's parts.
#[derive(Clone, Debug)]
pub struct PartsPage {
    /// The record of the upload.
    pub upload: Upload,
    /// The last transmission of each part, by part number.
    pub parts: Vec<PartStat>,
    /// True if the upload has more parts after this page.
    pub truncated: bool,
}

/// A part as the client lists it to complete an upload.
#[derive(Clone, Debug)]
pub struct CompletePart {
    /// The number of the listed part.
    pub number: u16,
    /// The entity tag that the client gives for the part.
    pub tag: Tag,
    /// The checksums that the client gives for the part: algorithm and value.
    pub sums: Vec<(SumAlgorithm, Vec<u8>)>,
}

/// The client's parameters for completing an upload.
#[derive(Clone, Debug)]
pub struct CompleteUpload<'a> {
    /// The parts that form the object, as the client lists them.
    pub parts: &'a [CompletePart],
    /// The object size that the client expects, in bytes.
    pub object_size: Option<u64>,
    /// The condition on the object that the completed upload replaces.
    pub condition: WriteCondition,
}

/// Tag and checksums of the object, computed by the view from the parts.
#[derive(Clone, Debug)]
pub struct ObjectDigests {
    /// The object's entity tag.
    pub tag: Tag,
    /// The object's checksums.
    pub sums: Vec<Sum>,
    /// The checksum of each part, or an empty list if they are not kept.
    pub part_sums: Vec<Sum>,
}

/// The result of a completed upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The object's entity tag.
    pub tag: Tag,
    /// The object's checksums.
    pub sums: Vec<Sum>,
    /// The time of the commit that made the object.
    pub changed: Timestamp,
    /// The version of the key, if the bucket keeps versions. `None` if another request had
    /// completed the upload before.
    pub version: Option<VersionRef>,
    /// The mode of the upload, and so of the object.
    pub encryption: Option<Encryption>,
}

pub(super) fn name<'a>(
    bucket: impl Into<NamedBucket<'a>>,
    key: &'a [u8],
    id: UploadId,
) -> UploadName<'a> {
    UploadName { bucket: bucket.into(), object: key, id: id.0 }
}

impl Volume {
    /// Begins an upload of an object with this key. Returns the upload's id.
    pub async fn create_upload<'a>(
        &self,
        bucket: impl Into<NamedBucket<'a>>,
        key: &'a [u8],
        new: NewUpload,
    ) -> Result<UploadId, VolumeError> {
        let random: [u8; 8] = random()?;
        let mut id = [0; 16];
        // The time comes first, so that ids sort in the order in which uploads began.
        id[..8].copy_from_slice(&self.session.now().0.to_be_bytes());
        id[8..].copy_from_slice(&random);
        let upload = Upload {
            ino: Upload::number(u64::from_be_bytes(random)),
            // The planner sets the time.
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
            encryption: new.encryption,
            state: UploadState::Open,
        };
        let id = UploadId(id);
        let name = name(bucket, key, id);
        self.session.run(&CreateUpload { name, upload: &upload }).await?;
        Ok(id)
    }

    /// Finds an open upload, by a cached record if there is one. The record may be old, so use it
    /// only to refuse a part early. Fails with `NoSuchUpload`.
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

    /// Records a part of an open upload, whose body is durable in blocks. If a part number is sent
    /// twice, both transmissions stay, and completing the upload chooses by entity tag. Fails with
    /// `NoSuchUpload` if the upload is not open.
    #[expect(clippy::too_many_arguments, reason = "the parameters of UploadPart")]
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

    #[expect(
        clippy::too_many_arguments,
        reason = "the parameters of `put_part`, and its assumptions"
    )]
    pub(super) async fn put_part_if(
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
                unreachable!("the bytes of a part are in blocks")
            }
        };
        // The part is an owner of its blocks under a number of its own, until the upload ends.
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
        let part = self.session.run_publishing(&operation, body.into_blocks()).await?;
        Ok(PartStat { number, part })
    }

    /// Returns at most `limit` parts of an open upload with numbers above `after`, each as sent
    /// last. Fails with `NoSuchUpload` if it is not open.
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

    /// Returns an upload in any state and its parts with numbers above `after`: of each the last
    /// transmission, by commit, for which `wanted` is true. Stops when it has more than `limit`
    /// parts.
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
            // Further transmissions of the last part number may be on the next page.
            if !page.truncated || parts.len() > limit.saturating_add(1) {
                return Ok((page.upload, parts));
            }
        }
    }

    /// Makes an object of an upload's parts. No data moves. A repeated call returns the result of
    /// the first.
    ///
    /// `finish` computes tag and checksums from the upload and the chosen parts. If it fails, the
    /// upload stays open. After `finish` the upload is completed even if the future is dropped.
    pub async fn complete<E: From<VolumeError>>(
        self: &Arc<Self>,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        wanted: CompleteUpload<'_>,
        finish: impl FnOnce(&Upload, &[FoundPart]) -> Result<ObjectDigests, E> + Send,
    ) -> Result<Completed, E> {
        // Only listed transmissions are kept in memory. A part may have been sent many times.
        let listed: BTreeMap<u16, &CompletePart> =
            wanted.parts.iter().map(|part| (part.number, part)).collect();
        let is_listed = |found: &FoundPart| {
            listed.get(&found.number).is_some_and(|listed| is_listed(listed, &found.part))
        };
        let (found, parts) = self.all_parts(bucket, key, id, 0, usize::MAX, is_listed).await?;
        if let Some(completed) = completed(&found.upload)? {
            return Ok(completed);
        }
        // Checked before `finish`, which computes checksums from the chosen parts.
        let used = choose_parts(wanted.parts, &parts)?;
        let finished = finish(&found.upload, &used)?;
        let (volume, bucket, key) = (Arc::clone(self), bucket.to_owned(), key.to_vec());
        let CompleteUpload { object_size, condition, .. } = wanted;
        let binding = async move {
            let wanted = CompleteUpload { parts: &[], object_size, condition };
            volume.bind_parts(&bucket, &key, id, &found, &used, finished, &wanted).await
        };
        // From here on a disconnected client must not leave staged records without a publishing
        // plan.
        Ok(self.session.run_to_completion("complete", binding).await?)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the upload, its chosen parts, and their digests"
    )]
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
        // Pins the blocks of the parts, which another request may abort, until staged records are
        // published or taken back.
        let _reading = self.session.reading();
        let sizes = used.iter().map(|found| (found.part.size, found.part.slices.as_slice()));
        // The size follows from the parts, and is checked before anything is staged.
        let (size, slices) = concatenate(sizes);
        if wanted.object_size.is_some_and(|expected| expected != size) || size > OBJECT_BYTES_MAX {
            return Err(FsError::WrongSize.into());
        }
        // The plan must address the upload's own bucket: a new bucket of the same name does not
        // have this upload.
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
            encryption: found.upload.encryption.clone(),
            parts: part_runs(used.iter().map(|found| found.part.size)),
            ..File::new(size, finished.tag, content)
        };
        let inode = new_file(&owner, file);
        let assumption = Assumption {
            key: found.key.clone(),
            value: found.record.clone(),
            otherwise: FsError::NoSuchUpload,
        };
        // Each staged plan guards the upload's record, so that an aborted upload stops the staging.
        let staged = match self.stage(ino, std::slice::from_ref(&assumption), writes).await {
            Err(VolumeError::Fs(FsError::NoSuchUpload)) => {
                return self.result_of_ended_upload(name(bucket, key, id)).await;
            }
            staged => staged?,
        };
        // The parts that became the file are recorded: the reaper deletes only the blocks of the
        // others.
        let taken: BTreeSet<Ino> = used.iter().map(|found| found.part.owner).collect();
        let state = UploadState::Done {
            ino,
            tag: finished.tag,
            sums: finished.sums,
            used: taken.into_iter().collect(),
            at: self.session.now(),
        };
        // The upload ends in the same commit that publishes the object, so a repeated request finds
        // its result.
        let mut with = staged.writes().to_vec();
        with.extend(end_upload(&found.key, &Upload { state, ..found.upload.clone() }));
        let operation = Publish {
            path: &path,
            ino,
            fresh: &inos[1..],
            inode: &inode,
            condition: &wanted.condition,
            assumptions: &[assumption],
            writes: &with,
        };
        let published = self.session.run(&operation).await;
        match self.finish_publish(staged, published).await {
            Ok(published) => {
                self.session.wake_reaper();
                let PublishedObject { object_changed: changed, tag, sums, version } = published;
                let encryption = found.upload.encryption.clone();
                Ok(Completed { tag, sums, changed, version, encryption })
            }
            // Another request has ended the upload between the read and this commit.
            Err(VolumeError::Fs(FsError::NoSuchUpload)) => {
                self.result_of_ended_upload(name(bucket, key, id)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the result of an upload that another request has completed. Fails if it was aborted.
    async fn result_of_ended_upload(&self, name: UploadName<'_>) -> Result<Completed, VolumeError> {
        let found = self.session.run(&FindUpload { name }).await?;
        completed(&found.upload)?.ok_or(FsError::NoSuchUpload.into())
    }

    /// Aborts an open upload; the reaper deletes its parts. Fails with `NoSuchUpload` if it is not
    /// open.
    pub async fn abort(&self, bucket: &str, key: &[u8], id: UploadId) -> Result<(), VolumeError> {
        self.session.run(&AbortUpload { name: name(bucket, key, id) }).await?;
        self.session.wake_reaper();
        Ok(())
    }
}

/// Returns the result for a repeated Complete if the upload was completed; `None` if it is open.
fn completed(upload: &Upload) -> Result<Option<Completed>, VolumeError> {
    match &upload.state {
        UploadState::Open => Ok(None),
        UploadState::Aborted => Err(FsError::NoSuchUpload.into()),
        UploadState::Done { tag, sums, at, .. } => {
            let (sums, encryption) = (sums.clone(), upload.encryption.clone());
            Ok(Some(Completed { tag: *tag, sums, changed: *at, version: None, encryption }))
        }
    }
}

/// Returns true if a part has the tag and the checksums that the client listed.
fn is_listed(listed: &CompletePart, part: &Part) -> bool {
    let agrees = |(algorithm, bytes): &(SumAlgorithm, Vec<u8>)| {
        let kept = part.sums.iter().find(|sum| sum.algorithm == *algorithm);
        kept.is_none_or(|sum| sum.bytes == *bytes)
    };
    listed.tag == part.tag.tag() && listed.sums.iter().all(agrees)
}

/// Returns the listed parts, if all exist and may form an object. If a part was sent several times,
/// it is the last transmission with the listed entity tag.
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

/// Returns the writes of share records, which make the new file an owner of the blocks that the
/// chosen parts share with other files: those of copied parts, and packs (blocks of several files).
/// The parts' own share records end with the upload.
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
