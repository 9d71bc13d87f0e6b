//! An S3 client over a bare socket: it can send what no SDK would.

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
pub(crate) use sign::{sha256, unescape};

/// How long an answer may take; no test waits for longer on purpose.
const PATIENCE: Duration = Duration::from_mins(1);

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header's value; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    /// All headers.
    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The content of the first element of this name; empty if there is none.
    pub(crate) fn element(&self, name: &str) -> String {
        self.elements(name).into_iter().next().unwrap_or_default()
    }

    /// The content of all elements of this name.
    pub(crate) fn elements(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let parts = text.split(&open).skip(1);
        parts.filter_map(|part| Some(part.split_once(&close)?.0.to_owned())).collect()
    }

    /// The error's code.
    pub(crate) fn code(&self) -> String {
        self.element("Code")
    }

    /// Itself, if the status is as expected.
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
    /// Who signs this client's requests.
    pub(crate) fn signature(&self) -> Signature<'_> {
        Signature { host: &self.address, key: &self.key, secret: &self.secret }
    }

    /// Sends a request and takes its answer, which must come.
    #[track_caller]
    pub(crate) fn send(&self, request: &Request) -> Answer {
        self.try_send(request).expect("the gateway answers")
    }

    /// Sends a request; an error is an answer that did not come, or broke off.
    pub(crate) fn try_send(&self, request: &Request) -> io::Result<Answer> {
        self.exchange(&request.method, &request.sealed(self.signature()).wire())
    }

    /// Sends bytes on a new connection and reads one answer.
    pub(crate) fn exchange(&self, method: &str, wire: &[u8]) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        // A refusal may come before all is sent; then the rest cannot be, which is no news.
        let _ = stream.write_all(wire);
        read_answer(&mut stream, method)
    }

    /// Sends bytes, then ends its side of the connection, and reads one answer.
    pub(crate) fn break_off(&self, method: &str, wire: &[u8]) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        let _ = stream.write_all(wire);
        stream.shutdown(Shutdown::Write)?;
        read_answer(&mut stream, method)
    }

    /// A connection on which nothing has been said.
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

    /// Begins a multipart upload and returns its id.
    #[track_caller]
    pub(crate) fn begin_upload(&self, path: &str) -> String {
        let begun = self.send(&Request::new("POST", &format!("{path}?uploads"))).expect(200);
        begun.element("UploadId")
    }

    /// All keys of a bucket below a prefix, over as many pages as it takes.
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
            assert!(!token.is_empty(), "a page that goes on says where: {}", answer.text());
        }
    }
}

/// The body of a `CompleteMultipartUpload`.
pub(crate) fn part_list(parts: &[(u32, &str)]) -> String {
    let part = |(number, etag): &(u32, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

/// Reads an answer to its end. Fewer bytes than promised are an error.
pub(crate) fn read_answer(stream: &mut TcpStream, method: &str) -> io::Result<Answer> {
    let mut read = Vec::new();
    loop {
        let head = read_head(stream, &mut read)?;
        // `100 Continue` announces the answer; it is not one.
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

/// Method, target, headers with names in lowercase, and body of a request.
pub(crate) type Arrived = (String, String, Vec<(String, String)>, Vec<u8>);

/// A request as it arrives. `read` holds what came of the next one.
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

/// The first line of a message and its headers.
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
