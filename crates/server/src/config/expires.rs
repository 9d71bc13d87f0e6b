//! The end of an access key: a time, or a time from now.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use record::Timestamp;

/// The end of an access key: `30d` from now, `2027-01-31T00:00:00Z`, or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expires {
    /// The key does not expire.
    Never,
    /// The key expires after this time.
    In(Duration),
    /// The key expires at this time.
    At(SystemTime),
}

impl Expires {
    /// Returns the time of the end, `None` for a key that does not expire. `now` is the current
    /// time. A time that no record can hold is the last one that it can.
    pub(crate) fn at(self, now: Timestamp) -> Option<Timestamp> {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        match self {
            Expires::Never => None,
            Expires::In(time) => Some(Timestamp(now.0.saturating_add(nanos(time)))),
            Expires::At(at) => {
                Some(Timestamp(nanos(at.duration_since(UNIX_EPOCH).unwrap_or_default())))
            }
        }
    }
}

impl FromStr for Expires {
    type Err = String;

    fn from_str(text: &str) -> Result<Expires, String> {
        if text == "never" {
            return Ok(Expires::Never);
        }
        let time = humantime::parse_duration(text).map(Expires::In);
        let at = || humantime::parse_rfc3339_weak(text).map(Expires::At);
        time.or_else(|_| at()).map_err(|_| {
            format!("{text:?} is not a time such as 30d, 2027-01-31T00:00:00Z or never")
        })
    }
}

#[cfg(test)]
mod tests;
