//! One large file: written and read once with blocks in MinIO, and read again from the cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use load::{copy_file, forget_pages, median, read_file, read_randomly};

use super::super::copies::{path, sha256, write_random};
use super::super::measurement::BUCKET;
use super::super::rows::Wanted;
use super::figure::{Beside, FileFigure, Target};
use super::stage::{Sample, Stage, cost, make_folder, number, rate};
use crate::progress::Mark;
use crate::servers::{ACCESS_KEY, SECRET_KEY};

/// The bucket of direct requests to MinIO.
pub(super) const DIRECT_BUCKET: &str = "direct";

// The targets of copies, of reads from the cache, and of random reads.
const ONCE: Wanted = Wanted { must: 0.9, goal: 1.0 };
const CACHED: Wanted = Wanted { must: 0.7, goal: 0.9 };
const RANDOM: Wanted = Wanted { must: 0.6, goal: 0.9 };

// The names of the rows.
pub(super) const WRITE: &str = "write of a large file";
pub(super) const READ: &str = "cold read of a large file";
pub(super) const READ_CACHED: &str = "read from the cache";
pub(super) const READ_RANDOM: &str = "4 KiB random reads, cached";

impl Stage<'_> {
    /// Measures copies of a file to the mount and back, compared with MinIO's client. Ashlar
    /// restarts before each read, so its caches are empty. For both sides, MinIO's own file is in
    /// the kernel's page cache.
    pub(super) fn large(&mut self) -> Result<Vec<FileFigure>> {
        let progress = Rc::clone(&self.progress);
        let mib = self.amounts.large_mib;
        let running = progress.begin(&format!("copies of {mib} MiB"));
        let source = self.folder.join("source");
        write_random(&source, mib)?;
        let sum = sha256(&source)?;
        let (mut up, mut down): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
        let (mut cost_up, mut cost_down) = (Vec::new(), Vec::new());
        for round in 0..self.options.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            // Each round begins with another side, so that no side always runs first.
            for side in order {
                self.settle()?;
                if side == 0 {
                    let [there, back] = self.direct_copies(&source, &sum)?;
                    up[0].push(there.as_secs_f64());
                    down[0].push(back.as_secs_f64());
                } else {
                    let [there, back] = self.our_copies(&source, &sum)?;
                    up[1].push(number(mib) / there.rate);
                    down[1].push(number(mib) / back.rate);
                    cost_up.push(there);
                    cost_down.push(back);
                }
            }
        }
        // The file is no longer needed, and the next groups need the disk space.
        std::fs::remove_file(&source)?;
        let figure = |name: &str, [there, ours]: [Vec<f64>; 2], samples: &[Sample]| FileFigure {
            name: format!("{name}, {mib} MiB"),
            beside: Some(Beside { name: "mc cp", value: number(mib) / median(there) }),
            ours: number(mib) / median(ours),
            unit: "MiB/s",
            more_is_better: true,
            target: Target::Ratio(ONCE),
            cost: Some(cost(samples)),
        };
        let figures = [figure(WRITE, up, &cost_up), figure(READ, down, &cost_down)];
        running.end(Mark::Passed, &figures.each_ref().map(FileFigure::sides).join("; "));
        Ok(figures.into())
    }

    /// Copies the file to MinIO and back, and returns both times.
    fn direct_copies(&self, source: &Path, sum: &str) -> Result<[Duration; 2]> {
        let minio = self.minio.as_ref().context("this row needs MinIO")?;
        let (object, back) = (format!("s/{DIRECT_BUCKET}/copy"), self.folder.join("back"));
        self.mc(&["alias", "set", "s", &minio.endpoint, ACCESS_KEY, SECRET_KEY])?;
        let up = self.mc(&["cp", "--quiet", path(source)?, &object])?;
        self.settle()?;
        let down = self.mc(&["cp", "--quiet", &object, path(&back)?])?;
        check(&back, sum)?;
        self.mc(&["rm", "--quiet", &object])?;
        Ok([up, down])
    }

    /// Runs MinIO's client, and returns the time that it took.
    fn mc(&self, arguments: &[&str]) -> Result<Duration> {
        let mut command = Command::new(&self.programs.mc);
        command.arg("--config-dir").arg(self.folder.join("mc")).args(arguments);
        self.program(command)
    }

    /// Copies the file to the mount and back.
    fn our_copies(&mut self, source: &Path, sum: &str) -> Result<[Sample; 2]> {
        let (mib, back) = (self.amounts.large_mib, self.folder.join("back"));
        let (from, to) = (source.to_owned(), self.ashlar()?.root().join("large"));
        let up =
            self.sample(mib, |stage| stage.work(move |gauge| copy_file(&from, &to, true, gauge)))?;
        self.start_ashlar()?;
        self.settle()?;
        let (from, to) = (self.ashlar()?.root().join("large"), back.clone());
        let down =
            self.sample(mib, |stage| stage.work(move |gauge| copy_file(&from, &to, false, gauge)))?;
        check(&back, sum)?;
        self.remove_file(self.ashlar()?.root().join("large"))?;
        Ok([up, down])
    }

    fn remove_file(&self, path: PathBuf) -> Result<()> {
        self.work(move |_| {
            std::fs::remove_file(&path).map_err(|source| load::Trouble::System {
                doing: format!("remove {}", path.display()),
                source,
            })
        })
    }

    /// Measures reads from Ashlar's cache, compared with the null file system: from the beginning
    /// to the end, and at random offsets. The kernel's pages of the file are dropped before each
    /// read.
    pub(super) fn cached(&mut self) -> Result<Vec<FileFigure>> {
        let progress = Rc::clone(&self.progress);
        let mib = self.amounts.cached_mib;
        let running = progress.begin(&format!("reads of {mib} MiB from the cache"));
        let source = self.folder.join("source");
        write_random(&source, mib)?;
        let files = [self.null.mount.folder().join(BUCKET), self.ashlar()?.root()];
        let files = files.map(|root| root.join("cached"));
        for file in &files {
            let (from, to) = (source.clone(), file.clone());
            self.work(move |gauge| {
                make_folder(to.parent().unwrap_or(&to))?;
                copy_file(&from, &to, true, gauge)?;
                // This first read fills the cache of Ashlar, so the measured reads do not read
                // blocks.
                forget_pages(&to)?;
                read_file(&to, gauge)
            })?;
        }
        std::fs::remove_file(&source)?;
        let (mut there, mut ours): ([Vec<f64>; 2], [Vec<Sample>; 2]) = Default::default();
        for round in 0..self.options.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                for (way, reads) in Way::ALL.into_iter().enumerate() {
                    let operations = reads.operations(self);
                    let sample = self.sample(operations, |stage| {
                        stage.read_again(files[side].clone(), reads, round)
                    })?;
                    if side == 0 { there[way].push(sample.rate) } else { ours[way].push(sample) }
                }
            }
        }
        let mut figures = Vec::new();
        for (way, reads) in Way::ALL.into_iter().enumerate() {
            let mut cost = cost(&ours[way]);
            let device = self.ashlar()?.mount.device()?;
            // Requests are counted in one more pass, because counting slows down a timed one.
            let again = |stage: &Self| stage.read_again(files[1].clone(), reads, 99);
            let operations = reads.operations(self);
            let requests = self.counted(device, again)?.1;
            cost.requests = requests.map(|it| (it.each(operations), it.kinds(operations)));
            figures.push(FileFigure {
                name: reads.name(mib),
                beside: Some(Beside { name: "null", value: median(there[way].clone()) }),
                ours: rate(&ours[way]),
                unit: reads.unit(),
                more_is_better: true,
                target: Target::Ratio(reads.wanted()),
                cost: Some(cost),
            });
        }
        for file in files {
            self.remove_file(file)?;
        }
        let sides: Vec<String> = figures.iter().map(FileFigure::sides).collect();
        running.end(Mark::Passed, &sides.join("; "));
        Ok(figures)
    }

    /// Drops the pages of the file from the kernel's page cache and reads it, so that the file
    /// system answers each read. Returns the time of the reads. `seed` gives the order of random
    /// reads.
    fn read_again(&self, path: PathBuf, way: Way, seed: u32) -> Result<Duration> {
        let reads = self.amounts.random_reads;
        self.work(move |gauge| {
            forget_pages(&path)?;
            match way {
                Way::Through => read_file(&path, gauge),
                Way::Random => Ok(read_randomly(&path, reads, u64::from(seed), gauge)?.took),
            }
        })
    }
}

/// A way to read a file.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// From the beginning to the end.
    Through,
    /// In pieces of 4 KiB at random offsets.
    Random,
}

impl Way {
    const ALL: [Self; 2] = [Self::Through, Self::Random];

    fn name(self, mib: u64) -> String {
        match self {
            Self::Through => format!("{READ_CACHED}, {mib} MiB"),
            Self::Random => READ_RANDOM.to_owned(),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Through => "MiB/s",
            Self::Random => "/s",
        }
    }

    fn wanted(self) -> Wanted {
        match self {
            Self::Through => CACHED,
            Self::Random => RANDOM,
        }
    }

    /// The number of operations of this way to read: MiB for `Through`, reads of 4 KiB for
    /// `Random`.
    fn operations(self, stage: &Stage<'_>) -> u64 {
        match self {
            Self::Through => stage.amounts.cached_mib,
            Self::Random => stage.amounts.random_reads as u64,
        }
    }
}

/// Fails if the SHA-256 of the copied file is not `sum`. Removes the copy.
fn check(back: &Path, sum: &str) -> Result<()> {
    ensure!(back.exists(), "the copy does not exist");
    if sha256(back)? != sum {
        bail!("the copy differs from the file");
    }
    Ok(std::fs::remove_file(back)?)
}
