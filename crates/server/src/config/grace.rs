//! How long freed blocks are kept, as the operator writes it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `auto`, or a time such as `10s`, `5m` or `1h 30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grace {
    /// As long as the durability of the metadata store requires.
    #[default]
    Auto,
    /// This long.
    For(Duration),
}

impl Grace {
    /// What the operator said, if anything.
    pub(crate) fn said(self) -> Option<Duration> {
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
