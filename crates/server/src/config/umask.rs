//! A umask, in octal: the permissions that a new file does not get.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// All permissions of the owner, the group and the others.
const PERMISSIONS: u32 = 0o777;

/// A umask, parsed from `022`, `0077` or `0o27`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Umask(pub(crate) u32);

impl FromStr for Umask {
    type Err = String;

    fn from_str(text: &str) -> Result<Umask, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let is_octal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = is_octal.then(|| u32::from_str_radix(digits, 8).ok()).flatten();
        let bits = bits.filter(|bits| *bits <= PERMISSIONS);
        bits.map(Umask).ok_or_else(|| format!("{text:?} is not an octal number from 000 to 777"))
    }
}

impl fmt::Display for Umask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03o}", self.0)
    }
}

impl Serialize for Umask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Umask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Umask, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
