//! The status of a volume, read from its metadata store.
//!
//! For example, `ashlar status` shows the durability of the store and the hosts of all open
//! sessions.

use std::collections::HashMap;

use record::key::{self, space};
use record::{HeartbeatRecord, Nonce, SessionFacts, SessionRecord, Timestamp, VolumeRecord};
use session::{entries, session_in_key, value};
use store::{Durability, Read};

use crate::change::corrupt;
use crate::{Admin, AdminError};

/// The largest number of sessions that [`Admin::status`] lists.
pub const SESSIONS_LISTED_MAX: u32 = 1_000;

/// The status of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The record of the volume.
    pub volume: VolumeRecord,
    /// The current durability of the metadata store.
    pub durability: Durability,
    /// The open sessions, at most [`SESSIONS_LISTED_MAX`]. The session of a process that was killed
    /// is listed until another session fences it, that is, ends it from outside.
    pub sessions: Vec<OpenSession>,
}

/// A process that has a volume open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// The nonce of the session, that is, its unique name.
    pub nonce: Nonce,
    /// The host and process of the session.
    pub place: String,
    /// The time at which the session began, by its own clock.
    pub began: Timestamp,
    /// The place from which it answered reads when it last wrote its heartbeat. For example,
    /// `leased (2 peers)`. Empty if it has not written one since it began, as a command.
    pub reads: String,
    /// The addresses at which other sessions reach it.
    pub reach: Vec<String>,
    /// Facts about its process.
    pub facts: SessionFacts,
}

impl Admin {
    /// Returns true if the store has the record of a volume, intact or damaged.
    pub async fn has_volume(&self) -> Result<bool, AdminError> {
        let found = self.read(&[Read::Record { key: key::volume(), follow: None }]).await?;
        Ok(value(found.first()).is_some())
    }

    /// Returns the status of the volume, from one snapshot.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], [`AdminError::Unread`], [`AdminError::Corrupt`].
    pub async fn status(&self) -> Result<Status, AdminError> {
        let at = key::volume();
        let (start, end) = key::partition(space::SESSION, 0);
        let limit = SESSIONS_LISTED_MAX.min(self.store.limits().range_records);
        let (beats, beats_end) = key::partition(space::HEARTBEAT, 0);
        // One read takes all, so that they are of one snapshot.
        let reads = [
            Read::Record { key: at.clone(), follow: None },
            Read::Range { start, end, limit, follow: None },
            Read::Range { start: beats, end: beats_end, limit, follow: None },
        ];
        let mut found = self.read(&reads).await?.into_iter();
        let volume = value(found.next().as_ref()).ok_or(AdminError::NoVolume)?;
        let volume = VolumeRecord::decode(&at, &volume).map_err(|error| corrupt(&at, &error))?;
        let sessions = entries(found.next());
        let beats: HashMap<Option<Nonce>, String> = entries(found.next())
            .iter()
            .filter_map(|entry| {
                let beat = HeartbeatRecord::decode(&entry.key, &entry.value).ok()?;
                Some((session_in_key(&entry.key), beat.reads))
            })
            .collect();
        let sessions = sessions.into_iter().map(|entry| {
            let nonce = session_in_key(&entry.key)
                .ok_or_else(|| AdminError::Corrupt(format!("{:?} names no session", entry.key)))?;
            let record = SessionRecord::decode(&entry.key, &entry.value);
            let SessionRecord { began, place, reach, facts, socket_secret: _ } =
                record.map_err(|error| corrupt(&entry.key, &error))?;
            let reads = beats.get(&Some(nonce)).cloned().unwrap_or_default();
            Ok(OpenSession { nonce, place, began, reads, reach, facts })
        });
        let sessions = sessions.collect::<Result<_, AdminError>>()?;
        // The store learns of changed server settings when it reads, so its durability comes after
        // that.
        Ok(Status { volume, durability: self.store.durability(), sessions })
    }
}
