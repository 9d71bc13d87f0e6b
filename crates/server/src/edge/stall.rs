//! A connection that fails if its peer stops reading.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a client may take nothing of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerPatience {
    /// Of one that is read while it is sent: it holds little.
    pub(crate) stream: Duration,
    /// Of one that stays in memory until the client has taken it.
    pub(crate) in_memory: Duration,
}

impl AnswerPatience {
    pub(super) fn of(&self, in_memory: bool) -> Duration {
        if in_memory { self.in_memory } else { self.stream }
    }
}

/// Tells whether the current answer on a connection of HTTP/1 is in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<AtomicBool>);

impl Pace {
    /// Notes which kind of answer is sent from now on.
    pub(super) fn set(&self, in_memory: bool) {
        self.0.store(in_memory, Ordering::Relaxed);
    }
}

/// Fails a write that makes no progress for too long. Reads pass: how long they may take depends
/// on what is being read, which is not known here.
#[derive(Debug)]
pub(crate) struct Stall<T> {
    inner: T,
    patience: AnswerPatience,
    pace: Pace,
    /// Runs while a write makes no progress.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> Stall<T> {
    pub(crate) fn new(inner: T, patience: AnswerPatience, pace: Pace) -> Stall<T> {
        Stall { inner, patience, pace, waiting: None }
    }

    fn watch<R>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let patience = self.patience.of(self.pace.0.load(Ordering::Relaxed));
        let waiting =
            self.waiting.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, polled)
    }
}
