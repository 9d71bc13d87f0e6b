//! The change feed of a server that lost records or was restored.

use std::path::Path;
use std::process::Command;

use store::feed::FEED_BATCHES;
use store::{Changes, MetaStore, Plan, Position};
use store_redis::{RedisOptions, RedisStore};

use crate::server::{self, Volume};
use crate::{plan, point, put, record, write};

async fn here(store: &dyn MetaStore) -> Position {
    match store.changes(None).await.expect("a position") {
        Changes::Notified { next, .. } => next,
        Changes::Gap { .. } => panic!("there cannot be a gap"),
    }
}

async fn is_gap(store: &dyn MetaStore, since: &Position) -> bool {
    matches!(store.changes(Some(since)).await.expect("an answer"), Changes::Gap { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_is_bounded_and_as_long_as_promised() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let beginning = here(&store).await;
    let mut recent = beginning.clone();
    let batches = 3 * FEED_BATCHES as u64;
    for from in (0..batches).step_by(128) {
        if from == batches - FEED_BATCHES as u64 {
            recent = here(&store).await;
        }
        let each = (from..from + 128).map(|number| write(&store, [put(point(number), "")]));
        futures::future::join_all(each).await;
    }
    assert!(is_gap(&store, &beginning).await, "the stream was never trimmed");
    let changed = store.changes(Some(&recent)).await.expect("an answer");
    assert!(matches!(&changed, Changes::Notified { keys, .. } if keys.len() == FEED_BATCHES));
    let mut connection = server::connection(&server);
    let mut length = redis::cmd("XLEN");
    let length: usize =
        length.arg(format!("{}f", volume.prefix())).query(&mut connection).expect("a length");
    assert!((FEED_BATCHES..=FEED_BATCHES + 200).contains(&length), "{length} entries");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_feed_is_a_gap() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    write(&store, [put(point(1), "")]).await;
    let before = here(&store).await;
    let mut connection = server::connection(&server);
    let mut delete = redis::cmd("DEL");
    let deleted: u64 =
        delete.arg(format!("{}f", volume.prefix())).query(&mut connection).expect("an answer");
    assert_eq!(deleted, 1, "there was no feed");
    assert!(is_gap(&store, &before).await);
    let between = here(&store).await;
    write(&store, [put(point(2), "")]).await;
    assert!(is_gap(&store, &before).await);
    assert!(is_gap(&store, &between).await);
    let after = here(&store).await;
    write(&store, [put(point(3), "")]).await;
    assert!(!is_gap(&store, &after).await);
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success());
}

/// A server that was restored from an older file has lost commits, and makes others in their place.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_the_server_has_lost_is_a_gap() {
    let Some(mut server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store");
    write(&store, [put(point(1), "kept")]).await;
    let kept = here(&store).await;
    server.kill();
    let (files, aside) = (server.folder().join("appendonlydir"), server.folder().join("aside"));
    copy(&files, &aside);
    server.restart();
    // The first calls may fail while old connections are replaced.
    while store.changes(None).await.is_err() {}
    write(&store, [put(point(2), "lost")]).await;
    let lost = here(&store).await;
    server.kill();
    std::fs::remove_dir_all(&files).expect("the newer file goes");
    std::fs::rename(&aside, &files).expect("the older one is back");
    server.restart();
    while store.changes(None).await.is_err() {}
    assert_eq!(record(&store, point(2)).await, None, "the server has lost nothing");
    assert!(is_gap(&store, &lost).await, "before others came in its place");
    let many: Vec<Plan> = (10..20).map(|number| plan([], [put(point(number), "new")])).collect();
    for one in many {
        store.commit(&[one]).await.expect("decided");
    }
    assert!(is_gap(&store, &lost).await, "after others came in its place");
    assert!(!is_gap(&store, &kept).await, "an older position is still good");
    store.close().await;
}
