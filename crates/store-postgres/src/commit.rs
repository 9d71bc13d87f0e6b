//! Commits: the statements, the retries and the outcomes.
//!
//! This process decides a batch on assumptions, and a function of the server commits the decision
//! if all of them are right. Otherwise the function changes nothing and returns the records that
//! differ. If these refuse all plans, nothing more is sent. Otherwise a second call commits the new
//! decision. If a guard bounds a counter or wants an empty range, or if records changed between the
//! calls, the plans are decided under locks instead, as for roles without functions: in two more
//! round trips.
//!
//! Except in that case each statement is a transaction of its own, so no transaction is open
//! between two round trips. An answer counts only when the server is ready for the next statement,
//! which is after the commit. If the server reports that it aborted a commit, and a retry may help,
//! the commit is retried a few times. If the outcome cannot be known, the error is `Unknown`, and
//! the commit is never retried here.
//!
//! For example, a deadlock is retried; a connection that breaks after the statement was sent is
//! `Unknown`.

use std::time::Duration;

use rand::RngExt as _;
use sqlx::Row;
use sqlx::postgres::PgConnection;
use store::{Assumptions, Found, Key, Plan, StoreError, StoreErrorKind, Verdict, Write};
use tokio::time::{Instant, sleep, timeout};

use crate::arguments::Arguments;
use crate::connections::Connections;
use crate::error::{Failure, is_definite, is_over_bound, unreadable};
use crate::script;

/// How long the client waits for the answer to one try.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// Limit of the tries of a commit that the server aborts.
const TRIES: u32 = 5;

/// Time since the first try after which a failed commit is not tried again.
const TRYING: Duration = Duration::from_secs(5);

/// Upper limit of the pause before the second try. It doubles with each try.
const PAUSE: Duration = Duration::from_millis(10);

/// Limit of the calls of the function in one try: the first, and one with the records that it
/// found.
const CALLS: u32 = 2;

const COMMIT: &str = "select ashlar_commit_3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
     $14, $15, $16, $17, $18, $19, $20, $21, $22)";

/// The way in which a store commits batches, chosen when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the store's function, mostly in one round trip.
    Function,
    /// By plain statements in two round trips, if the role may not create functions.
    Statements,
}

/// Decides and commits plans in one try.
async fn run(
    connection: &mut PgConnection,
    way: Way,
    plans: &[Plan],
) -> Result<Vec<Verdict>, Failure> {
    if way == Way::Function
        && let Some(verdicts) = call_function(connection, plans).await?
    {
        return Ok(verdicts);
    }
    script::commit(connection, plans).await
}

/// Decides plans on assumptions, and commits them by the function. Returns `None` if the plans must
/// be decided under locks. Nothing is changed then.
async fn call_function(
    connection: &mut PgConnection,
    plans: &[Plan],
) -> Result<Option<Vec<Verdict>>, Failure> {
    let mut assumptions = Assumptions::new(plans);
    let mut next = assumptions.decide();
    let mut calls = 0;
    while let Some(decision) = next {
        if decision.is_certain() {
            return Ok(Some(decision.verdicts));
        }
        if calls == CALLS {
            break;
        }
        let Some(arguments) = Arguments::of(&decision, plans) else { break };
        calls += 1;
        match call(connection, &arguments).await.map_err(Failure::after)? {
            Answer::Committed => return Ok(Some(decision.verdicts)),
            // The answer has neither counters nor the reason why a range is not empty.
            Answer::Refused(_) if !decision.bounds.is_empty() || !decision.ranges.is_empty() => {
                break;
            }
            Answer::Refused(found) => next = assumptions.learn(&decision, found),
        }
    }
    Ok(None)
}

/// Decides plans in order, and commits those whose guards hold. Tries several times if the server
/// aborts the transaction.
pub(crate) async fn commit(
    connections: &Connections,
    way: Way,
    plans: Vec<Plan>,
) -> Result<Vec<Verdict>, StoreError> {
    let doing = format!("committing {} plans", plans.len());
    let began = Instant::now();
    let mut tried = 0;
    loop {
        let mut lent = connections.lend().await?;
        tried += 1;
        // Longer than the server's `statement_timeout`, so that the server normally reports the
        // outcome first.
        let Ok(answer) = timeout(ANSWER_DEADLINE, run(&mut lent, way, &plans)).await else {
            lent.broke();
            let late = format!("{doing}: no answer within {ANSWER_DEADLINE:?}");
            tracing::warn!(error = late, "the outcome of a commit is not known");
            return Err(StoreError::new(StoreErrorKind::Unknown, late));
        };
        let failure = match answer {
            Ok(verdicts) => {
                lent.give_back();
                return Ok(verdicts);
            }
            Err(failure) => failure,
        };
        if is_definite(&failure.error) {
            // The state of the session is unknown after an error, so the connection is not reused.
            drop(lent);
        } else {
            lent.broke();
        }
        if !failure.is_worth_another_try() || tried == TRIES || began.elapsed() > TRYING {
            let kind = failure.kind();
            if kind == StoreErrorKind::Unknown {
                tracing::warn!(error = %failure.error, "the outcome of a commit is not known");
            }
            return Err(StoreError::because(kind, doing, failure.error));
        }
        tracing::debug!(error = %failure.error, tried, "a commit was aborted and is tried again");
        sleep(pause(tried)).await;
    }
}

/// Returns a random pause before the next try. Random, so that two commits that disturbed each
/// other do not meet again.
fn pause(tried: u32) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "a pause that nothing depends on")]
    let part = rand::rng().random_range(0.1..1.0);
    PAUSE.saturating_mul(1 << tried.min(8)).mul_f64(part)
}

/// The answer of the function.
enum Answer {
    Committed,
    /// A condition did not hold, so nothing was changed.
    Refused(Found),
}

/// Calls the function that commits a decision if its conditions hold.
async fn call(
    connection: &mut PgConnection,
    arguments: &Arguments<'_>,
) -> Result<Answer, sqlx::Error> {
    let (hashes, exclusive): (Vec<i32>, Vec<bool>) = arguments.locks.iter().copied().unzip();
    let counters = &arguments.counters;
    let row = sqlx::query(COMMIT)
        .bind(hashes)
        .bind(exclusive)
        .bind(&arguments.equal.0)
        .bind(&arguments.equal.1)
        .bind(&arguments.held)
        .bind(&arguments.absent)
        .bind(&arguments.ranges.0)
        .bind(&arguments.ranges.1)
        .bind(&arguments.updates.0)
        .bind(&arguments.updates.1)
        .bind(&arguments.news.0)
        .bind(&arguments.news.1)
        .bind(&arguments.deletes)
        .bind(counters.iter().map(|counter| counter.key).collect::<Vec<_>>())
        .bind(counters.iter().map(|counter| counter.add).collect::<Vec<_>>())
        .bind(counters.iter().map(|counter| counter.floor).collect::<Vec<_>>())
        .bind(&arguments.sets.0)
        .bind(&arguments.sets.1)
        .bind(&arguments.clears)
        .bind(&arguments.bounds.0)
        .bind(&arguments.bounds.1)
        .bind(&arguments.entry[..])
        .fetch_one(connection)
        .await;
    match row {
        Err(error) if is_over_bound(&error) => Ok(Answer::Refused(Found::default())),
        row => match row?.try_get::<Option<Vec<Option<Vec<u8>>>>, _>(0)? {
            None => Ok(Answer::Committed),
            Some(list) => found(list).map(Answer::Refused),
        },
    }
}

/// Parses the records that the function found: for each its key and its value.
fn found(list: Vec<Option<Vec<u8>>>) -> Result<Found, sqlx::Error> {
    let mut found = Found::default();
    let mut list = list.into_iter();
    while let (Some(key), Some(value)) = (list.next(), list.next()) {
        let key = key.filter(|key| key.len() >= Key::PREFIX_BYTES);
        let key = key.ok_or_else(|| unreadable("a found record without a key"))?;
        found.records.insert(Key::from_bytes(key), value.map(Into::into));
    }
    Ok(found)
}

/// Returns true if a plan puts or deletes records, whose keys then belong in the change feed.
pub(crate) fn changes_records(plan: &Plan) -> bool {
    plan.writes.iter().any(|write| matches!(write, Write::Put(..) | Write::Delete(_)))
}

/// Returns the error of a commit whose task has ended without an answer: the outcome is unknown.
pub(crate) fn lost(plans: usize) -> StoreError {
    let doing = format!("committing {plans} plans: its task is gone");
    StoreError::new(StoreErrorKind::Unknown, doing)
}
