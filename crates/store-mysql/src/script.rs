//! Statements that travel to the server together, as text.
//!
//! Keys and values stand in the text as hexadecimal literals, which are strings of bytes to the
//! server whatever its character sets are, and which nothing in them can end. A script that is too
//! long for one packet travels in several; its last statement is always in the last one, so that
//! nothing is committed by a script that broke off before that was sent.

use std::fmt::Write;
use std::time::Duration;

use futures::StreamExt;
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Either, Executor};
use tokio::time::{Instant, timeout_at};

use crate::limits::LIMITS;

/// How long a script may take, all its packets together.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Rows of one list. The server plans longer lists differently, or not at all.
pub(crate) const LIST_ROWS_MAX: usize = 512;

/// Bytes of text at which a list is continued by another statement. A list of keys alone does not
/// come that far.
const STATEMENT_BYTES: usize = 2 << 20;
const _: () = assert!(LIST_ROWS_MAX * (2 * LIMITS.key_bytes + 4) < STATEMENT_BYTES);

/// Bytes of text at which a packet is full. A statement is never split.
const PACKET_BYTES: usize = 12 << 20;

/// The largest packet that the server must accept, with room for what goes around the text.
pub(crate) const PACKET_BYTES_MAX: usize = 16 << 20;
const _: () = {
    // A full list and one more row; bytes are twice as long in hexadecimal.
    let row = 2 * (LIMITS.key_bytes + LIMITS.value_bytes) + 64;
    assert!(STATEMENT_BYTES + row <= PACKET_BYTES, "a list outgrows the packet");
    // A read's questions may all stand in one statement, with two bounds and a prefix each.
    let question = 2 * 3 * LIMITS.key_bytes + 512;
    assert!(LIMITS.reads * question <= PACKET_BYTES_MAX, "a read outgrows the packet");
};

/// Statements, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    statements: Vec<String>,
}

/// The result of one statement.
#[derive(Debug, Default)]
pub(crate) struct StatementResult {
    pub(crate) rows: Vec<MySqlRow>,
    /// What `last_insert_id(…)` was set to, or 0.
    pub(crate) last_insert_id: u64,
}

/// A script that did not reach its end.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: sqlx::Error,
    /// Whether the last statement may have run all the same.
    pub(crate) last_in_doubt: bool,
}

impl Script {
    /// How many statements there are.
    pub(crate) fn len(&self) -> usize {
        self.statements.len()
    }

    /// The statements, in order.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().map(String::as_str)
    }

    /// Adds one statement.
    pub(crate) fn statement(&mut self, text: impl Into<String>) {
        self.statements.push(text.into());
    }

    /// Adds a statement about a list, or several if it is long, or none if it is empty: `before`,
    /// what `row` writes of each with commas between, `after`.
    pub(crate) fn list<R>(
        &mut self,
        (before, after): (&str, &str),
        rows: impl IntoIterator<Item = R>,
        row: impl Fn(&mut String, R),
    ) {
        self.joined((before, ",", after), rows, row);
    }

    /// As [`Script::list`], with `between` instead of commas.
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

    /// The texts to send, each with the number of its statements.
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

    /// Runs the statements, one after the other, up to the first that fails. Returns the result of
    /// each.
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
            // If the server reports an error, the script ended at that statement. If it reports
            // nothing, it may have run all that was sent.
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

/// Writes bytes as a hexadecimal literal.
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

/// Writes anything else. It is not quoted, so it must not come from outside.
pub(crate) fn push(text: &mut String, what: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(text, "{what}");
}

#[cfg(test)]
mod tests;
