//! The volumes of a measurement, and the processes that have them open.
//!
//! Each process has a data folder of its own, as on separate machines. For example, the second
//! process of the volume `company` is in the folder `company/process-2`.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};

use super::super::metadata::Metadata;
use super::super::options::Options;
use crate::child::{Child, Stop};
use crate::engines::{Databases, Engine};
use crate::mount_point::MountPoint;
use crate::progress::Progress;
use crate::servers::{Blocks, Server, ashlar};

/// The names of the two volumes: the one whose process has no peers, and the one with peers.
pub(super) const VOLUMES: [&str; 2] = ["alone", "company"];

/// The number of processes of each volume whose logs an error shows.
pub(super) const PROCESSES_SHOWN: u32 = 6;

/// The parts of a measurement that all processes share.
pub(super) struct Ground<'a> {
    /// The program under test.
    pub(super) program: &'a Path,
    pub(super) engine: Engine,
    pub(super) options: &'a Options,
    pub(super) databases: &'a Databases,
    pub(super) minio: &'a Server,
    pub(super) progress: &'a Rc<Progress>,
    /// The folder of the measurement, which has a folder for each volume.
    pub(super) folder: &'a Path,
    pub(super) stop: &'a Stop,
}

/// A volume: its metadata store, and the folders of its processes.
pub(super) struct Volume<'a> {
    ground: &'a Ground<'a>,
    name: &'static str,
    pub(super) metadata: Metadata<'a>,
    folder: PathBuf,
    processes: u32,
}

/// A process that `ashlar mount` started, with its mount. Dropping the value ends the process
/// first, and then removes the mount.
#[derive(Debug)]
pub(super) struct Mounted {
    child: Child,
    pub(super) mount: MountPoint,
}

/// A process that has the volume of the measured process open as well.
#[derive(Debug)]
pub(super) enum Peer {
    Gateway(Server),
    Mount(Mounted),
}

impl Peer {
    /// The process id. The worker of a mount is a child of this process.
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Gateway(server) => server.child.pid(),
            Self::Mount(mounted) => mounted.pid(),
        }
    }
}

impl Mounted {
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Unmounts and ends the process. Fails if its exit status is not 0.
    pub(super) fn end(mut self) -> Result<()> {
        let status = self.child.end()?;
        if !status.success() {
            bail!("the mount ended with {status}");
        }
        Ok(())
    }
}

impl<'a> Volume<'a> {
    /// Creates the metadata store of a volume. The first gateway creates the volume itself.
    pub(super) fn make(ground: &'a Ground<'a>, name: &'static str) -> Result<Self> {
        let folder = ground.folder.join(name);
        std::fs::create_dir(&folder)?;
        let metadata = Metadata::fresh(ground.databases, ground.engine, &folder, name)?;
        metadata.sync_redis(ground.options.redis_fsync.name())?;
        Ok(Self { ground, name, metadata, folder, processes: 0 })
    }

    /// The place of the blocks. Both volumes have them in one bucket, below different prefixes.
    fn blocks(&self) -> Blocks<'a> {
        Blocks::Bucket(&self.ground.minio.endpoint, self.name)
    }

    /// Starts one more gateway, and waits until it is ready.
    pub(super) fn gateway(&mut self) -> Result<Server> {
        let folder = self.next_folder()?;
        let (place, settings) = (&self.metadata.place, self.settings());
        let Ground { program, stop, .. } = self.ground;
        Server::gateway(program, &folder, place, self.blocks(), None, settings, stop)
    }

    /// Starts one more process with a mount, and waits for the mount. The volume must exist.
    pub(super) fn mount(&mut self) -> Result<Mounted> {
        let folder = self.next_folder()?;
        let mount = MountPoint::make()?;
        let at = mount.folder().display().to_string();
        let words = ["mount", "--foreground", &at];
        let (place, blocks) = (&self.metadata.place, self.blocks().url(&folder));
        let program = self.ground.program;
        let command = ashlar(program, &words, &folder, place, &blocks, self.settings())?;
        let mut child = Child::spawn(command, "ashlar mount", &folder.join("ashlar.log"))?;
        mount.wait(&mut child, self.ground.stop)?;
        Ok(Mounted { child, mount })
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        self.ground.options.settings(self.ground.engine)
    }

    /// Creates the folder of the next process. It has the master key of the first one, without
    /// which a process cannot open the secrets of the volume's users.
    fn next_folder(&mut self) -> Result<PathBuf> {
        self.processes += 1;
        let folder = process_folder(&self.folder, self.processes);
        std::fs::create_dir(&folder)?;
        if self.processes > 1 {
            let (data, first) = (folder.join("data"), process_folder(&self.folder, 1));
            std::fs::DirBuilder::new().mode(0o700).create(&data)?;
            std::fs::copy(first.join("data/master.key"), data.join("master.key"))
                .context("the first process has no master key to copy")?;
        }
        Ok(folder)
    }
}

/// Returns the folder of a process of a volume. Processes are numbered from 1.
pub(super) fn process_folder(volume: &Path, number: u32) -> PathBuf {
    volume.join(format!("process-{number}"))
}
