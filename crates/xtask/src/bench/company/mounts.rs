//! The mounts of a measurement of files: one that has its volume alone, one beside an idle gateway
//! and an idle mount, and the null file system.
//!
//! For example, `Place::Company` is measured with a process of `ashlar mount`, while a process of
//! `ashlar serve` and another one of `ashlar mount` have the same volume open and do nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use load::{Gauge, SmallFiles, Trouble};

use super::super::counters::Counters;
use super::super::files::sides::Other;
use super::super::measurement::BUCKET;
use super::super::{hanging, meter};
use super::figure::Spent;
use super::ground::{Ground, Mounted, Peer, VOLUMES, Volume};

/// The pause between the start of the last process and the first round. Sessions that began or
/// ended less than a second ago change the state of the others.
const SETTLE: Duration = Duration::from_secs(2);

/// The longest wait for background work of the process that was measured before.
const CALM_MAX: Duration = Duration::from_secs(1);

/// The time in which the database is observed, and the CPU time that it may use in it.
const CALM_LOOK: Duration = Duration::from_millis(50);
const CALM_CPU: Duration = Duration::from_millis(10);

/// A mount that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Alone,
    Company,
    Null,
}

/// The measured mount of a volume, and the other processes that have the volume open. The order of
/// the fields is the order in which they end.
struct Site<'a> {
    /// `None` while it restarts.
    mounted: Option<Mounted>,
    peers: Vec<Peer>,
    volume: Volume<'a>,
}

/// All mounts, and the ways to run work on them.
pub(super) struct Mounts<'a> {
    ground: &'a Ground<'a>,
    /// In the order of [`VOLUMES`].
    sites: [Site<'a>; 2],
    null: Other,
    /// The files of the rows of single files, by place, between their creation and removal.
    pub(super) small: [Option<Arc<SmallFiles>>; 3],
}

impl<'a> Mounts<'a> {
    /// Starts all processes. `null` is the program of the null file system.
    pub(super) fn begin(ground: &'a Ground<'a>, null: &Path) -> Result<Self> {
        let [alone, company] = VOLUMES;
        let sites = [Site::begin(ground, alone)?, Site::begin(ground, company)?];
        let null = Other::null(null, ground.folder, ground.stop)?;
        ground.stop.sleep(SETTLE)?;
        Ok(Self { ground, sites, null, small: [None, None, None] })
    }

    fn site(&self, place: Place) -> Option<&Site<'a>> {
        match place {
            Place::Alone => Some(&self.sites[0]),
            Place::Company => Some(&self.sites[1]),
            Place::Null => None,
        }
    }

    /// The folder of a mount in which programs work.
    pub(super) fn root(&self, place: Place) -> Result<PathBuf> {
        let mount = match self.site(place) {
            Some(site) => &site.mounted.as_ref().context("the mount does not run")?.mount,
            None => &self.null.mount,
        };
        Ok(mount.folder().join(BUCKET))
    }

    /// Replaces the measured process of a volume by a new one with empty caches. Does nothing for
    /// the null file system, which has no content of earlier processes.
    pub(super) fn restart(&mut self, place: Place) -> Result<()> {
        let site = match place {
            Place::Alone => &mut self.sites[0],
            Place::Company => &mut self.sites[1],
            Place::Null => return Ok(()),
        };
        if let Some(old) = site.mounted.take() {
            old.end()?;
        }
        site.mounted = Some(site.volume.mount()?);
        // The session of the old process has just ended.
        self.ground.stop.sleep(SETTLE)
    }

    /// Runs load on a mount in a new thread, and returns its result.
    pub(super) fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Gauge) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T> {
        hanging::work(self.ground.stop, &|| self.abort(), work)
    }

    /// Runs a program that works on a mount, and returns the time that it took.
    pub(super) fn program(&self, command: Command) -> Result<Duration> {
        let ran = hanging::run(self.ground.stop, self.ground.folder, &|| self.abort(), command)?;
        Ok(ran.0)
    }

    /// Aborts the FUSE connections of all mounts, so that all calls of programs that wait there
    /// fail.
    fn abort(&self) {
        self.null.mount.abort();
        for site in &self.sites {
            let peers = site.peers.iter().filter_map(|peer| match peer {
                Peer::Mount(mounted) => Some(mounted),
                Peer::Gateway(_) => None,
            });
            site.mounted.iter().chain(peers).for_each(|mounted| mounted.mount.abort());
        }
    }

    /// Returns the costs of a mount up to now, and those of its peers and of the database. `None`
    /// for the null file system, which has no counters.
    pub(super) fn spent(&self, place: Place) -> Result<Option<Spent>> {
        let Some(site) = self.site(place) else { return Ok(None) };
        let mounted = site.mounted.as_ref().context("the mount does not run")?;
        let stats = mounted.mount.folder().join(".ashlar/stats");
        let text = self.work(move |_| {
            std::fs::read_to_string(&stats).map_err(|source| Trouble::System {
                doing: format!("read {}", stats.display()),
                source,
            })
        })?;
        let peers: Vec<u32> = site.peers.iter().map(Peer::pid).collect();
        let cpu = [
            meter::cpu_time_of_tree(&[mounted.pid()]),
            meter::cpu_time_of_tree(&peers),
            site.volume.metadata.cpu(),
        ];
        Ok(Some(Spent { counters: Counters::of_text(&text)?, cpu }))
    }

    /// Waits until the work before has ended: dirty pages of the disk, and the deletion of blocks
    /// in the background, during which the database is busy. Waits for the latter at most
    /// [`CALM_MAX`].
    pub(super) fn calm(&self) -> Result<()> {
        let folder = std::fs::File::open(self.ground.folder)?;
        rustix::fs::syncfs(&folder)?;
        let end = Instant::now() + CALM_MAX;
        // Both volumes have one database server.
        let database = &self.sites[0].volume.metadata;
        while Instant::now() < end {
            let before = database.cpu();
            self.ground.stop.sleep(CALM_LOOK)?;
            if database.cpu().saturating_sub(before) <= CALM_CPU {
                break;
            }
        }
        self.ground.stop.check()
    }

    /// Ends all processes. Fails if one does not end in order.
    pub(super) fn end(self) -> Result<()> {
        for mut site in self.sites {
            if let Some(mounted) = site.mounted.take() {
                mounted.end()?;
            }
        }
        Ok(())
    }
}

impl<'a> Site<'a> {
    /// Creates a volume and starts its processes. Only a gateway creates a volume; beside the mount
    /// that is alone, it ends before the mount starts.
    fn begin(ground: &'a Ground<'a>, name: &'static str) -> Result<Self> {
        let mut volume = Volume::make(ground, name)?;
        let mut gateway = volume.gateway()?;
        let mut peers = Vec::new();
        if name == VOLUMES[0] {
            gateway.child.end()?;
        } else {
            peers.push(Peer::Gateway(gateway));
            peers.push(Peer::Mount(volume.mount()?));
        }
        let mounted = Some(volume.mount()?);
        Ok(Self { mounted, peers, volume })
    }
}
