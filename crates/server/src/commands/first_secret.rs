//! The master key of commands that create a secret.
//!
//! For example, `ashlar user add anna` in a new volume creates the master key before the first secret
//! is sealed with it.

use admin::{Admin, AdminError};
use identity::MasterKey;
use problem::Problem;

use crate::config::VolumeSettings;
use crate::credentials;
use crate::environment::first_secret;

/// Returns true for the access key of the root user. A gateway takes such a key for the root user, so
/// a record of the same name would have no effect.
pub(super) fn is_root(access_key: &str) -> Result<bool, Problem> {
    let root = first_secret(&["ASHLAR_ROOT_USER", "MINIO_ROOT_USER"])?;
    Ok(root.is_some_and(|root| root.expose() == access_key))
}

/// Returns the master key, which is created with the first secret of the volume. `problem` describes
/// an error of the store.
pub(super) async fn master_key(
    settings: &VolumeSettings,
    admin: &Admin,
    problem: impl Fn(AdminError) -> Problem,
) -> Result<MasterKey, Problem> {
    if let Some(known) = credentials::known_master_key(settings)? {
        return Ok(known);
    }
    // Without a key, a new one is created only for the first secret: it could not decrypt the
    // others.
    let keys = admin.access_keys(None).await.map_err(&problem)?;
    let others = !keys.is_empty() || !admin.tokens().await.map_err(&problem)?.is_empty();
    credentials::fresh_master_key(settings, others)
}
