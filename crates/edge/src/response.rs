//! The body of a response while it is sent, and the record of its request.
//!
//! A response holds a request's slot while the service still reads its body, for example of a large
//! GET, or a memory permit if it is completely in memory. When the body is dropped, the request is
//! recorded in metrics and the access log. For example, if a client disconnects in the middle of a
//! GET, hyper drops the body, and the record has the bytes that were sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;
use tracing::Span;

use crate::answers::AnswerPermit;
use crate::flow::{ClientStalled, FRAME_BYTES_MAX, Flow};
use crate::metrics::{EdgeMetrics, RequestCost};
use crate::service::{AccessFacts, BodyError, EdgeBody, RequestEnd};
use crate::slot::{RequestSlot, Resume};
use crate::upload::BodyWatch;

/// The record of a request. It is written once, when the response's body has been sent or
/// abandoned.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub(crate) metrics: Arc<EdgeMetrics>,
    pub(crate) span: Span,
    pub(crate) started: Instant,
    pub(crate) status: StatusCode,
    /// The `Content-Length` of the response.
    pub(crate) content_length: Option<u64>,
    pub(crate) facts: AccessFacts,
    pub(crate) upload: Arc<BodyWatch>,
    /// True if the body is one frame that is in memory.
    pub(crate) in_memory: bool,
    pub(crate) held: HeldPermits,
}

/// The permits that a response holds until it has been sent: the slot of its request, that is, the
/// permission to be in flight, or a permit for memory.
#[derive(Debug, Default)]
pub(crate) struct HeldPermits {
    /// The request's slot: held while the service still reads the body from the stores, and for a
    /// body in memory that got no memory permit.
    pub(super) slot: Option<Arc<RequestSlot>>,
    /// Or else the permit for the memory of a body that is completely in memory.
    pub(crate) _memory: Option<AnswerPermit>,
}

/// A frame, one piece of a response body, that holds the permits of its response until the
/// connection has written the frame.
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
    /// Moves the permits into a frame of these bytes, and returns the frame's bytes. The permits
    /// are released when the last copy of the bytes is dropped.
    fn attach_to(&mut self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(HeldFrame { bytes, _held: std::mem::take(self) })
    }
}

/// The body of a response. It writes its [`RequestRecord`] when it is dropped.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    body: EdgeBody,
    record: RequestRecord,
    /// The flow control of the stream, over HTTP/2.
    flow: Option<Arc<Flow>>,
    /// The rest of a frame that is longer than [`FRAME_BYTES_MAX`].
    rest: Bytes,
    /// The wait of the response for its request's slot after another request has taken the slot;
    /// empty if it does not wait.
    resume: Resume,
    first_byte: Option<Instant>,
    bytes: u64,
    failed: bool,
}

impl ResponseBody {
    /// Returns a body that writes `record` when it is dropped. `flow` is that of the stream, over
    /// HTTP/2.
    pub(crate) fn new(
        body: EdgeBody,
        record: RequestRecord,
        flow: Option<Arc<Flow>>,
    ) -> ResponseBody {
        if let Some(flow) = flow.as_ref().filter(|_| record.in_memory) {
            flow.set_in_memory();
        }
        ResponseBody {
            body,
            record,
            flow,
            rest: Bytes::new(),
            resume: Resume::default(),
            first_byte: None,
            bytes: 0,
            failed: false,
        }
    }

    /// Ready when the next frame may be read: the connection has written the previous frame, and
    /// the request has its slot, the permission to be in flight. Fails if the client reads nothing
    /// until the timeout, or if the request gets no slot in time.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if let Some(flow) = &self.flow {
            ready!(flow.poll_written(cx))?;
        }
        ready!(self.resume.poll(self.record.held.slot.as_ref(), cx))?;
        Poll::Ready(Ok(()))
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        // hyper polls the body outside of the request's span, and log lines of the body need its
        // id.
        let span = this.record.span.clone();
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
                    Some(Ok(frame)) if this.record.in_memory => {
                        Some(Ok(frame.map_data(|bytes| this.record.held.attach_to(bytes))))
                    }
                    frame => frame,
                }
            }
        };
        match &frame {
            Some(Ok(frame)) => {
                this.first_byte.get_or_insert_with(Instant::now);
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                this.bytes += bytes;
                // A body in memory stays there until the client has read it, so it keeps its slot,
                // too.
                if let Some(slot) = &this.record.held.slot
                    && !this.record.in_memory
                {
                    // The connection asks for a frame after the client has taken the one before,
                    // so the client has made progress.
                    slot.count_progress(bytes);
                    slot.wait_for_client();
                }
            }
            Some(Err(error)) => {
                this.failed = true;
                // `WatchedStream` counts a stalled client, which is not worth a log line.
                if !error.is::<ClientStalled>() {
                    tracing::warn!(%error, "a response ended early");
                }
            }
            None => {}
        }
        Poll::Ready(frame)
    }

    /// An HTTP/2 stream ends only after the last frame was written to the connection.
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && (self.flow.is_none() || self.bytes == 0)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let now = Instant::now();
        // hyper does not poll a body again once all of its `Content-Length` has been sent.
        let whole = !self.failed
            && (self.body.is_end_stream() || self.record.content_length == Some(self.bytes));
        let on_end = self.record.facts.on_end.take();
        let record = &self.record;
        let duration = now.duration_since(record.started);
        let first = self.first_byte.unwrap_or(now);
        let first_byte = first.duration_since(record.started);
        let received = record.upload.read();
        let cost = RequestCost { duration, first_byte, received, sent: self.bytes };
        record.metrics.record_request(&record.facts, record.status, cost);
        let _entered = record.span.enter();
        if let Some(on_end) = on_end {
            let uploaded = record.upload.ended_at().unwrap_or(record.started);
            on_end.call(&RequestEnd {
                status: record.status,
                bytes_in: received,
                bytes_out: self.bytes,
                total: duration,
                turn_around: first.saturating_duration_since(uploaded),
                whole,
            });
        }
        tracing::debug!(
            target: "access",
            operation = record.facts.operation,
            bucket = record.facts.bucket.as_deref().unwrap_or("-"),
            status = record.status.as_u16(),
            code = record.facts.code.unwrap_or("-"),
            reads = record.facts.reads,
            commits = record.facts.commits,
            bytes_in = received,
            bytes_out = self.bytes,
            first_byte_us = u64::try_from(first_byte.as_micros()).unwrap_or(u64::MAX),
            duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            whole,
        );
    }
}

/// Returns the next frame of an HTTP/2 stream, of at most [`FRAME_BYTES_MAX`] bytes.
fn poll_flow(
    flow: &Arc<Flow>,
    body: &mut EdgeBody,
    rest: &mut Bytes,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
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
