//! Sends large overflow values (the rest of long records, after their first 252 bytes) out of band:
//! in a command beside the commit script, not as its arguments.
//!
//! Lua hashes each byte of an argument and copies it twice. For contents of 60,000 bytes that is
//! half of a commit's cost for the server. So large overflow values are sent in a command of their
//! own, in one transaction with the script, and all of it is one round trip:
//!
//! ```text
//! MULTI
//! SET w ""                       the marker means: not committed yet
//! EVALSHA commit.lua …           deletes the marker as its last step, if it commits
//! MSETNX w "" KEY VALUE …        sets all if the marker is gone, nothing otherwise
//! UNLINK w
//! EXEC
//! ```
//!
//! If the script refuses the batch, fails, or is unknown to the server, the marker stays, and no
//! overflow value is set. The script also deletes the old overflow values of these records, since
//! `MSETNX` does nothing if any of its keys exists. No other client sees the marker, because
//! transactions run one after the other.
//!
//! For example, a PUT with 60,000 bytes that loses a race: the script keeps the marker, `MSETNX`
//! sets nothing, and `UNLINK` removes the marker.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};

/// An overflow value, that is, the rest of a long record after its first bytes, and before it the
/// key under which the server keeps it.
pub(crate) type Overflow<'a> = (Vec<u8>, &'a [u8]);

/// Least size of an overflow value that is sent beside the script, in bytes. For smaller ones this
/// is not cheaper.
pub(crate) const OUT_OF_BAND_BYTES: usize = 1_024;

/// The answer of `commit.lua` if it committed, and of `MSETNX` if it set its keys.
pub(crate) const COMMITTED: Value = Value::Int(1);

/// A transaction of the server: the commit script, and the overflow values that are set if it
/// commits.
#[derive(Debug)]
pub(crate) struct Transaction(Pipeline);

/// Positions of two commands of the transaction, and of their answers.
const SCRIPT: usize = 1;
const MSETNX: usize = 2;

/// Returns the key of the marker, which exists from the start of a transaction until its script has
/// committed.
pub(crate) fn marker(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"w"].concat()
}

impl Transaction {
    /// Joins a commit script, which deletes the [`marker`] if it commits, with the overflow values
    /// to set then.
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
        // Built by hand: the driver's own transactions do not report if MULTI or one of the
        // commands was refused.
        let mut commands = redis::pipe();
        for command in [redis::cmd("MULTI"), mark, script, set, unmark, redis::cmd("EXEC")] {
            commands.add_command(command);
        }
        commands.ignore_errors();
        Transaction(commands)
    }

    /// Sends the transaction, and returns the script's answer.
    pub(crate) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        script_answer(self.0.query_async(connection).await?)
    }
}

/// Returns the script's answer. If the transaction did not run, returns the first refusal: the
/// server either ran nothing because of it, or refused MULTI itself, and then may have run the
/// commands one by one.
fn script_answer(mut answers: Vec<Value>) -> Result<Value, RedisError> {
    if let Some(Value::Array(executed)) = answers.last_mut()
        && MSETNX < executed.len()
    {
        // The script deleted all keys of the values, so after a commit MSETNX must have set them.
        let is_set = executed.get(MSETNX) == Some(&COMMITTED);
        let answer = executed.swap_remove(SCRIPT).extract_error()?;
        if answer == COMMITTED && !is_set {
            let lost = (ErrorKind::UnexpectedReturnType, "a commit without its overflow values");
            return Err(lost.into());
        }
        return Ok(answer);
    }
    first_refusal(answers)
}

/// Returns the first error among the answers to a transaction that did not run.
pub(crate) fn first_refusal(answers: Vec<Value>) -> Result<Value, RedisError> {
    let refusal = answers.into_iter().find(|answer| matches!(answer, Value::ServerError(_)));
    let nothing = (ErrorKind::UnexpectedReturnType, "a transaction without an answer");
    refusal.map_or_else(|| Err(nothing.into()), Value::extract_error)
}

#[cfg(test)]
mod tests;
