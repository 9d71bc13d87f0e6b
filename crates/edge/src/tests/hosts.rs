//! The limits of one host, and the clients of proxies.

use super::harness::{Harness, Options};

const OTHER: [u8; 4] = [127, 0, 0, 2];

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n")
}

#[tokio::test]
async fn a_host_at_its_request_limit_does_not_block_others() {
    let harness = Harness::start(Options { host_requests_max: 1, ..Options::default() }).await;
    let mut busy = harness.connect().await;
    busy.send(&get("/wait", "")).await;
    harness.service.began.notified().await;
    let said = harness.ask(&get("/ok", "X-Forwarded-For: 9.9.9.9\r\n")).await;
    assert_eq!((said.status, said.header("retry-after").as_deref()), (503, Some("1")));
    assert!(said.body.contains("<Code>SlowDown</Code>"), "{}", said.body);
    let mut other = harness.connect_from(OTHER).await;
    other.send(&get("/ok", "")).await;
    assert_eq!(other.read().await.status, 200);
    harness.service.go.notify_one();
    assert_eq!(busy.read().await.status, 200);
    assert_eq!(harness.ask(&get("/ok", "")).await.status, 200);
    let metrics = harness.metrics.text().expect("text");
    let line = "ashlar_s3_rejections_total{limit=\"host_requests\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_host_at_its_connection_limit_does_not_block_others() {
    let harness = Harness::start(Options { host_connections_max: 1, ..Options::default() }).await;
    let mut first = harness.connect().await;
    first.send(&get("/ok", "")).await;
    assert_eq!(first.read().await.status, 200);
    let mut second = harness.connect().await;
    second.send(&get("/ok", "")).await;
    let said = second.read().await;
    assert_eq!((said.status, said.header("connection").as_deref()), (503, Some("close")));
    let mut other = harness.connect_from(OTHER).await;
    other.send(&get("/ok", "")).await;
    assert_eq!(other.read().await.status, 200);
    let metrics = harness.metrics.text().expect("text");
    let line = "ashlar_s3_rejections_total{limit=\"host_connections\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    drop((first, second, other));
    while harness.hosts.len() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(harness.ask(&get("/ok", "")).await.status, 200, "its place is free again");
}

#[tokio::test]
async fn a_request_through_a_proxy_counts_for_its_client() {
    let proxies = ["127.0.0.1", "10.0.0.0/8"].map(|proxy| proxy.parse().expect("a network"));
    let options = Options {
        host_requests_max: 1,
        host_connections_max: 1,
        proxies: proxies.to_vec(),
        ..Options::default()
    };
    let harness = Harness::start(options).await;
    let mut busy = harness.connect().await;
    busy.send(&get("/wait", "X-Forwarded-For: 9.9.9.9\r\n")).await;
    harness.service.began.notified().await;
    let cases = [
        ("X-Forwarded-For: 9.9.9.9\r\n", 503),
        ("X-Forwarded-For: 9.9.9.9:4711\r\n", 503),
        // The claim of a client precedes the address that the proxy appends.
        ("X-Forwarded-For: 1.1.1.1, 9.9.9.9\r\n", 503),
        ("X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 9.9.9.9\r\n", 503),
        ("X-Forwarded-For: nonsense, 9.9.9.9, 10.1.2.3\r\n", 503),
        ("X-Forwarded-For: n\u{f6}nsense, 9.9.9.9\r\n", 503),
        ("X-Forwarded-For: ::ffff:9.9.9.9\r\n", 503),
        ("X-Forwarded-For: 9.9.9.9, 1.1.1.1\r\n", 200),
        ("X-Forwarded-For: [2001:db8::1]:4711\r\n", 200),
        // A proxy that names no client has no limit of its own.
        ("", 200),
        ("X-Forwarded-For: nonsense\r\n", 200),
        ("X-Forwarded-For: 10.1.2.3\r\n", 200),
    ];
    for (header, status) in cases {
        assert_eq!(harness.ask(&get("/ok", header)).await.status, status, "{header}");
    }
    let mut untrusted = harness.connect_from(OTHER).await;
    untrusted.send(&get("/ok", "X-Forwarded-For: 9.9.9.9\r\n")).await;
    assert_eq!(untrusted.read().await.status, 200, "who is no proxy speaks for itself");
    drop(untrusted);
    harness.service.go.notify_one();
    assert_eq!(busy.read().await.status, 200);
    drop(busy);
    while harness.hosts.len() > 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn forwarded_proto_counts_only_if_every_item_is_https() {
    use crate::hosts::forwarded_proto;
    for (lines, expected) in [
        (&[][..], None),
        (&["https"], Some(true)),
        (&["HTTPS "], Some(true)),
        (&["http"], Some(false)),
        (&[""], Some(false)),
        (&["https", "http"], Some(false)),
        (&["http", "https"], Some(false)),
        (&["https", "https"], Some(true)),
        (&["https, http"], Some(false)),
        (&["https, https"], Some(true)),
        (&["https", "n\u{f6}nsense"], Some(false)),
    ] {
        let line = |line: &&str| http::HeaderValue::from_bytes(line.as_bytes()).expect("a value");
        let mut headers = http::HeaderMap::new();
        for line in lines.iter().map(line) {
            headers.append("x-forwarded-proto", line);
        }
        assert_eq!(forwarded_proto(&headers), expected, "{lines:?}");
    }
}

/// All addresses of a /64 network count for one host.
#[test]
fn addresses_of_one_ipv6_network_are_one_host() {
    use crate::{HostLimits, Hosts};
    let limits = HostLimits { connections_max: 1, requests_max: 1, proxies: Vec::new() };
    let hosts = Hosts::new(limits);
    let of = |address: &str| hosts.peer(address.parse().expect("an address"));
    let first = of("2001:db8:0:1::1");
    let connection = first.connection();
    assert!(connection.is_some());
    assert!(of("2001:db8:0:1:ffff::2").connection().is_none(), "the same network");
    assert!(of("2001:db8:0:2::1").connection().is_some(), "another one");
    assert!(of("192.0.2.1").connection().is_some());
    assert!(of("::ffff:192.0.2.1").connection().is_some(), "the one before has gone");
    drop((connection, first));
    assert_eq!(hosts.len(), 0);
}
