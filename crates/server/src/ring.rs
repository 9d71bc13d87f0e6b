//! The ring of a volume, as a process opens it: with the master key, the old one during a change of
//! it, and the key management service of the settings.

use std::path::Path;
use std::sync::Arc;

use identity::MasterKey;
use keystore::{KeyStore, WrapKey, WrapKeys};
use kms::{KesKms, Kms, KmsEndpoint, KmsSettingsError, StaticKms, VaultKms, VaultLogin};
use problem::Problem;
use store::MetaStore;
use volume::SystemClock;

use crate::config::{KmsPlace, KmsSettings, VolumeSettings};
use crate::environment::{secret_file, variable};
use crate::private;

/// The purpose of the key that is derived from the master key and wraps ring keys.
const PURPOSE: &str = "ring";

/// Opens the ring of the volume with this id.
pub(crate) async fn open(
    settings: &VolumeSettings,
    master: Option<&MasterKey>,
    meta: &Arc<dyn MetaStore>,
    volume: [u8; 16],
) -> Result<Arc<KeyStore>, Problem> {
    let kms = of_settings(&settings.kms)?;
    let clock = Arc::new(SystemClock::new());
    let wraps = master.map(wrap_keys);
    let ring = KeyStore::open(Arc::clone(meta), wraps, kms, volume, clock).await;
    ring.map(Arc::new).map_err(|error| Problem::new("read the ring keys", error))
}

/// Returns the keys that wrap ring keys under a master key.
fn wrap_keys(master: &MasterKey) -> WrapKeys {
    let of = |key: &MasterKey| WrapKey::new(key.derive(PURPOSE), key.fingerprint());
    WrapKeys { new: of(master), old: master.old().as_ref().map(of) }
}

/// Returns the key management service of the settings; `None` if there is none.
fn of_settings(settings: &KmsSettings) -> Result<Option<Arc<dyn Kms>>, Problem> {
    let unusable = |error: KmsSettingsError| Problem::new("use the option kms", error);
    let Some(place) = &settings.place else {
        let of_minio = of_minio(unusable)?;
        if let (None, Some(default)) = (&of_minio, &settings.default) {
            let wrong = format!("there is no KMS for the key {default}");
            return Err(Problem::new("use the option kms_default", wrong).remedy("set kms, too"));
        }
        return Ok(of_minio);
    };
    let kms: Arc<dyn Kms> = match place {
        KmsPlace::Static(keys) => {
            if let Some(default) = &settings.default
                && keys.iter().all(|(name, _)| name != default)
            {
                let wrong = format!("the option kms has no key {default}");
                return Err(Problem::new("use the option kms_default", wrong));
            }
            let mut read = Vec::new();
            for (name, file) in keys {
                let text = secret_file(file)?;
                let key = StaticKms::parse_key(text.expose()).map_err(unusable)?;
                // After the content is known to be a key: the name may be mistyped.
                private::secret(file)?;
                read.push((name.clone(), key));
            }
            Arc::new(StaticKms::new(read).map_err(unusable)?)
        }
        KmsPlace::Vault { url, mount } => {
            let endpoint = endpoint(settings, url)?;
            let login = match (&settings.token_file, &settings.role, &settings.secret_file) {
                (Some(file), None, None) => VaultLogin::Token { file: file.clone() },
                (None, Some(role), Some(secret_file)) => {
                    VaultLogin::AppRole { role: role.clone(), secret_file: secret_file.clone() }
                }
                _ => {
                    let wrong = "Vault needs a login";
                    let remedy = "give kms_token_file, or kms_role and kms_secret_file";
                    return Err(Problem::new("use the option kms", wrong).remedy(remedy));
                }
            };
            Arc::new(VaultKms::new(&endpoint, mount.as_deref(), login).map_err(unusable)?)
        }
        KmsPlace::Kes(url) => Arc::new(KesKms::new(&endpoint(settings, url)?).map_err(unusable)?),
    };
    Ok(Some(kms))
}

/// Returns the static key of MinIO's variable.
fn of_minio(
    unusable: impl Fn(KmsSettingsError) -> Problem,
) -> Result<Option<Arc<dyn Kms>>, Problem> {
    let Some(pair) = variable("MINIO_KMS_SECRET_KEY")? else { return Ok(None) };
    let key = StaticKms::parse_pair(&pair).map_err(&unusable)?;
    Ok(Some(Arc::new(StaticKms::new([key]).map_err(unusable)?)))
}

fn endpoint(settings: &KmsSettings, url: &str) -> Result<KmsEndpoint, Problem> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| Problem::new(format!("read {}", path.display()), error))
    };
    let authorities = settings.authorities_file.as_deref().map(read).transpose()?;
    let identity = match (&settings.certificate_file, &settings.key_file) {
        (Some(certificate), Some(key)) => {
            private::secret(key)?;
            Some((read(certificate)?, read(key)?))
        }
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let wrong = "kms_certificate_file and kms_key_file belong together";
            return Err(Problem::new("use the option kms", wrong));
        }
    };
    Ok(KmsEndpoint { url: url.to_owned(), authorities, identity })
}
