//! The place of the key management service: the option `kms`.
//!
//! For example, `static:photos=file:/etc/ashlar/photos.key`, `vault:https://vault:8200/transit` and
//! `kes:https://kes:7373`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use kms::{KmsKeyName, KmsKeyNameError};
use problem::Problem;

/// The key management service.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum KmsPlace {
    /// Keys in files of this machine.
    Static(Vec<(KmsKeyName, PathBuf)>),
    /// Vault or `OpenBao`: the URL of the server, and the mount of its Transit engine.
    Vault { url: String, mount: Option<String> },
    /// KES: the URL of the server.
    Kes(String),
}

/// The settings of the key management service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KmsSettings {
    /// `None`: there is no service, and clients cannot ask for SSE-KMS.
    pub(crate) place: Option<KmsPlace>,
    /// The key that counts if neither a request nor its bucket names one.
    pub(crate) default: Option<KmsKeyName>,
    /// The file with the token for Vault.
    pub(crate) token_file: Option<PathBuf>,
    /// The id of the `AppRole` for Vault.
    pub(crate) role: Option<String>,
    /// The file with the secret id of the `AppRole`.
    pub(crate) secret_file: Option<PathBuf>,
    pub(crate) authorities_file: Option<PathBuf>,
    pub(crate) certificate_file: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
}

const FORMS: &str = "a KMS is static:NAME=file:PATH,NAME=file:PATH or vault:URL or kes:URL";

/// Parses the option `kms_default`.
pub(super) fn default_key(name: &str) -> Result<KmsKeyName, Problem> {
    name.parse().map_err(|error: KmsKeyNameError| Problem::new("use the option kms_default", error))
}

impl FromStr for KmsPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<KmsPlace, String> {
        match text.split_once(':') {
            Some(("static", keys)) => {
                keys.split(',').map(static_key).collect::<Result<_, _>>().map(KmsPlace::Static)
            }
            Some(("vault", url)) => {
                let (scheme, rest) = url.split_once("://").ok_or(FORMS)?;
                let (host, mount) = match rest.split_once('/') {
                    Some((host, mount)) => (host, Some(mount.trim_matches('/'))),
                    None => (rest, None),
                };
                let mount = mount.filter(|mount| !mount.is_empty()).map(str::to_owned);
                Ok(KmsPlace::Vault { url: format!("{scheme}://{host}"), mount })
            }
            Some(("kes", url)) => Ok(KmsPlace::Kes(url.to_owned())),
            Some(_) | None => Err(FORMS.to_owned()),
        }
    }
}

/// Parses `NAME=file:PATH`.
fn static_key(text: &str) -> Result<(KmsKeyName, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or(FORMS)?;
    let name = name.parse().map_err(|error: KmsKeyNameError| error.to_string())?;
    let file = file.strip_prefix("file:").filter(|path| !path.is_empty()).ok_or(FORMS)?;
    Ok((name, PathBuf::from(file)))
}

/// The form that is parsed.
impl fmt::Display for KmsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KmsPlace::Static(keys) => {
                f.write_str("static:")?;
                for (index, (name, file)) in keys.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{name}=file:{}", file.display())?;
                }
                Ok(())
            }
            KmsPlace::Vault { url, mount: Some(mount) } => write!(f, "vault:{url}/{mount}"),
            KmsPlace::Vault { url, mount: None } => write!(f, "vault:{url}"),
            KmsPlace::Kes(url) => write!(f, "kes:{url}"),
        }
    }
}

impl TryFrom<String> for KmsPlace {
    type Error = String;

    fn try_from(text: String) -> Result<KmsPlace, String> {
        text.parse()
    }
}

impl From<KmsPlace> for String {
    fn from(place: KmsPlace) -> String {
        place.to_string()
    }
}
