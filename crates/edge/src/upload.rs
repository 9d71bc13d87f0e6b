//! The body of a request, with a view of its progress for the edge.
//!
//! The service reads a [`WatchedBody`]. The edge keeps the [`BodyWatch`], to count bytes, and to
//! read the rest after the service has dropped the body. For example, after a refused PUT of 100
//! KiB the edge drains the body, so that the connection can serve the next request.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::service::BodyError;
use crate::slot::{RequestSlot, Resume};

/// The limit of bytes of an unread body that are read and discarded, so that the connection can
/// serve another request, and a client that still sends gets its response instead of a reset.
const DRAIN_BYTES_MAX: u64 = 1 << 20;

/// The limit of time to drain a body, that is, to read and discard the rest of it.
const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// The edge's view of a body that the service reads.
#[derive(Debug)]
pub(crate) struct BodyWatch {
    /// The number of bytes of the body that were read so far.
    read: AtomicU64,
    /// True after the service has polled the body for the first time.
    polled: AtomicBool,
    /// True after the end of the body was read.
    ended: AtomicBool,
    /// The time at which the end of the body was read; empty for a request without a body.
    ended_at: OnceLock<Instant>,
    /// The rest of the body, after the service has dropped it.
    rest: Mutex<Option<Incoming>>,
}

/// A body that reports to its [`BodyWatch`], and leaves its rest there when it is dropped.
#[derive(Debug)]
pub(crate) struct WatchedBody {
    body: Option<Incoming>,
    watch: Arc<BodyWatch>,
    /// The slot of the request. A slot is the permission to be in flight. Other requests may take
    /// it while the body waits for its client.
    slot: Option<OwnSlot>,
    resume: Resume,
    /// A frame, or piece, of the body that was received after another request took the slot. It
    /// waits here until the request has a slot again.
    pending: Option<Frame<Bytes>>,
}

/// The slot of a request with a body.
#[derive(Debug)]
struct OwnSlot {
    slot: Arc<RequestSlot>,
    /// Returns the error of the body if the request gets no slot after another one took its own.
    lost: fn() -> BodyError,
}

impl WatchedBody {
    /// Returns a body for the service, and its watch for the edge.
    pub(crate) fn new(body: Incoming) -> (WatchedBody, Arc<BodyWatch>) {
        let watch = Arc::new(BodyWatch {
            read: AtomicU64::new(0),
            polled: AtomicBool::new(false),
            ended: AtomicBool::new(body.is_end_stream()),
            ended_at: OnceLock::new(),
            rest: Mutex::new(None),
        });
        let body = WatchedBody {
            body: Some(body),
            watch: Arc::clone(&watch),
            slot: None,
            resume: Resume::default(),
            pending: None,
        };
        (body, watch)
    }

    /// Returns the body with the slot of its request, which other requests may take while the body
    /// waits for its client. `lost` returns the error of the body if the request then gets no slot
    /// in time.
    pub(super) fn in_slot(self, slot: &Arc<RequestSlot>, lost: fn() -> BodyError) -> WatchedBody {
        let slot = Some(OwnSlot { slot: Arc::clone(slot), lost });
        let mut body = self;
        body.slot = slot;
        body
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        // A frame that waits for a slot is delivered before the next one is read.
        if this.pending.is_none() {
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            this.watch.polled.store(true, Ordering::Relaxed);
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
                if let Some(own) = &this.slot {
                    own.slot.wait_for_client();
                }
                return Poll::Pending;
            };
            if frame.is_none() || body.is_end_stream() {
                this.watch.ended.store(true, Ordering::Relaxed);
                this.watch.ended_at.get_or_init(Instant::now);
            }
            match frame {
                Some(Ok(frame)) => {
                    let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                    this.watch.read.fetch_add(bytes, Ordering::Relaxed);
                    this.pending = Some(frame);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {}
            }
        }
        if let Some(own) = &this.slot
            && let Err(late) = ready!(this.resume.poll(Some(&own.slot), cx))
        {
            tracing::debug!(%late, "a request whose client had stalled got no slot in time");
            return Poll::Ready(Some(Err((own.lost)())));
        }
        let frame = this.pending.take();
        if let (Some(own), Some(frame)) = (&this.slot, &frame) {
            // After the wait was added to the account, so that progress ends it.
            own.slot.count_progress(frame.data_ref().map_or(0, Bytes::len) as u64);
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.pending.is_none() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // Called before the first read, so no pending frame is missing from the hint.
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        *self.watch.rest.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}

impl BodyWatch {
    /// Returns the number of bytes read so far.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the time at which the service read the end of the body, if it did.
    pub(crate) fn ended_at(&self) -> Option<Instant> {
        self.ended_at.get().copied()
    }

    /// Returns true if the body was read to its end.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Reads the rest of the body if it is short. Returns true if the end was reached. If the
    /// client waits for `100 Continue`, nothing is read, because a read would make hyper send it.
    pub(crate) async fn read_to_end(&self, expects_continue: bool) -> bool {
        if self.ended.load(Ordering::Relaxed) {
            return true;
        }
        if expects_continue && !self.polled.load(Ordering::Relaxed) {
            return false;
        }
        // Absent while the service still holds the body; then the connection is closed.
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(rest) = rest else { return false };
        if rest.size_hint().lower() > DRAIN_BYTES_MAX {
            return false;
        }
        matches!(tokio::time::timeout(DRAIN_WAIT, drain(rest)).await, Ok(true))
    }
}

/// Reads and discards at most [`DRAIN_BYTES_MAX`] of a body. Returns true if the end was reached.
async fn drain(mut body: Incoming) -> bool {
    let mut drained = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        drained += frame.data_ref().map_or(0, Bytes::len) as u64;
        if drained > DRAIN_BYTES_MAX {
            return false;
        }
    }
    true
}
