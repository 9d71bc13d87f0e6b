//! The descriptor of a mount: whoever holds it can serve the mount.
//!
//! One read is one request, one write is one reply. The descriptor can be duplicated and handed to
//! another process; the mount lives as long as one of them is open. Requests are not understood
//! here.

use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::{io, result};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno as SystemErrno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::buffer::PooledBuffer;
use crate::errno::Errno;

/// Bytes that can go along with a descriptor.
pub const HANDOVER_BYTES_MAX: usize = 1 << 20;

/// The descriptor of a mount. Clones are the same descriptor.
#[derive(Clone, Debug)]
pub struct Device(Arc<OwnedFd>);

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// A request is in the buffer.
    Request,
    /// There was none, or it went away; read again.
    Nothing,
    /// The mount is gone.
    Unmounted,
}

impl Device {
    /// Takes a descriptor of `/dev/fuse` that belongs to a mount.
    pub fn new(descriptor: OwnedFd) -> Device {
        Device(Arc::new(descriptor))
    }

    /// Reads the next request, if there is one.
    pub(crate) fn read(&self, buffer: &mut PooledBuffer) -> result::Result<ReadOutcome, Errno> {
        match rustix::io::read(&*self.0, spare_capacity(buffer.clear_for_read())) {
            Ok(0) | Err(SystemErrno::NODEV | SystemErrno::CONNABORTED) => {
                Ok(ReadOutcome::Unmounted)
            }
            Ok(_) => Ok(ReadOutcome::Request),
            // A request can be taken back between its announcement and the read.
            Err(SystemErrno::INTR | SystemErrno::AGAIN | SystemErrno::NOENT) => {
                Ok(ReadOutcome::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one message, which the kernel takes whole or not at all.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> result::Result<(), Errno> {
        loop {
            match rustix::io::writev(&*self.0, parts) {
                Ok(_) => return Ok(()),
                Err(SystemErrno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Hands the descriptor to whoever is at the other end of the socket, and some bytes along with
    /// it. The descriptor stays open here, too.
    ///
    /// # Errors
    /// Those of the socket; more than [`HANDOVER_BYTES_MAX`] bytes.
    pub fn send(&self, socket: &UnixStream, bytes: &[u8]) -> io::Result<()> {
        hand_over(socket, self.0.as_fd(), bytes)
    }

    /// Receives what [`Device::send`] sends. Waits for it, as long as the socket's timeout lets it.
    ///
    /// # Errors
    /// Those of the socket; a message that brings no descriptor or announces too many bytes.
    pub fn receive(socket: &UnixStream) -> io::Result<(Device, Vec<u8>)> {
        let (descriptor, bytes) = take_over(socket)?;
        Ok((Device::new(descriptor), bytes))
    }

    /// Whether the mount is gone, as far as can be known without reading.
    pub fn is_unmounted(&self) -> bool {
        let mut device = [PollFd::new(&*self.0, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut device, Some(&now));
        polled.is_ok() && device[0].revents().contains(PollFlags::ERR)
    }
}

/// Hands a descriptor to whoever is at the other end of the socket, and some bytes along with it. The
/// descriptor stays open here, too.
///
/// # Errors
/// Those of the socket; more than [`HANDOVER_BYTES_MAX`] bytes.
pub fn hand_over(
    mut socket: &UnixStream,
    descriptor: BorrowedFd<'_>,
    bytes: &[u8],
) -> io::Result<()> {
    if bytes.len() > HANDOVER_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too much to hand over"));
    }
    let length = (bytes.len() as u64).to_le_bytes();
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(&descriptors));
    assert!(fits, "the space is made for one descriptor");
    let sent = loop {
        let parts = [IoSlice::new(&length)];
        match sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL) {
            Err(SystemErrno::INTR) => {}
            other => break other?,
        }
    };
    socket.write_all(&length[sent..])?;
    socket.write_all(bytes)
}

/// Receives what [`hand_over`] sends. Waits for it, as long as the socket's timeout lets it.
///
/// # Errors
/// Those of the socket; a message that brings no descriptor or announces too many bytes.
pub fn take_over(mut socket: &UnixStream) -> io::Result<(OwnedFd, Vec<u8>)> {
    let mut length = [0; 8];
    let (descriptor, received) = receive_descriptor(socket, &mut length)?;
    socket.read_exact(&mut length[received..])?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > HANDOVER_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too much was handed over"));
    }
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes)?;
    Ok((descriptor, bytes))
}

/// Receives one descriptor and some bytes.
pub(crate) fn receive_descriptor(
    socket: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<(OwnedFd, usize)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(bytes)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(SystemErrno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    match descriptors.next() {
        Some(descriptor) => Ok((descriptor, received)),
        None if received == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "no descriptor was handed over")),
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
