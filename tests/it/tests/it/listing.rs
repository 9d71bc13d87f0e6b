//! Listings during writes: keys that exist throughout are listed exactly once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::client::Client;
use crate::servers::{Blocks, Setup};

/// Number of keys that stay, while others between them are created and deleted.
const STEADY: usize = 120;

/// Number of listings.
const LISTINGS: usize = 30;

fn steady() -> Vec<String> {
    let mut keys: Vec<String> = (0..STEADY)
        .map(|at| match at % 3 {
            0 => format!("k-{at:03}"),
            1 => format!("dir-{}/k-{at:03}", at % 5),
            _ => format!("dir-{}/deep/k-{at:03}", at % 4),
        })
        .collect();
    keys.sort();
    keys
}

/// Creates and deletes keys between the steady ones until `stop`.
fn churn(client: &Client, writer: usize, stop: &AtomicBool, changes: &AtomicU64) {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        for at in (writer..STEADY).step_by(7) {
            let key = match at % 3 {
                0 => format!("k-{at:03}-{writer}"),
                1 => format!("dir-{}/k-{at:03}-{writer}", at % 5),
                _ => format!("new-{writer}-{round}/k-{at:03}"),
            };
            client.put(&format!("/box/{key}"), b"comes and goes").expect(200);
            client.delete(&format!("/box/{key}")).expect(204);
            changes.fetch_add(2, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
        round += 1;
    }
}

#[test]
fn keys_that_existed_throughout_are_listed_exactly_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let steady = steady();
    for key in &steady {
        client.put(&format!("/box/{key}"), key.as_bytes()).expect(200);
    }
    let (stop, changes) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let mut passing = 0;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || churn(client, writer, stop, changes));
        }
        let listed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for listing in 0..LISTINGS {
                let page = [1, 3, 10, 50, 1000][listing % 5].max(if listing < 5 { 1 } else { 3 });
                let keys = client.keys("box", "", page);
                assert!(keys.is_sorted(), "out of order: {keys:?}");
                let mut unique = keys.clone();
                unique.dedup();
                assert_eq!(unique.len(), keys.len(), "a key is listed twice, {page} a page");
                let found: Vec<&String> =
                    keys.iter().filter(|key| steady.binary_search(key).is_ok()).collect();
                assert_eq!(found, steady.iter().collect::<Vec<_>>(), "{page} a page");
                passing += keys.len() - found.len();
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = listed {
            std::panic::resume_unwind(panic);
        }
    });
    let changes = changes.load(Ordering::Relaxed);
    assert!(changes > 100, "only {changes} changes: the test has tried nothing");
    assert!(passing > 0, "no listing saw a key that came and went");
    gateway.check_log();
    gateway.stop();
}
