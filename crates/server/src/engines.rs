//! Opens the stores of the settings. Only this module names the engines.
//!
//! Each engine is a cargo feature, and all are enabled by default. A contributor to one engine can
//! build without the others: `--no-default-features --features sqlite`. For example, that build
//! refuses `postgres://…` with the name of the missing feature.

mod remedy;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{
    BlockError, BlockErrorKind, BlockStore, BucketBlocks, BucketOptions, Encrypting, FolderBlocks,
    MemoryBlocks, Observed, RetryLimits, Retrying,
};
use cache::{Cache, CacheOptions, DISK_TIMEOUT_DEFAULT, DiskOptions};
use keyring::RingKeys;
#[cfg(any(feature = "redis", feature = "sqlite"))]
use record::key::space;
use runtime::Metered;
#[cfg(any(feature = "redis", feature = "sqlite"))]
use store::Space;
use store::{Durability, MemoryStore, MetaStore, StoreError};
#[cfg(feature = "etcd")]
use store_etcd::{EtcdOptions, EtcdStore};
#[cfg(feature = "mysql")]
use store_mysql::{MysqlOptions, MysqlStore};
#[cfg(feature = "postgres")]
use store_postgres::{PostgresOptions, PostgresStore};
#[cfg(feature = "redis")]
use store_redis::{RedisOptions, RedisStore};
#[cfg(feature = "sqlite")]
use store_sqlite::{SqliteOptions, SqliteStore};

use crate::config::{
    BlocksPlace, BucketPlace, DurabilityClass, MetaPlace, OpenSettings, ServerKind, ServerPlace,
    VolumeSettings,
};
use crate::environment::first_secret;
use crate::timed::{CallLatencies, TimedBlocks};
use crate::{presence, private};
use problem::{Cause, Problem};

/// The limit of time of the block store's first response.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// The spaces whose records a full metadata store still accepts, so that deletes continue:
///
/// - sessions: their heartbeats, their idempotency slots, which prove if a plan happened, and the
///   marks of ended sessions;
/// - the next inode number, which is one record;
/// - removed inodes, buckets and references, and blocks that wait for deletion;
/// - completed uploads that still answer a repeated request;
/// - the epoch and holds, with which sessions report reads in progress and for which the deletion
///   of blocks waits;
/// - locks, because programs must be able to release files;
/// - bucket configurations: lifecycle rules, and the positions of their passes.
#[cfg(any(feature = "redis", feature = "sqlite"))]
const SPARED: [Space; 14] = [
    space::SESSION,
    space::HEARTBEAT,
    space::FENCED,
    space::IDEMPOTENCY_SLOT,
    space::EPOCH,
    space::LEASE,
    space::ORPHAN,
    space::PENDING,
    space::EXPIRY,
    space::HOLD,
    space::LOCKS,
    space::LOCK_KEEPING,
    space::SWEPT,
    space::BUCKET_CONFIG,
];

/// The use of a metadata store. It decides whether other processes may open it at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// By a gateway or a mount. SQLite is opened exclusively.
    Serve,
    /// By a command. A gateway may be running.
    Administer,
}

/// Opens the metadata store of the settings for the use `purpose`. Creates its file or its tables
/// if they do not exist.
pub(crate) async fn meta(
    settings: &VolumeSettings,
    purpose: Use,
) -> Result<Arc<dyn MetaStore>, Problem> {
    let place = &settings.meta;
    if let Some(feature) = missing_feature(place) {
        return Err(Problem::new(
            format!("open the metadata store {place}"),
            feature_error(feature),
        )
        .remedy("build Ashlar with this feature, which is one of the default features"));
    }
    match place {
        MetaPlace::Memory => Ok(Arc::new(MemoryStore::new())),
        MetaPlace::Sqlite(path) => {
            let opened = open_sqlite(path, purpose).await;
            opened.map_err(|error| {
                let remedy = remedy::of_file(&error);
                let is_held = error.to_string().contains("another process serves it");
                let cause = if is_held { Cause::Unavailable } else { Cause::Other };
                let doing = format!("open the metadata store {place}");
                Problem::new(doing, error).remedy_if(remedy).because(cause)
            })
        }
        MetaPlace::Server(server) => {
            let (url, relaxed) = server_url(settings, server)?;
            let opened = open_server(server.kind, &url, relaxed).await;
            opened.map_err(|error| not_opened(place, error))
        }
    }
}

/// Returns true if the metadata store exists, that is, its file or its tables, with or without a
/// volume. Also returns true for a store in memory, and for an engine that this program was built
/// without, because opening that fails with a better error. Creates nothing, unlike [`meta`], which
/// creates a file or tables.
pub(crate) async fn is_made(settings: &VolumeSettings) -> Result<bool, Problem> {
    let place = &settings.meta;
    match place {
        MetaPlace::Memory => Ok(true),
        MetaPlace::Sqlite(path) => presence::is_present(path),
        // Opening it fails with the name of the feature.
        MetaPlace::Server(_) if missing_feature(place).is_some() => Ok(true),
        MetaPlace::Server(server) => {
            let (url, relaxed) = server_url(settings, server)?;
            let found = is_server_made(server.kind, &url, relaxed).await;
            found.map_err(|error| not_opened(place, error))
        }
    }
}

/// Returns the URL of a database server with its password, and true if a crash of the server may
/// lose acknowledged commits.
fn server_url(settings: &VolumeSettings, server: &ServerPlace) -> Result<(String, bool), Problem> {
    let relaxed = settings.metadata_durability == DurabilityClass::Relaxed;
    let password = first_secret(&["ASHLAR_META_PASSWORD"])?;
    let url = server.url(password.as_ref().map(identity::Secret::expose));
    let doing = || format!("open the metadata store {}", settings.meta);
    Ok((url.map_err(|wrong| Problem::new(doing(), wrong))?, relaxed))
}

/// Returns the problem of a database server that cannot be opened, with its remedy.
fn not_opened(place: &MetaPlace, error: StoreError) -> Problem {
    let (remedy, cause) = (remedy::of_server(&error), remedy::cause_of_server(&error));
    let doing = format!("open the metadata store {place}");
    Problem::new(doing, error).remedy_if(remedy).because(cause)
}

/// The table of engines that are database servers: the store of each with its options. `$use` is
/// evaluated for the engine of `$kind`; `$store` and `$options` name the type and the value in it.
/// An engine that this program was built without fails with `Unavailable`.
macro_rules! with_server_engine {
    ($kind:expr, $relaxed:expr, ($store:ident, $options:ident) => $use:expr) => {
        match $kind {
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => {
                use PostgresStore as $store;
                let $options = PostgresOptions { relaxed: $relaxed, ..PostgresOptions::default() };
                $use
            }
            #[cfg(not(feature = "postgres"))]
            ServerKind::Postgres => Err(feature_error("postgres")),
            #[cfg(feature = "mysql")]
            ServerKind::Mysql => {
                use MysqlStore as $store;
                let $options = MysqlOptions { relaxed: $relaxed, ..MysqlOptions::default() };
                $use
            }
            #[cfg(not(feature = "mysql"))]
            ServerKind::Mysql => Err(feature_error("mysql")),
            #[cfg(feature = "redis")]
            ServerKind::Redis => {
                use RedisStore as $store;
                let spared = SPARED.to_vec();
                let $options =
                    RedisOptions { relaxed: $relaxed, spared, ..RedisOptions::default() };
                $use
            }
            #[cfg(not(feature = "redis"))]
            ServerKind::Redis => Err(feature_error("redis")),
            // No setting of a member that it reports may lose acknowledged commits.
            #[cfg(feature = "etcd")]
            ServerKind::Etcd => {
                use EtcdStore as $store;
                let $options = EtcdOptions::default();
                $use
            }
            #[cfg(not(feature = "etcd"))]
            ServerKind::Etcd => Err(feature_error("etcd")),
        }
    };
}

/// Returns true if the database of the server has the tables of a volume. Creates nothing.
async fn is_server_made(kind: ServerKind, url: &str, relaxed: bool) -> Result<bool, StoreError> {
    #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd")))]
    let _ = (url, relaxed);
    with_server_engine!(kind, relaxed, (Store, options) => Store::is_made(url, &options).await)
}

/// Opens the store in a database server. With `relaxed`, a crash of the server may lose
/// acknowledged commits.
async fn open_server(
    kind: ServerKind,
    url: &str,
    relaxed: bool,
) -> Result<Arc<dyn MetaStore>, StoreError> {
    #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd")))]
    let _ = (url, relaxed);
    with_server_engine!(kind, relaxed, (Store, options) => {
        let store: Arc<dyn MetaStore> = Arc::new(Store::open(url, options).await?);
        Ok(store)
    })
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: &Path, purpose: Use) -> Result<Arc<dyn MetaStore>, StoreError> {
    // A process that serves needs the file for itself. A command shares it with that process.
    let options = SqliteOptions { exclusive: purpose == Use::Serve, spared: &SPARED };
    Ok(Arc::new(SqliteStore::open(path, options).await?))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &Path, _: Use) -> Result<Arc<dyn MetaStore>, StoreError> {
    Err(feature_error("sqlite"))
}

/// Returns the feature that a metadata store needs and this program was built without.
fn missing_feature(place: &MetaPlace) -> Option<&'static str> {
    let (feature, is_built) = match place {
        MetaPlace::Memory => return None,
        MetaPlace::Sqlite(_) => ("sqlite", cfg!(feature = "sqlite")),
        MetaPlace::Server(server) => match server.kind {
            ServerKind::Postgres => ("postgres", cfg!(feature = "postgres")),
            ServerKind::Mysql => ("mysql", cfg!(feature = "mysql")),
            ServerKind::Redis => ("redis", cfg!(feature = "redis")),
            ServerKind::Etcd => ("etcd", cfg!(feature = "etcd")),
        },
    };
    (!is_built).then_some(feature)
}

/// Returns the error of an engine that this program was built without.
fn feature_error(feature: &str) -> StoreError {
    let why = format!("this program was built without the feature {feature}");
    StoreError::new(store::StoreErrorKind::Unavailable, why)
}

/// Returns the current durability of the metadata store as a word. A server's settings can change
/// while a gateway runs.
pub(crate) fn durability(meta: &dyn MetaStore) -> &'static str {
    match meta.durability() {
        Durability::None => "none",
        Durability::Relaxed => "relaxed",
        Durability::Strict => "strict",
    }
}

/// A block store, with its counters and the number of repeated requests.
pub(crate) struct Blocks {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) meters: Arc<dyn Metered>,
    pub(crate) latencies: CallLatencies,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Opens the block store, and probes that blocks can be read and written. Secret blocks are
/// encrypted under these ring keys.
pub(crate) async fn blocks(
    place: &BlocksPlace,
    seed: u64,
    keys: Arc<dyn RingKeys>,
) -> Result<Blocks, Problem> {
    let doing = || format!("use the block store {place}");
    let problem = |error: block::BlockError| {
        let remedy = remedy::of_blocks(place, &error);
        let cause = if error.kind() == BlockErrorKind::Unavailable {
            Cause::Unavailable
        } else if error.kind() == BlockErrorKind::Refused {
            // Wrong keys, no such bucket, not a folder: another start fails in the same way.
            Cause::Settings
        } else {
            Cause::Other
        };
        Problem::new(doing(), error).remedy_if(remedy).because(cause)
    };
    let opened = match place {
        BlocksPlace::Memory => layered(Encrypting::new(MemoryBlocks::new(), keys), seed).await,
        BlocksPlace::Folder(path) => {
            let folder = FolderBlocks::open(path).await.map_err(problem)?;
            // After the open, which creates the directory.
            private::folder(path, FolderBlocks::is_valid_name)?;
            layered(Encrypting::new(folder, keys), seed).await
        }
        BlocksPlace::Bucket(bucket) => {
            let options = bucket_options(bucket)?;
            let bucket = BucketBlocks::connect(options).map_err(problem)?;
            layered(Encrypting::new(bucket, keys), seed).await
        }
    };
    opened.map_err(problem)
}

/// Probes a block store without retries, so that a wrong URL or directory fails at once. Then adds
/// the layers that count requests and repeat failed ones.
async fn layered<B: BlockStore>(place: B, seed: u64) -> Result<Blocks, BlockError> {
    match tokio::time::timeout(PROBE_TIMEOUT, place.probe()).await {
        // A full store is usable: reads and deletes need no space, and deletes free some.
        Ok(Err(error)) if error.kind() == BlockErrorKind::Full => {
            tracing::warn!(%error, "the block store is full: writes fail; add space");
        }
        Ok(probed) => probed?,
        Err(_) => {
            let doing = format!("waiting {} seconds for a response", PROBE_TIMEOUT.as_secs());
            return Err(BlockError::new(BlockErrorKind::Unavailable, doing));
        }
    }
    // The counters are below the retries, so that each attempt counts as a request.
    let (timed, latencies) = TimedBlocks::over(place);
    let store = Arc::new(Retrying::new(Observed::new(timed), RetryLimits::default(), seed));
    Ok(Blocks { meters: Arc::clone(&store) as Arc<dyn Metered>, store, latencies })
}

/// Opens the block cache, which keeps blocks in memory and on a local disk. Returns `None` if its
/// memory and its disk are both 0.
pub(crate) async fn cache(
    settings: &VolumeSettings,
    open: &OpenSettings,
    blocks: &Blocks,
) -> Result<Option<Arc<Cache<Arc<dyn BlockStore>>>>, Problem> {
    let (memory_bytes, bytes) = (open.cache_memory.0, open.cache_disk.0);
    if memory_bytes == 0 && bytes == 0 {
        return Ok(None);
    }
    let dir = open.cache_dir.clone().unwrap_or_else(|| settings.data_dir.join("cache"));
    let timeout = DISK_TIMEOUT_DEFAULT;
    let disk = (bytes > 0).then(|| DiskOptions { dir: dir.clone(), bytes, timeout });
    let opened = Cache::open(Arc::clone(&blocks.store), CacheOptions { memory_bytes, disk }).await;
    let cache = opened.map_err(|error| Problem::new("open the block cache", error))?;
    // The cache works without its disk if that cannot be used, and then the directory may not
    // exist.
    if cache.has_disk() {
        private::folder(&dir, |name| name == "lock" || name.starts_with("pages-"))?;
    }
    Ok(Some(Arc::new(cache)))
}

/// Returns the options of a bucket, with its credentials from the environment.
fn bucket_options(place: &BucketPlace) -> Result<BucketOptions, Problem> {
    let missing = |name: &str| {
        Problem::new(format!("use the bucket {:?}", place.bucket), format!("{name} is not set"))
            .remedy(
                "set ASHLAR_BLOCKS_ACCESS_KEY and ASHLAR_BLOCKS_SECRET_KEY, or the AWS variables",
            )
            .because(Cause::Settings)
    };
    let access_key = first_secret(&["ASHLAR_BLOCKS_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])?
        .ok_or_else(|| missing("ASHLAR_BLOCKS_ACCESS_KEY"))?;
    let secret_key = first_secret(&["ASHLAR_BLOCKS_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"])?
        .ok_or_else(|| missing("ASHLAR_BLOCKS_SECRET_KEY"))?;
    Ok(BucketOptions {
        endpoint: place.endpoint.clone(),
        region: place.region.clone(),
        prefix: place.prefix.clone(),
        // AWS expects the bucket in the host name. Other endpoints often have no host names for
        // buckets.
        path_style: place.endpoint.is_some(),
        ..BucketOptions::new(
            &place.bucket,
            access_key.expose(),
            block::SecretKey::new(secret_key.expose()),
        )
    })
}
