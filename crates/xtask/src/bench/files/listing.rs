//! A listing of a large tree, by an Ashlar with empty caches.

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use load::{EntryVerb, SmallFiles, median};

use super::figure::{FileFigure, Target};
use super::stage::{Stage, cost, make_folder, number};
use crate::progress::Mark;

/// The number of files in each directory.
pub(super) const DIRECTORY_FILES: u64 = 1_000;

/// The number of directories that are filled at the same time.
const FILLED_AT_A_TIME: u64 = 4;

/// The time during which the background requests of a new Ashlar are counted.
const IDLE: Duration = Duration::from_secs(1);

// The names of the rows.
pub(super) const LIST: &str = "cold ls -lR";
pub(super) const TRIPS: &str = "its round trips for 1,000 entries";

/// The most round trips to the metadata store for 1,000 entries.
const TRIPS_MAX: f64 = 1.0;

impl Stage<'_> {
    /// Measures `ls -lR` of directories of 1,000 files. Ashlar restarts before each listing.
    pub(super) fn listing(&mut self) -> Result<Vec<FileFigure>> {
        let progress = Rc::clone(&self.progress);
        let files = self.amounts.listed;
        let running = progress.begin(&format!("ls -lR of {files} files"));
        self.fill()?;
        let (mut seconds, mut trips, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            self.start_ashlar()?;
            // A gateway sends requests in the background, such as the renewal of its session.
            let idle = self.sample(1, |stage| stage.stop.sleep(IDLE).map(|()| IDLE))?;
            let sample = self.sample(files, Self::list)?;
            let took = number(files) / sample.rate;
            // Requests in the background do not belong to the listing.
            let asked = sample.trips * number(files) - idle.trips * took / IDLE.as_secs_f64();
            seconds.push(took);
            trips.push(asked.max(0.0) * 1e3 / number(files));
            samples.push(sample);
        }
        let mut cost = cost(&samples);
        // Requests are counted in one more listing, because counting slows down a timed one. Ashlar
        // restarts first, so that the listing is cold like the others.
        self.start_ashlar()?;
        let requests = self.counted(self.ashlar()?.mount.device()?, Self::list)?.1;
        cost.requests = requests.map(|it| (it.each(files), it.kinds(files)));
        let figure = FileFigure {
            name: format!("{LIST}, {files} files"),
            beside: None,
            ours: median(seconds),
            unit: "s",
            more_is_better: false,
            target: Target::Nothing,
            cost: Some(cost),
        };
        let trips = FileFigure {
            name: TRIPS.to_owned(),
            ours: median(trips),
            unit: "",
            target: Target::AtMost(TRIPS_MAX),
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

    /// Creates the directories and empty files. A listing does not depend on the content of files.
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

    /// Lists the tree, and returns the time.
    fn list(&self) -> Result<Duration> {
        let mut ls = Command::new("ls");
        ls.arg("-lR").arg(self.ashlar()?.root().join("listed"));
        self.program(ls)
    }
}
