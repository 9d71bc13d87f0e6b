//! What a plan assumes, and what is written ahead of a plan that would be too large with it.

use record::{AccountId, Ino, Mark, key};
use store::{Guard, Key, Plan, Value, Write};

use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FsError, Halt};

/// A record that a plan assumes to be as it was read, and what to answer when it is not.
#[derive(Clone, Debug)]
pub struct Assumption {
    /// The record's key.
    pub key: Key,
    /// Its bytes.
    pub value: Value,
    /// The answer when the record is another, or gone.
    pub otherwise: FsError,
}

impl Assumption {
    /// Guards what is assumed. Fails at once if something else is known.
    pub(crate) fn guard_all(
        assumed: &[Assumption],
        view: &mut View<'_>,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        for Assumption { key, value, otherwise } in assumed {
            if view.guess(key, Some(value)).as_ref() != Some(value) {
                return Err((*otherwise).into());
            }
            plan.guards.push(Guard::Equals(key.clone(), value.clone()));
        }
        Ok(())
    }
}

/// Whether a record belongs to the file of this number alone: pages of its content map, checksums
/// of its parts, its shares of blocks.
fn is_own(key: &Key, ino: Ino) -> bool {
    match key.space() {
        key::space::SHARE => key.suffix().ends_with(&ino.0.to_be_bytes()),
        key::space::MAP | key::space::PART_SUMS => key.partition() == ino.0,
        _ => false,
    }
}

/// The most guards of one plan that records of a number are absent.
const UNUSED_GUARDS_MAX: usize = 512;

/// Guards that none of the records that `writes` put under this number is there already. Of very
/// many only the first are guarded: whoever has used the number before began with them.
///
/// Numbers are leased. A metadata store that was put back to an earlier state leases some of them
/// again, and what was made under such a number must not be overwritten.
pub(crate) fn guard_unused(
    ino: Ino,
    writes: &[Write],
    view: &mut View<'_>,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let puts = writes.iter().filter_map(|write| match write {
        Write::Put(key, _) if is_own(key, ino) => Some(key),
        _ => None,
    });
    puts.take(UNUSED_GUARDS_MAX).try_for_each(|key| guard_absent(key, view, plan))
}

/// Guards that a record of a leased number is not there.
pub(crate) fn guard_absent(key: &Key, view: &mut View<'_>, plan: &mut Plan) -> Result<(), Halt> {
    // Nobody has asked for this record. Something is known only if the store has refused the plan
    // because of it.
    if view.contradicted(key) {
        return Err(FsError::InodeNumberInUse.into());
    }
    plan.guards.push(Guard::Absent(key.clone()));
    Ok(())
}

/// Writes what does not fit into the plan of a [`crate::Publish`] ahead of it, under a number that
/// nothing names yet.
#[derive(Clone, Debug)]
pub struct Stage<'a> {
    /// The number.
    pub ino: Ino,
    /// Records that must be as they are.
    pub assumptions: &'a [Assumption],
    /// What is written.
    pub writes: &'a [Write],
}

impl Planner for Stage<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let mut plan = Plan::default();
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        guard_unused(self.ino, self.writes, view, &mut plan)?;
        let mark = key::staged(env.session, self.ino);
        plan.writes.push(Write::Put(mark.clone(), Mark.encode(&mark)));
        plan.writes.extend_from_slice(self.writes);
        Ok(Step::Commit(plan, ()))
    }
}

/// Takes back what was staged. The mark that says that it is there goes last.
///
/// Only records that belong to the number are removed, and counters are counted back. The share of
/// a copy's source, which was written too, stays: it is true, and may have been there before.
///
/// Every one of `writes` must have happened, and none may be taken back twice.
#[derive(Clone, Debug)]
pub struct Unstage<'a> {
    /// The number it was staged under.
    pub ino: Ino,
    /// What was written.
    pub writes: &'a [Write],
    /// Whether this is all that is left of it.
    pub last: bool,
}

impl Planner for Unstage<'_> {
    type Output = ();

    fn plan(&self, _view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let undo = |write: &Write| match write {
            Write::Put(key, _) if is_own(key, self.ino) => Some(Write::Delete(key.clone())),
            Write::Add(counter, number) => Some(Write::Add(counter.clone(), -number)),
            _ => None,
        };
        let mut plan = Plan { guards: Vec::new(), writes: Vec::new() };
        plan.writes.extend(self.writes.iter().filter_map(undo));
        if self.last {
            plan.writes.push(Write::Delete(key::staged(env.session, self.ino)));
        }
        Ok(Step::Commit(plan, ()))
    }
}

/// Guards that an account is there. The first one always is.
pub(crate) fn account_is_there(account: AccountId) -> Option<Guard> {
    (account != AccountId::MAIN).then(|| Guard::Present(key::account(account)))
}
