//! The Debian package: program, units, configuration, manual, completions and the list of its
//! parts.
//!
//! dpkg-deb packs a folder that this module fills. The scripts and units are files of `contrib`;
//! manual and completions come from the program itself. For example, `ashlar manual` writes the
//! pages that become `/usr/share/man/man1`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::sbom;
use crate::workspace::{Workspace, stdout};

/// The scripts of `contrib/deb` that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The units of `contrib/systemd`.
const UNITS: [&str; 2] = ["ashlar.service", "ashlar-mount@.service"];

/// The shells with completions: the word for `ashlar completion`, and the file in the package.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/ashlar"),
    ("zsh", "usr/share/zsh/vendor-completions/_ashlar"),
    ("fish", "usr/share/fish/vendor_completions.d/ashlar.fish"),
];

/// Packs `program` into `folder`. Returns the path of the package.
pub(super) fn pack(workspace: &Workspace, program: &Path, folder: &Path) -> Result<PathBuf> {
    let version = version(workspace, program)?;
    let architecture = output("dpkg", &["--print-architecture"])?;
    let scratch = tempfile::tempdir()?;
    let root = scratch.path();
    let installed = put(root, "usr/bin/ashlar", &std::fs::read(program)?, 0o755)?;
    output("strip", &[&installed])?;
    copy_contrib(workspace, root)?;
    write_texts(workspace, root, program)?;
    let control = control(&version, &architecture, &libc(program)?, kibibytes(root)?);
    put(root, "DEBIAN/control", control.as_bytes(), 0o644)?;
    put(root, "DEBIAN/conffiles", b"/etc/ashlar/config.toml\n", 0o644)?;
    std::fs::create_dir_all(folder)?;
    let package = folder.join(format!("ashlar_{version}_{architecture}.deb"));
    // Files of the checkout belong to its user, and those of a package to root.
    // The default, xz, takes minutes for a package that is a tenth smaller.
    let words = ["--root-owner-group", "-Zzstd", "-z6", "--build", &path(root), &path(&package)];
    output("dpkg-deb", &words)?;
    let parts = sbom::write(workspace, &version)?;
    std::fs::write(package.with_extension("cdx.json"), parts)?;
    Ok(package)
}

/// Returns the version for dpkg: the one of the program, and for a build without a release's
/// version also the time and the commit of the sources, so that later builds count as newer.
fn version(workspace: &Workspace, program: &Path) -> Result<String> {
    let about = output(&path(program), &["version"])?;
    let version = about.trim_start_matches("ashlar ").to_owned();
    if version != "0.0.0" {
        return Ok(version);
    }
    let mut command = Command::new("git");
    command.current_dir(&workspace.root).args([
        "log",
        "-1",
        "--format=%cd.%h",
        "--date=format:%Y%m%d%H%M%S",
    ]);
    Ok(format!("{version}+git{}", stdout(command)?.trim()))
}

/// Copies the units, the scripts and the configuration.
fn copy_contrib(workspace: &Workspace, root: &Path) -> Result<()> {
    let contrib = workspace.root.join("contrib");
    for unit in UNITS {
        let text = std::fs::read(contrib.join("systemd").join(unit))?;
        put(root, &format!("usr/lib/systemd/system/{unit}"), &text, 0o644)?;
    }
    for script in SCRIPTS {
        let text = std::fs::read(contrib.join("deb").join(script))?;
        put(root, &format!("DEBIAN/{script}"), &text, 0o755)?;
    }
    let defaults = std::fs::read_to_string(workspace.root.join("config/default.toml"))?;
    let line = "data_dir = \"ashlar-data\"";
    if !defaults.contains(line) {
        bail!("config/default.toml has no line {line}");
    }
    // A relative folder would be another one for each command.
    let config = defaults.replace(line, "data_dir = \"/var/lib/ashlar\"");
    put(root, "etc/ashlar/config.toml", config.as_bytes(), 0o644)?;
    Ok(())
}

/// Writes the manual, the completions and the licence.
fn write_texts(workspace: &Workspace, root: &Path, program: &Path) -> Result<()> {
    let pages = root.join("usr/share/man/man1");
    std::fs::create_dir_all(&pages)?;
    output(&path(program), &["manual", &path(&pages)])?;
    for page in std::fs::read_dir(&pages)? {
        // Without a name and a time in the file, two builds give the same bytes.
        output("gzip", &["-9", "--no-name", &path(&page?.path())])?;
    }
    for (shell, file) in COMPLETIONS {
        put(root, file, output(&path(program), &["completion", shell])?.as_bytes(), 0o644)?;
    }
    let licence = std::fs::read_to_string(workspace.root.join("LICENSE"))?;
    put(root, "usr/share/doc/ashlar/copyright", licence.as_bytes(), 0o644)?;
    Ok(())
}

/// Returns the control file. `libc` is the version of the C library that the program needs, and
/// `kibibytes` the size of the installed files.
fn control(version: &str, architecture: &str, libc: &str, kibibytes: u64) -> String {
    format!(
        "Package: ashlar\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: Ashlar developers <ashlar@localhost>\n\
         Section: net\n\
         Priority: optional\n\
         Installed-Size: {kibibytes}\n\
         Depends: adduser, ca-certificates, libc6 (>= {libc}), libgcc-s1\n\
         Recommends: fuse3\n\
         Description: S3 gateway and file system over a database and a bucket\n \
         Ashlar serves S3, and mounts the same files as a file system. It keeps\n \
         blocks in a folder or a bucket, and one namespace over them in SQLite,\n \
         PostgreSQL, MariaDB, MySQL, Redis or etcd.\n"
    )
}

/// Returns the newest version of glibc's symbols in a program.
fn libc(program: &Path) -> Result<String> {
    let bytes = std::fs::read(program)?;
    newest_symbol(&bytes)
        .map(|(major, minor)| format!("{major}.{minor}"))
        .context("the program needs no symbol of glibc")
}

fn newest_symbol(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut newest = None;
    for text in bytes.split(|byte| *byte == 0).filter(|text| text.starts_with(b"GLIBC_")) {
        let text = String::from_utf8_lossy(text);
        let mut numbers = text.trim_start_matches("GLIBC_").splitn(3, '.').map(str::parse);
        if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) {
            newest = newest.max(Some((major, minor)));
        }
    }
    newest
}

/// Writes a file below `root` with this mode, and returns its path.
fn put(root: &Path, name: &str, content: &[u8], mode: u32) -> Result<String> {
    let file = root.join(name);
    let folder = file.parent().context("a file of a package has a folder")?;
    std::fs::create_dir_all(folder)?;
    std::fs::write(&file, content)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode))?;
    Ok(path(&file))
}

/// Returns the size of all files below a folder.
fn kibibytes(root: &Path) -> Result<u64> {
    let sizes = output("du", &["--summarize", "--block-size=1K", &path(root)])?;
    let size = sizes.split_whitespace().next().context("du prints a size")?;
    Ok(size.parse()?)
}

fn output(program: &str, words: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(words);
    Ok(stdout(command)?.trim_end().to_owned())
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
