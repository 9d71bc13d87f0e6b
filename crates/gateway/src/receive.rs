//! Receives request bodies: decodes, hashes, verifies and stages them. To stage a body is to make
//! its bytes durable before any name refers to them.
//!
//! A body passes through in one pass: the decoder removes the chunk framing, the hasher computes
//! checksums, and the writer cuts blocks and computes the MD5. No caller sees a body before its
//! length, signature, trailer and all sent checksums are verified.
//!
//! Memory: object content streams through the volume's writer. An XML document is held in memory,
//! with a permit. For example, if a client stops in the middle of an upload, the writer gives its
//! memory to other uploads.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use content::Md5Wanted;
use http_body_util::BodyExt;
use record::{Encryption, Sum, SumKind, Upload};
use s3::body::{BodyDecoder, BodyHead, UPLOAD_BYTES_MAX};
use s3::checksum::{BodyHasher, Digests, Expectation};
use s3::request::ChecksumAlgorithm;
use s3::{Code, Fault};
use tokio::time::{Instant, timeout_at};
use volume::{ContentWriter, Object, ObjectMode, StagedContent};

use crate::call::Call;
use crate::documents::{ArrivalRate, DocumentMemory, DocumentPermits};
use crate::holder::holder;
use crate::http::HttpBody;
use crate::quota::{self, Incoming};
use crate::settings::BODY_BYTES_PER_SECOND_MIN;
use crate::translate::{self, checksum_algorithm, checksum_type, sum_algorithm};

/// The number of bytes that are hashed before other tasks of the thread may run.
pub(crate) const HASH_STEP_BYTES: usize = 256 * 1024;

/// The destination of the bytes of a request body in the volume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement<'a> {
    /// In the record of the object's inode if the bytes are few, otherwise in blocks, in this mode
    /// of encryption.
    Any(&'a ObjectMode),
    /// Always in blocks, for a part of this upload in its mode of encryption.
    Blocks(&'a Upload, &'a ObjectMode),
    /// After the last byte of this object, to which the request appends.
    Append(&'a Object),
}

impl Placement<'_> {
    /// Returns true if the content is encrypted under a key of the client.
    fn has_customer_key(&self) -> bool {
        match self {
            Placement::Any(mode) | Placement::Blocks(_, mode) => {
                matches!(mode.encryption(), Some(Encryption::Customer(_)))
            }
            Placement::Append(_) => false,
        }
    }
}

/// The kind of entity tag that an object gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EtagKind {
    /// The entity tag is the MD5 of the content, as S3 clients expect.
    Md5,
    /// A tag without a relation to the content. The MD5 is computed only to verify one that the
    /// client sent.
    Opaque,
}

/// A request body whose bytes are durable in the volume and whose length and checksums are
/// verified. No key is bound to it yet.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) staged: StagedContent,
    /// The MD5 of the content; `None` only if entity tags are opaque and no MD5 was needed.
    pub(crate) md5: Option<[u8; 16]>,
    pub(crate) sums: Vec<Sum>,
    /// The number of bytes that arrived. For an append, more bytes may be staged, that is, durable
    /// without a name: the object's last bytes are written again before the appended ones.
    pub(crate) bytes: u64,
}

/// Receives the content of an object or part. If the permissions for an object depend on the object
/// that it replaces, they are checked again after the body.
pub(crate) async fn content(
    call: &Call<'_>,
    body: HttpBody,
    placement: Placement<'_>,
    etag_kind: EtagKind,
) -> Result<Received, Fault> {
    let head = BodyHead::parse(call.version, call.headers)?;
    // S3 requires the length before the body, and the quota check uses it.
    head.require_length()?;
    let expectation = Expectation::parse(call.operation, call.sender.verified, call.headers)?;
    let mut decoder = BodyDecoder::new(call.sender.verified, &head, UPLOAD_BYTES_MAX)?;
    let incoming =
        if matches!(placement, Placement::Any(_)) { Incoming::Object } else { Incoming::Bytes };
    quota::refuse_early(call, incoming, decoder.expected()).await?;
    let (expected, mut upload_algorithm) = (decoder.expected(), None);
    let mut writer = match placement {
        Placement::Any(mode) => {
            let keys = call.volume.object_keys(mode).await.map_err(translate::fault)?;
            call.volume.writer(Some(&keys), expected)
        }
        Placement::Blocks(upload, mode) => {
            if let Some((algorithm, kind)) = upload.checksum {
                let algorithm = checksum_algorithm(algorithm);
                expectation.check_part(algorithm, checksum_type(kind))?;
                upload_algorithm = Some(algorithm);
            }
            let keys = call.volume.object_keys(mode).await;
            call.volume.block_writer(Some(&keys.map_err(translate::fault)?), expected)
        }
        Placement::Append(object) => {
            let writer = call.volume.append_writer(object, expected).await;
            writer.map_err(translate::fault)?
        }
    };
    // For an append, the staged bytes may begin with the object's last bytes, so the writer's MD5
    // is not the MD5 of the client's body. The hasher computes it then.
    let appends = matches!(placement, Placement::Append(_));
    let wants_md5 = expectation.needs_md5() || upload_algorithm == Some(ChecksumAlgorithm::Md5);
    // An MD5 that the client sent must be verified before the content is finished. One for the
    // entity tag may follow at the end.
    let early_md5 = wants_md5 && !appends;
    if early_md5 {
        writer.request_md5(Md5Wanted::BeforeFinish);
    } else if etag_kind == EtagKind::Md5 {
        writer.request_md5(Md5Wanted::AtFinish);
    }
    let mut hasher = if appends {
        BodyHasher::new(&expectation, upload_algorithm)
    } else {
        BodyHasher::without_md5(&expectation, upload_algorithm)
    };
    writer.set_memory_holder(holder(call.sender.origin.client, call.sender.identity.as_deref()));
    let mut frames = Frames::new(body, call.settings.body_patience);
    let mut pieces = Vec::new();
    while let Some(frame) = next_upload_frame(&mut frames, &mut writer).await? {
        decoder.push(frame, &mut pieces)?;
        for bytes in pieces.drain(..) {
            // Hashing is CPU work. Small steps let other tasks of the thread run.
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
    let digests = if appends { digests } else { digests.with_md5(md5) };
    let bytes = digests.bytes();
    // Nothing is staged for the caller before all checksums and the trailer are verified.
    expectation.verify(&digests, &trailers)?;
    if !matches!(placement, Placement::Blocks(..)) && call.checks_after_body()? {
        // Boxed, so that other requests do not reserve memory for this future.
        Box::pin(call.require_permissions(call.permissions())).await?;
    }
    let staged = writer.finish().await.map_err(translate::fault)?;
    call.count_in(bytes);
    // A checksum of the gateway's own would reveal a part of content under a client's key.
    let own = (!placement.has_customer_key()).then_some(ChecksumAlgorithm::Crc64Nvme);
    let stored = [own, expectation.algorithm(), upload_algorithm];
    Ok(Received { md5: staged.md5(), staged, sums: stored_sums(&digests, &stored), bytes })
}

/// Returns the next frame of an upload. While it waits for the client, the writer releases memory
/// if other uploads need it.
async fn next_upload_frame(
    frames: &mut Frames,
    writer: &mut ContentWriter,
) -> Result<Option<Bytes>, Fault> {
    loop {
        tokio::select! {
            biased;
            frame = frames.next() => return frame,
            () = writer.memory_wanted() => {}
        }
        // Boxed, so that uploads of fast clients do not reserve memory for this future.
        Box::pin(writer.release_memory()).await.map_err(translate::fault)?;
    }
}

/// Returns the checksums that are stored with the content: those of these algorithms.
fn stored_sums(digests: &Digests, algorithms: &[Option<ChecksumAlgorithm>]) -> Vec<Sum> {
    let sums = digests.sums().filter(|(algorithm, _)| algorithms.contains(&Some(*algorithm)));
    let sums = sums.map(|(algorithm, bytes)| Sum {
        algorithm: sum_algorithm(algorithm),
        kind: SumKind::FullObject,
        bytes: bytes.to_vec(),
    });
    sums.collect()
}

/// A received XML document, with a permit for the memory of the document and of the values parsed
/// from it.
#[derive(Debug)]
pub(crate) struct Document {
    bytes: Vec<u8>,
    _memory: DocumentPermits,
}

impl Deref for Document {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// As [`document`], but fails with `MissingRequestBodyError` if the body is empty.
pub(crate) async fn required_document(
    call: &Call<'_>,
    body: HttpBody,
    bytes_max: usize,
) -> Result<Document, Fault> {
    let document = document(call, body, bytes_max).await?;
    if document.is_empty() { Err(Code::MissingRequestBodyError.into()) } else { Ok(document) }
}

/// Receives an XML document of at most `bytes_max` bytes. Documents are short, so the whole
/// document must arrive within the time in which other bodies need only make progress.
///
/// Faults: `RequestTimeout` if it arrives too slowly, in particular while others wait for the
/// memory that it holds; `SlowDown` if there is no memory for it.
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
    let announced_or_max = decoder.expected().unwrap_or(bytes_max as u64);
    let holder = holder(call.sender.origin.client, call.sender.identity.as_deref());
    let mut memory = DocumentMemory::new(call.documents, holder, call.place, announced_or_max);
    let mut hasher = BodyHasher::new(&expectation, None);
    let patience = call.settings.body_patience;
    let mut frames = Frames::new(body, patience);
    let (mut document, mut pieces) = (Vec::new(), Vec::new());
    let mut deadline = Instant::now() + patience;
    let mut rate = ArrivalRate::new();
    loop {
        let next = next_document_frame(&mut frames, &memory, &mut rate);
        let Some(frame) = timeout_at(deadline, next).await.map_err(late)?? else { break };
        decoder.push(frame, &mut pieces).map_err(too_long)?;
        for bytes in pieces.drain(..) {
            let wait_began = Instant::now();
            memory.grow((document.len() + bytes.len()) as u64).await?;
            // The gateway does not read from the client during the wait for memory, so this time
            // does not count.
            deadline += wait_began.elapsed();
            rate.exclude(wait_began.elapsed());
            hasher.update(&bytes);
            document.extend_from_slice(&bytes);
        }
    }
    let trailers = decoder.finish()?;
    expectation.verify(&hasher.finish(), &trailers)?;
    call.count_in(document.len() as u64);
    // The bucket may have been replaced while the document arrived.
    call.check_bucket().await?;
    let memory = memory.finish(document.len() as u64);
    Ok(Document { bytes: document, _memory: memory })
}

/// Returns the next frame of a document; `None` at its end. Fails with `RequestTimeout` if others
/// wait for the memory of the document and it arrives too slowly.
async fn next_document_frame(
    frames: &mut Frames,
    memory: &DocumentMemory<'_>,
    rate: &mut ArrivalRate,
) -> Result<Option<Bytes>, Fault> {
    loop {
        // The call of `next` after a timeout continues the same wait.
        let frame = match timeout_at(rate.check_at(), frames.next()).await {
            Ok(frame) => frame?,
            Err(_elapsed) => {
                rate.check(memory)?;
                continue;
            }
        };
        rate.count(frame.as_ref().map_or(0, Bytes::len) as u64);
        return Ok(frame);
    }
}

/// The frames, or pieces of bytes, of a request body in the order of their arrival. A body that
/// arrives too slowly fails.
#[derive(Debug)]
pub(crate) struct Frames {
    body: HttpBody,
    patience: Duration,
    /// The time spent on waits for the client since the last check of the rate. `arrived` counts
    /// the bytes of this time.
    waited: Duration,
    arrived: u64,
    /// The start of the wait for the next frame; `None` while the gateway waits for none. It
    /// survives a dropped call of `next`, so the next call continues the same wait.
    since: Option<Instant>,
}

impl Frames {
    pub(crate) fn new(body: HttpBody, patience: Duration) -> Frames {
        Frames { body, patience, waited: Duration::ZERO, arrived: 0, since: None }
    }

    /// Returns the bytes of the next frame; `None` at the end.
    ///
    /// Faults: `RequestTimeout` if the body is too slow; `IncompleteBody` if the connection breaks.
    /// HTTP trailers are ignored, because S3 sends its trailers inside the body.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            // A caller may drop this future and call again. The start of the wait survives, so a
            // client cannot gain time by it.
            let began = *self.since.get_or_insert_with(Instant::now);
            let frame = timeout_at(began + self.patience, self.body.frame()).await;
            self.since = None;
            self.waited += began.elapsed();
            let frame = frame.map_err(|_late| Code::RequestTimeout)?;
            let frame = match frame {
                None => return Ok(None),
                Some(Ok(frame)) => frame,
                // The body of a form comes from the form parser, whose error is the fault for the
                // client.
                Some(Err(error)) => match error.downcast::<Fault>() {
                    Ok(fault) => return Err(*fault),
                    Err(_broken) => return Err(Code::IncompleteBody.into()),
                },
            };
            let Ok(bytes) = frame.into_data() else { continue };
            self.arrived += bytes.len() as u64;
            // The rate is checked over whole periods, so that a short pause within a fast body is
            // no error.
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
