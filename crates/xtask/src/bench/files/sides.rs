//! What is mounted: Ashlar, and what it is measured beside.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::super::counters;
use super::super::measurement::BUCKET;
use super::programs::FilePrograms;
use crate::child::{Child, Stop};
use crate::mount_point::MountPoint;
use crate::servers::{ACCESS_KEY, Blocks, SECRET_KEY, Server};

/// How long the null file system lets the kernel remember names and attributes, in milliseconds.
const NULL_TIMEOUT_MS: &str = "60000";

/// The bucket that s3fs-fuse shows.
pub(super) const S3FS_BUCKET: &str = "s3fs";

/// The gateway with a mount. Dropped, the program ends before its mount is taken away.
#[derive(Debug)]
pub(super) struct Ashlar {
    pub(super) server: Server,
    pub(super) mount: MountPoint,
    /// Where its counters are.
    pub(super) admin: String,
}

/// How an Ashlar is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starting<'a> {
    pub(super) programs: &'a FilePrograms,
    pub(super) folder: &'a Path,
    /// The metadata store.
    pub(super) place: &'a str,
    pub(super) blocks: Blocks<'a>,
    pub(super) settings: &'a [(&'a str, &'a str)],
    pub(super) stop: &'a Stop,
}

impl Ashlar {
    pub(super) fn start(starting: Starting<'_>) -> Result<Self> {
        let Starting { programs, folder, place, blocks, settings, stop } = starting;
        let mount = MountPoint::make()?;
        let at = mount.folder().display().to_string();
        let settings = [settings, &[("ASHLAR_MOUNT", at.as_str())]].concat();
        let program = &programs.ashlar;
        let mut server = Server::gateway(program, folder, place, blocks, None, &settings, stop)?;
        mount.wait(&mut server.child, stop)?;
        let admin = counters::admin(server.child.log())?;
        Ok(Self { server, mount, admin })
    }

    /// Ends it, which it must do in order.
    pub(super) fn end(mut self) -> Result<()> {
        let status = self.server.child.end()?;
        if !status.success() {
            bail!("Ashlar ended with {status}");
        }
        if self.mount.is_mounted()? {
            bail!("Ashlar has ended, and its mount has not");
        }
        Ok(())
    }

    /// The bucket that programs work in.
    pub(super) fn root(&self) -> PathBuf {
        self.mount.folder().join(BUCKET)
    }
}

/// Leaves the next start in a folder nothing of what the last one kept for itself but its master
/// key.
pub(super) fn forget(folder: &Path, number: u32) -> Result<()> {
    let (data, old) = (folder.join("data"), folder.join(format!("data-{number}")));
    std::fs::rename(&data, &old).context("Ashlar left no folder of its own")?;
    std::fs::rename(folder.join("ashlar.log"), folder.join(format!("ashlar-{number}.log")))?;
    std::fs::DirBuilder::new().mode(0o700).create(&data)?;
    std::fs::copy(old.join("master.key"), data.join("master.key"))
        .context("Ashlar left no master key")?;
    Ok(std::fs::remove_dir_all(&old)?)
}

/// Another file system of the kernel's FUSE. Dropped, the program ends before its mount is taken
/// away.
#[derive(Debug)]
pub(super) struct Other {
    _program: Child,
    pub(super) mount: MountPoint,
}

impl Other {
    /// The null file system.
    pub(super) fn null(programs: &FilePrograms, folder: &Path, stop: &Stop) -> Result<Self> {
        let mount = MountPoint::make()?;
        let mut command = Command::new(&programs.null);
        command.args(["--timeout-ms", NULL_TIMEOUT_MS]).arg(mount.folder());
        Self::start(command, "null", folder, mount, stop)
    }

    /// s3fs-fuse as it comes, on a bucket of a MinIO.
    pub(super) fn s3fs(program: &Path, minio: &Server, folder: &Path, stop: &Stop) -> Result<Self> {
        let mount = MountPoint::make()?;
        let passwords = folder.join("s3fs.password");
        let mut file = std::fs::File::options();
        let file = file.write(true).create(true).truncate(true).mode(0o600).open(&passwords)?;
        std::io::Write::write_all(&mut &file, format!("{ACCESS_KEY}:{SECRET_KEY}\n").as_bytes())?;
        let mut command = Command::new(program);
        command.arg(S3FS_BUCKET).arg(mount.folder()).arg("-f");
        for option in [
            format!("url={}", minio.endpoint),
            format!("passwd_file={}", passwords.display()),
            "use_path_request_style".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        Self::start(command, "s3fs", folder, mount, stop)
    }

    fn start(
        command: Command,
        name: &str,
        folder: &Path,
        mount: MountPoint,
        stop: &Stop,
    ) -> Result<Self> {
        let mut program = Child::spawn(command, name, &folder.join(format!("{name}.log")))?;
        mount.wait(&mut program, stop).with_context(|| format!("{name} was not mounted"))?;
        Ok(Self { _program: program, mount })
    }
}
