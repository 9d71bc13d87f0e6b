//! Operations on small files: create, stat, open and remove, compared with the null file system.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use load::{EntryVerb, Pass, SmallFiles};

use super::super::measurement::BUCKET;
use super::super::rows::Wanted;
use super::figure::{Beside, FileFigure, Target};
use super::requests::Requests;
use super::stage::{Sample, Stage, cost, make_folder, rate};
use crate::progress::Mark;

/// The numbers of threads of the rows.
pub(super) const THREADS: [usize; 2] = [1, 4];

const WANTED: Wanted = Wanted { must: 0.25, goal: 0.5 };

/// The number of files in the pass that counts FUSE requests.
const COUNTED: u64 = 200;

/// Returns the name of a row.
pub(super) fn name(verb: EntryVerb, threads: usize) -> String {
    format!("{verb} ×{threads}")
}

impl Stage<'_> {
    /// Measures all verbs with a number of threads. Rounds alternate between the sides.
    pub(super) fn entries(&mut self, threads: usize) -> Result<Vec<FileFigure>> {
        let progress = Rc::clone(&self.progress);
        let running = progress.begin(&format!("small files ×{threads}"));
        let null = self.null.mount.folder().join(BUCKET);
        let roots = [null, self.ashlar()?.root()];
        let mut there: [Vec<f64>; EntryVerb::ALL.len()] = Default::default();
        let mut ours: [Vec<Sample>; EntryVerb::ALL.len()] = Default::default();
        for round in 0..self.options.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                let round = Round::begin(self, &roots[side], threads, self.amounts.entries)?;
                for (number, verb) in EntryVerb::ALL.into_iter().enumerate() {
                    if side == 0 {
                        there[number].push(round.pass(self, verb, self.options.time())?.rate());
                    } else {
                        ours[number].push(round.sample(self, verb)?);
                    }
                }
                round.end(self)?;
            }
        }
        // The requests for a file do not depend on the number of threads.
        let counted = if threads == 1 { self.count_entries(&roots)? } else { Vec::new() };
        let mut figures = Vec::new();
        for (number, verb) in EntryVerb::ALL.into_iter().enumerate() {
            let mut cost = cost(&ours[number]);
            if let Some([beside, ours]) = counted.get(number) {
                let words = |it: &Requests| (it.each(COUNTED), it.kinds(COUNTED));
                cost.requests_beside = Some(words(beside));
                cost.requests = Some(words(ours));
            }
            figures.push(FileFigure {
                name: name(verb, threads),
                beside: Some(Beside { name: "null", value: load::median(there[number].clone()) }),
                ours: rate(&ours[number]),
                unit: "/s",
                more_is_better: true,
                target: Target::Ratio(WANTED),
                cost: Some(cost),
            });
        }
        let sides = figures.iter().map(|it| format!("{} {}", it.name, it.sides()));
        running.end(Mark::Passed, &sides.collect::<Vec<_>>().join("; "));
        Ok(figures)
    }

    /// Counts the FUSE requests of each verb, for the null file system and for Ashlar. Returns
    /// nothing if the kernel cannot count them.
    fn count_entries(&self, roots: &[PathBuf; 2]) -> Result<Vec<[Requests; 2]>> {
        let devices = [self.null.mount.device()?, self.ashlar()?.mount.device()?];
        let mut all = Vec::new();
        let mut rounds = Vec::new();
        for root in roots {
            rounds.push(Round::begin(self, root, 1, COUNTED)?);
        }
        for verb in EntryVerb::ALL {
            let mut sides = Vec::new();
            for (round, device) in rounds.iter().zip(devices) {
                let pass = |stage: &Self| round.pass(stage, verb, Duration::ZERO);
                sides.extend(self.counted(device, pass)?.1);
            }
            // Without tracing there are no counts, and the table shows none.
            if let Ok(sides) = <[Requests; 2]>::try_from(sides) {
                all.push(sides);
            }
        }
        rounds.into_iter().try_for_each(|round| round.end(self))?;
        Ok(all)
    }
}

/// The folders of small files on one side, for one round.
struct Round {
    entries: Arc<SmallFiles>,
}

impl Round {
    fn begin(stage: &Stage<'_>, root: &Path, threads: usize, files: u64) -> Result<Self> {
        let root = root.to_owned();
        let made = stage.work(move |_| {
            make_folder(&root)?;
            SmallFiles::make(&root, threads, files)
        });
        Ok(Self { entries: Arc::new(made?) })
    }

    fn pass(&self, stage: &Stage<'_>, verb: EntryVerb, time: Duration) -> Result<Pass> {
        let entries = Arc::clone(&self.entries);
        stage.work(move |gauge| entries.pass(verb, time, gauge))
    }

    fn sample(&self, stage: &Stage<'_>, verb: EntryVerb) -> Result<Sample> {
        let before = stage.spent()?;
        let pass = self.pass(stage, verb, stage.options.time())?;
        stage.since(before, pass.calls, pass.took)
    }

    fn end(self, stage: &Stage<'_>) -> Result<()> {
        stage.work(move |_| self.entries.clean())
    }
}
