//! The tables of one engine in Markdown, which `docs/BENCHMARKS.md` quotes.

use super::figure::{self, CompanyFigure};
use super::ground::Ground;
use crate::engines::Engine;

/// Prints the heading and the tables of an engine.
pub(super) fn print(ground: &Ground<'_>, subject: &str, remark: &str, figures: &[CompanyFigure]) {
    let fsync = (ground.engine == Engine::Redis).then(|| ground.options.redis_fsync.name());
    let synced = fsync.map_or_else(String::new, |when| format!(" (appendfsync {when})"));
    println!("\n## {subject} in company: {}{synced}, with blocks in MinIO\n", ground.engine.name());
    println!("{remark} A share is the speed in company divided by the speed alone.\n");
    println!("{}", figure::table(figures));
    println!("{}", figure::cost_table(figures));
}
