//! Ownership of packs while clients, reapers and rewriters of two gateways run at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use content::ContentWriter;
use faulty::Fault;
use namespace::WriteCondition;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use record::key::space;
use record::{ObjectHeaders, Tag};

use super::packs::{bytes_of, counters, findings, world};
use super::reaping::{copy, delete, owner, read, records};
use super::{MaintainedVolume, count_blocks, open};
use crate::{NewObject, RoundTrips, Volume, VolumeError, count_round_trips};

/// Sends an object as a client does.
async fn put(
    volume: &Volume,
    name: &str,
    length: usize,
    condition: WriteCondition,
) -> Result<(), VolumeError> {
    let mut writer = ContentWriter::new(&volume.writers, Some(length as u64));
    writer.write(bytes_of(name, length).into()).await?;
    let body = writer.finish().await?;
    let (headers, tag, sums) = (ObjectHeaders::default(), Tag::Md5([1; 16]), Vec::new());
    let new = NewObject { owner: owner(), headers, tag, sums, encryption: None };
    volume.put("b", name.as_bytes(), body, new, condition).await.map(|_| ())
}

/// Objects that are sent at the same time. The first one leaves before it has company.
async fn put_all(volume: &Volume, objects: &[(String, usize)]) {
    let puts =
        objects.iter().map(|(name, length)| put(volume, name, *length, WriteCondition::None));
    for put in futures::future::join_all(puts).await {
        put.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_bodies_share_a_pack_until_the_last_is_deleted() {
    let (store, blocks, volume) = world().await;
    let objects: Vec<(String, usize)> = (0..17).map(|n| (format!("m{n:02}"), 20_000)).collect();
    put_all(&volume, &objects).await;
    assert_eq!((count_blocks(&blocks).await, records(&*store, space::SHARE).await), (2, 16));
    assert_eq!(counters(&*store).await.into_values().collect::<Vec<_>>(), [16 * 20_000]);
    assert_eq!(findings(&store, &blocks).await, []);
    let (last, others) = objects.split_last().unwrap();
    for others in others.chunks(8) {
        for (name, _) in others {
            delete(&volume, name.as_bytes()).await;
        }
        assert_eq!(findings(&store, &blocks).await, [], "with orphans");
        volume.upkeep.reap_now().await.unwrap();
    }
    assert_eq!(count_blocks(&blocks).await, 1);
    assert_eq!(read(&volume, last.0.as_bytes()).await.unwrap(), bytes_of(&last.0, 20_000));
    assert_eq!(findings(&store, &blocks).await, []);
    delete(&volume, last.0.as_bytes()).await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!((count_blocks(&blocks).await, records(&*store, space::SHARE).await), (0, 0));
    assert_eq!(counters(&*store).await, BTreeMap::new());
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_member_of_a_pack_costs_one_commit_with_its_share() {
    let (store, _, volume) = world().await;
    put(&volume, "first", 20_000, WriteCondition::None).await.unwrap();
    let names: Vec<String> = (0..9).map(|n| format!("m{n}")).collect();
    let puts = names
        .iter()
        .map(|name| count_round_trips(put(&volume, name, 20_000, WriteCondition::None)));
    for (put, trips) in futures::future::join_all(puts).await {
        put.unwrap();
        assert_eq!(trips, RoundTrips { reads: 0, commits: 1 });
    }
    assert_eq!(records(&*store, space::SHARE).await, 8, "the first of them left alone");
}

#[tokio::test(start_paused = true)]
async fn an_unpublished_body_keeps_no_pack() {
    let (store, blocks, volume) = world().await;
    let objects = ["x", "there", "new"].map(|name| (name.to_owned(), 20_000));
    put_all(&volume, &objects[..2]).await;
    let absent = || WriteCondition::IfAbsent;
    let puts = ["y", "there", "new"].map(|name| put(&volume, name, 20_000, absent()));
    let [_, refused, new] = futures::future::join_all(puts).await.try_into().unwrap();
    refused.unwrap_err();
    new.unwrap();
    let packs = counters(&*store).await;
    assert_eq!(packs.len(), 1, "two left alone, and one with a refused body");
    assert_eq!(records(&*store, space::SHARE).await, 1, "a refused body has none");
    assert_eq!(findings(&store, &blocks).await, []);
    delete(&volume, b"new").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::new());
    assert_eq!(count_blocks(&blocks).await, 3, "x, y and what was there");
}

/// One client: it can read each object that it has put, while others put, delete and collect.
async fn live(
    volume: &Arc<Volume>,
    name: &str,
    random: &mut SmallRng,
) -> BTreeMap<String, Vec<u8>> {
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for _ in 0..12 {
        let any = |random: &mut SmallRng| format!("{name}{}", random.random_range(0..9));
        let known: Vec<String> = model.keys().cloned().collect();
        let pick = |random: &mut SmallRng| {
            (!known.is_empty()).then(|| known[random.random_range(0..known.len())].clone())
        };
        match (random.random_range(0..6), pick(random)) {
            (0, Some(gone)) => {
                delete(volume, gone.as_bytes()).await;
                model.remove(&gone);
            }
            (1, Some(from)) => {
                let to = any(random);
                if to != from {
                    copy(volume, from.as_bytes(), to.as_bytes()).await;
                    model.insert(to, model[&from].clone());
                }
            }
            (2, Some(tagged)) => {
                let tags = vec![("n".to_owned(), random.random_range(0..100).to_string())];
                volume.set_tags("b", tagged.as_bytes(), tags).await.unwrap();
            }
            _ => {
                let count = random.random_range(1..10);
                let mut objects: Vec<(String, usize)> =
                    (0..count).map(|_| (any(random), random.random_range(5_000..60_000))).collect();
                objects.sort();
                objects.dedup_by(|one, other| one.0 == other.0);
                put_all(volume, &objects).await;
                model.extend(objects.into_iter().map(|(name, length)| {
                    let bytes = bytes_of(&name, length);
                    (name, bytes)
                }));
            }
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..4_000))).await;
        for (name, bytes) in &model {
            assert!(read(volume, name.as_bytes()).await.unwrap() == *bytes, "{name} is another");
        }
    }
    model
}

/// Reaps and rewrites again and again.
async fn collect(volume: &MaintainedVolume, random: &mut SmallRng) {
    for _ in 0..25 {
        if random.random_range(0..4) == 0 {
            volume.upkeep.repack_now().await.unwrap();
        } else {
            // One of two reapers may get the error that an owner has changed.
            drop(volume.upkeep.reap_now().await);
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_000))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_gateways_at_once_lose_no_object_and_leave_no_block() {
    for seed in 0..30 {
        let (store, blocks, volume) = world().await;
        let other = open(store.clone(), blocks.clone()).await;
        let mut random = SmallRng::seed_from_u64(seed);
        let takes = Duration::from_millis(random.random_range(0..4));
        store.reading.lock().unwrap().takes = takes;
        if seed % 3 == 0 {
            for space in [space::INODE, space::ORPHAN, space::PENDING] {
                store.inject(Some(space), Fault::LostAnswer);
                store.inject(Some(space), Fault::LostRequest);
            }
        }
        let mut each = |offset: u64| SmallRng::seed_from_u64(seed * 10 + offset);
        let [mut a, mut b, mut c, mut d] = [1, 2, 3, 4].map(&mut each);
        let (mut model, others, (), ()) = futures::join!(
            live(&volume, "a", &mut a),
            live(&other, "b", &mut b),
            collect(&volume, &mut c),
            collect(&other, &mut d),
        );
        model.extend(others);
        for volume in [&volume, &other] {
            volume.upkeep.reap_now().await.unwrap();
            volume.upkeep.repack_now().await.unwrap();
            volume.upkeep.reap_now().await.unwrap();
        }
        assert_eq!(findings(&store, &blocks).await, [], "seed {seed}");
        for (name, bytes) in &model {
            assert!(read(&other, name.as_bytes()).await.unwrap() == *bytes, "{name}, seed {seed}");
            delete(&volume, name.as_bytes()).await;
        }
        other.upkeep.reap_now().await.unwrap();
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(count_blocks(&blocks).await, 0, "seed {seed}");
        assert_eq!(counters(&*store).await, BTreeMap::new(), "seed {seed}");
        assert_eq!(records(&*store, space::SHARE).await, 0, "seed {seed}");
        assert_eq!(findings(&store, &blocks).await, [], "seed {seed}");
    }
}
