//! Reserved ports, with the sockets of this kernel.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

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

/// The reservations of Python suites are bound in the same way (`tests/clients/ports.py`).
#[test]
fn other_process_cannot_reserve_the_port() {
    let address = ports::reserve();
    let script = "import socket, sys; socket.socket().bind(('127.0.0.1', int(sys.argv[1])))";
    let port = address.port().to_string();
    let output = Command::new("python3").args(["-c", script, &port]).output();
    let output = output.expect("Python is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Address already in use"), "{said}");
}
