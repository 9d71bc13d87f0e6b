//! The engines that keep metadata, and the database servers behind them.
//!
//! A server is started once for a run, on a private port; whoever uses it gets a database of his
//! own. Which URL reaches an engine is known here, what it does with its server is not.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use databases::Database;

/// Where the gateway keeps its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// A file.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mysql,
    /// Redis.
    Redis,
}

impl Engine {
    /// All, in the order in which they run.
    pub(crate) const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::Mysql, Self::Redis];

    /// As in `--engine NAME`, in the names of steps, and behind `store-` in those of crates.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
        }
    }

    /// Whether a server is started for it.
    pub(crate) fn has_server(self) -> bool {
        self.server().is_some()
    }

    /// The server that it needs; SQLite needs none.
    fn server(self) -> Option<Needed> {
        let needed = |server, package, variable| Some(Needed { server, package, variable });
        match self {
            Self::Sqlite => None,
            Self::Postgres => {
                needed(databases::Engine::Postgres, "postgresql", "ASHLAR_TEST_POSTGRES")
            }
            Self::Mysql => needed(databases::Engine::Mysql, "mariadb-server", "ASHLAR_TEST_MYSQL"),
            Self::Redis => needed(databases::Engine::Redis, "redis-server", "ASHLAR_TEST_REDIS"),
        }
    }
}

/// A server, where it comes from, and who wants to know where it is.
struct Needed {
    server: databases::Engine,
    /// Debian's name for it.
    package: &'static str,
    /// What tells the Rust tests its URL.
    variable: &'static str,
}

/// The engines that a user wants who has named these: all of them if none, and each once.
pub(crate) fn wanted(named: &[Engine]) -> Vec<Engine> {
    let picked = |engine: &Engine| named.is_empty() || named.contains(engine);
    Engine::ALL.into_iter().filter(picked).collect()
}

/// All that are named, each once.
pub(crate) fn each_once(named: &[Engine]) -> Vec<Engine> {
    Engine::ALL.into_iter().filter(|engine| named.contains(engine)).collect()
}

/// Debian's names for what `engines` need and this machine has not.
pub(crate) fn missing_packages(engines: &[Engine]) -> Vec<&'static str> {
    let needed = engines.iter().filter_map(|engine| engine.server());
    needed.filter(|it| !Database::installed(it.server)).map(|it| it.package).collect()
}

/// Crates whose tests need engines that are not among these, and therefore cannot run.
pub(crate) fn crates_without_servers(engines: &[Engine]) -> Vec<String> {
    let absent = || Engine::ALL.into_iter().filter(|engine| !engines.contains(engine));
    let mut names: Vec<String> = absent().map(|it| format!("store-{}", it.name())).collect();
    if absent().any(Engine::has_server) {
        // It starts each of them.
        names.push("databases".to_owned());
    }
    names
}

/// The database servers of a run; dropped, they end.
#[derive(Debug, Default)]
pub(crate) struct Databases {
    servers: Vec<(Engine, Database)>,
}

impl Databases {
    /// Starts the server that an engine needs, if it needs one.
    ///
    /// To be called on the main thread: a server ends with the thread that started it.
    pub(crate) fn start(&mut self, engine: Engine) -> Result<()> {
        if let Some(needed) = engine.server() {
            self.servers.push((engine, calmly(|| Database::start(needed.server))?));
        }
        Ok(())
    }

    /// Gives an engine's server the log of one that has run for a while.
    pub(crate) fn prepare_log(&self, engine: Engine) -> Result<()> {
        self.server(engine).map_or(Ok(()), |server| calmly(|| server.prepare_log()))
    }

    /// The server of an engine, if it has one.
    pub(crate) fn server(&self, engine: Engine) -> Option<&Database> {
        self.servers.iter().find(|(other, _)| *other == engine).map(|(_, server)| server)
    }

    /// The URL of an empty metadata store, for `--meta`; what has no server lies in `folder`.
    pub(crate) fn fresh(&self, engine: Engine, folder: &Path, name: &str) -> Result<String> {
        if engine == Engine::Sqlite {
            return Ok(format!("sqlite:{}", folder.join("meta.sqlite").display()));
        }
        let server = self.server(engine).context("the engine's server was not started")?;
        calmly(|| server.fresh(&name.replace('-', "_")))
    }

    /// What tells the Rust tests where the servers are.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let variable = |(engine, server): &(Engine, Database)| {
            engine.server().map(|needed| (needed.variable, server.url()))
        };
        self.servers.iter().filter_map(variable).collect()
    }
}

/// What panics in a test is an error here: one step fails, the others run.
fn calmly<T>(work: impl FnOnce() -> T) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|cause| anyhow!(words(&*cause)))
}

fn words(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    let text = text.or_else(|| cause.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests;
