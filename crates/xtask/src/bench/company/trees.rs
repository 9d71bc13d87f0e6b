//! Work on files of a mount that has its volume alone, and of one beside an idle gateway and an
//! idle mount.
//!
//! The places take each step in turn before the next step begins, and each step begins at another
//! place. For example, `git status` runs on the mount in company after `git commit` has ended on
//! both mounts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use load::{EntryVerb, SmallFiles, plant_directories};
use serde_json::{Value, json};

use super::super::files::stage::make_folder;
use super::super::files::trees::git;
use super::super::loads::SEED;
use super::super::options::Options;
use super::budget::{Budget, ROUNDS_TIME_MAX};
use super::figure::{CompanyFigure, Sample};
use super::ground::Ground;
use super::mounts::{Mounts, Place};
use super::report::print;
use super::wheels::Wheels;
use crate::progress::Mark;
use crate::workspace::which;

/// The number of directories of the tree, and of files in each of them, in a full run and with
/// `--quick`.
const TREE: (u64, u64) = (40, 100);
const QUICK_TREE: (u64, u64) = (4, 100);

/// A piece of work. The later ones need the files of the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Unlink,
    Unpack,
    Commit,
    Status,
    ListCold,
    ListAgain,
    Modes,
    Copy,
    Remove,
    Sync,
    Environment,
}

impl Step {
    /// All steps, in their order.
    const ALL: [Self; 12] = [
        Self::Create,
        Self::Unlink,
        Self::Unpack,
        Self::Commit,
        Self::Status,
        Self::ListCold,
        Self::ListAgain,
        Self::Modes,
        Self::Copy,
        Self::Remove,
        Self::Sync,
        Self::Environment,
    ];

    /// The name of the row.
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create and close",
            Self::Unlink => "unlink",
            Self::Unpack => "untar",
            Self::Commit => "git add and commit",
            Self::Status => "git status",
            Self::ListCold => "ls -lR, cold",
            Self::ListAgain => "ls -lR, again",
            Self::Modes => "chmod -R",
            Self::Copy => "cp -r",
            Self::Remove => "rm -rf",
            Self::Sync => "rsync -a",
            Self::Environment => "venv and pip install",
        }
    }

    /// The steps that must run before this one in a round.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Create | Self::Unpack | Self::Sync | Self::Environment => &[],
            Self::Unlink => &[Self::Create],
            Self::Commit | Self::ListCold | Self::Modes | Self::Copy => &[Self::Unpack],
            Self::Status => &[Self::Unpack, Self::Commit],
            Self::ListAgain => &[Self::Unpack, Self::ListCold],
            Self::Remove => &[Self::Unpack, Self::Copy],
        }
    }

    /// Returns true if the step is measured on the null file system, too. That one cannot be cold,
    /// and Python takes most of the time of its environment, so the result would say little.
    fn runs_on_null(self) -> bool {
        !matches!(self, Self::ListCold | Self::Environment)
    }

    /// The program that the step needs and that not each machine has.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::Commit | Self::Status => Some("git"),
            Self::Sync => Some("rsync"),
            Self::Environment => Some("python3"),
            Self::Create
            | Self::Unlink
            | Self::Unpack
            | Self::ListCold
            | Self::ListAgain
            | Self::Modes
            | Self::Copy
            | Self::Remove => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Returns the steps that the user wants and those that they need.
fn steps(options: &Options) -> Vec<Step> {
    let wanted = |step: Step| options.wants(step.name());
    let needed = |step: &Step| {
        wanted(*step) || Step::ALL.into_iter().any(|it| wanted(it) && it.needs().contains(step))
    };
    Step::ALL.into_iter().filter(needed).collect()
}

/// Returns the places of a step in their order, which changes from step to step and from round to
/// round. `index` is the number of the step. The null file system is measured in the first round
/// only: it shows the size of a result and is not compared.
fn places(round: u32, index: usize, step: Step) -> Vec<Place> {
    let swapped = (usize::try_from(round).unwrap_or(0) + index) % 2 == 1;
    let mut places = vec![Place::Alone, Place::Company];
    if swapped {
        places.reverse();
    }
    places.extend((round == 0 && step.runs_on_null()).then_some(Place::Null));
    places
}

/// The local sources of the work.
struct Sources {
    /// The tree, and an archive of it.
    tree: PathBuf,
    archive: PathBuf,
    /// `None` if the step is left out.
    wheels: Option<Wheels>,
}

/// The measurement over one engine.
struct Work<'a> {
    ground: &'a Ground<'a>,
    mounts: Mounts<'a>,
    sources: Sources,
    /// The number of files of the tree.
    files: u64,
    /// The steps, each with its results: alone, in company, and that of the null file system.
    steps: Vec<(Step, [Vec<Sample>; 2], Option<f64>)>,
    remarks: Vec<String>,
}

/// Measures all rows that the user wants, prints the tables, and returns the figures as JSON.
pub(super) fn measure(ground: &Ground<'_>, null: &Path) -> Result<Value> {
    let options = ground.options;
    let steps = steps(options);
    if steps.is_empty() {
        bail!("no row has a name that contains {}", options.only.join(" or "));
    }
    let mut work = Work::begin(ground, null, steps)?;
    let mut budget = Budget::begin(Instant::now(), ROUNDS_TIME_MAX, options.rounds);
    while let Some(round) = budget.next(Instant::now()) {
        work.round(round, &budget)?;
    }
    let Work { mounts, files, mut steps, mut remarks, .. } = work;
    mounts.end()?;
    let rounds = budget.rounds();
    steps.retain(|(step, ..)| options.wants(step.name()));
    let (steps, late): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|(_, [_, company], _)| !company.is_empty());
    let limit = ROUNDS_TIME_MAX.as_secs();
    remarks.extend(late.iter().map(|(step, ..)| format!("{step}: no time was left of {limit} s")));
    let figures: Vec<CompanyFigure> = steps.into_iter().map(figure).collect();
    let remark = format!(
        "Medians of {rounds} interleaved rounds; {files} files in the tree. Idle peers are a \
         gateway and a mount. Costs are those of one file, and of the whole for venv and pip."
    );
    print(ground, "Files", &remark, &figures);
    for remark in &remarks {
        println!("Left out: {remark}\n");
    }
    let figures: Vec<Value> = figures.iter().map(CompanyFigure::json).collect();
    Ok(json!({
        "engine": ground.engine.name(),
        "redis_fsync": options.redis_fsync.name(),
        "rounds": rounds,
        "files": files,
        "figures": figures,
        "left_out": remarks,
    }))
}

fn figure((step, [alone, company], null): (Step, [Vec<Sample>; 2], Option<f64>)) -> CompanyFigure {
    CompanyFigure {
        name: step.name().to_owned(),
        unit: "s",
        more_is_better: false,
        states: vec![("alone", alone), ("beside idle peers", company)],
        wanted: None,
        null,
    }
}

impl<'a> Work<'a> {
    /// Creates the sources, and starts all processes. Leaves out the steps whose programs are not
    /// installed.
    fn begin(ground: &'a Ground<'a>, null: &Path, mut steps: Vec<Step>) -> Result<Self> {
        let mut remarks = Vec::new();
        steps.retain(|step| {
            let missing = step.program().filter(|program| which(program).is_none());
            remarks.extend(missing.map(|program| format!("{step}: {program} is not installed")));
            missing.is_none()
        });
        let mut wheels = None;
        if steps.contains(&Step::Environment) {
            match Wheels::make(&ground.folder.join("wheels")) {
                Ok(made) => wheels = Some(made),
                Err(error) => {
                    remarks.push(format!("{}: {error:#}", Step::Environment));
                    steps.retain(|step| *step != Step::Environment);
                }
            }
        }
        let (directories, files) = if ground.options.quick { QUICK_TREE } else { TREE };
        let tree = ground.folder.join("tree");
        plant_directories(&tree, directories, files, SEED)?;
        let archive = ground.folder.join("tree.tar");
        let mounts = Mounts::begin(ground, null)?;
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&archive).arg("-C").arg(&tree).arg(".");
        mounts.program(tar)?;
        let sources = Sources { tree, archive, wheels };
        let files = directories * files;
        let steps = steps.into_iter().map(|step| (step, Default::default(), None)).collect();
        Ok(Self { ground, mounts, sources, files, steps, remarks })
    }

    /// Measures each step once at each place, as far as there is time.
    fn round(&mut self, round: u32, budget: &Budget) -> Result<()> {
        let progress = Rc::clone(self.ground.progress);
        let running = progress.begin(&format!("round {}", round + 1));
        for index in 0..self.steps.len() {
            // A step is measured at both places or at none, so that each round of it has a share.
            if budget.is_over(Instant::now()) {
                break;
            }
            let step = self.steps[index].0;
            for place in places(round, index, step) {
                running.show(&format!("round {}, {step}", round + 1));
                let measured = self.measured(step, place, round);
                let sample = measured.with_context(|| format!("{step}, {place:?}"))?;
                match place {
                    Place::Null => self.steps[index].2 = Some(sample.value),
                    Place::Alone => self.steps[index].1[0].push(sample),
                    Place::Company => self.steps[index].1[1].push(sample),
                }
            }
        }
        running.end(Mark::Passed, "");
        Ok(())
    }

    /// Measures a step at a place, and returns its seconds and its costs for one file.
    fn measured(&mut self, step: Step, place: Place, round: u32) -> Result<Sample> {
        self.prepare(step, place, round)?;
        self.mounts.calm()?;
        let before = self.mounts.spent(place)?;
        let seconds = self.act(step, place, round)?.as_secs_f64();
        let after = self.mounts.spent(place)?;
        let operations = if step == Step::Environment { 1 } else { self.files };
        Ok(match after.zip(before) {
            Some((after, before)) => after.sample(before, operations, seconds),
            None => Sample { value: seconds, ..Sample::default() },
        })
    }

    /// The folder of a round at a place.
    fn folder(&self, place: Place, round: u32) -> Result<PathBuf> {
        Ok(self.mounts.root(place)?.join(format!("round-{round}")))
    }

    /// Does the part of a step that is not measured.
    fn prepare(&mut self, step: Step, place: Place, round: u32) -> Result<()> {
        let folder = self.folder(place, round)?;
        let made = folder.clone();
        self.mounts.work(move |_| make_folder(&made))?;
        match step {
            Step::Create => {
                let files = self.files;
                let small = self.mounts.work(move |_| SmallFiles::make(&folder, 1, files))?;
                self.mounts.small[place as usize] = Some(Arc::new(small));
            }
            Step::Unpack => self.mounts.work(move |_| make_folder(&folder.join("tree")))?,
            Step::Commit => {
                self.mounts.program(repository(&folder, &["init", "--quiet"]))?;
            }
            Step::ListCold => self.mounts.restart(place)?,
            Step::Unlink
            | Step::Status
            | Step::ListAgain
            | Step::Modes
            | Step::Copy
            | Step::Remove
            | Step::Sync
            | Step::Environment => {}
        }
        Ok(())
    }

    /// Does the measured part of a step, and returns its time.
    fn act(&mut self, step: Step, place: Place, round: u32) -> Result<Duration> {
        let folder = self.folder(place, round)?;
        let [tree, copy] = ["tree", "copy"].map(|name| folder.join(name));
        let program = |words: &[&str], paths: &[&Path]| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).args(paths);
            self.mounts.program(command)
        };
        match step {
            Step::Create | Step::Unlink => {
                let verb = if step == Step::Create { EntryVerb::Create } else { EntryVerb::Unlink };
                let small = self.mounts.small[place as usize].clone();
                let small = small.context("the small files were not created")?;
                let pass = move |gauge: &_| small.pass(verb, Duration::ZERO, gauge);
                Ok(self.mounts.work(pass)?.took)
            }
            Step::Unpack => {
                program(&["tar", "-xf"], &[&self.sources.archive, Path::new("-C"), &tree])
            }
            Step::Commit => {
                let add = self.mounts.program(repository(&folder, &["add", "--all"]))?;
                let words = ["commit", "--quiet", "--message", "All files"];
                Ok(add + self.mounts.program(repository(&folder, &words))?)
            }
            Step::Status => self.mounts.program(repository(&folder, &["status", "--short"])),
            Step::ListCold | Step::ListAgain => program(&["ls", "-lR"], &[&tree]),
            Step::Modes => program(&["chmod", "-R", "go-r"], &[&tree]),
            Step::Copy => program(&["cp", "-r"], &[&tree, &copy]),
            Step::Remove => program(&["rm", "-rf"], &[&copy]),
            Step::Sync => program(&["rsync", "-a"], &[&self.sources.tree, &folder.join("synced")]),
            Step::Environment => {
                let wheels = self.sources.wheels.as_ref().context("there are no packages")?;
                let [create, install] = wheels.commands(&folder.join("environment"));
                Ok(self.mounts.program(create)? + self.mounts.program(install)?)
            }
        }
    }
}

/// Returns a git command whose repository is beside the tree, so that listings of the tree do not
/// include it.
fn repository(folder: &Path, words: &[&str]) -> Command {
    let mut git = git();
    git.args(words);
    git.env("GIT_DIR", folder.join("repository")).env("GIT_WORK_TREE", folder.join("tree"));
    git
}

const _: () = assert!(TREE.0 * TREE.1 == 4_000, "docs/BENCHMARKS.md names the number of files");

#[cfg(test)]
mod tests;
