//! The operator's own access key and the master key: given, or made once at random.
//!
//! There is no default password, and no secret is derived from another. A secret that is made here
//! is written to a file that only its owner can read. The file appears whole or not at all, and is
//! never replaced.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use admin::{SECRET_CHARS, check_access_key, check_secret, random_text};
use gateway::access::{MasterKey, Secret};

use crate::config::VolumeSettings;
use crate::environment::{first_secret, secret_file, variable};
use crate::operator::SystemRandom;
use crate::problem::Problem;
use crate::{founding, private};

/// Characters of a generated access key.
const ACCESS_KEY_CHARS: usize = 20;

/// What a data directory contains, besides the metadata store's files.
const OURS: [&str; 6] =
    ["master.key", ROOT_CREDENTIALS, "blocks", "cache", "mount.log", founding::PLACE_FILE];

/// The file with the operator's credentials, if they were made here.
const ROOT_CREDENTIALS: &str = "root-credentials";

/// The operator's own access key.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) user: String,
    pub(crate) password: Secret,
    /// Where they came from.
    pub(crate) source: Source,
}

/// Where the operator's credentials came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The operator chose them.
    Environment,
    /// An earlier start made them and wrote them to this file.
    File(PathBuf),
    /// They were made just now and written to this file.
    Made(PathBuf),
}

/// Makes the data directory, readable by its owner alone. Checks the permissions of one that
/// exists.
pub(crate) fn make_data_dir(path: &Path) -> Result<(), Problem> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        let problem = Problem::new(format!("make the data directory {}", path.display()), &error);
        if error.kind() == io::ErrorKind::AlreadyExists {
            problem.remedy("it is a file: name a folder with --data-dir")
        } else {
            problem.remedy("choose a folder that this user can write with --data-dir")
        }
    })?;
    private::folder(path, |name| OURS.contains(&name) || name.starts_with("meta.db"))
}

/// The operator's credentials: those given, those made earlier, or new ones.
pub(crate) fn root(data_dir: &Path) -> Result<Root, Problem> {
    let user = first_secret(&["ASHLAR_ROOT_USER", "MINIO_ROOT_USER"])?;
    let password = first_secret(&["ASHLAR_ROOT_PASSWORD", "MINIO_ROOT_PASSWORD"])?;
    let (user, password) = match (user, password) {
        (Some(user), Some(password)) => (user.expose().to_owned(), password),
        (None, None) => return kept_root(&data_dir.join(ROOT_CREDENTIALS)),
        (user, _) => {
            let (given, missing) = if user.is_some() {
                ("ASHLAR_ROOT_USER", "ASHLAR_ROOT_PASSWORD")
            } else {
                ("ASHLAR_ROOT_PASSWORD", "ASHLAR_ROOT_USER")
            };
            let wrong = format!("{given} is set and {missing} is not");
            return Err(Problem::new("use the root credentials", wrong)
                .remedy("set both, or neither to have random ones made"));
        }
    };
    let root = Root { user, password, source: Source::Environment };
    check(&root).map_err(|wrong| {
        Problem::new("use the root credentials", wrong)
            .remedy("change ASHLAR_ROOT_USER or ASHLAR_ROOT_PASSWORD")
    })?;
    Ok(root)
}

fn check(root: &Root) -> Result<(), String> {
    check_access_key(&root.user).map_err(|error| error.to_string())?;
    check_secret(root.password.expose()).map_err(|error| error.to_string())
}

/// Credentials that are made once and kept in a file, which a shell can source.
fn kept_root(path: &Path) -> Result<Root, Problem> {
    let fresh = || {
        let text = |chars| {
            random_text(&SystemRandom, chars)
                .map_err(|error| Problem::new("make the root credentials", error))
        };
        let (user, password) = (text(ACCESS_KEY_CHARS)?, text(SECRET_CHARS)?);
        Ok(format!("ASHLAR_ROOT_USER={user}\nASHLAR_ROOT_PASSWORD={password}\n"))
    };
    let (text, made) = keep(path, fresh)?;
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::trim)
    };
    let source = if made { Source::Made(path.to_owned()) } else { Source::File(path.to_owned()) };
    let found = value("ASHLAR_ROOT_USER").zip(value("ASHLAR_ROOT_PASSWORD"));
    let root = found.map(|(user, password)| Root {
        user: user.to_owned(),
        password: Secret::new(password),
        source,
    });
    root.filter(|root| check(root).is_ok()).ok_or_else(|| {
        Problem::new(
            format!("read the root credentials in {}", path.display()),
            "they are not lines of ASHLAR_ROOT_USER=… and ASHLAR_ROOT_PASSWORD=…",
        )
        .remedy("restore the file, or remove it to have new credentials made")
    })
}

/// The master key, if there is one: from the environment, or from its file.
pub(crate) fn known_master_key(settings: &VolumeSettings) -> Result<Option<MasterKey>, Problem> {
    // `secret` is not used here, because it would read `ASHLAR_MASTER_KEY_FILE`, which is an option
    // with a default.
    let path = &settings.master_key_file;
    match variable("ASHLAR_MASTER_KEY")?.map(Secret::new) {
        Some(given) => parse_master_key(&given, "ASHLAR_MASTER_KEY").map(Some),
        None if path.exists() => {
            private::secret(path)?;
            parse_master_key(&secret_file(path)?, &path.display().to_string()).map(Some)
        }
        None => {
            // Found out before a volume is made.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                let doing = format!("keep the master key in {}", path.display());
                let wrong = format!("there is no folder {}", folder.display());
                return Err(Problem::new(doing, wrong)
                    .remedy("make that folder, or correct --master-key-file"));
            }
            Ok(None)
        }
    }
}

/// Makes a master key in its file. If the volume has `users`, their secrets are sealed under a key
/// that is not here. A new one would not open them, so that is an error.
pub(crate) fn fresh_master_key(
    settings: &VolumeSettings,
    users: bool,
) -> Result<MasterKey, Problem> {
    let path = &settings.master_key_file;
    if users {
        let wrong = "this volume has users, and the key that their secrets rest under is not here";
        let doing = format!("use the master key in {}", path.display());
        return Err(Problem::new(doing, wrong).remedy(
            "give every gateway of a volume the same key: copy master.key from the data directory \
             of the first one, or set ASHLAR_MASTER_KEY",
        ));
    }
    keep(path, || {
        let mut bytes = [0; MasterKey::BYTES];
        random(&mut bytes)?;
        Ok(MasterKey::new(bytes).expose() + "\n")
    })?;
    parse_master_key(&secret_file(path)?, &path.display().to_string())
}

fn parse_master_key(text: &Secret, place: &str) -> Result<MasterKey, Problem> {
    MasterKey::parse(text.expose()).map_err(|error| {
        Problem::new(format!("use the master key in {place}"), error).remedy(
            "restore the key of this volume; a new volume takes one of `openssl rand -hex 32`",
        )
    })
}

/// The text of a file, and whether the file was made just now because there was none. If two
/// processes make it at the same time, both return the same text.
fn keep(
    path: &Path,
    fresh: impl FnOnce() -> Result<String, Problem>,
) -> Result<(String, bool), Problem> {
    let problem = |error: io::Error| {
        Problem::new(format!("keep a secret in {}", path.display()), error)
            .remedy("the file must be readable, and its folder writable, by this user")
    };
    private::secret(path)?;
    match fs::read_to_string(path) {
        Ok(text) => return Ok((text, false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(problem(error)),
    }
    let text = fresh()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // A temporary file has the mode 0600 from the beginning.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(problem)?;
    file.write_all(text.as_bytes()).map_err(problem)?;
    file.as_file().sync_all().map_err(problem)?;
    match file.persist_noclobber(path) {
        Ok(_) => {
            let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(problem)?;
            Ok((text, true))
        }
        Err(lost) if lost.error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((fs::read_to_string(path).map_err(problem)?, false))
        }
        Err(lost) => Err(problem(lost.error)),
    }
}

/// Fills a buffer from the system's source of randomness.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), Problem> {
    getrandom::fill(bytes).map_err(|error| Problem::new("draw random bytes", error))
}
