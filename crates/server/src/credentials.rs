//! The root credentials and the master key: from the environment or a file, or created at random
//! once.
//!
//! There is no default password, and no secret is derived from another. A created secret is written
//! to a file that only its owner can read. The file appears atomically and is never replaced. For
//! example, two gateways that start at the same time on one data directory use the same root
//! credentials.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use admin::{SECRET_CHARS, check_access_key, check_secret, random_text};
use identity::{MasterKey, Secret};
use record::User;

use crate::config::VolumeSettings;
use crate::environment::{credential, first_secret, secret_file, variable};
use crate::operator::SystemRandom;
use crate::{founding, private};
use problem::Problem;

/// The number of characters of a random access key.
const ACCESS_KEY_CHARS: usize = 20;

/// The names of files and directories in a data directory, without those of the metadata store.
const OURS: [&str; 6] =
    ["master.key", ROOT_CREDENTIALS, "blocks", "cache", "mount.log", founding::PLACE_FILE];

/// The file with root credentials that a start created.
const ROOT_CREDENTIALS: &str = "root-credentials";

/// The root credentials: the operator's access key and secret.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) user: String,
    pub(crate) password: Secret,
    /// The origin of the credentials.
    pub(crate) source: Source,
}

/// The origin of the root credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The environment.
    Environment,
    /// This file, which an earlier start created.
    File(PathBuf),
    /// This file, which this start created.
    Created(PathBuf),
}

/// Creates the data directory, readable by its owner alone. Checks the permissions of an existing
/// one.
pub(crate) fn make_data_dir(path: &Path) -> Result<(), Problem> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        let problem = Problem::new(format!("create the data directory {}", path.display()), &error);
        if error.kind() == io::ErrorKind::AlreadyExists {
            problem.remedy("it is a file: give a directory with --data-dir")
        } else {
            problem.remedy("give with --data-dir a directory that this user can write")
        }
    })?;
    private::folder(path, |name| OURS.contains(&name) || name.starts_with("meta.db"))
}

/// Returns the root credentials: from the environment, from the file of an earlier start, or new
/// ones. Fails if only one of user and password is set, or if one of them has an invalid form.
pub(crate) fn root(data_dir: &Path) -> Result<Root, Problem> {
    let user = first_secret(&["ASHLAR_ROOT_USER", "MINIO_ROOT_USER"])?;
    let password = first_secret(&["ASHLAR_ROOT_PASSWORD", "MINIO_ROOT_PASSWORD"])?;
    let (user, password) = match (user, password) {
        (Some(user), Some(password)) => (user.expose().to_owned(), password),
        (None, None) => return kept_root(&data_dir.join(ROOT_CREDENTIALS)),
        (user, _) => {
            // Random credentials instead would lock out an operator who has misspelt one of the
            // variables.
            let (given, missing) = if user.is_some() {
                ("ASHLAR_ROOT_USER", "ASHLAR_ROOT_PASSWORD")
            } else {
                ("ASHLAR_ROOT_PASSWORD", "ASHLAR_ROOT_USER")
            };
            let wrong = format!("{given} is set and {missing} is not");
            return Err(Problem::new("use the root credentials", wrong)
                .remedy("set both, or neither for random ones"));
        }
    };
    let root = Root { user, password, source: Source::Environment };
    check(&root).map_err(|wrong| {
        Problem::new("use the root credentials", wrong)
            .remedy("change ASHLAR_ROOT_USER or ASHLAR_ROOT_PASSWORD")
    })?;
    Ok(root)
}

/// Fails if the access key or the secret has an invalid form.
fn check(root: &Root) -> Result<(), String> {
    check_access_key(&root.user).map_err(|error| error.to_string())?;
    check_secret(root.password.expose()).map_err(|error| error.to_string())
}

/// Returns the root credentials in a file, which is created if it does not exist. A shell can
/// source it.
fn kept_root(path: &Path) -> Result<Root, Problem> {
    let fresh = || {
        let text = |chars| {
            random_text(&SystemRandom, chars)
                .map_err(|error| Problem::new("create the root credentials", error))
        };
        let (user, password) = (text(ACCESS_KEY_CHARS)?, text(SECRET_CHARS)?);
        Ok(format!("ASHLAR_ROOT_USER={user}\nASHLAR_ROOT_PASSWORD={password}\n"))
    };
    let (text, is_new) = read_or_create(path, fresh)?;
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::trim)
    };
    let source =
        if is_new { Source::Created(path.to_owned()) } else { Source::File(path.to_owned()) };
    let found = value("ASHLAR_ROOT_USER").zip(value("ASHLAR_ROOT_PASSWORD"));
    let root = found.map(|(user, password)| Root {
        user: user.to_owned(),
        password: Secret::new(password),
        source,
    });
    root.filter(|root| check(root).is_ok()).ok_or_else(|| {
        Problem::new(
            format!("read the root credentials in {}", path.display()),
            "the file has no lines ASHLAR_ROOT_USER=… and ASHLAR_ROOT_PASSWORD=…",
        )
        .remedy("restore the file, or remove it for new credentials")
    })
}

/// Returns the master key from the environment or its file, or `None` if there is neither.
///
/// If the settings name an old master key, the result also decrypts secrets that the old key
/// encrypted. Fails if there is an old key and no new one.
pub(crate) fn known_master_key(settings: &VolumeSettings) -> Result<Option<MasterKey>, Problem> {
    let known = new_master_key(settings)?;
    let Some(path) = &settings.old_master_key_file else { return Ok(known) };
    let old = master_key_in(path)?;
    match known {
        Some(known) => Ok(Some(known.with_old(&old))),
        None => {
            let wrong = format!("there is no new key in {}", settings.master_key_file.display());
            Err(Problem::new("replace the master key", wrong)
                .remedy("write the new key to that file; `openssl rand -hex 32` prints one"))
        }
    }
}

/// Returns the master key, or `None` if there is none.
fn new_master_key(settings: &VolumeSettings) -> Result<Option<MasterKey>, Problem> {
    let path = &settings.master_key_file;
    match given_master_key()? {
        Some(given) => parse_master_key(&given, "ASHLAR_MASTER_KEY").map(Some),
        None if path.exists() => master_key_in(path).map(Some),
        None => {
            // Checked here, before a volume is created.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                let doing = format!("create the master key in {}", path.display());
                let wrong = format!("there is no directory {}", folder.display());
                return Err(Problem::new(doing, wrong)
                    .remedy("create that directory, or correct --master-key-file"));
            }
            Ok(None)
        }
    }
}

/// Returns the master key in a file, and then removes the permissions of others from the file. A
/// file without a key is not changed.
fn master_key_in(path: &Path) -> Result<MasterKey, Problem> {
    let key = parse_master_key(&secret_file(path)?, &path.display().to_string())?;
    private::secret(path)?;
    Ok(key)
}

/// Returns the text of the master key in the environment or in a credential of the service manager.
fn given_master_key() -> Result<Option<Secret>, Problem> {
    // Not `environment::secret`, because it would read `ASHLAR_MASTER_KEY_FILE`, which is an option
    // with a default.
    match variable("ASHLAR_MASTER_KEY")? {
        Some(given) => Ok(Some(Secret::new(given))),
        None => credential("ASHLAR_MASTER_KEY"),
    }
}

/// Returns the master key of a mount, or `None` if there is none. A mount needs it for encrypted
/// content, and for leases of sessions on other machines.
pub(crate) fn master_key_of_mount(settings: &VolumeSettings) -> Result<Option<MasterKey>, Problem> {
    let folder = settings.master_key_file.parent();
    let is_given = given_master_key()?.is_some() || settings.master_key_file.exists();
    if !is_given && folder.is_some_and(|folder| !folder.is_dir()) {
        return Ok(None);
    }
    known_master_key(settings)
}

/// Creates a master key in its file. Fails if `has_users` is true, that is, if the volume has
/// access keys already: their secrets are encrypted with another key, and a new key could not
/// decrypt them.
pub(crate) fn fresh_master_key(
    settings: &VolumeSettings,
    has_users: bool,
) -> Result<MasterKey, Problem> {
    let path = &settings.master_key_file;
    if has_users {
        let wrong = "this volume has users, and the key that encrypts their secrets is missing";
        let doing = format!("use the master key in {}", path.display());
        return Err(Problem::new(doing, wrong).remedy(
            "give every gateway of a volume the same key: copy master.key from the data directory \
             of the first one, or set ASHLAR_MASTER_KEY",
        ));
    }
    read_or_create(path, || {
        let mut bytes = [0; MasterKey::BYTES];
        random(&mut bytes)?;
        Ok(MasterKey::new(bytes).expose() + "\n")
    })?;
    parse_master_key(&secret_file(path)?, &path.display().to_string())
}

/// Checks that the master key opens at least one secret of the users, if they have any. A gateway
/// with the key of another volume would refuse each of them. While an operator replaces the key,
/// the gateways with the old key open the secrets that are not sealed anew yet.
pub(crate) fn check_opens_secrets(
    master: &MasterKey,
    users: &[(String, User)],
) -> Result<(), Problem> {
    let mut sealed = users.iter().filter(|(_, user)| !user.sealed_secret.is_empty()).peekable();
    let none = sealed.peek().is_none();
    if none || sealed.any(|(name, user)| master.open(name, &user.sealed_secret).is_ok()) {
        return Ok(());
    }
    let wrong = "it opens none of the secrets of this volume's users, so it belongs to another one";
    Err(Problem::new("use the master key", wrong).remedy(
        "give the key of this volume: copy master.key from the data directory of its first gateway, \
         or set ASHLAR_MASTER_KEY",
    ))
}

/// Parses a master key, in hexadecimal or base64. `place` is its origin for error texts.
fn parse_master_key(text: &Secret, place: &str) -> Result<MasterKey, Problem> {
    MasterKey::parse(text.expose()).map_err(|error| {
        Problem::new(format!("use the master key in {place}"), error).remedy(
            "restore the key of this volume; for a new volume, `openssl rand -hex 32` prints one",
        )
    })
}

/// Returns the text of a file, and true if this call created the file with the text of `fresh`. If
/// two processes create it at the same time, both return the same text.
fn read_or_create(
    path: &Path,
    fresh: impl FnOnce() -> Result<String, Problem>,
) -> Result<(String, bool), Problem> {
    let problem = |error: io::Error| {
        Problem::new(format!("store a secret in {}", path.display()), error)
            .remedy("this user must be able to read the file and to write its directory")
    };
    // Checked first: if other users can read the file, their permissions are removed, or the call
    // fails, before the secret is used.
    private::secret(path)?;
    match fs::read_to_string(path) {
        Ok(text) => return Ok((text, false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(problem(error)),
    }
    let text = fresh()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // In the same directory, because a rename works only within one file system.
    let folder = folder.unwrap_or(Path::new("."));
    // tempfile creates the file with mode 0600, so no other user can read it at any time.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(problem)?;
    file.write_all(text.as_bytes()).map_err(problem)?;
    file.as_file().sync_all().map_err(problem)?;
    // Never replaces a file, because another process may have created one after the read above.
    match file.persist_noclobber(path) {
        Ok(_) => {
            // The name must be durable before the secret is used: a lost master key would make the
            // secrets of all users useless.
            let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(problem)?;
            Ok((text, true))
        }
        // Another process has created the file first.
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((fs::read_to_string(path).map_err(problem)?, false))
        }
        Err(failed) => Err(problem(failed.error)),
    }
}

/// Fills a buffer with random bytes of the operating system.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), Problem> {
    getrandom::fill(bytes).map_err(|error| Problem::new("get random bytes", error))
}

/// Returns a random number, for seeds and for starts of counters.
pub(crate) fn random_u64() -> Result<u64, Problem> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
