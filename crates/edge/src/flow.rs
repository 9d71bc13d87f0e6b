//! Flow control of responses to HTTP/2 clients that may stop reading.
//!
//! The client's windows limit the bytes of each stream, so a client can request a thousand objects,
//! read none, and make the process hold all of them. A [`Flow`] tracks the pending frame of one
//! response: the next frame is read only after this one was written to the connection, and the
//! stream ends only after all frames were. If a frame stays pending until the timeout, the stream
//! is reset, which frees the memory that the connection holds for it. For example, a client that
//! pauses a download for 300 seconds loses this stream, but not its other ones.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::metrics::EdgeMetrics;
use crate::stall::ResponseTimeouts;

/// The bytes of one frame of a response over HTTP/2. A client must read this many bytes of each
/// stream within the timeout. They are few because a hundred streams may share a slow link.
pub(crate) const FRAME_BYTES_MAX: usize = 16 << 10;

tokio::task_local! {
    /// The flow control of the HTTP/2 stream that this task serves.
    static FLOW: Arc<Flow>;
}

/// The flow control of one response over HTTP/2: it remembers the frame that the connection has not
/// written yet.
#[derive(Debug, Default)]
pub(crate) struct Flow(Mutex<FlowState>);

/// The state of the flow control of one response.
#[derive(Debug, Default)]
struct FlowState {
    /// The time since which a frame is pending, that is, given to the connection and not yet
    /// written; `None` if there is no such frame.
    pending_since: Option<Instant>,
    /// Woken when the pending frame was written to the connection.
    waiting: Option<Waker>,
    /// True after the timeout of a frame.
    timed_out: bool,
    /// True if the whole response is in memory until the client has read it.
    in_memory: bool,
}

impl Flow {
    /// Returns the flow of the current task's stream. Returns `None` over HTTP/1, where a
    /// connection has one response at a time, and [`Stall`](crate::Stall) ends it if its client
    /// reads nothing.
    pub(crate) fn current() -> Option<Arc<Flow>> {
        FLOW.try_with(Arc::clone).ok()
    }

    /// Ready when no frame of the response is pending, that is, when the connection has written the
    /// last one. Fails with `ClientStalled` if the client read nothing until the timeout.
    pub(crate) fn poll_written(&self, cx: &Context<'_>) -> Poll<Result<(), ClientStalled>> {
        let mut state = self.state();
        if state.timed_out {
            return Poll::Ready(Err(ClientStalled));
        }
        if state.pending_since.is_none() {
            return Poll::Ready(Ok(()));
        }
        state.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Sets the timeout of the response to that of responses that are completely in memory.
    pub(crate) fn set_in_memory(&self) {
        self.state().in_memory = true;
    }

    /// Returns the bytes as a frame. It is pending until its last copy is dropped, which hyper does
    /// after writing it.
    pub(crate) fn send(self: &Arc<Flow>, bytes: Bytes) -> Bytes {
        self.state().pending_since = Some(Instant::now());
        Bytes::from_owner(PendingFrame { bytes, flow: Arc::clone(self) })
    }

    fn state(&self) -> MutexGuard<'_, FlowState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client read nothing of a response until the timeout.
#[derive(Debug, thiserror::Error)]
#[error("the client reads nothing of the response")]
pub(crate) struct ClientStalled;

/// A frame that is not written to the connection yet.
struct PendingFrame {
    bytes: Bytes,
    flow: Arc<Flow>,
}

impl AsRef<[u8]> for PendingFrame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PendingFrame {
    fn drop(&mut self) {
        let mut state = self.flow.state();
        state.pending_since = None;
        let waiting = state.waiting.take();
        // Before the wake, because the woken task takes this lock.
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

/// The executor of one HTTP/2 connection: runs its streams with their timeouts, and counts them.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    metrics: Arc<EdgeMetrics>,
    timeouts: ResponseTimeouts,
    counts: Arc<Mutex<StreamCounts>>,
}

/// The counts of the streams of an HTTP/2 connection. Each stream is one request with its response.
#[derive(Debug)]
struct StreamCounts {
    /// Open streams.
    streams: usize,
    /// Streams that ended.
    ended: usize,
    /// The time at which the last stream ended; before the first end, the start of the connection.
    since: Instant,
    /// Woken when a stream ends.
    waiting: Option<Waker>,
}

impl Streams {
    pub(crate) fn new(metrics: Arc<EdgeMetrics>, timeouts: ResponseTimeouts) -> Streams {
        let counts = StreamCounts { streams: 0, ended: 0, since: Instant::now(), waiting: None };
        Streams { metrics, timeouts, counts: Arc::new(Mutex::new(counts)) }
    }

    /// Waits until the connection had no open stream for the whole time `wait`. The time before
    /// this call does not count.
    pub(crate) async fn idle_for(&self, wait: Duration) {
        let began = Instant::now();
        loop {
            let since = {
                let counts = self.counts();
                if counts.streams == 0 { counts.since.max(began) } else { Instant::now() }
            };
            // A stream may have opened and closed during the sleep, so the time is checked again.
            if since.elapsed() >= wait {
                return;
            }
            sleep_until(since + wait).await;
        }
    }

    /// Waits until the connection has ended one stream, that is, has sent its first response or
    /// abandoned it.
    pub(crate) async fn first_response(&self) {
        std::future::poll_fn(|cx| {
            let mut counts = self.counts();
            if counts.ended > 0 {
                return Poll::Ready(());
            }
            counts.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn counts(&self) -> MutexGuard<'_, StreamCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "the connection ends when its streams have")]
    fn execute(&self, stream: F) {
        self.counts().streams += 1;
        let watched = WatchedStream {
            stream: Box::pin(stream),
            flow: Arc::default(),
            timeouts: self.timeouts,
            timer: None,
            streams: self.clone(),
        };
        tokio::spawn(watched);
    }
}

/// A stream of an HTTP/2 connection, with the timer of the frame of its response that is pending,
/// that is, not written to the connection yet.
struct WatchedStream<F> {
    stream: Pin<Box<F>>,
    flow: Arc<Flow>,
    timeouts: ResponseTimeouts,
    /// Runs while a frame is pending.
    timer: Option<Pin<Box<Sleep>>>,
    streams: Streams,
}

impl<F: Future<Output = ()>> WatchedStream<F> {
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (flow, stream) = (Arc::clone(&self.flow), self.stream.as_mut());
        FLOW.sync_scope(flow, || stream.poll(cx))
    }
}

impl<F: Future<Output = ()>> Future for WatchedStream<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.poll_stream(cx).is_ready() {
            return Poll::Ready(());
        }
        let (pending_since, in_memory) = {
            let state = this.flow.state();
            (state.pending_since, state.in_memory)
        };
        // Without a pending frame the service is working, which has other limits.
        let Some(since) = pending_since else {
            this.timer = None;
            return Poll::Pending;
        };
        let deadline = since + this.timeouts.timeout(in_memory);
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        this.streams.metrics.count_response_timeout();
        // Another poll lets the response fail with `ClientStalled`, so hyper resets the stream and
        // the connection drops its frames. If hyper holds a frame itself, that is dropped with the
        // stream.
        this.flow.state().timed_out = true;
        let _either = this.poll_stream(cx);
        Poll::Ready(())
    }
}

impl<F> Drop for WatchedStream<F> {
    fn drop(&mut self) {
        let mut counts = self.streams.counts();
        counts.streams -= 1;
        counts.ended += 1;
        counts.since = Instant::now();
        if let Some(waiting) = counts.waiting.take() {
            waiting.wake();
        }
    }
}
