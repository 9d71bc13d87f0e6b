//! The same without a gateway: the round trips of a lookup by a volume in this process, over each
//! engine.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use block::MemoryBlocks;
use bytes::Bytes;
use maintained::MaintainedVolume;
use md5::{Digest as _, Md5};
use record::{ObjectHeaders, Tag};
use store::MetaStore;
use store_etcd::{EtcdOptions, EtcdStore};
use store_mysql::{MysqlOptions, MysqlStore};
use store_postgres::{PostgresOptions, PostgresStore};
use store_redis::{RedisOptions, RedisStore};
use store_sqlite::{SqliteOptions, SqliteStore};
use volume::{
    FileOwner, FsError, NewObject, SessionOptions, Volume, VolumeError, VolumeOptions,
    WriteCondition, count_round_trips,
};

use crate::fleet::{BlockKind, Engine, Fleet, on_each_engine};

on_each_engine!(each_unknown_level_is_one_read_and_none_is_read_twice);

/// Number of directories above the key.
const LEVELS: usize = 60;

/// The bucket, each directory, and the name with its inode. A directory whose inode number follows
/// that of the bucket may be read together with the one above it.
const ONE_A_LEVEL: RangeInclusive<u64> = LEVELS as u64..=LEVELS as u64 + 2;

pub(crate) async fn store(engine: Engine, url: Option<&str>, folder: &Path) -> Arc<dyn MetaStore> {
    let url = url.unwrap_or_default();
    match engine {
        Engine::Sqlite => {
            let options = SqliteOptions { exclusive: true, spared: &[] };
            Arc::new(SqliteStore::open(&folder.join("driven.db"), options).await.expect("a store"))
        }
        Engine::Postgres => {
            let options = PostgresOptions::default();
            Arc::new(PostgresStore::open(url, options).await.expect("a store"))
        }
        Engine::Mysql => {
            let options = MysqlOptions::default();
            Arc::new(MysqlStore::open(url, options).await.expect("a store"))
        }
        Engine::Redis => {
            let options = RedisOptions::default();
            Arc::new(RedisStore::open(url, options).await.expect("a store"))
        }
        Engine::Etcd => {
            let options = EtcdOptions::default();
            Arc::new(EtcdStore::open(url, options).await.expect("a store"))
        }
    }
}

/// Opens a volume with an empty cache.
async fn cold(store: &Arc<dyn MetaStore>, blocks: &Arc<MemoryBlocks>) -> MaintainedVolume {
    let options = VolumeOptions {
        session: SessionOptions { authoritative_reads: true, ..SessionOptions::default() },
        ..VolumeOptions::default()
    };
    MaintainedVolume::open_without_tasks(options, None, Arc::clone(store), blocks.clone())
        .await
        .expect("a volume")
}

fn owner() -> FileOwner {
    FileOwner {
        access_key: "someone".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        uid: 7,
        gid: 8,
        umask: 0o022,
    }
}

async fn put(volume: &Volume, key: &str) {
    let content = Bytes::from_static(b"grown");
    let mut writer = volume.writer(None, Some(content.len() as u64));
    writer.write(content.clone()).await.expect("a body");
    let body = writer.finish().await.expect("a body");
    let new = NewObject {
        owner: owner(),
        headers: ObjectHeaders::default(),
        tag: Tag::Md5(Md5::digest(&content).into()),
        sums: Vec::new(),
        encryption: None,
    };
    let put = volume.put("box", key.as_bytes(), body, new, WriteCondition::None).await;
    put.expect("an object");
}

/// Creates the directories one by one, with an object in each, so that no inode number can be
/// predicted.
async fn grow(volume: &Volume) -> String {
    let below = |levels: usize| format!("{}x", "d/".repeat(levels));
    volume.create_bucket("box", &volume::NewBucket::owned_by(&owner())).await.expect("a bucket");
    for levels in 1..=LEVELS {
        put(volume, &below(levels)).await;
    }
    below(LEVELS)
}

async fn costs(store: &Arc<dyn MetaStore>, blocks: &Arc<MemoryBlocks>, key: &str, peer: bool) {
    let volume = cold(store, blocks).await;
    let (found, trips) = count_round_trips(volume.stat("box", key.as_bytes())).await;
    assert_eq!(found.expect("an object").size(), 5);
    assert!(ONE_A_LEVEL.contains(&trips.reads), "cold, with a peer: {peer}, {trips:?}");
    let (found, trips) = count_round_trips(volume.stat("box", key.as_bytes())).await;
    assert_eq!(found.expect("an object").size(), 5);
    // One read for all cached records; none if the volume knows already that it has no peer.
    let most = 1;
    assert!(trips.reads <= most && (!peer || trips.reads == most), "{trips:?}, peer: {peer}");
    volume.close().await;

    let volume = cold(store, blocks).await;
    let (missing, trips) =
        count_round_trips(volume.stat("box", format!("{key}-not").as_bytes())).await;
    assert!(matches!(missing, Err(VolumeError::Fs(FsError::NoSuchKey))), "{missing:?}");
    assert!(ONE_A_LEVEL.contains(&trips.reads), "missing, with a peer: {peer}, {trips:?}");
    volume.close().await;
}

fn each_unknown_level_is_one_read_and_none_is_read_twice(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let store = store(engine, fleet.url(), folder.path()).await;
        let blocks = Arc::new(MemoryBlocks::new());
        let peer = cold(&store, &blocks).await;
        let key = grow(&peer).await;
        costs(&store, &blocks, &key, true).await;
        peer.close().await;
        costs(&store, &blocks, &key, false).await;
        store.close().await;
    });
}
