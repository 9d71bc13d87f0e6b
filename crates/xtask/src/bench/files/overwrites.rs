//! Overwrites of a CSV file by pandas: on a path of the mount, and through the Python library s3fs
//! directly on MinIO.

use std::rc::Rc;

use anyhow::{Context as _, Result};
use load::median;

use super::super::frames::{FrameSide, ROUNDS_FACTOR, middles, program};
use super::super::rows::Wanted;
use super::figure::{Beside, FileFigure, Target};
use super::large::DIRECT_BUCKET;
use super::stage::{Sample, Stage, cost};
use crate::progress::Mark;

/// The name of the row.
pub(super) const OVERWRITE: &str = "pandas CSV overwrite on a path";

const WANTED: Wanted = Wanted { must: 2.0, goal: 3.0 };

impl Stage<'_> {
    /// Measures rounds of overwrites. One process overwrites both sides alternately.
    pub(super) fn overwrites(&mut self) -> Result<FileFigure> {
        let progress = Rc::clone(&self.progress);
        let running = progress.begin(OVERWRITE);
        let minio = self.minio.as_ref().context("this row needs MinIO")?;
        let count = self.amounts.overwrites;
        let path = self.ashlar()?.root().join("frame.csv");
        let direct = FrameSide {
            path: format!("s3://{DIRECT_BUCKET}/frame.csv"),
            endpoint: Some(minio.endpoint.clone()),
        };
        let ours = FrameSide { path: path.display().to_string(), endpoint: None };
        let sides = [direct, ours];
        let (mut times, mut samples): ([Vec<f64>; 2], Vec<Sample>) = Default::default();
        for _ in 0..self.options.rounds * ROUNDS_FACTOR {
            let before = self.spent()?;
            let (took, text) = self.run(program(&self.programs.python, &sides, count))?;
            samples.push(self.since(before, count as u64, took)?);
            let seconds = middles(&text, count)?;
            times.iter_mut().zip(seconds).for_each(|(all, seconds)| all.push(seconds));
        }
        let [there, ours] = times.map(|all| median(all) * 1e3);
        let figure = FileFigure {
            name: OVERWRITE.to_owned(),
            beside: Some(Beside { name: "s3fs on MinIO", value: there }),
            ours,
            unit: "ms",
            more_is_better: false,
            target: Target::Ratio(WANTED),
            cost: Some(cost(&samples)),
        };
        running.end(Mark::Passed, &figure.sides());
        Ok(figure)
    }
}
