//! The decision whether a start may create a volume, and the file that links a data directory to
//! its volume.
//!
//! A misspelt `--meta` or `--data-dir` names a place without a volume. A new volume there would be
//! empty, and clients would write to it instead of their own. So commands and mounts never create a
//! volume, and `ashlar serve` creates one only if no sign shows that one should exist already:
//!
//! | data directory | without `--create` |
//! |---|---|
//! | its file [`PLACE_FILE`] names a volume | refused: that volume is not in `--meta` |
//! | it, or a folder above it, is a mount point of `/etc/fstab` that is not mounted | refused |
//! | it is a folder of blocks with a mark, or below one | refused |
//! | the default, or it exists | a volume is created |
//! | neither it nor its parent directory exists | refused |
//! | it does not exist, and a sibling directory belongs to a volume | refused |
//! | it does not exist, and no sibling belongs to a volume | a volume is created |
//!
//! For example, after a start with `--data-dir /srv/ashlar`, a start with `--data-dir /srv/ashlr`
//! is refused because of `/srv/ashlar`. `--create` creates a volume in all these cases. In no case
//! does a volume take over the blocks of another one: see `session::Session::open`.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::AdminError;
use record::VolumeRecord;
use store::MetaStore;

use crate::config::{BlocksPlace, DATA_DIR_DEFAULT, MetaPlace, VolumeSettings};
use crate::engines::{self, Use};
use crate::{operator, presence, private};
use problem::Problem;

/// The file in a data directory that names its volume.
pub(crate) const PLACE_FILE: &str = "volume.place";

/// The prefixes of the lines of the file that names a data directory's volume.
const ID: &str = "volume = ";
const META: &str = "meta = ";

/// The remedy if this user may not read the file.
const UNREADABLE: &str = "run as the owner of the data directory, or give another --data-dir";
/// The remedy if the file that names the volume has other content than [`Place::write`] writes.
const NO_PLACE: &str = "remove the file if the data directory belongs to no other volume";

/// The purpose for which a process opens a volume. It decides if a volume may be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// A gateway, which may create a volume.
    Serve {
        /// True: create it even if the data directory belongs to another volume.
        create: bool,
    },
    /// A mount, which never creates one.
    Mount,
}

/// The content of the file in a data directory that names the volume to which the directory
/// belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The volume's id, in hexadecimal.
    volume: String,
    /// The metadata store of the volume, as messages show it: a URL without its password.
    meta: String,
}

/// Fails if there is no volume and this start may not create one. Returns the metadata store if it
/// was opened for this check; it contains a volume then, whose record may be damaged. Returns
/// `None` if a volume may be created.
pub(crate) async fn admit(
    settings: &VolumeSettings,
    intent: Intent,
) -> Result<Option<Arc<dyn MetaStore>>, Problem> {
    if settings.meta == MetaPlace::Memory {
        return Ok(None);
    }
    let place = Place::read(&settings.data_dir)?;
    // Without a reason to refuse, the start may create a volume, so the store need not be opened
    // for a check.
    let Some(refusal) = refusal(settings, intent, place.as_ref()) else {
        warn_of_new_volume(settings, place.as_ref());
        return Ok(None);
    };
    // Opening the store would create it, so its existence is checked first.
    if !engines::is_made(settings).await? {
        return Err(refusal);
    }
    let meta = engines::meta(settings, Use::Serve).await?;
    let found = operator::over(Arc::clone(&meta)).status().await;
    let checked = match found {
        Ok(status) => check_place(settings, place.as_ref(), &status.volume),
        Err(AdminError::NoVolume) => Err(refusal),
        // The record is damaged, or the store does not answer. Opening the volume fails with that
        // error.
        Err(_) => Ok(()),
    };
    match checked {
        Ok(()) => Ok(Some(meta)),
        Err(problem) => {
            meta.close().await;
            Err(problem)
        }
    }
}

/// Fails if the metadata store does not exist, so that a command that needs a volume creates no
/// file and no tables.
pub(crate) async fn check_present(settings: &VolumeSettings, doing: &str) -> Result<(), Problem> {
    if engines::is_made(settings).await? { Ok(()) } else { Err(no_volume(settings, doing)) }
}

/// Fails if the metadata store is a file that does not exist. For a process without a runtime; the
/// worker checks a database server later.
pub(crate) fn check_file(settings: &VolumeSettings, doing: &str) -> Result<(), Problem> {
    match &settings.meta {
        MetaPlace::Sqlite(path) if !presence::is_present(path)? => Err(no_volume(settings, doing)),
        MetaPlace::Sqlite(_) | MetaPlace::Memory | MetaPlace::Server(_) => Ok(()),
    }
}

/// Returns the problem of a metadata store without a volume. If the data directory belongs to a
/// volume in another store, the remedy names that store.
pub(crate) fn no_volume(settings: &VolumeSettings, doing: &str) -> Problem {
    let dir = &settings.data_dir;
    let wrong = if settings.meta == MetaPlace::default_in(dir) {
        // The absolute path shows a wrong working directory at once.
        let shown = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        format!("there is no volume in the data directory {}", shown.display())
    } else {
        format!("there is no volume in {}", settings.meta)
    };
    let problem = Problem::new(doing, wrong);
    match Place::read(dir) {
        Ok(Some(place)) if place.meta != settings.meta.to_string() => problem.remedy(format!(
            "the data directory {} belongs to a volume in {}: give that store as --meta or ASHLAR_META",
            dir.display(),
            place.meta
        )),
        Ok(_) | Err(_) => problem.remedy(
            "give the gateway's --meta or --data-dir (ASHLAR_META, ASHLAR_DATA_DIR); only `ashlar \
             serve` creates a volume",
        ),
    }
}

/// Returns the problem if this start may not create a volume, by the table of this module; `None`
/// if it may. `place` is the volume to which the data directory belongs, `None` if it names none.
fn refusal(settings: &VolumeSettings, intent: Intent, place: Option<&Place>) -> Option<Problem> {
    let create = match intent {
        Intent::Mount => return Some(no_volume(settings, "mount")),
        Intent::Serve { create } => create,
    };
    if create {
        return None;
    }
    let data_dir = &settings.data_dir;
    let (dir, meta) = (data_dir.display(), &settings.meta);
    let refused = |wrong: String, remedy: &str| {
        Some(Problem::new(format!("create a volume in {meta}"), wrong).remedy(remedy))
    };
    // The strongest sign comes first: the file of the data directory names a volume, and that
    // volume is not in this metadata store.
    if let Some(Place { volume, meta: theirs }) = place {
        return refused(
            format!(
                "there is none, and the data directory {dir} belongs to volume {volume} in {theirs}"
            ),
            "give the --meta of that volume; for a new volume, give another --data-dir, or start \
             once with --create",
        );
    }
    if let Some(problem) = wrong_folder(settings) {
        return Some(problem);
    }
    // The default is the first start without options. An existing directory was created on purpose,
    // for example as the volume of a container.
    if data_dir.as_path() == Path::new(DATA_DIR_DEFAULT) || data_dir.exists() {
        return None;
    }
    let parent = parent(data_dir);
    if !parent.is_dir() {
        return Some(
            Problem::new(
                format!("create the data directory {dir}"),
                format!("its parent directory {} does not exist", parent.display()),
            )
            .remedy("correct --data-dir, or create that directory"),
        );
    }
    let sibling = sibling_with_volume(&parent)?;
    refused(
        format!(
            "there is none, the data directory {dir} does not exist, and its sibling {} belongs to \
             a volume",
            sibling.display()
        ),
        "correct --data-dir; for a new volume, start once with --create",
    )
}

/// Returns the problem of a new volume in a folder in which none belongs: a mount point whose disk
/// is not mounted, or the blocks of another volume.
fn wrong_folder(settings: &VolumeSettings) -> Option<Problem> {
    let data_dir = &settings.data_dir;
    let folder = match &settings.blocks {
        BlocksPlace::Folder(folder) => Some(folder),
        BlocksPlace::Memory | BlocksPlace::Bucket(_) => None,
    };
    let doing = || format!("create a volume in {}", settings.meta);
    let mut folders = [Some(data_dir), folder].into_iter().flatten();
    if let Some(point) = folders.find_map(|path| presence::unmounted(path)) {
        let point = point.display();
        let wrong =
            format!("there is none, and {point}, a mount point of /etc/fstab, is not mounted");
        let remedy = format!("run `mount {point}`; for a new volume, start once with --create");
        return Some(Problem::new(doing(), wrong).remedy(remedy));
    }
    let blocks = presence::blocks_above(data_dir)?;
    let wrong = format!(
        "there is none, and the data directory {} belongs to the blocks of a volume, because {} has a mark",
        data_dir.display(),
        blocks.display()
    );
    Some(
        Problem::new(doing(), wrong)
            .remedy("correct --data-dir; a new volume needs a directory of its own"),
    )
}

/// Logs that this start creates a volume in an existing folder that `--data-dir` names. The folder
/// may be a mount point whose disk is away.
fn warn_of_new_volume(settings: &VolumeSettings, place: Option<&Place>) {
    let dir = &settings.data_dir;
    let MetaPlace::Sqlite(file) = &settings.meta else { return };
    let is_chosen = dir.as_path() != Path::new(DATA_DIR_DEFAULT) && dir.is_dir();
    if is_chosen && place.is_none() && presence::is_present(file) == Ok(false) {
        tracing::warn!(folder = %dir.display(), "creating a new volume: the folder has none. If a disk belongs there, stop the gateway and mount the disk");
    }
}

/// Returns the parent of a directory, `.` for a relative name.
fn parent(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Returns a directory in `folder` that is the data directory of a volume.
fn sibling_with_volume(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let mut found = entries.filter_map(|entry| Some(entry.ok()?.path()));
    found.find(|path| path.join(PLACE_FILE).is_file())
}

/// Fails if a data directory belongs to another volume than the one in the metadata store.
fn check_place(
    settings: &VolumeSettings,
    place: Option<&Place>,
    volume: &VolumeRecord,
) -> Result<(), Problem> {
    let id = hex::encode(volume.id);
    let Some(place) = place.filter(|place| place.volume != id) else { return Ok(()) };
    let (dir, meta) = (settings.data_dir.display(), &settings.meta);
    let wrong = format!(
        "it has volume {id}, and the data directory {dir} belongs to volume {} in {}",
        place.volume, place.meta
    );
    let file = settings.data_dir.join(PLACE_FILE);
    let remedy = format!(
        "correct --meta, or use a separate --data-dir for each volume; if the other volume is no \
         longer needed, remove {}",
        file.display()
    );
    Err(Problem::new(format!("use {meta}"), wrong).remedy(remedy))
}

/// Fails if the directory of blocks does not exist although the volume has marked its block store:
/// opening the directory would create an empty one. If `adopts` is true, skips the check, because
/// the operator has asked with `--adopt-blocks` to accept a block store without the mark.
pub(crate) async fn check_folder(
    settings: &VolumeSettings,
    meta: &Arc<dyn MetaStore>,
    adopts: bool,
) -> Result<(), Problem> {
    let BlocksPlace::Folder(path) = &settings.blocks else { return Ok(()) };
    if adopts || presence::is_present(path)? {
        return Ok(());
    }
    match operator::over(Arc::clone(meta)).status().await {
        Ok(status) if status.volume.place.is_some() => {
            let wrong = format!(
                "the directory does not exist, and the volume in {} has its blocks elsewhere",
                settings.meta
            );
            Err(Problem::new(format!("use the block store {}", settings.blocks), wrong).remedy(
                "give the --blocks of this volume; if they are on a disk or share, mount it first",
            ))
        }
        _ => Ok(()),
    }
}

/// Writes to the data directory that it belongs to a volume. A failure is only logged, because the
/// volume can be served nevertheless.
pub(crate) fn remember(settings: &VolumeSettings, volume: &VolumeRecord) {
    if settings.meta == MetaPlace::Memory {
        return;
    }
    let place = Place { volume: hex::encode(volume.id), meta: settings.meta.to_string() };
    let path = settings.data_dir.join(PLACE_FILE);
    // The file is written again if an earlier release left it readable for other users.
    let is_kept = Place::read(&settings.data_dir).ok().flatten().as_ref() == Some(&place);
    if is_kept && private::is_closed(&path) {
        return;
    }
    if let Err(error) = place.write(&settings.data_dir) {
        tracing::warn!(file = %path.display(), %error, "cannot write the file that links the data directory to its volume");
    }
}

impl Place {
    /// Reads the place in a data directory. Returns `None` if it has none.
    fn read(data_dir: &Path) -> Result<Option<Place>, Problem> {
        let path = data_dir.join(PLACE_FILE);
        let problem = |wrong: &dyn std::fmt::Display, remedy| {
            Problem::new(format!("read {}", path.display()), wrong).remedy_if(remedy)
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                    io::ErrorKind::PermissionDenied => Err(problem(&error, Some(UNREADABLE))),
                    _ => Err(problem(&error, None)),
                };
            }
        };
        let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let place = value(ID).zip(value(META)).map(|(volume, meta)| Place { volume, meta });
        place.map(Some).ok_or_else(|| problem(&"it does not name a volume", Some(NO_PLACE)))
    }

    /// Writes the name of the volume to its file in the data directory, atomically and durably.
    fn write(&self, data_dir: &Path) -> io::Result<()> {
        // Content, rename, directory: after a crash at any point the file is either complete or
        // absent.
        let mut file = tempfile::NamedTempFile::new_in(data_dir)?;
        write!(file, "{ID}{}\n{META}{}\n", self.volume, self.meta)?;
        file.as_file().sync_all()?;
        file.persist(data_dir.join(PLACE_FILE)).map_err(|error| error.error)?;
        fs::File::open(data_dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests;
