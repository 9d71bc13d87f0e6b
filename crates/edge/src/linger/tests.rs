use std::net::Ipv4Addr;

use super::*;

fn host(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

#[test]
fn a_host_at_its_limit_ends_its_own_oldest_connection() {
    let lingering = Lingering::default();
    let counted = |of| lingering.count(Some(of)).expect("the limit of all is not reached");
    let own: Vec<_> = (0..HOST_LINGERING_MAX).map(|_| counted(host(1))).collect();
    let other = counted(host(2));
    assert!(own.iter().all(|one| !one.ended.is_cancelled()));
    let _more = counted(host(1));
    assert!(own[0].ended.is_cancelled() && !own[1].ended.is_cancelled());
    assert!(!other.ended.is_cancelled());
    drop((own, other));
    assert_eq!(lingering.0.hosts().len(), 1, "a host without connections is forgotten");
}
