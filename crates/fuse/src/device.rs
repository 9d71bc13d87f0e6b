//! The descriptor of a mount.
//!
//! One read returns one request, and one write sends one reply. The descriptor can be duplicated
//! and handed to another process; the mount lives while at least one duplicate is open. For
//! example, the keeper of a mount holds a duplicate, so the mount survives a crash of the worker
//! that serves it.

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

/// The maximum number of bytes that can be sent to another process together with a descriptor.
pub const HANDOVER_BYTES_MAX: usize = 1 << 20;

/// The open descriptor of `/dev/fuse` through which one mount is served. Clones share the same
/// descriptor.
#[derive(Clone, Debug)]
pub struct Device(Arc<OwnedFd>);

/// The result of a read from the device of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// The buffer contains a request.
    Request,
    /// There was no request, or the kernel dropped it before it was read. Read again.
    Nothing,
    /// The mount has ended.
    Unmounted,
}

impl Device {
    /// Returns a device that owns this descriptor, which must be of `/dev/fuse` and belong to a
    /// mount.
    pub fn new(descriptor: OwnedFd) -> Device {
        Device(Arc::new(descriptor))
    }

    /// Reads the next request of the kernel into `buffer`, whose earlier content is dropped. Does
    /// not wait if the descriptor is in non-blocking mode.
    pub(crate) fn read(&self, buffer: &mut PooledBuffer) -> result::Result<ReadOutcome, Errno> {
        match rustix::io::read(&*self.0, spare_capacity(buffer.clear_for_read())) {
            Ok(0) | Err(SystemErrno::NODEV | SystemErrno::CONNABORTED) => {
                Ok(ReadOutcome::Unmounted)
            }
            Ok(_) => Ok(ReadOutcome::Request),
            // The kernel can drop a request between the wake-up and the read.
            Err(SystemErrno::INTR | SystemErrno::AGAIN | SystemErrno::NOENT) => {
                Ok(ReadOutcome::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one message (a reply or a notification), made of these parts, to the kernel. The
    /// kernel accepts all of it or nothing.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> result::Result<(), Errno> {
        loop {
            match rustix::io::writev(&*self.0, parts) {
                Ok(_) => return Ok(()),
                Err(SystemErrno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a duplicate of the descriptor over the socket, together with some bytes. The
    /// descriptor stays open here.
    ///
    /// # Errors
    /// Errors of the socket; `InvalidInput` for more than [`HANDOVER_BYTES_MAX`] bytes.
    pub fn send(&self, socket: &UnixStream, bytes: &[u8]) -> io::Result<()> {
        hand_over(socket, self.0.as_fd(), bytes)
    }

    /// Receives a descriptor and bytes from [`Device::send`]. Waits up to the timeout of the
    /// socket.
    ///
    /// # Errors
    /// Errors of the socket; `InvalidData` if the message has no descriptor or announces too many
    /// bytes.
    pub fn receive(socket: &UnixStream) -> io::Result<(Device, Vec<u8>)> {
        let (descriptor, bytes) = take_over(socket)?;
        Ok((Device::new(descriptor), bytes))
    }

    /// Returns true if the mount of this device has ended, as far as poll(2) knows. Does not wait.
    pub fn is_unmounted(&self) -> bool {
        let mut device = [PollFd::new(&*self.0, PollFlags::empty())];
        // POLLERR is reported without being requested, so the set of events is empty.
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut device, Some(&now));
        polled.is_ok() && device[0].revents().contains(PollFlags::ERR)
    }
}

/// Sends a duplicate of a descriptor over the socket, together with some bytes. The descriptor
/// stays open here.
///
/// # Errors
/// Errors of the socket; `InvalidInput` for more than [`HANDOVER_BYTES_MAX`] bytes.
pub fn hand_over(
    mut socket: &UnixStream,
    descriptor: BorrowedFd<'_>,
    bytes: &[u8],
) -> io::Result<()> {
    if bytes.len() > HANDOVER_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the message exceeds HANDOVER_BYTES_MAX",
        ));
    }
    // The length goes with the descriptor, so that the receiver knows where the message ends on the
    // stream.
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
    // The descriptor has gone with the first byte. The rest is an ordinary stream.
    socket.write_all(&length[sent..])?;
    socket.write_all(bytes)
}

/// Receives a descriptor and bytes from [`hand_over`]. Waits up to the timeout of the socket.
///
/// # Errors
/// Errors of the socket; `InvalidData` if the message has no descriptor or announces too many
/// bytes.
pub fn take_over(mut socket: &UnixStream) -> io::Result<(OwnedFd, Vec<u8>)> {
    let mut length = [0; 8];
    let (descriptor, received) = receive_descriptor(socket, &mut length)?;
    socket.read_exact(&mut length[received..])?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    // Checked before the allocation: the length comes from another process.
    if length > HANDOVER_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the announced length exceeds HANDOVER_BYTES_MAX",
        ));
    }
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes)?;
    Ok((descriptor, bytes))
}

/// Receives one descriptor and the bytes of one message from the socket. Returns the descriptor and
/// the number of bytes. Fails with `UnexpectedEof` if the other side has closed the socket, and
/// with `InvalidData` if the message has no descriptor.
pub(crate) fn receive_descriptor(
    socket: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<(OwnedFd, usize)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // `CMSG_CLOEXEC`: a child that another thread starts now must not inherit the descriptor.
    let received = loop {
        let mut parts = [IoSliceMut::new(bytes)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(SystemErrno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let mut descriptors = control.drain().filter_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut rights) = message else { return None };
        rights.next()
    });
    match descriptors.next() {
        Some(descriptor) => Ok((descriptor, received)),
        None if received == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "the message has no descriptor")),
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
