//! Removing names, and the directories that nothing but keys implied.

use record::{Ino, Inode, Skey, key};
use store::{Guard, Key, Plan, Read, Write};

use crate::object::{TagMatch, after, unbind};
use crate::path::{self, Bound, Chain, Unknown, is_implied};
use crate::run::{Env, Operation, Step};
use crate::view::{Followed, View, decode};
use crate::{FsError, Halt};

/// Names that are asked for of a directory which a single name leaves: one of them is to stay.
const SIBLINGS_ASKED: usize = 64;

/// A name to remove.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The name in its directory; empty for the object whose key ends with `/`.
    pub name: Vec<u8>,
    /// What must hold of the object.
    pub condition: Option<TagMatch>,
}

/// Removes names from one directory, and the implied directories that this leaves empty.
#[derive(Clone, Debug)]
pub struct Remove<'a> {
    /// The bucket's name.
    pub bucket: &'a [u8],
    /// The directory, from the bucket down.
    pub directories: &'a [Vec<u8>],
    /// The names, each once.
    pub removals: &'a [Removal],
}

/// What became of a [`Removal`]: whether there was such a name.
pub type Removed = Result<bool, FsError>;

impl Operation for Remove<'_> {
    type Output = Vec<Removed>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Vec<Removed>>, Halt> {
        let chain = path::chain(view, self.bucket, self.directories, Unknown::Ask)?;
        if chain.missing.is_some() {
            let absent = |removal: &Removal| match removal.condition {
                Some(_) => Err(FsError::NoSuchKey),
                None => Ok(false),
            };
            return Ok(Step::Done(self.removals.iter().map(absent).collect()));
        }
        let mut plan = Plan { guards: chain.guards().collect(), writes: Vec::new() };
        let (verdicts, gone) = self.decide(view, &chain, &mut plan)?;
        if gone.is_empty() {
            return Ok(Step::Done(verdicts));
        }
        let bucket = chain.bucket.dentry.ino;
        let mut bytes = 0;
        for bound in &gone {
            plan.guards.push(bound.guard());
            plan.writes.push(Write::Delete(bound.key.clone()));
            bytes += unbind(&bound.dentry, bucket, &mut plan);
        }
        if bytes > 0 {
            plan.writes.push(Write::Add(key::tally(bucket, key::Count::Bytes), -bytes));
        }
        let count = i64::try_from(gone.len()).unwrap_or(i64::MAX);
        plan.writes.push(Write::Add(key::tally(bucket, key::Count::Objects), -count));
        prune(view, &chain, &gone, env, &mut plan)?;
        Ok(Step::Commit(plan, verdicts))
    }
}

impl Remove<'_> {
    /// Which of the names are bound and may go.
    fn decide(
        &self,
        view: &mut View<'_>,
        chain: &Chain,
        plan: &mut Plan,
    ) -> Result<(Vec<Removed>, Vec<Bound>), Halt> {
        let slot =
            |removal: &Removal| key::dentry(chain.deepest(), Skey::file(&removal.name).as_bytes());
        let slots: Vec<Key> = self.removals.iter().map(slot).collect();
        let conditional = self.removals.iter().any(|removal| removal.condition.is_some());
        let found: Vec<Option<Followed>> = if conditional {
            view.followed(&slots, &key::dentry_to_inode())?
        } else {
            view.many(&slots)?.into_iter().map(|value| value.map(|value| (value, None))).collect()
        };
        let (mut verdicts, mut gone) = (Vec::with_capacity(slots.len()), Vec::new());
        for ((removal, slot), found) in self.removals.iter().zip(&slots).zip(found) {
            // The answers of a plan that is committed rest on its guards, those of what stays too.
            let Some((value, target)) = found else {
                plan.guards.push(Guard::Absent(slot.clone()));
                verdicts.push(match removal.condition {
                    Some(_) => Err(FsError::NoSuchKey),
                    None => Ok(false),
                });
                continue;
            };
            let bound = path::bound(slot, value)?;
            if let Some(tags) = &removal.condition {
                let inode_key = key::inode(bound.dentry.ino);
                let record = target.ok_or(FsError::NoSuchKey)?;
                let inode = decode(&inode_key, &record, Inode::decode)?;
                plan.guards.push(Guard::Equals(inode_key, record));
                if !inode.file().is_some_and(|file| tags.accepts(&file.tag)) {
                    plan.guards.push(bound.guard());
                    verdicts.push(Err(FsError::PreconditionFailed));
                    continue;
                }
            }
            verdicts.push(Ok(true));
            gone.push(bound);
        }
        Ok((verdicts, gone))
    }
}

/// Removes the implied directories that are empty once `gone` are, from the deepest up, and counts
/// what is gone in the first that stays.
fn prune(
    view: &mut View<'_>,
    chain: &Chain,
    gone: &[Bound],
    env: &Env,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let mut leaving: Vec<Bound> = gone.to_vec();
    leaving.sort_by(|a, b| a.key.cmp(&b.key));
    let implied = chain.directories.iter().rev().take_while(|directory| is_implied(directory));
    let implied: Vec<&Bound> = implied.collect();
    let mut parents: Vec<Ino> = implied.iter().map(|directory| directory.dentry.ino).collect();
    // The first that stays whatever it holds: a directory somebody made, or the bucket.
    let stays = chain.directories.len() - implied.len();
    parents.push(match stays.checked_sub(1) {
        Some(index) => chain.directories[index].dentry.ino,
        None => chain.bucket.dentry.ino,
    });

    let sibling = match (&leaving[..], implied.first()) {
        ([one], Some(directory)) => view.sibling(directory.dentry.ino, one.key.suffix()),
        _ => None,
    };
    let mut level = 0;
    if let Some(sibling) = sibling {
        plan.guards.push(Guard::Present(sibling));
    } else if !implied.is_empty() {
        let range = |(index, directory): (usize, &&Bound)| {
            let (start, end) = key::dentries(directory.dentry.ino);
            let others = match (index, &leaving[..]) {
                // Those who empty a directory name by name find the later ones remembered.
                (0, [_]) => SIBLINGS_ASKED,
                (0, leaving) => leaving.len(),
                _ => 1,
            };
            let limit = u32::try_from(others + 1).unwrap_or(u32::MAX);
            Read::Range { start, end, limit, follow: None }
        };
        let ranges: Vec<Read> = implied.iter().enumerate().map(range).collect();
        let children = view.ranges(&ranges)?;
        for (directory, children) in implied.iter().zip(children) {
            let stays = children
                .iter()
                .find(|child| leaving.binary_search_by(|gone| gone.key.cmp(&child.key)).is_err());
            if let Some(stays) = stays {
                plan.guards.push(Guard::Present(stays.key.clone()));
                break;
            }
            plan.guards.extend(empty_but(directory.dentry.ino, &leaving));
            let ino = directory.dentry.ino;
            plan.writes.push(Write::Delete(directory.key.clone()));
            plan.writes.push(Write::Delete(key::inode(ino)));
            plan.writes.push(Write::Clear(key::tally(ino, key::Count::Entries)));
            plan.writes.push(Write::Clear(key::tally(ino, key::Count::Modified)));
            leaving = vec![(*directory).clone()];
            level += 1;
        }
    }
    let count = i64::try_from(leaving.len()).unwrap_or(i64::MAX);
    plan.writes.push(Write::Add(key::tally(parents[level], key::Count::Entries), -count));
    plan.writes.push(Write::Max(key::tally(parents[level], key::Count::Modified), env.now.0));
    Ok(())
}

/// Guards that a directory holds nothing but the names that leave it, which are in order.
fn empty_but(directory: Ino, leaving: &[Bound]) -> Vec<Guard> {
    let (mut start, end) = key::dentries(directory);
    let mut guards = Vec::with_capacity(leaving.len() + 1);
    for bound in leaving {
        guards.push(Guard::Empty(start, bound.key.clone()));
        start = after(&bound.key);
    }
    guards.push(Guard::Empty(start, end));
    guards
}
