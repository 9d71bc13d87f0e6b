use super::Network;

#[test]
fn a_network_contains_addresses_with_its_prefix() {
    let cases = [
        ("10.0.0.0/8", "10.255.1.2", true),
        ("10.0.0.0/8", "11.0.0.0", false),
        ("10.0.0.0/8", "::ffff:10.0.0.1", false),
        ("0.0.0.0/0", "1.2.3.4", true),
        ("::/0", "1.2.3.4", false),
        ("::/0", "fe80::1", true),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("fd00:1::/32", "fd00:1:2::3", true),
        ("fd00:1::/32", "fd00:2:2::3", false),
        ("::1", "::1", true),
    ];
    for (network, address, expected) in cases {
        let contains = network
            .parse::<Network>()
            .map(|network| network.contains(address.parse().expect("an address")));
        assert_eq!(contains, Ok(expected), "{address} in {network}");
    }
}

#[test]
fn invalid_networks_are_refused() {
    for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "proxy", "/8"]
    {
        assert!(text.parse::<Network>().is_err(), "{text}");
    }
}
