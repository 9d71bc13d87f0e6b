//! A client that reuses its connection, for tests that send many requests.

use std::io::{self, Write as _};
use std::net::TcpStream;

use super::{Answer, Client, Request, read_answer};

/// One user's connection to one endpoint. It does not retry.
#[derive(Debug)]
pub(crate) struct Line {
    client: Client,
    stream: Option<TcpStream>,
}

impl Line {
    pub(crate) fn new(client: &Client) -> Line {
        Line { client: client.clone(), stream: None }
    }

    /// Sends a request and returns its response. Fails if no complete response arrives.
    pub(crate) fn send(&mut self, request: &Request) -> io::Result<Answer> {
        let mut stream = match self.stream.take().filter(is_open) {
            Some(stream) => stream,
            None => self.client.connect()?,
        };
        let wire = request.sealed(self.client.signature()).wire();
        // The gateway may refuse a request and close before it has read all of it. The write then
        // fails, but the response still counts.
        let sent = stream.write_all(&wire);
        let answer = read_answer(&mut stream, &request.method)?;
        if sent.is_ok() && !answer.header("connection").eq_ignore_ascii_case("close") {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

/// Returns true if the connection is idle and the server has not closed it.
fn is_open(stream: &TcpStream) -> bool {
    let silent = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let silent = silent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    silent && stream.set_nonblocking(false).is_ok()
}
