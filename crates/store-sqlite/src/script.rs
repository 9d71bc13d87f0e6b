//! Statements that travel to a connection's thread together.
//!
//! The texts have few shapes, so that the connection finds them in its cache of prepared
//! statements: a list of rows has one of the lengths of [`LENGTHS`], and the places that are left
//! over are bound to NULL, which equals no key and is skipped by inserts.

use futures::StreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Either, Executor};

/// Lengths of lists of rows. Longer lists become several statements.
const LENGTHS: [usize; 6] = [4, 16, 64, 256, 1_024, LENGTH_MAX];
pub(crate) const LENGTH_MAX: usize = 4_096;

/// Parameters of one row at most, and SQLite's limit on those of a statement.
const ROW_PARAMETERS_MAX: usize = 5;
const PARAMETERS_MAX: usize = 32_766;
const _: () = assert!(LENGTH_MAX * ROW_PARAMETERS_MAX <= PARAMETERS_MAX, "a statement is too long");

/// The limit of a statement. SQLite plans a statement anew for each execution if a parameter alone is
/// the limit, because its value may change the plan; the sign hides the parameter from the planner.
pub(crate) const LIMIT: &str = "LIMIT +?";

/// Longer texts are rare, and prepared anew each time rather than kept.
pub(crate) const CACHED_TEXT_BYTES: usize = 20 << 10;

/// A parameter of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameter<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
    Null,
}

/// Statements and their arguments, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The parts before the last one.
    parts: Vec<Part>,
    last: Part,
}

/// Statements that are prepared as one text.
#[derive(Debug, Default)]
struct Part {
    text: String,
    arguments: SqliteArguments,
    statements: usize,
}

/// A script that did not reach its end.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How many of its statements were carried out. The next one failed, and none after it ran.
    pub(crate) done: usize,
    /// Why it failed.
    pub(crate) error: sqlx::Error,
}

impl Script {
    /// How many statements there are.
    pub(crate) fn statements(&self) -> usize {
        self.parts.iter().chain([&self.last]).map(|part| part.statements).sum()
    }

    /// Ends a part, so that what follows is prepared by itself. A long script whose parts have few
    /// shapes is found in the cache, where the whole of it would be a new text each time.
    pub(crate) fn end_part(&mut self) {
        if self.last.statements > 0 {
            self.parts.push(std::mem::take(&mut self.last));
        }
    }

    /// Returns the texts of the parts.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().chain([&self.last]).map(|part| part.text.as_str())
    }

    /// Adds one statement with its arguments.
    pub(crate) fn statement(
        &mut self,
        text: &str,
        arguments: &[Parameter<'_>],
    ) -> Result<(), sqlx::Error> {
        self.last.text.push_str(text);
        self.last.text.push(';');
        self.last.statements += 1;
        arguments.iter().try_for_each(|argument| self.bind(*argument))
    }

    /// Adds a statement, or several, about a list of rows: `before`, the rows, `after`. The rows
    /// have `N` parameters each, and are numbered from 0 in a column before these if `numbered`.
    pub(crate) fn list<'a, const N: usize>(
        &mut self,
        (before, after): (&str, &str),
        numbered: bool,
        rows: &mut (impl ExactSizeIterator<Item = [Parameter<'a>; N]> + ?Sized),
    ) -> Result<(), sqlx::Error> {
        let mut number = 0_usize;
        while rows.len() > 0 {
            let length = LENGTHS.into_iter().find(|length| *length >= rows.len());
            let length = length.unwrap_or(LENGTH_MAX);
            self.last.text.push_str(before);
            for place in 0..length {
                self.last.text.push_str(if place == 0 { "(" } else { ",(" });
                if numbered {
                    self.last.text.push_str(&number.to_string());
                    self.last.text.push(',');
                }
                number += 1;
                self.last.text.push_str(&["?"; N].join(","));
                self.last.text.push(')');
                for parameter in rows.next().unwrap_or([Parameter::Null; N]) {
                    self.bind(parameter)?;
                }
            }
            self.last.text.push_str(after);
            self.last.text.push(';');
            self.last.statements += 1;
        }
        Ok(())
    }

    fn bind(&mut self, parameter: Parameter<'_>) -> Result<(), sqlx::Error> {
        let bound = match parameter {
            Parameter::Bytes(bytes) => self.last.arguments.add(bytes),
            Parameter::Integer(integer) => self.last.arguments.add(integer),
            Parameter::Null => self.last.arguments.add(None::<i64>),
        };
        bound.map_err(sqlx::Error::Encode)
    }

    /// Carries the statements out, one after the other, up to the first that fails. Returns the rows of
    /// each.
    pub(crate) async fn run(
        self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<Vec<SqliteRow>>, Failure> {
        let mut answers = Vec::with_capacity(self.statements());
        for part in self.parts.into_iter().chain([self.last]) {
            part.run(connection, &mut answers).await?;
        }
        Ok(answers)
    }
}

/// The number of ranges in the part of a text that also asks the other questions.
const RANGES_BESIDE: usize = 4;

/// Numbers of ranges in parts of their own. A part of fewer ranges has empty ones besides.
const RANGE_LENGTHS: [usize; 2] = [16, RANGE_LENGTH_MAX];
pub(crate) const RANGE_LENGTH_MAX: usize = 64;

/// The ranges of one part of a script.
pub(crate) struct RangesOfPart<'a, T> {
    pub(crate) asked: &'a [T],
}

impl<T> RangesOfPart<'_, T> {
    /// Returns ranges as they share the parts of a script.
    pub(crate) fn of(ranges: &[T]) -> impl Iterator<Item = RangesOfPart<'_, T>> {
        ranges.chunks(RANGE_LENGTH_MAX).map(|asked| RangesOfPart { asked })
    }

    /// Begins the part of these ranges, if they have one of their own.
    pub(crate) fn begin(&self, script: &mut Script) {
        if self.has_own_part() {
            script.end_part();
        }
    }

    fn has_own_part(&self) -> bool {
        self.asked.len() > RANGES_BESIDE
    }

    /// Returns the number of empty ranges that the part has besides.
    pub(crate) fn padding(&self) -> usize {
        let asked = self.asked.len();
        let length = RANGE_LENGTHS.into_iter().find(|length| *length >= asked);
        length.filter(|_| self.has_own_part()).unwrap_or(asked) - asked
    }
}

impl Part {
    async fn run(
        self,
        connection: &mut SqliteConnection,
        answers: &mut Vec<Vec<SqliteRow>>,
    ) -> Result<(), Failure> {
        let (end, mut rows) = (answers.len() + self.statements, Vec::new());
        let keep = self.text.len() <= CACHED_TEXT_BYTES;
        let query = sqlx::query_with(AssertSqlSafe(self.text), self.arguments).persistent(keep);
        let mut steps = connection.fetch_many(query);
        while let Some(step) = steps.next().await {
            match step {
                Ok(Either::Right(row)) => rows.push(row),
                Ok(Either::Left(_done)) => answers.push(std::mem::take(&mut rows)),
                Err(error) => return Err(Failure { done: answers.len(), error }),
            }
        }
        // The driver ends the stream without an error when the connection's thread has died.
        if answers.len() < end {
            return Err(Failure { done: answers.len(), error: sqlx::Error::WorkerCrashed });
        }
        Ok(())
    }
}
