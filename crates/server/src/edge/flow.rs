//! Flow control of responses to an HTTP/2 peer, which may stop taking any of them.
//!
//! The peer's windows limit how much of a stream may be sent, so a peer can let a thousand
//! responses wait in memory and take none. A [`Flow`] knows whether a frame of its response is
//! waiting to be sent, and since when. The next frame is made only when that one has been written
//! to the connection, and the stream ends only when all frames have. A stream whose frame is not
//! taken for too long is reset, which frees whatever the connection still held of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

use super::stall::AnswerPatience;
use crate::metrics::Metrics;

/// Bytes of a frame of a response over HTTP/2. A peer must take this many bytes of each stream
/// within the listener's patience. They are few because a hundred streams may share a slow link.
pub(crate) const FRAME_BYTES_MAX: usize = 16 << 10;

tokio::task_local! {
    /// The flow of the stream that this task sends its response on.
    static FLOW: Arc<Flow>;
}

/// The flow of one response.
#[derive(Debug, Default)]
pub(crate) struct Flow(Mutex<FlowState>);

#[derive(Debug, Default)]
struct FlowState {
    /// Since when a frame has been waiting to be sent.
    under_way: Option<Instant>,
    /// Woken when the peer has taken that frame.
    waiting: Option<Waker>,
    given_up: bool,
    /// Whether the response stays in memory until it was taken.
    in_memory: bool,
}

impl Flow {
    /// The flow of the current task's stream. `None` over HTTP/1, where a connection has one
    /// response at a time, and [`Stall`](super::Stall) ends it if its peer takes nothing.
    pub(crate) fn here() -> Option<Arc<Flow>> {
        FLOW.try_with(Arc::clone).ok()
    }

    /// Ready when the peer has taken all frames so far. An error once the stream was given up.
    pub(crate) fn poll_taken(&self, cx: &Context<'_>) -> Poll<Result<(), NotTaken>> {
        let mut state = self.state();
        if state.given_up {
            return Poll::Ready(Err(NotTaken));
        }
        if state.under_way.is_none() {
            return Poll::Ready(Ok(()));
        }
        state.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Notes that the response stays in memory until the peer has taken it.
    pub(crate) fn in_memory(&self) {
        self.state().in_memory = true;
    }

    /// Makes a frame of bytes. It counts as waiting until its last copy is dropped.
    pub(crate) fn send(self: &Arc<Flow>, bytes: Bytes) -> Bytes {
        self.state().under_way = Some(Instant::now());
        Bytes::from_owner(UnderWay { bytes, flow: Arc::clone(self) })
    }

    fn state(&self) -> MutexGuard<'_, FlowState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The peer took nothing of a response for too long.
#[derive(Debug, thiserror::Error)]
#[error("the client takes nothing of it")]
pub(crate) struct NotTaken;

/// A frame that is waiting to be sent.
struct UnderWay {
    bytes: Bytes,
    flow: Arc<Flow>,
}

impl AsRef<[u8]> for UnderWay {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.flow.state();
        state.under_way = None;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

/// Runs the streams of one HTTP/2 connection.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    metrics: Arc<Metrics>,
    /// How long a peer may take nothing of a response.
    patience: AnswerPatience,
    counts: Arc<Mutex<StreamCounts>>,
}

#[derive(Debug)]
struct StreamCounts {
    streams: usize,
    ended: usize,
    /// When the last stream ended, or the connection began.
    since: Instant,
    /// Woken when a stream ends.
    waiting: Option<Waker>,
}

impl Streams {
    pub(crate) fn new(metrics: Arc<Metrics>, patience: AnswerPatience) -> Streams {
        let counts = StreamCounts { streams: 0, ended: 0, since: Instant::now(), waiting: None };
        Streams { metrics, patience, counts: Arc::new(Mutex::new(counts)) }
    }

    /// Waits until there has been no stream for `wait`, counted from now at the earliest.
    pub(crate) async fn idle_for(&self, wait: Duration) {
        let began = Instant::now();
        loop {
            let since = {
                let counts = self.counts();
                if counts.streams == 0 { counts.since.max(began) } else { Instant::now() }
            };
            if since.elapsed() >= wait {
                return;
            }
            sleep_until(since + wait).await;
        }
    }

    /// Waits until a stream has ended.
    pub(crate) async fn some_response(&self) {
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
            patience: self.patience,
            late: None,
            streams: self.clone(),
        };
        tokio::spawn(watched);
    }
}

/// A stream that is given up if its peer takes nothing of it.
struct WatchedStream<F> {
    stream: Pin<Box<F>>,
    flow: Arc<Flow>,
    patience: AnswerPatience,
    late: Option<Pin<Box<Sleep>>>,
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
        let (under_way, in_memory) = {
            let state = this.flow.state();
            (state.under_way, state.in_memory)
        };
        let Some(since) = under_way else {
            this.late = None;
            return Poll::Pending;
        };
        let deadline = since + this.patience.of(in_memory);
        let late = this.late.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if late.deadline() != deadline {
            late.as_mut().reset(deadline);
        }
        if late.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        this.streams.metrics.count_response_timeout();
        // If the stream is waiting for a frame to be taken, it fails now and is reset, which drops
        // what the connection holds of it. If hyper still holds a frame of its own, that is dropped
        // with the stream.
        this.flow.state().given_up = true;
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
