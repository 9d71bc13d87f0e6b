//! One large file that MinIO's client copies up and down, as a user does with `mc cp`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use load::median;

use super::figure::Figure;
use super::measurement::{BUCKET, Bench};
use super::meter;
use super::rows::Wanted;
use crate::child::{Child, tail};
use crate::progress::Mark;
use crate::servers::{ACCESS_KEY, SECRET_KEY, Server};
use crate::workspace::stdout;

/// The time limit of one copy.
const COPY_LIMIT: Duration = Duration::from_mins(30);

impl Bench<'_> {
    /// Measures copies of one large file to both sides and back. Fails if a copy differs from the
    /// file.
    pub(super) fn copies(&mut self) -> Result<Vec<Figure>> {
        let mib = if self.options.quick { self.copy.min(256) } else { self.copy };
        let source = self.folder.join("source");
        write_random(&source, mib)?;
        let sum = sha256(&source)?;
        let mut times: [[Vec<f64>; 2]; 2] = Default::default();
        let mut cpu: [Vec<f64>; 2] = Default::default();
        let running = self.progress.begin(&format!("mc cp {mib} MiB"));
        // No later row reads the load's objects, and the disk may be too small for them and the
        // file. The gateway's objects stay, because otherwise it would delete their blocks during
        // the measurement.
        self.runners[0].clean()?;
        for number in 0..self.options.rounds {
            let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                let server = if side == 0 { &self.minio } else { &self.gateway };
                let pid = self.gateway.child.pid();
                let object = format!("s/{BUCKET}/copy");
                // Both sides use the same alias, so it is set again for each copy.
                self.mc(server, &["alias", "set", "s", &server.endpoint, ACCESS_KEY, SECRET_KEY])?;
                let start = meter::cpu_time(pid)?;
                let up = self.mc(server, &["cp", "--quiet", path(&source)?, &object])?;
                let middle = meter::cpu_time(pid)?;
                let back = self.folder.join("back");
                let down = self.mc(server, &["cp", "--quiet", &object, path(&back)?])?;
                if sha256(&back)? != sum {
                    bail!("{} returned a file that differs from the uploaded one", server.endpoint);
                }
                if side == 1 {
                    cpu[0].push(middle.saturating_sub(start).as_secs_f64());
                    cpu[1].push(meter::cpu_time(pid)?.saturating_sub(middle).as_secs_f64());
                }
                std::fs::remove_file(&back)?;
                self.mc(server, &["rm", "--quiet", &object])?;
                times[0][side].push(up.as_secs_f64());
                times[1][side].push(down.as_secs_f64());
            }
        }
        let figures = times.into_iter().zip(cpu).zip(["up", "down"]);
        let figures = figures.map(|(([direct, ours], cpu), way)| Figure {
            name: format!("mc cp {mib} MiB {way}"),
            sides: [median(direct), median(ours)],
            unit: "s",
            more_is_better: false,
            wanted: (way == "up").then_some(Wanted { must: 0.8, goal: 0.95 }),
            cost: None,
            remark: format!("gateway {:.1} s CPU", median(cpu)),
        });
        let figures: Vec<Figure> = figures.collect();
        let sides: Vec<String> = figures.iter().map(Figure::sides).collect();
        running.end(Mark::Passed, &sides.join("; "));
        Ok(figures)
    }

    /// Runs MinIO's client and returns the time that it took.
    fn mc(&self, server: &Server, arguments: &[&str]) -> Result<Duration> {
        self.stop.check()?;
        let mut command = Command::new(&self.programs.mc);
        command.arg("--config-dir").arg(self.folder.join("mc")).args(arguments);
        let log = self.folder.join("mc.log");
        let since = Instant::now();
        let status = Child::spawn(command, "mc", &log)?.wait(self.stop, COPY_LIMIT)?;
        let took = since.elapsed();
        if !status.success() {
            bail!("mc against {}, {status}:\n{}", server.endpoint, tail(&log, 20));
        }
        Ok(took)
    }
}

/// Writes a file of random bytes, so that compression and deduplication save nothing.
pub(super) fn write_random(path: &Path, mib: u64) -> Result<()> {
    let mut file = File::create(path)?;
    std::io::copy(&mut File::open("/dev/urandom")?.take(mib << 20), &mut file)?;
    Ok(file.sync_all()?)
}

/// Returns the SHA-256 of a file in hexadecimal.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let mut command = Command::new("sha256sum");
    command.arg("--").arg(path);
    let line = stdout(command)?;
    Ok(line.split_whitespace().next().context("sha256sum prints a sum")?.to_owned())
}

/// Returns a path as an argument for mc.
pub(super) fn path(path: &Path) -> Result<&str> {
    path.to_str().context("mc takes paths in UTF-8 only")
}
