//! The rests of long records on their way to the server, beside the script that decides on them.
//!
//! Lua reads every byte of every argument once more, and copies it twice. So a long rest goes to the
//! server in a command of its own, in one transaction with the script, and all of it travels at once.
//! There are two ways.
//!
//! Of a batch that is committed whole, rests are set under the names of their records, by a command
//! behind the script that does nothing if one of its names is taken. One of these names is taken in
//! front of the script, which lets go of it as the last thing that it does.
//!
//! Of plans that are decided one by one, rests are set in front of the script under names that it is
//! told, and it gives those that are written the names of their records. A command behind it takes
//! away whatever still has the first name.
//!
//! Nobody else sees any of this, and nothing is left over, whatever becomes of the script.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};

/// What `joined.lua` answers if it has committed, and a command that has set all that it was to set.
pub(crate) const COMMITTED: Value = Value::Int(1);

/// Commands that the server does together, with nothing of anybody else between them. One that fails
/// does not keep it from the others.
#[derive(Debug)]
pub(crate) struct Transaction {
    commands: Pipeline,
    /// Which command's answer is wanted.
    wanted: usize,
    /// Which command sets rests if a script says that it has committed.
    sets: Option<usize>,
}

/// What a script calls a rest; `prelude.lua` says what the server calls it.
pub(crate) fn name(position: usize) -> Vec<u8> {
    position.to_string().into_bytes()
}

/// The name that is taken while a script has not committed. Every key of the volume begins with `prefix`.
pub(crate) fn taken(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"w"].concat()
}

impl Transaction {
    /// A script that lets go of [`taken`] if it commits, and the rests that are set then under their
    /// records' names.
    pub(crate) fn before(script: Cmd, prefix: &str, rests: &[(Vec<u8>, &[u8])]) -> Transaction {
        let taken = taken(prefix.as_bytes());
        let (mut take, mut set, mut drop) =
            (redis::cmd("SET"), redis::cmd("MSETNX"), redis::cmd("UNLINK"));
        take.arg(&taken).arg("");
        set.arg(&taken).arg("");
        for (name, rest) in rests {
            set.arg(name).arg(*rest);
        }
        drop.arg(&taken);
        Transaction::new([take, script, set, drop], 1, Some(2))
    }

    /// A script and the rests that its arguments name.
    pub(crate) fn around(script: Cmd, prefix: &str, rests: &[&[u8]]) -> Transaction {
        let (mut before, mut after) = (redis::cmd("MSET"), redis::cmd("UNLINK"));
        for (position, rest) in rests.iter().enumerate() {
            let name = [prefix.as_bytes(), b"w", &name(position)].concat();
            before.arg(&name).arg(*rest);
            after.arg(&name);
        }
        Transaction::new([before, script, after], 1, None)
    }

    fn new<const COUNT: usize>(
        all: [Cmd; COUNT],
        wanted: usize,
        sets: Option<usize>,
    ) -> Transaction {
        // The driver's own transactions do not tell whether MULTI was refused, or what followed it.
        let mut commands = redis::pipe();
        commands.add_command(redis::cmd("MULTI"));
        for command in all {
            commands.add_command(command);
        }
        commands.add_command(redis::cmd("EXEC"));
        commands.ignore_errors();
        Transaction { commands, wanted, sets }
    }

    /// Sends everything, and waits for the answer that is wanted.
    pub(crate) async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        answer(self.commands.query_async(connection).await?, self.wanted, self.sets)
    }
}

/// One command's answer among all answers. If there was no transaction, that is the first refusal:
/// either it kept the server from doing anything, or it was that of MULTI, and the others may have
/// been done one by one.
fn answer(
    mut answers: Vec<Value>,
    wanted: usize,
    sets: Option<usize>,
) -> Result<Value, RedisError> {
    if let Some(Value::Array(done)) = answers.last_mut()
        && wanted < done.len()
    {
        let set = sets.map(|sets| done.get(sets) == Some(&COMMITTED));
        let answer = done.swap_remove(wanted).extract_error()?;
        if answer == COMMITTED && set == Some(false) {
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
