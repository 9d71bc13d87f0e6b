//! Checks of a server: if it can be used at all, and if it keeps acknowledged commits.
//!
//! Each new connection checks, and the check is repeated while connections exist. A server may come
//! back with other settings, its settings may change while it runs, or the address may lead to
//! another server. [`Standing`] has the result of the last check. For example, `appendfsync
//! everysec` is a risk: it is refused, or accepted and logged with relaxed durability.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::Value;
use redis::aio::MultiplexedConnection;
use store::{Durability, StoreError, StoreErrorKind};

use crate::append_log;
use crate::error;

/// The oldest major release of Redis that can be used: the first that has all commands of the
/// scripts. Valkey reports a release of Redis with which it is compatible.
const OLDEST: u32 = 7;

/// The answers of a server about its version, role and settings.
#[derive(Debug)]
pub(crate) struct About {
    facts: HashMap<String, String>,
    /// The settings on which durability depends; `None` if this user may not read them.
    settings: Option<HashMap<String, String>>,
    /// The reason why the server does not rewrite its append-only file, although it should.
    rewrite_refused: Option<String>,
    /// True if Sentinels may make a replica the master.
    expects_failover: bool,
}

/// Asks the server for its version, role and settings, in one round trip. This also shows if the
/// user may run transactions, which commits need.
pub(crate) async fn ask(
    connection: &mut MultiplexedConnection,
    doing: &str,
) -> Result<About, StoreError> {
    // The transaction is empty because a server that is out of memory would refuse any command in
    // it.
    let mut questions = redis::pipe();
    questions.cmd("MULTI").cmd("EXEC");
    let sections = ["server", "persistence", "replication", "cluster"];
    questions.cmd("INFO").arg(&sections);
    questions.cmd("CONFIG").arg("GET").arg("appendonly").arg("appendfsync");
    questions.arg("no-appendfsync-on-rewrite").arg("maxmemory-policy");
    questions.arg("aof-load-truncated").arg("min-replicas-to-write");
    questions.ignore_errors();
    let unreachable = |error: redis::RedisError| error::unreachable(doing, error);
    let answers: Vec<Value> = questions.query_async(connection).await.map_err(unreachable)?;
    let garbled = || error::garbled(doing);
    let [multi, exec, facts, settings] = <[Value; 4]>::try_from(answers).map_err(|_| garbled())?;
    for answer in [multi, exec] {
        answer.extract_error().map_err(unreachable)?;
    }
    let facts = facts.extract_error().map_err(unreachable)?;
    let facts: String = redis::from_redis_value(facts).map_err(|_| garbled())?;
    let pairs = facts.lines().filter_map(|line| line.trim_end().split_once(':'));
    let facts = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let settings = match settings.extract_error() {
        Ok(settings) => Some(redis::from_redis_value(settings).map_err(|_| garbled())?),
        Err(refused) => {
            tracing::debug!(error = %refused, "the server does not allow CONFIG GET");
            None
        }
    };
    Ok(About { facts, settings, rewrite_refused: None, expects_failover: false })
}

impl About {
    fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }

    /// Returns the server's identifier of its present run, from one start to the next.
    pub(crate) fn run(&self) -> &str {
        self.fact("run_id")
    }

    /// Returns true if the server should rewrite its append-only file, as [`append_log`] explains,
    /// and has not begun to since its start.
    pub(crate) fn needs_rewrite(&self) -> bool {
        let truncates = self.settings.as_ref().is_none_or(|settings| {
            settings.get("aof-load-truncated").is_none_or(|truncates| truncates != "no")
        });
        truncates
            && self.fact("aof_enabled") == "1"
            && !append_log::is_counted(self.fact("aof_rewrites"))
    }

    /// Records that the server refuses to rewrite its append-only file.
    pub(crate) fn refuse_rewrite(&mut self, why: String) {
        self.rewrite_refused = Some(why);
    }

    /// Records that Sentinels may make a replica of this server the master.
    pub(crate) fn expect_failover(&mut self) {
        self.expects_failover = true;
    }

    /// Checks that the server can be used, independent of the options.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if it is too old, a replica, or a node of a cluster.
    pub(crate) fn check(&self, doing: &str) -> Result<(), StoreError> {
        self.refused().map_or(Ok(()), |why| Err(unavailable(doing, &why)))
    }

    /// Returns the reason why the server cannot be used with any options, or `None`.
    fn refused(&self) -> Option<String> {
        let version = self.fact("redis_version");
        let major: Option<u32> = version.split('.').next().and_then(|major| major.parse().ok());
        if major.is_none_or(|major| major < OLDEST) {
            return Some(format!(
                "the server is Redis {version}; it must be 7.0 or later, or Valkey"
            ));
        }
        if self.fact("role") != "master" {
            return Some(
                "the server is a replica; the volume must be opened at the master, since a \
                 replica may answer with old records"
                    .to_owned(),
            );
        }
        if self.fact("cluster_enabled") == "1" {
            return Some(
                "the server is a node of a cluster, in which all keys of a volume are in one slot, \
                 so that it has no more room than one server: use a server that is no node, and for \
                 failovers Redis Sentinel, with redis+sentinel://SENTINEL1,SENTINEL2,SENTINEL3/MASTER"
                    .to_owned(),
            );
        }
        None
    }

    /// Returns the possible losses of acknowledged commits, each a clause that names the setting.
    fn risks(&self) -> Vec<String> {
        let mut risks = Vec::new();
        if self.expects_failover {
            risks.push(
                "Sentinels may make a replica the master, and replication does not wait, so that a \
                 failover loses the last moments of what was acknowledged"
                    .to_owned(),
            );
        }
        let Some(settings) = &self.settings else {
            risks.push(
                "the server does not let this user read its settings (CONFIG GET), so it is unknown \
                 if it keeps acknowledged commits"
                    .to_owned(),
            );
            return risks;
        };
        let set = |name: &str| settings.get(name).map_or("", String::as_str);
        if self.expects_failover && set("min-replicas-to-write") == "0" {
            risks.push(
                "min-replicas-to-write is 0 and not at least 1, so that the master also acknowledges \
                 what no replica receives"
                    .to_owned(),
            );
        }
        if set("appendonly") != "yes" || self.facts.get("aof_enabled").is_some_and(|on| on != "1") {
            risks.push(
                "appendonly is not yes, so that a restart of the server loses everything since its \
                 last dump"
                    .to_owned(),
            );
        } else if set("appendfsync") != "always" {
            let found = set("appendfsync");
            let loss =
                if found == "everysec" { "about the last second" } else { "the last half minute" };
            risks.push(format!(
                "appendfsync is {found} and not always, so that a crash loses {loss} of what was \
                 acknowledged"
            ));
        }
        if set("appendonly") == "yes" && set("no-appendfsync-on-rewrite") == "yes" {
            risks.push(
                "no-appendfsync-on-rewrite is yes, so that a crash while the server rewrites its file \
                 loses the last half minute of what was acknowledged"
                    .to_owned(),
            );
        }
        if set("maxmemory-policy") != "noeviction" {
            let found = set("maxmemory-policy");
            risks.push(format!(
                "maxmemory-policy is {found} and not noeviction, so that the server throws records \
                 away when memory runs short"
            ));
        }
        if let Some(why) = &self.rewrite_refused {
            risks.push(format!(
                "aof-load-truncated is yes and the server does not rewrite its append-only file \
                 ({why}), so that a half of a transaction may come back at its second start after a \
                 crash: let this user run BGREWRITEAOF, or set aof-load-truncated to no"
            ));
        }
        risks
    }
}

fn unavailable(doing: &str, why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("{doing}: {why}"))
}

/// The result of the last check of the server: the possible losses of acknowledged commits that its
/// settings permit.
#[derive(Debug)]
pub(crate) struct Standing {
    /// True if the options accept a server that may lose acknowledged commits.
    relaxed: bool,
    /// The possible losses of acknowledged commits, as a sentence; empty if there are none.
    risks: Mutex<String>,
}

impl Standing {
    /// Creates the state before the first check of the server. If `relaxed`, the check accepts a
    /// server whose settings may lose acknowledged commits.
    pub(crate) fn new(relaxed: bool) -> Standing {
        Standing { relaxed, risks: Mutex::default() }
    }

    fn risks(&self) -> MutexGuard<'_, String> {
        self.risks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failures that an acknowledged commit survives at this server.
    pub(crate) fn durability(&self) -> Durability {
        if self.risks().is_empty() { Durability::Strict } else { Durability::Relaxed }
    }

    /// Checks that the options accept the possible losses at this server. Records and logs changes.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if there are possible losses that the options do not accept.
    pub(crate) fn accept(&self, about: &About, doing: &str) -> Result<(), StoreError> {
        let found = about.risks().join("; ");
        if !found.is_empty() && !self.relaxed {
            return Err(unavailable(
                doing,
                &format!("{found}; --metadata-durability=relaxed accepts that"),
            ));
        }
        let mut risks = self.risks();
        if *risks != found {
            if found.is_empty() {
                tracing::info!("the metadata store keeps acknowledged commits again");
            } else {
                tracing::warn!(risks = found, "the metadata store may lose acknowledged commits");
            }
            *risks = found;
        }
        Ok(())
    }
}
