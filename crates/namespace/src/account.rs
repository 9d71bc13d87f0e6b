//! Accounts: records by number.
//!
//! Each access key and each bucket belongs to an account. A plan that creates either guards that
//! the account exists, so the removal of an account never leaves an access key or a bucket without
//! one. For an exception see [`RemoveAccount`]. Other references may outlive the account, for
//! example the writer of an object or a grantee in an access control list. They then match no
//! account.

use record::{Account, AccountId, Bucket, Dentry, User, key};
use store::{Entry, Guard, Key, Limits, Plan, Write};

use crate::Halt;
use crate::access::{AccessError, Expected, all, as_seen, entries, name};
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};
use record::Ino;

/// Lists the accounts of a volume, sorted by number.
#[derive(Clone, Copy, Debug)]
pub struct ListAccounts;

impl Planner for ListAccounts {
    type Output = Vec<(AccountId, Account)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        accounts(view).map(Step::Done)
    }
}

/// Reads all accounts, sorted by number.
pub(crate) fn accounts(view: &mut View<'_>) -> Result<Vec<(AccountId, Account)>, Halt> {
    entries(view, key::space::ACCOUNT)?.iter().map(numbered).collect()
}

fn numbered(entry: &Entry) -> Result<(AccountId, Account), Halt> {
    let account = decode(&entry.key, &entry.value, Account::decode)?;
    let number = entry.key.suffix().try_into().map(u64::from_be_bytes);
    let number = number
        .map_err(|_| Halt::Corrupt(entry.key.clone(), record::DecodeError::Field("account")))?;
    Ok((AccountId(number), account))
}

/// Creates an account. Fails with `AccountExists` if the number or the name is in use.
///
/// If two operators create accounts of one name at the same moment, both accounts are created.
/// Names are for people only, so the plan does not guard them.
#[derive(Clone, Copy, Debug)]
pub struct AddAccount<'a> {
    /// The number of the new account.
    pub id: AccountId,
    /// The record of the new account, with its name.
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
        // The guard on the number is exact; the check of the name above is not guarded.
        let at = key::account(self.id);
        let guards = vec![Guard::Absent(at.clone())];
        let writes = vec![Write::Put(at.clone(), self.account.encode(&at))];
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Removes an account. Fails with `NoSuchAccount` if it does not exist, and with `AccountHasUsers`
/// or `AccountHasBuckets` if access keys or buckets belong to it. In a volume with very many access
/// keys or buckets, one that is created at the same moment may keep the removed account.
#[derive(Clone, Copy, Debug)]
pub struct RemoveAccount {
    /// The number of the account to remove.
    pub id: AccountId,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for RemoveAccount {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::account(self.id);
        let Some(value) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchAccount(self.id))));
        };
        if let Err(changed) = Expected::check(self.expected, &value) {
            return Ok(Step::Done(Err(changed)));
        }
        let users = entries(view, key::space::USER)?;
        let mut users_of_account = Vec::new();
        for entry in &users {
            if decode(&entry.key, &entry.value, User::decode)?.account == self.id {
                users_of_account.push(name(&entry.key));
            }
        }
        if !users_of_account.is_empty() {
            return Ok(Step::Done(Err(AccessError::AccountHasUsers(users_of_account))));
        }
        // The owner of a bucket is in its settings, so the settings of all buckets are read.
        let buckets = all(view, key::dentries(Ino::ROOT))?;
        let owned = self.owned(view, &buckets)?;
        if !owned.is_empty() {
            return Ok(Step::Done(Err(AccessError::AccountHasBuckets(owned))));
        }
        let own = vec![Guard::Equals(at.clone(), value)];
        let mut plan = Plan { guards: own.clone(), writes: vec![Write::Delete(at)] };
        plan.guards.extend(as_seen(key::partition(key::space::USER, 0), &users));
        plan.guards.extend(as_seen(key::dentries(Ino::ROOT), &buckets));
        // A store limits the size of a plan. If there are too many guards, only the account itself
        // is guarded. Then an access key or a bucket that is created at the same moment may be left
        // without its account, and only the operator's key can use it.
        let limits = Limits::LEAST;
        if plan.items() > limits.plan_items / 2 || plan.bytes() > limits.plan_bytes / 2 {
            plan.guards = own;
        }
        Ok(Step::Commit(plan, Ok(())))
    }
}

impl RemoveAccount {
    /// The names of those buckets that belong to the account.
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
