//! Connects the session of this process with the other sessions of the volume, so that reads beside
//! them are answered from memory.

use std::path::PathBuf;

use identity::MasterKey;
use peering::{PeeringKey, PeeringOptions};
use problem::Problem;

use crate::backend::Backend;
use crate::config::{OpenSettings, VolumeSettings};

/// The purpose of the key that is derived from the master key.
const PURPOSE: &str = "ashlar links between sessions 1";

/// Connects the session of `backend` with its peers, if the settings allow it and the store serves
/// several processes. Sessions of other machines need the master key.
pub(crate) async fn connect(
    settings: &VolumeSettings,
    open: &OpenSettings,
    backend: &Backend,
    master: Option<&MasterKey>,
) -> Result<(), Problem> {
    let is_off = !open.peer_reads || !open.authoritative_reads || open.record_cache_bytes.0 == 0;
    if is_off || backend.meta.limits().serves_one {
        return Ok(());
    }
    let options = PeeringOptions {
        volume: backend.volume.record().id,
        network_key: master.map(|master| PeeringKey::new(master.derive(PURPOSE))),
        socket_dir: Some(socket_dir(settings)),
        listen: open.peer_listen,
        address: open.peer_address.clone(),
    };
    backend.volume.connect_peers(options).await.map_err(|error| {
        Problem::new("connect to the other sessions of the volume", error).remedy(
            "correct --peer-listen, --peer-address and --master-key-file, or set --peer-reads \
                 false",
        )
    })
}

/// Returns the folder for the socket of this process: the data directory, or the folder for
/// temporary files if there is none.
fn socket_dir(settings: &VolumeSettings) -> PathBuf {
    match std::path::absolute(&settings.data_dir) {
        Ok(folder) if folder.is_dir() => folder,
        Ok(_) | Err(_) => std::env::temp_dir(),
    }
}
