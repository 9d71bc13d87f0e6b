//! A mount whose worker is killed, replaced and ended while programs work on it, on SQLite and on
//! Redis. Needs root and `/dev/fuse`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "keeper/answers.rs"]
mod answers;
#[path = "keeper/away.rs"]
mod away;
#[path = "keeper/calls.rs"]
mod calls;
#[path = "keeper/ending.rs"]
mod ending;
#[path = "keeper/full.rs"]
mod full;
#[path = "keeper/kept.rs"]
mod kept;
#[path = "keeper/logs.rs"]
mod logs;
#[path = "keeper/programs.rs"]
mod programs;
#[path = "keeper/questions.rs"]
mod questions;
#[path = "keeper/reads.rs"]
mod reads;
#[path = "keeper/several.rs"]
mod several;
#[path = "keeper/shown.rs"]
mod shown;
