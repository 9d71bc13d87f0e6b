//! Multipart uploads: beginning one, adding parts, ending it.
//!
//! Parts are records below the upload, appended and never replaced: a part sent twice is two
//! records. Transmissions of one part are numbered by the order of their commits, so no clock says
//! which came last. Completing is a [`crate::Publish`] that assumes the upload's record and ends it
//! in the same plan.

use record::{Ino, Orphan, Part, Upload, UploadState, key};
use store::{Guard, Key, Plan, Value, Write};

use crate::path::{self, Bound};
use crate::run::{Env, Planner, Step};
use crate::stage::guard_unused;
use crate::view::after;
use crate::view::{View, decode};
use crate::{Assumption, FsError, Halt};

/// How often one part of an upload may be sent: more often than any client does. Without a limit,
/// each transmission of a client that never stops would cost more than the one before.
pub const TRANSMISSIONS_MAX: u32 = 1_024;

/// An upload as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundUpload {
    /// The bucket it is in.
    pub bucket: Ino,
    /// Its record's key.
    pub key: Key,
    /// Its record, for guards.
    pub record: Value,
    /// The upload.
    pub upload: Upload,
}

/// Names an upload: the bucket, the object's key, and the id drawn for it.
#[derive(Clone, Copy, Debug)]
pub struct UploadName<'a> {
    /// The bucket's name.
    pub bucket: &'a [u8],
    /// The object's key.
    pub object: &'a [u8],
    /// The id that the client holds.
    pub id: [u8; 16],
}

/// Begins an upload.
#[derive(Clone, Debug)]
pub struct CreateUpload<'a> {
    /// Its name.
    pub name: UploadName<'a>,
    /// Its record; the time is set to the operation's.
    pub upload: &'a Upload,
}

impl Planner for CreateUpload<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.name.bucket)?;
        let key = key::upload(bucket.dentry.ino, self.name.object, self.name.id);
        let upload = Upload { begun: env.now, ..self.upload.clone() };
        let plan = Plan {
            guards: vec![bucket.guard(), Guard::Absent(key.clone())],
            writes: vec![Write::Put(key.clone(), upload.encode(&key))],
        };
        Ok(Step::Commit(plan, ()))
    }
}

/// Finds an upload, in whatever state: one round trip when the bucket is remembered.
#[derive(Clone, Debug)]
pub struct FindUpload<'a> {
    /// Its name.
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

/// An open upload, and the guards that it and its bucket are still there. A removed bucket takes
/// its uploads along, but later.
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

/// Adds a part whose blocks are durable. One round trip when the upload is remembered and the
/// part is sent for the first time.
#[derive(Clone, Debug)]
pub struct PutPart<'a> {
    /// The upload's name.
    pub name: UploadName<'a>,
    /// The part's number, from 1 to 10,000.
    pub number: u16,
    /// The part; the time is set to the operation's.
    pub part: &'a Part,
    /// Records that must be as they are: the source of a copy.
    pub assumptions: &'a [Assumption],
    /// What else happens: owners of shared blocks.
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
        plan.guards.push(Guard::Absent(key.clone()));
        guard_unused(self.part.owner, self.writes, view, &mut plan)?;
        let part = Part { arrived: env.now, ..self.part.clone() };
        plan.writes.push(Write::Put(key.clone(), part.encode(&key)));
        plan.writes.extend_from_slice(self.writes);
        Ok(Step::Commit(plan, part))
    }
}

impl PutPart<'_> {
    /// The number of the next transmission of this part. Most parts are sent once, so 0 is guessed;
    /// if that is refused, the others are asked for.
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

/// A part as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPart {
    /// Its number.
    pub number: u16,
    /// How many times it was sent before.
    pub transmission: u32,
    /// The part.
    pub part: Part,
}

/// Lists an upload's parts, every transmission of each, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct ReadParts<'a> {
    /// The upload's name.
    pub name: UploadName<'a>,
    /// Parts up to this number are left out.
    pub after: u16,
    /// The last transmission of the page before; it and those before it are left out.
    pub resume: Option<(u16, u32)>,
    /// The most transmissions to answer.
    pub limit: u32,
}

/// A page of an upload's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsFound {
    /// The upload.
    pub upload: FoundUpload,
    /// Transmissions, in the order of part numbers, then of their commits.
    pub parts: Vec<FoundPart>,
    /// Whether there is more.
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

/// A part's number and that of its transmission, from its record's key.
fn part_name(key: &Key) -> Result<(u16, u32), Halt> {
    let corrupt = || Halt::Corrupt(key.clone(), record::DecodeError::Field("key"));
    let suffix: [u8; 6] = key.suffix().try_into().map_err(|_| corrupt())?;
    let [a, b, transmission @ ..] = suffix;
    Ok((u16::from_be_bytes([a, b]), u32::from_be_bytes(transmission)))
}

/// Gives an upload up. Its parts go to the reaper.
#[derive(Clone, Debug)]
pub struct AbortUpload<'a> {
    /// Its name.
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

/// Writes an upload's end and leaves what it does not need to the reaper.
pub fn end_upload(key: &Key, ended: &Upload) -> Vec<Write> {
    let orphan = key::orphan(ended.ino);
    let left = Orphan::Upload { key: key.as_bytes().to_vec() };
    vec![
        Write::Put(key.clone(), ended.encode(key)),
        Write::Put(orphan.clone(), left.encode(&orphan)),
    ]
}

/// Where a listing of uploads goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadsAfter {
    /// Behind this upload.
    Upload(Vec<u8>, [u8; 16]),
    /// Behind all uploads of this object.
    Object(Vec<u8>),
    /// Behind all objects that begin so.
    Prefix(Vec<u8>),
}

/// Lists open uploads in the order of their objects' keys, then of their beginning.
#[derive(Clone, Debug)]
pub struct ListUploads<'a> {
    /// The bucket's name.
    pub bucket: &'a [u8],
    /// What the objects' keys begin with.
    pub prefix: &'a [u8],
    /// Where to go on.
    pub after: Option<&'a UploadsAfter>,
    /// The most records to look at; ended uploads among them are left out.
    pub limit: u32,
}

/// An upload and its object's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUpload {
    /// The object's key.
    pub object: Vec<u8>,
    /// The id that the client holds.
    pub id: [u8; 16],
    /// The upload.
    pub upload: Upload,
}

impl Planner for ListUploads<'_> {
    /// The uploads, open or not, and whether there is more behind the last.
    type Output = (Vec<ListedUpload>, bool);

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let bucket = path::bucket(view, self.bucket)?.dentry.ino;
        let all = key::uploads(bucket);
        let of = |suffix: &[u8]| Key::new(key::space::UPLOAD, bucket.0, suffix);
        let behind =
            |prefix: &[u8]| crate::list::successor(prefix).map_or(all.1.clone(), |s| of(&s));
        let start = match self.after {
            None => of(self.prefix),
            Some(UploadsAfter::Upload(object, id)) => after(&key::upload(bucket, object, *id)),
            Some(UploadsAfter::Object(object)) => of(&[object, &b"\x01"[..]].concat()),
            Some(UploadsAfter::Prefix(prefix)) => behind(prefix),
        };
        let start = start.max(of(self.prefix));
        let end = behind(self.prefix);
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
