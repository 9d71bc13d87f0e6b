//! Scripts: several statements that the connection's thread gets in one call.
//!
//! Scripts have few different texts, so that the connection finds them in its cache of prepared
//! statements. A list of rows has one of the lengths of [`LENGTHS`]. Unused rows are bound to NULL,
//! which equals no key and which inserts skip. For example, a list of 5 keys has the text for 16.

use futures::StreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Either, Executor};

/// Lengths that a list of rows in a statement can have. A shorter list is filled with rows of NULL;
/// a list that exceeds all of them becomes several statements.
const LENGTHS: [usize; 6] = [4, 16, 64, 256, 1_024, LENGTH_MAX];
pub(crate) const LENGTH_MAX: usize = 4_096;

/// Largest number of parameters of one row, and SQLite's limit for one statement.
const ROW_PARAMETERS_MAX: usize = 5;
const PARAMETERS_MAX: usize = 32_766;
const _: () = assert!(LENGTH_MAX * ROW_PARAMETERS_MAX <= PARAMETERS_MAX, "a statement is too long");

/// The clause that limits the rows. If a parameter alone is the limit, SQLite plans the statement
/// again for each execution, because the value may change the plan. The sign hides the parameter
/// from the planner.
pub(crate) const LIMIT: &str = "LIMIT +?";

/// The longest text that the connection keeps as a prepared statement, in bytes. Longer texts are
/// rare, and are prepared for each use.
pub(crate) const CACHED_TEXT_BYTES: usize = 20 << 10;

/// The value of one parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameter<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
    Null,
}

/// Statements and their parameters, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// All parts (texts that are prepared as a whole) except the last one.
    parts: Vec<Part>,
    last: Part,
}

/// Statements that are prepared as one text, and their parameters.
#[derive(Debug, Default)]
struct Part {
    text: String,
    arguments: SqliteArguments,
    statements: usize,
}

/// The failure of a script, some statements of which may have succeeded.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Number of statements that succeeded. The next one failed, and none after it ran.
    pub(crate) done: usize,
    /// The cause.
    pub(crate) error: sqlx::Error,
}

impl Script {
    /// Returns the number of statements in all parts of the script.
    pub(crate) fn statements(&self) -> usize {
        self.parts.iter().chain([&self.last]).map(|part| part.statements).sum()
    }

    /// Ends a part, so that the next statements are prepared as a text of their own. A long script
    /// of parts with few shapes is found in the cache; as one text it would be new each time.
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

    /// Adds one statement with its parameters.
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

    /// Adds one or several statements for a list of rows: `before`, the rows, `after`. Each row has
    /// `N` parameters. If `numbered` is true, a column before them has the row's number, from 0.
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

    /// Runs the statements in order, up to the first that fails. Returns the rows of each
    /// statement.
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

/// Largest number of range questions that share a part (one prepared text) with other questions.
const RANGES_INLINE_MAX: usize = 4;

/// Numbers of range questions that a part (one prepared text) of their own can have. A part with
/// fewer questions is padded with ranges that find nothing.
const RANGE_LENGTHS: [usize; 2] = [16, RANGE_LENGTH_MAX];
pub(crate) const RANGE_LENGTH_MAX: usize = 64;

/// The range questions of one part of a script. A part is a text that is prepared as a whole.
pub(crate) struct RangesOfPart<'a, T> {
    pub(crate) asked: &'a [T],
}

impl<T> RangesOfPart<'_, T> {
    /// Splits ranges into the parts of a script.
    pub(crate) fn of(ranges: &[T]) -> impl Iterator<Item = RangesOfPart<'_, T>> {
        ranges.chunks(RANGE_LENGTH_MAX).map(|asked| RangesOfPart { asked })
    }

    /// Begins a new part if these ranges need one of their own.
    pub(crate) fn begin(&self, script: &mut Script) {
        if self.has_own_part() {
            script.end_part();
        }
    }

    fn has_own_part(&self) -> bool {
        self.asked.len() > RANGES_INLINE_MAX
    }

    /// Returns the number of ranges that find nothing, with which the part is padded to one of the
    /// lengths.
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
        // If the connection's thread has died, the driver ends the stream without an error.
        if answers.len() < end {
            return Err(Failure { done: answers.len(), error: sqlx::Error::WorkerCrashed });
        }
        Ok(())
    }
}
