//! Reserved ports, with the sockets of this kernel.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, socket};

#[test]
fn server_binds_the_reserved_port_again_and_again() {
    let address = ports::reserve();
    for _ in 0..3 {
        let refused = TcpStream::connect(address).expect_err("nothing listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let server = TcpListener::bind(address).expect("the port of the server");
        let client = TcpStream::connect(address).expect("it listens");
        // A connection remains for a while, as after the end of a killed server.
        drop((server.accept().expect("a connection"), client));
    }
}

#[test]
fn second_server_is_refused_while_the_first_listens() {
    let address = ports::reserve();
    let _server = TcpListener::bind(address).expect("the port of the server");
    let second = TcpListener::bind(address).expect_err("it is taken");
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
}

#[test]
fn reservations_differ() {
    let reserved: HashSet<_> = (0..500).map(|_| ports::reserve()).collect();
    assert_eq!(reserved.len(), 500);
}

/// Another process reserves a port as this one does, and so does Python (`tests/clients/ports.py`):
/// it binds a socket without `SO_REUSEADDR`.
#[test]
fn reserved_port_cannot_be_reserved_again() {
    let address = ports::reserve();
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    assert_eq!(bind(&socket, &address), Err(Errno::ADDRINUSE));
}
