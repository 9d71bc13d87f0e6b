//! A large tree listed by an Ashlar that has just started.

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use load::{EntryVerb, SmallFiles, median};

use super::figure::{Bar, FileFigure};
use super::stage::{Stage, cost, make_folder, number};
use crate::progress::Mark;

/// Files of each directory.
pub(super) const DIRECTORY_FILES: u64 = 1_000;

/// Directories that are filled at a time.
const FILLED_AT_A_TIME: u64 = 4;

/// How long an Ashlar that has just started is watched: what it asks of the database by itself.
const IDLE: Duration = Duration::from_secs(1);

/// The rows' names.
pub(super) const LIST: &str = "cold ls -lR";
pub(super) const TRIPS: &str = "its round trips for 1,000 entries";

/// Round trips to the metadata store for 1,000 entries.
const TRIPS_MAX: f64 = 1.0;

impl Stage<'_> {
    /// `ls -lR` of directories of 1,000 files, each time after a new start.
    pub(super) fn listing(&mut self) -> Result<Vec<FileFigure>> {
        let progress = Rc::clone(&self.progress);
        let files = self.amounts.listed;
        let running = progress.begin(&format!("ls -lR of {files} files"));
        self.fill()?;
        let (mut seconds, mut trips, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            self.start_ashlar()?;
            let idle = self.sample(1, |stage| stage.stop.sleep(IDLE).map(|()| IDLE))?;
            let sample = self.sample(files, Self::list)?;
            let took = number(files) / sample.rate;
            let asked = sample.trips * number(files) - idle.trips * took / IDLE.as_secs_f64();
            seconds.push(took);
            trips.push(asked.max(0.0) * 1e3 / number(files));
            samples.push(sample);
        }
        let mut cost = cost(&samples);
        self.start_ashlar()?;
        let requests = self.counted(self.ashlar()?.mount.device()?, Self::list)?.1;
        cost.requests = requests.map(|it| (it.each(files), it.kinds(files)));
        let figure = FileFigure {
            name: format!("{LIST}, {files} files"),
            beside: None,
            ours: median(seconds),
            unit: "s",
            more_is_better: false,
            bar: Bar::Nothing,
            cost: Some(cost),
        };
        let trips = FileFigure {
            name: TRIPS.to_owned(),
            ours: median(trips),
            unit: "",
            bar: Bar::AtMost(TRIPS_MAX),
            cost: None,
            ..figure
        };
        running
            .end(Mark::Passed, &format!("{}; {} trips for 1,000", figure.sides(), trips.sides()));
        let mut rm = Command::new("rm");
        rm.arg("-r").arg(self.ashlar()?.root().join("listed"));
        self.program(rm)?;
        Ok(vec![figure, trips])
    }

    /// Makes all directories and files, empty: what they hold does not show.
    fn fill(&self) -> Result<()> {
        let folder = self.ashlar()?.root().join("listed");
        let directories = self.amounts.listed / DIRECTORY_FILES;
        for first in (0..directories).step_by(usize::try_from(FILLED_AT_A_TIME)?) {
            let some = FILLED_AT_A_TIME.min(directories - first);
            let (folder, some) = (folder.join(format!("from-{first}")), usize::try_from(some)?);
            self.work(move |gauge| {
                make_folder(&folder)?;
                let entries = SmallFiles::make(&folder, some, DIRECTORY_FILES)?;
                entries.pass(EntryVerb::Create, Duration::ZERO, gauge).map(|_| ())
            })?;
        }
        Ok(())
    }

    fn list(&self) -> Result<Duration> {
        let mut ls = Command::new("ls");
        ls.arg("-lR").arg(self.ashlar()?.root().join("listed"));
        self.program(ls)
    }
}
