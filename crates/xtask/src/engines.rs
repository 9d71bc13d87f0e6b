//! The metadata engines, and the database servers behind them.
//!
//! A run starts each server once, on a private port. Each user of a server gets its own database.
//! For example, the cells `postgres-http` and `mount-postgres` use two databases of one PostgreSQL
//! server. This module knows the URL of an engine; it does not know what the engine does with its
//! server.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use databases::{Cluster, Database};

/// A metadata engine of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// SQLite, in a file.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mysql,
    /// Redis.
    Redis,
    /// etcd.
    Etcd,
}

impl Engine {
    /// All engines, in the order in which they run.
    pub(crate) const ALL: [Self; 5] =
        [Self::Sqlite, Self::Postgres, Self::Mysql, Self::Redis, Self::Etcd];

    /// The name in `--engine NAME` and in the names of steps. The engine's crate is `store-NAME`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Etcd => "etcd",
        }
    }

    /// Returns true if the engine needs a database server.
    pub(crate) fn has_server(self) -> bool {
        self.server().is_some()
    }

    /// The server that the engine needs; `None` for SQLite.
    fn server(self) -> Option<NeededServer> {
        let needed = |server, package, variable| Some(NeededServer { server, package, variable });
        match self {
            Self::Sqlite => None,
            Self::Postgres => {
                needed(databases::Engine::Postgres, "postgresql", "ASHLAR_TEST_POSTGRES")
            }
            Self::Mysql => needed(databases::Engine::Mysql, "mariadb-server", "ASHLAR_TEST_MYSQL"),
            Self::Redis => needed(databases::Engine::Redis, "redis-server", "ASHLAR_TEST_REDIS"),
            Self::Etcd => needed(databases::Engine::Etcd, "etcd-server", "ASHLAR_TEST_ETCD"),
        }
    }
}

/// A database server that an engine needs.
struct NeededServer {
    server: databases::Engine,
    /// The Debian package of the server.
    package: &'static str,
    /// The environment variable that gives its URL to the tests in Rust.
    variable: &'static str,
}

/// Returns the engines that a user selects with these names: all engines if there are no names.
/// Each engine occurs once.
pub(crate) fn wanted(named: &[Engine]) -> Vec<Engine> {
    let picked = |engine: &Engine| named.is_empty() || named.contains(engine);
    Engine::ALL.into_iter().filter(picked).collect()
}

/// Returns the named engines, each once, in the order of [`Engine::ALL`].
pub(crate) fn each_once(named: &[Engine]) -> Vec<Engine> {
    Engine::ALL.into_iter().filter(|engine| named.contains(engine)).collect()
}

/// Returns the Debian packages that `engines` need and that this machine does not have.
pub(crate) fn missing_packages(engines: &[Engine]) -> Vec<&'static str> {
    let needed = engines.iter().filter_map(|engine| engine.server());
    needed.filter(|it| !Database::installed(it.server)).map(|it| it.package).collect()
}

/// Returns the Debian packages that the tests of clusters of `engines` need, in addition to those
/// of the servers, if this machine does not have all of them.
pub(crate) fn missing_cluster_packages(engines: &[Engine]) -> Vec<&'static str> {
    let needed = engines.iter().filter_map(|engine| engine.server());
    let needed = needed.filter(|it| !Cluster::installed(it.server));
    needed.flat_map(|it| cluster_packages(it.server)).copied().collect()
}

fn cluster_packages(server: databases::Engine) -> &'static [&'static str] {
    match server {
        databases::Engine::Postgres => &["patroni", "python3-etcd", "etcd-server", "etcd-client"],
        databases::Engine::Mysql => &[],
        // For `etcdctl`. The server is in a package of its own.
        databases::Engine::Etcd => &["etcd-client"],
        databases::Engine::Redis => &["redis-sentinel"],
    }
}

/// Returns the crates whose tests cannot run because they need an engine that is not in `engines`.
pub(crate) fn crates_without_servers(engines: &[Engine]) -> Vec<String> {
    let absent = || Engine::ALL.into_iter().filter(|engine| !engines.contains(engine));
    let mut names: Vec<String> = absent().map(|it| format!("store-{}", it.name())).collect();
    if absent().any(Engine::has_server) {
        // The tests of `databases` start every server.
        names.push("databases".to_owned());
    }
    names
}

/// The database servers of a run. Dropping the value ends them.
#[derive(Debug)]
pub(crate) struct Databases {
    /// The folder in which each server gets a folder for its data.
    folder: PathBuf,
    servers: Vec<(Engine, Database)>,
}

impl Default for Databases {
    /// Servers whose data is in the folder for temporary files.
    fn default() -> Self {
        Self::within(&std::env::temp_dir())
    }
}

impl Databases {
    /// Servers whose data is in `folder`. Each user of the machine must be able to search it.
    pub(crate) fn within(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), servers: Vec::new() }
    }

    /// Starts the server that an engine needs; does nothing for SQLite.
    ///
    /// The main thread must call this, because a server ends with the thread that started it.
    pub(crate) fn start(&mut self, engine: Engine) -> Result<()> {
        if let Some(needed) = engine.server() {
            let server = catch_panic(|| Database::start_in(needed.server, &self.folder))?;
            self.servers.push((engine, server));
        }
        Ok(())
    }

    /// Prepares the log of an engine's server as if the server had run for a while. For example, a
    /// new PostgreSQL creates each log file before its first use, and all commits wait for that.
    pub(crate) fn prepare_log(&self, engine: Engine) -> Result<()> {
        self.server(engine).map_or(Ok(()), |server| catch_panic(|| server.prepare_log()))
    }

    /// The running server of an engine; `None` if it was not started.
    pub(crate) fn server(&self, engine: Engine) -> Option<&Database> {
        self.servers.iter().find(|(other, _)| *other == engine).map(|(_, server)| server)
    }

    /// Creates an empty metadata store and returns its URL for `--meta`. SQLite's file is in
    /// `folder`; on a server, `name` is the name of the database. Fails if the server was not
    /// started.
    pub(crate) fn fresh(&self, engine: Engine, folder: &Path, name: &str) -> Result<String> {
        if engine == Engine::Sqlite {
            return Ok(format!("sqlite:{}", folder.join("meta.sqlite").display()));
        }
        let server = self.server(engine).context("the engine's server was not started")?;
        catch_panic(|| server.fresh(&name.replace('-', "_")))
    }

    /// The environment variables that give the URLs of the servers to the tests in Rust.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let variable = |(engine, server): &(Engine, Database)| {
            engine.server().map(|needed| (needed.variable, server.url()))
        };
        self.servers.iter().filter_map(variable).collect()
    }
}

/// Runs `work`, and returns a panic as an error. The crate `databases` is made for tests and
/// panics, but here one step must fail and the others must run.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|cause| anyhow!(panic_text(&*cause)))
}

fn panic_text(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    let text = text.or_else(|| cause.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests;
