//! The options `mount_uid` and `mount_gid`: the owner that files on a mount are shown with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of a user or group, or `own`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The owner of each file.
    Own,
    /// This owner for all files.
    Number(u32),
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Owner, String> {
        if text == "own" {
            return Ok(Owner::Own);
        }
        let number = text.parse().map(Owner::Number);
        number.map_err(|_| format!("{text:?} is neither a number nor \"own\""))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Own => f.write_str("own"),
            Owner::Number(number) => number.fmt(f),
        }
    }
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Owner::Own => serializer.serialize_str("own"),
            Owner::Number(number) => serializer.serialize_u32(*number),
        }
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Owner, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Text(String),
        }
        // The file can have a number without quotes, or a text as on the command line.
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Owner::Number(number)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}
