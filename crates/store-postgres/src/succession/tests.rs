use super::{Terms, conflict, newest, refused};
use crate::server::Server;
use crate::server::tests::good;

const TERMS: Terms = Terms { relaxed: false, never_promoted: false, several_hosts: true };

fn at(timeline: i64) -> Server {
    Server { timeline, started: format!("start {timeline}"), ..good() }
}

#[test]
fn a_server_with_a_lower_timeline_than_another_is_refused() {
    let (old, new) = (at(1), at(2));
    let why = refused(&old, None, &[&old, &new], TERMS).expect("a former primary");
    assert!(why.contains("former primary"), "{why}");
    assert_eq!(refused(&new, None, &[&old, &new], TERMS), None);
    let known = newest(&new, None, &[&old, &new]);
    assert!(refused(&old, Some(&known), &[&old], TERMS).is_some(), "it is remembered");
    assert_eq!(refused(&at(3), Some(&known), &[&at(3)], TERMS), None);
    assert_eq!(known.advanced(&[&old]), known);
    assert!(known.advanced(&[&at(3)]).succeeds(&known) && !known.succeeds(&known));
    assert_eq!(known.advanced(&[&at(3)]), newest(&at(3), None, &[&at(3)]));
}

#[test]
fn only_one_host_may_become_the_server_of_another_database() {
    let (one, other) = (at(4), Server { system: "8".into(), ..at(1) });
    let known = newest(&one, None, &[&one]);
    let why = refused(&other, Some(&known), &[&other], TERMS).expect("another database");
    assert!(why.contains("another database"), "{why}");
    let single = Terms { several_hosts: false, ..TERMS };
    assert_eq!(refused(&other, Some(&known), &[&other], single), None);
    assert_eq!(newest(&other, Some(&known), &[&other]), newest(&other, None, &[&other]));
    assert!(conflict(&[&one, &other]).is_some());
}

#[test]
fn two_servers_on_one_timeline_are_refused_and_two_addresses_are_not() {
    let (one, same) = (at(1), at(1));
    assert_eq!(conflict(&[]), None);
    assert_eq!(conflict(&[&one, &same]), None);
    assert!(conflict(&[&one, &Server { started: "later".into(), ..at(1) }]).is_some());
}
