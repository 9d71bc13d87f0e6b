//! A mount of a volume: the processes that keep and serve it, and its adapter to the kernel.
//!
//! `fuse` reads the kernel's requests, and `files` carries them out on a volume; neither knows the
//! other. This crate connects the two in the *worker*, the process that serves a mount. The
//! *keeper*, a process with the lifetime of the mount, holds the FUSE device and starts each
//! worker. For example, after SIGKILL of the worker the keeper starts another one, and programs
//! with open files continue.
//!
//! - [`Mounted`] serves a mount: in a worker with [`Mounted::resume`], and in a process without a
//!   keeper with [`Mounted::mount`]. [`MountSource`] is the volume that it shows, and
//!   [`MountParameters`] how. [`Reports`] makes the texts of the process for programs on the mount.
//! - [`keep`] runs a keeper, [`detach`] starts one in the background, and [`replace`] asks one for
//!   a worker of another program. [`KeeperLink`] is a worker's connection to its keeper.
//! - `glue` has one arm for each request of the kernel.
//!
//! This crate knows no configuration and no store: its caller opens the volume. A process that
//! mounts without a keeper, until its volume's session ends:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use mountd::{MountParameters, MountSource, Mounted, check_mountable};
//! use problem::Problem;
//!
//! async fn serve(source: MountSource, parameters: MountParameters) -> Result<(), Problem> {
//!     let folder = Path::new("/mnt");
//!     check_mountable(&parameters, folder)?;
//!     let volume = source.volume.clone();
//!     let mounted = Mounted::mount(source, &parameters, folder).await?;
//!     tokio::select! {
//!         () = mounted.unmounted() => {}
//!         () = volume.lost() => {}
//!     }
//!     mounted.end().await;
//!     Ok(())
//! }
//! ```

// A forgotten request of the kernel must not compile.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod context;
mod glue;
mod keeper;
mod meters;
mod mounted;
mod notices;
mod parameters;
mod recent_nodes;
mod reports;
mod shape;
mod space;
mod stats;

pub use fuse::LATENCY_SECONDS;
pub use keeper::{
    Announcement, EXIT_HANDED_OVER, KeeperLink, Keeping, ToWorker, detach, keep, reopen_log,
    replace,
};
pub use meters::{MountCounters, MountMeters};
pub use mounted::{KeptMount, MountSource, Mounted, check_mountable, mount_options};
pub use parameters::{MountParameters, ShownOwner};
pub use reports::{MountState, REPORT_ATTRIBUTE, Reports};
