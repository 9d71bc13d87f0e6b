//! A simulated kernel at the other end of a device.

use std::os::fd::OwnedFd;

use fuse::Device;
use rustix::buffer::spare_capacity;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair, sockopt,
};

pub(crate) const EIO: i32 = -5;
pub(crate) const EAGAIN: i32 = -11;
pub(crate) const ENOSYS: i32 = -38;
pub(crate) const EPROTO: i32 = -71;
/// The bit in the number of a request that is sent again.
pub(crate) const RESEND: u64 = 1 << 63;
/// The node of all requests in these tests.
pub(crate) const NODE: u64 = 0x55;

/// Operation codes.
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const COPY_FILE_RANGE_64: u32 = 53;
}

/// The kernel's end of a device.
pub(crate) struct Kernel(OwnedFd);

impl Kernel {
    pub(crate) fn new() -> (Kernel, Device) {
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        for socket in [&ours, &theirs] {
            sockopt::set_socket_send_buffer_size(socket, 1 << 20).unwrap();
        }
        sockopt::set_socket_timeout(
            &ours,
            sockopt::Timeout::Recv,
            Some(std::time::Duration::from_secs(20)),
        )
        .unwrap();
        (Kernel(ours), Device::new(theirs))
    }

    /// Sends a request with a correct header.
    pub(crate) fn send(&self, opcode: u32, unique: u64, body: &[u8]) {
        let mut message = Vec::new();
        message.extend_from_slice(&u32::try_from(40 + body.len()).unwrap().to_ne_bytes());
        message.extend_from_slice(&opcode.to_ne_bytes());
        message.extend_from_slice(&unique.to_ne_bytes());
        message.extend_from_slice(&NODE.to_ne_bytes());
        message.extend_from_slice(&[0; 16]);
        message.extend_from_slice(body);
        self.send_raw(&message);
    }

    pub(crate) fn send_raw(&self, message: &[u8]) {
        assert_eq!(send(&self.0, message, SendFlags::empty()), Ok(message.len()));
    }

    /// Receives the next reply: error, request number, body.
    #[track_caller]
    pub(crate) fn receive(&self) -> (i32, u64, Vec<u8>) {
        let mut message = Vec::with_capacity(1 << 20);
        recv(&self.0, spare_capacity(&mut message), RecvFlags::empty()).unwrap();
        let length = u32::from_ne_bytes(message[..4].try_into().unwrap());
        assert_eq!(usize::try_from(length), Ok(message.len()));
        let error = i32::from_ne_bytes(message[4..8].try_into().unwrap());
        let unique = u64::from_ne_bytes(message[8..16].try_into().unwrap());
        (error, unique, message[16..].to_vec())
    }

    /// Closes the kernel's end, as an unmount does.
    pub(crate) fn end(&self) {
        shutdown(&self.0, Shutdown::Write).unwrap();
    }
}

/// The INIT of a kernel of this version, which offers all features.
pub(crate) fn init_body(major: u32, minor: u32) -> Vec<u8> {
    let mut body = [major, minor, 131_072, u32::MAX, u32::MAX].map(u32::to_ne_bytes).concat();
    body.resize(64, 0);
    body
}

/// A GETLK and similar request, for the first byte.
pub(crate) fn lock_body() -> Vec<u8> {
    vec![0; 48]
}
