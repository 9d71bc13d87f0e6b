//! `ashlar mount` and `ashlar umount`: a volume as files, without S3.

use std::path::PathBuf;

use clap::Args;
use fuse::UnmountMode;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{File, Mounting, Opening, VolumeSettings};
use crate::mount::Mounted;
use crate::problem::Problem;
use crate::{backend, credentials};

#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// The folder on which it is mounted: an empty one
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    opening: Opening,
    #[command(flatten)]
    mounting: Mounting,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// The folder on which it is mounted
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Take the name away at once; the mount ends when no program uses it any more
    #[arg(long)]
    lazy: bool,
}

impl Mount {
    /// Mounts until a signal, or somebody who unmounts it, ends that.
    pub(crate) async fn run(self, volume: VolumeSettings, file: &File) -> Result<(), Problem> {
        let (open, mount) = (self.opening.settle(file)?, self.mounting.settle(file)?);
        let catch = |kind| signal(kind).map_err(|error| Problem::new("catch signals", error));
        let (mut terminate, mut interrupt) =
            (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
        credentials::make_data_dir(&volume.data_dir)?;
        let root = credentials::root(&volume.data_dir)?;
        let mut random = [0; 8];
        credentials::random(&mut random)?;
        let backend = backend::open(&volume, &open, u64::from_ne_bytes(random)).await?;
        let mounted = Mounted::begin(&backend.volume, &mount, &root.user, &self.folder).await;
        let mounted = match mounted {
            Ok(mounted) => mounted,
            Err(problem) => {
                backend.close().await;
                return Err(problem);
            }
        };
        let mut lost = false;
        tokio::select! {
            () = mounted.gone() => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = backend.volume.lost() => lost = true,
        }
        mounted.end().await;
        backend.close().await;
        if lost {
            let wrong = "its session was ended: it did not show for too long that it lives, or \
                         the metadata store forgot something";
            return Err(Problem::new("go on", wrong).remedy("mount it again"));
        }
        Ok(())
    }
}

impl Umount {
    /// Takes a mount away.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let mode = if self.lazy { UnmountMode::Lazy } else { UnmountMode::IfUnused };
        let doing = format!("unmount {}", self.folder.display());
        fuse::unmount(&self.folder, mode).map_err(|error| Problem::new(doing, error))
    }
}
