//! Access keys and policies: plain records by name.

use record::{PolicyRecord, User, key};
use store::{Guard, Key, Plan, Space, Value, Write};

use crate::Halt;
use crate::run::{Env, Operation, Step};
use crate::view::{View, decode};

/// The most access keys, and the most policies, of a volume.
pub const ACCESS_RECORDS_MAX: u32 = 10_000;

/// Lists the access keys of a volume.
#[derive(Clone, Copy, Debug)]
pub struct ListUsers;

impl Operation for ListUsers {
    type Output = Vec<(String, User)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        list(view, key::space::USER, User::decode).map(Step::Done)
    }
}

/// Lists the named policies of a volume.
#[derive(Clone, Copy, Debug)]
pub struct ListPolicies;

impl Operation for ListPolicies {
    type Output = Vec<(String, PolicyRecord)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        list(view, key::space::POLICY, PolicyRecord::decode).map(Step::Done)
    }
}

fn list<T>(
    view: &mut View<'_>,
    space: Space,
    read: impl Fn(&Key, &Value) -> Result<T, record::DecodeError>,
) -> Result<Vec<(String, T)>, Halt> {
    let (start, end) = key::partition(space, 0);
    let entries = view.range(start, end, ACCESS_RECORDS_MAX)?;
    let named = |entry: store::Entry| {
        let record = decode(&entry.key, &entry.value, &read)?;
        Ok((String::from_utf8_lossy(entry.key.suffix()).into_owned(), record))
    };
    entries.into_iter().map(named).collect()
}

/// Sets or removes a record that stands for itself.
#[derive(Clone, Debug)]
pub struct SetRecord {
    /// Its key.
    pub key: Key,
    /// Its bytes; `None` removes it.
    pub value: Option<Value>,
}

impl SetRecord {
    /// Sets or removes an access key.
    pub fn user(access_key: &str, user: Option<&User>) -> SetRecord {
        let key = key::user(access_key);
        SetRecord { value: user.map(|user| user.encode(&key)), key }
    }

    /// Sets or removes a named policy.
    pub fn policy(name: &str, policy: Option<&PolicyRecord>) -> SetRecord {
        let key = key::policy(name);
        SetRecord { value: policy.map(|policy| policy.encode(&key)), key }
    }
}

impl Operation for SetRecord {
    /// Whether there was such a record before.
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<bool>, Halt> {
        let found = view.record(&self.key)?;
        let existed = found.is_some();
        let guard = match found {
            Some(value) => Guard::Equals(self.key.clone(), value),
            None => Guard::Absent(self.key.clone()),
        };
        let write = match &self.value {
            Some(value) => Write::Put(self.key.clone(), value.clone()),
            None if existed => Write::Delete(self.key.clone()),
            None => return Ok(Step::Done(false)),
        };
        Ok(Step::Commit(Plan { guards: vec![guard], writes: vec![write] }, existed))
    }
}
