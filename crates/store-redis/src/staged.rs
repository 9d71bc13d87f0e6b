//! The rests of long records on their way to the server, beside the script that decides on them.
//!
//! Lua reads every byte of every argument once more, and copies it twice. So a long rest goes to the
//! server in a command of its own, in one transaction with the script, and all of it travels at once:
//! rests are set under the names of their records, by a command behind the script that does nothing
//! if one of its names is taken. One of these names is taken in front of the script, which lets go of
//! it as the last thing that it does. So nothing is left over, whatever becomes of the script.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};

/// Bytes of a rest from which on it goes beside the script. Below, that costs the server as much as
/// going through it.
pub(crate) const STAGED_BYTES: usize = 1_024;

/// What `joined.lua` answers if it has committed, and a command that has set all that it was to set.
pub(crate) const COMMITTED: Value = Value::Int(1);

/// Commands that the server does together, with nothing of anybody else between them. One that fails
/// does not keep it from the others.
#[derive(Debug)]
pub(crate) struct Transaction(Pipeline);

/// Where the script stands among the transaction's commands, and where the one that sets rests.
const SCRIPT: usize = 1;
const SET: usize = 2;

/// The name that is taken while a script has not committed. Every key of the volume begins with `prefix`.
pub(crate) fn taken(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"w"].concat()
}

impl Transaction {
    /// A script that lets go of [`taken`] if it commits, and the rests that are set then under their
    /// records' names.
    pub(crate) fn around(script: Cmd, prefix: &str, rests: &[(Vec<u8>, &[u8])]) -> Transaction {
        let taken = taken(prefix.as_bytes());
        let (mut take, mut set, mut drop) =
            (redis::cmd("SET"), redis::cmd("MSETNX"), redis::cmd("UNLINK"));
        take.arg(&taken).arg("");
        set.arg(&taken).arg("");
        for (name, rest) in rests {
            set.arg(name).arg(*rest);
        }
        drop.arg(&taken);
        // The driver's own transactions do not tell whether MULTI was refused, or what followed it.
        let mut commands = redis::pipe();
        for command in [redis::cmd("MULTI"), take, script, set, drop, redis::cmd("EXEC")] {
            commands.add_command(command);
        }
        commands.ignore_errors();
        Transaction(commands)
    }

    /// Sends everything, and waits for the script's answer.
    pub(crate) async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        answer(self.0.query_async(connection).await?)
    }
}

/// The script's answer among all answers. If there was no transaction, that is the first refusal:
/// either it kept the server from doing anything, or it was that of MULTI, and the others may have
/// been done one by one.
fn answer(mut answers: Vec<Value>) -> Result<Value, RedisError> {
    if let Some(Value::Array(done)) = answers.last_mut()
        && SET < done.len()
    {
        let is_set = done.get(SET) == Some(&COMMITTED);
        let answer = done.swap_remove(SCRIPT).extract_error()?;
        if answer == COMMITTED && !is_set {
            let kept = (ErrorKind::UnexpectedReturnType, "a commit without its long records");
            return Err(kept.into());
        }
        return Ok(answer);
    }
    let refusal = answers.into_iter().find(|answer| matches!(answer, Value::ServerError(_)));
    let nothing = (ErrorKind::UnexpectedReturnType, "a transaction without an answer");
    refusal.map_or_else(|| Err(nothing.into()), Value::extract_error)
}

#[cfg(test)]
mod tests;
