//! Multipart uploads: creating one, adding parts, and ending it.
//!
//! The parts of an upload are records below the upload. A part that is sent again is a further
//! record, and no record is replaced. The transmissions of a part are numbered in the order of
//! their commits, so the last one is known without a clock. Completing an upload is a
//! [`crate::Publish`] that assumes the record of the upload, and ends the upload in the same plan.
//!
//! ```text
//!  Open ── CompleteMultipartUpload ──▶ Done
//!       ── AbortMultipartUpload ─────▶ Aborted
//! ```
//!
//! For example, a client sends part 3, gets a timeout, and sends it again. Both transmissions are
//! stored, the completed file has the last one, and the reaper deletes the other.

use record::{Ino, Orphan, Part, Upload, UploadState, key};
use store::{Guard, Key, Plan, Value, Write};

use crate::path::{self, Bound, NamedBucket};
use crate::run::{Env, Planner, Step};
use crate::stage::guard_unused;
use crate::view::after;
use crate::view::{View, decode};
use crate::{Assumption, FsError, Halt};

/// The most transmissions of one part of an upload, that is, how often a client may send the same
/// part number: more than any client sends. The limit bounds the cost of a client that repeats a
/// part forever, because each transmission costs more than the one before.
pub const TRANSMISSIONS_MAX: u32 = 1_024;

/// An upload with its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundUpload {
    /// The inode number of the upload's bucket.
    pub bucket: Ino,
    /// The key of the upload's record.
    pub key: Key,
    /// The bytes of the upload's record, for guards.
    pub record: Value,
    /// The upload's record, decoded.
    pub upload: Upload,
}

/// The name of an upload: the bucket, the object key, and a random id.
#[derive(Clone, Copy, Debug)]
pub struct UploadName<'a> {
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// The object key.
    pub object: &'a [u8],
    /// The random id by which the client names the upload.
    pub id: [u8; 16],
}

/// Creates an upload. Fails with `NoSuchBucket`.
#[derive(Clone, Debug)]
pub struct CreateUpload<'a> {
    /// The name of the new upload.
    pub name: UploadName<'a>,
    /// The record of the new upload. The start time is set to the time of the operation.
    pub upload: &'a Upload,
}

impl Planner for CreateUpload<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.name.bucket)?;
        let key = key::upload(bucket.dentry.ino, self.name.object, self.name.id);
        let upload = Upload { begun: env.now, ..self.upload.clone() };
        let plan = Plan {
            // A bucket that is removed at the same time must not get an upload. The id is random,
            // so its record is expected to be absent.
            guards: vec![bucket.guard(), Guard::Absent(key.clone())],
            writes: vec![Write::Put(key.clone(), upload.encode(&key))],
        };
        Ok(Step::Commit(plan, ()))
    }
}

/// Finds an upload in any state. One round trip if the bucket is cached. Fails with `NoSuchUpload`.
#[derive(Clone, Debug)]
pub struct FindUpload<'a> {
    /// The name of the upload to find.
    pub name: UploadName<'a>,
}

impl Planner for FindUpload<'_> {
    type Output = FoundUpload;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundUpload>, Halt> {
        find(view, &self.name).map(|(_, found)| Step::Done(found))
    }
}

fn find(view: &mut View<'_>, name: &UploadName<'_>) -> Result<(Bound, FoundUpload), Halt> {
    let bound = path::bucket(view, name.bucket)?;
    let bucket = bound.dentry.ino;
    let key = key::upload(bucket, name.object, name.id);
    let record = view.record(&key)?.ok_or(FsError::NoSuchUpload)?;
    let upload = decode(&key, &record, Upload::decode)?;
    Ok((bound, FoundUpload { bucket, key, record, upload }))
}

/// Finds an open upload. Returns it with the guards that it and its bucket are unchanged. The
/// bucket needs a guard, because the uploads of a removed bucket are removed later.
fn find_open(
    view: &mut View<'_>,
    name: &UploadName<'_>,
) -> Result<(Vec<Guard>, FoundUpload), Halt> {
    let (bucket, found) = find(view, name)?;
    match found.upload.state {
        UploadState::Open => {
            let upload = Guard::Equals(found.key.clone(), found.record.clone());
            Ok((vec![bucket.guard(), upload], found))
        }
        UploadState::Done { .. } | UploadState::Aborted => Err(FsError::NoSuchUpload.into()),
    }
}

/// Adds a part whose blocks are durable, as the next transmission of its part number. One round
/// trip if the upload is cached and the part is sent for the first time. Fails with `NoSuchUpload`
/// if the upload does not exist or is not open, and with `TooManyTransmissions`.
#[derive(Clone, Debug)]
pub struct PutPart<'a> {
    /// The name of the upload.
    pub name: UploadName<'a>,
    /// The number of the part, from 1 to 10,000.
    pub number: u16,
    /// The record of the part. Its arrival time is set to the time of the operation.
    pub part: &'a Part,
    /// Records that must be unchanged: the source of a copy.
    pub assumptions: &'a [Assumption],
    /// Further writes of the plan: share records, which name the owners of blocks that the part
    /// shares with other files.
    pub writes: &'a [Write],
}

impl Planner for PutPart<'_> {
    type Output = Part;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Part>, Halt> {
        let (guards, found) = find_open(view, &self.name)?;
        let mut plan = Plan { guards, writes: Vec::new() };
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        let upload = found.upload.ino;
        let transmission = self.next_transmission(view, upload)?;
        let key = key::part(upload, self.number, transmission);
        // Another transmission of this part may be committed at the same time.
        plan.guards.push(Guard::Absent(key.clone()));
        guard_unused(self.part.owner, self.writes, view, &mut plan)?;
        let part = Part { arrived: env.now, ..self.part.clone() };
        plan.writes.push(Write::Put(key.clone(), part.encode(&key)));
        plan.writes.extend_from_slice(self.writes);
        Ok(Step::Commit(plan, part))
    }
}

impl PutPart<'_> {
    /// The number of the next transmission of this part. Most parts are sent once, so 0 is guessed.
    /// If that is refused, the existing transmissions are read.
    fn next_transmission(&self, view: &mut View<'_>, upload: Ino) -> Result<u32, Halt> {
        let first = key::part(upload, self.number, 0);
        if view.guess(&first, None).is_none() {
            return Ok(0);
        }
        let end = key::part(upload, self.number.saturating_add(1), 0);
        let sent = view.range(first, end, TRANSMISSIONS_MAX)?;
        match sent.last() {
            Some(_) if sent.len() >= TRANSMISSIONS_MAX as usize => {
                Err(FsError::TooManyTransmissions.into())
            }
            Some(last) => Ok(part_name(&last.key)?.1.saturating_add(1)),
            None => Ok(0),
        }
    }
}

/// A transmission of a part. If a client sends a part number again, each transmission has its own
/// record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPart {
    /// The number of the part.
    pub number: u16,
    /// The number of this transmission among those of the part number: 0 for the first.
    pub transmission: u32,
    /// The record of the part.
    pub part: Part,
}

/// Lists the transmissions of an upload's parts, sorted by part number and transmission.
#[derive(Clone, Debug)]
pub struct ReadParts<'a> {
    /// The name of the upload.
    pub name: UploadName<'a>,
    /// Part numbers up to this one are left out; 0 leaves out none.
    pub after: u16,
    /// The part number and transmission of the last entry of the page before. It replaces `after`.
    pub resume: Option<(u16, u32)>,
    /// The most transmissions of the page.
    pub limit: u32,
}

/// A page of an upload's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsFound {
    /// The upload to which the parts belong.
    pub upload: FoundUpload,
    /// Transmissions, sorted by part number, then by commit.
    pub parts: Vec<FoundPart>,
    /// True if the next page may have more transmissions.
    pub truncated: bool,
}

impl Planner for ReadParts<'_> {
    type Output = PartsFound;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<PartsFound>, Halt> {
        let (_, upload) = find(view, &self.name)?;
        let ino = upload.upload.ino;
        let (_, end) = key::parts(ino);
        let start = match self.resume {
            Some((number, transmission)) => after(&key::part(ino, number, transmission)),
            None => key::part(ino, self.after.saturating_add(1), 0),
        };
        let entries = view.range(start, end, self.limit)?;
        // A full page may be the last one. The next page is then empty.
        let truncated = entries.len() >= self.limit as usize;
        let part = |entry: store::Entry| {
            let part = decode(&entry.key, &entry.value, Part::decode)?;
            let (number, transmission) = part_name(&entry.key)?;
            Ok::<_, Halt>(FoundPart { number, transmission, part })
        };
        let parts = entries.into_iter().map(part).collect::<Result<_, _>>()?;
        Ok(Step::Done(PartsFound { upload, parts, truncated }))
    }
}

/// The part number and transmission in the key of a part's record.
fn part_name(key: &Key) -> Result<(u16, u32), Halt> {
    let corrupt = || Halt::Corrupt(key.clone(), record::DecodeError::Field("key"));
    let suffix: [u8; 6] = key.suffix().try_into().map_err(|_| corrupt())?;
    let [a, b, transmission @ ..] = suffix;
    Ok((u16::from_be_bytes([a, b]), u32::from_be_bytes(transmission)))
}

/// Aborts an open upload. The reaper deletes its parts. Fails with `NoSuchUpload` if the upload
/// does not exist or is not open.
#[derive(Clone, Debug)]
pub struct AbortUpload<'a> {
    /// The name of the upload to abort.
    pub name: UploadName<'a>,
}

impl Planner for AbortUpload<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let (guards, found) = find_open(view, &self.name)?;
        let ended = Upload { state: UploadState::Aborted, ..found.upload };
        Ok(Step::Commit(Plan { guards, writes: end_upload(&found.key, &ended) }, ()))
    }
}

/// The writes that end an upload: its record with the new state `ended`, and an orphan record, by
/// which the reaper finds and deletes the parts that are not used.
pub fn end_upload(key: &Key, ended: &Upload) -> Vec<Write> {
    let orphan = key::orphan(ended.ino);
    let parts = Orphan::Upload { key: key.as_bytes().to_vec() };
    vec![
        Write::Put(key.clone(), ended.encode(key)),
        Write::Put(orphan.clone(), parts.encode(&orphan)),
    ]
}

/// The place after which a page of uploads starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadsAfter {
    /// After the upload of this object key with this id.
    Upload(Vec<u8>, [u8; 16]),
    /// After all uploads of this object key.
    Object(Vec<u8>),
    /// After all object keys with this prefix.
    Prefix(Vec<u8>),
}

/// Lists uploads, sorted by object key, then by id.
#[derive(Clone, Debug)]
pub struct ListUploads<'a> {
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// The prefix of the object keys.
    pub prefix: &'a [u8],
    /// The place after which the page starts; `None` for the first page.
    pub after: Option<&'a UploadsAfter>,
    /// The most uploads of the page.
    pub limit: u32,
}

/// An upload and its object key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUpload {
    /// The object key of the upload.
    pub object: Vec<u8>,
    /// The id by which the client names the upload.
    pub id: [u8; 16],
    /// The record of the upload, which may be open or ended.
    pub upload: Upload,
}

impl Planner for ListUploads<'_> {
    /// The uploads, open or not, and true if there may be more.
    type Output = (Vec<ListedUpload>, bool);

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let bucket = path::bucket(view, self.bucket)?.dentry.ino;
        let all = key::uploads(bucket);
        let of = |suffix: &[u8]| Key::new(key::space::UPLOAD, bucket.0, suffix);
        let after_prefix =
            |prefix: &[u8]| crate::list::successor(prefix).map_or(all.1.clone(), |s| of(&s));
        let start = match self.after {
            None => of(self.prefix),
            Some(UploadsAfter::Upload(object, id)) => after(&key::upload(bucket, object, *id)),
            Some(UploadsAfter::Object(object)) => of(&[object, &b"\x01"[..]].concat()),
            Some(UploadsAfter::Prefix(prefix)) => after_prefix(prefix),
        };
        let start = start.max(of(self.prefix));
        let end = after_prefix(self.prefix);
        if start >= end {
            return Ok(Step::Done((Vec::new(), false)));
        }
        let entries = view.range(start, end, self.limit)?;
        let truncated = entries.len() >= self.limit as usize;
        let mut uploads = Vec::with_capacity(entries.len());
        for entry in entries {
            let corrupt = || Halt::Corrupt(entry.key.clone(), record::DecodeError::Field("key"));
            let (object, id) = entry.key.suffix().split_last_chunk().ok_or_else(corrupt)?;
            let object = object.strip_suffix(b"\0").ok_or_else(corrupt)?.to_vec();
            let upload = decode(&entry.key, &entry.value, Upload::decode)?;
            uploads.push(ListedUpload { object, id: *id, upload });
        }
        Ok(Step::Done((uploads, truncated)))
    }
}
