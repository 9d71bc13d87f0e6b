//! The status of a volume, read from its metadata store.

use record::key::{self, space};
use record::{Nonce, SessionRecord, Timestamp, VolumeRecord};
use session::{entries, session_in_key, value};
use store::{Durability, Read};

use crate::drive::corrupt;
use crate::{Admin, AdminError};

/// Sessions that [`Admin::status`] lists at most.
pub const SESSIONS_LISTED_MAX: u32 = 1_000;

/// The status of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The volume's own record.
    pub volume: VolumeRecord,
    /// The durability of the metadata store now.
    pub durability: Durability,
    /// The open sessions, at most [`SESSIONS_LISTED_MAX`]. That of a process that was killed is
    /// among them until it is fenced.
    pub sessions: Vec<OpenSession>,
}

/// A process that has a volume open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// The session's name.
    pub nonce: Nonce,
    /// Where it runs, for people: host and process.
    pub place: String,
    /// When it began, by its own clock.
    pub began: Timestamp,
}

impl Admin {
    /// Whether there is a volume in the store, or a damaged record in its place.
    pub async fn has_volume(&self) -> Result<bool, AdminError> {
        let found = self.read(&[Read::Record { key: key::volume(), follow: None }]).await?;
        Ok(value(found.first()).is_some())
    }

    /// The status of the volume, from one snapshot.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], [`AdminError::Unread`], [`AdminError::Corrupt`].
    pub async fn status(&self) -> Result<Status, AdminError> {
        let at = key::volume();
        let (start, end) = key::partition(space::SESSION, 0);
        let limit = SESSIONS_LISTED_MAX.min(self.store.limits().range_records);
        let reads = [
            Read::Record { key: at.clone(), follow: None },
            Read::Range { start, end, limit, follow: None },
        ];
        let mut found = self.read(&reads).await?.into_iter();
        let volume = value(found.next().as_ref()).ok_or(AdminError::NoVolume)?;
        let volume = VolumeRecord::decode(&at, &volume).map_err(|error| corrupt(&at, &error))?;
        let sessions = entries(found.next()).into_iter().map(|entry| {
            let nonce = session_in_key(&entry.key)
                .ok_or_else(|| AdminError::Corrupt(format!("{:?} names no session", entry.key)))?;
            let SessionRecord { began, place } = SessionRecord::decode(&entry.key, &entry.value)
                .map_err(|error| corrupt(&entry.key, &error))?;
            Ok(OpenSession { nonce, place, began })
        });
        let sessions = sessions.collect::<Result<_, AdminError>>()?;
        // Read after the snapshot, which may have found that the store's settings have changed.
        Ok(Status { volume, durability: self.store.durability(), sessions })
    }
}
