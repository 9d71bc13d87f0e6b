//! One HTTP connection, which is driven by whoever uses it.
//!
//! A hyper connection is a future that somebody must poll. There is no task for that here: the request
//! that waits for an answer polls the connection, which saves two wake-ups and a queue for each piece of
//! the answer. Hence dropping a wire ends its connection, with all that is under way on it. And an idle
//! connection notices only when it is used again that the other side has closed it. This module knows
//! nothing of buckets.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::pieces::Pieces;

/// The stream below a connection.
pub(super) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Bytes that are reserved for a body before any of it has come: a whole block.
const BODY_BUFFER_MAX: u64 = crate::BLOCK_BYTES_MAX as u64 + (1 << 20);

/// Bytes that a connection reads at once at most. What is read is checksummed and passed on before
/// more is, so it should fit into a processor's cache.
const READ_BYTES_MAX: usize = 256 << 10;

/// One connection.
pub(super) struct Wire {
    sender: SendRequest<Pieces>,
    line: Line,
}

/// What has to be moved on.
enum Line {
    Open(Box<Connection<Stream, Pieces>>),
    Ended,
    /// Ended, because something came that belongs to no answer.
    Spoilt,
}

/// The state of a connection between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It can take another request.
    Ready,
    /// It has ended, or something is still under way on it.
    Over,
    /// The other side sent something that belongs to no answer.
    Surplus,
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The connection failed.
    #[error(transparent)]
    Lost(#[from] hyper::Error),
    /// The answer ends before its length.
    #[error("{found} of {announced} bytes came")]
    Short {
        /// Bytes that came.
        found: usize,
        /// Bytes that should have come.
        announced: u64,
    },
    /// The answer is longer than what was asked for.
    #[error("more than the {most} bytes asked for came")]
    Long {
        /// Bytes that were asked for.
        most: u64,
    },
}

impl Wire {
    /// A new connection.
    pub(super) async fn open(stream: Stream) -> hyper::Result<Wire> {
        let mut builder = Builder::new();
        let (sender, connection) = builder.max_buf_size(READ_BYTES_MAX).handshake(stream).await?;
        Ok(Wire { sender, line: Line::Open(Box::new(connection)) })
    }

    /// Sends a request and waits for the head of its answer. The error has the request if none of
    /// it was sent.
    pub(super) async fn ask(
        &mut self,
        request: Request<Pieces>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Pieces>>> {
        let answering = self.sender.try_send_request(request);
        self.line.drive(answering).await
    }

    /// Reads a body that should have at most `most` bytes.
    pub(super) async fn body(&mut self, body: Incoming, most: u64) -> Result<Bytes, BodyError> {
        let announced = body.size_hint().exact();
        if announced.is_some_and(|announced| announced > most) {
            return Err(BodyError::Long { most });
        }
        let found = self.read(body, most).await?;
        match announced {
            Some(announced) if announced != found.len() as u64 => {
                Err(BodyError::Short { found: found.len(), announced })
            }
            _ if found.len() as u64 > most => Err(BodyError::Long { most }),
            _ => Ok(found.freeze()),
        }
    }

    /// Reads a body to its end, or until it has more than `most` bytes.
    pub(super) async fn read(
        &mut self,
        mut body: Incoming,
        most: u64,
    ) -> Result<BytesMut, BodyError> {
        let expected = body.size_hint().exact().unwrap_or_default().min(most).min(BODY_BUFFER_MAX);
        let mut found = BytesMut::with_capacity(usize::try_from(expected).unwrap_or_default());
        while found.len() as u64 <= most {
            match self.piece(&mut body).await? {
                Some(piece) => found.extend_from_slice(&piece),
                None => break,
            }
        }
        Ok(found)
    }

    /// The next piece of a body, as it came; `None` at its end.
    pub(super) async fn piece(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        loop {
            let next = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            let Some(frame) = self.line.drive(next).await else {
                return Ok(None);
            };
            match frame?.into_data() {
                Ok(piece) if !piece.is_empty() => return Ok(Some(piece)),
                // Trailers are of no use here.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// The state of the connection now, without waiting.
    pub(super) async fn rest(&mut self) -> Rest {
        poll_fn(|context| {
            self.line.advance(context);
            Poll::Ready(())
        })
        .await;
        match self.line {
            Line::Open(_) if self.sender.is_ready() => Rest::Ready,
            Line::Open(_) | Line::Ended => Rest::Over,
            Line::Spoilt => Rest::Surplus,
        }
    }
}

impl Line {
    /// Waits for something from the connection, and drives the connection meanwhile.
    async fn drive<F: Future>(&mut self, waiting: F) -> F::Output {
        let mut waiting = pin!(waiting);
        poll_fn(|context| {
            if let Poll::Ready(brought) = waiting.as_mut().poll(context) {
                return Poll::Ready(brought);
            }
            self.advance(context);
            waiting.as_mut().poll(context)
        })
        .await
    }

    /// Drives the connection. Whoever waits learns of its end from hyper, or because it is dropped.
    fn advance(&mut self, context: &mut Context<'_>) {
        let Line::Open(connection) = self else { return };
        match Pin::new(connection).poll(context) {
            Poll::Pending => {}
            // Anything else than an error of the network is the other side's fault.
            Poll::Ready(Err(error)) if error.source().is_none() => *self = Line::Spoilt,
            Poll::Ready(_) => *self = Line::Ended,
        }
    }
}
