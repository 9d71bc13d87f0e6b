//! The records behind access keys and policies, changed beside a gateway that is running.
//!
//! Gateways are told of changes by the metadata store, so a change needs no restart. Each change is one plan
//! guarded by what was seen, so that two operators at the same time do not undo each other.

use std::sync::Arc;

use record::{PolicyRecord, User, key};
use store::{
    Found, Guard, Key, MetaStore, Plan, Read, Space, StoreErrorKind, Value, Verdict, Write,
};

use crate::config::VolumeSettings;
use crate::engines::{self, Use};
use crate::problem::Problem;

/// Records of one page.
const PAGE: u32 = 1_000;

/// Access keys and policies of a volume.
#[derive(Debug)]
pub(crate) struct Accounts {
    store: Arc<dyn MetaStore>,
}

/// A record as found: what it says, and its bytes for the guard of a change.
#[derive(Clone, Debug)]
pub(crate) struct Seen<R> {
    pub(crate) record: R,
    bytes: Value,
}

/// Opens the metadata store of a volume that a gateway may be serving.
pub(super) async fn open_beside(
    settings: &VolumeSettings,
    doing: &str,
) -> Result<Arc<dyn MetaStore>, Problem> {
    if settings.meta == crate::config::MetaPlace::Memory {
        let wrong = "a store in memory is another one in every process";
        return Err(
            Problem::new(doing, wrong).remedy("name the gateway's metadata store with --meta")
        );
    }
    if let crate::config::MetaPlace::Sqlite(path) = &settings.meta
        && let Some(folder) = path.parent().filter(|folder| *folder == settings.data_dir)
    {
        crate::credentials::make_data_dir(folder)?;
    }
    engines::meta(settings, Use::Administer).await
}

impl Accounts {
    pub(crate) async fn open(settings: &VolumeSettings) -> Result<Accounts, Problem> {
        Ok(Accounts { store: open_beside(settings, "manage access keys").await? })
    }

    /// All access keys, in order.
    pub(crate) async fn users(&self) -> Result<Vec<(String, Seen<User>)>, Problem> {
        self.all(key::space::USER, User::decode).await
    }

    /// All named policies, in order.
    pub(crate) async fn policies(&self) -> Result<Vec<(String, Seen<PolicyRecord>)>, Problem> {
        self.all(key::space::POLICY, PolicyRecord::decode).await
    }

    /// One access key.
    pub(crate) async fn user(&self, name: &str) -> Result<Option<Seen<User>>, Problem> {
        self.one(key::user(name), User::decode).await
    }

    /// One policy.
    pub(crate) async fn policy(&self, name: &str) -> Result<Option<Seen<PolicyRecord>>, Problem> {
        self.one(key::policy(name), PolicyRecord::decode).await
    }

    /// Puts a user in place of what was seen; `None` removes it.
    pub(crate) async fn set_user(
        &self,
        name: &str,
        seen: Option<&Seen<User>>,
        user: Option<&User>,
    ) -> Result<(), Problem> {
        let key = key::user(name);
        let value = user.map(|user| user.encode(&key));
        self.change(key, seen.map(|seen| &seen.bytes), value).await
    }

    /// Puts a policy in place of what was seen; `None` removes it.
    pub(crate) async fn set_policy(
        &self,
        name: &str,
        seen: Option<&Seen<PolicyRecord>>,
        policy: Option<&PolicyRecord>,
    ) -> Result<(), Problem> {
        let key = key::policy(name);
        let value = policy.map(|policy| policy.encode(&key));
        self.change(key, seen.map(|seen| &seen.bytes), value).await
    }

    pub(crate) async fn close(self) {
        self.store.close().await;
    }

    async fn change(
        &self,
        key: Key,
        seen: Option<&Value>,
        value: Option<Value>,
    ) -> Result<(), Problem> {
        let doing = "change the metadata store";
        let guard = match seen {
            Some(bytes) => Guard::Equals(key.clone(), bytes.clone()),
            None => Guard::Absent(key.clone()),
        };
        let write = match value {
            Some(value) => Write::Put(key, value),
            None => Write::Delete(key),
        };
        let wanted = match &write {
            Write::Put(_, value) => Some(value.clone()),
            _ => None,
        };
        let plans = [Plan { guards: vec![guard], writes: vec![write] }];
        let mut doubtful = false;
        let verdicts = loop {
            match self.store.commit(&plans).await {
                // The guard lets it happen once, so it may be sent again.
                Err(error) if error.kind() == StoreErrorKind::Unknown && !doubtful => {
                    doubtful = true;
                }
                decided => break decided.map_err(|error| Problem::new(doing, error))?,
            }
        };
        match verdicts.as_slice() {
            [Verdict::Committed] => Ok(()),
            // What it met is what was to be there: the first one did happen.
            [Verdict::Refused { found, .. }] if doubtful && *found == wanted => Ok(()),
            _ => Err(Problem::new(doing, "somebody else changed the same record just now")
                .remedy("try again")),
        }
    }

    async fn one<R>(
        &self,
        key: Key,
        decode: fn(&Key, &Value) -> Result<R, record::DecodeError>,
    ) -> Result<Option<Seen<R>>, Problem> {
        let doing = "read the metadata store";
        let reads = [Read::Record { key: key.clone(), follow: None }];
        let found = self.store.read(&reads).await.map_err(|error| Problem::new(doing, error))?;
        let Some(Found::Record(Some(entry))) = found.into_iter().next() else { return Ok(None) };
        let record = decode(&key, &entry.value).map_err(|error| Problem::new(doing, error))?;
        Ok(Some(Seen { record, bytes: entry.value }))
    }

    async fn all<R>(
        &self,
        space: Space,
        decode: fn(&Key, &Value) -> Result<R, record::DecodeError>,
    ) -> Result<Vec<(String, Seen<R>)>, Problem> {
        let doing = "read the metadata store";
        let (mut start, end) = key::partition(space, 0);
        let mut all = Vec::new();
        loop {
            let range =
                Read::Range { start: start.clone(), end: end.clone(), limit: PAGE, follow: None };
            let found =
                self.store.read(&[range]).await.map_err(|error| Problem::new(doing, error))?;
            let Some(Found::Range(entries)) = found.into_iter().next() else { return Ok(all) };
            let whole = entries.len() < PAGE as usize;
            for entry in entries {
                let record =
                    decode(&entry.key, &entry.value).map_err(|error| Problem::new(doing, error))?;
                let name = String::from_utf8_lossy(entry.key.suffix()).into_owned();
                start = Key::new(space, 0, &[entry.key.suffix(), b"\0"].concat());
                all.push((name, Seen { record, bytes: entry.value }));
            }
            if whole {
                return Ok(all);
            }
        }
    }
}
