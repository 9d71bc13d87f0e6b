//! The proxy in front of a server that replies to each byte with the next one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proxy::{Cut, Proxy};

/// Starts a server. Returns its address and the number of bytes that have reached it.
fn server() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let reached = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reached);
    let serve = move || {
        for stream in listener.incoming() {
            let (mut stream, count) = (stream.expect("a client"), Arc::clone(&count));
            let answer = move || {
                let mut byte = [0];
                while let Ok(1) = stream.read(&mut byte) {
                    count.fetch_add(1, Ordering::SeqCst);
                    byte[0] = byte[0].wrapping_add(1);
                    if stream.write_all(&byte).is_err() {
                        return;
                    }
                }
            };
            std::thread::Builder::new().spawn(answer).expect("a thread");
        }
    };
    std::thread::Builder::new().spawn(serve).expect("a thread");
    (address, reached)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("the proxy listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    stream
}

/// Returns the reply to a byte; `None` if the connection is cut.
fn ask(stream: &mut TcpStream, byte: u8) -> Option<u8> {
    stream.write_all(&[byte]).ok()?;
    let mut answer = [0];
    stream.read_exact(&mut answer).ok()?;
    Some(answer[0])
}

#[test]
fn bytes_pass_and_trips_are_counted() {
    let (address, _) = server();
    let proxy = Proxy::start(address).expect("a proxy");
    let mut stream = connect(&proxy);
    for turn in 0..10 {
        assert_eq!(ask(&mut stream, turn), Some(turn + 1));
    }
    assert_eq!(proxy.trips(), 10);
}

#[test]
fn a_cut_happens_before_the_request_or_after_the_reply() {
    for (cut, arrived) in [(Cut::BeforeRequest, 1), (Cut::AfterReply, 2)] {
        let (address, reached) = server();
        let proxy = Proxy::start(address).expect("a proxy");
        let mut stream = connect(&proxy);
        proxy.cut(cut, b"x", 1);
        assert_eq!(ask(&mut stream, b'a'), Some(b'b'), "another request passes");
        assert_eq!(proxy.cuts(), 0);
        assert_eq!(ask(&mut stream, b'x'), None);
        assert_eq!((proxy.cuts(), reached.load(Ordering::SeqCst)), (1, arrived), "{cut:?}");
        assert_eq!(ask(&mut connect(&proxy), b'x'), Some(b'y'), "one cut was asked for");
    }
}

#[test]
fn held_bytes_pass_later_and_closed_connections_end() {
    let (address, _) = server();
    let proxy = Proxy::start(address).expect("a proxy");
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, 1), Some(2));
    proxy.hold(true);
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    assert_eq!(ask(&mut stream, 5), None, "held");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    proxy.hold(false);
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("it comes in the end");
    assert_eq!(answer, [6]);
    proxy.close(true);
    assert_eq!(ask(&mut stream, 1), None);
    assert_eq!(ask(&mut connect(&proxy), 1), None);
    proxy.close(false);
    assert_eq!(ask(&mut connect(&proxy), 1), Some(2));
}

#[test]
fn delays_keep_the_order() {
    let (address, _) = server();
    let proxy = Proxy::start(address).expect("a proxy");
    proxy.delay(Duration::from_millis(30));
    let mut stream = connect(&proxy);
    let began = std::time::Instant::now();
    for turn in 0..10 {
        assert_eq!(ask(&mut stream, turn), Some(turn + 1));
    }
    assert!(began.elapsed() > Duration::from_millis(60), "20 delays of 15 ms on average");
    assert_eq!(proxy.delays(), 20);
    proxy.delay(Duration::ZERO);
    assert_eq!(ask(&mut stream, 1), Some(2));
    assert_eq!(proxy.delays(), 20);
}

#[test]
fn connections_are_reset_one_piece_later_each_time() {
    let (address, reached) = server();
    let proxy = Proxy::start(address).expect("a proxy");
    proxy.reset_at_each_step();
    // A request and its reply are two pieces.
    for (replies, sent) in [(0, 0), (0, 1), (1, 1), (1, 2)] {
        let before = reached.load(Ordering::SeqCst);
        let mut stream = connect(&proxy);
        for turn in 0..replies {
            assert_eq!(ask(&mut stream, turn), Some(turn + 1));
        }
        stream.write_all(&[9]).expect("it is sent");
        let error = stream.read(&mut [0]).expect_err("it is reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(reached.load(Ordering::SeqCst) - before, sent);
    }
    // The proxy counts a reset after it.
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while proxy.cuts() < 4 && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(proxy.cuts(), 4);
    proxy.end_resets();
    assert_eq!(ask(&mut connect(&proxy), 1), Some(2));
}
