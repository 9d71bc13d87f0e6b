//! The same volume after its store was dumped and loaded into another one. All content reads as
//! before.

use std::io::Cursor;
use std::sync::Arc;

use dump::Keystone;
use record::{BucketConfig, BucketConfigKind, Quota, key};
use store::{MemoryStore, MetaStore};
use upkeep::{NoProgress, fsck};
use volume::{BucketChange, Volume};

use super::dice::{BUCKETS, Dice};
use super::{World, views};

const RULES: &[u8] = b"<LifecycleConfiguration/>";

/// Gives each bucket a quota and lifecycle rules.
pub(crate) async fn set(volume: &Volume) {
    for (bucket, bytes) in BUCKETS.iter().zip([1 << 30, 1 << 40]) {
        let quota = Quota { bytes: Some(bytes), objects: Some(1_000) };
        volume.set_bucket(*bucket, BucketChange::Quota(quota)).await.expect("a quota");
        let rules = BucketConfig { bytes: RULES.into() };
        let kind = BucketConfigKind::Lifecycle;
        volume.set_bucket_config(*bucket, kind, Some(&rules)).await.expect("rules");
    }
}

/// Moves the store, and compares all reads with the model and with the original volume.
pub(crate) async fn reads_as_before(world: &World, dice: &mut Dice) {
    let mut bytes = Vec::new();
    dump::dump(&*world.store, b"versions", &mut bytes, &()).await.expect("a dump");
    let target: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let keystone = Keystone::new(key::volume(), [1; 16]);
    dump::load(&*target, &mut Cursor::new(&bytes), &keystone, &()).await.expect("loaded");
    let blocks = Arc::clone(&world.blocks);
    let report = fsck(Arc::clone(&target), blocks.clone(), &NoProgress).await.expect("records");
    assert_eq!(report.findings, []);
    let moved = super::open(&target, &blocks, &world.clock).await;
    for (number, bucket) in BUCKETS.iter().enumerate() {
        views::versions(&moved, &world.model, number, dice).await;
        views::objects(&moved, &world.model, number, dice).await;
        let was = world.volumes[0].bucket_configs(bucket).await.expect("a bucket");
        let is = moved.bucket_configs(bucket).await.expect("a bucket");
        assert_eq!(format!("{was:?}"), format!("{is:?}"));
        assert_eq!(is.quota.objects, Some(1_000), "the quota was not set");
        let rules = is.configs.iter().find(|(kind, _)| *kind == BucketConfigKind::Lifecycle);
        assert!(rules.is_some_and(|(_, rules)| *rules.bytes == *RULES), "no rules were set");
    }
    views::every_version(&moved, &world.model).await;
    moved.close().await;
}
