//! The body of a response while it is sent, and what is recorded when it has been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use gateway::{BoxError, HttpBody, Served};
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Span;
use volume::RoundTrips;

use super::flow::{FRAME_BYTES_MAX, Flow, NotTaken};
use super::slot::{RequestSlot, Resume};
use super::upload::BodyWatch;
use crate::metrics::{Metrics, RequestCost};

/// What is known of a request when its response begins. It is recorded once, when the response's
/// body has been sent or abandoned.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) span: Span,
    pub(crate) began: Instant,
    pub(crate) status: StatusCode,
    /// The `Content-Length` of the response.
    pub(crate) promised: Option<u64>,
    pub(crate) served: Served,
    /// Round trips to the metadata store before the response began.
    pub(crate) trips: RoundTrips,
    pub(crate) upload: Arc<BodyWatch>,
    /// Whether the body is one frame that is in memory.
    pub(crate) in_memory: bool,
    pub(crate) held: HeldPermits,
}

/// What a response holds until it has been sent.
#[derive(Debug, Default)]
pub(crate) struct HeldPermits {
    /// The request's slot, while the body is still being read: the request is in flight.
    pub(super) slot: Option<Arc<RequestSlot>>,
    /// Instead of it, the permit for the memory of a body that is whole in memory.
    pub(crate) _memory: Option<OwnedSemaphorePermit>,
}

/// A frame that holds the permits of its response.
struct HeldFrame {
    bytes: Bytes,
    _held: HeldPermits,
}

impl AsRef<[u8]> for HeldFrame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HeldPermits {
    /// Hands the permits over to a frame.
    fn go_with(&mut self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(HeldFrame { bytes, _held: std::mem::take(self) })
    }
}

/// The body of a response. It records its [`Account`] when it is dropped.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    body: HttpBody,
    account: Account,
    /// Over HTTP/2: whether the peer takes the frames.
    flow: Option<Arc<Flow>>,
    /// The rest of a frame that is longer than one HTTP/2 frame of ours.
    rest: Bytes,
    /// The way back to a slot, after the client took its time.
    resume: Resume,
    first_byte: Option<Instant>,
    bytes: u64,
    failed: bool,
}

impl ResponseBody {
    pub(crate) fn new(body: HttpBody, account: Account, flow: Option<Arc<Flow>>) -> ResponseBody {
        if let Some(flow) = flow.as_ref().filter(|_| account.in_memory) {
            flow.in_memory();
        }
        ResponseBody {
            body,
            account,
            flow,
            rest: Bytes::new(),
            resume: Resume::default(),
            first_byte: None,
            bytes: 0,
            failed: false,
        }
    }

    /// Ready when the client has taken the bytes sent so far, and the request has a slot to go on.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if let Some(flow) = &self.flow {
            ready!(flow.poll_taken(cx))?;
        }
        ready!(self.resume.poll(self.account.held.slot.as_ref(), cx))?;
        Poll::Ready(Ok(()))
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let span = this.account.span.clone();
        let _entered = span.enter();
        let turn = ready!(this.poll_turn(cx));
        let frame = match &this.flow {
            _ if turn.is_err() => turn.err().map(Err),
            Some(flow) => ready!(poll_flow(flow, &mut this.body, &mut this.rest, cx)),
            None => {
                let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
                // hyper drops a body as soon as it has the last frame, long before that is sent. So
                // the frame itself must hold the permits.
                match frame {
                    Some(Ok(frame)) if this.account.in_memory => {
                        Some(Ok(frame.map_data(|bytes| this.account.held.go_with(bytes))))
                    }
                    frame => frame,
                }
            }
        };
        match &frame {
            Some(Ok(frame)) => {
                this.first_byte.get_or_insert_with(Instant::now);
                this.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                // What is in memory stays there until it was taken, so its slot stays as well.
                if let Some(slot) = &this.account.held.slot
                    && !this.account.in_memory
                {
                    slot.waits_for_client();
                }
            }
            Some(Err(error)) => {
                this.failed = true;
                // A client that takes nothing is counted elsewhere, and not worth a log line.
                if !error.is::<NotTaken>() {
                    tracing::warn!(%error, "an answer's body ended early");
                }
            }
            None => {}
        }
        Poll::Ready(frame)
    }

    /// An HTTP/2 stream ends only when the peer has taken everything that was sent.
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && (self.flow.is_none() || self.bytes == 0)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let account = &self.account;
        let now = Instant::now();
        let duration = now.duration_since(account.began);
        let first_byte = self.first_byte.unwrap_or(now).duration_since(account.began);
        let received = account.upload.read();
        let cost = RequestCost { duration, first_byte, received, sent: self.bytes };
        account.metrics.record_request(&account.served, account.status, cost);
        let _entered = account.span.enter();
        tracing::debug!(
            target: "access",
            operation = account.served.operation,
            bucket = account.served.bucket.as_deref().unwrap_or("-"),
            status = account.status.as_u16(),
            code = account.served.code.unwrap_or("-"),
            reads = account.trips.reads,
            commits = account.trips.commits,
            bytes_in = received,
            bytes_out = self.bytes,
            first_byte_us = u64::try_from(first_byte.as_micros()).unwrap_or(u64::MAX),
            duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            // hyper does not poll a body again once all of its `Content-Length` has been sent.
            whole = !self.failed
                && (self.body.is_end_stream() || account.promised == Some(self.bytes)),
        );
    }
}

/// The next frame of an HTTP/2 stream whose peer has taken the one before it.
fn poll_flow(
    flow: &Arc<Flow>,
    body: &mut HttpBody,
    rest: &mut Bytes,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
    while rest.is_empty() {
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => *rest = bytes,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            },
            other => return Poll::Ready(other),
        }
    }
    let bytes = rest.split_to(rest.len().min(FRAME_BYTES_MAX));
    Poll::Ready(Some(Ok(Frame::data(flow.send(bytes)))))
}
