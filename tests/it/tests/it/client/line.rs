//! A client that keeps its connection, for those that ask a lot.

use std::io::{self, Write as _};
use std::net::TcpStream;

use super::{Answer, Client, Request, read_answer};

/// One user's connection to one endpoint. It sends nothing twice.
#[derive(Debug)]
pub(crate) struct Line {
    client: Client,
    stream: Option<TcpStream>,
}

impl Line {
    pub(crate) fn new(client: &Client) -> Line {
        Line { client: client.clone(), stream: None }
    }

    /// Sends a request; an error is an answer that did not come, or broke off.
    pub(crate) fn send(&mut self, request: &Request) -> io::Result<Answer> {
        let mut stream = match self.stream.take().filter(is_open) {
            Some(stream) => stream,
            None => self.client.connect()?,
        };
        let wire = request.sealed(self.client.signature()).wire();
        // A refusal may come before all is sent; then the rest cannot be, which is no news.
        let sent = stream.write_all(&wire);
        let answer = read_answer(&mut stream, &request.method)?;
        if sent.is_ok() && !answer.header("connection").eq_ignore_ascii_case("close") {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

/// Whether the other side has not ended a connection on which nothing is expected.
fn is_open(stream: &TcpStream) -> bool {
    let silent = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let silent = silent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    silent && stream.set_nonblocking(false).is_ok()
}
