//! The length range of a form's file.

use crate::{Code, Fault};

/// The minimum and maximum length in bytes that a form's policy allows for its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRange {
    min: u64,
    max: u64,
}

impl LengthRange {
    /// The range of a policy without a condition on the length: any length is allowed.
    pub const ANY: LengthRange = LengthRange { min: 0, max: u64::MAX };

    pub(super) const fn new(min: u64, max: u64) -> LengthRange {
        LengthRange { min, max }
    }

    /// Returns the range of the lengths that both ranges allow.
    pub(super) fn and(self, other: LengthRange) -> LengthRange {
        LengthRange { min: self.min.max(other.min), max: self.max.min(other.max) }
    }

    /// Returns the maximum length in bytes.
    pub const fn max(self) -> u64 {
        self.max
    }

    /// Checks the number of bytes that have arrived, while the file is incomplete.
    ///
    /// Fails with `EntityTooLarge`.
    pub fn check_so_far(self, bytes: u64) -> Result<(), Fault> {
        if bytes <= self.max {
            return Ok(());
        }
        let why = "Your proposed upload exceeds the maximum allowed object size.";
        Err(Fault::because(Code::EntityTooLarge, why)
            .with("ProposedSize", bytes.to_string())
            .with("MaxSizeAllowed", self.max.to_string()))
    }

    /// Checks the length of a complete file. Fails with `EntityTooLarge` or `EntityTooSmall`.
    pub fn check(self, bytes: u64) -> Result<(), Fault> {
        self.check_so_far(bytes)?;
        if bytes >= self.min {
            return Ok(());
        }
        let why = "Your proposed upload is smaller than the minimum allowed size";
        Err(Fault::because(Code::EntityTooSmall, why)
            .with("ProposedSize", bytes.to_string())
            .with("MinSizeAllowed", self.min.to_string()))
    }
}
