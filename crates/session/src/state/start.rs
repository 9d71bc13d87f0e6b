//! Opening or creating a volume's records, and beginning a session.
//!
//! For example, two gateways start over one empty database. Both try to create the volume under the
//! guard that it is absent; one plan commits, and both use that volume.

use std::time::Duration;

use block::BlockStore;
use record::{
    Account, AccountId, Attributes, CanonicalId, DecodeError, Directory, HeartbeatRecord, Ino,
    Inode, InodeBody, Nonce, Sequence, SessionFacts, SessionRecord, SocketSecret, Timestamp,
    VolumeRecord, key,
};
use store::{Guard, Key, MetaStore, Plan, Read, StoreError, StoreErrorKind, Value, Verdict, Write};
use tracing::{info, warn};

use super::mark::{self, BlockOwner};
use super::value;
use crate::error::{VolumeError, corrupt};

/// Tries of the first commits of a session while the store does not answer.
const ATTEMPTS_MAX: u32 = 4;

/// Pause before the second try. The pause before each further try is longer by this time.
const PAUSE: Duration = Duration::from_millis(250);

/// The first epoch of a volume.
const FIRST_EPOCH: u64 = 1;

/// The name of the account that every volume has.
const MAIN_ACCOUNT: &str = "main";

/// Permission bits of the root directory.
const ROOT_MODE: u32 = 0o755;

/// A session that has begun.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) volume: VolumeRecord,
    pub(crate) nonce: Nonce,
    /// The session's first heartbeat, and its encoded record.
    pub(crate) beat: (HeartbeatRecord, Value),
    pub(crate) epoch: u64,
}

/// Settings for opening or creating a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSettings {
    /// If true, a volume is created when the store has none.
    pub(crate) creates: bool,
    /// If true, a block location without the volume's mark, or with an earlier one, becomes the
    /// location of the volume, and the previous location is refused from then on.
    pub(crate) adopts: bool,
    /// Content bytes of a full block, for a new volume.
    pub(crate) block_bytes: u32,
    /// The current time.
    pub(crate) now: Timestamp,
}

/// Opens the volume in a store, or creates it if `settings` allow that. Checks that the block
/// location belongs to it.
pub(crate) async fn find_volume(
    store: &dyn MetaStore,
    blocks: &dyn BlockStore,
    settings: OpenSettings,
) -> Result<VolumeRecord, VolumeError> {
    // The mark is read before anything is written: a location with an unknown mark must lead to no
    // change in the store.
    let owner = mark::read(blocks).await?;
    let volume = match read_volume(store).await? {
        Some(volume) => volume,
        None if !settings.creates => {
            return Err(VolumeError::Refused(
                "there is no volume in the metadata store".to_owned(),
            ));
        }
        None => {
            // Checked before the volume is created, since a volume record cannot be taken back.
            match mark::check_free(blocks, owner).await {
                Ok(()) => make_volume(store, settings.block_bytes, settings.now).await?,
                // The blocks can be those of another process that has created the volume meanwhile.
                Err(refusal) => read_volume(store).await?.ok_or(refusal)?,
            }
        }
    };
    check_format(&volume)?;
    // If another process has created the volume meanwhile, then its mark may be newer than the
    // first read. A location is marked before the record says so, so a read after the record's is
    // final.
    let owner = match owner {
        None if volume.place.is_some() => mark::read(blocks).await?,
        owner => owner,
    };
    mark::check_owner(owner, &volume)?;
    // The location is marked before the record says so: a crash in between is repaired by the next
    // start.
    let claimed = if settings.adopts && volume.place.is_some() {
        mark::check_adoptable(store, blocks).await?;
        mark::replace(blocks, owner, BlockOwner::new(&volume, random()?)).await?
    } else {
        mark::check_kept(owner, &volume)?;
        mark::claim(blocks, owner, BlockOwner::new(&volume, random()?)).await?
    };
    mark::check_owner(Some(claimed.owner), &volume)?;
    match note_place(store, volume, claimed.owner.place).await? {
        Ok(volume) => Ok(volume),
        Err(winner) => {
            // Another process has marked another location meanwhile, and was faster.
            if claimed.is_new {
                mark::remove(blocks, claimed.owner).await?;
            }
            Err(mark::elsewhere(&winner))
        }
    }
}

/// Checks that a block location belongs to the volume in a store, without changes. Passes if the
/// store has no volume or a damaged volume record.
///
/// # Errors
/// [`VolumeError::Refused`] if the location has the mark of another volume or a mark of an unknown
/// format, lacks a mark that was set, or is another location of the volume. The errors of reading
/// the two stores.
pub async fn check_block_owner(
    store: &dyn MetaStore,
    blocks: &dyn BlockStore,
) -> Result<(), VolumeError> {
    let volume = match read_volume(store).await {
        Ok(Some(volume)) => volume,
        Ok(None) | Err(VolumeError::Corrupt(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let owner = mark::read(blocks).await?;
    mark::check_owner(owner, &volume)?;
    mark::check_kept(owner, &volume)
}

/// Records in the store that the location with this id has the volume's mark, the object that names
/// the volume. Of several processes that do so at the same time, one changes the record. Returns
/// the volume's record; in `Err`, the one with the location of another process.
async fn note_place(
    store: &dyn MetaStore,
    mut volume: VolumeRecord,
    place: [u8; 16],
) -> Result<Result<VolumeRecord, VolumeRecord>, VolumeError> {
    let (at, before) = (key::volume(), volume.place);
    for _ in 0..ATTEMPTS_MAX {
        if volume.place == Some(place) {
            return Ok(Ok(volume));
        }
        if volume.place != before {
            return Ok(Err(volume));
        }
        let marked = VolumeRecord { place: Some(place), ..volume.clone() };
        let plan = Plan {
            guards: vec![Guard::Equals(at.clone(), volume.encode(&at))],
            writes: vec![Write::Put(at.clone(), marked.encode(&at))],
        };
        commit_once(store, plan).await?;
        // Another process may have changed another field of the record, and then the next try
        // commits.
        let lost = || VolumeError::Corrupt("the volume's record was removed".to_owned());
        volume = read_volume(store).await?.ok_or_else(lost)?;
    }
    if volume.place == Some(place) {
        return Ok(Ok(volume));
    }
    Err(VolumeError::Unavailable(
        "other processes change the volume's record at the same time; try again".to_owned(),
    ))
}

/// Begins a session in a volume.
pub(crate) async fn start(
    store: &dyn MetaStore,
    volume: VolumeRecord,
    process: (&str, &SessionFacts),
    now: Timestamp,
) -> Result<Started, VolumeError> {
    let (nonce, beat, epoch) = begin(store, process, now).await?;
    info!(session = %nonce, epoch, "session begun");
    Ok(Started { volume, nonce, beat, epoch })
}

/// Checks that this release knows the format of the volume in a store. Passes if the store has no
/// volume or a damaged volume record; the caller reports those. Fails with
/// [`VolumeError::Unavailable`] if the format is another one or the store cannot be read.
pub async fn check_volume_format(store: &dyn MetaStore) -> Result<(), VolumeError> {
    match read_volume(store).await {
        Ok(Some(volume)) => check_format(&volume),
        Ok(None) | Err(VolumeError::Corrupt(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the record of the volume in a store. Fails with [`VolumeError::Refused`] if there is
/// none, and with [`VolumeError::Unavailable`] if this release does not know its format.
pub(crate) async fn existing_volume(store: &dyn MetaStore) -> Result<VolumeRecord, VolumeError> {
    let absent = || VolumeError::Refused("there is no volume in the metadata store".to_owned());
    let volume = read_volume(store).await?.ok_or_else(absent)?;
    check_format(&volume)?;
    Ok(volume)
}

fn check_format(volume: &VolumeRecord) -> Result<(), VolumeError> {
    let (format, ours) = (volume.format, VolumeRecord::CURRENT);
    if format == ours {
        return Ok(());
    }
    let release = if format > ours { "a newer one" } else { "the one that made it" };
    Err(VolumeError::Unavailable(format!(
        "the volume has format {format}, and this release knows format {ours}: use {release}"
    )))
}

fn random<const N: usize>() -> Result<[u8; N], VolumeError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        VolumeError::Unavailable(format!("the machine gives no random numbers: {error}"))
    })?;
    Ok(bytes)
}

pub(super) async fn read_one(
    store: &dyn MetaStore,
    key: &Key,
) -> Result<Option<Value>, StoreError> {
    let found = store.read(&[Read::Record { key: key.clone(), follow: None }]).await?;
    Ok(value(found.first()))
}

async fn read_volume(store: &dyn MetaStore) -> Result<Option<VolumeRecord>, VolumeError> {
    let key = key::volume();
    let Some(value) = read_one(store, &key).await? else { return Ok(None) };
    match VolumeRecord::decode(&key, &value) {
        Ok(volume) => Ok(Some(volume)),
        Err(DecodeError::Format(format)) => Err(VolumeError::Unavailable(format!(
            "the volume's record has format {format}, which this release does not know: use a \
             newer one"
        ))),
        Err(error) => Err(corrupt(&key, &error)),
    }
}

/// Creates a volume. If another process creates one at the same time, that one is used.
async fn make_volume(
    store: &dyn MetaStore,
    block_bytes: u32,
    now: Timestamp,
) -> Result<VolumeRecord, VolumeError> {
    let volume = VolumeRecord {
        id: random()?,
        made: now,
        format: VolumeRecord::CURRENT,
        generation: 1,
        block_bytes,
        place: None,
    };
    let attributes = Attributes::new(ROOT_MODE, 0, 0, now);
    let body = InodeBody::Directory(Directory { parent: Ino::ROOT, name: Vec::new() });
    let root = Inode { attributes, bucket: Ino::ROOT, xattrs: Vec::new(), body };
    let (at, root_key) = (key::volume(), key::inode(Ino::ROOT));
    let main = Account { name: MAIN_ACCOUNT.to_owned(), canonical_id: CanonicalId(random()?) };
    let main_key = key::account(AccountId::MAIN);
    let (lease, epoch) = (key::lease(), key::epoch());
    // All records in one plan, so that no process can see half a volume.
    let plan = Plan {
        guards: vec![Guard::Absent(at.clone())],
        writes: vec![
            Write::Put(at.clone(), volume.encode(&at)),
            Write::Put(root_key.clone(), root.encode(&root_key)),
            Write::Put(main_key.clone(), main.encode(&main_key)),
            Write::Put(lease.clone(), Sequence(Ino::FIRST_LEASED.0).encode(&lease)),
            Write::Put(epoch.clone(), Sequence(FIRST_EPOCH).encode(&epoch)),
        ],
    };
    // The guard makes the plan commit at most once, however often it is sent.
    commit_once(store, plan).await?;
    match read_volume(store).await? {
        Some(volume) => {
            info!(
                volume = hex::encode(volume.id),
                block_bytes = volume.block_bytes,
                "volume created"
            );
            Ok(volume)
        }
        None => Err(VolumeError::Corrupt(
            "the store does not return the volume that was committed".to_owned(),
        )),
    }
}

/// Commits a plan that refuses itself once it has committed, so it may be sent repeatedly. Returns
/// the last verdict.
pub(super) async fn commit_once(store: &dyn MetaStore, plan: Plan) -> Result<Verdict, VolumeError> {
    let plans = [plan];
    let mut tries = 1;
    loop {
        match store.commit(&plans).await {
            Ok(verdicts) => {
                let verdict = verdicts.into_iter().next();
                return verdict
                    .ok_or_else(|| VolumeError::Corrupt("the store gave no verdict".to_owned()));
            }
            Err(error)
                if tries < ATTEMPTS_MAX
                    && matches!(
                        error.kind(),
                        StoreErrorKind::Unknown | StoreErrorKind::Unavailable
                    ) =>
            {
                warn!(%error, tries, "a first commit of the session failed: trying again");
                tokio::time::sleep(PAUSE * tries).await;
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Begins a session under a new random name. Returns the name, the first heartbeat with its record,
/// and the volume's epoch.
pub(crate) async fn begin(
    store: &dyn MetaStore,
    (place, facts): (&str, &SessionFacts),
    now: Timestamp,
) -> Result<(Nonce, (HeartbeatRecord, Value), u64), VolumeError> {
    let epoch_key = key::epoch();
    let epoch = read_one(store, &epoch_key).await?;
    let epoch = epoch.ok_or_else(|| VolumeError::Corrupt("the epoch is missing".to_owned()))?;
    let epoch = Sequence::decode(&epoch_key, &epoch).map_err(|e| corrupt(&epoch_key, &e))?.0;
    // A random name needs no coordination, and no later session can have it.
    let nonce = Nonce(random()?);
    let (session_key, beat_key) = (key::session(nonce), key::heartbeat(nonce));
    let record = SessionRecord {
        began: now,
        place: place.to_owned(),
        reach: Vec::new(),
        socket_secret: SocketSecret::NONE,
        facts: facts.clone(),
    };
    let record = record.encode(&session_key);
    // The passed epoch is the one that was just read. Readers of this session begin in it or later.
    let beat = HeartbeatRecord { count: 0, passed: epoch, reads: String::new() };
    let beat_value = beat.encode(&beat_key);
    // A name that was fenced before stays unusable. A store without a volume gets no session.
    let plan = Plan {
        guards: vec![
            Guard::Absent(session_key.clone()),
            Guard::Absent(key::fenced(nonce)),
            Guard::Present(key::volume()),
        ],
        writes: vec![
            Write::Put(session_key.clone(), record.clone()),
            Write::Put(beat_key, beat_value.clone()),
        ],
    };
    let verdict = commit_once(store, plan).await?;
    // The name is random, so a record with this name is from an earlier try whose answer was lost.
    let began =
        verdict == Verdict::Committed || read_one(store, &session_key).await? == Some(record);
    if began {
        Ok((nonce, (beat, beat_value), epoch))
    } else {
        Err(VolumeError::Unavailable("the session could not begin: it was ended at once".into()))
    }
}
