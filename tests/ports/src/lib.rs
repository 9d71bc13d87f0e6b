//! Ports of this machine for servers that tests start, kill and restart.
//!
//! A server that chooses its own port (`127.0.0.1:0`) and says which needs none of this. The others
//! get their port from [`reserve`], which the process of the test keeps until it ends: no other
//! test gets the port, also while the server is down.
//!
//! A reservation is a socket that is bound and does not listen. Linux lets a second socket bind
//! such a port only if both sockets have `SO_REUSEADDR` (`socket(7)`). The reserving socket binds
//! without the option and sets it afterwards, so that the server, which has it, can bind the port,
//! and another reservation cannot. Until the server listens, the port refuses connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

/// The first port, and the number of ports. Linux takes the ports of outgoing connections from
/// 32768 upward, so no connection takes a reserved port.
const FIRST: u16 = 16_384;
const COUNT: u16 = 16_384;

/// Number of ports between those with which two processes begin.
const APART: u16 = 64;

/// Number of ports that this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// The reservations of this process. They end with it.
static RESERVED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Returns an address of the loopback interface with a port that this process has reserved. Each
/// call returns another one. The server must set `SO_REUSEADDR`, as nearly all do.
///
/// # Panics
///
/// Panics if none of the 16,384 ports is free.
pub fn reserve() -> SocketAddr {
    let processes = COUNT / APART;
    let process = u16::try_from(std::process::id() % u32::from(processes)).unwrap_or(0);
    for _ in 0..COUNT {
        let offset = TRIED.fetch_add(1, Ordering::Relaxed).wrapping_add(process * APART);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + offset % COUNT));
        if let Ok(socket) = hold(address) {
            RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
            return address;
        }
    }
    panic!("no port from {FIRST} on is free");
}

/// Binds a socket to the address. Fails if another socket has the port.
fn hold(address: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}
