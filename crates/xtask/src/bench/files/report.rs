//! The tables of one engine in Markdown, which `docs/BENCHMARKS.md` quotes.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use super::figure::FileFigure;
use super::stage::Stage;
use crate::engines::Engine;

impl Stage<'_> {
    /// Prints the tables, and returns the figures as JSON.
    pub(super) fn report(&self, figures: &[FileFigure]) -> Result<Value> {
        let (engine, rounds) = (self.engine, self.options.rounds);
        let fsync = (engine == Engine::Redis).then(|| self.options.redis_fsync.name());
        let synced = fsync.map_or_else(String::new, |when| format!(" (appendfsync {when})"));
        let blocks = if self.minio.is_some() { "MinIO" } else { "a folder" };
        let mut text = format!(
            "\n## Files: {}{synced}, with blocks in {blocks}\n\nMedians of {rounds} interleaved \
             rounds. A ratio above 1 means that Ashlar is better.\n\n",
            engine.name()
        );
        let mut line = |words: &str| writeln!(text, "{words}");
        line(FileFigure::titles())?;
        figures.iter().try_for_each(|figure| line(&figure.row()))?;
        line("")?;
        line(FileFigure::cost_titles())?;
        figures.iter().filter_map(FileFigure::cost_row).try_for_each(|row| line(&row))?;
        // Without this sentence, a reader would compare times for different amounts of work.
        if Self::unpacks_fewer(figures) {
            let (few, all) = (self.amounts.unpacked_few, self.amounts.unpacked);
            line(&format!(
                "\ns3fs-fuse unpacked {few} files instead of {all}; the ratio compares rates."
            ))?;
        }
        if !self.remarks.is_empty() {
            line("\nLeft out:\n")?;
            self.remarks.iter().try_for_each(|remark| line(&format!("- {remark}")))?;
        }
        println!("{text}");
        let figures: Vec<Value> = figures.iter().map(FileFigure::json).collect();
        Ok(json!({
            "engine": engine.name(),
            "redis_fsync": fsync,
            "rounds": rounds,
            "quick": self.options.quick,
            "figures": figures,
            "left_out": self.remarks,
        }))
    }

    /// Returns true if a figure compares with s3fs-fuse, which unpacks fewer files.
    fn unpacks_fewer(figures: &[FileFigure]) -> bool {
        figures.iter().any(|it| it.beside.is_some_and(|beside| beside.name == "s3fs-fuse"))
    }
}
