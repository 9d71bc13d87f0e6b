//! One request of the kernel, with the buffer that it was read into.
//!
//! A request is well-formed: its operation decodes. It owns its bytes, so it can be moved to another
//! thread as it is. How it is answered is not its concern.

use std::fmt;
use std::ops::{Deref, Range};

use zerocopy::FromBytes;

use crate::abi::{InHeader, WriteIn, bits};
use crate::buffer::{BufferPool, PooledBuffer, SMALL_BYTES};
use crate::node::NodeId;
use crate::operation::decode::decode;
use crate::operation::{FileOperation, MalformedRequest};

const HEADER_BYTES: usize = size_of::<InHeader>();

/// A well-formed request.
pub struct Request {
    header: InHeader,
    body: Range<usize>,
    buffer: PooledBuffer,
}

/// What a WRITE writes, apart from its request. Keeps the request's buffer until it is dropped.
pub struct WriteData {
    range: Range<usize>,
    buffer: PooledBuffer,
}

/// The header of a message whose length is right.
pub(crate) fn header_of(message: &[u8]) -> Option<InHeader> {
    let (header, _) = InHeader::read_from_prefix(message).ok()?;
    (usize::try_from(header.len) == Ok(message.len())).then_some(header)
}

/// What stands between a message's header and its extensions, of which none is asked for.
fn body_of(header: &InHeader, message: &[u8]) -> Option<Range<usize>> {
    let end = message.len().checked_sub(usize::from(header.total_extlen) * 8)?;
    (end >= HEADER_BYTES).then_some(HEADER_BYTES..end)
}

impl Request {
    /// Reads a message that did not come through a session, as it lies in memory: header and body.
    pub fn from_message(message: &[u8]) -> Result<Request, MalformedRequest> {
        let what = "its length is not what its header announces";
        let header = header_of(message).ok_or(MalformedRequest { opcode: 0, what })?;
        // One buffer is lent, and goes with its pool.
        let pool = BufferPool::new(SMALL_BYTES + 1, 1);
        Request::parse(header, pool.small_with(message))
    }

    /// Takes the buffer as a request, if it is a well-formed one.
    pub(crate) fn parse(
        header: InHeader,
        buffer: PooledBuffer,
    ) -> Result<Request, MalformedRequest> {
        let what = "its extensions are longer than itself";
        let body =
            body_of(&header, &buffer).ok_or(MalformedRequest { opcode: header.opcode, what })?;
        decode(header.opcode, NodeId(header.nodeid), &buffer[body.clone()])?;
        Ok(Request { header, body, buffer })
    }

    /// What is asked for.
    pub fn operation(&self) -> FileOperation<'_> {
        let body = &self.buffer[self.body.clone()];
        decode(self.header.opcode, self.node(), body).expect("it was decoded when it was read")
    }

    /// The number of the request. A request that was sent again has bit 63 set; a reply carries the
    /// number as it is.
    pub fn unique(&self) -> u64 {
        self.header.unique
    }

    /// The number of the request without the bit that says that it was sent again: what a journal
    /// of replies goes by.
    pub fn original_unique(&self) -> u64 {
        self.header.unique & !bits::UNIQUE_RESEND
    }

    /// Whether the kernel sent the request before, to whoever read the device then.
    pub fn is_resent(&self) -> bool {
        self.header.unique & bits::UNIQUE_RESEND != 0
    }

    /// The node that the operation is about; of an operation on a name, its directory.
    pub fn node(&self) -> NodeId {
        NodeId(self.header.nodeid)
    }

    /// The user who asks.
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// The group who asks.
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// The process that asks; 0 if it is the kernel or one of another process name space.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// What a WRITE writes, without copying it. `None` for any other operation.
    pub fn into_write_data(self) -> Option<WriteData> {
        let FileOperation::Write { data, .. } = self.operation() else { return None };
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
