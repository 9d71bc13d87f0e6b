//! A request of the kernel, with the buffer that contains it.
//!
//! Invariant: the request is well-formed, so its operation can be decoded. It owns its bytes and
//! can be moved to another thread. For example, the session reads a SETLKW, and a task that waits
//! for the lock owns the request until it replies.

use std::fmt;
use std::ops::{Deref, Range};

use zerocopy::FromBytes;

use crate::abi::{InHeader, WriteIn, bits};
use crate::buffer::{BufferPool, PooledBuffer, SMALL_BYTES};
use crate::node::NodeId;
use crate::operation::decode::decode;
use crate::operation::{FileOperation, MalformedRequest};

const HEADER_BYTES: usize = size_of::<InHeader>();

/// A well-formed request of the kernel, with its bytes.
pub struct Request {
    header: InHeader,
    body: Range<usize>,
    buffer: PooledBuffer,
}

/// The data of a WRITE, without the rest of its request. Keeps the request's buffer until it is
/// dropped.
pub struct WriteData {
    range: Range<usize>,
    buffer: PooledBuffer,
}

/// Returns the header of a message; `None` if its length is wrong.
pub(crate) fn header_of(message: &[u8]) -> Option<InHeader> {
    let (header, _) = InHeader::read_from_prefix(message).ok()?;
    (usize::try_from(header.len) == Ok(message.len())).then_some(header)
}

/// Returns the range of a message's body: the bytes between the header and the extensions, which
/// are optional additions at the end. `None` if the lengths do not match. No extension is
/// negotiated, so all are ignored.
fn body_of(header: &InHeader, message: &[u8]) -> Option<Range<usize>> {
    let end = message.len().checked_sub(usize::from(header.total_extlen) * 8)?;
    (end >= HEADER_BYTES).then_some(HEADER_BYTES..end)
}

impl Request {
    /// Parses a message that did not come through a session: header and body, as in memory.
    pub fn from_message(message: &[u8]) -> Result<Request, MalformedRequest> {
        let reason = "its length does not match its header";
        let header = header_of(message).ok_or(MalformedRequest { opcode: 0, reason })?;
        // A pool for this buffer alone.
        let pool = BufferPool::new(SMALL_BYTES + 1, 1);
        Request::parse(header, pool.small_copy(message))
    }

    /// Parses the content of a buffer as a request. `header` is the header that the content begins
    /// with.
    pub(crate) fn parse(
        header: InHeader,
        buffer: PooledBuffer,
    ) -> Result<Request, MalformedRequest> {
        let reason = "its extensions are longer than the message";
        let body =
            body_of(&header, &buffer).ok_or(MalformedRequest { opcode: header.opcode, reason })?;
        // Decoded here only to validate; `operation` decodes again, from bytes that cannot have
        // changed.
        decode(header.opcode, NodeId(header.nodeid), &buffer[body.clone()])?;
        Ok(Request { header, body, buffer })
    }

    /// Returns the operation that the kernel requests, with its parameters.
    pub fn operation(&self) -> FileOperation<'_> {
        let body = &self.buffer[self.body.clone()];
        decode(self.header.opcode, self.node(), body).expect("it was decoded when it was read")
    }

    /// Returns the number of the request. Bit 63 is set if the kernel has sent the request again.
    /// The reply carries the number unchanged.
    pub fn unique(&self) -> u64 {
        self.header.unique
    }

    /// Returns the number of the request without the resend bit, which is the same when the kernel
    /// sends the request again. A file system that keeps a journal of its replies uses it as the
    /// key.
    pub fn original_unique(&self) -> u64 {
        self.header.unique & !bits::UNIQUE_RESEND
    }

    /// Returns true if the kernel sent this request before, to an earlier reader of the device.
    pub fn is_resent(&self) -> bool {
        self.header.unique & bits::UNIQUE_RESEND != 0
    }

    /// Returns the node of the operation; for an operation on a name, the directory.
    pub fn node(&self) -> NodeId {
        NodeId(self.header.nodeid)
    }

    /// Returns the user of the calling program.
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// Returns the group of the calling program.
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// Returns the process of the calling program; 0 for the kernel, or for a process in another
    /// PID name space.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// Returns the data of a WRITE without copying it; `None` for other operations.
    pub fn into_write_data(self) -> Option<WriteData> {
        let FileOperation::Write { data, .. } = self.operation() else { return None };
        // The data is at the end of the body, after the fixed part.
        let start = self.body.start + size_of::<WriteIn>();
        let range = start..start + data.len();
        Some(WriteData { range, buffer: self.buffer })
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("unique", &format_args!("{:#x}", self.header.unique))
            .field("node", &self.header.nodeid)
            .field("opcode", &self.header.opcode)
            .field("bytes", &self.buffer.len())
            .finish_non_exhaustive()
    }
}

impl Deref for WriteData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl AsRef<[u8]> for WriteData {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for WriteData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteData({} bytes)", self.range.len())
    }
}

#[cfg(test)]
mod tests;
