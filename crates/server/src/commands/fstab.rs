//! `mount -t ashlar` and `/etc/fstab`: mount(8) starts `mount.ashlar SOURCE DIR -o OPTIONS`, and that is
//! this program by another name.
//!
//! The source is a configuration file, or `none`. Options are those of `ashlar mount`, written as
//! `write-memory=1GiB` or `read_only`; those of mount(8) that say nothing to a file system are left out.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::problem::Problem;

/// The name by which mount(8) knows this program.
const KNOWN_AS: &str = "mount.ashlar";

/// Options that are for mount(8) and others, or that are so in any case.
const NOT_FOR_US: [&str; 19] = [
    "rw",
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "exec",
    "async",
    "relatime",
    "nodiratime",
];

/// Whether this program was started by mount(8).
pub(crate) fn is_asked_for(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(KNOWN_AS))
}

/// Becomes the `ashlar mount` that was meant.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Problem {
    let doing = || format!("mount as {KNOWN_AS}");
    let arguments = match meant(words) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            let remedy = format!("use it as mount(8) does: {KNOWN_AS} FILE DIR [-o OPTION,…]");
            return Problem::new(doing(), wrong).remedy(remedy);
        }
    };
    // Not by the name that led here.
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    Problem::new(doing(), Command::new(program).args(arguments).exec())
}

/// The arguments of the command that is meant.
fn meant(mut words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let (mut places, mut options) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-o") => {
                let listed = words.next().ok_or("-o says no options")?;
                let listed = listed.into_string().map_err(|_| "the options are not UTF-8")?;
                options.extend(listed.split(',').filter_map(option));
            }
            // How mount(8) is to speak and where it writes what it did.
            Some("-n" | "-s" | "-v") => {}
            Some(flag) if flag.starts_with('-') => return Err(format!("{flag} is not known")),
            _ => places.push(word),
        }
    }
    let [source, folder] = <[OsString; 2]>::try_from(places)
        .map_err(|places| format!("2 places are wanted, and {} are named", places.len()))?;
    let mut arguments = vec!["mount".into(), folder];
    if source != "none" {
        arguments.extend(["--config".into(), source]);
    }
    arguments.extend(options.into_iter().map(OsString::from));
    Ok(arguments)
}

/// A flag of `ashlar mount`; none if the option is for others.
fn option(option: &str) -> Option<String> {
    let (name, value) =
        option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    if name.is_empty() || NOT_FOR_US.contains(&name) || name.starts_with("x-") || name == "comment"
    {
        return None;
    }
    let name = if name == "ro" { "read-only".to_owned() } else { name.replace('_', "-") };
    Some(value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}")))
}

#[cfg(test)]
mod tests;
