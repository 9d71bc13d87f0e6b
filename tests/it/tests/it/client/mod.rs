//! An S3 client over a plain socket. It can also send requests that no SDK would send.

mod chunks;
mod line;
mod request;
mod sign;

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

pub(crate) use chunks::{Chunked, Mode};
pub(crate) use line::Line;
pub(crate) use request::{Request, Signature};
pub(crate) use sign::{Signer, escape, sha256, unescape};

/// The timeout of reads and writes. No test waits longer for a response on purpose.
const PATIENCE: Duration = Duration::from_mins(1);

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the value of a header; empty if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Returns all headers.
    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the content of the first element with this name; empty if there is none.
    pub(crate) fn element(&self, name: &str) -> String {
        self.elements(name).into_iter().next().unwrap_or_default()
    }

    /// Returns the content of all elements with this name.
    pub(crate) fn elements(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let parts = text.split(&open).skip(1);
        parts.filter_map(|part| Some(part.split_once(&close)?.0.to_owned())).collect()
    }

    /// Returns the error code of the body.
    pub(crate) fn code(&self) -> String {
        self.element("Code")
    }

    /// Returns the response. Panics if it has another status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

/// One user of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    pub(crate) key: String,
    pub(crate) secret: String,
}

impl Client {
    /// Returns the host and the credentials with which this client signs its requests.
    pub(crate) fn signature(&self) -> Signature<'_> {
        Signature { host: &self.address, key: &self.key, secret: &self.secret }
    }

    /// Sends a request and returns its response. Panics if none arrives.
    #[track_caller]
    pub(crate) fn send(&self, request: &Request) -> Answer {
        self.try_send(request).expect("the gateway answers")
    }

    /// Sends a request and returns its response. Fails if no complete response arrives.
    pub(crate) fn try_send(&self, request: &Request) -> io::Result<Answer> {
        self.exchange(&request.method, &request.sealed(self.signature()).wire())
    }

    /// Sends bytes on a new connection and reads one response.
    pub(crate) fn exchange(&self, method: &str, wire: &[u8]) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        // The gateway may refuse a request and close before it has read all of it. The write then
        // fails, but the response still counts.
        let _ = stream.write_all(wire);
        read_answer(&mut stream, method)
    }

    /// Sends bytes, shuts down the sending side of the connection, and reads one response.
    pub(crate) fn break_off(&self, method: &str, wire: &[u8]) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        let _ = stream.write_all(wire);
        stream.shutdown(Shutdown::Write)?;
        read_answer(&mut stream, method)
    }

    /// Opens a connection and sends nothing.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.send(&Request::new("PUT", path).body(body))
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&Request::new("GET", path))
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send(&Request::new("DELETE", path))
    }

    /// Starts a multipart upload and returns its id.
    #[track_caller]
    pub(crate) fn begin_upload(&self, path: &str) -> String {
        let begun = self.send(&Request::new("POST", &format!("{path}?uploads"))).expect(200);
        begun.element("UploadId")
    }

    /// Returns all keys of a bucket below a prefix, from as many pages as necessary.
    #[track_caller]
    pub(crate) fn keys(&self, bucket: &str, prefix: &str, page: usize) -> Vec<String> {
        let mut keys = Vec::new();
        let mut token = String::new();
        loop {
            let mut target = format!("/{bucket}?list-type=2&max-keys={page}&prefix={prefix}");
            if !token.is_empty() {
                target.push_str("&continuation-token=");
                target.push_str(&sign::escape(token.as_bytes(), false));
            }
            let answer = self.get(&target).expect(200);
            keys.extend(answer.elements("Key"));
            token = answer.element("NextContinuationToken");
            if answer.element("IsTruncated") != "true" {
                return keys;
            }
            assert!(!token.is_empty(), "a truncated page has a token: {}", answer.text());
        }
    }
}

/// Returns the body of a `CompleteMultipartUpload`.
pub(crate) fn part_list(parts: &[(u32, &str)]) -> String {
    let part = |(number, etag): &(u32, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

/// Reads a whole response. Fails if it has fewer bytes than its head announces.
pub(crate) fn read_answer(stream: &mut TcpStream, method: &str) -> io::Result<Answer> {
    let mut read = Vec::new();
    loop {
        let head = read_head(stream, &mut read)?;
        // `100 Continue` precedes the response; it is not the response.
        if head.status == 100 {
            continue;
        }
        let length = head.header("content-length").parse::<usize>();
        let bodiless = method == "HEAD" || matches!(head.status, 204 | 304);
        let body = if bodiless {
            Vec::new()
        } else if head.header("transfer-encoding").contains("chunked") {
            read_chunked(stream, read)?
        } else if let Ok(length) = length {
            read_exactly(stream, &mut read, length)?;
            read.truncate(length);
            read
        } else {
            stream.read_to_end(&mut read)?;
            read
        };
        return Ok(Answer { body, ..head });
    }
}

/// A request that a server of a test received: method, target, headers with names in lowercase,
/// body.
pub(crate) type Arrived = (String, String, Vec<(String, String)>, Vec<u8>);

/// Reads a request. `read` keeps bytes that already belong to the next request.
pub(crate) fn read_request(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Arrived> {
    let (line, headers) = read_lines(stream, read)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next(), words.next());
    let (method, target) = method.zip(target).ok_or_else(|| broken("no request line"))?;
    let headers: Vec<(String, String)> =
        headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, length)| length.parse().ok()).unwrap_or(0);
    read_exactly(stream, read, length)?;
    let rest = read.split_off(length);
    let body = std::mem::replace(read, rest);
    Ok((method, target, headers, body))
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, why.to_owned())
}

fn fill(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let count = loop {
        match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if count == 0 {
        return Err(broken("the connection ended before the answer"));
    }
    read.extend_from_slice(&buffer[..count]);
    Ok(())
}

fn read_exactly(stream: &mut TcpStream, read: &mut Vec<u8>, length: usize) -> io::Result<()> {
    while read.len() < length {
        fill(stream, read)?;
    }
    Ok(())
}

fn read_head(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Answer> {
    let (line, headers) = read_lines(stream, read)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| broken("no status"))?;
    Ok(Answer { status, headers, body: Vec::new() })
}

/// Reads the first line and the headers of a message.
fn read_lines(
    stream: &mut TcpStream,
    read: &mut Vec<u8>,
) -> io::Result<(String, Vec<(String, String)>)> {
    let end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        fill(stream, read)?;
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    read.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Ok((line, headers.collect()))
}

fn read_chunked(stream: &mut TcpStream, mut read: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = read.windows(2).position(|two| two == b"\r\n") {
                break end;
            }
            fill(stream, &mut read)?;
        };
        let size = usize::from_str_radix(&String::from_utf8_lossy(&read[..end]), 16);
        let size = size.map_err(|_| broken("no chunk size"))?;
        read.drain(..end + 2);
        read_exactly(stream, &mut read, size + 2)?;
        body.extend(read.drain(..size));
        read.drain(..2);
        if size == 0 {
            return Ok(body);
        }
    }
}
