//! `ashlar info`: the attributes of files, and the places of their content.
//!
//! For a file on a mount, the command reads an extended attribute of the file, and the mount makes
//! the report, because SQLite does not let another process open the volume. A relative path that
//! does not exist is looked up in the volume. For example, `ashlar info photos/2026/a.jpg` reports
//! the object `2026/a.jpg` of the bucket `photos` if there is no such file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mountd::REPORT_ATTRIBUTE;
use rustix::io::Errno;
use serde_json::Value;

use super::administration::Administration;
use super::refusal;
use crate::config::VolumeSettings;
use crate::endpoint::EndpointOptions;
use crate::node_report::{json, text};
use crate::output::say;
use crate::safe_name::safe_name;
use crate::table::Printing;
use problem::Problem;

/// The limit of bytes of a mount's report.
const REPORT_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct ShowNode {
    /// A file or directory on a mount, or BUCKET/KEY in the volume
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The same as --output json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    printing: Printing,
    #[command(flatten)]
    endpoint: EndpointOptions,
}

/// Prints the report of each path. Stops at the first error. If the options name an endpoint, the
/// operator wants no store to be opened, so a path must be on a mount.
pub(crate) async fn run(settings: VolumeSettings, command: ShowNode) -> Result<(), Problem> {
    let ShowNode { paths, json, printing, endpoint } = command;
    let json = json || printing.is_json();
    let mut administration = None;
    let mut reported = Ok(());
    for path in &paths {
        let store = (!endpoint.is_set()).then_some(&settings);
        reported = report(store, path, json, &mut administration).await;
        if reported.is_err() {
            break;
        }
    }
    if let Some(administration) = administration {
        administration.close().await;
    }
    reported
}

/// Prints the report of one path. Opens the volume for the first path that is not on a mount.
async fn report(
    settings: Option<&VolumeSettings>,
    path: &Path,
    as_json: bool,
    administration: &mut Option<Administration>,
) -> Result<(), Problem> {
    let doing = || format!("report on {}", safe_name(path.as_os_str().as_bytes()));
    let report = match report_of_mount(path) {
        Ok(Some(report)) => report,
        Ok(None) => {
            // Opened for the first path that needs it: while a mount has a SQLite store open, no
            // other process can open it.
            let settings = settings.ok_or_else(|| {
                Problem::new(doing(), "the API has no report on a name in the volume").remedy(
                    "give a file on a mount, or give no --endpoint and unset ASHLAR_ENDPOINT",
                )
            })?;
            if administration.is_none() {
                *administration = Some(Administration::open(settings, "read the volume").await?);
            }
            let Some(opened) = administration.as_ref() else { return Ok(()) };
            let name = path
                .to_str()
                .ok_or_else(|| Problem::new(doing(), "the path is not UTF-8, and keys are"))?;
            let found = async { opened.admin.node(opened.admin.find_node(name).await?).await };
            json(&found.await.map_err(|error| refusal::problem(doing(), error))?, None)
        }
        Err(error) => {
            return Err(Problem::new(doing(), error)
                .remedy("give a file or directory on a mount, or BUCKET/KEY of the volume"));
        }
    };
    if as_json {
        say(format_args!("{report}"));
    } else {
        let name = safe_name(path.as_os_str().as_bytes());
        say(format_args!("{name}\n{}", text(&report)));
    }
    Ok(())
}

/// Returns the report of the mount that has the path. Returns `None` if no such file exists and the
/// path may be a key.
fn report_of_mount(path: &Path) -> Result<Option<Value>, String> {
    let mut report = vec![0; REPORT_BYTES_MAX];
    match rustix::fs::getxattr(path, REPORT_ATTRIBUTE, &mut report) {
        Ok(bytes) => {
            let report = report.get(..bytes).unwrap_or_default();
            serde_json::from_slice(report).map(Some).map_err(|error| error.to_string())
        }
        // An absolute path cannot be a key of the form BUCKET/KEY.
        Err(Errno::NOENT | Errno::NOTDIR) if !path.is_absolute() => Ok(None),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => {
            Err("it is not on a mount of Ashlar, or neither a file nor a directory".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}
