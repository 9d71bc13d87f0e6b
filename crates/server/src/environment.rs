//! Secrets from environment variables, from files that variables name, or from credentials of the
//! service manager.
//!
//! The command line's parser reads options. Secrets are read here, because they must not appear on
//! a command line or in a configuration file. For example,
//! `ASHLAR_META_PASSWORD_FILE=/run/secrets/meta` names the file with the database's password.

use std::ffi::OsStr;
use std::path::Path;

use identity::Secret;

use problem::Problem;

/// Returns the value of a variable, or `None` if it is unset or empty. Fails if it is not UTF-8.
pub(crate) fn variable(name: &str) -> Result<Option<String>, Problem> {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks for secrets by name")]
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Problem::new(format!("read the variable {name}"), "it is not UTF-8"))
        }
    }
}

/// Returns true if a variable is set to an empty text, as a compose file sets a variable without a
/// value.
pub(crate) fn is_empty(name: &OsStr) -> bool {
    std::env::var_os(name).is_some_and(|value| value.is_empty())
}

/// Returns a secret from the variable `name`, from the file that the variable `name` with the
/// suffix `_FILE` names, or from a [`credential`] of the service manager. Fails if both variables
/// are set.
pub(crate) fn secret(name: &str) -> Result<Option<Secret>, Problem> {
    let file_name = format!("{name}_FILE");
    match (variable(name)?, variable(&file_name)?) {
        // Two sources of one secret are ambiguous.
        (Some(_), Some(_)) => {
            let wrong = format!("both {name} and {file_name} are set");
            Err(Problem::new(format!("read {name}"), wrong).remedy("set one of them"))
        }
        (Some(value), None) => Ok(Some(Secret::new(value))),
        (None, Some(path)) => {
            let remedy =
                format!("{file_name} must name a file with the secret that this user can read");
            secret_file(Path::new(&path)).map(Some).map_err(|problem| problem.remedy(remedy))
        }
        (None, None) => credential(name),
    }
}

/// Returns the secret that the service manager passes as a credential: the file with the name of
/// the variable, in lower case, in the directory `CREDENTIALS_DIRECTORY`. `None` if there is none.
pub(crate) fn credential(name: &str) -> Result<Option<Secret>, Problem> {
    let Some(directory) = variable("CREDENTIALS_DIRECTORY")? else { return Ok(None) };
    let path = Path::new(&directory).join(name.to_lowercase());
    if path.exists() { secret_file(&path).map(Some) } else { Ok(None) }
}

/// Returns the first secret that is set, of several variables in order.
pub(crate) fn first_secret(names: &[&str]) -> Result<Option<Secret>, Problem> {
    for name in names {
        if let Some(found) = secret(name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the secret in a file, without white space around it. Fails if the file is empty.
pub(crate) fn secret_file(path: &Path) -> Result<Secret, Problem> {
    let doing = || format!("read the secret in {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Problem::new(doing(), error))?;
    match text.trim() {
        "" => Err(Problem::new(doing(), "the file is empty")),
        text => Ok(Secret::new(text)),
    }
}
