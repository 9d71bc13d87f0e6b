//! Scripts: statements that are sent to the server together, as text.
//!
//! The text has keys and values as hexadecimal literals. These are byte strings for the server with
//! any character set, and no byte can terminate them. A script that is too long for one packet is
//! sent in several. The last statement is always in the last packet, so a script that breaks off
//! before it commits nothing. For example, `x'6162'` is the key `ab`.

use std::fmt::Write;
use std::time::Duration;

use futures::StreamExt;
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Either, Executor};
use tokio::time::{Instant, timeout_at};

use crate::limits::LIMITS;

/// Limit of the time until a script, with all of its packets, is answered.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Limit of the rows of one list. For longer lists the server changes the plan, or makes none.
pub(crate) const LIST_ROWS_MAX: usize = 512;

/// Bytes of text at which a list continues in another statement. A list of keys alone is always
/// shorter.
const STATEMENT_BYTES: usize = 2 << 20;
const _: () = assert!(LIST_ROWS_MAX * (2 * LIMITS.key_bytes + 4) < STATEMENT_BYTES);

/// Bytes of text at which a packet is full. A statement is never split.
const PACKET_BYTES: usize = 12 << 20;

/// The largest packet that the server must accept, with a reserve for the protocol's overhead.
pub(crate) const PACKET_BYTES_MAX: usize = 16 << 20;
const _: () = {
    // A full list and one more row. Bytes are twice as long in hexadecimal.
    let row = 2 * (LIMITS.key_bytes + LIMITS.value_bytes) + 64;
    assert!(STATEMENT_BYTES + row <= PACKET_BYTES, "a list outgrows the packet");
    // All questions of a read may be in one statement, with two bounds and a prefix each.
    let question = 2 * 3 * LIMITS.key_bytes + 512;
    assert!(LIMITS.reads * question <= PACKET_BYTES_MAX, "a read outgrows the packet");
};

/// Statements that are sent to the server together, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    statements: Vec<String>,
}

/// The result of one statement.
#[derive(Debug, Default)]
pub(crate) struct StatementResult {
    pub(crate) rows: Vec<MySqlRow>,
    /// The argument of `last_insert_id(…)`, or 0.
    pub(crate) last_insert_id: u64,
}

/// The failure of a script, some statements of which may have run.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: sqlx::Error,
    /// True if the last statement, which may be COMMIT, may have run.
    pub(crate) last_in_doubt: bool,
}

impl Script {
    /// Returns the number of statements.
    pub(crate) fn len(&self) -> usize {
        self.statements.len()
    }

    /// Returns the statements, in order.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().map(String::as_str)
    }

    /// Adds one statement.
    pub(crate) fn statement(&mut self, text: impl Into<String>) {
        self.statements.push(text.into());
    }

    /// Adds a statement about a list: `before`, the text of each row with commas between, `after`.
    /// Adds several statements if the list is long, and none if it is empty.
    pub(crate) fn list<R>(
        &mut self,
        (before, after): (&str, &str),
        rows: impl IntoIterator<Item = R>,
        row: impl Fn(&mut String, R),
    ) {
        self.joined((before, ",", after), rows, row);
    }

    /// Does the same as [`Script::list`], with `between` instead of commas.
    pub(crate) fn joined<R>(
        &mut self,
        (before, between, after): (&str, &str, &str),
        rows: impl IntoIterator<Item = R>,
        row: impl Fn(&mut String, R),
    ) {
        let mut text = String::new();
        let mut length = 0;
        for item in rows {
            if length == LIST_ROWS_MAX || text.len() >= STATEMENT_BYTES {
                text.push_str(after);
                self.statements.push(std::mem::take(&mut text));
                length = 0;
            }
            text.push_str(if length == 0 { before } else { between });
            row(&mut text, item);
            length += 1;
        }
        if length > 0 {
            text.push_str(after);
            self.statements.push(text);
        }
    }

    /// Returns the texts to send, each with the number of its statements.
    fn packets(self) -> Vec<(String, usize)> {
        let mut packets: Vec<(String, usize)> = Vec::new();
        for statement in self.statements {
            match packets.last_mut() {
                Some((text, count)) if text.len() + statement.len() <= PACKET_BYTES => {
                    text.push(';');
                    text.push_str(&statement);
                    *count += 1;
                }
                _ => packets.push((statement, 1)),
            }
        }
        packets
    }

    /// Runs the statements in order, up to the first that fails. Returns the result of each.
    pub(crate) async fn run(
        self,
        connection: &mut MySqlConnection,
    ) -> Result<Vec<StatementResult>, Failure> {
        let total = self.len();
        let mut answers = Vec::with_capacity(total);
        let mut sent = 0;
        let until = Instant::now() + ANSWER_WAIT;
        for (text, count) in self.packets() {
            sent += count;
            let done = timeout_at(until, exchange(connection, text, &mut answers)).await;
            let error = match done {
                Ok(Ok(())) if answers.len() == sent => continue,
                Ok(Ok(())) => sqlx::Error::Protocol("the server left a statement out".into()),
                Ok(Err(error)) => error,
                Err(_) => sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()),
            };
            // If the server reports an error, the script ended at that statement. If the server
            // reports nothing, all statements that were sent may have run.
            let refused = matches!(error, sqlx::Error::Database(_));
            let last_in_doubt = sent == total && !(refused && answers.len() + 1 < total);
            return Err(Failure { error, last_in_doubt });
        }
        Ok(answers)
    }
}

async fn exchange(
    connection: &mut MySqlConnection,
    text: String,
    answers: &mut Vec<StatementResult>,
) -> Result<(), sqlx::Error> {
    let mut rows = Vec::new();
    let mut steps = connection.fetch_many(sqlx::raw_sql(AssertSqlSafe(text)));
    while let Some(step) = steps.next().await {
        match step? {
            Either::Right(row) => rows.push(row),
            Either::Left(done) => answers.push(StatementResult {
                rows: std::mem::take(&mut rows),
                last_insert_id: done.last_insert_id(),
            }),
        }
    }
    Ok(())
}

/// Appends bytes as a hexadecimal literal.
pub(crate) fn push_bytes(text: &mut String, bytes: &[u8]) {
    text.reserve(2 * bytes.len() + 3);
    text.push_str("x'");
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            text.push(char::from(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }));
        }
    }
    text.push('\'');
}

/// Appends any other text. The text is not quoted, so it must not come from a client.
pub(crate) fn push(text: &mut String, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(text, "{value}");
}

#[cfg(test)]
mod tests;
