//! Bodies on their way in: decoded, hashed, checked, and laid down.
//!
//! A body is decoded as it arrives, in one pass, and cut into blocks meanwhile. Its checksums are
//! computed here, its MD5 by whoever cuts the blocks. Nothing
//! of it is handed on before its length, its signature, its trailer and every checksum sent with
//! it have been verified.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use content::{ByteBudget, Md5Wanted};
use http_body_util::BodyExt;
use record::{Sum, SumAlgorithm, SumKind};
use s3::body::{BodyDecoder, BodyHead, UPLOAD_BYTES_MAX};
use s3::checksum::{BodyHasher, Digests, Expectation};
use s3::request::ChecksumAlgorithm;
use s3::{Code, Fault};
use tokio::time::{Instant, timeout};
use volume::{Permit, StagedContent};

use crate::call::Call;
use crate::http::HttpBody;
use crate::settings::BODY_BYTES_PER_SECOND_MIN;
use crate::translate::{self, checksum_algorithm, sum_algorithm};

/// Bytes that are hashed between two chances for other tasks.
const HASH_STEP_BYTES: usize = 256 * 1024;

/// Where the bytes of a body go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement {
    /// Into a record when they are few.
    Any,
    /// Into blocks, always: a part, and the checksum that its upload wants of it.
    Blocks(Option<SumAlgorithm>),
}

/// Which entity tag the bytes get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EtagKind {
    /// Their MD5.
    Md5,
    /// One that says nothing of them: their MD5 is computed only to verify the one that was sent.
    Opaque,
}

/// A body that is durable and has been verified.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) staged: StagedContent,
    /// There always is one unless tags are opaque.
    pub(crate) md5: Option<[u8; 16]>,
    pub(crate) sums: Vec<Sum>,
}

/// Receives the bytes of an object or part.
pub(crate) async fn content(
    call: &Call<'_>,
    body: HttpBody,
    placement: Placement,
    etag_kind: EtagKind,
) -> Result<Received, Fault> {
    let head = BodyHead::parse(call.version, call.headers)?;
    head.require_length()?;
    let expectation = Expectation::parse(call.operation, call.verified, call.headers)?;
    let mut decoder = BodyDecoder::new(call.verified, &head, UPLOAD_BYTES_MAX)?;
    let (mut writer, also) = match placement {
        Placement::Any => (call.volume.writer(decoder.expected()), None),
        Placement::Blocks(also) => {
            (call.volume.block_writer(decoder.expected()), also.map(checksum_algorithm))
        }
    };
    let sent_md5 = expectation.wants_md5();
    if sent_md5 {
        writer.want_md5(Md5Wanted::BeforeFinish);
    } else if etag_kind == EtagKind::Md5 {
        writer.want_md5(Md5Wanted::AtFinish);
    }
    let mut hasher = BodyHasher::without_md5(&expectation, also);
    let mut frames = Frames::new(body, call.settings.body_patience);
    let mut pieces = Vec::new();
    while let Some(frame) = frames.next().await? {
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
    let md5 = if sent_md5 { Some(writer.md5().await.map_err(translate::fault)?) } else { None };
    let digests = hasher.finish().with_md5(md5);
    expectation.verify(&digests, &trailers)?;
    let staged = writer.finish().await.map_err(translate::fault)?;
    call.count_in(staged.size());
    let wanted = [Some(ChecksumAlgorithm::Crc64Nvme), expectation.algorithm(), also];
    Ok(Received { md5: staged.md5(), staged, sums: kept(&digests, &wanted) })
}

/// The sums that are kept with the bytes.
fn kept(digests: &Digests, wanted: &[Option<ChecksumAlgorithm>]) -> Vec<Sum> {
    let sums = digests.sums().filter(|(algorithm, _)| wanted.contains(&Some(*algorithm)));
    let sums = sums.map(|(algorithm, bytes)| Sum {
        algorithm: sum_algorithm(algorithm),
        kind: SumKind::FullObject,
        bytes: bytes.to_vec(),
    });
    sums.collect()
}

/// A document that was received, and the memory for it and for what is made of it.
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

/// Bytes of memory for each byte of a document: for itself, and for what it is parsed into.
const DOCUMENT_MEMORY: u64 = 2;

/// Bytes of a document that come before memory is taken for all of it: whoever only says that a long
/// one will come holds none for it.
const DOCUMENT_BEGINNING_BYTES: u64 = 64 << 10;

/// How long a document waits for memory.
const DOCUMENT_MEMORY_WAIT: Duration = Duration::from_secs(5);

/// Receives a document of at most `bytes_max` bytes. It is short, so that all of it must come
/// within the time in which other bodies must show some progress.
///
/// Faults: `RequestTimeout` if it does not; `SlowDown` if there is no memory for it.
pub(crate) async fn document(
    call: &Call<'_>,
    body: HttpBody,
    bytes_max: usize,
) -> Result<Document, Fault> {
    let too_long = |fault: Fault| match fault.code {
        Code::EntityTooLarge => Code::MaxMessageLengthExceeded.into(),
        _ => fault,
    };
    let head = BodyHead::parse(call.version, call.headers)?;
    let expectation = Expectation::parse(call.operation, call.verified, call.headers)?;
    let decoder = BodyDecoder::new(call.verified, &head, bytes_max as u64);
    let mut decoder = decoder.map_err(too_long)?;
    let most = decoder.expected().unwrap_or(bytes_max as u64);
    let mut memory = None;
    let mut hasher = BodyHasher::new(&expectation, None);
    let patience = call.settings.body_patience;
    let mut frames = Frames::new(body, patience);
    let (mut document, mut pieces) = (Vec::new(), Vec::new());
    let arrives = async {
        while let Some(frame) = frames.next().await? {
            decoder.push(frame, &mut pieces).map_err(too_long)?;
            for bytes in pieces.drain(..) {
                let needed = (document.len() + bytes.len()) as u64;
                grow(&mut memory, needed, most, call.documents).await?;
                hasher.update(&bytes);
                document.extend_from_slice(&bytes);
            }
        }
        Ok::<_, Fault>(())
    };
    timeout(patience, arrives).await.map_err(|_late| Code::RequestTimeout)??;
    let trailers = decoder.finish()?;
    expectation.verify(&hasher.finish(), &trailers)?;
    call.count_in(document.len() as u64);
    Ok(Document { bytes: document, _memory: memory })
}

/// Takes memory for the `here` bytes of a document that have come: at first for its beginning, and
/// then for `all` that may come, so that those who wait for the rest hold little.
async fn grow(
    memory: &mut Option<Permit>,
    here: u64,
    all: u64,
    budget: &ByteBudget,
) -> Result<(), Fault> {
    let held = memory.as_ref().map_or(0, Permit::bytes);
    if DOCUMENT_MEMORY * here <= held {
        return Ok(());
    }
    let beginning = DOCUMENT_BEGINNING_BYTES.min(all);
    let wanted = DOCUMENT_MEMORY * if here <= beginning { beginning } else { all.max(here) };
    let more = budget.acquire(wanted - held, DOCUMENT_MEMORY_WAIT).await;
    let more = more.map_err(translate::fault)?;
    match memory {
        Some(memory) => memory.merge(more),
        None => *memory = Some(more),
    }
    Ok(())
}

/// A body's frames, as long as they do not come too slowly.
#[derive(Debug)]
struct Frames {
    body: HttpBody,
    patience: Duration,
    /// How long was waited for the client since the pace was last measured, and what came.
    waited: Duration,
    came: u64,
}

impl Frames {
    fn new(body: HttpBody, patience: Duration) -> Frames {
        Frames { body, patience, waited: Duration::ZERO, came: 0 }
    }

    /// The next bytes, as they arrived.
    ///
    /// Faults: `RequestTimeout` for a body that is too slow; `IncompleteBody` for one that breaks
    /// off. HTTP's own trailers are not S3's, and are ignored.
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let began = Instant::now();
            let frame = timeout(self.patience, self.body.frame()).await;
            self.waited += began.elapsed();
            let frame = frame.map_err(|_late| Code::RequestTimeout)?;
            let frame = match frame {
                None => return Ok(None),
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return Err(Code::IncompleteBody.into()),
            };
            let Ok(bytes) = frame.into_data() else { continue };
            self.came += bytes.len() as u64;
            if self.waited >= self.patience {
                if self.came < self.patience.as_secs() * BODY_BYTES_PER_SECOND_MIN {
                    return Err(Code::RequestTimeout.into());
                }
                (self.waited, self.came) = (Duration::ZERO, 0);
            }
            return Ok(Some(bytes));
        }
    }
}
