use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use record::{Ino, key};
use runtime::Moment;
use store::{Plan, Value, Write};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::records::{Basis, SeqlockRead};
use crate::times::AUTHORITY_DURATION;

use super::{
    Acknowledge, CacheValidity, Coherence, NodeChanges, NodeWatch, PendingInvalidation, Watch,
    Watches,
};

/// Collects the notifications, and the senders that complete them.
#[derive(Debug, Default)]
struct Recorder {
    changes: Mutex<Vec<NodeChanges>>,
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
    peers: Mutex<Vec<Pending>>,
}

/// A notice of a peer that is not acknowledged yet.
struct Pending(Option<Acknowledge>);

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl NodeWatch for Recorder {
    fn changed(&self, changes: &NodeChanges, done: Option<oneshot::Sender<()>>) {
        self.changes.lock().unwrap().push(changes.clone());
        self.waiting.lock().unwrap().extend(done);
    }

    fn peer_changes(&self, changes: &NodeChanges, done: Acknowledge) {
        self.changes.lock().unwrap().push(changes.clone());
        self.peers.lock().unwrap().push(Pending(Some(done)));
    }

    fn all_changed(&self) {
        self.changes.lock().unwrap().push(NodeChanges::default());
    }
}

fn watched(coherence: Coherence) -> (Watches, Arc<Recorder>) {
    let (watches, recorder) = (Watches::default(), Arc::<Recorder>::default());
    watches.set(Some(Watch { watch: recorder.clone(), coherence }));
    (watches, recorder)
}

fn soon() -> (Moment, SeqlockRead, Basis) {
    (Moment::now().after(Duration::from_millis(400)), SeqlockRead::at(1), Basis::Alone)
}

fn leased() -> (Moment, SeqlockRead, Basis) {
    (Moment::now().after(Duration::from_millis(400)), SeqlockRead::at(1), Basis::Leases)
}

/// A plan that binds `a/` in directory 7.
fn plan() -> Plan {
    let put = |key| Write::Put(key, Value::from_static(b"value"));
    let writes =
        vec![put(key::dentry(Ino(7), b"a/")), put(key::inode(Ino(8))), put(key::orphan(Ino(9)))];
    Plan { guards: Vec::new(), writes }
}

#[tokio::test(start_paused = true)]
async fn with_peers_only_pushed_coherence_allows_caching() {
    for (coherence, pushed) in [(Coherence::Strict, false), (Coherence::Pushed, true)] {
        let (watches, _told) = watched(coherence);
        assert_eq!(watches.cache_validity(None).remaining(), Duration::ZERO, "nothing was heard");
        watches.feed_checked(Moment::now());
        assert_eq!(
            watches.cache_validity(None).remaining() > Duration::ZERO,
            pushed,
            "{coherence:?}"
        );
        assert!(
            watches.cache_validity(Some(soon())).remaining() > Duration::ZERO,
            "alone it always is"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            watches.cache_validity(None).remaining(),
            Duration::ZERO,
            "the feed is not heard"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_may_be_cached_without_a_watch() {
    let watches = Watches::default();
    assert_eq!(watches.cache_validity(Some(soon())).remaining(), Duration::ZERO);
    assert!(watches.committed(&plan()).is_none());
}

#[tokio::test(start_paused = true)]
async fn names_and_nodes_of_a_plan_are_invalidated() {
    let (watches, recorder) = watched(Coherence::Strict);
    assert!(watches.committed(&plan()).is_none(), "nothing was given out");
    let _trust: CacheValidity = watches.cache_validity(Some(soon()));
    let invalidation = watches.committed(&plan()).expect("it was");
    // The last one has lost its last name: its links change.
    let nodes = vec![Ino(7), Ino(8), Ino(9)];
    let expected = NodeChanges { names: vec![(Ino(7), b"a".to_vec())], nodes };
    assert_eq!(*recorder.changes.lock().unwrap(), [expected]);
    let waiting = recorder.waiting.lock().unwrap().pop().expect("a change waits");
    let began = Instant::now();
    let heeding = async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        waiting.send(()).expect("a change waits");
    };
    tokio::join!(heeding, invalidation.completed());
    assert_eq!(began.elapsed().as_millis() / 10, 10, "it waits for the watch");
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_invalidation_waits_until_caches_expire() {
    for dropped in [true, false] {
        let (watches, recorder) = watched(Coherence::Strict);
        let _trust: CacheValidity = watches.cache_validity(Some(soon()));
        let invalidation: PendingInvalidation =
            watches.committed(&plan()).expect("something was given out");
        if dropped {
            recorder.waiting.lock().unwrap().clear();
        }
        let began = Instant::now();
        invalidation.completed().await;
        assert!(began.elapsed() >= Duration::from_millis(350), "{:?}", began.elapsed());
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(watches.committed(&plan()).is_none(), "it has run out");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_after_the_watch_is_removed_wait_until_its_caches_expire() {
    let (watches, recorder) = watched(Coherence::Strict);
    let _trust: CacheValidity = watches.cache_validity(Some(soon()));
    watches.set(None);
    let invalidation = watches.committed(&plan()).expect("something was given out");
    let began = Instant::now();
    invalidation.completed().await;
    assert!(began.elapsed() >= Duration::from_millis(350), "{:?}", began.elapsed());
    assert!(recorder.changes.lock().unwrap().is_empty(), "it is removed");
    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(watches.committed(&plan()).is_none(), "it has run out");
}

#[tokio::test(start_paused = true)]
async fn changes_of_other_sessions_are_invalidated_without_waiting() {
    let (watches, recorder) = watched(Coherence::Pushed);
    watches.feed_checked(Moment::now());
    let _trust: CacheValidity = watches.cache_validity(None);
    let keys = [key::dentry(Ino(7), b"b"), key::hold(Ino(7), record::Nonce([0; 10]))];
    watches.notified(keys.iter());
    watches.notified(keys[1..].iter());
    let expected = NodeChanges { names: vec![(Ino(7), b"b".to_vec())], nodes: vec![Ino(7)] };
    assert_eq!(*recorder.changes.lock().unwrap(), [expected]);
    assert!(recorder.waiting.lock().unwrap().is_empty());
    watches.all_changed();
    assert_eq!(recorder.changes.lock().unwrap().len(), 2);
    assert_eq!(watches.cache_validity(None).remaining(), Duration::ZERO, "the feed has a gap");
}

/// A notice of a peer that binds the name `a` in directory 7, and whether it is acknowledged.
fn notice(watches: &Watches) -> Arc<AtomicBool> {
    let acknowledged = Arc::<AtomicBool>::default();
    let done = Arc::clone(&acknowledged);
    let keys = [key::dentry(Ino(7), b"a"), key::inode(Ino(8))];
    watches.peer_batch_sent(&keys, Box::new(move || done.store(true, Ordering::SeqCst)));
    acknowledged
}

/// Watches with a watch that was set so long ago that all leases are newer.
async fn leased_watches(coherence: Coherence) -> (Watches, Arc<Recorder>) {
    let (watches, recorder) = watched(coherence);
    tokio::time::sleep(AUTHORITY_DURATION + Duration::from_millis(10)).await;
    (watches, recorder)
}

#[tokio::test]
async fn a_notice_waits_until_outside_caches_have_dropped_the_nodes() {
    let (watches, recorder) = leased_watches(Coherence::Strict).await;
    assert!(notice(&watches).load(Ordering::SeqCst), "nothing was granted");
    watches.peer_batches_ended(1);
    assert!(watches.cache_validity(Some(leased())).remaining() > Duration::ZERO);
    let acknowledged = notice(&watches);
    assert!(!acknowledged.load(Ordering::SeqCst));
    let expected =
        NodeChanges { names: vec![(Ino(7), b"a".to_vec())], nodes: vec![Ino(7), Ino(8)] };
    assert_eq!(*recorder.changes.lock().unwrap(), [expected]);
    let done = recorder.peers.lock().unwrap().pop().and_then(|pending| pending.0);
    done.expect("the watch has the notice")();
    assert!(acknowledged.load(Ordering::SeqCst));
}

#[tokio::test]
async fn nothing_may_be_cached_while_a_batch_of_a_peer_is_in_flight() {
    let (watches, _recorder) = leased_watches(Coherence::Strict).await;
    let remaining = || watches.cache_validity(Some(leased())).remaining();
    assert!(remaining() > Duration::ZERO);
    let _acknowledged = (notice(&watches), notice(&watches));
    assert_eq!(remaining(), Duration::ZERO);
    watches.peer_batches_ended(1);
    assert_eq!(remaining(), Duration::ZERO, "one of two has ended");
    watches.peer_batches_ended(1);
    assert!(remaining() > Duration::ZERO);
}

#[tokio::test]
async fn replies_without_an_order_may_not_be_cached_under_leases() {
    let (watches, _recorder) = leased_watches(Coherence::Strict).await;
    for (authority, is_leased) in [(soon(), false), (leased(), true)] {
        let validity = watches.cache_validity(Some(authority));
        assert!(validity.remaining() > Duration::ZERO);
        assert_eq!(validity.remaining_if_unordered() == Duration::ZERO, is_leased);
        assert_eq!(validity.without_leases().remaining() == Duration::ZERO, is_leased);
    }
}

#[tokio::test]
async fn leases_from_before_the_watch_allow_no_caching() {
    let (watches, _recorder) = watched(Coherence::Strict);
    assert!(watches.may_outlive_links());
    assert_eq!(watches.cache_validity(Some(leased())).remaining(), Duration::ZERO);
    assert!(watches.cache_validity(Some(soon())).remaining() > Duration::ZERO);
}

#[tokio::test]
async fn peers_do_not_wait_for_caches_with_pushed_coherence() {
    let (watches, _recorder) = leased_watches(Coherence::Pushed).await;
    assert_eq!(watches.cache_validity(Some(leased())).remaining(), Duration::ZERO);
    watches.feed_checked(Moment::now());
    assert!(watches.cache_validity(Some(leased())).remaining() > Duration::ZERO);
    assert!(notice(&watches).load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_peer_waits_for_the_caches_of_a_removed_watch() {
    let (watches, _recorder) = leased_watches(Coherence::Strict).await;
    let _validity = watches.cache_validity(Some(leased()));
    watches.set(None);
    assert!(!notice(&watches).load(Ordering::SeqCst));
}
