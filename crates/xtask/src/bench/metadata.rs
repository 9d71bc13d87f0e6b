//! The metadata store below the gateway, seen from outside: what it costs and how much it holds.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use databases::Database;

use super::meter;
use crate::engines::{Databases, Engine};

/// How long Redis may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// An empty metadata store, and how to look at it.
pub(super) struct Metadata<'a> {
    /// The URL for `--meta`.
    pub(super) place: String,
    server: Option<&'a Database>,
    holds: Holds,
}

/// What says how much a store holds.
enum Holds {
    /// All files of a folder.
    Folder(PathBuf),
    /// A SQLite file, with what waits in the log beside it.
    File(PathBuf),
    /// The memory of a Redis.
    Memory(SocketAddr),
}

impl<'a> Metadata<'a> {
    /// A fresh store of an engine whose server runs, in a database called `name`; what has no
    /// server lies in `folder`.
    pub(super) fn fresh(
        databases: &'a Databases,
        engine: Engine,
        folder: &Path,
        name: &str,
    ) -> Result<Self> {
        let place = databases.fresh(engine, folder, name)?;
        let server = databases.server(engine);
        let holds = match (engine, server) {
            (Engine::Postgres, Some(server)) => Holds::Folder(server.folder().join("data/base")),
            (Engine::Mysql, Some(server)) => Holds::Folder(server.folder().join("data").join(name)),
            (_, Some(server)) => Holds::Memory(server.address()),
            (_, None) => {
                Holds::File(place.strip_prefix("sqlite:").context("a file has a path")?.into())
            }
        };
        Ok(Self { place, server, holds })
    }

    /// Tells a Redis when to sync its append-only file; other stores are left as they are.
    pub(super) fn sync_redis(&self, when: &str) -> Result<()> {
        let Holds::Memory(address) = self.holds else { return Ok(()) };
        let answer = ask_redis(address, &format!("CONFIG SET appendfsync {when}"))?;
        ensure!(answer.starts_with("+OK"), "Redis does not sync {when}: {}", answer.trim());
        Ok(())
    }

    /// The CPU time that the server has used so far; none where the gateway does the work itself.
    pub(super) fn cpu(&self) -> Duration {
        self.server.map_or(Duration::ZERO, |it| meter::cpu_time_of_tree(&it.processes()))
    }

    /// The bytes that the store occupies: on disk, or in memory where everything is there.
    pub(super) fn bytes(&self) -> Result<u64> {
        match &self.holds {
            Holds::Folder(folder) => size_below(folder),
            Holds::File(file) => {
                let log = std::fs::read(beside(file, "-wal")).unwrap_or_default();
                match logged_size(&log) {
                    Some(bytes) => Ok(bytes),
                    None => Ok(file.metadata().map_or(0, |found| found.len())),
                }
            }
            Holds::Memory(address) => used_memory(*address),
        }
    }
}

/// The size that the last commit in a write-ahead log gave the database; `None` if it has no
/// commit.
///
/// The log is a header of 32 bytes and frames: a header of 24 bytes and a page each. A frame that
/// ends a commit holds the database's pages in its second word. Frames from before the log began
/// anew have another salt.
fn logged_size(log: &[u8]) -> Option<u64> {
    let word = |bytes: &[u8], place: usize| {
        let word = bytes.get(place..place + 4)?;
        Some(u32::from_be_bytes(word.try_into().ok()?))
    };
    let page_bytes = word(log, 8).filter(|bytes| bytes.is_power_of_two())?;
    let salt = log.get(16..24)?;
    let frames = log.get(32..)?.chunks_exact(24 + usize::try_from(page_bytes).ok()?);
    let valid = frames.take_while(|frame| frame.get(8..16) == Some(salt));
    let pages = valid.filter_map(|frame| word(frame, 4)).filter(|pages| *pages > 0).last()?;
    Some(u64::from(pages) * u64::from(page_bytes))
}

/// The file whose name is longer by `suffix`.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The sizes of all files below a folder; a file that vanishes meanwhile holds nothing.
fn size_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let entries = std::fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += size_below(&entry.path())?,
            Ok(found) => bytes += found.len(),
            Err(_) => {}
        }
    }
    Ok(bytes)
}

/// All memory that a Redis has allocated, but for what is on its way to or from clients and its
/// file. Its own `used_memory_dataset` would leave out the tables that its keys are found by, which
/// other engines count as indexes.
fn used_memory(address: SocketAddr) -> Result<u64> {
    let answer = ask_redis(address, "INFO memory")?;
    used_memory_in(&answer).context("Redis does not tell its memory")
}

fn ask_redis(address: SocketAddr, command: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn used_memory_in(answer: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        answer.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    let passing = field("mem_clients_normal:").unwrap_or(0) + field("mem_aof_buffer:").unwrap_or(0);
    Some(field("used_memory:")?.saturating_sub(passing))
}

#[cfg(test)]
mod tests;
