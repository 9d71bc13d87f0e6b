//! Commits the plans of a batch one by one: the script runs once for each plan, all in one
//! transaction, and all of it is one round trip.
//!
//! ```text
//! MULTI
//! EVALSHA commit.lua …           for each plan; adds the keys that it changes to the entry `w`
//! EVAL append_feed.lua           appends the entry, if there is one, to the change feed
//! EXEC
//! ```
//!
//! So each plan sees the writes of earlier ones, no other commit comes between them, and the batch
//! has one entry in the feed. If the connection breaks, all plans or none are committed, and the
//! outcome of the batch is unknown. If the server does not know the script, no plan has run.
//!
//! For example, a bucket is at its quota, and a batch has two PUTs into it and a DELETE. The
//! scripts of the two PUTs return the counter, and the third script commits.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};

use crate::overflow::first_refusal;

/// A transaction of the server: a commit script for each plan of a batch.
#[derive(Debug)]
pub(crate) struct Sequence(Pipeline);

impl Sequence {
    pub(crate) fn new(scripts: Vec<Cmd>, prefix: &str) -> Sequence {
        let mut append = redis::cmd("EVAL");
        append.arg(include_str!("append_feed.lua")).arg("1").arg(prefix);
        let mut commands = redis::pipe();
        commands.add_command(redis::cmd("MULTI"));
        for command in scripts.into_iter().chain([append, redis::cmd("EXEC")]) {
            commands.add_command(command);
        }
        commands.ignore_errors();
        Sequence(commands)
    }

    /// Sends the transaction, and returns the list of the scripts' answers, errors included.
    pub(crate) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        script_answers(self.0.query_async(connection).await?)
    }
}

/// Returns the scripts' answers. Fails if the transaction did not run, if the server does not know
/// the script, or if a commit has no entry in the feed.
fn script_answers(mut answers: Vec<Value>) -> Result<Value, RedisError> {
    let Some(Value::Array(executed)) = answers.last_mut() else { return first_refusal(answers) };
    let mut executed = std::mem::take(executed);
    let lost = (ErrorKind::UnexpectedReturnType, "a transaction without an entry in the feed");
    match executed.pop() {
        None | Some(Value::ServerError(_)) => return Err(lost.into()),
        Some(_) => {}
    }
    // All scripts are the same one, so none has run.
    let is_unknown =
        |answer: &&Value| matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT");
    match executed.iter().find(is_unknown) {
        Some(unknown) => unknown.clone().extract_error(),
        None => Ok(Value::Array(executed)),
    }
}

#[cfg(test)]
mod tests;
