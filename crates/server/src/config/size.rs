//! A number of bytes, with a unit.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes: `4MiB`, `20GB`, or plain digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl Size {
    /// Returns a size of `count` MiB.
    pub(crate) const fn mebibytes(count: u64) -> Size {
        Size(count << 20)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = |_| format!("{text:?} is not a size such as 4MiB or 20GB");
        text.parse().map(|size: ByteSize| Size(size.as_u64())).map_err(wrong)
    }
}

/// The exact number, in the largest unit that divides it.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.iter().find(|(bytes, _)| self.0 > 0 && self.0.is_multiple_of(*bytes)) {
            Some((bytes, unit)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
