//! Opening a volume's records, or making them, and beginning a session.

use std::time::Duration;

use block::BlockStore;
use record::{
    Account, AccountId, Attributes, CanonicalId, DecodeError, Directory, HeartbeatRecord, Ino,
    Inode, InodeBody, Nonce, Sequence, SessionRecord, Timestamp, VolumeRecord, key,
};
use store::{Guard, Key, MetaStore, Plan, Read, StoreError, StoreErrorKind, Value, Verdict, Write};
use tracing::{info, warn};

use super::{mark, value};
use crate::error::{VolumeError, corrupt};

/// How often the first commits of a session are tried while the store does not answer.
const ATTEMPTS_MAX: u32 = 4;

const PAUSE: Duration = Duration::from_millis(250);

/// The first epoch of a volume.
const FIRST_EPOCH: u64 = 1;

/// How people call the account that every volume has.
const MAIN_ACCOUNT: &str = "main";

/// Permission bits of the root.
const ROOT_MODE: u32 = 0o755;

/// A session that has begun.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) volume: VolumeRecord,
    pub(crate) nonce: Nonce,
    /// The heartbeat as it stands.
    pub(crate) beat: (HeartbeatRecord, Value),
    pub(crate) epoch: u64,
}

/// How a volume is opened or made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSettings {
    /// Makes a volume if the store has none.
    pub(crate) creates: bool,
    /// Accepts a place of blocks without the mark that was set.
    pub(crate) adopts: bool,
    /// The content of a full block of a new volume.
    pub(crate) block_bytes: u32,
    /// The time of day.
    pub(crate) now: Timestamp,
}

/// Opens the volume in a store, or makes one if `how` allows it, and checks that the place of the
/// blocks is its own.
pub(crate) async fn find_volume(
    store: &dyn MetaStore,
    blocks: &dyn BlockStore,
    settings: OpenSettings,
) -> Result<VolumeRecord, VolumeError> {
    let owner = mark::read(blocks).await?;
    let volume = match read_volume(store).await? {
        Some(volume) => volume,
        None if !settings.creates => {
            return Err(VolumeError::Refused(
                "there is no volume in the metadata store".to_owned(),
            ));
        }
        None => {
            mark::check_free(blocks, owner).await?;
            make_volume(store, settings.block_bytes, settings.now).await?
        }
    };
    check_format(&volume)?;
    match owner {
        None if volume.marked && settings.adopts => mark::check_adoptable(store, blocks).await?,
        owner => mark::check_kept(owner, &volume)?,
    }
    mark::claim(blocks, owner, &volume).await?;
    note_marked(store, volume).await
}

/// Checks that a place of blocks belongs to the volume in a store, and changes nothing. A store
/// without a volume, or with a damaged record of one, passes.
///
/// # Errors
/// [`VolumeError::Refused`] if the place has the mark of another volume, or lacks the mark that was
/// set. The errors of reading both.
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
    mark::check_kept(owner, &volume)?;
    mark::check_owner(owner, &volume)
}

/// Records that the place of a volume's blocks bears its mark. Of several processes that do so at the
/// same time, one changes the record.
async fn note_marked(
    store: &dyn MetaStore,
    volume: VolumeRecord,
) -> Result<VolumeRecord, VolumeError> {
    if volume.marked {
        return Ok(volume);
    }
    let at = key::volume();
    let marked = VolumeRecord { marked: true, ..volume.clone() };
    let plan = Plan {
        guards: vec![Guard::Equals(at.clone(), volume.encode(&at))],
        writes: vec![Write::Put(at.clone(), marked.encode(&at))],
    };
    commit_once(store, plan).await?;
    match read_volume(store).await? {
        Some(volume) if volume.marked => Ok(volume),
        _ => Err(VolumeError::Corrupt("the volume's record was changed meanwhile".to_owned())),
    }
}

/// Begins a session in a volume.
pub(crate) async fn start(
    store: &dyn MetaStore,
    volume: VolumeRecord,
    place: &str,
    now: Timestamp,
) -> Result<Started, VolumeError> {
    let (nonce, beat, epoch) = begin(store, place, now).await?;
    info!(session = %nonce, epoch, "session begun");
    Ok(Started { volume, nonce, beat, epoch })
}

/// That this release knows the format of the volume in a store. A store without a volume, or with a
/// damaged record of one, passes: what is wrong there is for the caller to find.
pub async fn check_volume_format(store: &dyn MetaStore) -> Result<(), VolumeError> {
    match read_volume(store).await {
        Ok(Some(volume)) => check_format(&volume),
        Ok(None) | Err(VolumeError::Corrupt(_)) => Ok(()),
        Err(error) => Err(error),
    }
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

/// Makes a volume. When another process makes one at the same time, its volume is the volume.
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
        marked: false,
    };
    let attributes = Attributes::new(ROOT_MODE, 0, 0, now);
    let body = InodeBody::Directory(Directory { parent: Ino::ROOT, name: Vec::new() });
    let root = Inode { attributes, bucket: Ino::ROOT, xattrs: Vec::new(), body };
    let (at, root_key) = (key::volume(), key::inode(Ino::ROOT));
    let main = Account { name: MAIN_ACCOUNT.to_owned(), canonical_id: CanonicalId(random()?) };
    let main_key = key::account(AccountId::MAIN);
    let (lease, epoch) = (key::lease(), key::epoch());
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
    // The guard makes the plan happen once however often it is sent.
    commit_once(store, plan).await?;
    match read_volume(store).await? {
        Some(volume) => {
            info!(volume = hex::encode(volume.id), block_bytes = volume.block_bytes, "volume made");
            Ok(volume)
        }
        None => Err(VolumeError::Corrupt("the store forgot the volume it was told of".to_owned())),
    }
}

/// Commits a plan that may be sent any number of times, because it refuses itself once it has
/// happened. Answers what the store said last.
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
                warn!(%error, tries, "starting: trying again");
                tokio::time::sleep(PAUSE * tries).await;
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Begins a session under a new name.
pub(crate) async fn begin(
    store: &dyn MetaStore,
    place: &str,
    now: Timestamp,
) -> Result<(Nonce, (HeartbeatRecord, Value), u64), VolumeError> {
    let epoch_key = key::epoch();
    let epoch = read_one(store, &epoch_key).await?;
    let epoch = epoch.ok_or_else(|| VolumeError::Corrupt("the epoch is missing".to_owned()))?;
    let epoch = Sequence::decode(&epoch_key, &epoch).map_err(|e| corrupt(&epoch_key, &e))?.0;
    let nonce = Nonce(random()?);
    let (session_key, beat_key) = (key::session(nonce), key::heartbeat(nonce));
    let record = SessionRecord { began: now, place: place.to_owned() }.encode(&session_key);
    let beat = HeartbeatRecord { count: 0, passed: epoch };
    let beat_value = beat.encode(&beat_key);
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
    // The name is random: whoever holds it is this session, from a try whose answer was lost.
    let began =
        verdict == Verdict::Committed || read_one(store, &session_key).await? == Some(record);
    if began {
        Ok((nonce, (beat, beat_value), epoch))
    } else {
        Err(VolumeError::Unavailable("the session could not begin: it was ended at once".into()))
    }
}
