use std::sync::Arc;

use block::{MemoryBlocks, UncachedReader};
use content::{BlockIds, ByteBudget, Deadlines, Pins, SizeAndLoad, StagedInline, Staging};
use faulty::Faulty;
use namespace::{
    Branch, Lookup, MakeBucket, Path, Publish, Removal, Remove, WriteCondition, add_pack_shares,
};
use record::{Attributes, Bucket, Content, File, Ino, Inode, InodeBody, Slice, Tag, Timestamp};
use session::{Session, SessionOptions};
use store::{Guard, MetaStore, Plan, Value, Verdict, Write};

use super::super::release::{add_release, references};
use super::*;

/// The maintenance of a volume with a bucket.
async fn upkeep(store: &Arc<Faulty>) -> Arc<Upkeep> {
    let blocks: Arc<dyn block::BlockStore> = Arc::new(MemoryBlocks::new());
    let session =
        Session::open(SessionOptions::default(), 65_536, store.clone(), &*blocks).await.unwrap();
    let staging = Arc::new(Staging {
        blocks: Arc::clone(&blocks),
        reader: Arc::new(UncachedReader::new(Arc::clone(&blocks))),
        ids: BlockIds::new(session.nonce()),
        budget: ByteBudget::new(1 << 20),
        tasks: session.tasks().clone(),
        block_bytes: 65_536,
        inline_bytes_max: 16,
        staged_inline: Arc::new(StagedInline::new(SizeAndLoad {
            inline_bytes_max: 16,
            staged_inline_bytes_max: 0,
        })),
        late: Arc::default(),
        pins: Arc::clone(session.epochs()) as Arc<dyn Pins>,
        deadlines: Deadlines::default(),
        traffic: Arc::default(),
    });
    let [bucket] = session.allocate_inodes(1).await.unwrap()[..] else {
        panic!("one was asked for")
    };
    let create = MakeBucket {
        name: b"b",
        ino: bucket,
        settings: &Bucket::default(),
        configs: &[],
        owner: (0, 0),
        mode: 0o755,
        versioning: record::Versioning::Off,
    };
    session.run(&create).await.unwrap();
    Upkeep::new(
        &session,
        &blocks,
        &staging,
        &(Arc::new(keyring::FixedRing::default()) as Arc<dyn keyring::Rings>),
        1 << 20,
        None,
    )
}

async fn publish(upkeep: &Upkeep, name: &str, ino: Ino, slice: Slice) {
    let now = Timestamp::default();
    let inode = Inode {
        attributes: Attributes::new(0o644, 0, 0, now),
        bucket: Ino::ROOT,
        xattrs: Vec::new(),
        body: InodeBody::File(Box::new(File::new(
            u64::from(slice.length),
            Tag::Md5([7; 16]),
            Content::Slices(vec![slice]),
        ))),
    };
    let operation = Publish {
        path: &Path::new(b"b", name.as_bytes()),
        ino,
        fresh: &[],
        inode: &inode,
        condition: &WriteCondition::None,
        assumptions: &[],
        writes: &add_pack_shares(&[slice], ino),
    };
    upkeep.session.run(&operation).await.unwrap();
}

/// Three files that share one pack, each with its inode's record and its reference.
async fn world() -> (Arc<Faulty>, Arc<Upkeep>, Vec<(Value, Reference)>) {
    let store = Faulty::new();
    let upkeep = upkeep(&store).await;
    let inos = upkeep.session.allocate_inodes(3).await.unwrap();
    let pack = upkeep.staging.ids.allocate_pack();
    let mut files = Vec::new();
    for (name, (ino, place)) in ["a", "b", "c"].into_iter().zip(inos.into_iter().zip(0..)) {
        let slice = Slice {
            position: 0,
            block: pack,
            block_length: 3_000,
            block_crc32c: 7,
            offset: place * 1_000,
            length: 1_000,
        };
        publish(&upkeep, name, ino, slice).await;
        let path = Path::new(b"b", name.as_bytes());
        let found = upkeep.session.run(&Lookup { path: &path, version: None }).await.unwrap();
        files.push((found.record, references(&[slice], ino)[0]));
    }
    (store, upkeep, files)
}

async fn delete(upkeep: &Upkeep, name: &str) {
    let removals = vec![Removal { name: name.into(), condition: None }];
    let branches = [Branch { directories: Vec::new(), removals }];
    let removed = upkeep.session.run(&Remove { bucket: b"b".into(), branches: &branches }).await;
    assert!(removed.unwrap()[0].unwrap().existed);
}

/// Copies a file by reference.
async fn copy(upkeep: &Upkeep, from: &str, to: &str) {
    let path = Path::new(b"b", from.as_bytes());
    let found = upkeep.session.run(&Lookup { path: &path, version: None }).await.unwrap();
    let Content::Slices(slices) = &found.inode.file().unwrap().content else {
        panic!("it is in a pack")
    };
    let [ino] = upkeep.session.allocate_inodes(1).await.unwrap()[..] else {
        panic!("one was asked for")
    };
    publish(upkeep, to, ino, slices[0]).await;
}

/// The plan that reaps a file.
fn end((record, reference): &(Value, Reference), owners: &Owners) -> Plan {
    let inode = key::inode(reference.owner);
    let guards = vec![Guard::Equals(inode.clone(), record.clone())];
    let mut plan = Plan { guards, writes: vec![Write::Delete(inode)] };
    add_release(&mut plan, *reference, owners);
    plan
}

/// The plans that reap these files in one pass.
async fn ends(upkeep: &Upkeep, files: &[(Value, Reference)]) -> Vec<Plan> {
    let references: Vec<Reference> = files.iter().map(|(_, reference)| *reference).collect();
    let owners = upkeep.owners(&references).await.unwrap();
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
async fn lone_release_relies_on_an_owner_that_stays() {
    let (store, upkeep, files) = world().await;
    let [first] = &ends(&upkeep, &files[..1]).await[..] else { panic!("one plan") };
    let [second] = &ends(&upkeep, &files[1..2]).await[..] else { panic!("one plan") };
    let [third] = &ends(&upkeep, &files[2..]).await[..] else { panic!("one plan") };
    assert!(![first, second, third].map(takes_the_pack).contains(&true));
    // Each plan relied on the share of another owner.
    assert!(commit(&store, second).await && commit(&store, third).await);
    assert!(!commit(&store, first).await, "no other owner is left");
    let [last] = &ends(&upkeep, &files[..1]).await[..] else { panic!("one plan") };
    assert!(takes_the_pack(last) && commit(&store, last).await);
}

#[tokio::test(start_paused = true)]
async fn last_owner_frees_the_pack_only_after_all_others() {
    for skipped in 0..3 {
        let (store, upkeep, files) = world().await;
        let plans = ends(&upkeep, &files).await;
        assert_eq!(plans.iter().filter(|plan| takes_the_pack(plan)).count(), 1);
        assert!(takes_the_pack(&plans[2]));
        // In their order all plans are committed. If one is refused, the pack stays.
        let mut went = 0;
        for (place, plan) in plans.iter().enumerate() {
            went += usize::from(place != skipped && commit(&store, plan).await);
        }
        assert_eq!(went, [1, 1, 2][skipped], "without {skipped}");
    }
}

#[tokio::test(start_paused = true)]
async fn copy_made_meanwhile_keeps_the_pack() {
    let (store, upkeep, files) = world().await;
    for name in ["a", "b"] {
        delete(&upkeep, name).await;
    }
    upkeep.reap_now().await.unwrap();
    let [last] = &ends(&upkeep, &files[2..]).await[..] else { panic!("one plan") };
    assert!(takes_the_pack(last));
    copy(&upkeep, "c", "copy").await;
    assert!(!commit(&store, last).await);
    let [again] = &ends(&upkeep, &files[2..]).await[..] else { panic!("one plan") };
    assert!(!takes_the_pack(again) && commit(&store, again).await);
}

#[tokio::test(start_paused = true)]
async fn second_release_of_a_share_is_refused() {
    let (store, upkeep, files) = world().await;
    let [first] = &ends(&upkeep, &files[..1]).await[..] else { panic!("one plan") };
    let without_inode = Plan { guards: first.guards[1..].to_vec(), writes: first.writes.clone() };
    assert!(commit(&store, first).await);
    assert!(!commit(&store, &without_inode).await, "the counter would be wrong");
}

#[tokio::test(start_paused = true)]
async fn owner_without_a_share_releases_nothing() {
    let (store, upkeep, files) = world().await;
    let references = [files[0].1];
    let share = key::share(references[0].block, references[0].owner);
    store.commit_now(&[Plan { guards: Vec::new(), writes: vec![Write::Delete(share)] }]).await;
    let owners = upkeep.owners(&references).await.unwrap();
    assert!(!owners[0].has_share);
    let mut plan = Plan::default();
    add_release(&mut plan, references[0], &owners[0]);
    assert_eq!(plan, Plan::default());
}
