use std::net::{IpAddr, Ipv4Addr};

use identity::ClientAddress;
use s3::Code;

use super::*;
use crate::holder::holder;

/// Returns the host with this last number in its address.
fn host(number: u8) -> MemoryHolder {
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, number));
    holder(Some(ClientAddress { address, tls: None, is_local: false }), None)
}

#[tokio::test(start_paused = true)]
async fn one_host_takes_a_part_of_the_memory_and_short_requests_take_none() {
    let senders = UnknownSenders::new();
    let mut held = Vec::new();
    let fault = loop {
        let mut memory = senders.memory(host(1));
        match memory.grow(64 << 10).await {
            Ok(()) => held.push(memory),
            Err(fault) => break fault,
        }
        assert!((held.len() as u64) << 16 <= BUDGET_BYTES, "one host has a share");
    };
    assert_eq!(fault.code, Code::SlowDown);
    let mut other = senders.memory(host(2));
    other.grow(20_000).await.expect("another host has memory");
    other.grow(60_000).await.expect("the next step");
    assert_eq!(other.held.as_ref().map(Permit::bytes), Some(64 << 10));
    senders.memory(host(1)).grow(FREE_BYTES).await.expect("a short request");
    held.pop();
    senders.memory(host(1)).grow(64 << 10).await.expect("what was given back");
}
