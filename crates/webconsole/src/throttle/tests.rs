use std::net::IpAddr;

use tokio::time::advance;

use super::{ADDRESSES_MAX, FAILURES_MAX, LoginThrottle, WINDOW};

fn address(number: u32) -> IpAddr {
    IpAddr::V4(number.into())
}

#[tokio::test(start_paused = true)]
async fn an_address_with_many_failures_waits_and_others_do_not() {
    let throttle = LoginThrottle::new();
    for _ in 0..FAILURES_MAX {
        assert!(throttle.admits(address(1)));
        throttle.failed(address(1));
    }
    assert!(!throttle.admits(address(1)));
    assert!(throttle.admits(address(2)));
    advance(WINDOW).await;
    assert!(throttle.admits(address(1)));
}

#[tokio::test(start_paused = true)]
async fn addresses_of_one_ipv6_network_count_together() {
    let throttle = LoginThrottle::new();
    for host in 0..FAILURES_MAX {
        throttle.failed(format!("2001:db8::{host:x}").parse().unwrap());
    }
    assert!(!throttle.admits("2001:db8::ffff".parse().unwrap()));
    assert!(throttle.admits("2001:db8:0:1::1".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn memory_has_a_limit() {
    let throttle = LoginThrottle::new();
    for number in 0..3 * u32::try_from(ADDRESSES_MAX).unwrap() {
        throttle.failed(address(number));
        advance(WINDOW / 1_000_000).await;
    }
    assert!(throttle.0.lock().unwrap().len() <= ADDRESSES_MAX);
}
