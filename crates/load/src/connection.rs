//! A connection to an endpoint, which its client polls.
//!
//! The connection has no task of its own. The client polls its request and the connection together,
//! which saves switches between tasks. For example, one poll writes a request and reads the
//! response that has already arrived.

use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::Trouble;
use crate::target::Address;

/// The size of the read buffer in bytes. A larger buffer would not stay in the cache of the
/// processor.
const READ_BYTES_MAX: usize = 256 << 10;

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// An open connection, which carries one request at a time.
pub(crate) struct Connection {
    requests: SendRequest<Full<Bytes>>,
    driver: Option<Driver>,
}

impl Connection {
    pub(crate) async fn open(address: &Address) -> Result<Self, Trouble> {
        let wrong = |source| Trouble::Connect { address: address.socket.clone(), source };
        let stream = TcpStream::connect(&address.socket).await.map_err(wrong)?;
        stream.set_nodelay(true).map_err(wrong)?;
        match &address.tls {
            None => Self::over(stream, address).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(wrong)?;
                Self::over(stream, address).await
            }
        }
    }

    async fn over<S>(stream: S, address: &Address) -> Result<Self, Trouble>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, driver) = http1::Builder::new()
            .max_buf_size(READ_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Trouble::Connect {
                address: address.socket.clone(),
                source: std::io::Error::other(error),
            })?;
        Ok(Self { requests, driver: Some(Box::pin(driver)) })
    }

    /// Returns true if the endpoint accepts no more requests on this connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.driver.is_none() || self.requests.is_closed()
    }

    /// Waits until the connection can send the next request. Fails if the connection has broken.
    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        let Self { requests, driver } = self;
        drive(driver, requests.ready()).await
    }

    /// Sends a request with its body. Returns when the head of the response has arrived.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let Self { requests, driver } = self;
        drive(driver, requests.send_request(request)).await
    }

    /// Returns the next bytes of a response; `None` at its end.
    pub(crate) async fn next(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        loop {
            match drive(&mut self.driver, body.frame()).await {
                None => return Ok(None),
                Some(frame) => {
                    // A frame without data has trailers, which no workload needs.
                    if let Ok(bytes) = frame?.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

/// Waits for `work` and polls the connection meanwhile, because `work` makes no progress without
/// the connection.
async fn drive<T>(driver: &mut Option<Driver>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        // `work` is polled first, so that the connection gets its request, and once more at the
        // end, so that it gets the bytes that the connection has just read.
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        if let Some(running) = driver
            && running.as_mut().poll(context).is_ready()
        {
            // The connection has ended. The request in flight returns an error by itself.
            *driver = None;
        }
        work.as_mut().poll(context)
    })
    .await
}
