//! Commits: the statements, the retries and the outcomes.
//!
//! The first statement assumes that all guards hold. If one does not, it changes nothing, and a
//! second statement decides plan by plan, so a refusal costs a second round trip. If a guard of the
//! batch bounds a counter, the plans are decided in this process instead, as for roles without
//! functions: in two round trips, with the counters locked meanwhile.
//!
//! Except in that case each statement is a transaction of its own, so no transaction is open
//! between two round trips. An answer counts only when the server is ready for the next statement,
//! which is after the commit. If the server reports that it aborted a commit, and a retry may help,
//! the commit is retried a few times. If the outcome cannot be known, the error is `Unknown`, and
//! the commit is never retried here.
//!
//! For example, a deadlock is retried; a connection that breaks after the statement was sent is
//! `Unknown`.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use rand::RngExt as _;
use sqlx::Row;
use sqlx::postgres::PgConnection;
use store::{Plan, StoreError, StoreErrorKind, Verdict, Write};
use tokio::time::{Instant, sleep, timeout};

use crate::conflict_waves::ConflictWaves;
use crate::connections::Connections;
use crate::error::{Failure, is_definite, is_over_bound, unreadable};
use crate::optimistic::OptimisticBatch;
use crate::script;

/// How long the client waits for the answer to one try.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// Limit of the tries of a commit that the server aborts.
const TRIES: u32 = 5;

/// Time since the first try after which a failed commit is not tried again.
const TRYING: Duration = Duration::from_secs(5);

/// Upper limit of the pause before the second try. It doubles with each try.
const PAUSE: Duration = Duration::from_millis(10);

const COMMIT_OPTIMISTIC: &str = "select ashlar_commit_whole_2($1, $2, $3, $4, $5, $6, $7, $8, $9, \
     $10, $11, $12, $13, $14, $15, $16, $17)";

const COMMIT: &str = "select failed, met from ashlar_commit_2($1, $2, $3, $4, $5, $6, $7, $8, $9, \
     $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";

/// The way in which a store commits batches, chosen when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the store's functions, mostly in one round trip.
    Functions,
    /// By plain statements in two round trips, if the role may not create functions.
    Statements,
}

/// The plans of one call of `commit`, in the forms that the statements need, built once for all
/// tries.
struct Batch<'a> {
    plans: &'a [Plan],
    way: Way,
    optimistic: Option<OptimisticBatch<'a>>,
    /// True if a guard `AtMost` of any plan bounds a counter.
    bounded: bool,
    waves: OnceLock<ConflictWaves>,
}

impl<'a> Batch<'a> {
    fn of(plans: &'a [Plan], way: Way) -> Batch<'a> {
        let optimistic = if way == Way::Functions { OptimisticBatch::of(plans) } else { None };
        let bounded = plans.iter().any(|plan| plan.bounded_counters().next().is_some());
        Batch { plans, way, optimistic, bounded, waves: OnceLock::new() }
    }

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<Verdict>, Failure> {
        if self.way == Way::Statements {
            return script::commit(connection, self.plans).await;
        }
        if let Some(optimistic) = &self.optimistic
            && call_optimistic(connection, optimistic).await.map_err(Failure::after)?
        {
            return Ok(vec![Verdict::Committed; self.plans.len()]);
        }
        // The statement changed nothing: a guard did not hold, or a record that was expected to be
        // new exists.
        if self.bounded {
            return script::commit(connection, self.plans).await;
        }
        let waves = self.waves.get_or_init(|| ConflictWaves::of(self.plans));
        call(connection, waves).await.map_err(Failure::after)
    }
}

/// Decides plans in order, and commits those whose guards hold. Tries several times if the server
/// aborts the transaction.
pub(crate) async fn commit(
    connections: &Connections,
    way: Way,
    plans: Vec<Plan>,
) -> Result<Vec<Verdict>, StoreError> {
    let doing = format!("committing {} plans", plans.len());
    let batch = Batch::of(&plans, way);
    let began = Instant::now();
    let mut tried = 0;
    loop {
        let mut lent = connections.lend().await?;
        tried += 1;
        // Longer than the server's `statement_timeout`, so that the server normally reports the
        // outcome first.
        let Ok(answer) = timeout(ANSWER_DEADLINE, batch.run(&mut lent)).await else {
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

/// Calls the function that assumes that all guards hold. Returns true if it committed the batch,
/// and false if it changed nothing because a guard did not hold.
async fn call_optimistic(
    connection: &mut PgConnection,
    optimistic: &OptimisticBatch<'_>,
) -> Result<bool, sqlx::Error> {
    fn keys<'a>(map: &BTreeMap<&'a [u8], &'a [u8]>) -> Vec<&'a [u8]> {
        map.keys().copied().collect()
    }
    fn values<'a>(map: &BTreeMap<&'a [u8], &'a [u8]>) -> Vec<&'a [u8]> {
        map.values().copied().collect()
    }
    let (hashes, exclusive): (Vec<i32>, Vec<bool>) = optimistic.locks.iter().copied().unzip();
    let row = sqlx::query(COMMIT_OPTIMISTIC)
        .bind(hashes)
        .bind(exclusive)
        .bind(keys(&optimistic.equal))
        .bind(values(&optimistic.equal))
        .bind(optimistic.held.iter().copied().collect::<Vec<_>>())
        .bind(optimistic.absent.iter().copied().collect::<Vec<_>>())
        .bind(keys(&optimistic.updates))
        .bind(values(&optimistic.updates))
        .bind(keys(&optimistic.news))
        .bind(values(&optimistic.news))
        .bind(optimistic.deletes.iter().copied().collect::<Vec<_>>())
        .bind(optimistic.counters.iter().map(|counter| counter.key).collect::<Vec<_>>())
        .bind(optimistic.counters.iter().map(|counter| counter.add).collect::<Vec<_>>())
        .bind(optimistic.counters.iter().map(|counter| counter.floor).collect::<Vec<_>>())
        .bind(optimistic.bounds.keys().copied().collect::<Vec<_>>())
        .bind(optimistic.bounds.values().copied().collect::<Vec<_>>())
        .bind(&optimistic.entry[..])
        .fetch_one(connection)
        .await;
    match row {
        Err(error) if is_over_bound(&error) => Ok(false),
        row => row?.try_get(0),
    }
}

/// Calls the function that decides plan by plan, in conflict waves, and returns the verdict of each
/// plan.
async fn call(
    connection: &mut PgConnection,
    waves: &ConflictWaves,
) -> Result<Vec<Verdict>, sqlx::Error> {
    let (hashes, exclusive): (Vec<i32>, Vec<bool>) = waves.locks.iter().copied().unzip();
    let (members, conditions): (Vec<i32>, Vec<i32>) = waves.members.iter().copied().unzip();
    let all = &waves.conditions;
    let row = sqlx::query(COMMIT)
        .bind(hashes)
        .bind(exclusive)
        .bind(waves.ends.concat())
        .bind(all.iter().map(|it| it.kind).collect::<Vec<_>>())
        .bind(all.iter().map(|it| &it.key[..]).collect::<Vec<_>>())
        .bind(all.iter().map(|it| it.arg.as_deref()).collect::<Vec<_>>())
        .bind(members)
        .bind(conditions)
        .bind(waves.puts.iter().map(|(plan, ..)| *plan).collect::<Vec<_>>())
        .bind(waves.puts.iter().map(|(_, key, _)| key.as_bytes()).collect::<Vec<_>>())
        .bind(waves.puts.iter().map(|(.., value)| &value[..]).collect::<Vec<_>>())
        .bind(waves.deletes.iter().map(|(plan, _)| *plan).collect::<Vec<_>>())
        .bind(waves.deletes.iter().map(|(_, key)| key.as_bytes()).collect::<Vec<_>>())
        .bind(waves.changes.iter().map(|it| it.plan).collect::<Vec<_>>())
        .bind(waves.changes.iter().map(|it| it.kind).collect::<Vec<_>>())
        .bind(waves.changes.iter().map(|it| it.key.0.as_bytes()).collect::<Vec<_>>())
        .bind(waves.changes.iter().map(|it| it.number).collect::<Vec<_>>())
        .bind(waves.kinds)
        .bind(waves.pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>())
        .fetch_one(connection)
        .await?;
    let failed: Vec<i32> = row.try_get(0)?;
    let met: Vec<Option<Vec<u8>>> = row.try_get(1)?;
    waves.verdicts(&failed, met).ok_or_else(|| unreadable("conditions of another batch"))
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
