//! Moving house between real engines: dump, load, dump gives the same bytes, from each to each.
//!
//! Servers are started for the run. One that is not installed is left out with a sentence, unless
//! `ASHLAR_TEST_REQUIRE_SERVICES=1`. `ASHLAR_TEST_ENGINES` names those that are wanted, with commas
//! between them. A new engine is a variant, and a line in `ALL`, `server` and `fresh`.

mod stores;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use databases::{Database, Engine};
use dump::{DumpSize, Phase, Watcher};
use store::{Key, MemoryStore, MetaStore, Space, Write};
use store_etcd::{EtcdOptions, EtcdStore};
use store_mysql::{MysqlOptions, MysqlStore};
use store_postgres::{PostgresOptions, PostgresStore};
use store_redis::{RedisOptions, RedisStore};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use stores::{dumped, keystone, keystone_key, loaded, put, volume, write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Memory,
    Sqlite,
    Postgres,
    Mysql,
    Redis,
    Etcd,
}

const ALL: &[Kind] =
    &[Kind::Memory, Kind::Sqlite, Kind::Postgres, Kind::Mysql, Kind::Redis, Kind::Etcd];

/// The server that an engine needs.
fn server(kind: Kind) -> Option<Engine> {
    match kind {
        Kind::Memory | Kind::Sqlite => None,
        Kind::Postgres => Some(Engine::Postgres),
        Kind::Mysql => Some(Engine::Mysql),
        Kind::Redis => Some(Engine::Redis),
        Kind::Etcd => Some(Engine::Etcd),
    }
}

/// Opens an engine over a database that is new.
async fn fresh(kind: Kind, place: &StoreLocation) -> Arc<dyn MetaStore> {
    match kind {
        Kind::Memory => Arc::new(MemoryStore::new()),
        Kind::Sqlite => {
            let options = SqliteOptions { exclusive: true, spared: &[] };
            Arc::new(SqliteStore::open(&place.path, options).await.expect("a store"))
        }
        Kind::Postgres => {
            let options = PostgresOptions::default();
            Arc::new(PostgresStore::open(&place.url, options).await.expect("a store"))
        }
        Kind::Mysql => {
            let options = MysqlOptions::default();
            Arc::new(MysqlStore::open(&place.url, options).await.expect("a store"))
        }
        Kind::Redis => {
            let options = RedisOptions::default();
            Arc::new(RedisStore::open(&place.url, options).await.expect("a store"))
        }
        Kind::Etcd => {
            let options = EtcdOptions::default();
            Arc::new(EtcdStore::open(&place.url, options).await.expect("a store"))
        }
    }
}

/// Where a store that does not exist yet is to be.
struct StoreLocation {
    path: PathBuf,
    /// Of a database that was made for it.
    url: String,
}

/// The engines of this run, their servers and a folder for files.
struct Run {
    kinds: Vec<Kind>,
    servers: BTreeMap<Kind, Database>,
    folder: TempDir,
    made: AtomicU32,
}

fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "tests are told which engines are wanted")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Run {
    fn start() -> Run {
        let wanted = variable("ASHLAR_TEST_ENGINES");
        let is_wanted = |kind: &Kind| {
            let name = format!("{kind:?}").to_lowercase();
            *kind == Kind::Memory
                || wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|it| it == name))
        };
        let mut run = Run {
            kinds: Vec::new(),
            servers: BTreeMap::new(),
            folder: TempDir::new().expect("a folder"),
            made: AtomicU32::new(0),
        };
        for kind in ALL.iter().copied().filter(is_wanted) {
            if let Some(engine) = server(kind) {
                if !Database::installed(engine) {
                    let required = variable("ASHLAR_TEST_REQUIRE_SERVICES");
                    assert!(required.is_none_or(|it| it != "1"), "{kind:?} is not installed");
                    eprintln!("left out: {kind:?} is not installed");
                    continue;
                }
                run.servers.insert(kind, Database::start(engine));
            }
            run.kinds.push(kind);
        }
        run
    }

    /// A store with nothing in it.
    async fn fresh(&self, kind: Kind) -> Arc<dyn MetaStore> {
        let name = format!("house{}", self.made.fetch_add(1, Ordering::SeqCst));
        let url = self.servers.get(&kind).map(|server| server.fresh(&name)).unwrap_or_default();
        fresh(kind, &StoreLocation { path: self.folder.path().join(&name), url }).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dump_load_dump_gives_the_same_bytes_between_all_engines() {
    let run = Run::start();
    let reference = MemoryStore::new();
    write(&reference, volume()).await;
    let reference = dumped(&reference).await;
    let mut pairs = 0;
    for &from in &run.kinds {
        let source = run.fresh(from).await;
        write(&*source, volume()).await;
        let bytes = dumped(&*source).await;
        source.close().await;
        assert!(bytes == reference, "{from:?} dumps the same records differently");
        for &to in &run.kinds {
            let target = run.fresh(to).await;
            loaded(&*target, &bytes).await.expect("loaded");
            assert!(dumped(&*target).await == bytes, "from {from:?} to {to:?} something changed");
            let again = loaded(&*target, &bytes).await;
            assert!(
                matches!(again, Err(dump::DumpError::NotEmpty(_))),
                "{to:?}, filled before: {again:?}"
            );
            target.close().await;
            pairs += 1;
        }
    }
    assert_eq!(pairs, run.kinds.len().pow(2));
    eprintln!("{pairs} pairs of {:?}", run.kinds);
}

/// Records of a store that takes more than a page, more than a commit, and more commits than are
/// under way at a time.
const RECORDS: u32 = 20_000;

async fn many() -> Vec<u8> {
    let key = |n: u32| Key::new(Space(b"Id"[n as usize % 2]), u64::from(n / 100), &n.to_be_bytes());
    let value = |n: u32| vec![n.to_le_bytes()[0]; 60 + n as usize % 200];
    let mut writes: Vec<Write> = (0..RECORDS).map(|n| put(key(n), value(n))).collect();
    writes.push(put(keystone_key(), "the volume"));
    let reference = MemoryStore::new();
    write(&reference, writes).await;
    dumped(&reference).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_engine_takes_and_gives_many_records() {
    let run = Run::start();
    let bytes = many().await;
    for &kind in &run.kinds {
        let store = run.fresh(kind).await;
        let begun = Instant::now();
        loaded(&*store, &bytes).await.expect("loaded");
        let filled = begun.elapsed();
        let begun = Instant::now();
        assert!(dumped(&*store).await == bytes, "{kind:?} gave something else than it took");
        let dumped = begun.elapsed();
        store.close().await;
        let rate = |took: std::time::Duration| f64::from(RECORDS) / took.as_secs_f64();
        eprintln!("{kind:?}: filled at {:.0} records/s", rate(filled));
        eprintln!("{kind:?}: dumped at {:.0} records/s", rate(dumped));
    }
}

/// Kills a server and starts it again when a store is filled by half.
struct Killing {
    server: Mutex<Database>,
    kills: AtomicU32,
}

impl Watcher for Killing {
    fn passed(&self, step: Phase, counts: DumpSize) {
        if step == Phase::Fill && counts.records > u64::from(RECORDS) / 2 {
            let first = self.kills.fetch_add(1, Ordering::SeqCst) == 0;
            if first {
                let mut server = self.server.lock().expect("no holder panics");
                server.kill();
                server.restart();
            }
        }
    }
}

/// A server that is killed and started again in the middle of a load costs it no more than time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_outlives_its_server() {
    let mut run = Run::start();
    let bytes = many().await;
    for kind in run.kinds.clone() {
        let Some(server) = run.servers.remove(&kind) else { continue };
        let place = StoreLocation { path: PathBuf::new(), url: server.fresh("killed") };
        let store = fresh(kind, &place).await;
        let killing = Killing { server: Mutex::new(server), kills: AtomicU32::new(0) };
        let mut input = Cursor::new(&bytes);
        dump::load(&*store, &mut input, &keystone(1), &killing).await.expect("loaded");
        assert!(killing.kills.load(Ordering::SeqCst) > 0, "{kind:?} was not killed");
        assert!(dumped(&*store).await == bytes, "{kind:?} lost or changed something");
        store.close().await;
        eprintln!("{kind:?}: killed at half of the load, which then went on");
    }
}
