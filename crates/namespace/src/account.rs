//! Accounts: records by number.
//!
//! An access key belongs to an account, and a bucket too, and whoever makes either guards that the
//! account is there. So one that is removed leaves neither behind. What else names it, as the writer
//! of an object or in an access control list, may outlive it and means nobody then.

use record::{Account, AccountId, Bucket, Dentry, User, key};
use store::{Entry, Guard, Key, Limits, Plan, Write};

use crate::Halt;
use crate::access::{AccessError, all, as_seen, entries, name};
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};
use record::Ino;

/// Lists the accounts of a volume, by their numbers.
#[derive(Clone, Copy, Debug)]
pub struct ListAccounts;

impl Planner for ListAccounts {
    type Output = Vec<(AccountId, Account)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let found = entries(view, key::space::ACCOUNT)?;
        found.iter().map(numbered).collect::<Result<_, _>>().map(Step::Done)
    }
}

fn numbered(entry: &Entry) -> Result<(AccountId, Account), Halt> {
    let account = decode(&entry.key, &entry.value, Account::decode)?;
    let number = entry.key.suffix().try_into().map(u64::from_be_bytes);
    let number = number
        .map_err(|_| Halt::Corrupt(entry.key.clone(), record::DecodeError::Field("account")))?;
    Ok((AccountId(number), account))
}

/// Makes an account, if there is none of its number and none of its name.
///
/// Of two accounts that get one name at the same moment both are made: names are for people.
#[derive(Clone, Copy, Debug)]
pub struct AddAccount<'a> {
    /// Its number.
    pub id: AccountId,
    /// What it is.
    pub account: &'a Account,
}

impl Planner for AddAccount<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        for entry in &entries(view, key::space::ACCOUNT)? {
            let (id, account) = numbered(entry)?;
            if id == self.id || account.name == self.account.name {
                return Ok(Step::Done(Err(AccessError::AccountExists)));
            }
        }
        let at = key::account(self.id);
        let guards = vec![Guard::Absent(at.clone())];
        let writes = vec![Write::Put(at.clone(), self.account.encode(&at))];
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Removes an account that has neither access keys nor buckets.
#[derive(Clone, Copy, Debug)]
pub struct RemoveAccount {
    /// Its number.
    pub id: AccountId,
}

impl Planner for RemoveAccount {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::account(self.id);
        let Some(value) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchAccount(self.id))));
        };
        let users = entries(view, key::space::USER)?;
        let mut having = Vec::new();
        for entry in &users {
            if decode(&entry.key, &entry.value, User::decode)?.account == self.id {
                having.push(name(&entry.key));
            }
        }
        if !having.is_empty() {
            return Ok(Step::Done(Err(AccessError::AccountHasUsers(having))));
        }
        let buckets = all(view, key::dentries(Ino::ROOT))?;
        let owned = self.owned(view, &buckets)?;
        if !owned.is_empty() {
            return Ok(Step::Done(Err(AccessError::AccountHasBuckets(owned))));
        }
        let own = vec![Guard::Equals(at.clone(), value)];
        let mut plan = Plan { guards: own.clone(), writes: vec![Write::Delete(at)] };
        plan.guards.extend(as_seen(key::partition(key::space::USER, 0), &users));
        plan.guards.extend(as_seen(key::dentries(Ino::ROOT), &buckets));
        // A store takes plans up to some size. Beyond it, an access key or bucket that is made at
        // this very moment is left without its account, and only the operator's key reaches it.
        let limits = Limits::LEAST;
        if plan.items() > limits.plan_items / 2 || plan.bytes() > limits.plan_bytes / 2 {
            plan.guards = own;
        }
        Ok(Step::Commit(plan, Ok(())))
    }
}

impl RemoveAccount {
    /// Names of the account's buckets among these.
    fn owned(self, view: &mut View<'_>, buckets: &[Entry]) -> Result<Vec<String>, Halt> {
        let mut keys: Vec<Key> = Vec::with_capacity(buckets.len());
        for entry in buckets {
            keys.push(key::bucket(decode(&entry.key, &entry.value, Dentry::decode)?.ino));
        }
        let records = view.many(&keys)?;
        let mut owned = Vec::new();
        for ((entry, key), record) in buckets.iter().zip(&keys).zip(&records) {
            let Some(record) = record else { continue };
            if decode(key, record, Bucket::decode)?.owner == self.id {
                owned.push(name(&entry.key).trim_end_matches('/').to_owned());
            }
        }
        Ok(owned)
    }
}
