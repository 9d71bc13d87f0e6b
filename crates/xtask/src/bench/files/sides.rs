//! The mounted file systems: Ashlar, and those that it is compared with.

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

/// The time in milliseconds for which the null file system allows the kernel to cache names and
/// attributes.
const NULL_TIMEOUT_MS: &str = "60000";

/// The bucket that s3fs-fuse mounts.
pub(super) const S3FS_BUCKET: &str = "s3fs";

/// A gateway with a mount. Dropping the value ends the program first, and then removes the mount.
#[derive(Debug)]
pub(super) struct Ashlar {
    pub(super) server: Server,
    pub(super) mount: MountPoint,
    /// The address of its metrics.
    pub(super) admin: String,
}

/// The parameters for starting an Ashlar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starting<'a> {
    pub(super) programs: &'a FilePrograms,
    pub(super) folder: &'a Path,
    /// The URL of the metadata store.
    pub(super) place: &'a str,
    pub(super) blocks: Blocks<'a>,
    pub(super) settings: &'a [(&'a str, &'a str)],
    pub(super) stop: &'a Stop,
}

impl Ashlar {
    /// Starts a gateway with a mount, and waits for the mount.
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

    /// Ends the gateway. Fails if its exit status is not 0 or if its mount remains.
    pub(super) fn end(mut self) -> Result<()> {
        let status = self.server.child.end()?;
        if !status.success() {
            bail!("Ashlar ended with {status}");
        }
        if self.mount.is_mounted()? {
            bail!("Ashlar ended, but its mount is still there");
        }
        Ok(())
    }

    /// The path of the bucket in which programs work.
    pub(super) fn root(&self) -> PathBuf {
        self.mount.folder().join(BUCKET)
    }
}

/// Replaces the data folder of an ended Ashlar by a new one that has only the master key, so that
/// the next Ashlar starts with empty caches. `number` makes the name of the old log unique.
pub(super) fn forget(folder: &Path, number: u32) -> Result<()> {
    let (data, old) = (folder.join("data"), folder.join(format!("data-{number}")));
    std::fs::rename(&data, &old).context("Ashlar has no data folder to move")?;
    std::fs::rename(folder.join("ashlar.log"), folder.join(format!("ashlar-{number}.log")))?;
    std::fs::DirBuilder::new().mode(0o700).create(&data)?;
    std::fs::copy(old.join("master.key"), data.join("master.key"))
        .context("Ashlar has no master key to copy")?;
    Ok(std::fs::remove_dir_all(&old)?)
}

/// Another FUSE file system. Dropping the value ends the program first, and then removes the mount.
#[derive(Debug)]
pub(in crate::bench) struct Other {
    _program: Child,
    pub(in crate::bench) mount: MountPoint,
}

impl Other {
    /// Starts the null file system.
    pub(in crate::bench) fn null(program: &Path, folder: &Path, stop: &Stop) -> Result<Self> {
        let mount = MountPoint::make()?;
        let mut command = Command::new(program);
        command.args(["--timeout-ms", NULL_TIMEOUT_MS]).arg(mount.folder());
        Self::start(command, "null", folder, mount, stop)
    }

    /// Starts s3fs-fuse with its default settings, on a bucket of MinIO.
    pub(super) fn s3fs(program: &Path, minio: &Server, folder: &Path, stop: &Stop) -> Result<Self> {
        let mount = MountPoint::make()?;
        let passwords = folder.join("s3fs.password");
        let mut file = std::fs::File::options();
        // s3fs-fuse refuses a password file that other users can read.
        let file = file.write(true).create(true).truncate(true).mode(0o600).open(&passwords)?;
        std::io::Write::write_all(&mut &file, format!("{ACCESS_KEY}:{SECRET_KEY}\n").as_bytes())?;
        // `-f` keeps s3fs-fuse in the foreground, so that it ends with its process group.
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
        mount.wait(&mut program, stop).with_context(|| format!("{name} did not mount"))?;
        Ok(Self { _program: program, mount })
    }
}
