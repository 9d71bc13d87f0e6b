//! Bodies of requests: decoded, hashed, verified and stored.
//!
//! A body is decoded as it arrives, in one pass, and cut into blocks meanwhile. Its checksums are
//! computed here, its MD5 by the writer that cuts the blocks. No caller sees a body before its
//! length, its signature, its trailer and every checksum sent with it have been verified.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use content::Md5Wanted;
use http_body_util::BodyExt;
use record::{Sum, SumAlgorithm, SumKind};
use s3::body::{BodyDecoder, BodyHead, UPLOAD_BYTES_MAX};
use s3::checksum::{BodyHasher, Digests, Expectation};
use s3::request::ChecksumAlgorithm;
use s3::{Code, Fault};
use tokio::time::{Instant, timeout_at};
use volume::{ContentWriter, Object, Permit, StagedContent};

use crate::call::Call;
use crate::documents::DocumentMemory;
use crate::holder::holder;
use crate::http::HttpBody;
use crate::room::{self, Coming};
use crate::settings::BODY_BYTES_PER_SECOND_MIN;
use crate::translate::{self, checksum_algorithm, checksum_type, sum_algorithm};

/// Bytes that are hashed before other tasks get a chance to run.
pub(crate) const HASH_STEP_BYTES: usize = 256 * 1024;

/// Where the bytes of a body are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement<'a> {
    /// In a record if they are few, in blocks otherwise.
    Any,
    /// Always in blocks: for a part, with the checksum that its upload was begun with.
    Blocks(Option<(SumAlgorithm, SumKind)>),
    /// Behind what an object holds.
    Behind(&'a Object),
}

/// Which kind of entity tag the object gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EtagKind {
    /// The MD5 of its bytes.
    Md5,
    /// One that says nothing of its bytes. Their MD5 is computed only to verify one that was sent.
    Opaque,
}

/// A body that is durable and has been verified.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) staged: StagedContent,
    /// Always there unless entity tags are opaque.
    pub(crate) md5: Option<[u8; 16]>,
    pub(crate) sums: Vec<Sum>,
    /// How many bytes arrived. More are staged where they are appended to others.
    pub(crate) bytes: u64,
}

/// Receives the bytes of an object or part. For an object, asks for the permissions once more if they
/// depend on the object that it replaces.
pub(crate) async fn content(
    call: &Call<'_>,
    body: HttpBody,
    placement: Placement<'_>,
    etag_kind: EtagKind,
) -> Result<Received, Fault> {
    let head = BodyHead::parse(call.version, call.headers)?;
    head.require_length()?;
    let expectation = Expectation::parse(call.operation, call.sender.verified, call.headers)?;
    let mut decoder = BodyDecoder::new(call.sender.verified, &head, UPLOAD_BYTES_MAX)?;
    let coming = if matches!(placement, Placement::Any) { Coming::Object } else { Coming::Bytes };
    room::refuse_early(call, coming, decoder.expected()).await?;
    let (mut writer, also) = match placement {
        Placement::Any => (call.volume.writer(decoder.expected()), None),
        Placement::Blocks(None) => (call.volume.block_writer(decoder.expected()), None),
        Placement::Blocks(Some((algorithm, kind))) => {
            let also = checksum_algorithm(algorithm);
            expectation.check_part(also, checksum_type(kind))?;
            (call.volume.block_writer(decoder.expected()), Some(also))
        }
        Placement::Behind(object) => {
            let writer = call.volume.append_writer(object, decoder.expected()).await;
            (writer.map_err(translate::fault)?, None)
        }
    };
    // What is staged may begin with what was there before. That is not what the client has sent.
    let behind = matches!(placement, Placement::Behind(_));
    let wants_md5 = expectation.needs_md5() || also == Some(ChecksumAlgorithm::Md5);
    let early_md5 = wants_md5 && !behind;
    if early_md5 {
        writer.request_md5(Md5Wanted::BeforeFinish);
    } else if etag_kind == EtagKind::Md5 {
        writer.request_md5(Md5Wanted::AtFinish);
    }
    let mut hasher = if behind {
        BodyHasher::new(&expectation, also)
    } else {
        BodyHasher::without_md5(&expectation, also)
    };
    writer.set_memory_holder(holder(call.sender.client, call.sender.identity.as_deref()));
    let mut frames = Frames::new(body, call.settings.body_patience);
    let mut pieces = Vec::new();
    while let Some(frame) = next_of_upload(&mut frames, &mut writer).await? {
        decoder.push(frame, &mut pieces)?;
        for bytes in pieces.drain(..) {
            for step in bytes.chunks(HASH_STEP_BYTES) {
                hasher.update(step);
                tokio::task::consume_budget().await;
            }
            writer.write(bytes).await.map_err(translate::fault)?;
        }
    }
    let trailers = decoder.finish()?;
    let md5 = if early_md5 { Some(writer.md5().await.map_err(translate::fault)?) } else { None };
    let digests = hasher.finish();
    let digests = if behind { digests } else { digests.with_md5(md5) };
    let bytes = digests.bytes();
    expectation.verify(&digests, &trailers)?;
    if !matches!(placement, Placement::Blocks(_)) && call.asks_after_body()? {
        // Boxed, so that other requests hold no memory for it.
        Box::pin(call.demand(call.permissions())).await?;
    }
    let staged = writer.finish().await.map_err(translate::fault)?;
    call.count_in(bytes);
    let wanted = [Some(ChecksumAlgorithm::Crc64Nvme), expectation.algorithm(), also];
    Ok(Received { md5: staged.md5(), staged, sums: kept(&digests, &wanted), bytes })
}

/// The next frame of an upload. While its client is waited for, the writer gives memory back if others
/// need it more.
async fn next_of_upload(
    frames: &mut Frames,
    writer: &mut ContentWriter,
) -> Result<Option<Bytes>, Fault> {
    loop {
        tokio::select! {
            biased;
            frame = frames.next() => return frame,
            () = writer.memory_wanted() => {}
        }
        // Boxed, so that requests whose clients are fast hold no memory for it.
        Box::pin(writer.release_memory()).await.map_err(translate::fault)?;
    }
}

/// The checksums that are stored with the bytes.
fn kept(digests: &Digests, wanted: &[Option<ChecksumAlgorithm>]) -> Vec<Sum> {
    let sums = digests.sums().filter(|(algorithm, _)| wanted.contains(&Some(*algorithm)));
    let sums = sums.map(|(algorithm, bytes)| Sum {
        algorithm: sum_algorithm(algorithm),
        kind: SumKind::FullObject,
        bytes: bytes.to_vec(),
    });
    sums.collect()
}

/// An XML document that was received, and a permit for the memory of it and of what is parsed
/// from it.
#[derive(Debug)]
pub(crate) struct Document {
    bytes: Vec<u8>,
    _memory: Option<Permit>,
}

impl Deref for Document {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// As [`document`], where there must be one. Fault: `MissingRequestBodyError`.
pub(crate) async fn required_document(
    call: &Call<'_>,
    body: HttpBody,
    bytes_max: usize,
) -> Result<Document, Fault> {
    let document = document(call, body, bytes_max).await?;
    if document.is_empty() { Err(Code::MissingRequestBodyError.into()) } else { Ok(document) }
}

/// Receives a document of at most `bytes_max` bytes. Documents are short, so all of it must arrive
/// within the time in which other bodies need only make some progress.
///
/// Faults: `RequestTimeout` if it does not; `SlowDown` if there is no memory for it.
pub(crate) async fn document(
    call: &Call<'_>,
    body: HttpBody,
    bytes_max: usize,
) -> Result<Document, Fault> {
    let too_long = |fault: Fault| {
        if fault.code == Code::EntityTooLarge { Fault::too_long(bytes_max) } else { fault }
    };
    let late = |_late| Fault::from(Code::RequestTimeout);
    let head = BodyHead::parse(call.version, call.headers)?;
    let expectation = Expectation::parse(call.operation, call.sender.verified, call.headers)?;
    let decoder = BodyDecoder::new(call.sender.verified, &head, bytes_max as u64);
    let mut decoder = decoder.map_err(too_long)?;
    let most = decoder.expected().unwrap_or(bytes_max as u64);
    let holder = holder(call.sender.client, call.sender.identity.as_deref());
    let mut memory = DocumentMemory::new(call.documents, holder, most);
    let mut hasher = BodyHasher::new(&expectation, None);
    let patience = call.settings.body_patience;
    let mut frames = Frames::new(body, patience);
    let (mut document, mut pieces) = (Vec::new(), Vec::new());
    let mut deadline = Instant::now() + patience;
    while let Some(frame) = timeout_at(deadline, frames.next()).await.map_err(late)?? {
        decoder.push(frame, &mut pieces).map_err(too_long)?;
        for bytes in pieces.drain(..) {
            let waits = Instant::now();
            memory.grow((document.len() + bytes.len()) as u64).await?;
            // The client is not read from meanwhile.
            deadline += waits.elapsed();
            hasher.update(&bytes);
            document.extend_from_slice(&bytes);
        }
    }
    let trailers = decoder.finish()?;
    expectation.verify(&hasher.finish(), &trailers)?;
    call.count_in(document.len() as u64);
    call.check_bound().await?;
    let memory = memory.finish(document.len() as u64);
    Ok(Document { bytes: document, _memory: memory })
}

/// The frames of a body, while they arrive fast enough.
#[derive(Debug)]
pub(crate) struct Frames {
    body: HttpBody,
    patience: Duration,
    /// The time spent waiting for the client since the rate was last checked, and the bytes that
    /// arrived in it.
    waited: Duration,
    arrived: u64,
    /// Since when the next frame is waited for. A call of `next` that is dropped changes nothing.
    since: Option<Instant>,
}

impl Frames {
    pub(crate) fn new(body: HttpBody, patience: Duration) -> Frames {
        Frames { body, patience, waited: Duration::ZERO, arrived: 0, since: None }
    }

    /// The next frame's bytes; `None` at the end.
    ///
    /// Faults: `RequestTimeout` for a body that is too slow; `IncompleteBody` for one that breaks
    /// off. HTTP's own trailers are ignored: those of S3 are part of the body.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let began = *self.since.get_or_insert_with(Instant::now);
            let frame = timeout_at(began + self.patience, self.body.frame()).await;
            self.since = None;
            self.waited += began.elapsed();
            let frame = frame.map_err(|_late| Code::RequestTimeout)?;
            let frame = match frame {
                None => return Ok(None),
                Some(Ok(frame)) => frame,
                // What reads a form says what is wrong with it.
                Some(Err(error)) => match error.downcast::<Fault>() {
                    Ok(fault) => return Err(*fault),
                    Err(_broken) => return Err(Code::IncompleteBody.into()),
                },
            };
            let Ok(bytes) = frame.into_data() else { continue };
            self.arrived += bytes.len() as u64;
            if self.waited >= self.patience {
                if self.arrived < self.patience.as_secs() * BODY_BYTES_PER_SECOND_MIN {
                    return Err(Code::RequestTimeout.into());
                }
                (self.waited, self.arrived) = (Duration::ZERO, 0);
            }
            return Ok(Some(bytes));
        }
    }
}

#[cfg(test)]
mod tests;
