use std::time::Duration;

use record::SocketSecret;
use tokio::time::timeout;

use super::*;
use crate::Message;

const PEER: Nonce = Nonce([2; Nonce::BYTES]);

#[derive(Debug)]
struct Silent;

impl LinkEvents for Silent {
    fn opened(&self, _: &Link) {}

    fn received(&self, _: &Link, _: Message) {}

    fn closed(&self, _: &Link) {}
}

fn registry() -> Arc<Registry> {
    let provers = Provers::new([1; 16], &SocketSecret::NONE, None, Nonce([1; Nonce::BYTES]));
    Arc::new(Registry::new(provers, Tasks::new(), Arc::new(Silent)))
}

/// Waits for the turn of a link, and returns true if it comes soon.
async fn has_turn(admission: &mut Admission) -> bool {
    timeout(Duration::from_millis(100), admission.after_previous()).await.is_ok()
}

#[tokio::test]
async fn a_link_waits_for_the_earlier_one() {
    let registry = registry();
    let mut first = registry.admit(PEER, true).unwrap();
    assert!(has_turn(&mut first).await);
    let mut second = registry.admit(PEER, true).unwrap();
    assert!(!first.link.is_open() && second.link.is_open());
    assert!(!has_turn(&mut second).await);
    drop(first);
    assert!(has_turn(&mut second).await);
    assert!(registry.link_of(PEER).is_some());
    drop(second);
    assert!(registry.link_of(PEER).is_none());
}

#[tokio::test]
async fn a_link_waits_for_all_earlier_ones_if_one_between_gave_up() {
    let registry = registry();
    let first = registry.admit(PEER, true).unwrap();
    drop(registry.admit(PEER, true).unwrap());
    let mut third = registry.admit(PEER, true).unwrap();
    assert!(!has_turn(&mut third).await);
    drop(first);
    assert!(has_turn(&mut third).await);
    assert!(third.link.is_open());
}

#[tokio::test]
async fn a_link_that_gave_up_is_forgotten_after_the_earlier_one() {
    let registry = registry();
    let first = registry.admit(PEER, true).unwrap();
    drop(registry.admit(PEER, true).unwrap());
    let place = registry.link_of(PEER).expect("it keeps its place");
    assert!(!place.is_cancelled());
    drop(first);
    timeout(Duration::from_secs(20), place.cancelled()).await.unwrap();
    assert!(registry.link_of(PEER).is_none());
}

#[tokio::test]
async fn a_closed_registry_admits_no_link() {
    let registry = registry();
    let open = registry.admit(PEER, true).unwrap();
    registry.close();
    assert!(!open.link.is_open());
    assert!(registry.admit(PEER, true).is_err());
}
