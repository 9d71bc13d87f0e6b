//! Deciding whether a start may make a new volume, and remembering the volume of a data directory.
//!
//! A mistyped `--meta` or `--data-dir` names a place without a volume. A new volume there would be
//! empty, and clients would write to it as if it were theirs. So commands and mounts never make a
//! volume. `ashlar serve` makes one only if nothing shows that there should be one already:
//!
//! | data directory | without `--create` |
//! |---|---|
//! | its file [`PLACE_FILE`] names a volume | refused: that volume is not in `--meta` |
//! | the default, or it exists | a new volume is made |
//! | it does not exist, and neither does the folder that it would be in | refused |
//! | it does not exist, and a directory beside it belongs to a volume | refused |
//! | it does not exist, and nothing of the kind is beside it | a new volume is made |
//!
//! For example, after a start with `--data-dir /srv/ashlar`, a start with `--data-dir /srv/ashlr` is
//! refused because of `/srv/ashlar`. `--create` makes a volume in all these cases. Whatever is given,
//! blocks of another volume are never taken over: see `session::Session::open`.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::AdminError;
use record::VolumeRecord;
use store::MetaStore;

use crate::config::{BlocksPlace, DATA_DIR_DEFAULT, MetaPlace, VolumeSettings};
use crate::engines::{self, Use};
use crate::problem::Problem;
use crate::{operator, private};

/// The file in a data directory that names its volume.
pub(crate) const PLACE_FILE: &str = "volume.place";

const ID: &str = "volume = ";
const META: &str = "meta = ";

/// The remedy if the operating system does not let this process read the file of a place.
const UNREADABLE: &str = "run as the user that owns the data directory, or name another --data-dir";
/// The remedy if the file of a place has other content than [`Place::write`] gives it.
const NO_PLACE: &str = "remove the file if the data directory belongs to no other volume";

/// The purpose of opening a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// By a gateway, which may make a volume.
    Serve {
        /// Make it whatever the data directory shows.
        create: bool,
    },
    /// By a mount, which never makes one.
    Mount,
}

/// The volume that a data directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The volume's id, in hexadecimal.
    volume: String,
    /// Its metadata store, as messages show it.
    meta: String,
}

/// Fails if there is no volume and none may be made. Returns the metadata store if it was opened to
/// find that out: then it holds a volume. Returns none if a volume may be made.
pub(crate) async fn admit(
    settings: &VolumeSettings,
    intent: Intent,
) -> Result<Option<Arc<dyn MetaStore>>, Problem> {
    if settings.meta == MetaPlace::Memory {
        return Ok(None);
    }
    let place = Place::read(&settings.data_dir)?;
    let Some(refusal) = refusal(settings, intent, place.as_ref()) else { return Ok(None) };
    if !engines::is_made(settings).await? {
        return Err(refusal);
    }
    let meta = engines::meta(settings, Use::Serve).await?;
    let found = operator::over(Arc::clone(&meta)).status().await;
    let checked = match found {
        Ok(status) => check_place(settings, place.as_ref(), &status.volume),
        Err(AdminError::NoVolume) => Err(refusal),
        // The record is damaged, or the store does not answer: opening the volume says so.
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

/// Fails if the metadata store does not exist, so that no file and no tables are made for a command
/// that needs a volume.
pub(crate) async fn check_present(settings: &VolumeSettings, doing: &str) -> Result<(), Problem> {
    if engines::is_made(settings).await? { Ok(()) } else { Err(no_volume(settings, doing)) }
}

/// Fails if the metadata store is a file that does not exist. For a start that has no runtime yet; a
/// database server is asked later.
pub(crate) fn check_file(settings: &VolumeSettings, doing: &str) -> Result<(), Problem> {
    match &settings.meta {
        MetaPlace::Sqlite(path) if !path.exists() => Err(no_volume(settings, doing)),
        MetaPlace::Sqlite(_) | MetaPlace::Memory | MetaPlace::Server(_) => Ok(()),
    }
}

/// The problem that there is no volume in the metadata store.
pub(crate) fn no_volume(settings: &VolumeSettings, doing: &str) -> Problem {
    let dir = &settings.data_dir;
    let wrong = if settings.meta == MetaPlace::default_in(dir) {
        let shown = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        format!("there is no volume in the data directory {}", shown.display())
    } else {
        format!("there is no volume in {}", settings.meta)
    };
    let problem = Problem::new(doing, wrong);
    match Place::read(dir) {
        Ok(Some(place)) if place.meta != settings.meta.to_string() => problem.remedy(format!(
            "the data directory {} belongs to a volume in {}: give that as --meta or ASHLAR_META",
            dir.display(),
            place.meta
        )),
        Ok(_) | Err(_) => problem.remedy(
            "name the gateway's --meta or --data-dir (ASHLAR_META, ASHLAR_DATA_DIR); only `ashlar \
             serve` makes a volume",
        ),
    }
}

/// Why no volume may be made, if so.
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
        Some(Problem::new(format!("make a volume in {meta}"), wrong).remedy(remedy))
    };
    if let Some(Place { volume, meta: theirs }) = place {
        return refused(
            format!(
                "there is none, and the data directory {dir} belongs to volume {volume} in {theirs}"
            ),
            "name the --meta of that volume; for a new volume, name another --data-dir, or start \
             once with --create",
        );
    }
    if data_dir.as_path() == Path::new(DATA_DIR_DEFAULT) || data_dir.exists() {
        return None;
    }
    let parent = parent(data_dir);
    if !parent.is_dir() {
        return Some(
            Problem::new(
                format!("make the data directory {dir}"),
                format!("there is no folder {} for it", parent.display()),
            )
            .remedy("correct --data-dir, or make that folder"),
        );
    }
    let neighbour = neighbour(&parent)?;
    refused(
        format!(
            "there is none, the data directory {dir} does not exist, and {} beside it belongs to a \
             volume",
            neighbour.display()
        ),
        "correct --data-dir; for a new volume, start once with --create",
    )
}

fn parent(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// A directory in a folder that is the data directory of a volume.
fn neighbour(folder: &Path) -> Option<PathBuf> {
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
        "it holds volume {id}, and the data directory {dir} belongs to volume {} in {}",
        place.volume, place.meta
    );
    let file = settings.data_dir.join(PLACE_FILE);
    let remedy = format!(
        "correct --meta, or give each volume a --data-dir of its own; if the other volume is given \
         up, remove {}",
        file.display()
    );
    Err(Problem::new(format!("use {meta}"), wrong).remedy(remedy))
}

/// Fails if the folder of a volume's blocks was marked and does not exist: opening it would make it.
pub(crate) async fn check_folder(
    settings: &VolumeSettings,
    meta: &Arc<dyn MetaStore>,
    adopts: bool,
) -> Result<(), Problem> {
    let BlocksPlace::Folder(path) = &settings.blocks else { return Ok(()) };
    if adopts || path.exists() {
        return Ok(());
    }
    match operator::over(Arc::clone(meta)).status().await {
        Ok(status) if status.volume.marked => {
            let wrong = format!(
                "there is no such folder, and the volume in {} has its blocks elsewhere",
                settings.meta
            );
            Err(Problem::new(format!("use the block store {}", settings.blocks), wrong).remedy(
                "give the --blocks of this volume, and mount the disk or share that belongs there",
            ))
        }
        _ => Ok(()),
    }
}

/// Remembers in the data directory that it belongs to a volume. A failure is logged: the volume is
/// served all the same.
pub(crate) fn remember(settings: &VolumeSettings, volume: &VolumeRecord) {
    if settings.meta == MetaPlace::Memory {
        return;
    }
    let place = Place { volume: hex::encode(volume.id), meta: settings.meta.to_string() };
    let path = settings.data_dir.join(PLACE_FILE);
    let is_kept = Place::read(&settings.data_dir).ok().flatten().as_ref() == Some(&place);
    if is_kept && private::is_closed(&path) {
        return;
    }
    if let Err(error) = place.write(&settings.data_dir) {
        tracing::warn!(file = %path.display(), %error, "the place of the volume is not remembered");
    }
}

impl Place {
    /// Reads the place that a data directory remembers.
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

    /// Writes it, whole or not at all.
    fn write(&self, data_dir: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(data_dir)?;
        write!(file, "{ID}{}\n{META}{}\n", self.volume, self.meta)?;
        file.as_file().sync_all()?;
        file.persist(data_dir.join(PLACE_FILE)).map_err(|error| error.error)?;
        fs::File::open(data_dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests;
