use std::os::unix::net::UnixListener;

use super::*;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn sockets_of_this_machine_come_first_and_foreign_texts_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer-0123456789abcdef.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let other = folder.path().join("docker.sock");
    let _other = UnixListener::bind(&other).unwrap();
    let reach = texts(&[
        "tcp:10.0.0.7:9703",
        "udp:10.0.0.7:9703",
        "tcp:no-port",
        "unix:0:/missing/peer-0123456789abcdef.sock",
        "unix:0:relative/peer-0123456789abcdef.sock",
        &format!("unix:7:{}", other.display()),
        &format!("unix:{}", path.display()),
        &format!("unix:-1:{}", path.display()),
        &format!("unix:7:{}", path.display()),
        &format!("tcp:{}:1", "x".repeat(ADDRESS_BYTES_MAX)),
    ]);
    let found = in_order(&reach);
    assert_eq!(found, [Address::Unix { owner: 7, path }, Address::Tcp("10.0.0.7:9703".to_owned())]);
}

#[test]
fn a_dialer_tries_a_limited_number_of_addresses() {
    let reach: Vec<String> = (1..100).map(|port| format!("tcp:127.0.0.1:{port}")).collect();
    assert_eq!(in_order(&reach).len(), ADDRESSES_MAX);
}

#[test]
fn hosts_and_ports_are_recognized() {
    for good in ["gateway-1:9703", "10.0.0.7:1", "[::1]:9703", "a.example.com:65535"] {
        assert!(is_host_port(good), "{good}");
    }
    for bad in ["", ":1", "host", "host:", "host:0", "host:65536", "::1:9703", "[x]:1", "a/b:1"] {
        assert!(!is_host_port(bad), "{bad}");
    }
}

#[test]
fn a_listener_announces_addresses_that_others_can_use() {
    let listener = |text: &str| text.parse::<SocketAddr>().unwrap();
    assert_eq!(tcp(listener("10.0.0.7:9703"), None), ["tcp:10.0.0.7:9703"]);
    assert_eq!(tcp(listener("[::1]:9703"), None), ["tcp:[::1]:9703"]);
    assert_eq!(tcp(listener("0.0.0.0:9703"), Some("gate:1")), ["tcp:gate:1"]);
    for (all, only_v4) in [("0.0.0.0:9703", true), ("[::]:9703", false)] {
        let found = tcp(listener(all), None);
        assert!((1..=INTERFACE_ADDRESSES_MAX).contains(&found.len()), "{found:?}");
        for text in found {
            let Some(Address::Tcp(text)) = Address::parse(&text) else { panic!("{text}") };
            let address = listener(&text);
            assert!(!address.ip().is_unspecified() && address.port() == 9703);
            assert!(address.is_ipv4() || !only_v4);
        }
    }
}

#[test]
fn addresses_of_one_machine_alone_are_not_announced() {
    for ip in ["127.0.0.1", "::1", "169.254.1.1", "fe80::1", "0.0.0.0", "224.0.0.1"] {
        assert!(!leads_here_from_elsewhere(ip.parse().unwrap()), "{ip}");
    }
    for ip in ["10.0.0.7", "192.168.1.1", "2001:db8::1", "fd00::1"] {
        assert!(leads_here_from_elsewhere(ip.parse().unwrap()), "{ip}");
    }
}
