//! The task that writes holds for long readers, and removes holds that no reader needs.
//!
//! For example, a download of an hour pins its epoch for five seconds. Then this task commits a
//! hold on its file and releases the epoch. When the download ends, the task deletes the hold.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::{StreamExt, stream};
use record::key::{self, space};
use record::{Hold, HoldScope, Ino, Nonce};
use store::{Guard, Key, Plan, Value, Write};
use tracing::{debug, warn};

use crate::commit::Outcome;
use crate::error::VolumeError;
use crate::holds::LongReaders;
use crate::scan;
use crate::session::Session;
use crate::state::{ObservedSession, other_sessions};

/// Interval at which this task looks for readers that have become long.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Holds (records that keep one file's blocks) that one plan writes, or that are removed
/// concurrently.
const HOLDS_AT_ONCE: usize = 256;

impl Session {
    /// Writes a hold (a record that keeps one file's blocks) for each file with long readers, and
    /// then releases the epochs that these readers pin. Removes or weakens holds that are not
    /// needed any more. Only one task calls this. A hold is removed only if it is as it was
    /// written, so a late plan removes no newer hold.
    pub(crate) async fn renew_holds(&self) {
        // A file can get a new hold after its old one was released. That hold is in use, so only
        // files without a hold are removed here.
        let released = mem::take(&mut self.holds.readers().released);
        let unheld: Vec<(Ino, Value)> = {
            let readers = self.holds.readers();
            released.into_iter().filter(|(ino, _)| !readers.held.contains_key(ino)).collect()
        };
        // Each removal is a plan of its own, because one that is refused must not keep the others.
        let removing = unheld.into_iter().map(|(ino, record)| self.remove_hold(ino, record));
        stream::iter(removing).buffer_unordered(HOLDS_AT_ONCE).collect::<()>().await;
        let weakening = self
            .holds
            .overly_strong()
            .into_iter()
            .map(|(ino, record)| self.weaken_hold(ino, record));
        stream::iter(weakening).buffer_unordered(HOLDS_AT_ONCE).collect::<()>().await;
        let long_readers = self.holds.long_readers();
        // One plan writes many holds. It needs no guards, because only this task writes the
        // session's holds.
        for long_readers in long_readers.chunks(HOLDS_AT_ONCE) {
            let since = self.now();
            let record = |long_readers: &LongReaders| {
                let hold = Hold { since, scope: long_readers.scope };
                hold.encode(&key::hold(long_readers.ino, self.nonce()))
            };
            let records: Vec<Value> = long_readers.iter().map(record).collect();
            let holds = || long_readers.iter().zip(&records);
            let put = |(long_readers, record): (&LongReaders, &Value)| {
                Write::Put(key::hold(long_readers.ino, self.nonce()), record.clone())
            };
            let plan = Plan { guards: Vec::new(), writes: holds().map(put).collect() };
            let outcome = self.commit_plan(plan).await;
            if matches!(outcome, Outcome::Committed) {
                debug!(files = long_readers.len(), "long readers hold their files");
                holds().for_each(|(long_readers, record)| self.holds.taken(long_readers, record));
            } else {
                // The readers keep their epochs. If the plan commits later, its holds are removed.
                warn!(?outcome, "cannot commit holds for long readers: they keep their epochs");
                let note = |(long_readers, record): (&LongReaders, &Value)| {
                    self.holds.may_remain(long_readers.ino, record.clone());
                };
                holds().for_each(note);
            }
        }
    }

    /// Changes the hold of a file to protect only its current content, because the readers of older
    /// content have ended. `record` is the hold as it was written. If the change fails it is tried
    /// again later.
    async fn weaken_hold(&self, ino: Ino, record: Value) {
        let key = key::hold(ino, self.nonce());
        let weaker = Hold { since: self.now(), scope: HoldScope::File }.encode(&key);
        let guards = vec![Guard::Equals(key.clone(), record)];
        let writes = vec![Write::Put(key, weaker.clone())];
        match self.commit_plan(Plan { guards, writes }).await {
            Outcome::Committed => {
                self.holds.weakened(ino, weaker);
                self.wake_reaper();
            }
            // A weaker hold of an earlier try was committed.
            Outcome::Refused { found: Some(found), .. } => self.holds.weakened(ino, found),
            Outcome::Refused { found: None, .. } | Outcome::Aborted(_) | Outcome::Failed(_) => {}
        }
    }

    /// Removes the hold of a file that no reader uses, if it still equals `record`, the hold as it
    /// was written.
    async fn remove_hold(&self, ino: Ino, record: Value) {
        let key = key::hold(ino, self.nonce());
        let guards = vec![Guard::Equals(key.clone(), record.clone())];
        match self.commit_plan(Plan { guards, writes: vec![Write::Delete(key)] }).await {
            Outcome::Committed => self.wake_reaper(),
            // A late plan has written another hold in its place.
            Outcome::Refused { found: Some(record), .. } => self.holds.may_remain(ino, record),
            Outcome::Refused { found: None, .. } => {}
            Outcome::Aborted(_) | Outcome::Failed(_) => self.holds.may_remain(ino, record),
        }
    }

    /// Returns the files whose blocks existing sessions keep by a hold record. For each file the
    /// result is the scope that protects most. Removes the holds of ended sessions. The reaper
    /// calls this after it has waited for the readers of older epochs. Fails if the store cannot be
    /// read.
    pub async fn held_files(&self) -> Result<HashMap<Ino, HoldScope>, VolumeError> {
        let mut holds: Vec<(Key, (Ino, HoldScope), Nonce)> = Vec::new();
        scan::walk(&*self.store, space::HOLD, |key, value| {
            let (ino, session) = (Ino(key.partition()), scan::nonce_of(&key)?);
            // A hold that cannot be decoded protects everything.
            let scope = Hold::decode(&key, &value).map_or(HoldScope::Versions, |hold| hold.scope);
            holds.push((key, (ino, scope), session));
            Ok(())
        })
        .await?;
        if holds.is_empty() {
            return Ok(HashMap::new());
        }
        let others = other_sessions(&*self.store, self.nonce()).await?;
        let mut living: HashSet<Nonce> =
            others.into_iter().map(|ObservedSession { nonce, .. }| nonce).collect();
        living.insert(self.nonce());
        let (living, ended): (Vec<_>, Vec<_>) =
            holds.into_iter().partition(|(_, _, session)| living.contains(session));
        for (key, _, session) in ended {
            let guards = vec![Guard::Absent(key::session(session))];
            // The result does not matter: a hold of an ended session has no effect.
            let _outcome =
                self.commit_plan(Plan { guards, writes: vec![Write::Delete(key)] }).await;
        }
        let mut held: HashMap<Ino, HoldScope> = HashMap::new();
        for (_, (ino, scope), _) in living {
            let strongest = held.entry(ino).or_insert(scope);
            *strongest = scope.max(*strongest);
        }
        Ok(held)
    }
}

/// Runs [`Session::renew_holds`] every second, and when a hold is released, until the session
/// closes.
pub(crate) async fn maintain_holds(volume: Weak<Session>) {
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let (closing, holds) = (alive.closing.clone(), Arc::clone(&alive.holds));
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = holds.released.notified() => {}
        }
        let Some(alive) = volume.upgrade() else { return };
        if alive.is_fenced() {
            return;
        }
        alive.renew_holds().await;
    }
}
