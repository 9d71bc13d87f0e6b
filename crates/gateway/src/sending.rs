//! Bodies on their way out, which give back what they hold while nobody takes it.
//!
//! What a stream has read ahead of its client takes memory from a budget that all share. When
//! somebody waits for that memory, those streams let go of theirs of which no client has taken
//! anything for a while; blocks never change, so that they read it again when the client comes
//! back. While much of the budget is taken, frames leave as copies of their own: then what a
//! client's connection holds keeps nothing of it.

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
use volume::{ContentStream, LetGo, Object, Volume};

use crate::http::{BoxError, HttpBody, empty_body};
use crate::translate;

/// How long a client must have taken nothing for its stream to let go of what it holds.
const UNTAKEN: Duration = Duration::from_secs(1);

/// All bodies that are being sent.
#[derive(Debug, Default)]
pub(crate) struct OutgoingBodies {
    ids: AtomicU64,
    sources: Mutex<HashMap<u64, Weak<Mutex<BodySource>>>>,
}

impl OutgoingBodies {
    /// The bodies of a volume, which is told to ask them when its readers wait for memory.
    pub(crate) fn over(volume: &Volume) -> Arc<OutgoingBodies> {
        let sending = Arc::<OutgoingBodies>::default();
        let holder: Weak<OutgoingBodies> = Arc::downgrade(&sending);
        volume.when_readers_wait(holder);
        sending
    }

    /// A range of an object, once the first bytes have passed their checksum: before that, an
    /// error can still be told; after it, the connection breaks.
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
        let first = match stream.next().await {
            Some(first) => first.map_err(translate::fault)?,
            None => return Err(Code::InternalError.into()),
        };
        let source = BodySource {
            volume: Arc::clone(volume),
            object,
            left: range,
            first: Some(first),
            stream: Some(stream),
            untaken: Some(Instant::now()),
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

impl LetGo for OutgoingBodies {
    fn let_go(&self) {
        let sources: Vec<_> = self.sources().values().filter_map(Weak::upgrade).collect();
        for source in sources {
            // Whoever is at it takes something.
            let Ok(mut source) = source.try_lock() else { continue };
            if source.untaken.is_some_and(|since| since.elapsed() >= UNTAKEN) {
                (source.first, source.stream) = (None, None);
            }
        }
    }
}

/// Where a body's bytes come from.
struct BodySource {
    volume: Arc<Volume>,
    object: Object,
    /// What has not been handed on.
    left: Range<u64>,
    /// What was read before the answer began.
    first: Option<Bytes>,
    /// None while nobody takes anything and others need the memory.
    stream: Option<ContentStream>,
    /// Since when it is the client that is waited for.
    untaken: Option<Instant>,
}

impl fmt::Debug for BodySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodySource").field("left", &self.left).finish_non_exhaustive()
    }
}

impl BodySource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        self.untaken = None;
        let next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            // The stream says itself that it has come to a good end, unless it was let go of there.
            None if self.left.is_empty() && self.stream.is_none() => None,
            None => {
                let (volume, object, left) = (&self.volume, &self.object, &self.left);
                let read = || volume.read(object, left.clone());
                ready!(self.stream.get_or_insert_with(read).poll_next_unpin(cx))
            }
        };
        match next {
            Some(Ok(bytes)) => {
                self.left.start += bytes.len() as u64;
                self.untaken = Some(Instant::now());
                let tight = self.volume.readers_may_wait();
                Poll::Ready(Some(Ok(if tight { Bytes::copy_from_slice(&bytes) } else { bytes })))
            }
            Some(Err(error)) => {
                tracing::error!(%error, "an answer breaks off");
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                self.stream = None;
                Poll::Ready(None)
            }
        }
    }
}

/// A body on its way out.
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
        source.left.is_empty() && source.stream.is_none()
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        self.sending.sources().remove(&self.id);
    }
}
