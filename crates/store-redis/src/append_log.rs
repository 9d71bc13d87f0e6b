//! Makes the server rewrite its append-only file once after each start of the server.
//!
//! A server that is killed while it appends a transaction leaves the beginning of the transaction
//! at the end of the file. With `aof-load-truncated yes`, the default, the next start drops the
//! command that was cut, but leaves `MULTI` and the commands before it in the file (seen with Redis
//! 7.0.15). Later transactions are appended after them. So the second start runs these commands
//! together with the next transaction:
//!
//! ```text
//! kill             MULTI  HSET a …  HSET b <cut>
//! first start      MULTI  HSET a …                                 a is not set: the transaction is gone
//! next commit      MULTI  HSET a …  MULTI  HSET c …  EXEC
//! second start     a and c are set: half of a transaction has come back
//! ```
//!
//! For example, a command that is appended alone, without `MULTI`, is taken for a part of the
//! unfinished transaction at the second start and dropped, although the server acknowledged it.
//!
//! `BGREWRITEAOF` prevents this. The server first opens a new file for later commits, and then
//! replaces the older files. If it is killed in between, its next start finds the unfinished
//! transaction in a file that is not the last one, removes it entirely, and exits with an error;
//! the start after that loads everything. So no connection is used before the server has begun its
//! rewrite. A server with `aof-load-truncated no` needs no rewrite: it does not start until
//! `redis-check-aof --fix` has removed the whole transaction.
//!
//! The server counts its rewrites since its start. It counts one as soon as it appends to a new
//! file, even if it cannot start the process that replaces the older files. So one rewrite in each
//! run of the server is enough for all volumes on it, and no gateway has to remember it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use store::{StoreError, StoreErrorKind};

use crate::error;

/// Interval at which a connection checks if a rewrite of the append-only file, which the server
/// postponed, has begun.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// How long a connection waits for a postponed rewrite of the append-only file to begin. It is
/// shorter than a call's wait for a connection, so that the caller gets an error that names the
/// cause.
const PUT_OFF_PATIENCE: Duration = Duration::from_secs(1);

/// The result of a request to rewrite the append-only file.
#[derive(Debug)]
pub(crate) enum Rewrite {
    /// The server has begun: it appends to a new file.
    Begun,
    /// The server refuses to rewrite the file, for this reason.
    Refused(String),
}

/// Returns true if `count`, the server's `aof_rewrites`, shows that a rewrite has begun since the
/// server's start.
pub(crate) fn is_counted(count: &str) -> bool {
    count.parse::<u64>().is_ok_and(|count| count > 0)
}

/// Makes the server begin to rewrite its append-only file. If the server saves a dump first, waits
/// one second at most.
///
/// # Errors
/// [`StoreErrorKind::Unavailable`] if the server does not answer, or still saves a dump.
pub(crate) async fn rewrite(
    connection: &mut MultiplexedConnection,
    doing: &str,
) -> Result<Rewrite, StoreError> {
    tracing::info!("the metadata server rewrites its append-only file after its start");
    let unreachable = |error| error::unreachable(doing, error);
    let answer: Result<Value, RedisError> =
        redis::cmd("BGREWRITEAOF").query_async(connection).await;
    let refused = match answer {
        Ok(_) => None,
        Err(error) if error.to_string().contains("already in progress") => None,
        Err(error) if error::is_answer(&error) => Some(error.to_string()),
        Err(error) => return Err(unreachable(error)),
    };
    let until = tokio::time::Instant::now() + PUT_OFF_PATIENCE;
    loop {
        let mut question = redis::cmd("INFO");
        question.arg("persistence");
        let facts: String = question.query_async(connection).await.map_err(unreachable)?;
        let fact = |name: &str| {
            let facts = facts.lines().filter_map(|line| line.trim_end().split_once(':'));
            facts.filter(|(of, _)| *of == name).map(|(_, value)| value).next().unwrap_or_default()
        };
        match refused {
            _ if is_counted(fact("aof_rewrites")) => return Ok(Rewrite::Begun),
            Some(why) => return Ok(Rewrite::Refused(why)),
            // An older server has no such count. If no rewrite is scheduled, it has begun.
            None if fact("aof_rewrite_scheduled") != "1" => return Ok(Rewrite::Begun),
            None => {}
        }
        if tokio::time::Instant::now() >= until {
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!(
                    "{doing}: the server was started and has not begun to rewrite its append-only file: \
                     it saves a dump first, or cannot start the process that rewrites"
                ),
            ));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
