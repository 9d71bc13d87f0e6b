//! Access to a volume for one administrative command. Gateways may be serving the volume.

use std::sync::Arc;

use admin::Admin;
use keystore::KeyStore;
use store::MetaStore;

use crate::config::{MetaPlace, VolumeSettings};
use crate::engines::{self, Use};
use crate::{founding, operator, rings};
use problem::Problem;

/// The administration of a volume, and the metadata store that was opened for it.
#[derive(Debug)]
pub(super) struct Administration {
    pub(super) admin: Admin,
    store: Arc<dyn MetaStore>,
    ring: Arc<KeyStore>,
}

impl Administration {
    /// Opens the metadata store of the settings. `doing` is the action for error texts. Fails if
    /// the store is in memory or has no volume; neither a file nor a table is created then.
    pub(super) async fn open(
        settings: &VolumeSettings,
        doing: &str,
    ) -> Result<Administration, Problem> {
        if settings.meta == MetaPlace::Memory {
            let wrong = "memory: is a separate store in each process";
            return Err(
                Problem::new(doing, wrong).remedy("give the gateway's metadata store with --meta")
            );
        }
        founding::check_present(settings, doing).await?;
        let (rings, store) = rings::over(engines::meta(settings, Use::Administer).await?);
        let admin = operator::over(Arc::clone(&store));
        match admin.has_volume().await {
            Ok(true) => match rings::open_for_command(&rings, settings).await {
                Ok(ring) => Ok(Administration { admin, store, ring }),
                Err(problem) => {
                    store.close().await;
                    Err(problem)
                }
            },
            Ok(false) => {
                store.close().await;
                Err(founding::no_volume(settings, doing))
            }
            Err(error) => {
                store.close().await;
                Err(Problem::new(doing, error))
            }
        }
    }

    /// Runs a command on the administration, and closes the store, also if the command fails.
    pub(super) async fn with<T>(
        settings: &VolumeSettings,
        doing: &str,
        command: impl AsyncFnOnce(&Admin) -> T,
    ) -> Result<T, Problem> {
        let administration = Administration::open(settings, doing).await?;
        let done = command(&administration.admin).await;
        administration.close().await;
        Ok(done)
    }

    /// Returns the ring keys of the volume.
    pub(super) fn ring(&self) -> &KeyStore {
        &self.ring
    }

    /// Closes the store.
    pub(super) async fn close(self) {
        self.store.close().await;
    }
}
