//! One HTTP connection, driven by its user.
//!
//! A hyper connection is a future that must be polled. No task does that here: the request that
//! waits for a response polls the connection, which saves two wake-ups and a queue for each piece.
//! Therefore dropping a wire closes its connection and abandons its request. If the other side
//! closes an idle connection, the next user notices it.
//!
//! For example, a reader that abandons a GET in the middle drops the wire, and the bucket's
//! remaining bytes are discarded with the connection. The module knows nothing about buckets.

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

/// The most bytes that are reserved for a body before any of it has arrived: a whole block.
const BODY_BUFFER_MAX: u64 = crate::BLOCK_BYTES_MAX as u64 + (1 << 20);

/// The most bytes that a connection reads at once. They are checksummed and passed on before more
/// are read, so they should fit into a processor's cache.
const READ_BYTES_MAX: usize = 256 << 10;

/// One HTTP connection to the bucket, which the request in flight drives.
pub(super) struct Wire {
    sender: SendRequest<Pieces>,
    line: LineState,
}

/// The state of the connection's future.
enum LineState {
    Open(Box<Connection<Stream, Pieces>>),
    Ended,
    /// Ended, because bytes arrived that belong to no response.
    Corrupted,
}

/// The state of a connection between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireState {
    /// It can take another request.
    Ready,
    /// It has ended, or a response is not complete.
    Unusable,
    /// The other side sent bytes that belong to no response.
    Surplus,
}

/// The reason why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The connection failed.
    #[error(transparent)]
    Lost(#[from] hyper::Error),
    /// The response ended before its announced length.
    #[error("{found} of {announced} bytes arrived")]
    Short {
        /// Bytes that arrived.
        found: usize,
        /// Bytes that were announced.
        announced: u64,
    },
    /// The response is longer than the requested range.
    #[error("more than the {most} bytes that were requested arrived")]
    Long {
        /// Bytes that were requested.
        most: u64,
    },
}

impl Wire {
    /// Opens a connection over a stream.
    pub(super) async fn open(stream: Stream) -> hyper::Result<Wire> {
        let mut builder = Builder::new();
        let (sender, connection) = builder.max_buf_size(READ_BYTES_MAX).handshake(stream).await?;
        Ok(Wire { sender, line: LineState::Open(Box::new(connection)) })
    }

    /// Sends a request and waits for the head of its response. The error contains the request if
    /// none of it was sent.
    pub(super) async fn ask(
        &mut self,
        request: Request<Pieces>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Pieces>>> {
        let answering = self.sender.try_send_request(request);
        self.line.drive(answering).await
    }

    /// Reads a body that may have at most `most` bytes.
    pub(super) async fn body(&mut self, body: Incoming, most: u64) -> Result<Bytes, BodyError> {
        let announced = body.size_hint().exact();
        // Refused before it is read, because it may be very long.
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
        // The announced length is only a hint of a foreign server, so the reservation is limited.
        let expected = body.size_hint().exact().unwrap_or_default().min(most).min(BODY_BUFFER_MAX);
        let mut found = BytesMut::with_capacity(usize::try_from(expected).unwrap_or_default());
        // One byte beyond the limit is enough to know that the body is too long.
        while found.len() as u64 <= most {
            match self.piece(&mut body).await? {
                Some(piece) => found.extend_from_slice(&piece),
                None => break,
            }
        }
        Ok(found)
    }

    /// Returns the next piece of a body; `None` at its end.
    pub(super) async fn piece(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        loop {
            let next = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            let Some(frame) = self.line.drive(next).await else {
                return Ok(None);
            };
            match frame?.into_data() {
                Ok(piece) if !piece.is_empty() => return Ok(Some(piece)),
                // Trailers are ignored.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Returns the state of the connection now, without waiting.
    pub(super) async fn state(&mut self) -> WireState {
        poll_fn(|context| {
            self.line.advance(context);
            Poll::Ready(())
        })
        .await;
        match self.line {
            LineState::Open(_) if self.sender.is_ready() => WireState::Ready,
            LineState::Open(_) | LineState::Ended => WireState::Unusable,
            LineState::Corrupted => WireState::Surplus,
        }
    }
}

impl LineState {
    /// Waits for a result of the connection, and drives the connection meanwhile.
    async fn drive<F: Future>(&mut self, waiting: F) -> F::Output {
        let mut waiting = pin!(waiting);
        poll_fn(|context| {
            if let Poll::Ready(output) = waiting.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            self.advance(context);
            waiting.as_mut().poll(context)
        })
        .await
    }

    /// Drives the connection. A waiting request learns of its end from hyper, or because the
    /// connection is dropped.
    fn advance(&mut self, context: &mut Context<'_>) {
        let LineState::Open(connection) = self else { return };
        match Pin::new(connection).poll(context) {
            Poll::Pending => {}
            // An error without a source is not one of the network, so the other side violated the
            // protocol.
            Poll::Ready(Err(error)) if error.source().is_none() => *self = LineState::Corrupted,
            Poll::Ready(_) => *self = LineState::Ended,
        }
    }
}
