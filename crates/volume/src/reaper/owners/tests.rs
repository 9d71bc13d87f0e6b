use std::sync::Arc;

use block::MemoryBlocks;
use record::Content;
use store::{MetaStore, Plan, Verdict, Write};

use super::super::release::{held, let_go};
use super::*;
use crate::tests::faulty::Faulty;
use crate::tests::packs::{lay, publish_listed};
use crate::tests::reaping::{copy, delete};
use crate::tests::{lookup, make_bucket, open};

/// Three files on the roster of one pack, each with its inode's record and what it holds.
async fn world() -> (Arc<Faulty>, Arc<Volume>, Vec<(Value, Held)>) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    make_bucket(&volume).await;
    let members = [("a", 1_000), ("b", 2_000), ("c", 3_000)];
    let laid = lay(&volume, &members).await;
    let mut files = Vec::new();
    for (name, _) in members {
        publish_listed(&volume, &laid, name).await;
        let found = lookup(&volume, name.as_bytes()).await.unwrap();
        let Content::Slices(slices) = &found.inode.file().unwrap().content else {
            panic!("it lies in a pack")
        };
        let held = Held { inode_goes: true, ..held(slices, found.ino)[0] };
        files.push((found.record, held));
    }
    (store, volume, files)
}

/// The plan that ends a file.
fn end((record, held): &(Value, Held), owners: &Owners) -> Plan {
    let inode = key::inode(held.owner);
    let guards = vec![Guard::Equals(inode.clone(), record.clone())];
    let mut plan = Plan { guards, writes: vec![Write::Delete(inode)] };
    let_go(&mut plan, *held, owners);
    plan
}

/// The plans that end these files when they die together.
async fn ends(volume: &Volume, files: &[(Value, Held)]) -> Vec<Plan> {
    let held: Vec<Held> = files.iter().map(|(_, held)| *held).collect();
    let owners = volume.owners(&held).await.unwrap();
    files.iter().zip(&owners).map(|(file, owners)| end(file, owners)).collect()
}

fn takes_the_pack(plan: &Plan) -> bool {
    let pending = |write: &Write| matches!(write, Write::Put(key, _) if key.space().0 == b'q');
    plan.writes.iter().any(pending)
}

async fn commit(store: &Faulty, plan: &Plan) -> bool {
    store.commit(std::slice::from_ref(plan)).await.unwrap() == [Verdict::Committed]
}

#[tokio::test(start_paused = true)]
async fn who_dies_alone_is_vouched_for_by_one_who_stays_as_it_was() {
    let (store, volume, files) = world().await;
    let [first] = &ends(&volume, &files[..1]).await[..] else { panic!("one plan") };
    let [second] = &ends(&volume, &files[1..2]).await[..] else { panic!("one plan") };
    let [third] = &ends(&volume, &files[2..]).await[..] else { panic!("one plan") };
    assert!(![first, second, third].map(takes_the_pack).contains(&true));
    // Each was going to leave the pack to another one.
    assert!(commit(&store, second).await && commit(&store, third).await);
    assert!(!commit(&store, first).await, "nobody is left who vouches for it");
    let [last] = &ends(&volume, &files[..1]).await[..] else { panic!("one plan") };
    assert!(takes_the_pack(last) && commit(&store, last).await);
}

#[tokio::test(start_paused = true)]
async fn who_vouches_and_changes_meanwhile_is_asked_again() {
    let (store, volume, files) = world().await;
    let [first] = &ends(&volume, &files[..1]).await[..] else { panic!("one plan") };
    let tags = vec![("new".to_owned(), "tag".to_owned())];
    for name in [b"b", b"c"] {
        volume.set_tags("b", name, tags.clone()).await.unwrap();
    }
    assert!(!commit(&store, first).await, "it may as well have left the pack");
    let [again] = &ends(&volume, &files[..1]).await[..] else { panic!("one plan") };
    assert!(commit(&store, again).await);
}

#[tokio::test(start_paused = true)]
async fn the_last_takes_the_pack_along_only_if_all_others_have_gone() {
    for skipped in 0..3 {
        let (store, volume, files) = world().await;
        let plans = ends(&volume, &files).await;
        assert_eq!(plans.iter().filter(|plan| takes_the_pack(plan)).count(), 1);
        assert!(takes_the_pack(&plans[2]));
        // In their order all of them go. If one does not, the pack does not.
        let mut went = 0;
        for (place, plan) in plans.iter().enumerate() {
            went += usize::from(place != skipped && commit(&store, plan).await);
        }
        assert_eq!(went, [1, 1, 2][skipped], "without {skipped}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_copied_meanwhile_keeps_the_pack() {
    let (store, volume, files) = world().await;
    for name in [b"a", b"b"] {
        delete(&volume, name).await;
    }
    volume.reap_now().await.unwrap();
    let [last] = &ends(&volume, &files[2..]).await[..] else { panic!("one plan") };
    assert!(takes_the_pack(last));
    copy(&volume, b"c", b"copy").await;
    assert!(!commit(&store, last).await);
    let [again] = &ends(&volume, &files[2..]).await[..] else { panic!("one plan") };
    assert!(!takes_the_pack(again) && commit(&store, again).await);
}

#[tokio::test(start_paused = true)]
async fn an_inode_that_cannot_be_read_keeps_its_pack() {
    let (store, volume, files) = world().await;
    for (_, held) in &files[1..] {
        let damaged = Value::from_static(b"no inode");
        let writes = vec![Write::Put(key::inode(held.owner), damaged)];
        store.commit_now(&[Plan { guards: Vec::new(), writes }]).await;
    }
    let [first] = &ends(&volume, &files[..1]).await[..] else { panic!("one plan") };
    assert!(!takes_the_pack(first) && commit(&store, first).await);
}

#[tokio::test(start_paused = true)]
async fn who_lets_go_without_its_inode_and_without_a_share_owns_nothing() {
    let (_, volume, files) = world().await;
    let held = [Held { inode_goes: false, ..files[0].1 }];
    let owners = volume.owners(&held).await.unwrap();
    assert_eq!(owners[0].own, Own::Nothing);
    let mut plan = Plan::default();
    let_go(&mut plan, held[0], &owners[0]);
    assert_eq!(plan, Plan::default());
}
