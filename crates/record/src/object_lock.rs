//! Object lock: protection of a version against removal and change.
//!
//! For example, a retention until 2030 in governance mode protects a version from every client but
//! those that have the bypass permission and use it.

use crate::Timestamp;
use crate::codec::{DecodeError, Reader, Writer};

/// The protection of one version of an object against removal and change (object lock of S3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectLock {
    /// The retention; `None` if the version has none.
    pub retention: Option<RetainUntil>,
    /// True if the version has a legal hold, which protects it without an end until a client
    /// removes the hold. `None` if the hold was never set or removed.
    pub legal_hold: Option<bool>,
}

/// The protection of a version until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetainUntil {
    /// The mode, which decides which clients may bypass the retention.
    pub mode: RetentionMode,
    /// The end: the first instant at which the version is not protected.
    pub until: Timestamp,
}

/// The mode of a retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetentionMode {
    /// A client with the bypass permission may bypass the retention if it requests that.
    Governance = 1,
    /// No client may bypass the retention.
    Compliance = 2,
}

/// The default retention of a bucket: the protection of new objects whose request has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetentionDefault {
    /// The mode of the retention.
    pub mode: RetentionMode,
    /// The length of the retention, in days of 24 hours from the creation of the object.
    pub days: u32,
}

impl RetentionDefault {
    const NANOSECONDS_OF_DAY: i64 = 86_400_000_000_000;
    const NANOSECONDS_OF_MILLISECOND: i64 = 1_000_000;

    /// The retention of an object that is created at this time. Its end is rounded down to a full
    /// millisecond, because S3 shows times in milliseconds.
    pub fn beginning(self, now: Timestamp) -> RetainUntil {
        let length = i64::from(self.days).saturating_mul(Self::NANOSECONDS_OF_DAY);
        let until = now.0.saturating_add(length);
        let until = until - until.rem_euclid(Self::NANOSECONDS_OF_MILLISECOND);
        RetainUntil { mode: self.mode, until: Timestamp(until) }
    }

    pub(crate) fn write(default: Option<RetentionDefault>, to: &mut Writer) {
        match default {
            None => to.u8(0),
            Some(RetentionDefault { mode, days }) => to.u8(mode as u8).varint(u64::from(days)),
        };
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Option<RetentionDefault>, DecodeError> {
        let mode = match from.u8("default retention")? {
            0 => return Ok(None),
            1 => RetentionMode::Governance,
            2 => RetentionMode::Compliance,
            _ => return Err(DecodeError::Field("default retention")),
        };
        Ok(Some(RetentionDefault { mode, days: from.narrow("days")? }))
    }
}

/// Bits next to the mode: whether the legal hold was ever set or removed, and whether it is on.
const HAS_LEGAL_HOLD: u8 = 4;
const LEGAL_HOLD_ON: u8 = 8;

impl ObjectLock {
    /// Returns true if there is neither a retention nor a legal hold that was ever set or removed.
    /// Then nothing is written.
    pub fn is_none(&self) -> bool {
        *self == ObjectLock::default()
    }

    /// Returns true if the version is protected at the time `now`. With `bypasses`, that is, for a
    /// client that may bypass governance mode and requests it, a retention in that mode does not
    /// count.
    pub fn holds(&self, now: Timestamp, bypasses: bool) -> bool {
        let retains = |retention: RetainUntil| {
            now < retention.until && !(bypasses && retention.mode == RetentionMode::Governance)
        };
        self.legal_hold == Some(true) || self.retention.is_some_and(retains)
    }

    /// Applies the default retention of a bucket to an object that is written at the time `now`. If
    /// the object has a retention that has not ended, the later end and the stricter mode of the
    /// two count.
    pub fn retain(&mut self, default: RetainUntil, now: Timestamp) {
        let held = self.retention.filter(|held| now < held.until);
        self.retention = Some(match held {
            Some(held) => RetainUntil {
                mode: held.mode.max(default.mode),
                until: held.until.max(default.until),
            },
            None => default,
        });
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        if self.is_none() {
            return;
        }
        let mode = self.retention.map_or(0, |retention| retention.mode as u8);
        let hold = match self.legal_hold {
            None => 0,
            Some(false) => HAS_LEGAL_HOLD,
            Some(true) => HAS_LEGAL_HOLD | LEGAL_HOLD_ON,
        };
        to.u8(hold | mode);
        if let Some(retention) = self.retention {
            to.signed(retention.until.0);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<ObjectLock, DecodeError> {
        let bits = from.u8("lock")?;
        let mode = match bits & 3 {
            0 => None,
            1 => Some(RetentionMode::Governance),
            2 => Some(RetentionMode::Compliance),
            _ => return Err(DecodeError::Field("lock")),
        };
        let legal_hold = match bits & !3 {
            0 if bits != 0 => None,
            HAS_LEGAL_HOLD => Some(false),
            bits if bits == HAS_LEGAL_HOLD | LEGAL_HOLD_ON => Some(true),
            _ => return Err(DecodeError::Field("lock")),
        };
        let until = |mode| Ok(RetainUntil { mode, until: Timestamp(from.signed("until")?) });
        let retention = mode.map(until).transpose()?;
        Ok(ObjectLock { retention, legal_hold })
    }
}

#[cfg(test)]
mod tests;
