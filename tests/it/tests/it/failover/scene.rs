//! Two gateways on one volume, one of which has a mount with programs, and a failover below them.

use std::path::PathBuf;
use std::time::Duration;

use databases::{Cluster, FailOver, Fault};

use crate::client::{Client, Request};
use crate::fleet::Fleet;
use crate::killed::programs::{Notes, Running};
use crate::load::{Load, Planted, Progress};
use crate::mounted::Mount;
use crate::servers::{Gateway, wait_for};

/// Number of programs on the mount.
const PROGRAMS: usize = 3;

/// Number of responses before the fault, and after the standbys follow the new primary.
const ENOUGH: u64 = 400;

/// The time limit until both gateways acknowledge a write. It exceeds the allowed one, so that the
/// failure shows the time.
const RECOVERY: Duration = Duration::from_secs(90);

/// The time limit until a gateway notices a loss and ends: some heartbeats, and more on a busy
/// machine.
pub(super) const NOTICED: Duration = Duration::from_secs(30);

/// The time in which responses from before the fault arrive.
const IN_FLIGHT: Duration = Duration::from_millis(500);

/// The words by which a gateway says that its session was ended.
pub(super) const ENDED: &str = "its session was ended";

/// The exit code of a gateway whose session was ended.
pub(super) const SESSION_ENDED: i32 = 75;

/// The result of a failover.
#[derive(Debug)]
pub(super) enum Outcome {
    /// No acknowledged write is lost. For each gateway the longest time between two acknowledged
    /// writes.
    Kept(Vec<Duration>),
    /// A gateway has ended, and this is its report.
    Reported(String),
}

#[derive(Debug)]
pub(super) struct Scene {
    mount: Mount,
    second: Gateway,
    /// The folder of the programs.
    place: PathBuf,
    notes: Vec<Notes>,
    running: Vec<Running>,
    /// The load of the failover before.
    previous: Option<Load>,
}

impl Scene {
    /// Starts the gateways and the programs. Scenes of one fleet have different numbers.
    pub(super) fn start(fleet: &Fleet, number: u64) -> Scene {
        let folder = fleet.first.folder.join("mount");
        let mount = Mount::start(&fleet.first, &folder);
        let second = fleet.second().start();
        let place = folder.join("box/programs");
        if number == 0 {
            second.client.put("/box", b"").expect(200);
            std::fs::create_dir(&place).expect("a directory");
        }
        let name = |program| usize::try_from(number).expect("few scenes") * PROGRAMS + program;
        let notes: Vec<Notes> = (0..PROGRAMS).map(|program| Notes::new(name(program))).collect();
        let running = notes.iter().map(|notes| Running::start(&place, notes, 0)).collect();
        Scene { mount, second, place, notes, running, previous: None }
    }

    fn clients(&self) -> [Client; 2] {
        [self.mount.gateway().client.clone(), self.second.client.clone()]
    }

    /// Lets a standby take over, and brings the old primary back.
    pub(super) fn fail_over(&mut self, cluster: &mut Cluster, fault: Fault, round: u64) -> Outcome {
        let mut load = Load::new(&format!("round-{round}"), Planted::None);
        let clients = self.clients();
        self.programs_go_on(&format!("before round {round}"));
        let done = load.run(&clients, |progress| self.disturb(cluster, fault, round, progress));
        if let Some(why) = self.report() {
            return Outcome::Reported(why);
        }
        load.read_all(&clients);
        if let Err(lost) = self.check(&mut load) {
            wait_for(NOTICED, || self.has_ended());
            let report = self.report();
            return Outcome::Reported(report.unwrap_or_else(|| panic!("a silent loss: {lost}")));
        }
        let (figures, gaps) = (load.is_linearizable(), load.longest_gaps(clients.len()));
        // Without a primary no write is acknowledged, so the load met the fault. The takeover is
        // seen some time after it has happened.
        let met = gaps.iter().all(|gap| 2 * *gap + IN_FLIGHT >= done.took);
        assert!(met, "writes were acknowledged within {gaps:?}: {done}");
        eprintln!("round {round}: {figures}; no acknowledged write for {gaps:?}");
        self.previous = Some(load);
        Outcome::Kept(gaps)
    }

    /// Makes the cluster fail over under load. Returns after the cluster is healed.
    fn disturb(
        &mut self,
        cluster: &mut Cluster,
        fault: Fault,
        round: u64,
        progress: &Progress,
    ) -> FailOver {
        progress.wait_for_more(ENOUGH);
        let done = cluster.fail_over(fault);
        eprintln!("round {round}: {done}");
        // The gateways serve before the old primary returns.
        let served = self.is_served() && self.programs_go_on(&format!("without {}", done.from));
        cluster.heal();
        if served && self.is_served() && self.programs_go_on(&format!("after round {round}")) {
            progress.wait_for_more(ENOUGH);
        }
        done
    }

    /// Fails unless the history of this load, and of the one before it, is linearizable.
    fn check(&mut self, load: &mut Load) -> Result<(), String> {
        if let Some(mut previous) = self.previous.take() {
            previous.read_all(&self.clients());
            previous.check()?;
        }
        load.check()
    }

    /// Waits until each gateway has acknowledged a write. Returns false if one has ended.
    fn is_served(&mut self) -> bool {
        for (number, client) in self.clients().into_iter().enumerate() {
            let put = Request::new("PUT", &format!("/box/probe-{number}")).body(b"probe".to_vec());
            let served = || client.try_send(&put).is_ok_and(|answer| answer.status == 200);
            let done = wait_for(RECOVERY, || served() || self.has_ended());
            assert!(done, "gateway {number} acknowledges nothing:\n{}", self.logs());
        }
        !self.has_ended()
    }

    /// Waits until every program has completed further operations. Returns false if a gateway has
    /// ended, and fails if a program has ended otherwise.
    fn programs_go_on(&mut self, when: &str) -> bool {
        let then: Vec<usize> = self.running.iter().map(Running::completed).collect();
        let done = wait_for(RECOVERY, || {
            let mut programs = self.running.iter_mut().zip(&then);
            programs.all(|(program, then)| program.has_ended() || program.completed() > then + 1)
        });
        if self.running.iter_mut().any(Running::has_ended)
            && !wait_for(NOTICED, || self.has_ended())
        {
            self.running.iter_mut().for_each(|program| program.is_alive(when));
        }
        assert!(done || self.has_ended(), "{when}: not all programs go on:\n{}", self.logs());
        !self.has_ended()
    }

    fn has_ended(&mut self) -> bool {
        self.mount.ended().is_some() || self.second.child.ended().is_some()
    }

    fn logs(&self) -> String {
        [self.mount.gateway().log_of_this_run(), self.second.log_of_this_run()].join("\n")
    }

    /// Returns the report of a gateway that has ended; `None` if both run.
    fn report(&mut self) -> Option<String> {
        let statuses = [self.mount.ended(), self.second.child.ended()];
        let logs = [self.mount.gateway().log_of_this_run(), self.second.log_of_this_run()];
        let (status, log) =
            statuses.into_iter().zip(logs).find_map(|(status, log)| Some((status?, log)))?;
        assert_eq!(status.code(), Some(SESSION_ENDED), "it ends otherwise:\n{log}");
        let said = log.lines().find(|line| line.contains(ENDED));
        Some(said.unwrap_or_else(|| panic!("it does not say why:\n{log}")).to_owned())
    }

    /// Stops the programs and the gateways, and fails unless the programs' files are complete.
    pub(super) fn stop(mut self) {
        for (running, notes) in self.running.into_iter().zip(&mut self.notes) {
            running.stop(notes);
        }
        for notes in &mut self.notes {
            // Through the mount and through the other gateway.
            notes.check(&self.place, &self.second.client, 0);
            notes.check(&self.place, &self.second.client, 1);
        }
        self.mount.stop();
        self.second.stop();
    }

    /// Stops everything after a loss. The programs' files may lack acknowledged writes.
    pub(super) fn abandon(self) {
        self.running.into_iter().for_each(Running::abandon);
    }
}
