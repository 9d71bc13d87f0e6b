//! The option `deletion_grace`: the time for which freed blocks are kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `auto`, or a time such as `10s`, `5m` or `1h 30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grace {
    /// The time that the durability of the metadata store requires.
    #[default]
    Auto,
    /// The operator's choice.
    For(Duration),
}

impl Grace {
    /// Returns the time that the operator has chosen, or `None` for `auto`.
    pub(crate) fn given(self) -> Option<Duration> {
        match self {
            Grace::Auto => None,
            Grace::For(time) => Some(time),
        }
    }
}

impl FromStr for Grace {
    type Err = String;

    fn from_str(text: &str) -> Result<Grace, String> {
        if text == "auto" {
            return Ok(Grace::Auto);
        }
        let wrong = |_| format!("{text:?} is neither auto nor a time such as 10s or 5m");
        humantime::parse_duration(text).map(Grace::For).map_err(wrong)
    }
}

impl fmt::Display for Grace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grace::Auto => f.write_str("auto"),
            Grace::For(time) => humantime::format_duration(*time).fmt(f),
        }
    }
}

impl Serialize for Grace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Grace, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
