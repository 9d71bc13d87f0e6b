//! The stop of a gateway behind a load balancer.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::running::{Folder, Gateway, get_as};

/// The limit of time until the listener closes.
const PATIENCE: Duration = Duration::from_secs(20);

fn ready(gateway: &Gateway) -> String {
    let answer = gateway.ask("GET /-/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    answer.lines().next().unwrap_or_default().to_owned()
}

fn wait_closed(gateway: &Gateway) {
    let limit = Instant::now() + PATIENCE;
    while TcpStream::connect(gateway.address()).is_ok() {
        assert!(Instant::now() < limit, "the listener stays open");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_not_ready(gateway: &Gateway) {
    let limit = Instant::now() + PATIENCE;
    while !ready(gateway).starts_with("HTTP/1.1 503") {
        assert!(Instant::now() < limit, "it stays ready");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_gateway_in_its_shutdown_delay_is_not_ready_and_serves() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &["--shutdown-delay", "10m"], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    assert!(ready(&gateway).starts_with("HTTP/1.1 200"));
    let of_operators = || get_as("localhost", &gateway.admin(), "/-/ready");
    assert!(of_operators().starts_with("HTTP/1.1 200"));
    gateway.terminate();
    wait_not_ready(&gateway);
    // The administrative listener gives the same answer, because a probe may ask either.
    assert!(of_operators().starts_with("HTTP/1.1 503"));
    // New connections are accepted and served, because the balancer may still send clients.
    for number in 0..3 {
        gateway.sign("PUT", &format!("/bucket/{number}"), b"x").send_all().expect_status(200);
        assert!(ready(&gateway).starts_with("HTTP/1.1 503"));
    }
    // A second signal ends the delay; the upload in flight finishes.
    let body = vec![b'x'; 1 << 20];
    let mut upload = gateway.sign("PUT", "/bucket/key", &body).send_head();
    upload.send(&body[..1024]);
    std::thread::sleep(Duration::from_millis(300));
    gateway.terminate();
    wait_closed(&gateway);
    upload.send(&body[1024..]);
    upload.read().expect_status(200);
    assert_eq!(gateway.wait().code, Some(0));
}

#[test]
fn the_shutdown_delay_ends_without_a_second_signal() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &["--shutdown-delay", "2"], &[]);
    let began = Instant::now();
    gateway.terminate();
    wait_closed(&gateway);
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(gateway.wait().code, Some(0));
}
