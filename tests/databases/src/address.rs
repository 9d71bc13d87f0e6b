//! Free addresses of this machine, for servers that may be away for a while.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port, and the number of ports. Linux takes the ports of outgoing connections from
/// 32768 upward, so no connection takes the port of a server that a test has killed.
const FIRST: u16 = 16_384;
const COUNT: u16 = 16_384;

/// Number of ports between those with which two processes begin.
const APART: u16 = 64;

/// Number of ports that this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// Returns an address at which nothing listens. Each call returns another one.
pub(crate) fn free_address() -> SocketAddr {
    let processes = COUNT / APART;
    let process = u16::try_from(std::process::id() % u32::from(processes)).unwrap_or(0);
    for _ in 0..COUNT {
        let offset = TRIED.fetch_add(1, Ordering::Relaxed).wrapping_add(process * APART);
        let address = (Ipv4Addr::LOCALHOST, FIRST + offset % COUNT);
        if TcpListener::bind(address).is_ok() {
            return address.into();
        }
    }
    panic!("no port from {FIRST} on is free");
}
