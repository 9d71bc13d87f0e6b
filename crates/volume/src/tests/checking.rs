//! fsck finds each kind of damage, and reports no false finding.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockStore, MemoryBlocks, Sealer};
use bytes::Bytes;
use faulty::{Faulty, get};
use namespace::WriteCondition;
use record::key::{self, CounterKind, space};
use record::{
    BlockId, BucketConfig, BucketConfigKind, Dentry, Expiry, Ino, Mark, Nonce, SortKey, Tag,
};
use store::{Key, MetaStore, Plan, Value, Write};
use upkeep::{Finding, NoProgress, Report, SweepOptions, fsck};

use super::reaping::{copy, delete, finished, part, put, records, upload};
use super::{MaintainedVolume, make_bucket, open, publish};
use crate::{CompletePart, CompleteUpload, ObjectMode, VolumeError, VolumeOptions};

async fn check(store: &Arc<Faulty>, blocks: &Arc<MemoryBlocks>) -> Report {
    fsck(store.clone(), blocks.clone(), &NoProgress).await.unwrap()
}

/// Returns a volume with files, copies, uploads and configurations of each kind.
async fn furnished() -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume, Ino) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 1_024, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    let bucket = make_bucket(&volume).await;
    volume.set_bucket_tags("b", &[("team".to_owned(), "a".to_owned())]).await.unwrap();
    publish(&volume, b"inline", 5).await.unwrap();
    publish(&volume, b"a/b/c", 10_000).await.unwrap();
    publish(&volume, b"a/b", 10_000).await.unwrap();
    put(&volume, b"pages", 100_000).await;
    copy(&volume, b"pages", b"a/copy").await;
    publish(&volume, b"gone/soon", 10_000).await.unwrap();
    let id = upload(&volume, b"multi").await;
    part(&volume, b"multi", id, 1).await;
    part(&volume, b"multi", id, 1).await;
    let open_id = upload(&volume, b"open").await;
    part(&volume, b"open", open_id, 3).await;
    let source = volume.stat("b", b"pages").await.unwrap();
    volume
        .copy_part("b", b"open", open_id, 4, &ObjectMode::default(), &source, 500..70_000, None)
        .await
        .unwrap();
    let given_up = upload(&volume, b"given/up").await;
    part(&volume, b"given/up", given_up, 1).await;
    let parts = [CompletePart { number: 1, tag: Tag::Md5([9; 16]), sums: Vec::new() }];
    let wanted =
        CompleteUpload { parts: &parts, object_size: None, condition: WriteCondition::None };
    let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 1)));
    volume.complete("b", b"multi", id, wanted, finish).await.unwrap();
    (store, blocks, volume, bucket)
}

#[tokio::test(start_paused = true)]
async fn a_healthy_volume_has_no_findings_at_any_stage() {
    let (store, blocks, volume, _) = furnished().await;
    let report = check(&store, &blocks).await;
    assert_eq!(report.findings, []);
    assert_eq!(report.counts.files, 7);
    assert_eq!(report.counts.directories, 5);
    publish(&volume, b"a/b", 20_000).await.unwrap();
    delete(&volume, b"gone/soon").await;
    delete(&volume, b"pages").await;
    assert_eq!(check(&store, &blocks).await.findings, [], "with orphans");
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(check(&store, &blocks).await.findings, [], "reaped");
    volume.close().await;
    assert_eq!(check(&store, &blocks).await.findings, [], "closed");
    drop(volume);
    let volume = open(store.clone(), blocks.clone()).await;
    volume.upkeep.gc(SweepOptions::default()).await.unwrap();
    assert_eq!(check(&store, &blocks).await.findings, [], "collected");
    let names = [&b"inline"[..], b"a/b/c", b"a/b", b"a/copy", b"multi"];
    for name in names {
        delete(&volume, name).await;
    }
    volume.delete_bucket("b").await.unwrap();
    assert_eq!(check(&store, &blocks).await.findings, [], "a bucket on its way out");
    volume.upkeep.reap_now().await.unwrap();
    let report = check(&store, &blocks).await;
    assert_eq!(report.findings, []);
    assert_eq!((report.counts.files, report.counts.blocks), (0, 0), "and nothing is left");
}

/// Damages a furnished volume and checks it.
async fn findings_after(damage: impl AsyncFnOnce(&Faulty, &MemoryBlocks, Ino)) -> Vec<Finding> {
    findings_after_reaping(false, damage).await
}

/// Damages a furnished volume and checks it. If `reaped`, the reaper runs before the damage.
async fn findings_after_reaping(
    reaped: bool,
    damage: impl AsyncFnOnce(&Faulty, &MemoryBlocks, Ino),
) -> Vec<Finding> {
    let (store, blocks, volume, bucket) = furnished().await;
    if reaped {
        volume.upkeep.reap_now().await.unwrap();
    }
    volume.close().await;
    damage(&store, &blocks, bucket).await;
    let report = check(&store, &blocks).await;
    for finding in &report.findings {
        assert!(!finding.to_string().is_empty());
    }
    report.findings
}

async fn write(store: &Faulty, write: Write) {
    let verdicts = store.commit(&[Plan { guards: Vec::new(), writes: vec![write] }]).await;
    assert_eq!(verdicts.unwrap(), [store::Verdict::Committed]);
}

async fn first(store: &Faulty, space: store::Space) -> (Key, Value) {
    store.walk(space, None, 10).await.unwrap().records.swap_remove(0)
}

async fn bound(store: &Faulty, bucket: Ino, name: &[u8]) -> (Key, Ino) {
    let key = key::dentry(bucket, SortKey::file(name).as_bytes());
    let value = get(store, &key).await.unwrap();
    let ino = Dentry::decode(&key, &value).unwrap().ino;
    (key, ino)
}

#[tokio::test(start_paused = true)]
async fn damaged_records_are_found() {
    let flipped = findings_after(async |store, _, _| {
        let (key, value) = first(store, space::UPLOAD).await;
        let mut bytes = value.to_vec();
        bytes[3] ^= 1;
        write(store, Write::Put(key, Bytes::from(bytes))).await;
    });
    assert!(flipped.await.iter().any(|f| matches!(f, Finding::Undecodable(..))));
    let lost_inode = findings_after(async |store, _, bucket| {
        let (_, ino) = bound(store, bucket, b"inline").await;
        write(store, Write::Delete(key::inode(ino))).await;
    });
    assert!(lost_inode.await.iter().any(|f| matches!(f, Finding::Dangling(..))));
    let lost_name = findings_after(async |store, _, bucket| {
        let (name, _) = bound(store, bucket, b"inline").await;
        write(store, Write::Delete(name)).await;
    });
    let lost_name = lost_name.await;
    assert!(lost_name.iter().any(|f| matches!(f, Finding::Nameless(_))));
    assert_eq!(lost_name.iter().filter(|f| matches!(f, Finding::Counter { .. })).count(), 2);
    let second_name = findings_after(async |store, _, bucket| {
        let (_, ino) = bound(store, bucket, b"inline").await;
        let key = key::dentry(bucket, b"second");
        write(store, Write::Put(key.clone(), Dentry::file(ino).encode(&key))).await;
    });
    assert!(second_name.await.iter().any(|f| matches!(f, Finding::Links { found: 2, .. })));
    let wrong_length = findings_after(async |store, _, bucket| {
        let (name, ino) = bound(store, bucket, b"inline").await;
        let dentry = Dentry { self_contained: Some(1_000_000), ..Dentry::file(ino) };
        write(store, Write::Put(name.clone(), dentry.encode(&name))).await;
    });
    assert!(matches!(wrong_length.await[..], [Finding::NotSelfContained(..)]));
    let lost_page = findings_after(async |store, _, _| {
        let (page, _) = first(store, space::MAP).await;
        write(store, Write::Delete(page)).await;
    });
    assert!(lost_page.await.iter().any(|f| matches!(f, Finding::MissingPage(..))));
    let settings = findings_after(async |store, _, bucket| {
        write(store, Write::Delete(key::bucket(bucket))).await;
    });
    assert!(settings.await.iter().any(|f| matches!(f, Finding::Bucket(_))));
}

#[tokio::test(start_paused = true)]
async fn damaged_configurations_of_buckets_are_found() {
    let tags = BucketConfig::of_tags(&[]);
    let kept = findings_after(async |store, _, bucket| {
        let key = key::bucket_config(bucket, BucketConfigKind::Tags);
        assert!(get(store, &key).await.is_some(), "the volume has one");
    });
    assert_eq!(kept.await, []);
    let key = key::bucket_config(Ino(999_999), BucketConfigKind::Tags);
    let stray = findings_after(async |store, _, _| {
        write(store, Write::Put(key.clone(), tags.encode(&key))).await;
    });
    assert_eq!(stray.await, [Finding::StrayBucketConfig(key)]);
    let wrong = findings_after(async |store, _, bucket| {
        let key = key::bucket_config(bucket, BucketConfigKind::Tags);
        let none = BucketConfig { bytes: Bytes::from_static(b"\x05tags") };
        write(store, Write::Put(key.clone(), none.encode(&key))).await;
    });
    assert!(matches!(&wrong.await[..], [Finding::Undecodable(..)]));
    let newer = findings_after(async |store, _, bucket| {
        let key = Key::new(space::BUCKET_CONFIG, bucket.0, &[u8::MAX]);
        write(store, Write::Put(key.clone(), tags.encode(&key))).await;
    });
    assert!(matches!(&newer.await[..], [Finding::Undecodable(_, why)] if why.contains("255")));
}

#[tokio::test(start_paused = true)]
async fn damaged_ownership_is_found() {
    let unshared = findings_after(async |store, _, _| {
        let (share, _) = first(store, space::SHARE).await;
        write(store, Write::Delete(share)).await;
    });
    assert!(unshared.await.iter().any(|f| matches!(f, Finding::Unshared(..))));
    let stray = findings_after(async |store, _, _| {
        let key = key::share(BlockId([7; 16]), Ino(5));
        write(store, Write::Put(key.clone(), Mark.encode(&key))).await;
    });
    assert_eq!(stray.await, [Finding::StrayShare(BlockId([7; 16]), Ino(5))]);
    let upload = findings_after(async |store, _, _| {
        let (orphan, _) = first(store, space::ORPHAN).await;
        write(store, Write::Delete(orphan)).await;
    });
    assert!(upload.await.iter().any(|f| matches!(f, Finding::StrayUpload(_))));
    let counter = findings_after(async |store, _, bucket| {
        write(store, Write::Add(key::counter(bucket, CounterKind::Bytes), 1)).await;
    });
    assert!(matches!(counter.await[..], [Finding::Counter { what: "bytes", .. }]));
    let token = findings_after(async |store, _, _| {
        let key = key::fenced(Nonce([4; 10]));
        write(store, Write::Put(key.clone(), Mark.encode(&key))).await;
        let key = key::heartbeat(Nonce([5; 10]));
        let beat =
            record::HeartbeatRecord { count: 1, passed: 1, reads: String::new() }.encode(&key);
        write(store, Write::Put(key.clone(), beat)).await;
    });
    assert!(matches!(token.await[..], [Finding::StraySession(..)]));
}

#[tokio::test(start_paused = true)]
async fn damaged_records_of_ended_uploads_are_found() {
    let forgotten = findings_after_reaping(true, async |store, _, _| {
        let (expiry, _) = first(store, space::EXPIRY).await;
        write(store, Write::Delete(expiry)).await;
    });
    assert!(matches!(forgotten.await[..], [Finding::StrayUpload(_)]));
    let nameless = findings_after_reaping(true, async |store, _, _| {
        let (key, value) = first(store, space::EXPIRY).await;
        let Expiry { upload } = Expiry::decode(&key, &value).unwrap();
        write(store, Write::Delete(Key::from_bytes(upload))).await;
    });
    assert!(nameless.await.iter().any(|f| matches!(f, Finding::StrayExpiry(_))));
}

#[tokio::test(start_paused = true)]
async fn damaged_blocks_are_found() {
    let missing = findings_after(async |_, blocks, _| {
        let session = blocks.sessions().await.unwrap()[0];
        let page = blocks.list(session, None).await.unwrap();
        blocks.delete(page.blocks[0].0).await.unwrap();
    });
    assert!(matches!(missing.await[..], [Finding::MissingBlock(..)]));
    let leaked = findings_after(async |_, blocks, _| {
        let mut sealer = Sealer::new(BlockId::new(Nonce([9; 10]), 1), 10);
        sealer.push_copy(b"leaked");
        blocks.put(&sealer.finish()).await.unwrap();
    });
    assert_eq!(leaked.await, [Finding::Leaked(BlockId::new(Nonce([9; 10]), 1))]);
    let short = findings_after(async |_, blocks, _| {
        let session = blocks.sessions().await.unwrap()[0];
        let id = blocks.list(session, None).await.unwrap().blocks[0].0;
        blocks.delete(id).await.unwrap();
        let mut sealer = Sealer::new(id, 10);
        sealer.push_copy(b"short");
        blocks.put(&sealer.finish()).await.unwrap();
    });
    assert!(matches!(short.await[..], [Finding::BlockSize { .. }]));
}

#[tokio::test(start_paused = true)]
async fn fsck_beside_a_busy_gateway_reports_no_false_finding() {
    let (store, blocks, volume, _) = furnished().await;
    let busy = async {
        for round in 0..400_u32 {
            let name = format!("busy/{}/{}", round % 7, round % 5);
            publish(&volume, name.as_bytes(), 3_000).await.unwrap();
            copy(&volume, name.as_bytes(), b"busy/copy").await;
            if round % 3 == 0 {
                delete(&volume, name.as_bytes()).await;
            }
            if round % 20 == 0 {
                volume.upkeep.reap_now().await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    let mut checks = 0;
    let mut busy = std::pin::pin!(busy);
    loop {
        tokio::select! {
            () = &mut busy => break,
            report = check(&store, &blocks) => assert_eq!(report.findings, []),
        }
        checks += 1;
    }
    assert!(checks >= 3, "the gateway was busy during {checks} checks");
    assert!(records(&*store, space::SHARE).await > 0);
    volume.close().await;
    assert_eq!(check(&store, &blocks).await.findings, []);
}
