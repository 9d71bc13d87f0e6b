//! Assumptions of plans, and records that are written ahead of a plan that would be too large.
//!
//! For example, a completed upload of 10,000 parts has a content map of many pages. [`Stage`]
//! writes the pages in several commits, under an inode number that no dentry binds yet, and then
//! [`crate::Publish`] writes the inode. If the upload fails in between, [`Unstage`] removes the
//! pages, and if the session dies, the sweeper removes them: a mark names each staged number.

use record::{AccountId, Ino, Mark, key};
use store::{Guard, Key, Plan, Value, Write};

use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FsError, Halt};

/// A record that a plan assumes to be unchanged, and the error if it is not.
#[derive(Clone, Debug)]
pub struct Assumption {
    /// The key of the record that must be unchanged.
    pub key: Key,
    /// The bytes that the record must have.
    pub value: Value,
    /// The error if the record is changed or deleted.
    pub otherwise: FsError,
}

impl Assumption {
    /// Guards all assumptions, that is, records that a plan needs unchanged. Fails with the error
    /// of an assumption if a different record is known.
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

/// Returns true if a record belongs only to the file of this number: a page of its content map, a
/// page of part checksums, or its share record, which marks it as an owner of a block.
fn is_own(key: &Key, ino: Ino) -> bool {
    match key.space() {
        key::space::SHARE => key.suffix().ends_with(&ino.0.to_be_bytes()),
        key::space::MAP | key::space::PART_SUMS => key.partition() == ino.0,
        _ => false,
    }
}

/// The most guards of one plan that records of a number are absent.
const UNUSED_GUARDS_MAX: usize = 512;

/// Guards that none of the records of this number in `writes` exists. If there are very many, only
/// the first are guarded, because an earlier user of the number also began with these.
///
/// Inode numbers are leased from the store. A metadata store that was restored to an earlier state
/// leases some of them again, and records that exist under such a number must not be overwritten.
pub(crate) fn guard_unused(
    ino: Ino,
    writes: &[Write],
    view: &mut View<'_>,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let puts = writes.iter().filter_map(|write| {
        let Write::Put(key, _) = write else { return None };
        is_own(key, ino).then_some(key)
    });
    puts.take(UNUSED_GUARDS_MAX).try_for_each(|key| guard_absent(key, view, plan))
}

/// Guards that a record of an inode number that was leased to this session is absent. Fails with
/// `InodeNumberInUse` if the store has refused a plan because the record exists.
pub(crate) fn guard_absent(key: &Key, view: &mut View<'_>, plan: &mut Plan) -> Result<(), Halt> {
    // No planner reads this record, so it is known only from a refusal.
    if view.contradicted(key) {
        return Err(FsError::InodeNumberInUse.into());
    }
    plan.guards.push(Guard::Absent(key.clone()));
    Ok(())
}

/// Writes records that do not fit into the plan of a [`crate::Publish`] ahead of it, under an inode
/// number that no dentry binds yet. The plan also writes a mark, by which the sweeper finds the
/// records if this session dies before the publishing plan.
#[derive(Clone, Debug)]
pub struct Stage<'a> {
    /// The inode number of the file to which the records belong.
    pub ino: Ino,
    /// Records that must be unchanged.
    pub assumptions: &'a [Assumption],
    /// The writes of the records of one call.
    pub writes: &'a [Write],
}

impl Planner for Stage<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let mut plan = Plan::default();
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        guard_unused(self.ino, self.writes, view, &mut plan)?;
        // The mark lets the sweeper find staged records of a dead session.
        let mark = key::staged(env.session, self.ino);
        plan.writes.push(Write::Put(mark.clone(), Mark.encode(&mark)));
        plan.writes.extend_from_slice(self.writes);
        Ok(Step::Commit(plan, ()))
    }
}

/// Removes records that a `Stage` has written ahead of a plan that was not committed. The last call
/// also removes the mark by which the sweeper would find them.
///
/// Only records of this number are removed, and additions to counters are reversed. The share
/// record (the mark of an owner of a block) that was also written for a copy's source stays: it is
/// true, and may have existed before.
///
/// All of `writes` must have been committed, and none may be removed twice.
#[derive(Clone, Debug)]
pub struct Unstage<'a> {
    /// The inode number under which the records were staged.
    pub ino: Ino,
    /// The writes of one earlier call of `Stage`, which are reversed.
    pub writes: &'a [Write],
    /// True if no other staged records of the number are left. Then the mark of the number is
    /// removed.
    pub last: bool,
}

impl Planner for Unstage<'_> {
    type Output = ();

    fn plan(&self, _view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let undo = |write: &Write| match write {
            Write::Put(key, _) if is_own(key, self.ino) => Some(Write::Delete(key.clone())),
            // Counters have no guard, so additions are reversed by their negative.
            Write::Add(counter, number) => Some(Write::Add(counter.clone(), -number)),
            Write::Put(..)
            | Write::Delete(_)
            | Write::Max(..)
            | Write::Set(..)
            | Write::Clear(_) => None,
        };
        let mut plan = Plan { guards: Vec::new(), writes: Vec::new() };
        plan.writes.extend(self.writes.iter().filter_map(undo));
        if self.last {
            plan.writes.push(Write::Delete(key::staged(env.session, self.ino)));
        }
        Ok(Step::Commit(plan, ()))
    }
}

/// The guard that an account exists; `None` for the main account, which always exists.
pub(crate) fn account_is_there(account: AccountId) -> Option<Guard> {
    (account != AccountId::MAIN).then(|| Guard::Present(key::account(account)))
}
