//! Commits: a batch of plans becomes a script's arguments, and its answer the verdicts.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use redis::Value as Answer;
use store::feed::brief;
use store::{Guard, Plan, Space, StoreError, StoreErrorKind, Value, Verdict, Write};

use crate::code;
use crate::connect::{Call, Links};
use crate::error;
use crate::joined::Joined;
use crate::laid::Laid;
use crate::program::{Keys, Known, Program};
use crate::reply;
use crate::room::makes_room;
use crate::staged::COMMITTED;

const DOING: &str = "committing plans";

/// Decides plans. A call goes on whether or not anybody waits for it. There is a second one if the first
/// has found a guard that does not hold, and has changed nothing; or if there was no memory, which has
/// kept it from doing anything.
pub(crate) async fn commit(
    links: &Arc<Links>,
    plans: &[Plan],
    spared: &[Space],
) -> Result<Vec<Verdict>, StoreError> {
    match decide(links, plans).await {
        Err(error) if error::is_out_of_memory(&error) => {
            let goes: Vec<bool> = plans.iter().map(|plan| makes_room(plan, spared)).collect();
            if !goes.contains(&true) {
                return Err(error);
            }
            decide_short(links, plans, &goes).await
        }
        decided => decided,
    }
}

async fn decide(links: &Arc<Links>, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
    let joined = Joined::of(plans).map(|joined| {
        let laid = Laid::out(&joined, &brief::told(plans), &links.prefix);
        let call = Call::script(links, &links.scripts.joined, laid.arguments(), DOING);
        call.with_rests(links, &laid.rests).commits()
    });
    if let Some(call) = joined {
        match links.call(call).await? {
            COMMITTED => return Ok(vec![Verdict::Committed; plans.len()]),
            Answer::Nil => {}
            _ => return Err(garbled()),
        }
    }
    let call = {
        let pieces = brief::pieces(plans);
        let program = program(plans, &pieces);
        Call::script(links, &links.scripts.commit, program.arguments(), DOING).commits()
    };
    whole(verdicts(plans.len(), links.call(call).await?)?)
}

/// Decides those plans that go, as if the others were not there.
async fn decide_short(
    links: &Arc<Links>,
    plans: &[Plan],
    goes: &[bool],
) -> Result<Vec<Verdict>, StoreError> {
    let going: Vec<Plan> =
        plans.iter().zip(goes).filter(|(_, goes)| **goes).map(|(plan, _)| plan.clone()).collect();
    let call = {
        let pieces = brief::pieces(&going);
        let program = program(&going, &pieces);
        Call::script(links, &links.scripts.commit_short, program.arguments(), DOING).commits()
    };
    let mut decided = verdicts(going.len(), links.call(call).await?)?.into_iter();
    let no_room = || Verdict::Failed(StoreErrorKind::Unavailable);
    let all = goes.iter().map(|goes| if *goes { decided.next() } else { Some(no_room()) });
    whole(all.collect::<Option<_>>().ok_or_else(garbled)?)
}

/// A batch of which every plan failed has failed as a whole.
fn whole(verdicts: Vec<Verdict>) -> Result<Vec<Verdict>, StoreError> {
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

/// A script has run. What cannot be read is no reason to say that it did not.
fn garbled() -> StoreError {
    StoreError::because(StoreErrorKind::Unknown, DOING, error::garbled(DOING))
}

fn program<'a>(plans: &'a [Plan], pieces: &'a [Bytes]) -> Program<'a> {
    let mut program = Program::over(keys(plans));
    let mut expected: HashMap<&[u8], u16> = HashMap::new();
    for (number, plan) in plans.iter().enumerate() {
        let piece = pieces.get(number).filter(|piece| !piece.is_empty());
        let count = |items: usize| u16::try_from(items).expect("limits keep plans short");
        let writes = plan.writes.len() + usize::from(piece.is_some());
        program.step(code::PLAN, count(plan.guards.len()), count(writes));
        for guard in &plan.guards {
            match guard {
                Guard::Equals(key, value) => {
                    let key = program.record(key);
                    // Plans of one batch guard the same records, mostly.
                    let value = *expected.entry(value).or_insert_with(|| program.value(value));
                    program.step(code::EQUALS, key, value);
                }
                Guard::Absent(key) => program.step(code::ABSENT, program.record(key), 0),
                Guard::Present(key) => program.step(code::PRESENT, program.record(key), 0),
                Guard::Empty(start, end) => {
                    let range = program.range(start, end);
                    program.step(code::EMPTY, range, 0);
                }
            }
        }
        for write in &plan.writes {
            put_write(&mut program, write);
        }
        if let Some(piece) = piece {
            let piece = program.argument(&piece[..]);
            program.step(code::TELL, piece, 0);
        }
    }
    program
}

fn put_write<'a>(program: &mut Program<'a>, write: &'a Write) {
    let (code, tally, number) = match write {
        Write::Put(key, value) => {
            let value = program.value(value);
            return program.step(code::PUT, program.record(key), value);
        }
        Write::Delete(key) => return program.step(code::DELETE, program.record(key), 0),
        Write::Add(tally, by) => (code::ADD, tally, *by),
        Write::Max(tally, least) => (code::MAX, tally, *least),
        Write::Set(tally, number) => (code::SET, tally, *number),
        Write::Clear(tally) => (code::SET, tally, 0),
    };
    let number = program.number(number);
    program.step(code, program.tally(&tally.0), number);
}

fn keys(plans: &[Plan]) -> Keys<'_> {
    let mut keys = Keys::default();
    for plan in plans {
        for guard in &plan.guards {
            match guard {
                Guard::Equals(key, _) | Guard::Absent(key) => keys.record(key, Known::Record),
                Guard::Present(key) => keys.record(key, Known::Presence),
                Guard::Empty(..) => {}
            }
        }
        for write in &plan.writes {
            match write {
                Write::Put(key, _) | Write::Delete(key) => keys.record(key, Known::Nothing),
                Write::Add(tally, _)
                | Write::Max(tally, _)
                | Write::Set(tally, _)
                | Write::Clear(tally) => keys.tally(&tally.0),
            }
        }
    }
    keys
}

/// The guard that stands for one that cannot be decided.
const DAMAGED_GUARD: Answer = Answer::Int(-1);

/// Reads plan, guard and record met of each refusal.
fn verdicts(plans: usize, answer: Answer) -> Result<Vec<Verdict>, StoreError> {
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
