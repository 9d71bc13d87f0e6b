//! The master key of commands that create a secret.
//!
//! For example, `ashlar user add anna` seals the secret of anna with the master key of the
//! gateways.

use identity::MasterKey;
use problem::Problem;

use crate::config::VolumeSettings;
use crate::credentials;
use crate::environment::first_secret;

/// Returns true for the access key of the root user. A gateway takes such a key for the root user,
/// so a record of the same name would have no effect.
pub(super) fn is_root(access_key: &str) -> Result<bool, Problem> {
    let root = first_secret(&["ASHLAR_ROOT_USER", "MINIO_ROOT_USER"])?;
    Ok(root.is_some_and(|root| root.expose() == access_key))
}

/// Returns the master key of the volume. Only `ashlar serve` creates one: under a key that a
/// command created beside the gateway's, it would seal secrets that no gateway can open.
pub(super) fn master_key(settings: &VolumeSettings) -> Result<MasterKey, Problem> {
    credentials::known_master_key(settings)?.ok_or_else(|| {
        let doing = format!("use the master key in {}", settings.master_key_file.display());
        Problem::new(doing, "there is no such file, and ASHLAR_MASTER_KEY is not set").remedy(
            "give the key of the volume's gateways: the --data-dir or --master-key-file with which \
             they run, or ASHLAR_MASTER_KEY",
        )
    })
}
