//! Commits: one statement, and what is done if it fails.
//!
//! The statement assumes that all guards hold. If they do not, it changes nothing, and a second
//! statement decides plan by plan. So a refusal costs a second trip. If some guard of the batch bounds
//! a counter, plans are decided here instead, as for roles without functions: in two trips, with the
//! counters locked meanwhile.
//!
//! But for those, each statement is a transaction by itself, so none is open between two trips. An
//! answer counts only when the server is ready for the next statement, which is after the commit. A
//! commit that the server says it has aborted is tried again a few times, if that may help. If the
//! outcome cannot be known, it is `Unknown` and never tried again here.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use rand::RngExt as _;
use sqlx::Row;
use sqlx::postgres::PgConnection;
use store::{Plan, StoreError, StoreErrorKind, Verdict, Write};
use tokio::time::{Instant, sleep, timeout};

use crate::connections::Connections;
use crate::error::{Failure, is_definite, is_over_bound, unreadable};
use crate::rounds::Rounds;
use crate::script;
use crate::whole::Whole;

/// How long this side waits for the answer to one try.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// How often a commit is tried that the server aborts.
const TRIES: u32 = 5;

/// After this time a commit is not tried again.
const TRYING: Duration = Duration::from_secs(5);

/// The longest pause before the second try; it doubles from try to try.
const PAUSE: Duration = Duration::from_millis(10);

const COMMIT_WHOLE: &str = "select ashlar_commit_whole_2($1, $2, $3, $4, $5, $6, $7, $8, $9, \
     $10, $11, $12, $13, $14, $15, $16, $17)";

const COMMIT: &str = "select failed, met from ashlar_commit_2($1, $2, $3, $4, $5, $6, $7, $8, $9, \
     $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";

/// How batches are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By our functions, mostly in one trip.
    Functions,
    /// By plain statements in two trips, if the role may not make functions.
    Statements,
}

/// A batch in the shapes that its way needs, built once for all tries.
struct Batch<'a> {
    plans: &'a [Plan],
    way: Way,
    whole: Option<Whole<'a>>,
    /// Some guard bounds a counter.
    bounded: bool,
    rounds: OnceLock<Rounds>,
}

impl<'a> Batch<'a> {
    fn of(plans: &'a [Plan], way: Way) -> Batch<'a> {
        let whole = if way == Way::Functions { Whole::of(plans) } else { None };
        let bounded = plans.iter().any(|plan| plan.bounded_counters().next().is_some());
        Batch { plans, way, whole, bounded, rounds: OnceLock::new() }
    }

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<Verdict>, Failure> {
        if self.way == Way::Statements {
            return script::commit(connection, self.plans).await;
        }
        if let Some(whole) = &self.whole
            && call_whole(connection, whole).await.map_err(Failure::after)?
        {
            return Ok(vec![Verdict::Committed; self.plans.len()]);
        }
        // Nothing has happened: some guard did not hold, or a record that seemed new was not.
        if self.bounded {
            return script::commit(connection, self.plans).await;
        }
        let rounds = self.rounds.get_or_init(|| Rounds::of(self.plans));
        call(connection, rounds).await.map_err(Failure::after)
    }
}

/// Decides plans and carries them out.
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
            // Its state is unknown, so it is not used again.
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

fn pause(tried: u32) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "a pause that nothing depends on")]
    let part = rand::rng().random_range(0.1..1.0);
    PAUSE.saturating_mul(1 << tried.min(8)).mul_f64(part)
}

/// Calls the function for the usual case. Returns whether it applied.
async fn call_whole(connection: &mut PgConnection, whole: &Whole<'_>) -> Result<bool, sqlx::Error> {
    fn keys<'a>(map: &BTreeMap<&'a [u8], &'a [u8]>) -> Vec<&'a [u8]> {
        map.keys().copied().collect()
    }
    fn values<'a>(map: &BTreeMap<&'a [u8], &'a [u8]>) -> Vec<&'a [u8]> {
        map.values().copied().collect()
    }
    let (hashes, exclusive): (Vec<i32>, Vec<bool>) = whole.locks.iter().copied().unzip();
    let row = sqlx::query(COMMIT_WHOLE)
        .bind(hashes)
        .bind(exclusive)
        .bind(keys(&whole.equal))
        .bind(values(&whole.equal))
        .bind(whole.held.iter().copied().collect::<Vec<_>>())
        .bind(whole.absent.iter().copied().collect::<Vec<_>>())
        .bind(keys(&whole.updates))
        .bind(values(&whole.updates))
        .bind(keys(&whole.news))
        .bind(values(&whole.news))
        .bind(whole.deletes.iter().copied().collect::<Vec<_>>())
        .bind(whole.counters.iter().map(|counter| counter.key).collect::<Vec<_>>())
        .bind(whole.counters.iter().map(|counter| counter.add).collect::<Vec<_>>())
        .bind(whole.counters.iter().map(|counter| counter.floor).collect::<Vec<_>>())
        .bind(whole.bounds.keys().copied().collect::<Vec<_>>())
        .bind(whole.bounds.values().copied().collect::<Vec<_>>())
        .bind(&whole.entry[..])
        .fetch_one(connection)
        .await;
    match row {
        Err(error) if is_over_bound(&error) => Ok(false),
        row => row?.try_get(0),
    }
}

/// Calls the function for all other cases.
async fn call(connection: &mut PgConnection, rounds: &Rounds) -> Result<Vec<Verdict>, sqlx::Error> {
    let (hashes, exclusive): (Vec<i32>, Vec<bool>) = rounds.locks.iter().copied().unzip();
    let (members, conditions): (Vec<i32>, Vec<i32>) = rounds.members.iter().copied().unzip();
    let all = &rounds.conditions;
    let row = sqlx::query(COMMIT)
        .bind(hashes)
        .bind(exclusive)
        .bind(rounds.ends.concat())
        .bind(all.iter().map(|it| it.kind).collect::<Vec<_>>())
        .bind(all.iter().map(|it| &it.key[..]).collect::<Vec<_>>())
        .bind(all.iter().map(|it| it.arg.as_deref()).collect::<Vec<_>>())
        .bind(members)
        .bind(conditions)
        .bind(rounds.puts.iter().map(|(plan, ..)| *plan).collect::<Vec<_>>())
        .bind(rounds.puts.iter().map(|(_, key, _)| key.as_bytes()).collect::<Vec<_>>())
        .bind(rounds.puts.iter().map(|(.., value)| &value[..]).collect::<Vec<_>>())
        .bind(rounds.deletes.iter().map(|(plan, _)| *plan).collect::<Vec<_>>())
        .bind(rounds.deletes.iter().map(|(_, key)| key.as_bytes()).collect::<Vec<_>>())
        .bind(rounds.changes.iter().map(|it| it.plan).collect::<Vec<_>>())
        .bind(rounds.changes.iter().map(|it| it.kind).collect::<Vec<_>>())
        .bind(rounds.changes.iter().map(|it| it.key.0.as_bytes()).collect::<Vec<_>>())
        .bind(rounds.changes.iter().map(|it| it.number).collect::<Vec<_>>())
        .bind(rounds.kinds)
        .bind(rounds.pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>())
        .fetch_one(connection)
        .await?;
    let failed: Vec<i32> = row.try_get(0)?;
    let met: Vec<Option<Vec<u8>>> = row.try_get(1)?;
    rounds.verdicts(&failed, met).ok_or_else(|| unreadable("conditions that nobody named"))
}

/// Whether a plan changes records, which adds an entry to the feed.
pub(crate) fn changes_records(plan: &Plan) -> bool {
    plan.writes.iter().any(|write| matches!(write, Write::Put(..) | Write::Delete(_)))
}

/// What a commit says when its task is gone.
pub(crate) fn lost(plans: usize) -> StoreError {
    let doing = format!("committing {plans} plans: its task is gone");
    StoreError::new(StoreErrorKind::Unknown, doing)
}
