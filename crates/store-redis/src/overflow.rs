//! Sends large overflow values out of band: outside the commit script, not through it.
//!
//! Lua hashes every byte of an argument and copies it twice. For contents of 60,000 bytes that is
//! half of what a commit costs the server. So large overflow values travel in a command of their own,
//! in one transaction with the script, and all of it is one round trip:
//!
//! ```text
//! MULTI
//! SET w ""                       the marker says: not committed yet
//! EVALSHA commit_batch.lua …     deletes the marker as its last step, if it commits
//! MSETNX w "" KEY VALUE …        sets all if the marker is gone, nothing otherwise
//! UNLINK w
//! EXEC
//! ```
//!
//! A script that refuses the batch, that fails, or that the server does not know leaves the marker
//! where it is, and so nothing of the batch stays. The script also deletes the old overflow values
//! of these records, since `MSETNX` does nothing if any of its keys exists. Nobody else sees the
//! marker, because transactions run one after the other.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};

/// An overflow value and its key at the server.
pub(crate) type Overflow<'a> = (Vec<u8>, &'a [u8]);

/// Bytes of an overflow value from which on it travels out of band. Below, that is no cheaper.
pub(crate) const OUT_OF_BAND_BYTES: usize = 1_024;

/// What `commit_batch.lua` answers if it has committed, and what `MSETNX` answers if it has set its
/// keys.
pub(crate) const COMMITTED: Value = Value::Int(1);

/// The commit script and the overflow values that depend on it.
#[derive(Debug)]
pub(crate) struct Transaction(Pipeline);

/// Where two of the transaction's commands stand, and so their answers.
const SCRIPT: usize = 1;
const MSETNX: usize = 2;

/// The key that exists from the start of a transaction until its script has committed.
pub(crate) fn marker(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"w"].concat()
}

impl Transaction {
    /// A script that deletes [`marker`] if it commits, and what is set then.
    pub(crate) fn new(script: Cmd, prefix: &str, overflow: &[Overflow<'_>]) -> Transaction {
        let marker = marker(prefix.as_bytes());
        let (mut mark, mut set, mut unmark) =
            (redis::cmd("SET"), redis::cmd("MSETNX"), redis::cmd("UNLINK"));
        mark.arg(&marker).arg("");
        set.arg(&marker).arg("");
        for (key, value) in overflow {
            set.arg(key).arg(*value);
        }
        unmark.arg(&marker);
        // The driver's own transactions do not say whether MULTI or one of the commands was refused.
        let mut commands = redis::pipe();
        for command in [redis::cmd("MULTI"), mark, script, set, unmark, redis::cmd("EXEC")] {
            commands.add_command(command);
        }
        commands.ignore_errors();
        Transaction(commands)
    }

    /// Sends everything, and waits for the script's answer.
    pub(crate) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        script_answer(self.0.query_async(connection).await?)
    }
}

/// Picks the script's answer. If the transaction did not run, that is the first refusal. Either it
/// kept the server from running anything, or it was that of MULTI, and the commands may have run
/// one by one.
fn script_answer(mut answers: Vec<Value>) -> Result<Value, RedisError> {
    if let Some(Value::Array(executed)) = answers.last_mut()
        && MSETNX < executed.len()
    {
        let is_set = executed.get(MSETNX) == Some(&COMMITTED);
        let answer = executed.swap_remove(SCRIPT).extract_error()?;
        if answer == COMMITTED && !is_set {
            let lost = (ErrorKind::UnexpectedReturnType, "a commit without its overflow values");
            return Err(lost.into());
        }
        return Ok(answer);
    }
    let refusal = answers.into_iter().find(|answer| matches!(answer, Value::ServerError(_)));
    let nothing = (ErrorKind::UnexpectedReturnType, "a transaction without an answer");
    refusal.map_or_else(|| Err(nothing.into()), Value::extract_error)
}

#[cfg(test)]
mod tests;
