//! Buckets: answers and costs.

use namespace::{
    BucketChange, DeleteBucket, FindBucket, FindBucketConfig, FindBucketConfigs, FsError,
    MakeBucket, ReadBuckets, SetBucket, SetBucketConfig,
};
use record::{AccountId, Bucket, BucketConfig, BucketConfigKind, Ino, ObjectOwnership, key};
use store::{Key, Write};

use crate::acts::ID;
use crate::listing::put;
use crate::uploads::begin;
use crate::world::{World, cost};

fn names(world: &World, prefix: &[u8], after: Option<&[u8]>, limit: u32) -> Vec<String> {
    let found = world.cold(&ReadBuckets { prefix, after, limit }).0.unwrap();
    found.into_iter().map(|bucket| String::from_utf8(bucket.name).unwrap()).collect()
}

#[test]
fn bucket_is_created_once_and_found() {
    let world = World::empty();
    let ownership = Some(ObjectOwnership::ObjectWriter);
    let settings = Bucket { owner: AccountId::MAIN, ownership, ..Bucket::default() };
    let ino = world.ino();
    let make = MakeBucket {
        name: b"one",
        ino,
        settings: &settings,
        configs: &[],
        owner: (3, 4),
        mode: 0o755,
        versioning: record::Versioning::Off,
    };
    assert_eq!(world.warm(&make), (Ok(()), cost(0, 1)));
    world.audit();
    let again = MakeBucket { ino: world.ino(), ..make };
    assert_eq!(world.warm(&again), (Err(FsError::BucketExists), cost(1, 0)));
    assert_eq!(world.cold(&again), (Err(FsError::BucketExists), cost(1, 1)));

    let find = FindBucket { name: b"one" };
    let (found, spent) = world.warm(&find);
    let found = found.unwrap();
    assert_eq!((found.ino, &found.settings, spent), (ino, &settings, cost(1, 0)));
    assert_eq!((world.cold(&find).0, world.cold(&find).1), (Ok(found), cost(2, 0)));
    assert_eq!(world.cold(&FindBucket { name: b"two" }).0, Err(FsError::NoSuchBucket));

    let set = |change| SetBucket { bucket: b"one".into(), change };
    // A change leaves the other settings alone.
    assert_eq!(world.cold(&set(BucketChange::OpaqueTags(true))), (Ok(()), cost(2, 1)));
    let opaque = Bucket { opaque_tags: true, ..settings.clone() };
    assert_eq!(world.cold(&find).0.unwrap().settings, opaque);
    assert_eq!(world.cold(&set(BucketChange::OpaqueTags(false))).0, Ok(()));
    assert_eq!(world.cold(&find).0.unwrap().settings, settings);
    let absent = SetBucket { bucket: b"two".into(), change: BucketChange::OpaqueTags(true) };
    assert_eq!(world.cold(&absent).0, Err(FsError::NoSuchBucket));
}

#[test]
fn bucket_configuration_is_found_replaced_and_removed() {
    let world = World::new();
    let kind = BucketConfigKind::Tags;
    let find = FindBucketConfig { bucket: b"b".into(), kind };
    let config = |value: &str| BucketConfig::of_tags(&[("k".to_owned(), value.to_owned())]);
    let set = |value: Option<&BucketConfig>| {
        world.warm(&SetBucketConfig {
            bucket: b"b".into(),
            kind,
            value,
            default_retention: None,
            default_encryption: None,
        })
    };
    assert_eq!(world.cold(&find), (Ok(None), cost(2, 0)));
    assert_eq!(world.warm(&find), (Ok(None), cost(1, 0)));
    assert_eq!(set(None), (Ok(()), cost(0, 1)));
    for value in ["v", "w"] {
        assert_eq!(set(Some(&config(value))), (Ok(()), cost(0, 1)));
        assert_eq!(world.warm(&find), (Ok(Some(config(value))), cost(1, 0)));
    }
    // The settings of the bucket stay, and only the version of its configurations changes.
    let settings = Bucket { configs_version: 3, ..Bucket::default() };
    assert_eq!(world.cold(&FindBucket { name: b"b" }).0.unwrap().settings, settings);
    let all = FindBucketConfigs { name: b"b" };
    let (found, trips) = world.warm(&all);
    let found = found.unwrap();
    assert_eq!((found.configs, found.settings), (vec![(kind, config("w"))], settings));
    assert_eq!(trips, cost(1, 0));
    assert_eq!(set(None).0, Ok(()));
    assert_eq!(world.cold(&find).0, Ok(None));

    let (other, value) = (&b"other"[..], &config("v"));
    let absent = SetBucketConfig {
        bucket: other.into(),
        kind,
        value: Some(value),
        default_retention: None,
        default_encryption: None,
    };
    assert_eq!(world.cold(&absent).0, Err(FsError::NoSuchBucket));
    let find = FindBucketConfig { bucket: other.into(), kind };
    assert_eq!(world.cold(&find).0, Err(FsError::NoSuchBucket));
}

/// Also removes a configuration of a kind that only a later release knows.
#[test]
fn removing_a_bucket_removes_all_its_configurations() {
    let world = World::new();
    let keys = [[0_u8], [1], [2], [200], [u8::MAX]];
    let keys = keys.map(|kind| Key::new(key::space::BUCKET_CONFIG, 1_024, &kind));
    let kept = Key::new(key::space::BUCKET_CONFIG, 1_025, &[1]);
    let put = |key: &Key| Write::Put(key.clone(), BucketConfig::of_tags(&[]).encode(key));
    world.make_bucket(b"other");
    world.force(keys.iter().chain([&kept]).map(put).collect());
    assert_eq!(world.cold(&DeleteBucket { bucket: b"b".into() }), (Ok(()), cost(2, 1)));
    let left = world.state().records;
    let left: Vec<&Key> =
        left.keys().filter(|key| key.space() == key::space::BUCKET_CONFIG).collect();
    assert_eq!(left, [&kept]);
    world.audit();
}

#[test]
fn buckets_are_listed_by_name() {
    let world = World::empty();
    for name in ["b", "a-b", "a", "a.c", "ab"] {
        world.make_bucket(name.as_bytes());
    }
    assert_eq!(names(&world, b"", None, 100), ["a", "a-b", "a.c", "ab", "b"]);
    assert_eq!(names(&world, b"", None, 2), ["a", "a-b"]);
    assert_eq!(names(&world, b"", Some(b"a-b"), 2), ["a.c", "ab"]);
    assert_eq!(names(&world, b"a", Some(b"a"), 100), ["a-b", "a.c", "ab"]);
    assert_eq!(names(&world, b"c", None, 100), [""; 0]);
    let (_, spent) = world.cold(&ReadBuckets { prefix: b"", after: None, limit: 100 });
    assert_eq!(spent, cost(2, 0));
}

#[test]
fn only_an_empty_bucket_is_removed() {
    let world = World::new();
    let delete = DeleteBucket { bucket: b"b".into() };
    put(&world, b"a/x");
    assert_eq!(world.warm(&delete), (Err(FsError::BucketNotEmpty), cost(1, 0)));
    let removals = vec![namespace::Removal { name: b"x".to_vec(), condition: None }];
    let branches = [namespace::Branch { directories: vec![b"a".to_vec()], removals }];
    let remove = namespace::Remove { bucket: b"b".into(), branches: &branches };
    world.warm(&remove).0.unwrap();
    // An open upload does not keep the bucket, and neither do hints of a removed bucket.
    begin(&world, b"a/x", ID);
    assert_eq!(world.warm(&delete), (Ok(()), cost(1, 1)));
    world.audit();
    assert_eq!(world.warm(&delete).0, Err(FsError::NoSuchBucket));
    let state = world.state();
    assert!(!state.records.contains_key(&record::key::bucket(Ino(1_024))));
    assert!(state.records.contains_key(&record::key::orphan(Ino(1_024))));
    world.make_bucket(b"b");
    assert_eq!(world.cold(&delete), (Ok(()), cost(2, 1)));
    world.audit();
}
