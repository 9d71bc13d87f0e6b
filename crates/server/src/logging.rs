//! Log lines: to standard error, as text or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, VolumeSettings};
use crate::problem::Problem;

/// Starts the log.
pub(crate) fn start(settings: &VolumeSettings) -> Result<(), Problem> {
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| {
        Problem::new(format!("log at the level {:?}", settings.log), error)
            .remedy("use error, warn, info, debug, trace, or filters such as info,access=debug")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.log_format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    started.map_err(|error| Problem::new("start logging", error))
}
