//! Bodies of responses, which release their memory while their client reads nothing.
//!
//! Data that a stream has read ahead of its client takes memory from one budget. When a reader
//! waits for this memory, streams whose client has read nothing for [`IDLE_MIN`] release theirs.
//! Blocks never change, so such a stream reads its bytes again when the client continues.
//!
//! While most of the budget is in use, frames are sent as copies. Otherwise the buffers of slow
//! connections would keep memory of the budget. For example, 1,000 clients that open a GET and read
//! nothing do not block other readers.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::BodyExt;
use s3::{Code, Fault};
use tokio::time::Instant;
use volume::{ContentStream, Object, ReleaseMemory, Volume};

use crate::http::{BoxError, HttpBody, empty_body};
use crate::translate;

/// The time without a read of the client after which a stream may release its memory.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// All bodies of responses that are being sent, so that idle ones can release their memory.
#[derive(Debug, Default)]
pub(crate) struct OutgoingBodies {
    ids: AtomicU64,
    sources: Mutex<HashMap<u64, Weak<Mutex<BodySource>>>>,
}

impl OutgoingBodies {
    /// Returns an empty set of bodies for a volume. When readers of the volume wait for memory, the
    /// volume asks this set to release the memory of idle bodies.
    pub(crate) fn over(volume: &Volume) -> Arc<OutgoingBodies> {
        let sending = Arc::<OutgoingBodies>::default();
        let holder: Weak<OutgoingBodies> = Arc::downgrade(&sending);
        volume.release_memory_for_readers(holder);
        sending
    }

    /// Returns the body for a range of an object, after the checksum of its first bytes is
    /// verified. Until then an error can become an error response; later it can only break the
    /// connection.
    pub(crate) async fn send(
        self: &Arc<OutgoingBodies>,
        volume: &Arc<Volume>,
        object: Object,
        range: Range<u64>,
    ) -> Result<HttpBody, Fault> {
        if range.is_empty() {
            return Ok(empty_body());
        }
        let mut stream = volume.read(&object, range.clone());
        // The first read happens before the response begins, so that an error can have a status
        // code.
        let first = match stream.next().await {
            Some(first) => first.map_err(translate::fault)?,
            None => return Err(Code::InternalError.into()),
        };
        let source = BodySource {
            volume: Arc::clone(volume),
            object,
            remaining: range,
            first: Some(first),
            stream: Some(stream),
            idle_since: Some(Instant::now()),
        };
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let source = Arc::new(Mutex::new(source));
        self.sources().insert(id, Arc::downgrade(&source));
        Ok(OutgoingBody { id, source, sending: Arc::clone(self) }.boxed_unsync())
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<u64, Weak<Mutex<BodySource>>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReleaseMemory for OutgoingBodies {
    fn release_memory(&self) {
        let sources: Vec<_> = self.sources().values().filter_map(Weak::upgrade).collect();
        for source in sources {
            // A locked source is being read by its client right now.
            let Ok(mut source) = source.try_lock() else { continue };
            // A client that still reads would need the same bytes again at once.
            if source.idle_since.is_some_and(|since| since.elapsed() >= IDLE_MIN) {
                (source.first, source.stream) = (None, None);
            }
        }
    }
}

/// The source of the bytes of a response body: a content stream of an object, which can be closed
/// and opened again at the same position.
struct BodySource {
    volume: Arc<Volume>,
    object: Object,
    /// The range of the object's bytes that the body has not sent to the client yet.
    remaining: Range<u64>,
    /// The bytes that were read and verified before the response began; `None` when they are sent.
    first: Option<Bytes>,
    /// The content stream. `None` after its memory was released, until the client reads again.
    stream: Option<ContentStream>,
    /// The time of the client's last read. From then on the body counts as idle. `None` while the
    /// stream is being read for the client.
    idle_since: Option<Instant>,
}

impl fmt::Debug for BodySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodySource").field("remaining", &self.remaining).finish_non_exhaustive()
    }
}

impl BodySource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        self.idle_since = None;
        let next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            // An open stream verifies its end itself. A stream that was released at its end need
            // not be opened again.
            None if self.remaining.is_empty() && self.stream.is_none() => None,
            None => {
                let (volume, object, remaining) = (&self.volume, &self.object, &self.remaining);
                let read = || volume.read(object, remaining.clone());
                ready!(self.stream.get_or_insert_with(read).poll_next_unpin(cx))
            }
        };
        match next {
            Some(Ok(bytes)) => {
                self.remaining.start += bytes.len() as u64;
                self.idle_since = Some(Instant::now());
                // A frame that points into a block keeps the whole block in memory until it is
                // sent.
                let tight = self.volume.is_reader_memory_tight();
                Poll::Ready(Some(Ok(if tight { Bytes::copy_from_slice(&bytes) } else { bytes })))
            }
            Some(Err(error)) => {
                tracing::error!(%error, "cannot send the rest of a response: reading the object failed");
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                self.stream = None;
                Poll::Ready(None)
            }
        }
    }
}

/// The body of a response.
struct OutgoingBody {
    id: u64,
    source: Arc<Mutex<BodySource>>,
    sending: Arc<OutgoingBodies>,
}

impl OutgoingBody {
    fn source(&self) -> MutexGuard<'_, BodySource> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl http_body::Body for OutgoingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let bytes = ready!(self.source().poll_next(cx));
        Poll::Ready(bytes.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        let source = self.source();
        source.remaining.is_empty() && source.stream.is_none()
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        self.sending.sources().remove(&self.id);
    }
}
