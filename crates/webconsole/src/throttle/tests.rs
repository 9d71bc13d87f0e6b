use std::net::IpAddr;

use tokio::time::advance;

use super::{COUNTS_MAX, FAILURES_OF_ADDRESS_MAX, FAILURES_OF_KEY_MAX, LoginThrottle, WINDOW};

fn address(number: u32) -> IpAddr {
    IpAddr::V4(number.into())
}

#[tokio::test(start_paused = true)]
async fn a_key_with_many_failures_waits_and_others_do_not() {
    let throttle = LoginThrottle::new();
    for _ in 0..FAILURES_OF_KEY_MAX {
        assert!(throttle.admits_key(address(1), "anna"));
        throttle.failed(address(1), "anna");
    }
    assert!(!throttle.admits_key(address(1), "anna"));
    // Another person behind the same proxy, and the same person elsewhere.
    assert!(throttle.admits_key(address(1), "ben"));
    assert!(throttle.admits_key(address(2), "anna"));
    advance(WINDOW).await;
    assert!(throttle.admits_key(address(1), "anna"));
}

#[tokio::test(start_paused = true)]
async fn an_address_cannot_try_ever_new_keys() {
    let throttle = LoginThrottle::new();
    for number in 0..FAILURES_OF_ADDRESS_MAX {
        assert!(throttle.admits(address(1)));
        throttle.failed(address(1), &number.to_string());
    }
    assert!(!throttle.admits(address(1)));
    assert!(!throttle.admits_key(address(1), "anna"));
    assert!(throttle.admits(address(2)));
}

#[tokio::test(start_paused = true)]
async fn addresses_of_one_ipv6_network_count_together() {
    let throttle = LoginThrottle::new();
    for host in 0..FAILURES_OF_KEY_MAX {
        throttle.failed(format!("2001:db8::{host:x}").parse().unwrap(), "anna");
    }
    assert!(!throttle.admits_key("2001:db8::ffff".parse().unwrap(), "anna"));
    assert!(throttle.admits_key("2001:db8:0:1::1".parse().unwrap(), "anna"));
}

#[tokio::test(start_paused = true)]
async fn memory_has_a_limit() {
    let throttle = LoginThrottle::new();
    for number in 0..2 * u32::try_from(COUNTS_MAX).unwrap() {
        throttle.failed(address(number), "anna");
        advance(WINDOW / 1_000_000).await;
    }
    assert!(throttle.counts.lock().unwrap().len() <= COUNTS_MAX);
}
