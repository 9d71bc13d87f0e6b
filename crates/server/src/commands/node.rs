//! `ashlar info`: what is known of a file, and where its content stands.
//!
//! Of a file on a mount the mount is asked, by an attribute of the file: over SQLite nobody else may
//! have the volume open. What is not there is looked for in the volume.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde_json::Value;

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::node_report::{ATTRIBUTE, json, text};
use crate::output::say;
use crate::problem::Problem;
use crate::safe_name::safe_name;

/// The most that a mount tells of a file.
const TOLD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct ShowNode {
    /// A file or directory on a mount, or BUCKET/KEY in the volume
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Say it as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Tells of each path.
pub(crate) async fn run(settings: VolumeSettings, command: ShowNode) -> Result<(), Problem> {
    let ShowNode { paths, json } = command;
    let mut administration = None;
    let mut told = Ok(());
    for path in &paths {
        told = tell(&settings, path, json, &mut administration).await;
        if told.is_err() {
            break;
        }
    }
    if let Some(administration) = administration {
        administration.close().await;
    }
    told
}

async fn tell(
    settings: &VolumeSettings,
    path: &Path,
    as_json: bool,
    administration: &mut Option<Administration>,
) -> Result<(), Problem> {
    let doing = || format!("tell of {}", path.display());
    let told = match asked_of_mount(path) {
        Ok(Some(told)) => told,
        Ok(None) => {
            if administration.is_none() {
                *administration = Some(Administration::open(settings, "read the volume").await?);
            }
            let Some(opened) = administration.as_ref() else { return Ok(()) };
            let name = path.to_str().ok_or_else(|| Problem::new(doing(), "a key is UTF-8"))?;
            let found = async { opened.admin.node(opened.admin.find_node(name).await?).await };
            json(&found.await.map_err(|error| refusal::problem(doing(), error))?, None)
        }
        Err(error) => {
            return Err(Problem::new(doing(), error)
                .remedy("name a file or directory on a mount, or BUCKET/KEY of the volume"));
        }
    };
    if as_json {
        say(format_args!("{told}"));
    } else {
        let name = safe_name(path.as_os_str().as_bytes());
        say(format_args!("{name}\n{}", text(&told)));
    }
    Ok(())
}

/// What the mount says that a path is on; nothing if there is no such file and it may be a key.
fn asked_of_mount(path: &Path) -> Result<Option<Value>, String> {
    let mut told = vec![0; TOLD_BYTES_MAX];
    match rustix::fs::getxattr(path, ATTRIBUTE, &mut told) {
        Ok(bytes) => {
            let told = told.get(..bytes).unwrap_or_default();
            serde_json::from_slice(told).map(Some).map_err(|error| error.to_string())
        }
        Err(Errno::NOENT | Errno::NOTDIR) if !path.is_absolute() => Ok(None),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => {
            Err("it is on no mount of Ashlar, or neither a file nor a directory".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}
