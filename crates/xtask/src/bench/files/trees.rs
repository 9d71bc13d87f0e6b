//! Trees of small files. Unpacking is compared with s3fs-fuse; cloning, copying and removing are
//! compared with a local folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use load::{PACKAGE_FILES, median, package_folder, plant};

use super::super::rows::Wanted;
use super::figure::{Beside, FileFigure, Target};
use super::sides::{Other, S3FS_BUCKET};
use super::stage::{Sample, Stage, cost, make_folder, number, rate};
use crate::progress::Mark;

/// The seed of contents. It is fixed, so every run does the same work.
const SEED: u64 = 0x00A5_41A4;

// The names of the rows.
pub(super) const UNPACK: &str = "untar, beside s3fs-fuse";
pub(super) const UNPACK_RATE: &str = "untar, files a second";
pub(super) const CLONE: &str = "git clone";
pub(super) const COPY: &str = "copy of a tree";
pub(super) const REMOVE: &str = "rm -r of a tree";

/// The target ratio of the rate of unpacking to that of s3fs-fuse.
const UNPACK_TIMES: Wanted = Wanted { must: 20.0, goal: 50.0 };
/// The target rate of unpacking, in files a second.
const UNPACK_FILES: Wanted = Wanted { must: 1_500.0, goal: 4_000.0 };
/// The target ratio of the rates of clones, copies and removals to those of a local folder.
const LOCAL: Wanted = Wanted { must: 0.25, goal: 0.5 };

/// The steps with a tree, in their order.
const STEPS: [Step; 3] = [Step::Clone, Step::Copy, Step::Remove];

#[derive(Clone, Copy, Debug)]
enum Step {
    Clone,
    Copy,
    Remove,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Clone => CLONE,
            Self::Copy => COPY,
            Self::Remove => REMOVE,
        }
    }
}

/// The sources of trees.
struct Sources {
    /// A folder with packages.
    tree: PathBuf,
    /// A Git repository with one commit of the packages.
    repository: PathBuf,
}

impl Stage<'_> {
    /// Measures tar unpacking an archive. s3fs-fuse unpacks a smaller one, because its rate does
    /// not depend on the number of files.
    pub(super) fn unpack(&mut self) -> Result<Vec<FileFigure>> {
        let progress = Rc::clone(&self.progress);
        let files = self.amounts.unpacked;
        let running = progress.begin(&format!("untar of {files} files"));
        let [whole, few] = self.archives()?;
        let s3fs = self.s3fs()?;
        let (mut there, mut ours) = (Vec::new(), Vec::new());
        for round in 0..self.options.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                self.settle()?;
                match (side, &s3fs) {
                    (0, Some(s3fs)) => {
                        let folder = s3fs.mount.folder().join(format!("untar-{round}"));
                        let took = self.untar(&few, &folder)?;
                        there.push(number(self.amounts.unpacked_few) / took.as_secs_f64());
                    }
                    // Without s3fs-fuse, only Ashlar is measured.
                    (0, None) => {}
                    _ => {
                        let folder = self.ashlar()?.root().join(format!("untar-{round}"));
                        ours.push(self.sample(files, |stage| stage.untar(&whole, &folder))?);
                    }
                }
            }
        }
        let mut cost = cost(&ours);
        let (device, root) = (self.ashlar()?.mount.device()?, self.ashlar()?.root());
        // Requests are counted in one more pass, because counting slows down a timed one.
        let requests = self.counted(device, |it| it.untar(&few, &root.join("untar-counted")))?.1;
        let few_files = self.amounts.unpacked_few;
        cost.requests = requests.map(|it| (it.each(few_files), it.kinds(few_files)));
        for folder in (0..self.options.rounds).map(|round| format!("untar-{round}")) {
            self.remove_tree(&root.join(folder))?;
        }
        self.remove_tree(&root.join("untar-counted"))?;
        let figure = FileFigure {
            name: format!("{UNPACK}, {files} files"),
            beside: s3fs.map(|_| Beside { name: "s3fs-fuse", value: median(there) }),
            ours: rate(&ours),
            unit: "/s",
            more_is_better: true,
            target: Target::Ratio(UNPACK_TIMES),
            cost: Some(cost),
        };
        let rate = FileFigure {
            name: UNPACK_RATE.to_owned(),
            beside: None,
            target: Target::AtLeast(UNPACK_FILES),
            cost: None,
            ..figure
        };
        running.end(Mark::Passed, &figure.sides());
        // Without s3fs-fuse, both figures have the same value, so one row is enough.
        Ok(if figure.beside.is_some() {
            vec![figure, rate]
        } else {
            vec![FileFigure { cost: figure.cost, ..rate }]
        })
    }

    /// Starts s3fs-fuse on MinIO. Returns `None` if s3fs-fuse is not installed or if MinIO does not
    /// run.
    fn s3fs(&mut self) -> Result<Option<Other>> {
        let Some(minio) = &self.minio else {
            let name = self.engine.name();
            self.remarks.push(format!("{UNPACK}: with {name} blocks are in a folder"));
            return Ok(None);
        };
        let Some(program) = &self.programs.s3fs else {
            self.remarks
                .push(format!("{UNPACK}: s3fs-fuse is not installed (apt-get install s3fs)"));
            return Ok(None);
        };
        minio.make_bucket(&self.programs.mc, &self.folder, S3FS_BUCKET)?;
        Other::s3fs(program, minio, &self.folder, self.stop).map(Some)
    }

    /// Creates an archive with all files, and one with some of them.
    fn archives(&self) -> Result<[PathBuf; 2]> {
        let tree = self.folder.join("packages");
        plant(&tree, self.amounts.unpacked, SEED)?;
        let archives = [self.amounts.unpacked, self.amounts.unpacked_few].map(|files| {
            let archive = self.folder.join(format!("packages-{files}.tar"));
            let packages = (0..files / PACKAGE_FILES).map(|it| package_folder(Path::new(""), it));
            let mut tar = Command::new("tar");
            tar.arg("-cf").arg(&archive).arg("-C").arg(&tree).args(packages);
            self.program(tar).map(|_| archive)
        });
        std::fs::remove_dir_all(&tree)?;
        let [whole, few] = archives;
        Ok([whole?, few?])
    }

    /// Unpacks an archive into a new folder, and returns the time of tar.
    fn untar(&self, archive: &Path, folder: &Path) -> Result<Duration> {
        let made = folder.to_owned();
        self.work(move |_| make_folder(&made))?;
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(archive).arg("-C").arg(folder);
        self.program(tar)
    }

    fn remove_tree(&self, folder: &Path) -> Result<Duration> {
        let mut rm = Command::new("rm");
        rm.arg("-r").arg(folder);
        self.program(rm)
    }

    /// Measures cloning a repository, and copying and removing a tree, compared with a local
    /// folder. The repository and the tree are in a local folder, too.
    pub(super) fn trees(&mut self) -> Result<Vec<FileFigure>> {
        let progress = Rc::clone(&self.progress);
        let files = self.amounts.cloned;
        let running = progress.begin(&format!("trees of {files} files"));
        let sources = self.sources()?;
        let roots = [self.folder.join("local"), self.ashlar()?.root()];
        std::fs::create_dir(&roots[0])?;
        let mut samples: [[Vec<Sample>; STEPS.len()]; 2] = Default::default();
        for round in 0..self.options.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                for (step, all) in STEPS.into_iter().zip(&mut samples[side]) {
                    self.settle()?;
                    all.push(self.sample(files, |stage| stage.step(step, &sources, &roots[side]))?);
                }
                // The next round clones again, and `git clone` needs a folder that does not exist.
                self.remove_tree(&roots[side].join("clone"))?;
            }
        }
        let mut figures = Vec::new();
        for (number, step) in STEPS.into_iter().enumerate() {
            let mut cost = cost(&samples[1][number]);
            let device = self.ashlar()?.mount.device()?;
            let requests = self.counted(device, |it| it.step(step, &sources, &roots[1]))?.1;
            cost.requests = requests.map(|it| (it.each(files), it.kinds(files)));
            let rates = [0, 1].map(|side: usize| rate(&samples[side][number]));
            figures.push(FileFigure {
                name: format!("{}, {files} files", step.name()),
                beside: Some(Beside { name: "local folder", value: rates[0] }),
                ours: rates[1],
                unit: "files/s",
                more_is_better: true,
                target: Target::Ratio(LOCAL),
                cost: Some(cost),
            });
        }
        self.remove_tree(&roots[1].join("clone"))?;
        // Later groups need the disk space.
        for folder in [&sources.tree, &sources.repository, &roots[0]] {
            std::fs::remove_dir_all(folder)?;
        }
        let sides: Vec<String> = figures.iter().map(FileFigure::sides).collect();
        running.end(Mark::Passed, &sides.join("; "));
        Ok(figures)
    }

    fn step(&self, step: Step, sources: &Sources, root: &Path) -> Result<Duration> {
        match step {
            Step::Clone => {
                let mut clone = git();
                let from = format!("file://{}", sources.repository.display());
                clone.args(["clone", "--quiet", &from]).arg(root.join("clone"));
                self.program(clone)
            }
            Step::Copy => {
                let mut copy = Command::new("cp");
                copy.arg("-r").arg(&sources.tree).arg(root.join("copy"));
                self.program(copy)
            }
            Step::Remove => self.remove_tree(&root.join("copy")),
        }
    }

    /// Creates a tree, and a packed repository with one commit of it.
    fn sources(&self) -> Result<Sources> {
        let tree = self.folder.join("packages");
        plant(&tree, self.amounts.cloned, SEED)?;
        let repository = self.folder.join("repository.git");
        let steps: [&[&str]; 4] = [
            &["init", "--quiet"],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "All packages"],
            &["gc", "--quiet"],
        ];
        for words in steps {
            let mut git = git();
            git.args(words).env("GIT_DIR", &repository).env("GIT_WORK_TREE", &tree);
            self.program(git).with_context(|| format!("git {}", words[0]))?;
        }
        Ok(Sources { tree, repository })
    }
}

/// A git command without the settings of the machine and the user, so that every machine does the
/// same.
pub(in crate::bench) fn git() -> Command {
    let mut git = Command::new("git");
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    // A command that changes many objects would start `git gc` in the background, and the next
    // `git gc` would fail.
    git.env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "gc.auto")
        .env("GIT_CONFIG_VALUE_0", "0");
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "bench")
            .env(format!("GIT_{who}_EMAIL"), "bench@localhost");
    }
    git
}
