//! A proxy that makes a bucket lose user metadata. It is between the gateway and MinIO, forwards
//! each request under a new signature, as a gateway to another kind of storage does, and drops
//! `x-amz-meta-*` in both directions. It counts the dropped headers.

use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::client::{Client, Request, read_request};

/// Prefix of the headers that are metadata.
const METADATA: &str = "x-amz-meta-";

/// Request headers that are forwarded unchanged.
const PASSED_ON: [&str; 2] = ["range", "if-none-match"];

/// The handling of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Metadata {
    /// Metadata is forwarded.
    Kept,
    /// Metadata is dropped silently.
    Dropped,
    /// Requests with metadata get 501.
    Refused,
}

/// A proxy in front of a MinIO, until the test ends.
#[derive(Debug)]
pub(crate) struct Forgetful {
    pub(crate) address: String,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    minio: Client,
    metadata: AtomicU8,
    dropped: AtomicU64,
    refused: AtomicU64,
}

impl Forgetful {
    pub(crate) fn start(minio: Client, metadata: Metadata) -> Forgetful {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let state = Arc::new(State {
            minio,
            metadata: AtomicU8::new(metadata as u8),
            dropped: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let serving = Arc::clone(&state);
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&serving);
                // The result does not matter: an error means that one side closed the connection.
                std::thread::spawn(move || state.serve(stream));
            }
        });
        Forgetful { address, state }
    }

    /// Sets the handling of metadata from now on.
    pub(crate) fn set(&self, metadata: Metadata) {
        self.state.metadata.store(metadata as u8, Ordering::SeqCst);
    }

    /// Returns the number of dropped headers.
    pub(crate) fn dropped(&self) -> u64 {
        self.state.dropped.load(Ordering::SeqCst)
    }

    /// Returns the number of refused requests.
    pub(crate) fn refused(&self) -> u64 {
        self.state.refused.load(Ordering::SeqCst)
    }
}

impl State {
    fn does(&self, metadata: Metadata) -> bool {
        self.metadata.load(Ordering::SeqCst) == metadata as u8
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut read = Vec::new();
        loop {
            let (method, target, headers, body) = read_request(&mut stream, &mut read)?;
            let brings = headers.iter().filter(|(name, _)| is_metadata(name)).count() as u64;
            if brings > 0 && self.does(Metadata::Refused) {
                self.refused.fetch_add(1, Ordering::SeqCst);
                stream.write_all(b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n")?;
                continue;
            }
            let drops = self.does(Metadata::Dropped);
            let mut request = Request::new(&method, &target).body(body).claim("UNSIGNED-PAYLOAD");
            for (name, value) in &headers {
                if is_metadata(name) && drops {
                    self.dropped.fetch_add(1, Ordering::SeqCst);
                } else if is_metadata(name) || PASSED_ON.contains(&name.as_str()) {
                    request = request.header(name, value);
                }
            }
            let answer = self.minio.try_send(&request)?;
            let mut head = format!("HTTP/1.1 {} Passed On\r\n", answer.status);
            for (name, value) in answer.headers() {
                let name = name.to_ascii_lowercase();
                if is_metadata(&name) && drops {
                    self.dropped.fetch_add(1, Ordering::SeqCst);
                } else if !["transfer-encoding", "content-length", "connection"].contains(&&*name) {
                    head.extend([&*name, ": ", value, "\r\n"]);
                }
            }
            let length = match method.as_str() {
                "HEAD" => answer.header("content-length").to_owned(),
                _ => answer.body.len().to_string(),
            };
            if answer.status != 204 {
                head.extend(["content-length: ", &length, "\r\n"]);
            }
            head.push_str("\r\n");
            stream.write_all(head.as_bytes())?;
            stream.write_all(&answer.body)?;
        }
    }
}

fn is_metadata(name: &str) -> bool {
    name.starts_with(METADATA)
}
