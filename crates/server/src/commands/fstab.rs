//! The mount helper for `mount -t ashlar` and `/etc/fstab`.
//!
//! mount(8) starts `mount.ashlar SOURCE DIR -o OPTIONS`, a link to this program. SOURCE is a
//! configuration file, or `none`. OPTIONS are those of `ashlar mount`; options of mount(8) that do
//! not concern a file system are ignored. For example, `mount.ashlar /etc/ashlar.toml /mnt -o
//! ro,noatime` becomes `ashlar mount /mnt --config /etc/ashlar.toml --read-only --noatime`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use problem::Problem;

/// The name under which mount(8) starts this program.
const HELPER_NAME: &str = "mount.ashlar";

/// Options that are ignored: they are for mount(8) or other programs, or are always in effect.
const IGNORED_OPTIONS: [&str; 19] = [
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

/// Returns true if this program was started as the mount helper.
pub(crate) fn is_mount_helper(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(HELPER_NAME))
}

/// Replaces this process by the equivalent `ashlar mount`. Returns only if that fails.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Problem {
    let doing = || format!("mount as {HELPER_NAME}");
    let arguments = match mount_arguments(words) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            let remedy = format!("use it as mount(8) does: {HELPER_NAME} FILE DIR [-o OPTION,…]");
            return Problem::new(doing(), wrong).remedy(remedy);
        }
    };
    // The path of the file instead of `argv[0]`: under the helper's name it would run the helper
    // again.
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    Problem::new(doing(), Command::new(program).args(arguments).exec())
}

/// Translates the arguments of the mount helper into those of this program.
fn mount_arguments(mut words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let (mut places, mut options) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-o") => {
                let listed = words.next().ok_or("-o has no options")?;
                let listed = listed.into_string().map_err(|_| "the options are not UTF-8")?;
                options.extend(listed.split(',').filter_map(option));
            }
            // No entry in mtab, tolerate unknown options, verbose: mount(8) passes them on.
            Some("-n" | "-s" | "-v") => {}
            Some(flag) if flag.starts_with('-') => {
                return Err(format!("the flag {flag} is not known"));
            }
            _ => places.push(word),
        }
    }
    let [source, folder] = <[OsString; 2]>::try_from(places)
        .map_err(|places| format!("expected SOURCE and DIR, got {} arguments", places.len()))?;
    let mut arguments = vec!["mount".into(), folder];
    if source != "none" {
        arguments.extend(["--config".into(), source]);
    }
    arguments.extend(options.into_iter().map(OsString::from));
    Ok(arguments)
}

/// Returns the flag of `ashlar mount` for an option, or `None` if the option is ignored.
fn option(option: &str) -> Option<String> {
    let (name, value) =
        option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    if name.is_empty()
        || IGNORED_OPTIONS.contains(&name)
        || name.starts_with("x-")
        || name == "comment"
    {
        return None;
    }
    let name = if name == "ro" { "read-only".to_owned() } else { name.replace('_', "-") };
    Some(value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}")))
}

#[cfg(test)]
mod tests;
