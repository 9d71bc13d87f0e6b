//! Commits: sends decisions to the script `commit.lua`, and parses its answers.
//!
//! This process decides a batch on assumptions, and the script commits the decision if all of them
//! are right. Otherwise the script changes nothing and returns the records that differ. If these
//! refuse all plans, nothing more is sent; otherwise a second call commits the new decision. A
//! batch that is not decided then goes plan by plan, in one more round trip (see
//! [`crate::sequence`]). For example, the batch has a plan that exceeds a quota, or records changed
//! between the calls.

use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use redis::Value as Reply;
use store::feed::compact;
use store::{
    Assumptions, DecidedBatch, Found, Guard, Key, Plan, Shortage, Space, StoreError,
    StoreErrorKind, Value, Verdict, frees_space,
};

use crate::connect::{Call, Links};
use crate::encode::{Delivery, EncodedBatch, Place};
use crate::error::{self, Effect};
use crate::overflow::COMMITTED;
use crate::reply;

const DOING: &str = "committing plans";

/// Limit of the calls for a whole batch: the first, and one with the records that it found.
const CALLS: u32 = 2;

/// Decides plans in order, and commits those whose guards hold. Records in the `spared` spaces may
/// be put although the server is out of memory. A call that was sent continues even if its caller
/// goes away. Another call is made only if the one before certainly changed nothing: because a
/// guard did not hold, or because the server is out of memory.
pub(crate) async fn commit(
    links: &Arc<Links>,
    plans: &[Plan],
    spared: &[Space],
    shortage: &Shortage,
) -> Result<Vec<Verdict>, StoreError> {
    let decided = decide(links, plans).await;
    // Before the restricted commit below, whose success does not show that there is memory.
    shortage.observe(&decided);
    match decided {
        Err(error) if error::is_out_of_memory(&error) => {
            let admitted: Vec<bool> = plans.iter().map(|plan| frees_space(plan, spared)).collect();
            if !admitted.contains(&true) {
                return Err(error);
            }
            decide_without_memory(links, plans, &admitted).await
        }
        decided => decided,
    }
}

async fn decide(links: &Arc<Links>, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
    let verdicts = match decide_at_once(links, plans, Delivery::Alone).await? {
        Some(verdicts) => verdicts,
        None => one_by_one(links, plans).await?,
    };
    fail_if_all_failed(verdicts)
}

/// Decides the plans that `admitted` marks with true, because they free memory, as if the others
/// did not exist. The script also runs while the server is out of memory.
async fn decide_without_memory(
    links: &Arc<Links>,
    plans: &[Plan],
    admitted: &[bool],
) -> Result<Vec<Verdict>, StoreError> {
    let some: Vec<Plan> = plans
        .iter()
        .zip(admitted)
        .filter(|(_, admitted)| **admitted)
        .map(|(plan, _)| plan.clone())
        .collect();
    let decided = match decide_at_once(links, &some, Delivery::WithoutMemory).await? {
        Some(decided) => decided,
        None => one_call_each(links, &some).await?,
    };
    let mut decided = decided.into_iter();
    let no_room = || Verdict::Failed(StoreErrorKind::Full);
    let all =
        admitted.iter().map(|admitted| if *admitted { decided.next() } else { Some(no_room()) });
    fail_if_all_failed(all.collect::<Option<_>>().ok_or_else(garbled)?)
}

/// Decides plans and commits the decision as a whole. Returns `None` if they must be decided one by
/// one; nothing is changed then. One plan is always decided.
async fn decide_at_once(
    links: &Arc<Links>,
    plans: &[Plan],
    delivery: Delivery,
) -> Result<Option<Vec<Verdict>>, StoreError> {
    let script = match delivery {
        Delivery::Alone | Delivery::InSequence => &links.scripts.commit,
        Delivery::WithoutMemory => &links.scripts.commit_without_memory,
    };
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
        calls += 1;
        let (call, places) = {
            let entry = decision.entry();
            let encoded = EncodedBatch::encode(&decision, &entry, &links.prefix, delivery);
            let call = Call::script(links, script, encoded.arguments(), DOING);
            (call.with_overflow(links, &encoded.out_of_band).commits(), encoded.places)
        };
        let answer = links.call(call).await?;
        if plans.len() == 1 {
            let verdict = single(&mut assumptions, &decision, answer, &places);
            return Ok(Some(vec![verdict.ok_or_else(garbled)?]));
        }
        if answer == COMMITTED {
            return Ok(Some(decision.verdicts));
        }
        let (found, damaged) = found(answer, &places).ok_or_else(garbled)?;
        if !damaged.is_empty() {
            break;
        }
        next = assumptions.learn(&decision, found);
    }
    Ok(None)
}

/// Decides plans one after the other, each in a call of its own and with an entry of its own in the
/// feed. A server without memory accepts no transaction.
async fn one_call_each(links: &Arc<Links>, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
    let mut verdicts = Vec::with_capacity(plans.len());
    for plan in plans {
        match decide_at_once(links, slice::from_ref(plan), Delivery::WithoutMemory).await {
            Ok(decided) => verdicts.extend(decided.into_iter().flatten()),
            // Earlier plans are committed, so the error is not that of the whole call.
            Err(error) if verdicts.contains(&Verdict::Committed) => {
                return Err(StoreError::because(StoreErrorKind::Unknown, DOING, error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(verdicts)
}

/// Decides plans one after the other, in one round trip.
async fn one_by_one(links: &Arc<Links>, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
    let mut assumptions: Vec<Assumptions<'_>> =
        plans.iter().map(|plan| Assumptions::new(slice::from_ref(plan))).collect();
    let decided = assumptions.iter_mut().map(Assumptions::decide);
    let decisions: Vec<DecidedBatch<'_>> =
        decided.map(|it| it.expect("one plan can always be decided")).collect();
    let (call, places) = {
        let pieces = compact::pieces(plans);
        let none = Bytes::new();
        let pieces = pieces.iter().chain(std::iter::repeat(&none));
        let encode = |(decision, piece): (_, &Bytes)| {
            EncodedBatch::encode(decision, piece, &links.prefix, Delivery::InSequence)
        };
        let mut encoded: Vec<EncodedBatch<'_>> = decisions.iter().zip(pieces).map(encode).collect();
        let lists = encoded.iter().map(EncodedBatch::arguments);
        let call = Call::sequence(links, &links.scripts.commit, lists, DOING).commits();
        let places = encoded.iter_mut().map(|batch| std::mem::take(&mut batch.places));
        (call, places.collect::<Vec<_>>())
    };
    let answers = reply::list(links.call(call).await?).ok_or_else(garbled)?;
    let is_committed = answers.contains(&COMMITTED);
    let mut verdicts = Vec::with_capacity(plans.len());
    let plans_of = assumptions.iter_mut().zip(&decisions).zip(&places);
    for (answer, ((assumptions, decision), places)) in answers.into_iter().zip(plans_of) {
        verdicts.push(match answer.extract_error() {
            Ok(answer) => single(assumptions, decision, answer, places).ok_or_else(garbled)?,
            Err(error) => {
                let error = error::after_sending(error, DOING, Effect::Commits);
                if !is_committed {
                    return Err(error);
                }
                // Other plans are committed, so the error is not that of the whole call.
                if !error::is_out_of_memory(&error) {
                    return Err(StoreError::because(StoreErrorKind::Unknown, DOING, error));
                }
                Verdict::Failed(StoreErrorKind::Full)
            }
        });
    }
    if verdicts.len() == plans.len() { Ok(verdicts) } else { Err(garbled()) }
}

/// Returns the verdict of one plan. Returns `None` if the answer does not parse.
fn single<'a>(
    assumptions: &mut Assumptions<'a>,
    decision: &DecidedBatch<'a>,
    answer: Reply,
    places: &[(usize, Place<'_>)],
) -> Option<Verdict> {
    if answer == COMMITTED {
        return decision.verdicts.first().cloned();
    }
    let (found, damaged) = found(answer, places)?;
    let mut refused = assumptions.learn(decision, found)?;
    match refused.verdicts.pop()? {
        Verdict::Refused { guard, .. } if names(&refused, guard, &damaged) => {
            Some(Verdict::Failed(StoreErrorKind::Corrupt))
        }
        refused @ Verdict::Refused { .. } => Some(refused),
        // A condition did not hold, so a guard did not.
        Verdict::Committed | Verdict::Failed(_) => None,
    }
}

/// Returns true if this guard of a single plan needs the bytes of a damaged record.
fn names(decision: &DecidedBatch<'_>, guard: usize, damaged: &[&Key]) -> bool {
    let guard = decision.plans().first().and_then(|plan| plan.guards.get(guard));
    match guard {
        Some(Guard::Equals(key, _) | Guard::Absent(key)) => damaged.contains(&key),
        Some(Guard::Present(_) | Guard::Empty(..) | Guard::AtMost(..)) | None => false,
    }
}

/// The bytes of a damaged record in memory. No verdict contains them.
const DAMAGED: &[u8] = b"a long record without its overflow value";

/// Parses the records, counters and ranges that did not meet the conditions of a decision. Also
/// returns the damaged records: long ones that have lost their overflow values. Returns `None` if
/// the answer does not parse.
fn found<'a>(answer: Reply, places: &[(usize, Place<'a>)]) -> Option<(Found, Vec<&'a Key>)> {
    let (mut found, mut damaged, mut is_exceeded) = (Found::default(), Vec::new(), false);
    let mut answers = reply::list(answer)?.into_iter();
    while let Some(index) = answers.next() {
        // Lua counts from one.
        let index = reply::index(&index)?.checked_sub(1)?;
        let at = places.binary_search_by_key(&index, |(place, _)| *place).ok()?;
        let value = answers.next()?;
        match places.get(at)?.1 {
            Place::Record(key) => {
                let value = if reply::is_damaged(&value) {
                    damaged.push(key);
                    Some(Value::from_static(DAMAGED))
                } else {
                    reply::record(value)?
                };
                found.records.insert(key.clone(), value);
            }
            Place::Counter(counter, bound) => {
                let value = reply::counter(value)?;
                is_exceeded |= value > bound;
                found.counters.insert(counter.clone(), value);
            }
            Place::Range(start, end) => {
                found.filled.insert((start.clone(), end.clone()));
            }
        }
    }
    if !is_exceeded {
        found.counters.clear();
    }
    Some((found, damaged))
}

/// Returns an error instead of the verdicts if every plan of the batch failed, as the contract of
/// the store wants.
fn fail_if_all_failed(verdicts: Vec<Verdict>) -> Result<Vec<Verdict>, StoreError> {
    let failed = |verdict: &Verdict| match verdict {
        Verdict::Failed(kind) => Some(*kind),
        Verdict::Committed | Verdict::Refused { .. } => None,
    };
    match verdicts.iter().map(failed).collect::<Option<Vec<_>>>().as_deref() {
        Some([StoreErrorKind::Corrupt, ..]) => Err(error::damaged(DOING)),
        Some([kind, ..]) => Err(StoreError::new(*kind, format!("{DOING}: there is no memory"))),
        Some([]) | None => Ok(verdicts),
    }
}

/// Returns the error of a script that ran and whose answer does not parse. The script may have
/// changed records.
fn garbled() -> StoreError {
    StoreError::because(StoreErrorKind::Unknown, DOING, error::garbled(DOING))
}
