//! The body of a request, and a view of it from outside: how much was read, and what is left.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use gateway::BoxError;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use s3::{Code, Fault};

use super::slot::{RequestSlot, Resume};

/// Bytes of an unread body that are read and discarded, so that the connection can go on, and so
/// that a client that is still sending sees an early response instead of a reset.
const DRAIN_BYTES_MAX: u64 = 1 << 20;

/// How long that may take.
const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// What the edge knows of a body while the gateway reads it.
#[derive(Debug)]
pub(crate) struct BodyWatch {
    read: AtomicU64,
    touched: AtomicBool,
    ended: AtomicBool,
    /// The rest of the body, once the gateway has dropped it.
    rest: Mutex<Option<Incoming>>,
}

/// A body that reports to its [`BodyWatch`], and leaves its rest there when it is dropped.
#[derive(Debug)]
pub(crate) struct WatchedBody {
    body: Option<Incoming>,
    watch: Arc<BodyWatch>,
    /// The slot of the request, which it gives up while it waits for more of the body.
    slot: Option<Arc<RequestSlot>>,
    resume: Resume,
    /// What arrived while the request had no slot.
    arrived: Option<Frame<Bytes>>,
}

impl WatchedBody {
    pub(crate) fn new(body: Incoming) -> (WatchedBody, Arc<BodyWatch>) {
        let watch = Arc::new(BodyWatch {
            read: AtomicU64::new(0),
            touched: AtomicBool::new(false),
            ended: AtomicBool::new(body.is_end_stream()),
            rest: Mutex::new(None),
        });
        let body = WatchedBody {
            body: Some(body),
            watch: Arc::clone(&watch),
            slot: None,
            resume: Resume::default(),
            arrived: None,
        };
        (body, watch)
    }

    /// The body of a request that has a slot.
    pub(super) fn in_slot(self, slot: &Arc<RequestSlot>) -> WatchedBody {
        let slot = Some(Arc::clone(slot));
        let mut body = self;
        body.slot = slot;
        body
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.arrived.is_none() {
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            this.watch.touched.store(true, Ordering::Relaxed);
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
                if let Some(slot) = &this.slot {
                    slot.waits_for_client();
                }
                return Poll::Pending;
            };
            if frame.is_none() || body.is_end_stream() {
                this.watch.ended.store(true, Ordering::Relaxed);
            }
            match frame {
                Some(Ok(frame)) => {
                    let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                    this.watch.read.fetch_add(bytes, Ordering::Relaxed);
                    this.arrived = Some(frame);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {}
            }
        }
        if let Err(late) = ready!(this.resume.poll(this.slot.as_ref(), cx)) {
            tracing::debug!(%late, "a request whose body had stopped gets no slot again");
            return Poll::Ready(Some(Err(Fault::new(Code::SlowDown).into())));
        }
        Poll::Ready(this.arrived.take().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.arrived.is_none() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // The gateway asks before it reads anything.
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        *self.watch.rest.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}

impl BodyWatch {
    /// Bytes read so far.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns true if the body was read to its end.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Reads the rest of the body if it is short, and returns whether the body has been read to its
    /// end. Nothing is read from a client that waits for `100 Continue`: reading would send it.
    pub(crate) async fn read_to_end(&self, expects_continue: bool) -> bool {
        if self.ended.load(Ordering::Relaxed) {
            return true;
        }
        if expects_continue && !self.touched.load(Ordering::Relaxed) {
            return false;
        }
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(rest) = rest else { return false };
        if rest.size_hint().lower() > DRAIN_BYTES_MAX {
            return false;
        }
        matches!(tokio::time::timeout(DRAIN_WAIT, drain(rest)).await, Ok(true))
    }
}

/// Reads a body that is not too long. Returns whether its end was reached.
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
