//! The log: lines on standard error, as text or as JSON.
//!
//! For example, `--log info,access=debug` adds one line for each request.

use std::fmt;
use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, VolumeSettings};
use problem::Problem;

/// The filter of the log, which can be replaced while the program runs.
pub(crate) struct LogFilter(Replace);

/// A function that replaces the filter. It fails with a reason if the log has ended.
type Replace = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

impl fmt::Debug for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogFilter")
    }
}

impl LogFilter {
    /// Replaces the level in force by a new one, and logs the result. If the new one is invalid,
    /// the previous one stays.
    pub(crate) fn change(&self, level: &mut String, new: String) {
        if *level == new {
            tracing::info!(level = %new, "the log level is unchanged");
            return;
        }
        match self.set(&new) {
            Ok(()) => {
                // A warning, because the new level may hide lines of the level INFO.
                tracing::warn!(before = %level, now = %new, "changed the log level");
                *level = new;
            }
            Err(problem) => {
                tracing::warn!(%problem, level = %level, "cannot change the log level; the previous one stays");
            }
        }
    }

    /// Replaces the level and the filters. Fails if they are invalid; the previous ones stay then.
    fn set(&self, level: &str) -> Result<(), Problem> {
        (self.0)(parse(level)?).map_err(|wrong| Problem::new("change the log level", wrong))
    }
}

/// Starts the log, and returns its filter. Fails if the filter is invalid.
pub(crate) fn start(settings: &VolumeSettings) -> Result<LogFilter, Problem> {
    let filter = parse(&settings.log)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // The two formats have different types, so each has a closure of its own.
    let (replace, started): (Replace, _) = match settings.log_format {
        // Fields are at the top level, where log collectors expect them.
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
            (Box::new(set), lines.try_init())
        }
        LogFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            let lines = lines.with_ansi(is_terminal).with_filter_reloading();
            let handle = lines.reload_handle();
            let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
            (Box::new(set), lines.try_init())
        }
    };
    started.map_err(|error| Problem::new("start the log", error))?;
    Ok(LogFilter(replace))
}

/// Parses a level and filters.
fn parse(level: &str) -> Result<EnvFilter, Problem> {
    let problem = |wrong: &dyn fmt::Display| {
        Problem::new(format!("log at the level {level:?}"), wrong)
            .remedy("use error, warn, info, debug, trace, or filters such as info,access=debug")
    };
    let filter = EnvFilter::try_new(level).map_err(|error| problem(&error))?;
    // The filter's parser takes an unknown level for the name of a target, and would log nothing
    // else.
    match level.split(',').find(|part| is_unknown_level(part)) {
        Some(word) => Err(problem(&format!("{word:?} is not a level"))),
        None => Ok(filter),
    }
}

/// Returns true for a part of a filter that is neither a level nor a filter of a target.
fn is_unknown_level(part: &str) -> bool {
    let part = part.trim();
    let is_filter = part.is_empty() || part.contains(['=', '[', ':']);
    !is_filter && part.parse::<tracing_subscriber::filter::LevelFilter>().is_err()
}
