//! Locks of objects: until when a version stays as it is, whoever wants it gone.

use crate::Timestamp;
use crate::codec::{DecodeError, Reader, Writer};

/// What keeps a version from being removed or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectLock {
    /// Until when, and who may still.
    pub retention: Option<RetainUntil>,
    /// Whether it stays until somebody says that it need not, if that was ever said.
    pub legal_hold: Option<bool>,
}

/// A retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetainUntil {
    /// Who may remove the version before.
    pub mode: RetentionMode,
    /// The first instant at which everybody may.
    pub until: Timestamp,
}

/// Who may remove a version that is retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetentionMode {
    /// Whoever has the permission, and says so.
    Governance = 1,
    /// Nobody.
    Compliance = 2,
}

/// The retention that a bucket gives to new objects whose request names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetentionDefault {
    /// Who may remove the version before its retention ends.
    pub mode: RetentionMode,
    /// How long it lasts, in days of 24 hours.
    pub days: u32,
}

impl RetentionDefault {
    const NANOSECONDS_OF_DAY: i64 = 86_400_000_000_000;
    const NANOSECONDS_OF_MILLISECOND: i64 = 1_000_000;

    /// The retention of an object that is made at this time. It ends at a full millisecond, as S3 shows
    /// times.
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

/// Bits beside the mode: whether anything was said of a legal hold, and whether there is one.
const SAYS_HOLD: u8 = 4;
const HOLDS: u8 = 8;

impl ObjectLock {
    /// Whether it says nothing.
    pub fn is_none(&self) -> bool {
        *self == ObjectLock::default()
    }

    /// Whether the version must stay as it is now; `bypasses` says whether governance does not count.
    pub fn holds(&self, now: Timestamp, bypasses: bool) -> bool {
        let retains = |retention: RetainUntil| {
            now < retention.until && !(bypasses && retention.mode == RetentionMode::Governance)
        };
        self.legal_hold == Some(true) || self.retention.is_some_and(retains)
    }

    /// Gives the object a bucket's default retention, and never shortens or weakens one that it has.
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
            Some(false) => SAYS_HOLD,
            Some(true) => SAYS_HOLD | HOLDS,
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
            SAYS_HOLD => Some(false),
            bits if bits == SAYS_HOLD | HOLDS => Some(true),
            _ => return Err(DecodeError::Field("lock")),
        };
        let until = |mode| Ok(RetainUntil { mode, until: Timestamp(from.signed("until")?) });
        let retention = mode.map(until).transpose()?;
        Ok(ObjectLock { retention, legal_hold })
    }
}
