//! Makes the server rewrite its append-only file once after each start of the server.
//!
//! A server that is killed while it appends a transaction leaves the beginning of that transaction at
//! the end of the file. With `aof-load-truncated yes`, the default, the next start drops the command
//! that was cut, but leaves `MULTI` and the commands before that one in the file (seen with Redis
//! 7.0.15). Later transactions are appended behind them. So the start after the next one runs these
//! commands together with the next transaction:
//!
//! ```text
//! kill             MULTI  HSET a …  HSET b <cut>
//! first start      MULTI  HSET a …                                 a is not set: the transaction is gone
//! next commit      MULTI  HSET a …  MULTI  HSET c …  EXEC
//! second start     a and c are set: half of a transaction has come back
//! ```
//!
//! If a command is appended alone, without `MULTI`, the second start takes it for another one of the
//! unfinished transaction and drops it, although the server has acknowledged it.
//!
//! `BGREWRITEAOF` ends that. The server first opens a new file for later commits, and then replaces
//! the older files. If it is killed in between, its next start meets the unfinished
//! transaction in a file that is not the last one, removes it entirely, and ends with an error; the
//! start after that one loads everything. So no connection is used before the server has begun its
//! rewrite. A server with `aof-load-truncated no` needs none: it does not start until
//! `redis-check-aof --fix` has removed the whole transaction.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use store::StoreError;

use crate::error;

/// How often a connection asks whether a rewrite that the server has put off has begun.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// The key of the run of the server in which the server has begun to rewrite its file.
pub(crate) fn rewritten_key(prefix: &str) -> String {
    format!("{prefix}a")
}

/// The key that exists if there is a volume.
fn volume_key(prefix: &str) -> String {
    format!("{prefix}m")
}

/// The result of a request to rewrite the file.
#[derive(Debug)]
pub(crate) enum Rewrite {
    /// The server appends to a new file.
    Begun,
    /// The server refuses, with this reason.
    Refused(String),
}

/// Notes a run of the server, if there is a volume: a server that was named by mistake gets no key.
const NOTE: &str =
    "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('SET', KEYS[2], ARGV[1]) end";

/// Has the server begin to rewrite its file, and notes this run of the server in [`rewritten_key`], so
/// that no other process asks for another rewrite. `open.lua` notes the run where it makes a volume.
///
/// Waits while the server puts the rewrite off because it saves a dump. The caller bounds the wait.
///
/// # Errors
/// [`store::StoreErrorKind::Unavailable`] if the server does not answer.
pub(crate) async fn rewrite(
    connection: &mut MultiplexedConnection,
    prefix: &str,
    run: &str,
    doing: &str,
) -> Result<Rewrite, StoreError> {
    tracing::info!("the metadata server rewrites its append-only file after its start");
    let answer: Result<Value, RedisError> =
        redis::cmd("BGREWRITEAOF").query_async(connection).await;
    match answer {
        Ok(_) => {}
        Err(error) if error.to_string().contains("already in progress") => {}
        Err(error) if error::is_answer(&error) => return Ok(Rewrite::Refused(error.to_string())),
        Err(error) => return Err(error::unreachable(doing, error)),
    }
    let unreachable = |error| error::unreachable(doing, error);
    while is_put_off(connection).await.map_err(unreachable)? {
        tokio::time::sleep(POLL_EVERY).await;
    }
    let mut note = redis::cmd("EVAL");
    note.arg(NOTE).arg(2).arg(volume_key(prefix)).arg(rewritten_key(prefix)).arg(run);
    match note.query_async::<Value>(connection).await {
        // A server out of memory refuses the note. Then other processes ask for a rewrite too.
        Ok(_) => Ok(Rewrite::Begun),
        Err(error) if error::is_answer(&error) => Ok(Rewrite::Begun),
        Err(error) => Err(unreachable(error)),
    }
}

/// Returns true if the server waits for the end of a dump before it begins a rewrite.
async fn is_put_off(connection: &mut MultiplexedConnection) -> Result<bool, RedisError> {
    let facts: String = redis::cmd("INFO").arg("persistence").query_async(connection).await?;
    Ok(facts.lines().any(|line| line.trim_end() == "aof_rewrite_scheduled:1"))
}
