//! Opens the stores that the settings name. This is the only code that names engines.
//!
//! Each engine is a cargo feature, and all are on by default. A contributor who works on one engine
//! can build without the others: `--no-default-features --features sqlite`.

mod remedy;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{
    BlockCounters, BlockError, BlockErrorKind, BlockStore, BucketBlocks, BucketOptions,
    FolderBlocks, MemoryBlocks, Observed, RetryLimits, Retrying,
};
use cache::{Cache, CacheOptions, DISK_TIMEOUT_DEFAULT, DiskOptions};
#[cfg(any(feature = "redis", feature = "sqlite"))]
use record::key::space;
#[cfg(any(feature = "redis", feature = "sqlite"))]
use store::Space;
use store::{Durability, MemoryStore, MetaStore, StoreError};
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
use crate::private;
use crate::problem::Problem;

/// How long a start waits for the block store's first response.
const PROBE_WAIT: Duration = Duration::from_secs(15);

/// Spaces whose records a metadata store still accepts when its memory or its disk is full, so that deletion
/// keeps working: the records that a session needs to live and to commit, those of names and
/// uploads that were deleted, until their blocks are gone, those that the deletion of blocks
/// waits for, locks, without which programs do not let go of what they work on, and the settings of
/// buckets: lifecycle rules and the position of their passes.
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

/// Whether other processes may use the metadata store at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// By a gateway. Where the engine serves one process, this one.
    Serve,
    /// By a command, while a gateway may be running.
    Administer,
}

/// Opens the metadata store.
pub(crate) async fn meta(
    settings: &VolumeSettings,
    purpose: Use,
) -> Result<Arc<dyn MetaStore>, Problem> {
    let place = &settings.meta;
    if let Some(feature) = missing_feature(place) {
        return Err(Problem::new(format!("open the metadata store {place}"), left_out(feature))
            .remedy("build Ashlar with this feature, which the default features include"));
    }
    match place {
        MetaPlace::Memory => Ok(Arc::new(MemoryStore::new())),
        MetaPlace::Sqlite(path) => {
            let opened = open_sqlite(path, purpose).await;
            opened.map_err(|error| {
                let remedy = remedy::of_file(&error);
                Problem::new(format!("open the metadata store {place}"), error).remedy_if(remedy)
            })
        }
        MetaPlace::Server(server) => {
            let (url, relaxed) = server_url(settings, server)?;
            let opened = open_server(server.kind, &url, relaxed).await;
            opened.map_err(|error| not_opened(place, error))
        }
    }
}

/// Returns true if the metadata store exists, whether or not it holds a volume. Makes nothing, where
/// [`meta`] would make a file or tables.
pub(crate) async fn is_made(settings: &VolumeSettings) -> Result<bool, Problem> {
    let place = &settings.meta;
    match place {
        MetaPlace::Memory => Ok(true),
        MetaPlace::Sqlite(path) => Ok(path.exists()),
        // Opening it says that it cannot be.
        MetaPlace::Server(_) if missing_feature(place).is_some() => Ok(true),
        MetaPlace::Server(server) => {
            let (url, relaxed) = server_url(settings, server)?;
            let found = is_server_made(server.kind, &url, relaxed).await;
            found.map_err(|error| not_opened(place, error))
        }
    }
}

/// Returns the URL of a database server with its password, and whether a crash of the server may lose
/// what it has acknowledged.
fn server_url(settings: &VolumeSettings, server: &ServerPlace) -> Result<(String, bool), Problem> {
    let relaxed = settings.metadata_durability == DurabilityClass::Relaxed;
    let password = first_secret(&["ASHLAR_META_PASSWORD"])?;
    let url = server.url(password.as_ref().map(gateway::access::Secret::expose));
    let doing = || format!("open the metadata store {}", settings.meta);
    Ok((url.map_err(|wrong| Problem::new(doing(), wrong))?, relaxed))
}

fn not_opened(place: &MetaPlace, error: StoreError) -> Problem {
    let remedy = remedy::of_server(&error);
    Problem::new(format!("open the metadata store {place}"), error).remedy_if(remedy)
}

async fn is_server_made(kind: ServerKind, url: &str, relaxed: bool) -> Result<bool, StoreError> {
    #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "redis")))]
    let _ = (url, relaxed);
    match kind {
        #[cfg(feature = "postgres")]
        ServerKind::Postgres => {
            let options = PostgresOptions { relaxed, ..PostgresOptions::default() };
            PostgresStore::is_made(url, &options).await
        }
        #[cfg(not(feature = "postgres"))]
        ServerKind::Postgres => Err(left_out("postgres")),
        #[cfg(feature = "mysql")]
        ServerKind::Mysql => {
            let options = MysqlOptions { relaxed, ..MysqlOptions::default() };
            MysqlStore::is_made(url, &options).await
        }
        #[cfg(not(feature = "mysql"))]
        ServerKind::Mysql => Err(left_out("mysql")),
        #[cfg(feature = "redis")]
        ServerKind::Redis => {
            let options = RedisOptions { relaxed, ..RedisOptions::default() };
            RedisStore::is_made(url, &options).await
        }
        #[cfg(not(feature = "redis"))]
        ServerKind::Redis => Err(left_out("redis")),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: &Path, purpose: Use) -> Result<Arc<dyn MetaStore>, StoreError> {
    let options = SqliteOptions { exclusive: purpose == Use::Serve, spared: &SPARED };
    Ok(Arc::new(SqliteStore::open(path, options).await?))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &Path, _: Use) -> Result<Arc<dyn MetaStore>, StoreError> {
    Err(left_out("sqlite"))
}

/// Opens the store in a database server. With `relaxed`, a crash of the server may lose what it has
/// acknowledged.
async fn open_server(
    kind: ServerKind,
    url: &str,
    relaxed: bool,
) -> Result<Arc<dyn MetaStore>, StoreError> {
    #[cfg(not(any(feature = "postgres", feature = "mysql", feature = "redis")))]
    let _ = (url, relaxed);
    match kind {
        #[cfg(feature = "postgres")]
        ServerKind::Postgres => {
            let options = PostgresOptions { relaxed, ..PostgresOptions::default() };
            Ok(Arc::new(PostgresStore::open(url, options).await?))
        }
        #[cfg(not(feature = "postgres"))]
        ServerKind::Postgres => Err(left_out("postgres")),
        #[cfg(feature = "mysql")]
        ServerKind::Mysql => {
            let options = MysqlOptions { relaxed, ..MysqlOptions::default() };
            Ok(Arc::new(MysqlStore::open(url, options).await?))
        }
        #[cfg(not(feature = "mysql"))]
        ServerKind::Mysql => Err(left_out("mysql")),
        #[cfg(feature = "redis")]
        ServerKind::Redis => {
            let options =
                RedisOptions { relaxed, spared: SPARED.to_vec(), ..RedisOptions::default() };
            Ok(Arc::new(RedisStore::open(url, options).await?))
        }
        #[cfg(not(feature = "redis"))]
        ServerKind::Redis => Err(left_out("redis")),
    }
}

/// The feature that this program would need for a metadata store, if it was built without it.
fn missing_feature(place: &MetaPlace) -> Option<&'static str> {
    let (feature, is_built) = match place {
        MetaPlace::Memory => return None,
        MetaPlace::Sqlite(_) => ("sqlite", cfg!(feature = "sqlite")),
        MetaPlace::Server(server) => match server.kind {
            ServerKind::Postgres => ("postgres", cfg!(feature = "postgres")),
            ServerKind::Mysql => ("mysql", cfg!(feature = "mysql")),
            ServerKind::Redis => ("redis", cfg!(feature = "redis")),
        },
    };
    (!is_built).then_some(feature)
}

/// Why a store of an engine that this program was built without cannot be opened.
fn left_out(feature: &str) -> StoreError {
    let why = format!("this program was built without the feature {feature}");
    StoreError::new(store::StoreErrorKind::Unavailable, why)
}

/// The durability of the metadata store now, in one word. A server's settings may change while a
/// gateway runs.
pub(crate) fn durability(meta: &dyn MetaStore) -> &'static str {
    match meta.durability() {
        Durability::None => "none",
        Durability::Relaxed => "relaxed",
        Durability::Strict => "strict",
    }
}

/// Commits that may be in flight at a time. SQLite has one writer. A server works on one batch
/// while the next one is on its way. In PostgreSQL and Redis each batch has a cost of its own, in
/// PostgreSQL a sync of the log: there fewer and larger batches are cheaper.
pub(crate) fn commits_in_flight(place: &MetaPlace) -> usize {
    match place {
        MetaPlace::Server(server) if server.kind == ServerKind::Mysql => 2,
        MetaPlace::Memory | MetaPlace::Sqlite(_) | MetaPlace::Server(_) => 1,
    }
}

/// Short reads that may be in flight at a time; more of them wait and leave together. With Redis
/// nothing is gained by that: all reads share a connection anyway.
pub(crate) fn reads_in_flight(place: &MetaPlace) -> usize {
    match place {
        MetaPlace::Server(server) if server.kind != ServerKind::Redis => 1,
        MetaPlace::Server(_) | MetaPlace::Memory | MetaPlace::Sqlite(_) => usize::MAX,
    }
}

/// Whether the engine serves one process alone, which its locks ensure.
pub(crate) fn serves_one(place: &MetaPlace) -> bool {
    match place {
        MetaPlace::Memory | MetaPlace::Sqlite(_) => true,
        MetaPlace::Server(_) => false,
    }
}

/// A block store, and its counters.
pub(crate) struct Blocks {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) counters: Arc<dyn Fn() -> (BlockCounters, u64) + Send + Sync>,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Opens the block store, and checks that blocks can be read and written there.
pub(crate) async fn blocks(place: &BlocksPlace, seed: u64) -> Result<Blocks, Problem> {
    let doing = || format!("use the block store {place}");
    let problem = |error: block::BlockError| {
        let remedy = remedy::of_blocks(place, &error);
        Problem::new(doing(), error).remedy_if(remedy)
    };
    let opened = match place {
        BlocksPlace::Memory => layered(MemoryBlocks::new(), seed).await,
        BlocksPlace::Folder(path) => {
            let folder = FolderBlocks::open(path).await.map_err(problem)?;
            private::folder(path, FolderBlocks::names)?;
            layered(folder, seed).await
        }
        BlocksPlace::Bucket(bucket) => {
            let options = bucket_options(bucket)?;
            layered(BucketBlocks::connect(options).map_err(problem)?, seed).await
        }
    };
    opened.map_err(problem)
}

/// Checks a block store without any retries, so that a start fails soon if it must. Then adds the
/// layers that count requests and repeat those that fail.
async fn layered<B: BlockStore>(place: B, seed: u64) -> Result<Blocks, BlockError> {
    match tokio::time::timeout(PROBE_WAIT, place.probe()).await {
        // Reads and deletes need no space, and deletes make some.
        Ok(Err(error)) if error.kind() == BlockErrorKind::Full => {
            tracing::warn!(%error, "the block store is full");
        }
        Ok(probed) => probed?,
        Err(_) => {
            let doing = format!("waiting {} seconds for an answer", PROBE_WAIT.as_secs());
            return Err(BlockError::new(BlockErrorKind::Unavailable, doing));
        }
    }
    let store = Arc::new(Retrying::new(Observed::new(place), RetryLimits::default(), seed));
    let counted = Arc::clone(&store);
    let counters = Arc::new(move || (counted.inner().counters(), counted.retries()));
    Ok(Blocks { store, counters })
}

/// Opens the cache of blocks, unless it is turned off.
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
    let cache = opened.map_err(|error| Problem::new("open the cache of blocks", error))?;
    if cache.counters().disk {
        private::folder(&dir, |name| name == "lock" || name.starts_with("pages-"))?;
    }
    Ok(Some(Arc::new(cache)))
}

fn bucket_options(place: &BucketPlace) -> Result<BucketOptions, Problem> {
    let missing = |name: &str| {
        Problem::new(format!("use the bucket {:?}", place.bucket), format!("{name} is not set"))
            .remedy(
                "set ASHLAR_BLOCKS_ACCESS_KEY and ASHLAR_BLOCKS_SECRET_KEY, or the AWS variables",
            )
    };
    let access_key = first_secret(&["ASHLAR_BLOCKS_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])?
        .ok_or_else(|| missing("ASHLAR_BLOCKS_ACCESS_KEY"))?;
    let secret_key = first_secret(&["ASHLAR_BLOCKS_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"])?
        .ok_or_else(|| missing("ASHLAR_BLOCKS_SECRET_KEY"))?;
    Ok(BucketOptions {
        endpoint: place.endpoint.clone(),
        region: place.region.clone(),
        prefix: place.prefix.clone(),
        // AWS itself wants the bucket in the host name. Other endpoints often have no host names
        // for buckets.
        path_style: place.endpoint.is_some(),
        ..BucketOptions::new(
            &place.bucket,
            access_key.expose(),
            block::SecretKey::new(secret_key.expose()),
        )
    })
}
