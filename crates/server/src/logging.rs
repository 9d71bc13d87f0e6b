//! The log: lines on standard error, as text or as JSON.
//!
//! For example, `--log info,access=debug` adds one line for each request.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, VolumeSettings};
use problem::Problem;

/// Starts the log. Fails if the filter is invalid.
pub(crate) fn start(settings: &VolumeSettings) -> Result<(), Problem> {
    let problem = |wrong: &dyn std::fmt::Display| {
        Problem::new(format!("log at the level {:?}", settings.log), wrong)
            .remedy("use error, warn, info, debug, trace, or filters such as info,access=debug")
    };
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| problem(&error))?;
    // The filter's parser takes an unknown level for the name of a target, and would log nothing
    // else.
    if let Some(word) = settings.log.split(',').find(|part| is_unknown_level(part)) {
        return Err(problem(&format!("{word:?} is not a level")));
    }
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.log_format {
        // Fields are at the top level, where log collectors expect them.
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    started.map_err(|error| Problem::new("start the log", error))
}

/// Returns true for a part of a filter that is neither a level nor a filter of a target.
fn is_unknown_level(part: &str) -> bool {
    let part = part.trim();
    let is_filter = part.is_empty() || part.contains(['=', '[', ':']);
    !is_filter && part.parse::<tracing_subscriber::filter::LevelFilter>().is_err()
}
