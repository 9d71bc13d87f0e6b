//! The rests of long records on their way to the server, beside the script that decides on them.
//!
//! Lua reads every byte of every argument once more, and copies it twice. So a script is told of a
//! long rest by a name only: a command in front of the script keeps the rest under that name, the
//! script gives it the name of its record if that is written, and a command behind the script takes
//! away whatever still has the first name. The three are one transaction, and all of it travels at
//! once: nobody else sees these names, and none is left over, whatever becomes of the script.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};

/// Commands that the server does together, with nothing of anybody else between them. One that fails
/// does not keep it from the others.
#[derive(Debug)]
pub(crate) struct Transaction {
    commands: Pipeline,
    /// Which command's answer is wanted.
    wanted: usize,
}

/// What a script calls a rest; `prelude.lua` says what the server calls it.
pub(crate) fn name(position: usize) -> Vec<u8> {
    position.to_string().into_bytes()
}

impl Transaction {
    /// A command by itself, which shows that the server does transactions for us.
    pub(crate) fn of(command: Cmd) -> Transaction {
        Transaction::new([command], 0)
    }

    /// A script and the rests that its arguments name. Every key of the volume begins with `prefix`.
    pub(crate) fn around(script: Cmd, prefix: &str, rests: &[&[u8]]) -> Transaction {
        let (mut before, mut after) = (redis::cmd("MSET"), redis::cmd("UNLINK"));
        for (position, rest) in rests.iter().enumerate() {
            let name = [prefix.as_bytes(), b"w", &name(position)].concat();
            before.arg(&name).arg(*rest);
            after.arg(&name);
        }
        Transaction::new([before, script, after], 1)
    }

    fn new<const COUNT: usize>(all: [Cmd; COUNT], wanted: usize) -> Transaction {
        // The driver's own transactions do not tell whether MULTI was refused, or what followed it.
        let mut commands = redis::pipe();
        commands.add_command(redis::cmd("MULTI"));
        for command in all {
            commands.add_command(command);
        }
        commands.add_command(redis::cmd("EXEC"));
        commands.ignore_errors();
        Transaction { commands, wanted }
    }

    /// Sends everything, and waits for the answer that is wanted.
    pub(crate) async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        answer(self.commands.query_async(connection).await?, self.wanted)
    }
}

/// One command's answer among all answers. If there was no transaction, that is the first refusal:
/// either it kept the server from doing anything, or it was that of MULTI, and the others may have
/// been done one by one.
fn answer(mut answers: Vec<Value>, wanted: usize) -> Result<Value, RedisError> {
    if let Some(Value::Array(done)) = answers.last_mut()
        && wanted < done.len()
    {
        return done.swap_remove(wanted).extract_error();
    }
    let refusal = answers.into_iter().find(|answer| matches!(answer, Value::ServerError(_)));
    let nothing = (ErrorKind::UnexpectedReturnType, "a transaction without an answer");
    refusal.map_or_else(|| Err(nothing.into()), Value::extract_error)
}

#[cfg(test)]
mod tests;
