//! Two gateways and two mounts of one volume: four sessions, each in a process of its own, that all
//! hold leases of each other.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::CONNECTED;
use crate::both_views::load::ViewPair;
use crate::fleet::{BlockKind, Engine, Fleet};
use crate::mounted::{LoneMount, can_mount};
use crate::servers::{Gateway, Setup, metric, wait_for};

/// Two gateways and two mounts of one volume. The mounts are first, because they need their
/// database until they are unmounted.
#[derive(Debug)]
pub(super) struct Company {
    pub(super) mounts: Vec<LoneMount>,
    pub(super) gateways: Vec<Gateway>,
    pub(super) fleet: Fleet,
}

/// Reads of a session that were answered from its cache, and by which right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) from_cache: u64,
    pub(super) is_leased: bool,
}

impl Reads {
    pub(super) fn of(metrics: &str) -> Reads {
        Reads {
            from_cache: metric(metrics, "ashlar_metadata_cached_reads_total "),
            is_leased: metric(metrics, "ashlar_session_reads_from{from=\"leased\"}") == 1,
        }
    }
}

impl Company {
    /// Starts all four, with the directories in which the programs work. Returns `None` if this
    /// machine cannot mount, or has no such engine.
    pub(super) fn start(engine: Engine) -> Option<Company> {
        if !can_mount() {
            return None;
        }
        let fleet = Fleet::new(engine, BlockKind::Folder)?;
        let setups = [fleet.first.clone(), fleet.second()];
        Some(Company::start_as(fleet, &setups))
    }

    /// The same with these settings of the gateways.
    pub(super) fn start_as(fleet: Fleet, gateways: &[Setup]) -> Company {
        let gateways: Vec<Gateway> = gateways.iter().map(Setup::start).collect();
        let mount = |name: &str| {
            let setup = fleet.first.sibling(name);
            LoneMount::start(&setup, &setup.folder.join("mount"), &[])
        };
        let mounts: Vec<LoneMount> = ["third", "fourth"].map(mount).into();
        gateways[0].client.put("/box", b"").expect(200);
        for name in ["hot", "aside"] {
            std::fs::create_dir_all(mounts[0].folder.join("box").join(name)).expect("a directory");
        }
        Company { mounts, gateways, fleet }
    }

    /// Returns two places for a load, each with a gateway and a mount.
    pub(super) fn places(&self) -> Vec<ViewPair> {
        let pairs = self.gateways.iter().zip(&self.mounts);
        pairs.map(|(gateway, mount)| ViewPair::of(gateway, &mount.folder)).collect()
    }

    /// Returns the reads of each session: those of the gateways first.
    pub(super) fn reads(&self) -> Vec<Reads> {
        let gateways = (0..self.gateways.len()).map(|at| self.reads_of_gateway(at));
        let mounts = self.mounts.iter().map(|mount| Reads::of(&mount.metrics()));
        gateways.chain(mounts).collect()
    }

    pub(super) fn reads_of_gateway(&self, at: usize) -> Reads {
        Reads::of(&self.gateways[at].admin_page("/metrics"))
    }

    /// Waits until each session has been leased, under a load of reads.
    #[track_caller]
    pub(super) fn wait_for_leases(&self) {
        let mut leased = [false; 4];
        let all = || {
            for (seen, reads) in leased.iter_mut().zip(self.reads()) {
                *seen |= reads.is_leased;
            }
            leased == [true; 4]
        };
        let came = wait_for(CONNECTED, all);
        let status = || self.gateways.iter().map(|gateway| gateway.admin_page("/status"));
        assert!(came, "leases were seen as {leased:?}:\n{}", status().collect::<String>());
    }

    /// Stops all four and removes their files. Fails if blocks or records are left behind.
    #[track_caller]
    pub(super) fn stop_and_check(mut self) {
        let last = self.mounts.pop().expect("two mounts");
        for name in ["hot", "aside"] {
            std::fs::remove_dir_all(last.folder.join("box").join(name)).expect("all is removed");
        }
        last.stop();
        self.mounts.into_iter().for_each(LoneMount::stop);
        self.fleet.stop_and_check(self.gateways);
    }
}

/// Stops a process for a while, and calls `at_end` before it continues. Fails unless the process
/// was stopped then.
#[track_caller]
pub(super) fn stop_for(process: Pid, pause: Duration, at_end: impl FnOnce()) {
    kill_process(process, Signal::STOP).expect("a process can be stopped");
    std::thread::sleep(pause);
    at_end();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    let stat = stat.expect("a stopped process exists");
    kill_process(process, Signal::CONT).expect("a process can continue");
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    assert_eq!(state, Some("T"), "it was not stopped: {stat}");
}
