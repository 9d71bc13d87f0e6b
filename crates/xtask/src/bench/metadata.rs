//! The CPU time and the size of the gateway's metadata store, measured from outside.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use databases::Database;

use super::meter;
use crate::engines::{Databases, Engine};

/// The time limit for an answer of Redis.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A metadata store that was empty at first, and the way to measure it.
pub(super) struct Metadata<'a> {
    /// The URL for `--meta`.
    pub(super) place: String,
    server: Option<&'a Database>,
    size: SizeSource,
}

/// The source of a store's size.
enum SizeSource {
    /// All files below a folder.
    Folder(PathBuf),
    /// A SQLite file together with its write-ahead log.
    File(PathBuf),
    /// The memory of the Redis at this address.
    Memory(SocketAddr),
}

impl<'a> Metadata<'a> {
    /// Creates an empty store of an engine. If the engine has a server, it must run, and `name` is
    /// the name of the database. SQLite's file is in `folder`.
    pub(super) fn fresh(
        databases: &'a Databases,
        engine: Engine,
        folder: &Path,
        name: &str,
    ) -> Result<Self> {
        let place = databases.fresh(engine, folder, name)?;
        let server = databases.server(engine);
        let size = match (engine, server) {
            // The write-ahead logs of servers are left out: their size does not depend on the
            // records.
            (Engine::Postgres, Some(server)) => {
                SizeSource::Folder(server.folder().join("data/base"))
            }
            (Engine::Mysql, Some(server)) => {
                SizeSource::Folder(server.folder().join("data").join(name))
            }
            (Engine::Etcd, Some(server)) => {
                SizeSource::Folder(server.folder().join("data/member/snap"))
            }
            (_, Some(server)) => SizeSource::Memory(server.address()),
            (_, None) => {
                SizeSource::File(place.strip_prefix("sqlite:").context("a file has a path")?.into())
            }
        };
        Ok(Self { place, server, size })
    }

    /// Sets `appendfsync` of a Redis to `when`. Does nothing for other engines.
    pub(super) fn sync_redis(&self, when: &str) -> Result<()> {
        let SizeSource::Memory(address) = self.size else { return Ok(()) };
        let answer = ask_redis(address, &format!("CONFIG SET appendfsync {when}"))?;
        ensure!(answer.starts_with("+OK"), "Redis refuses appendfsync {when}: {}", answer.trim());
        Ok(())
    }

    /// The CPU time that the server has used up to now. It is 0 for SQLite, which runs in the
    /// gateway.
    pub(super) fn cpu(&self) -> Duration {
        self.server.map_or(Duration::ZERO, |it| meter::cpu_time_of_tree(&it.processes()))
    }

    /// The size of the store in bytes: on disk, or in memory for Redis.
    pub(super) fn bytes(&self) -> Result<u64> {
        match &self.size {
            SizeSource::Folder(folder) => size_below(folder),
            SizeSource::File(file) => {
                let log = std::fs::read(beside(file, "-wal")).unwrap_or_default();
                match logged_size(&log) {
                    // The file itself grows only at a checkpoint, so the log has the present size.
                    Some(bytes) => Ok(bytes),
                    None => Ok(file.metadata().map_or(0, |found| found.len())),
                }
            }
            SizeSource::Memory(address) => used_memory(*address),
        }
    }
}

/// Returns the size of the database after the last commit in SQLite's write-ahead log, or `None` if
/// the log has no commit.
///
/// The log is a header of 32 bytes and then frames. Each frame is a header of 24 bytes and a page.
/// In the last frame of a commit, the second word is the number of pages of the database. Frames of
/// an earlier use of the log have another salt.
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

/// Returns the path with `suffix` appended to the name.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the sum of the sizes of all files below a folder. A file that is deleted during the call
/// counts as empty.
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

/// Returns the memory that a Redis has allocated, without the buffers of clients and of the
/// append-only file. Redis' own `used_memory_dataset` also excludes the hash tables of its keys,
/// but these are its index, and the sizes of other engines include their indexes.
fn used_memory(address: SocketAddr) -> Result<u64> {
    let answer = ask_redis(address, "INFO memory")?;
    used_memory_in(&answer).context("the answer of Redis has no used_memory")
}

/// Sends one command, and returns the answer.
fn ask_redis(address: SocketAddr, command: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
    // After QUIT, Redis closes the connection, which ends the read.
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn used_memory_in(answer: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        answer.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    let buffers = field("mem_clients_normal:").unwrap_or(0) + field("mem_aof_buffer:").unwrap_or(0);
    Some(field("used_memory:")?.saturating_sub(buffers))
}

#[cfg(test)]
mod tests;
