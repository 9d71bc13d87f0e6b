//! Several gateways on one volume, over each engine.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use databases::{Cluster, Database};
use tempfile::TempDir;

use crate::client::{Client, Request};
use crate::scale;
use crate::servers::{Blocks, Gateway, Minio, Setup, wait_for};

/// The time limit of the cleanup after the last gateway has ended: 30 seconds until silent sessions
/// are ended, and the cleanup that waits for that.
const CLEARED: Duration = Duration::from_secs(90);

/// Number of keys in a request of the cleanup, the limit of S3.
const DELETED_AT_ONCE: usize = 1000;

/// Makes one test for each engine from a function that takes an engine.
macro_rules! on_each_engine {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                use crate::fleet::Engine;

                #[test]
                fn sqlite() {
                    Engine::Sqlite.run_if_taken(super::$test);
                }

                #[test]
                fn postgres() {
                    Engine::Postgres.run_if_taken(super::$test);
                }

                #[test]
                fn mysql() {
                    Engine::Mysql.run_if_taken(super::$test);
                }

                #[test]
                fn redis() {
                    Engine::Redis.run_if_taken(super::$test);
                }

                #[test]
                fn etcd() {
                    Engine::Etcd.run_if_taken(super::$test);
                }
            }
        )+
    };
}

/// Makes one test for each engine that is a server.
macro_rules! on_each_server {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                use crate::fleet::Engine;

                #[test]
                fn postgres() {
                    Engine::Postgres.run_if_taken(super::$test);
                }

                #[test]
                fn mysql() {
                    Engine::Mysql.run_if_taken(super::$test);
                }

                #[test]
                fn redis() {
                    Engine::Redis.run_if_taken(super::$test);
                }

                #[test]
                fn etcd() {
                    Engine::Etcd.run_if_taken(super::$test);
                }
            }
        )+
    };
}

/// Makes one test, on the drawn engine, from a function that takes an engine. It is for tests whose
/// result depends little on the engine, and for long tests, which each run executes on one engine.
macro_rules! on_the_drawn_engine {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                #[test]
                fn drawn() {
                    super::$test(crate::fleet::Engine::drawn());
                }
            }
        )+
    };
}

/// The same for tests of several gateways. If `SQLite` is drawn, they run on Redis.
macro_rules! on_the_drawn_server {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                #[test]
                fn drawn() {
                    super::$test(crate::fleet::Engine::drawn_server());
                }
            }
        )+
    };
}

/// Makes one test that runs on all servers at the same time, for tests that mostly wait.
macro_rules! on_servers_together {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                use crate::fleet::Engine;

                #[test]
                fn servers_together() {
                    let test = super::$test;
                    std::thread::scope(|scope| {
                        for engine in [Engine::Postgres, Engine::Mysql, Engine::Redis, Engine::Etcd] {
                            scope.spawn(move || engine.run_if_taken(test));
                        }
                    });
                }
            }
        )+
    };
}

pub(crate) use {
    on_each_engine, on_each_server, on_servers_together, on_the_drawn_engine, on_the_drawn_server,
};

/// A metadata store that the gateway supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// A file, which only one gateway can open.
    Sqlite,
    Postgres,
    Mysql,
    Redis,
    Etcd,
}

impl Engine {
    const ALL: [Engine; 5] =
        [Engine::Sqlite, Engine::Postgres, Engine::Mysql, Engine::Redis, Engine::Etcd];

    /// Returns the drawn engine of this run.
    pub(crate) fn drawn() -> Engine {
        let name = scale::drawn();
        let drawn = Engine::ALL.into_iter().find(|engine| engine.name() == name);
        drawn.unwrap_or_else(|| panic!("ASHLAR_TEST_DRAWN is {name:?}, which is no engine"))
    }

    /// The drawn engine if it is a server, or else Redis.
    pub(crate) fn drawn_server() -> Engine {
        match Engine::drawn() {
            Engine::Sqlite => Engine::Redis,
            server @ (Engine::Postgres | Engine::Mysql | Engine::Redis | Engine::Etcd) => server,
        }
    }

    /// Runs a test that exists for each engine, if this run takes this engine. If not, prints the
    /// reason.
    pub(crate) fn run_if_taken(self, test: impl FnOnce(Engine)) {
        let name = self.name();
        if scale::is_taken(name) {
            test(self);
        } else {
            eprintln!("not run: ASHLAR_TEST_EACH does not name {name}");
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
            Engine::Mysql => "mysql",
            Engine::Redis => "redis",
            Engine::Etcd => "etcd",
        }
    }

    fn server(self) -> Option<databases::Engine> {
        match self {
            Engine::Sqlite => None,
            Engine::Postgres => Some(databases::Engine::Postgres),
            Engine::Mysql => Some(databases::Engine::Mysql),
            Engine::Redis => Some(databases::Engine::Redis),
            Engine::Etcd => Some(databases::Engine::Etcd),
        }
    }

    /// Returns true if the engine is to be tested on this machine. If not, prints the reason.
    fn is_here(self) -> bool {
        let name = self.name();
        if !scale::is_wanted(name) {
            eprintln!("not run: ASHLAR_TEST_ENGINES does not name {name}");
            return false;
        }
        let installed = self.server().is_none_or(Database::installed);
        if !installed {
            let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
            assert!(!required, "{name} is not installed");
            eprintln!("not run: {name} is not installed");
        }
        installed
    }
}

/// The kind of block store of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// A folder that all gateways of this machine share.
    Folder,
    /// A bucket of a MinIO of its own.
    Bucket,
}

/// A volume for several gateways, each of which is started by its [`Setup`].
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) engine: Engine,
    /// The server of the metadata; `None` for SQLite.
    pub(crate) database: Option<Database>,
    pub(crate) minio: Option<Minio>,
    /// The first gateway.
    pub(crate) first: Setup,
    url: Option<String>,
    _folder: TempDir,
}

impl Fleet {
    /// Creates an empty volume. Returns `None` if this engine is not to be tested here.
    pub(crate) fn new(engine: Engine, block_kind: BlockKind) -> Option<Fleet> {
        if !engine.is_here() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let minio = match block_kind {
            BlockKind::Folder => None,
            BlockKind::Bucket => Some(Minio::start(folder.path())?),
        };
        let blocks =
            minio.as_ref().map_or(Blocks::Folder, |minio| Blocks::Bucket(minio.address.clone()));
        let database = engine.server().map(Database::start);
        let url = database.as_ref().map(|database| database.fresh("volume"));
        let mut first = Setup::new(folder.path(), blocks);
        if let Some(url) = &url {
            first = first.meta(url);
        }
        Some(Fleet { engine, database, minio, first, url, _folder: folder })
    }

    /// Creates an empty volume whose metadata is in a cluster of servers. Returns `None` if this
    /// engine is not to be tested here.
    pub(crate) fn over_cluster(engine: Engine) -> Option<(Fleet, Cluster)> {
        let server = engine.server().filter(|_| engine.is_here())?;
        if !Cluster::installed(server) {
            let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
            assert!(!required, "a cluster of {} is not installed", engine.name());
            eprintln!("not run: a cluster of {} is not installed", engine.name());
            return None;
        }
        let cluster = Cluster::start(server);
        let url = cluster.fresh("volume");
        let folder = tempfile::tempdir().expect("a folder");
        let first = Setup::new(folder.path(), Blocks::Folder).meta(&url);
        let (database, minio, url) = (None, None, Some(url));
        Some((Fleet { engine, database, minio, first, url, _folder: folder }, cluster))
    }

    /// Returns the second gateway. Panics with SQLite, which allows only one.
    pub(crate) fn second(&self) -> Setup {
        assert_ne!(self.engine, Engine::Sqlite, "one gateway has the file for itself");
        self.first.sibling("second")
    }

    /// Returns the URL of the database; `None` for SQLite.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Returns the address of the database server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.database.as_ref().expect("a server").address()
    }

    /// Returns a gateway that connects to the database through another address.
    pub(crate) fn through(&self, setup: &Setup, address: SocketAddr) -> Setup {
        let url = self.url.as_ref().expect("a server has a URL");
        setup.clone().meta(&Database::through(url, self.address(), address))
    }

    /// Starts two gateways, or one with SQLite, and creates the bucket `box`.
    pub(crate) fn start(&self) -> Vec<Gateway> {
        let mut gateways = vec![self.first.start()];
        if self.engine != Engine::Sqlite {
            gateways.push(self.second().start());
        }
        gateways[0].client.put("/box", b"").expect(200);
        gateways
    }

    /// Returns the names of the stored blocks.
    pub(crate) fn block_names(&self) -> BTreeSet<String> {
        match &self.minio {
            Some(minio) => minio.blocks().into_iter().collect(),
            None => {
                let files = self.first.block_files();
                files.iter().map(|file| file.display().to_string()).collect()
            }
        }
    }

    /// Returns the number of stored blocks.
    pub(crate) fn blocks(&self) -> usize {
        match &self.minio {
            Some(minio) => minio.blocks().len(),
            None => self.first.block_files().len(),
        }
    }

    /// Stops the gateways. Fails unless records and blocks agree, and unless no block remains after
    /// all objects are deleted.
    #[track_caller]
    pub(crate) fn stop_and_check(&self, gateways: Vec<Gateway>) {
        for gateway in gateways {
            gateway.stop();
        }
        self.run_gc();
        self.check_consistency();
        let gateway = self.first.start();
        delete_all(&gateway.client);
        let empty = wait_for(CLEARED, || self.blocks() == 0);
        assert!(empty, "{} blocks are left over:\n{}", self.blocks(), gateway.log());
        gateway.stop();
        self.check_consistency();
    }

    /// Deletes the blocks that killed gateways left unreferenced.
    #[track_caller]
    pub(crate) fn run_gc(&self) {
        let (status, said) = self.first.run("gc", &["--delete", "--delete-percent-max", "100"]);
        assert!(status.success(), "{status}\n{said}");
    }

    /// Fails unless `fsck` finds that records and blocks agree.
    #[track_caller]
    pub(crate) fn check_consistency(&self) {
        let (status, said) = self.first.run("fsck", &[]);
        assert!(status.success(), "{status}\n{said}");
    }
}

/// Returns a client of the first and of the last gateway; both of the same one if there is only
/// one.
pub(crate) fn clients(gateways: &[Gateway]) -> [Client; 2] {
    let first = gateways.first().expect("there is a gateway");
    let last = gateways.last().expect("there is a gateway");
    [first.client.clone(), last.client.clone()]
}

/// Deletes all objects and uploads in the bucket `box`, and the bucket.
#[track_caller]
fn delete_all(client: &Client) {
    let uploads = client.get("/box?uploads").expect(200);
    for (key, id) in uploads.elements("Key").iter().zip(uploads.elements("UploadId")) {
        client.delete(&format!("/box/{key}?uploadId={id}")).expect(204);
    }
    for keys in client.keys("box", "", 1000).chunks(DELETED_AT_ONCE) {
        let object = |key: &String| format!("<Object><Key>{key}</Key></Object>");
        let objects: String = keys.iter().map(object).collect();
        let body = format!("<Delete><Quiet>true</Quiet>{objects}</Delete>");
        let answer = client.send(&Request::new("POST", "/box?delete").body(body)).expect(200);
        assert!(answer.elements("Error").is_empty(), "{}", answer.text());
    }
    client.delete("/box").expect(204);
}
