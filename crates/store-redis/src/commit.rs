//! Commits: converts a batch of plans into the arguments of a script, and its answer into verdicts.
//!
//! There are two scripts. Nearly all batches are merged and encoded, and `commit_batch.lua` commits
//! them as a whole. If a guard does not hold, that script changes nothing, and the batch goes to
//! `commit_plans.lua`, which decides the plans one by one and returns which guard refused which
//! plan. Batches that cannot be merged go there at once. For example, a plan with an `Empty` guard
//! is never merged.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use redis::Value as Reply;
use store::feed::compact;
use store::{
    Guard, Plan, Shortage, Space, StoreError, StoreErrorKind, Value, Verdict, Write, frees_space,
};

use crate::batch::MergedBatch;
use crate::connect::{Call, Links};
use crate::encode::EncodedBatch;
use crate::error;
use crate::opcode;
use crate::overflow::COMMITTED;
use crate::program::{Fetch, Keys, Program};
use crate::reply;

const DOING: &str = "committing plans";

/// Decides plans in order, and commits those whose guards hold. Records in the `spared` spaces may
/// be put although the server is out of memory. A call that was sent continues even if its caller
/// goes away. A second call is made only if the first one certainly changed nothing: because a
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
    // The merged form is cheaper for the server, and nearly all batches have one.
    let call = MergedBatch::merge(plans).map(|batch| {
        let encoded = EncodedBatch::encode(&batch, &compact::entry(plans), &links.prefix);
        let call = Call::script(links, &links.scripts.commit_batch, encoded.arguments(), DOING);
        call.with_overflow(links, &encoded.out_of_band).commits()
    });
    if let Some(call) = call {
        match links.call(call).await? {
            COMMITTED => return Ok(vec![Verdict::Committed; plans.len()]),
            Reply::Nil => {}
            _ => return Err(garbled()),
        }
    }
    let call = {
        let pieces = compact::pieces(plans);
        let program = program(plans, &pieces);
        Call::script(links, &links.scripts.commit_plans, program.arguments(), DOING).commits()
    };
    fail_if_all_failed(verdicts(plans.len(), links.call(call).await?)?)
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
    let call = {
        let pieces = compact::pieces(&some);
        let program = program(&some, &pieces);
        let script = &links.scripts.commit_plans_without_memory;
        Call::script(links, script, program.arguments(), DOING).commits()
    };
    let mut decided = verdicts(some.len(), links.call(call).await?)?.into_iter();
    let no_room = || Verdict::Failed(StoreErrorKind::Full);
    let all =
        admitted.iter().map(|admitted| if *admitted { decided.next() } else { Some(no_room()) });
    fail_if_all_failed(all.collect::<Option<_>>().ok_or_else(garbled)?)
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

fn program<'a>(plans: &'a [Plan], pieces: &'a [Bytes]) -> Program<'a> {
    let mut program = Program::new(keys(plans));
    let mut expected: HashMap<&[u8], u16> = HashMap::new();
    for (number, plan) in plans.iter().enumerate() {
        let piece = pieces.get(number).filter(|piece| !piece.is_empty());
        let count = |items: usize| u16::try_from(items).expect("limits keep plans short");
        let writes = plan.writes.len() + usize::from(piece.is_some());
        program.instruction(opcode::PLAN, count(plan.guards.len()), count(writes));
        for guard in &plan.guards {
            match guard {
                Guard::Equals(key, value) => {
                    let key = program.record(key);
                    // The plans of a batch mostly guard the same records, so their values are sent
                    // once.
                    let value = *expected.entry(value).or_insert_with(|| program.value(value));
                    program.instruction(opcode::EQUALS, key, value);
                }
                Guard::Absent(key) => program.instruction(opcode::ABSENT, program.record(key), 0),
                Guard::Present(key) => program.instruction(opcode::PRESENT, program.record(key), 0),
                Guard::Empty(start, end) => {
                    let range = program.range(start, end);
                    program.instruction(opcode::EMPTY, range, 0);
                }
                Guard::AtMost(counter, most) => {
                    let most = program.number(plan.limit_before(counter, *most));
                    program.instruction(opcode::AT_MOST, program.counter(&counter.0), most);
                }
            }
        }
        for write in &plan.writes {
            put_write(&mut program, write);
        }
        if let Some(piece) = piece {
            let piece = program.argument(&piece[..]);
            program.instruction(opcode::FEED, piece, 0);
        }
    }
    program
}

fn put_write<'a>(program: &mut Program<'a>, write: &'a Write) {
    let (opcode, counter, number) = match write {
        Write::Put(key, value) => {
            let value = program.value(value);
            return program.instruction(opcode::PUT, program.record(key), value);
        }
        Write::Delete(key) => return program.instruction(opcode::DELETE, program.record(key), 0),
        Write::Add(counter, by) => (opcode::ADD, counter, *by),
        Write::Max(counter, least) => (opcode::MAX, counter, *least),
        Write::Set(counter, number) => (opcode::SET, counter, *number),
        Write::Clear(counter) => (opcode::SET, counter, 0),
    };
    let number = program.number(number);
    program.instruction(opcode, program.counter(&counter.0), number);
}

fn keys(plans: &[Plan]) -> Keys<'_> {
    let mut keys = Keys::default();
    for plan in plans {
        for guard in &plan.guards {
            match guard {
                Guard::Equals(key, _) | Guard::Absent(key) => keys.record(key, Fetch::Record),
                Guard::Present(key) => keys.record(key, Fetch::Presence),
                Guard::Empty(..) => {}
                Guard::AtMost(counter, _) => keys.counter(&counter.0),
            }
        }
        for write in &plan.writes {
            match write {
                Write::Put(key, _) | Write::Delete(key) => keys.record(key, Fetch::Nothing),
                Write::Add(counter, _)
                | Write::Max(counter, _)
                | Write::Set(counter, _)
                | Write::Clear(counter) => keys.counter(&counter.0),
            }
        }
    }
    keys
}

/// The guard's index in the answer if a guard cannot be decided because a record is damaged.
const DAMAGED_GUARD: Reply = Reply::Int(-1);

/// Parses the refusals: of each the plan, the guard and the record that was found.
fn verdicts(plans: usize, answer: Reply) -> Result<Vec<Verdict>, StoreError> {
    let mut verdicts = vec![Verdict::Committed; plans];
    let mut refusals = reply::list(answer).ok_or_else(garbled)?.into_iter();
    while let Some(plan) = refusals.next() {
        let (Some(guard), Some(met)) = (refusals.next(), refusals.next()) else {
            return Err(garbled());
        };
        let plan = reply::index(&plan).ok_or_else(garbled)?;
        let verdict = if guard == DAMAGED_GUARD {
            Verdict::Failed(StoreErrorKind::Corrupt)
        } else {
            let guard = reply::index(&guard).ok_or_else(garbled)?;
            let found: Option<Value> = reply::record(met).ok_or_else(garbled)?;
            Verdict::Refused { guard, found }
        };
        *verdicts.get_mut(plan).ok_or_else(garbled)? = verdict;
    }
    Ok(verdicts)
}
